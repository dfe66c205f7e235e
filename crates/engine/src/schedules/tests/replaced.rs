//! Runs that `cancel_other` replaces, if the node that has started the new run does not cancel them.

use super::*;
use crate::{operations::retention, schedules::timer::PAGE};

#[tokio::test]
async fn a_schedule_whose_occurrences_cannot_be_deleted_keeps_no_other() {
    let rig = Rig::sqlite().await;
    let mut schedules = Vec::new();
    for _ in 0..3 {
        schedules.push(rig.made(json!({})).await.id);
    }
    rig.go("2026-01-01T00:10:00Z").await;
    let file = rig.database.url().strip_prefix("sqlite:").unwrap();
    let database = rusqlite::Connection::open(file).unwrap();
    let refuse = format!(
        "CREATE TRIGGER injected BEFORE DELETE ON fire WHEN OLD.schedule_id = '{}' \
         BEGIN SELECT RAISE(ABORT, 'injected'); END",
        schedules[0]
    );
    database.execute_batch(&refuse).unwrap();
    let clock = Clock::manual(at("2026-02-01T00:00:00Z"));
    let day = std::time::Duration::from_hours(24);
    let store = rig.engine().store().clone();
    let deleted = retention::delete_expired(&store, &clock, day).await.unwrap();
    let left = |id: ScheduleId| {
        let sql = "SELECT COUNT(*) FROM fire WHERE schedule_id = ?1";
        database
            .query_row(sql, [id.to_string()], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert!(left(schedules[0]) > 0);
    assert_eq!((left(schedules[1]), left(schedules[2])), (0, 0));
    assert!(deleted.fires >= 2, "{deleted:?}");
}

#[tokio::test]
async fn runs_that_were_replaced_are_cancelled_by_whoever_looks_next() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({"overlap": "cancel_other"})).await.id;
    rig.go("2026-01-01T00:10:00Z").await;
    let first = rig.get(id).await.last_run_id.unwrap();
    rig.clock.set(at("2026-01-01T00:20:00Z"));
    // The node records the new run and then dies, or misses the cancellation.
    rig.engine().deal_with(rig.caller.org, id).await.unwrap();
    assert_eq!(rig.run(first).await.status, RunStatus::Queued);
    let second = rig.get(id).await.last_run_id.unwrap();
    // A run that is started by hand is not replaced.
    let by_hand = rig.engine().trigger_schedule(&rig.caller, id).await.unwrap().id;
    rig.go("2026-01-01T00:21:00Z").await;
    assert_eq!(rig.run(first).await.status, RunStatus::Cancelled);
    for open in [second, by_hand] {
        assert_eq!(rig.run(open).await.status, RunStatus::Queued);
    }
    assert!(
        rig.engine()
            .store()
            .replaced_runs(None, 5)
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn a_replaced_run_that_cannot_be_read_keeps_no_other_from_it() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({"overlap": "cancel_other"})).await.id;
    rig.go("2026-01-01T00:10:00Z").await;
    let first = rig.get(id).await.last_run_id.unwrap();
    for number in 0..PAGE {
        let file = rig.database.url().strip_prefix("sqlite:").unwrap();
        let database = rusqlite::Connection::open(file).unwrap();
        let sql = "INSERT INTO replaced_run (run_id, org_id) VALUES (?1, 'nobody')";
        assert_eq!(database.execute(sql, [format!("broken {number}")]).unwrap(), 1);
    }
    rig.go("2026-01-01T00:20:00Z").await;
    assert_eq!(rig.run(first).await.status, RunStatus::Cancelled);
}

#[tokio::test]
async fn a_replaced_run_that_cannot_be_cancelled_keeps_no_other_from_it() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({"overlap": "allow"})).await.id;
    let mut open = Vec::new();
    for to in ["00:10", "00:20", "00:30"] {
        rig.go(&format!("2026-01-01T{to}:00Z")).await;
        open.push(rig.get(id).await.last_run_id.unwrap());
    }
    rig.patched(id, json!({"overlap": "cancel_other"})).await;
    let damaged = |amount| {
        let file = rig.database.url().strip_prefix("sqlite:").unwrap();
        let sql = "UPDATE run SET max_cost_micros = ?1 WHERE id = ?2";
        let database = rusqlite::Connection::open(file).unwrap();
        let before: i64 = database
            .query_row(
                "SELECT max_cost_micros FROM run WHERE id = ?1",
                [open[1].to_string()],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(database.execute(sql, (amount, open[1].to_string())).unwrap(), 1);
        before
    };
    let amount = damaged(-1);
    rig.clock.set(at("2026-01-01T00:40:00Z"));
    rig.engine().fire_due(rig.clock.now()).await.unwrap_err();
    damaged(amount);
    for (run, status) in open
        .iter()
        .zip([RunStatus::Cancelled, RunStatus::Queued, RunStatus::Cancelled])
    {
        assert_eq!(rig.run(*run).await.status, status);
    }
    rig.go("2026-01-01T00:41:00Z").await;
    assert_eq!(rig.run(open[1]).await.status, RunStatus::Cancelled);
}
