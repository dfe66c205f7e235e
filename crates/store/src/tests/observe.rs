//! Figures of the database for operators.

use prometheus_client::{encoding::text::encode, registry::Registry};

use super::prelude::*;
use crate::installation::Observed;

/// Returns the figure of this name and these labels, as Prometheus reads it.
fn figure(fixture: &super::fixture::Fixture, series: &str) -> Option<f64> {
    let (mut registry, mut text) = (Registry::default(), String::new());
    fixture.store.register_metrics(&mut registry);
    encode(&mut text, &registry).unwrap();
    text.lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

both! {
    async fn an_empty_database_has_nothing_to_watch(fixture: &Fixture) {
        assert_eq!(fixture.store.observe(fixture.now()).await.unwrap(), Observed::default());
    }

    async fn what_waits_is_held_and_is_due_is_counted(fixture: &Fixture, one: OrgId, other: OrgId, node: NodeId) {
        fixture.running(one, node).await;
        let cancelled = fixture.running(one, node).await;
        fixture.store.cancel_run(one, cancelled.run, fixture.now()).await.unwrap();
        let cancelled_at = fixture.get(one, cancelled.run).await.finished_at;
        assert!(cancelled_at.is_some());
        let later = fixture.running(one, node).await;
        fixture.store.cancel_run(one, later.run, fixture.now() + Duration::from_secs(1)).await.unwrap();
        fixture.due(one, node, "a:1").await;
        let due_at = Timestamp::from_micros(fixture.count("SELECT MAX(due_at) FROM delivery").await);
        fixture.calling_back(one, node, "b:1").await;
        fixture.queued(one).await;
        fixture.claim_one(node).await;
        let first = fixture.queued(other).await;
        for org in [one, other, one] {
            fixture.queued(org).await;
        }
        let unretained = fixture.new_unretained(one, node);
        fixture.store.create_run(unretained).await.unwrap();
        let oldest = fixture.get(other, first).await.created_at;
        let seen = fixture.store.observe(fixture.now() + Duration::from_hours(1)).await.unwrap();
        let first_lease_until = seen.first_lease_until;
        let expected = Observed {
            queued: 5,
            oldest_queued_at: Some(oldest),
            starting: 1,
            running: 2,
            settling: 2,
            oldest_settling_at: cancelled_at,
            callbacks_waiting: 1,
            callbacks_due: 1,
            oldest_callback_due_at: Some(due_at),
            nodes: 1,
            lost_nodes: 0,
            first_lease_until,
            late_runs: 0,
            oldest_late_run_at: None,
        };
        assert_eq!(seen, expected);
        assert!(first_lease_until.is_some());
        let before = fixture.store.observe(due_at).await.unwrap();
        assert_eq!((before.callbacks_due, before.oldest_callback_due_at), (1, Some(due_at)));
        let early = Timestamp::from_micros(due_at.as_micros() - 1);
        let before = fixture.store.observe(early).await.unwrap();
        assert_eq!((before.callbacks_waiting, before.callbacks_due, before.oldest_callback_due_at), (1, 0, None));
    }

    async fn the_oldest_of_the_runs_without_retention_counts_as_well(fixture: &Fixture, org: OrgId, node: NodeId) {
        let run = fixture.new_unretained(org, node);
        fixture.store.create_run(run.clone()).await.unwrap();
        fixture.queued(org).await;
        let seen = fixture.store.observe(fixture.now()).await.unwrap();
        assert_eq!((seen.queued, seen.oldest_queued_at), (2, Some(run.created_at)));
    }

    async fn a_node_that_is_lost_and_holds_runs_is_counted_apart(fixture: &Fixture, org: OrgId, lost: NodeId) {
        fixture.running(org, lost).await;
        let alive = fixture.node().await;
        let far = fixture.now() + Duration::from_hours(5);
        fixture.store.sweep(fixture.declaring(alive, far, 0).await).await.unwrap();
        let seen = fixture.store.observe(fixture.now()).await.unwrap();
        let lease_until = fixture.lease_of(alive).await;
        assert_eq!((seen.nodes, seen.lost_nodes, seen.first_lease_until), (1, 1, Some(lease_until)));
    }

    async fn the_store_measures_waits_groups_and_commits(fixture: &Fixture) {
        let before = figure(fixture, "store_commit_seconds_count").unwrap();
        let org = fixture.org().await;
        fixture.queued(org).await;
        fixture.store.observe(fixture.now()).await.unwrap();
        assert!(figure(fixture, "store_commit_seconds_count").unwrap() >= before + 2.0);
        assert!(figure(fixture, "store_group_commands_sum").unwrap() >= 2.0);
        assert!(figure(fixture, "store_queue_wait_seconds_count{access=\"write\"}").unwrap() >= 2.0);
        assert!(figure(fixture, "store_queue_wait_seconds_count{access=\"read\"}").unwrap() >= 1.0);
        assert_eq!(figure(fixture, "store_waiting_commands"), Some(0.0));
        assert!(figure(fixture, "store_threads").unwrap() >= 4.0);
        assert_eq!(figure(fixture, "store_refusals_total"), Some(0.0));
    }
}

#[tokio::test]
async fn the_log_of_sqlite_has_a_size() {
    let fixture = super::fixture::Fixture::sqlite().await;
    // The log is not checkpointed while a reader still uses its pages.
    let mut reader = crate::db::open_sqlite_copy(&fixture.sqlite_file()).unwrap();
    for sql in ["BEGIN", "SELECT id FROM organization"] {
        reader.query_all(sql, crate::db::vals![]).unwrap();
    }
    fixture.org().await;
    assert!(figure(&fixture, "store_wal_bytes").unwrap() > 0.0);
}

#[tokio::test]
async fn on_postgres_no_log_is_ours_to_measure() {
    let fixture = super::fixture::Fixture::postgres().await;
    assert_eq!(figure(&fixture, "store_wal_bytes"), None);
}

#[tokio::test]
async fn an_old_transaction_of_somebody_else_is_seen_on_postgres() {
    let fixture = super::fixture::Fixture::postgres().await;
    let none = fixture.store.dead_rows().await.unwrap().unwrap();
    assert_eq!(none.oldest_snapshot, Duration::ZERO);
    let (dump, connection) = tokio_postgres::connect(fixture.url(), tokio_postgres::NoTls)
        .await
        .unwrap();
    let mut connections = tokio::task::JoinSet::new();
    connections.spawn(connection);
    dump.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT COUNT(*) FROM run")
        .await
        .unwrap();
    let seen = fixture.store.dead_rows().await.unwrap().unwrap();
    assert!(seen.oldest_snapshot > Duration::ZERO, "{seen:?}");
}

#[tokio::test]
async fn sqlite_has_no_dead_rows() {
    let fixture = super::fixture::Fixture::sqlite().await;
    assert_eq!(fixture.store.dead_rows().await.unwrap(), None);
}
