use std::{ops::Range, time::Instant};

use sortie_store::simulation::{self, SimulatedDatabase};

use super::{
    schedule::{self, Verdict},
    world::Folders,
};

/// Schedules of `make test`. `.ci/run` asks for more.
const SCHEDULES: u64 = 500;

/// Runs schedules one after the other on this thread.
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
        let fresh = || simulation::database().unwrap();
        let database = self.database.take().unwrap_or_else(fresh);
        let (verdict, database) = schedule::run(seed, database, &self.folders);
        self.database = database;
        verdict
    }
}

/// Runs the schedules of these seeds until one breaks a rule.
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

#[expect(
    clippy::disallowed_methods,
    reason = "the script says by the environment what to run"
)]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Returns the seeds from the environment, which `scripts/simulate` sets, or those of a quarter of the suite. A single seed also
/// shows its log.
fn seeds(quarter: u64) -> Range<u64> {
    let Some(from) = number("SORTIE_SIMULATE_SEED") else {
        // A quarter for each test, so that the tests use several processors, and no test takes minutes on a busy machine.
        let count = number("SORTIE_SIMULATE_SCHEDULES").unwrap_or(SCHEDULES) / 4;
        return quarter * count..(quarter + 1) * count;
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

#[test]
fn no_schedule_of_the_first_quarter_breaks_a_rule() {
    hold(seeds(0));
}

#[test]
fn no_schedule_of_the_second_quarter_breaks_a_rule() {
    hold(seeds(1));
}

#[test]
fn no_schedule_of_the_third_quarter_breaks_a_rule() {
    hold(seeds(2));
}

#[test]
fn no_schedule_of_the_last_quarter_breaks_a_rule() {
    hold(seeds(3));
}

#[test]
fn a_seed_repeats_its_schedule() {
    let mut stage = Stage::new();
    for seed in 0..30 {
        let first = stage.run(seed);
        assert_eq!(stage.run(seed), first, "seed {seed}");
    }
}
