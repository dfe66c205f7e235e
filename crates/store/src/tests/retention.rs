use super::{deliveries::made, prelude::*};
use crate::runs::{Deleted, Undeletable, retention};

const MANY: Batch = Batch {
    runs: 200,
    events: 2_000,
};

/// Creates an expiry for the runs of `org` that finished before now.
fn past(fixture: &Fixture, org: OrgId) -> Expiry {
    let now = fixture.now();
    Expiry {
        org,
        finished_before: now,
        created_before: now,
        check_at: now,
        open_callbacks: OpenCallbacks::Wait,
    }
}

async fn delete(fixture: &Fixture, expiry: Expiry, batch: Batch) -> Deleted {
    let mut undeletable = Undeletable::default();
    let deleted = fixture.store.delete_expired_runs(expiry, batch, &mut undeletable);
    deleted.await.unwrap()
}

/// Deletes in batches, as one pass, and returns the number of runs deleted.
async fn delete_all(fixture: &Fixture, expiry: Expiry, batch: Batch) -> u64 {
    let (mut runs, mut undeletable) = (0, Undeletable::default());
    loop {
        let deleted = fixture.store.delete_expired_runs(expiry, batch, &mut undeletable);
        let deleted = deleted.await.unwrap();
        runs += deleted.runs;
        if !deleted.more {
            return runs;
        }
    }
}

/// Creates a run that used everything a run can use, and finishes it now.
async fn full(fixture: &Fixture, org: OrgId, node: NodeId) -> RunId {
    let mut run = fixture.new_run(org);
    run.idempotency_key = Some("once".to_owned());
    run.labels.tags = vec!["red".to_owned(), "green".to_owned()];
    run.labels.metadata = [("color".to_owned(), "red".to_owned())].into();
    run.inline = Some(InlineCredentials {
        sealed: b"x".to_vec(),
        names: "[]".to_owned(),
    });
    fixture.store.create_run(run).await.unwrap();
    let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
    let one = Append {
        events: vec![fixture.message("x")],
        journal: entries(0, &["{}"]),
        cost: Micros::ZERO,
        usage: sortie_api::RunUsage::default(),
    };
    fixture.store.append(fence, one).await.unwrap();
    let fence = super::fixture::after(fence, 1);
    fixture
        .store
        .finish_run(fence, fixture.with_artifacts(org, &[("a", 1)]).await)
        .await
        .unwrap();
    fence.run
}

async fn finished(fixture: &Fixture, org: OrgId, node: NodeId) -> RunId {
    let fence = fixture.running(org, node).await;
    let finish = fixture.finish(RunStatus::Failed, None, Some("it broke"));
    fixture.store.finish_run(fence, finish).await.unwrap();
    fence.run
}

/// Returns the tables that have a column `run_id`.
async fn tables_of_runs(fixture: &Fixture) -> BTreeSet<String> {
    let sql = match fixture.dialect() {
        Dialect::Sqlite => {
            "SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c \
             WHERE m.type = 'table' AND c.name = 'run_id'"
        }
        Dialect::Postgres => {
            "SELECT CAST(table_name AS TEXT) FROM information_schema.columns \
             WHERE table_schema = 'public' AND column_name = 'run_id'"
        }
    };
    let rows = fixture.store.db.read(move |tx| tx.query_all(sql, vals![])).await;
    let rows = rows.unwrap();
    rows.iter().map(|row| row.text(0).unwrap().to_owned()).collect()
}

async fn rows_of(fixture: &Fixture, table: &str, run: RunId) -> i64 {
    let sql: &'static str =
        Box::leak(format!("SELECT COUNT(*) FROM {table} WHERE run_id = $1").into_boxed_str());
    let count = move |tx: &mut dyn crate::db::Tx| tx.query_one(sql, vals![run])?.int(0);
    fixture.store.db.read(count).await.unwrap()
}

