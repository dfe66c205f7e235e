//! The index of each list, count and deletion, on misleading data and statistics: every run of an organization has
//! succeeded, belongs to one schedule and has one tag, and every change of it was made by one key with one action. A planner
//! that relies on this finds a rare run by a walk over all of them.

use sortie_api::usage::Day;
use sortie_testkit::list;

use super::{
    examined::{Bound, within},
    prelude::*,
    usage::leaving,
};
use crate::money::{UsageDue, UsageQuery};

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

/// A schedule with one run.
fn rare_schedule() -> ScheduleId {
    "sched_01hf7yat00e0080000000000bb".parse().unwrap()
}

pub(super) fn key() -> KeyId {
    "key_01kafs6w1cefkstv6qr1ptb0mn".parse().unwrap()
}

/// Number of rows that one statement adds. A server under load adds them well within the limit of a statement.
const PORTION: i64 = 1_000;

/// Statements that add [`PORTION`] rows of organization `$1`. `$2` is the schedule, `$3` the key, `$4` the number of the
/// first row, `$5` that of the row after the last one.
const FILL: [&str; 3] = [
    "WITH RECURSIVE n (i) AS (SELECT CAST($4 AS BIGINT) UNION ALL SELECT n.i + 1 FROM n WHERE n.i + 1 < CAST($5 AS BIGINT)) \
     INSERT INTO run (id, org_id, status, outcome, attempt, last_event, created_at, started_at, finished_at, \
     max_cost_micros, cost_micros, billing_pending, timeout_seconds, schedule_id, key_id, workflow, zero_data_retention) \
     SELECT 'run_01hf7yat00e008000000' || CAST(100000 + n.i AS TEXT), $1, 'succeeded', 'succeeded', 1, 0, \
     1795132800000000 + n.i * 1000000, 1, 1795132800000000 + n.i * 1000000, 1, 1, 0, 1, $2, $3, 'report', 1 FROM n",
    "INSERT INTO run_label (org_id, label, created_at, run_id) SELECT $1, 'nightly', r.created_at, r.id FROM run r \
     WHERE r.schedule_id = $2 AND r.key_id = $3 AND r.created_at >= 1795132800000000 + CAST($4 AS BIGINT) * 1000000 \
     AND r.created_at < 1795132800000000 + CAST($5 AS BIGINT) * 1000000",
    "INSERT INTO audit (org_id, at, id, action, target, actor_id) SELECT $1, r.created_at, REPLACE(r.id, 'run', 'aud'), 'a.put', 't', $3 \
     FROM run r WHERE r.schedule_id = $2 AND r.created_at >= 1795132800000000 + CAST($4 AS BIGINT) * 1000000 \
     AND r.created_at < 1795132800000000 + CAST($5 AS BIGINT) * 1000000",
];

/// Fills the queue with a row for each run, as if all of them waited.
const QUEUE: &str = "INSERT INTO queue (run_id, org_id, enqueued_at) SELECT r.id, r.org_id, r.created_at FROM run r WHERE r.org_id = $1";

/// Gives the first run another schedule.
const RARE: &str = "UPDATE run SET schedule_id = $1 WHERE created_at = 1795132800000000";

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
        for portion in 0..ROWS / PORTION {
            let first = portion * PORTION;
            for sql in FILL {
                let added = tx.exec(sql, vals![org, schedule(), key(), first, first + PORTION])?;
                assert_eq!(added, PORTION.unsigned_abs());
            }
        }
        Ok(())
    });
    filled.await.unwrap();
}

/// A database with rows that mislead, measured by its own `ANALYZE`, which a node has opened since.
async fn misled(fixture: Fixture) -> (Fixture, OrgId) {
    let org = fixture.org().await;
    fill(&fixture, org).await;
    let others = fixture.store.db.write(move |tx: &mut dyn Tx| {
        tx.exec(QUEUE, vals![org])?;
        tx.exec(RARE, vals![rare_schedule()])
    });
    assert_eq!(others.await.unwrap(), 1);
    let measured = fixture.store.db.write(|tx: &mut dyn Tx| {
        for sql in [
            "ANALYZE run",
            "ANALYZE run_label",
            "ANALYZE queue",
            "ANALYZE audit",
        ] {
            tx.exec(sql, vals![])?;
        }
        Ok(())
    });
    measured.await.unwrap();
    let Fixture { store, database, .. } = fixture;
    drop(store);
    let store = Store::open(database.url()).await.unwrap();
    (Fixture::with(store, database, None), org)
}

