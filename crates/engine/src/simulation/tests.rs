use std::time::Instant;

use sortie_store::simulation::SimulatedDatabase;

use super::{schedule, world::Folders};

/// Schedules of `make test`, in each of its parts.
const SCHEDULES: u64 = 200;

fn schedules(from: u64, count: u64) {
    let (mut database, folders) = (None, Folders::make());
    let began = Instant::now();
    let mut simulated = std::time::Duration::ZERO;
    for seed in from..from + count {
        let fresh = || SimulatedDatabase::new().unwrap();
        let (verdict, back) = schedule::run(seed, database.take().unwrap_or_else(fresh), &folders);
        database = back;
        simulated += verdict.took;
        if let Some(broken) = verdict.broken {
            panic!("seed {seed}: {broken}\nrepeat it by: make simulate SEED={seed}");
        }
    }
    eprintln!("{count} schedules of {simulated:?} in {:?}", began.elapsed());
}

#[test]
fn no_schedule_breaks_a_rule() {
    schedules(0, SCHEDULES);
}
