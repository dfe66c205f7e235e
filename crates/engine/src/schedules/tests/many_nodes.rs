//! Exactly one run for each occurrence, with any number of nodes.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;

use super::*;
use crate::schedules::timetable::Timetable;

/// Schedules that collide with the clock changes of two years.
const MANY: [(&str, &str); 6] = [
    ("30 2 * * *", "America/New_York"),
    ("30 1 * * *", "America/New_York"),
    ("30 2 * * *", "Europe/Berlin"),
    ("45 1 * * *", "Australia/Lord_Howe"),
    ("0 0 * * *", "Africa/Cairo"),
    ("@monthly", "America/Santiago"),
];

/// Two years of steps of the clock, forward and back. Three nodes process the due schedules at the same time, and one of them
/// restarts now and then.
#[tokio::test]
async fn three_nodes_start_exactly_one_run_for_each_instant_of_two_years_in_five_zones() {
    let mut rig = Rig::on(TestDatabase::postgres().await.unwrap(), 3).await;
    let mut expected: BTreeMap<ScheduleId, BTreeSet<Timestamp>> = BTreeMap::new();
    let mut all: BTreeSet<(Timestamp, ScheduleId)> = BTreeSet::new();
    for (cron, zone) in MANY {
        let fields =
            json!({"cron": cron, "timezone": zone, "catch_up_window_seconds": limits::CATCH_UP_SECONDS});
        let made = rig.made(fields).await;
        let instants = two_years(&Timetable::new(cron, zone).unwrap());
        all.extend(instants.iter().map(|instant| (*instant, made.id)));
        expected.insert(made.id, instants);
    }
    assert!(all.len() > 3_600, "{}", all.len());
    for (step, now) in leaps(&all).into_iter().enumerate() {
        if step % 10 == 9 {
            // A node with a clock that was set back finds no due schedules.
            rig.clock
                .set(Timestamp::from_micros(now.as_micros() - 40 * 3_600_000_000));
            rig.engines[step % 3].fire_due(now).await.unwrap();
        }
        rig.clock.set(now);
        let outcomes = join_all(rig.engines.iter().map(|engine| engine.fire_due(now))).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        if step % 200 == 199 {
            rig.restart(step % 3).await;
        }
    }
    for (id, instants) in expected {
        let fires = rig.fires(id).await;
        let started: Vec<Timestamp> = fires
            .iter()
            .filter(|fire| fire.outcome == FireOutcome::Started)
            .map(|fire| fire.instant)
            .collect();
        assert_eq!(fires.len(), started.len(), "none was skipped");
        assert_eq!(started, instants.iter().copied().collect::<Vec<_>>());
        let runs: BTreeSet<RunId> = fires.iter().filter_map(|fire| fire.run_id).collect();
        assert_eq!(runs.len(), instants.len());
        assert_eq!(rig.runs_of(id).await, runs);
    }
}

/// The occurrences from [`BEGIN`] to the end of 2027.
fn two_years(timetable: &Timetable) -> BTreeSet<Timestamp> {
    let end = at("2028-01-01T00:00:00Z");
    let mut instants = BTreeSet::new();
    let mut after = at(BEGIN);
    while let Some(next) = timetable.next(after).filter(|next| *next < end) {
        instants.insert(next);
        after = next;
    }
    instants
}

/// The times of the clock steps, as far apart as possible without skipping two occurrences of one schedule.
fn leaps(all: &BTreeSet<(Timestamp, ScheduleId)>) -> Vec<Timestamp> {
    let (mut leaps, mut last) = (Vec::new(), None);
    let mut met: BTreeSet<ScheduleId> = BTreeSet::new();
    for (instant, id) in all {
        if !met.insert(*id) {
            leaps.extend(last);
            met = BTreeSet::from([*id]);
        }
        last = Some(*instant);
    }
    leaps.extend(last);
    leaps
}

impl Rig {
    /// Restarts a node with a new connection to the database.
    async fn restart(&mut self, node: usize) {
        let engine = &self.engines[node];
        engine.shutdown().await;
        let options = (*engine.0.options).clone();
        let store = Store::open(self.database.url()).await.unwrap();
        let sandbox = Err("this test has none.".to_owned());
        self.engines[node] = Engine::start(options, store, sandbox).await.unwrap();
    }

    /// The runs of a schedule that the store has.
    async fn runs_of(&self, id: ScheduleId) -> BTreeSet<RunId> {
        let mut runs = BTreeSet::new();
        let mut before = None;
        loop {
            let filter = sortie_store::runs::RunFilter {
                schedule: Some(id),
                before,
                limit: 500,
                ..sortie_store::runs::RunFilter::default()
            };
            let page = self
                .engine()
                .store()
                .list_runs(self.caller.org, filter)
                .await
                .unwrap()
                .items;
            let Some(last) = page.last() else { return runs };
            before = Some((last.run.created_at, last.run.id));
            runs.extend(page.iter().map(|listed| listed.run.id));
        }
    }
}
