//! The index of each list, count and deletion, on data and statistics that mislead: every run of an organization has
//! succeeded, belongs to one schedule and has one tag, and every change of it was made by one key with one action. A
//! planner that believes this finds a rare run by a walk over all of them.

use std::collections::BTreeSet;

use sortie_api::{KeyId, OrgId, RunStatus, ScheduleId, Timestamp, usage::Day};

use super::fixture::Fixture;
use crate::{
    AuditFilter, Batch, Expiry, OpenCallbacks, RunFilter, Store, UsageDue, UsageQuery,
    db::{Dialect, Tx, vals},
};

/// Number of runs, and of entries of the audit log.
pub(super) const ROWS: i64 = 10_000;

/// Creation time of the first run. Each of the others is created a second after the one before.
pub(super) const FIRST: i64 = 1_795_132_800_000_000;

pub(super) const SECOND: i64 = 1_000_000;

/// End of the last second with a run.
const END: i64 = FIRST + ROWS * SECOND;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

pub(super) fn schedule() -> ScheduleId {
    "sched_01hf7yat00e0080000000000aa".parse().unwrap()
}

pub(super) fn key() -> KeyId {
    "key_01kafs6w1cefkstv6qr1ptb0mn".parse().unwrap()
}

/// Statements that fill the tables with rows of organization `$1`. `$2` is the schedule, `$3` the key, `$4` the number.
const FILL: [&str; 3] = [
    "WITH RECURSIVE n (i) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT n.i + 1 FROM n WHERE n.i + 1 < CAST($4 AS BIGINT)) \
     INSERT INTO run (id, org_id, status, outcome, attempt, last_event, created_at, started_at, finished_at, \
     max_cost_micros, cost_micros, billing_pending, timeout_seconds, schedule_id, key_id, zero_data_retention) \
     SELECT 'run_01hf7yat00e008000000' || CAST(100000 + n.i AS TEXT), $1, 'succeeded', 'succeeded', 1, 0, \
     1795132800000000 + n.i * 1000000, 1, 1795132800000000 + n.i * 1000000, 1, 1, 0, 1, $2, $3, 1 FROM n",
    "INSERT INTO run_tag (org_id, tag, created_at, run_id) SELECT $1, 'nightly', r.created_at, r.id FROM run r \
     WHERE r.schedule_id = $2 AND r.key_id = $3 AND r.max_cost_micros < CAST($4 AS BIGINT)",
    "INSERT INTO audit (org_id, at, id, action, target, key_id) SELECT $1, r.created_at, REPLACE(r.id, 'run', 'aud'), 'a.put', 't', $3 \
     FROM run r WHERE r.schedule_id = $2 AND r.max_cost_micros < CAST($4 AS BIGINT)",
];

/// Adds a run of the schedule. Returns the schedule.
pub(super) async fn scheduled(fixture: &Fixture, org: OrgId) -> ScheduleId {
    let mut run = fixture.new_run(org);
    run.labels.schedule = Some(schedule());
    fixture.store.create_run(run).await.unwrap();
    schedule()
}

/// Fills the tables with [`ROWS`] rows of an organization.
pub(super) async fn fill(fixture: &Fixture, org: OrgId) {
    let filled = fixture.store.db.write(move |tx: &mut dyn Tx| {
        for sql in FILL {
            assert_eq!(
                tx.exec(sql, vals![org, schedule(), key(), ROWS])?,
                ROWS.unsigned_abs()
            );
        }
        Ok(())
    });
    filled.await.unwrap();
}

/// A database with rows that mislead, measured by its own `ANALYZE`, which a node has opened since.
async fn misled(fixture: Fixture) -> (Fixture, OrgId) {
    let org = fixture.org().await;
    fill(&fixture, org).await;
    let measured = fixture
        .store
        .db
        .write(|tx: &mut dyn Tx| tx.exec("ANALYZE", vals![]));
    measured.await.unwrap();
    let Fixture { store, database, .. } = fixture;
    drop(store);
    let store = Store::open(database.url()).await.unwrap();
    (Fixture::with(store, database, None), org)
}

fn runs(status: Option<RunStatus>, schedule: Option<ScheduleId>) -> RunFilter {
    RunFilter {
        status,
        schedule,
        tag: None,
        before: None,
        limit: 10,
    }
}

fn entries(action: Option<&str>, target: Option<&str>, key: Option<KeyId>) -> AuditFilter {
    AuditFilter {
        action: action.map(str::to_owned),
        target: target.map(str::to_owned),
        key,
        limit: 10,
        ..AuditFilter::default()
    }
}

