use std::{ops::Range, time::Instant};

use sortie_store::simulation::SimulatedDatabase;

use super::{
    schedule::{self, Verdict},
    world::Folders,
};

/// Schedules of `make test`.
const SCHEDULES: u64 = 2_000;

/// Runs one schedule after the other on this thread.
struct Stage {
    database: Option<SimulatedDatabase>,
    folders: Folders,
}

impl Stage {
    fn new() -> Self {
        Self {
            database: None,
            folders: Folders::make(),
        }
    }

    fn run(&mut self, seed: u64) -> Verdict {
        let fresh = || SimulatedDatabase::new().unwrap();
        let database = self.database.take().unwrap_or_else(fresh);
        let (verdict, database) = schedule::run(seed, database, &self.folders);
        self.database = database;
        verdict
    }
}

/// Runs the schedules of these seeds, up to one that breaks a rule.
fn hold(seeds: Range<u64>) {
    let (mut stage, began) = (Stage::new(), Instant::now());
    for seed in seeds.clone() {
        let verdict = stage.run(seed);
        if let Some(broken) = verdict.broken {
            panic!("seed {seed}: {broken}\nrepeat it by: make simulate SEED={seed}");
        }
    }
    let count = seeds.end - seeds.start;
    println!("{count} schedules in {:?}", began.elapsed());
}

/// The seeds that the environment names, as `scripts/simulate` does, or those of `make test`. One alone shows its log.
#[expect(
    clippy::disallowed_methods,
    reason = "the script says by the environment what to run"
)]
fn seeds(of_the_suite: Range<u64>) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let Some(from) = number("SORTIE_SIMULATE_SEED") else {
        return of_the_suite;
    };
    let count = number("SORTIE_SIMULATE_ROUNDS").unwrap_or(1);
    if count == 1 {
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_timer(super::schedule::Elapsed)
            .with_test_writer()
            .init();
    }
    from..from + count
}

/// A quarter of the schedules each, so that all of the machine's processors take part, and none takes minutes on a busy one.
const QUARTER: u64 = SCHEDULES / 4;

#[test]
fn no_schedule_of_the_first_quarter_breaks_a_rule() {
    hold(seeds(0..QUARTER));
}

#[test]
fn no_schedule_of_the_second_quarter_breaks_a_rule() {
    hold(QUARTER..2 * QUARTER);
}

#[test]
fn no_schedule_of_the_third_quarter_breaks_a_rule() {
    hold(2 * QUARTER..3 * QUARTER);
}

#[test]
fn no_schedule_of_the_last_quarter_breaks_a_rule() {
    hold(3 * QUARTER..SCHEDULES);
}

#[test]
fn a_seed_repeats_its_schedule() {
    let mut stage = Stage::new();
    for seed in 0..30 {
        let first = stage.run(seed);
        assert_eq!(stage.run(seed), first, "seed {seed}");
    }
}