fn runs(status: Option<RunStatus>, schedule: Option<ScheduleId>) -> RunFilter {
    RunFilter {
        statuses: status.into_iter().collect(),
        schedule,
        limit: 10,
        ..RunFilter::default()
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
const CHOICES: [&str; 14] = list! {
    "run_list", "run_outcome", "run_workflow", "run_schedule", "run_schedule_outcome", "run_idempotency", "queue_waiting",
    "queue_claimed", "queue_node", "audit_action", "audit_target", "audit_actor", "audit_pkey", "run_label_pkey",
};

/// Primary keys among [`CHOICES`] as a plan of `SQLite` has them, which does not name them.
const UNNAMED: [(&str, &str); 2] = [
    ("SEARCH audit USING PRIMARY KEY", "audit_pkey"),
    ("SEARCH t USING PRIMARY KEY", "run_label_pkey"),
];

/// Number of parameters of a statement.
fn parameters(sql: &str) -> usize {
    (1..100)
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
    let unnamed = UNNAMED.iter().filter_map(|(start, name)| {
        let is_read = steps.iter().any(|step| step.starts_with(start));
        is_read.then(|| (*name).to_owned())
    });
    names
        .chain(unnamed)
        .filter(|name| CHOICES.contains(&name.as_str()))
        .collect()
}

/// Checks the indexes among [`CHOICES`] that the statements of `command` read: those of each statement that reads any, in
/// order, separated by spaces.
async fn reads<T>(fixture: &Fixture, command: impl Future<Output = crate::Result<T>>, expected: &[&str]) {
    let faults = fixture.store.db.faults();
    faults.watch();
    command.await.unwrap();
    let (mut read, mut texts) = (Vec::new(), Vec::new());
    for (sql, _) in faults.watched() {
        let names: Vec<String> = indexes(fixture, sql).await.into_iter().collect();
        texts.push(sql);
        read.extend((!names.is_empty()).then(|| names.join(" ")));
    }
    assert_eq!(read, expected, "{texts:#?}");
}

async fn the_lists_read_their_indexes(fixture: Fixture) {
    let (fixture, org) = misled(fixture).await;
    let (store, failed) = (&fixture.store, Some(RunStatus::Failed));
    let list = |status, schedule| store.list_runs(org, runs(status, schedule));
    reads(&fixture, list(None, None), &["run_list"]).await;
    reads(&fixture, list(failed, None), &["run_outcome"]).await;
    // The first statement reads the organization of the schedule.
    let of_schedule = list(None, Some(schedule()));
    reads(&fixture, of_schedule, &["run_schedule", "run_schedule"]).await;
    for status in [failed, Some(RunStatus::Running)] {
        let expected = ["run_schedule", "run_schedule_outcome"];
        reads(&fixture, list(status, Some(schedule())), &expected).await;
    }
    reads(&fixture, list(Some(RunStatus::Running), None), &["queue_claimed"]).await;
    let waiting = list(Some(RunStatus::Queued), None);
    reads(&fixture, waiting, &["queue_waiting", "queue_claimed"]).await;
}

async fn lists_by_further_properties_read_the_index_of_what_is_rarest(fixture: Fixture) {
    let (fixture, org) = misled(fixture).await;
    let list = |filter| fixture.store.list_runs(org, RunFilter { limit: 10, ..filter });
    let of = |workflow: &str| RunFilter {
        workflow: Some(workflow.to_owned()),
        ..RunFilter::default()
    };
    for workflow in ["report", "rare"] {
        reads(&fixture, list(of(workflow)), &["run_workflow"]).await;
    }
    let failed = RunFilter {
        statuses: vec![RunStatus::Failed],
        ..of("report")
    };
    reads(
        &fixture,
        list(failed),
        &["run_workflow", "run_outcome", "run_label_pkey run_outcome"],
    )
    .await;
    let rare = RunFilter {
        statuses: vec![RunStatus::Succeeded],
        ..of("rare")
    };
    reads(
        &fixture,
        list(rare),
        &["run_workflow", "run_outcome", "run_label_pkey run_workflow"],
    )
    .await;
    let since = RunFilter {
        since: Some(at(FIRST)),
        ..RunFilter::default()
    };
    reads(&fixture, list(since), &["run_list", "run_label_pkey run_list"]).await;
    let of_key = RunFilter {
        key: Some(key()),
        statuses: vec![RunStatus::Failed],
        ..RunFilter::default()
    };
    reads(
        &fixture,
        list(of_key),
        &["run_outcome", "run_label_pkey run_outcome"],
    )
    .await;
    let both = vec![RunStatus::Failed, RunStatus::TimedOut];
    let several = RunFilter {
        statuses: both,
        ..RunFilter::default()
    };
    reads(&fixture, list(several), &["run_outcome", "run_outcome"]).await;
    let named = RunFilter {
        ids: vec![fixture.run_id()],
        ..RunFilter::default()
    };
    // Each run is found by its id, and its tag, of which the filter has none, by the key of tags.
    reads(&fixture, list(named), &["run_label_pkey"]).await;
}

async fn lists_by_pairs_of_metadata_read_the_index_of_labels(fixture: Fixture) {
    let (fixture, org) = misled(fixture).await;
    let list = |pairs: &[(&str, &str)], status| {
        let pairs = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let filter = RunFilter {
            metadata: pairs.collect(),
            ..runs(status, None)
        };
        fixture.store.list_runs(org, filter)
    };
    reads(&fixture, list(&[("a", "b")], None), &["run_label_pkey"]).await;
    let both = [("a", "b"), ("c", "d")];
    // The entries that a walk ends at by either pair, then the walk by the rarer one.
    reads(&fixture, list(&both, None), &["run_label_pkey"; 3]).await;
    let failed = list(&both, Some(RunStatus::Failed));
    reads(
        &fixture,
        failed,
        &[
            "run_label_pkey",
            "run_label_pkey",
            "run_outcome",
            "run_label_pkey",
        ],
    )
    .await;
}

async fn the_audit_log_is_read_by_its_indexes(fixture: Fixture) {
    let (fixture, org) = misled(fixture).await;
    let store = &fixture.store;
    let audit = |action, target, key| store.list_audit(org, entries(action, target, key));
    reads(&fixture, audit(None, None, None), &["audit_pkey"]).await;
    reads(&fixture, audit(Some("a.get"), None, None), &["audit_action"]).await;
    reads(&fixture, audit(None, Some("u"), None), &["audit_target"]).await;
    reads(&fixture, audit(None, None, Some(key())), &["audit_actor"]).await;
    // With several filters the log is read by the rarest.
    let by_key = ["audit_actor", "audit_action", "audit_actor"];
    reads(&fixture, audit(Some("a.put"), None, Some(key())), &by_key).await;
    let by_action = ["audit_actor", "audit_action", "audit_action"];
    reads(&fixture, audit(Some("a.get"), None, Some(key())), &by_action).await;
    let by_target = ["audit_target", "audit_action", "audit_target"];
    reads(&fixture, audit(Some("a.put"), Some("u"), None), &by_target).await;
    let by_target = ["audit_target", "audit_actor", "audit_action", "audit_target"];
    reads(&fixture, audit(Some("a.put"), Some("u"), Some(key())), &by_target).await;
}

async fn lists_by_tag_read_the_index_of_what_is_rarer(fixture: Fixture) {
    let (fixture, org) = misled(fixture).await;
    let (store, failed) = (&fixture.store, Some(RunStatus::Failed));
    let (common, rare) = (Some(schedule()), Some(rare_schedule()));
    let list = |tag: &str, status, schedule| {
        let tag = Some(tag.to_owned());
        store.list_runs(
            org,
            RunFilter {
                tag,
                ..runs(status, schedule)
            },
        )
    };
    let nightly = |status, schedule| list("nightly", status, schedule);
    reads(&fixture, nightly(None, None), &["run_label_pkey"]).await;
    // The entries that a walk ends at by either way, then the walk by the rarer one.
    let by_outcome = ["run_label_pkey", "run_outcome", "run_label_pkey run_outcome"];
    reads(&fixture, nightly(failed, None), &by_outcome).await;
    let by_tag = ["run_label_pkey", "run_outcome", "run_label_pkey"];
    reads(&fixture, nightly(Some(RunStatus::Succeeded), None), &by_tag).await;
    reads(&fixture, list("rare", failed, None), &by_tag).await;
    let by_schedule = [
        "run_schedule",
        "run_label_pkey",
        "run_schedule",
        "run_label_pkey run_schedule",
    ];
    reads(&fixture, nightly(None, rare), &by_schedule).await;
    let by_tag = ["run_schedule", "run_label_pkey", "run_schedule", "run_label_pkey"];
    reads(&fixture, nightly(None, common), &by_tag).await;
    let by_both = [
        "run_schedule",
        "run_label_pkey",
        "run_schedule_outcome",
        "run_label_pkey run_schedule_outcome",
    ];
    reads(&fixture, nightly(failed, common), &by_both).await;
    let emptied = store
        .db
        .write(|tx: &mut dyn Tx| tx.exec("DELETE FROM queue", vals![]));
    assert_eq!(emptied.await.unwrap(), ROWS.unsigned_abs());
    let waiting = [
        "run_label_pkey",
        "queue_waiting",
        "queue_waiting run_label_pkey",
        "queue_claimed run_label_pkey",
    ];
    reads(&fixture, nightly(Some(RunStatus::Queued), None), &waiting).await;
    let held = ["run_label_pkey", "queue_claimed", "queue_claimed run_label_pkey"];
    reads(&fixture, nightly(Some(RunStatus::Running), None), &held).await;
    let of_schedule = [&["run_schedule"][..], &held].concat();
    reads(&fixture, nightly(Some(RunStatus::Running), common), &of_schedule).await;
}

async fn schedules_read_their_runs_by_their_index(fixture: Fixture) {
    let (fixture, org) = misled(fixture).await;
    let store = &fixture.store;
    let open = store.open_runs(org, (schedule(), 1), 5);
    reads(&fixture, open, &["run_schedule_outcome"]).await;
    let recent = store.recent_outcomes(org, schedule(), (at(FIRST), 5));
    reads(&fixture, recent, &["run_schedule"]).await;
}

async fn the_feed_reads_its_indexes(fixture: Fixture) {
    let (fixture, org) = misled(fixture).await;
    let store = &fixture.store;
    let expected = ["run_list", "queue_waiting", "queue_claimed"];
    reads(&fixture, store.run_states(org, 5, 5), &expected).await;
    within(&fixture, FEW, store.run_states(org, 5, 5)).await;
    // Each run is found by its id.
    let named = ["run_01hf7yat00e008000000100001", "run_01hf7yat00e008000000100002"];
    let named: Vec<RunId> = named.iter().map(|id| id.parse().unwrap()).collect();
    reads(&fixture, store.runs_of_feed(org, named.clone()), &[]).await;
    let found = within(&fixture, FEW, store.runs_of_feed(org, named.clone())).await;
    assert_eq!(found.iter().map(|run| run.id).collect::<Vec<_>>(), named);
}

async fn checks_and_the_erasure_read_their_indexes(fixture: Fixture) {
    let (fixture, org) = misled(fixture).await;
    let store = &fixture.store;
    reads(&fixture, store.check_charges(org, None, 10), &["run_list"]).await;
    let credits = store.check_credits(None, 10);
    reads(&fixture, credits, &["queue_claimed queue_waiting"]).await;
    let unsettled = store.unsettled_runs(org, None, 10);
    reads(&fixture, unsettled, &["queue_waiting", "queue_claimed"]).await;
    reads(&fixture, store.uncounted_usage(org), &["run_list"]).await;
    let erased = store.organization_erased(org, at(END), at(END));
    reads(&fixture, erased, &["run_list"]).await;
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
        are_many: true,
    };
    let counted = list! {
        "run_list", "queue_claimed queue_waiting", "queue_claimed queue_waiting", "run_list", "run_list",
    };
    reads(&fixture, store.count_usage(due, leaving(0)), &counted).await;
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
        store.delete_expired_runs(expiry, batch, &mut crate::runs::Undeletable::default()),
        // For each final status.
        &["run_outcome"; 5],
    )
    .await;
}