/// Indexes among which a planner may choose wrongly. The primary keys of `run`, by which single runs are found, are none.
const CHOICES: [&str; 12] = [
    "run_list",
    "run_outcome",
    "run_schedule",
    "run_schedule_outcome",
    "run_idempotency",
    "queue_waiting",
    "queue_claimed",
    "queue_node",
    "audit_action",
    "audit_target",
    "audit_key",
    "audit_pkey",
];

/// Number of parameters of a statement.
fn parameters(sql: &str) -> usize {
    (1..30)
        .filter(|number| sql.contains(&format!("${number}")))
        .count()
}

/// Returns the indexes among [`CHOICES`] that a statement reads.
async fn indexes(fixture: &Fixture, sql: &'static str) -> BTreeSet<String> {
    let (count, number) = (parameters(sql), fixture.number());
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let statements = match fixture.dialect() {
        Dialect::Sqlite => vec![(leak(format!("EXPLAIN QUERY PLAN {sql}")), count)],
        Dialect::Postgres => {
            let arguments = match count {
                0 => String::new(),
                count => format!("({})", vec!["NULL"; count].join(", ")),
            };
            let text = Dialect::Postgres.translate(sql);
            vec![
                (leak(format!("PREPARE index_{number} AS {text}")), 0),
                (
                    leak(format!("EXPLAIN (COSTS OFF) EXECUTE index_{number}{arguments}")),
                    0,
                ),
            ]
        }
    };
    let column = match fixture.dialect() {
        Dialect::Sqlite => 3,
        Dialect::Postgres => 0,
    };
    let plan = fixture.store.db.write(move |tx: &mut dyn Tx| {
        let mut rows = Vec::new();
        for (sql, count) in &statements {
            rows = tx.query_all(sql, (0..*count).flat_map(|_| vals![0_i64]).collect())?;
        }
        Ok(rows)
    });
    let plan = plan.await.unwrap();
    let steps: Vec<String> = plan
        .iter()
        .map(|row| row.text(column).unwrap().to_owned())
        .collect();
    let names = steps.iter().filter_map(|step| {
        let (_, after) = step.split_once("INDEX ").or_else(|| step.split_once(" using "))?;
        after.split_whitespace().next().map(str::to_owned)
    });
    // SQLite does not name the primary key of a table.
    let walks_log = steps
        .iter()
        .any(|step| step.starts_with("SEARCH audit USING PRIMARY KEY"));
    names
        .chain(walks_log.then(|| "audit_pkey".to_owned()))
        .filter(|name| CHOICES.contains(&name.as_str()))
        .collect()
}

/// Checks that the statements which `command` runs read `expected` and no other index among [`CHOICES`].
async fn reads<T>(fixture: &Fixture, command: impl Future<Output = crate::Result<T>>, expected: &[&str]) {
    let before = fixture.store.db.faults().statements();
    command.await.unwrap();
    let all = fixture.store.db.faults().statements();
    let mut read = BTreeSet::new();
    let mut texts = Vec::new();
    for sql in all.difference(&before) {
        read.extend(indexes(fixture, sql).await);
        texts.push(*sql);
    }
    let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(read, expected, "{texts:#?}");
}

async fn the_lists_read_their_indexes(fixture: Fixture) {
    let (fixture, org) = misled(fixture).await;
    let (store, failed) = (&fixture.store, Some(RunStatus::Failed));
    let list = |status, schedule| store.list_runs(org, runs(status, schedule));
    reads(&fixture, list(None, None), &["run_list"]).await;
    reads(&fixture, list(failed, None), &["run_outcome"]).await;
    reads(&fixture, list(None, Some(schedule())), &["run_schedule"]).await;
    reads(
        &fixture,
        list(failed, Some(schedule())),
        &["run_schedule_outcome"],
    )
    .await;
    let open = list(Some(RunStatus::Running), Some(schedule()));
    reads(&fixture, open, &["run_schedule_outcome"]).await;
    reads(&fixture, list(Some(RunStatus::Running), None), &["queue_claimed"]).await;
    let waiting = list(Some(RunStatus::Queued), None);
    // The other half was read by the list above.
    reads(&fixture, waiting, &["queue_waiting"]).await;
    let audit = |action, target, key| store.list_audit(org, entries(action, target, key));
    reads(&fixture, audit(None, None, None), &["audit_pkey"]).await;
    reads(&fixture, audit(Some("a.get"), None, None), &["audit_action"]).await;
    reads(&fixture, audit(None, Some("u"), None), &["audit_target"]).await;
    reads(&fixture, audit(None, None, Some(key())), &["audit_key"]).await;
}