both! {
    async fn a_run_that_cannot_be_deleted_does_not_keep_the_others(fixture: &Fixture, org: OrgId, node: NodeId) {
        let broken = finished(fixture, org, node).await;
        for _ in 0..3 {
            finished(fixture, org, node).await;
        }
        fixture.sql("UPDATE run SET tags = 'no list' WHERE id = $1", vals![broken]).await;
        let few = Batch { runs: 2, events: 2_000 };
        let deleted = delete_all(fixture, past(fixture, org), few).await;
        assert_eq!((deleted, fixture.count("SELECT COUNT(*) FROM run").await), (3, 1));
        fixture.sql("UPDATE run SET tags = NULL WHERE id = $1", vals![broken]).await;
        assert_eq!(delete(fixture, past(fixture, org), few).await.runs, 1);
    }

    async fn batches_of_runs_that_cannot_be_deleted_do_not_keep_those_behind_them(fixture: &Fixture, org: OrgId, node: NodeId) {
        for _ in 0..5 {
            finished(fixture, org, node).await;
        }
        fixture.sql("UPDATE run SET tags = 'no list'", vals![]).await;
        for _ in 0..3 {
            finished(fixture, org, node).await;
        }
        let few = Batch { runs: 2, events: 2_000 };
        let deleted = delete_all(fixture, past(fixture, org), few).await;
        assert_eq!((deleted, fixture.count("SELECT COUNT(*) FROM run").await), (3, 5));
        fixture.sql("UPDATE run SET tags = NULL", vals![]).await;
        assert_eq!(delete_all(fixture, past(fixture, org), few).await, 5);
    }

    async fn every_table_with_rows_of_a_run_is_known_to_retention(fixture: &Fixture) {
        let mut known: BTreeSet<String> = retention::tables().into_iter().map(str::to_owned).collect();
        // A settled run has left the queue. The history of a schedule expires by its own age. The timer of schedules forgets
        // replaced runs that have ended or were deleted. The ledger keeps its charges. An uncounted run is not deleted.
        known.extend(["queue", "fire", "replaced_run", "ledger", "late_run"].map(str::to_owned));
        assert_eq!(tables_of_runs(fixture).await, known);
    }

    async fn a_run_stays_until_its_callback_was_delivered_or_given_up(fixture: &Fixture, org: OrgId, node: NodeId) {
        for (host, after) in [("a:1", AfterAttempt::Delivered), ("b:1", AfterAttempt::Abandoned)] {
            let (run, due_at) = fixture.due(org, node, host).await;
            assert_eq!(delete(fixture, past(fixture, org), MANY).await.runs, 0);
            let claimed = fixture.claim_due("n", host, due_at).await.remove(0);
            let again_at = fixture.now();
            fixture.store.record_attempt(made(&claimed, again_at, AfterAttempt::RetryAt(again_at))).await.unwrap();
            assert_eq!(delete(fixture, past(fixture, org), MANY).await.runs, 0);
            let claimed = fixture.claim_due("n", host, again_at).await.remove(0);
            assert_eq!(delete(fixture, past(fixture, org), MANY).await.runs, 0, "under way");
            fixture.store.record_attempt(made(&claimed, fixture.now(), after)).await.unwrap();
            assert_eq!(delete(fixture, past(fixture, org), MANY).await.runs, 1);
            assert_eq!(rows_of(fixture, "delivery", run).await, 0);
        }
    }

    async fn nothing_is_left_of_a_run_whose_time_is_over(fixture: &Fixture, org: OrgId, node: NodeId) {
        let run = full(fixture, org, node).await;
        for table in ["event", "run_definition", "run_output", "run_label", "run_artifacts", "artifact_blob"] {
            assert_ne!(rows_of(fixture, table, run).await, 0, "{table}");
        }
        let deleted = delete(fixture, past(fixture, org), MANY).await;
        assert_eq!(deleted, Deleted { runs: 1, more: false });
        for table in tables_of_runs(fixture).await {
            assert_eq!(rows_of(fixture, &table, run).await, 0, "{table}");
        }
        assert_eq!(fixture.store.get_run(org, run).await.unwrap_err(), Error::NotFound);
        assert_eq!(fixture.store.find_idempotent(org, "once").await.unwrap(), None);
    }

    async fn runs_that_are_younger_or_not_settled_stay(fixture: &Fixture, org: OrgId, other: OrgId, node: NodeId) {
        let old = finished(fixture, org, node).await;
        let foreign = finished(fixture, other, node).await;
        let cancelled = fixture.cancelled(org, node).await.run;
        let running = fixture.running(org, node).await.run;
        let finished_late = fixture.running(org, node).await;
        let queued = fixture.queued(org).await;
        let expiry = past(fixture, org);
        fixture.store.finish_run(finished_late, fixture.succeeded("out")).await.unwrap();
        assert_eq!(delete(fixture, expiry, MANY).await.runs, 1);
        assert_eq!(fixture.store.get_run(org, old).await.unwrap_err(), Error::NotFound);
        for run in [cancelled, running, finished_late.run, queued] {
            fixture.get(org, run).await;
        }
        fixture.get(other, foreign).await;
        assert_eq!(delete(fixture, expiry, MANY).await, Deleted { runs: 0, more: false });
    }

    async fn runs_that_were_created_too_late_stay(fixture: &Fixture, org: OrgId, node: NodeId) {
        let old = finished(fixture, org, node).await;
        let created_before = fixture.now();
        let counted = finished(fixture, org, node).await;
        let expiry = Expiry { created_before, ..past(fixture, org) };
        assert_eq!(delete(fixture, expiry, MANY).await.runs, 1);
        assert_eq!(fixture.store.get_run(org, old).await.unwrap_err(), Error::NotFound);
        fixture.get(org, counted).await;
    }

    async fn a_transaction_deletes_no_more_than_it_may(fixture: &Fixture, org: OrgId, node: NodeId) {
        for _ in 0..3 {
            finished(fixture, org, node).await;
        }
        full(fixture, org, node).await;
        let expiry = past(fixture, org);
        let two = Batch { runs: 2, ..MANY };
        assert_eq!(delete(fixture, expiry, two).await, Deleted { runs: 2, more: true });
        // Each run has five events or more. A single run is still deleted.
        let few = Batch { events: 1, ..MANY };
        assert_eq!(delete(fixture, expiry, few).await, Deleted { runs: 1, more: true });
        assert_eq!(delete(fixture, expiry, few).await, Deleted { runs: 1, more: false });
        assert_eq!(fixture.count("SELECT COUNT(*) FROM event").await, 0);
    }

    async fn nodes_that_delete_at_once_delete_each_run_once(fixture: &Fixture, org: OrgId, node: NodeId) {
        for _ in 0..30 {
            finished(fixture, org, node).await;
        }
        let kept = fixture.running(org, node).await.run;
        let expiry = past(fixture, org);
        let some = Batch { runs: 8, ..MANY };
        let mut deleted = 0;
        while deleted < 30 {
            let by_each = join_all((0..4).map(|_| delete(fixture, expiry, some))).await;
            let now: u64 = by_each.into_iter().map(|deleted| deleted.runs).sum();
            assert_ne!(now, 0, "one of them gets on");
            deleted += now;
        }
        assert_eq!(deleted, 30);
        fixture.get(org, kept).await;
    }

    async fn organizations_come_page_by_page(fixture: &Fixture) {
        let mut all = Vec::new();
        for _ in 0..5 {
            all.push(fixture.org().await);
        }
        let (mut seen, mut after): (Vec<OrgId>, _) = (Vec::new(), None);
        loop {
            let page = fixture.store.organizations(after, 2).await.unwrap();
            seen.extend(page.items.iter().map(|(org, _)| *org));
            after = page.stopped_at;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, all);
    }
}

sqlite! {
    /// The limit does not depend only on the creation: a long run is kept according to the time of its end.
    async fn a_run_is_kept_by_its_end_and_not_by_its_creation(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let end: Timestamp = fixture.now() + Duration::from_hours(2);
        let mut finish = fixture.succeeded("out");
        finish.at = end;
        fixture.store.finish_run(fence, finish).await.unwrap();
        let expiry = |finished_before| Expiry {
            org,
            finished_before,
            created_before: finished_before,
            check_at: finished_before,
            open_callbacks: OpenCallbacks::Wait,
        };
        assert_eq!(delete(fixture, expiry(end), MANY).await.runs, 0);
        let after = end + Duration::from_millis(1);
        assert_eq!(delete(fixture, expiry(after), MANY).await.runs, 1);
    }
}