/// Each of these on both databases.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::tests::fixture::Fixture::sqlite().await).await;
            })+
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::tests::fixture::Fixture::postgres().await).await;
            })+
        }
    };
}

on_both![
    the_lists_read_their_indexes,
    lists_by_further_properties_read_the_index_of_what_is_rarest,
    lists_by_pairs_of_metadata_read_the_index_of_labels,
    lists_by_tag_read_the_index_of_what_is_rarer,
    the_audit_log_is_read_by_its_indexes,
    schedules_read_their_runs_by_their_index,
    the_feed_reads_its_indexes,
    counts_and_deletions_read_their_indexes,
    checks_and_the_erasure_read_their_indexes,
    a_rare_status_costs_no_walk,
    what_is_counted_is_read_from_where_the_count_has_come_to,
    checks_and_the_erasure_go_on_from_where_they_have_come_to,
];

/// Maximum cost of reading a few of the rows. A walk over all of them takes several steps for each on `SQLite`, and reads
/// each on `PostgreSQL`.
const FEW: Bound = Bound {
    steps: ROWS.unsigned_abs(),
    rows: 200,
    of_a_scan: 100,
};

/// Time before the last 60 runs.
const LAST_MINUTE: i64 = END - 60 * SECOND;

/// Cost of the runs of the last minute at most: a few dozen steps for each.
const MINUTE: Bound = Bound {
    steps: 60 * 200,
    rows: 60 * 4 + 10,
    of_a_scan: 60,
};