async fn counts_and_deletions_read_their_indexes(fixture: Fixture) {
    let (fixture, org) = misled(fixture).await;
    let store = &fixture.store;
    let query = UsageQuery {
        from: Day::of(at(FIRST)),
        to: Day::of(at(END)),
        by: Vec::new(),
        after: None,
        limit: 10,
    };
    reads(&fixture, store.usage(org, query), &["run_list"]).await;
    reads(&fixture, store.usage_due(at(END), None, 10), &["run_list"]).await;
    let due = UsageDue {
        org,
        counted_until: at(0),
        next_run: at(FIRST),
    };
    let counted = ["queue_claimed", "queue_waiting", "run_list"];
    reads(&fixture, store.count_usage(due, 0), &counted).await;
    let expiry = Expiry {
        org,
        finished_before: at(END),
        created_before: at(END),
        check_at: at(END),
        open_callbacks: OpenCallbacks::Wait,
    };
    let batch = Batch {
        runs: 10,
        events: 100,
    };
    reads(
        &fixture,
        store.delete_expired_runs(expiry, batch),
        &["run_outcome"],
    )
    .await;
}

#[tokio::test]
async fn lists_read_their_indexes_on_sqlite() {
    the_lists_read_their_indexes(Fixture::sqlite().await).await;
}

#[tokio::test]
async fn lists_read_their_indexes_on_postgres() {
    the_lists_read_their_indexes(Fixture::postgres().await).await;
}

#[tokio::test]
async fn counts_and_deletions_read_their_indexes_on_sqlite() {
    counts_and_deletions_read_their_indexes(Fixture::sqlite().await).await;
}

#[tokio::test]
async fn counts_and_deletions_read_their_indexes_on_postgres() {
    counts_and_deletions_read_their_indexes(Fixture::postgres().await).await;
}

/// Number of steps that `SQLite` takes for a command.
async fn steps<T>(fixture: &Fixture, command: impl Future<Output = crate::Result<T>>) -> u64 {
    fixture.store.db.faults().steps();
    command.await.unwrap();
    fixture.store.db.faults().steps()
}

/// A walk over all runs takes several steps for each of them.
const FEW: u64 = ROWS.unsigned_abs();

#[tokio::test]
async fn a_rare_status_costs_no_walk_on_sqlite() {
    let (fixture, org) = misled(Fixture::sqlite().await).await;
    let store = &fixture.store;
    for (status, schedule) in [
        (Some(RunStatus::Failed), None),
        (Some(RunStatus::Failed), Some(schedule())),
        (Some(RunStatus::Running), Some(schedule())),
    ] {
        let found = steps(&fixture, store.list_runs(org, runs(status, schedule))).await;
        assert!(found < FEW, "{status:?} {schedule:?}: {found}");
    }
}

#[tokio::test]
async fn what_is_counted_is_read_from_where_the_count_has_come_to_on_sqlite() {
    let (fixture, org) = misled(Fixture::sqlite().await).await;
    let store = &fixture.store;
    // All but the runs of the last minute are counted.
    let counted_until = at(END - 60 * SECOND);
    let counted = store.db.write(move |tx: &mut dyn Tx| {
        tx.exec(
            "UPDATE organization SET usage_until = $2 WHERE id = $1",
            vals![org, counted_until],
        )
    });
    counted.await.unwrap();
    let found = steps(&fixture, store.usage_due(at(END), None, 10)).await;
    assert!(found < FEW, "{found}");
    let query = UsageQuery {
        from: Day::of(at(FIRST)),
        to: Day::of(at(END)),
        by: Vec::new(),
        after: None,
        limit: 10,
    };
    let sums = store.usage(org, query.clone()).await.unwrap();
    assert_eq!(sums[0].runs, 60, "the others are in no sum");
    // Each of the 60 costs a few dozen steps.
    let found = steps(&fixture, store.usage(org, query)).await;
    assert!(found < 60 * 200, "{found}");
    let due = UsageDue {
        org,
        counted_until,
        next_run: counted_until,
    };
    let found = steps(&fixture, store.count_usage(due, 0)).await;
    assert!(found < 60 * 200, "{found}");
}