async fn a_rare_status_costs_no_walk(fixture: Fixture) {
    let (fixture, org) = misled(fixture).await;
    for (status, schedule) in [
        (Some(RunStatus::Failed), None),
        (Some(RunStatus::Failed), Some(schedule())),
        (Some(RunStatus::Running), Some(schedule())),
    ] {
        within(
            &fixture,
            FEW,
            fixture.store.list_runs(org, runs(status, schedule)),
        )
        .await;
    }
}

async fn set_counted(fixture: &Fixture, org: OrgId) {
    let counted = fixture.store.db.write(move |tx: &mut dyn Tx| {
        tx.exec(
            "UPDATE organization SET usage_until = $2 WHERE id = $1",
            vals![org, LAST_MINUTE],
        )
    });
    assert_eq!(counted.await.unwrap(), 1);
}

async fn what_is_counted_is_read_from_where_the_count_has_come_to(fixture: Fixture) {
    let (fixture, org) = misled(fixture).await;
    let store = &fixture.store;
    set_counted(&fixture, org).await;
    within(&fixture, FEW, store.usage_due(at(END), None, 10)).await;
    let query = UsageQuery {
        from: Day::of(at(FIRST)),
        to: Day::of(at(END)),
        by: Vec::new(),
        after: None,
        limit: 10,
    };
    let sums = within(&fixture, MINUTE, store.usage(org, query)).await;
    assert_eq!(sums[0].runs, 60, "the others are in no sum");
    if fixture.dialect() == Dialect::Sqlite {
        let counted_until = at(LAST_MINUTE);
        let due = UsageDue {
            org,
            counted_until,
            next_run: counted_until,
            are_many: true,
        };
        within(&fixture, MINUTE, store.count_usage(due, leaving(0))).await;
    }
}

/// A walk from the first run to the position would read all of them.
async fn checks_and_the_erasure_go_on_from_where_they_have_come_to(fixture: Fixture) {
    let (fixture, org) = misled(fixture).await;
    let store = &fixture.store;
    let last = format!("run_01hf7yat00e008000000{}", 100_000 + ROWS - 61);
    let position = (at(LAST_MINUTE - SECOND), last.parse().unwrap());
    let checked = within(&fixture, MINUTE, store.check_charges(org, Some(position), 100)).await;
    assert_eq!(checked.looked_at.len(), 60);
    assert_eq!(checked.looked_at[0].0, at(LAST_MINUTE));
    let unsettled = within(&fixture, MINUTE, store.unsettled_runs(org, Some(position), 100)).await;
    assert_eq!(unsettled.len(), 60);
    set_counted(&fixture, org).await;
    let deleted = store.db.write(move |tx: &mut dyn Tx| {
        tx.exec(
            "UPDATE organization SET deleted_at = $2 WHERE id = $1",
            vals![org, END],
        )
    });
    assert_eq!(deleted.await.unwrap(), 1);
    let due = within(&fixture, FEW, store.uncounted_usage(org)).await.unwrap();
    assert_eq!(due.next_run, at(LAST_MINUTE));
}
