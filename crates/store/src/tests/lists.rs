//! Lists by several properties: each command reads a bounded number of entries, and the pages together have every match
//! once.

use super::{
    examined::{Bound, within},
    indexes::{FIRST, ROWS, SECOND, fill, key, schedule},
    prelude::*,
};
use crate::db::Turn;

/// Runs a statement on the rows of [`fill`].
async fn change(fixture: &Fixture, sql: &'static str) {
    let changed = fixture
        .store
        .db
        .write(move |tx: &mut dyn Tx| tx.exec(sql, vals![]));
    assert!(changed.await.unwrap() > 0, "{sql}");
}

/// Gives two runs in three the tag `common`.
const COMMON: &str = "INSERT INTO run_label (org_id, label, created_at, run_id) \
     SELECT r.org_id, 'common', r.created_at, r.id FROM run r WHERE (r.created_at / 1000000) % 3 > 0";

/// Sets three of four runs to failed, except the newest 100.
const FAILED: &str = "UPDATE run SET status = 'failed', outcome = 'failed' \
     WHERE (created_at / 1000000) % 4 > 0 AND created_at < 1795142700000000";

fn tagged(tag: &str, status: Option<RunStatus>, schedule: Option<ScheduleId>) -> RunFilter {
    RunFilter {
        statuses: status.into_iter().collect(),
        schedule,
        tag: Some(tag.to_owned()),
        limit: 40,
        ..RunFilter::default()
    }
}

/// Maximum number of index entries that a command may read.
const EXAMINED: u64 = 5_000;

/// Maximum cost of a page: of the entry that the walk ends at, in each of two ways, and of a walk over 5,000 entries that
/// reads the run and its tag for each.
const PAGE: Bound = Bound {
    steps: EXAMINED * 120,
    rows: EXAMINED * 5 + 100,
    of_a_scan: EXAMINED,
};

/// Cost of a page of rare runs at most: each of the two ways finds an entry by its number without reading its run, and
/// the walk is very short.
const RARE: Bound = Bound {
    steps: EXAMINED * 20,
    rows: EXAMINED * 2 + 100,
    of_a_scan: EXAMINED,
};

/// Cost of a page of the audit log at most: the log is its own table, so no entry costs a further look.
const AUDIT_PAGE: Bound = Bound {
    steps: EXAMINED * 80,
    rows: EXAMINED * 3,
    of_a_scan: EXAMINED,
};

/// Cost of a page of the audit log with rare entries at most.
const AUDIT_RARE: Bound = Bound {
    steps: EXAMINED * 40,
    rows: EXAMINED * 2 + 100,
    of_a_scan: EXAMINED,
};

/// Maximum cost of reading a few rows.
const FEW: Bound = Bound {
    steps: 1_000,
    rows: 10,
    of_a_scan: 10,
};

/// Cost of a search among a few runs at most.
const FEW_TEXTS: Bound = Bound {
    steps: 3_000,
    rows: 60,
    of_a_scan: 10,
};

/// Everything that a list of runs has, page by page, and the number of pages.
async fn all_runs(fixture: &Fixture, org: OrgId, mut filter: RunFilter) -> (Vec<RunId>, usize) {
    let (mut seen, mut pages) = (Vec::new(), 0);
    loop {
        let read = fixture.store.list_runs(org, filter.clone());
        // PostgreSQL reads each page that is measured twice.
        let page = if pages % 20 == 0 {
            within(fixture, PAGE, read).await
        } else {
            read.await.unwrap()
        };
        pages += 1;
        seen.extend(page.items.iter().map(|listed| listed.run.id));
        let is_full = page.items.len() == 40;
        assert!(!is_full || page.stopped_at.is_none());
        let last = page.items.last().filter(|_| is_full);
        let Some(next) = last
            .map(|listed| (listed.run.created_at, listed.run.id))
            .or(page.stopped_at)
        else {
            return (seen, pages);
        };
        filter.before = Some(next);
    }
}

/// Ids of the runs that meet a condition, newest first.
async fn matching(fixture: &Fixture, sql: &'static str) -> Vec<RunId> {
    let rows = fixture.store.db.read(move |tx| tx.query_all(sql, vals![])).await;
    rows.unwrap().iter().map(|row| row.only().unwrap()).collect()
}

both! {
    async fn pages_by_tag_and_status_have_every_match_once(fixture: &Fixture, org: OrgId) {
        fill(fixture, org).await;
        change(fixture, COMMON).await;
        change(fixture, FAILED).await;
        let (failed, pages) = all_runs(fixture, org, tagged("common", Some(RunStatus::Failed), None)).await;
        let expected = matching(
            fixture,
            "SELECT r.id FROM run r WHERE r.outcome = 'failed' AND (r.created_at / 1000000) % 3 > 0 ORDER BY r.created_at DESC",
        );
        assert_eq!(failed, expected.await);
        assert!(pages > failed.len() / 40, "{pages}");
        let of_schedule = tagged("common", Some(RunStatus::Failed), Some(schedule()));
        assert_eq!(all_runs(fixture, org, of_schedule).await.0, failed);
        let (common, _) = all_runs(fixture, org, tagged("common", None, Some(schedule()))).await;
        assert_eq!(i64::try_from(common.len()).unwrap(), ROWS * 2 / 3);
    }

    async fn a_page_ends_where_its_command_has_looked_at_enough(fixture: &Fixture, org: OrgId) {
        fill(fixture, org).await;
        // Both are common, and no run has both.
        change(fixture, "UPDATE run SET status = 'failed', outcome = 'failed' WHERE (created_at / 1000000) % 2 = 0").await;
        change(fixture, "DELETE FROM run_label WHERE (created_at / 1000000) % 2 = 0").await;
        let mut filter = tagged("nightly", Some(RunStatus::Failed), None);
        let page = fixture.store.list_runs(org, filter.clone()).await.unwrap();
        assert!(page.items.is_empty());
        let stopped = page.stopped_at.unwrap();
        assert!(stopped.0 <= Timestamp::from_micros(FIRST + SECOND), "{stopped:?}");
        filter.before = Some(stopped);
        let page = fixture.store.list_runs(org, filter).await.unwrap();
        assert_eq!((page.items.len(), page.stopped_at), (0, None));
    }

    async fn a_walk_ends_at_its_bound_though_matches_lie_behind_it(fixture: &Fixture, org: OrgId) {
        fill(fixture, org).await;
        // Among the newest 6,000 runs none has both properties, all others have both.
        change(fixture, "UPDATE run SET status = 'failed', outcome = 'failed' \
             WHERE (created_at / 1000000) % 2 = 0 OR created_at < 1795136800000000").await;
        change(fixture, "DELETE FROM run_label WHERE (created_at / 1000000) % 2 = 0 AND created_at >= 1795136800000000").await;
        for (status, schedule) in [
            (Some(RunStatus::Failed), None),
            (Some(RunStatus::Failed), Some(schedule())),
        ] {
            let all = RunFilter { limit: 4_000, ..tagged("nightly", status, schedule) };
            let page = within(fixture, PAGE, fixture.store.list_runs(org, all)).await;
            // Of 5,000 entries 3,000 are of newer runs.
            assert_eq!(page.items.len(), 2_000);
            let last = page.items.last().unwrap();
            assert_eq!(page.stopped_at, Some((last.run.created_at, last.run.id)));
        }
    }

    async fn a_list_goes_in_by_what_is_rarer(fixture: &Fixture, org: OrgId, node: NodeId) {
        fill(fixture, org).await;
        change(
            fixture,
            "UPDATE run SET status = 'failed', outcome = 'failed' WHERE created_at = 1795132800000000",
        )
        .await;
        let mut run = fixture.new_run(org);
        run.labels.tags = vec!["nightly".to_owned(), "rare".to_owned()];
        run.labels.schedule = Some(schedule());
        run.created_at = Timestamp::from_micros(FIRST - SECOND);
        fixture.store.create_run(run.clone()).await.unwrap();
        let other: ScheduleId = "sched_01hf7yat00e0080000000000bb".parse().unwrap();
        for (tag, status, schedule, count) in [
            // The only failed run is the oldest but one.
            ("nightly", Some(RunStatus::Failed), None, 1),
            ("nightly", Some(RunStatus::Failed), Some(schedule()), 1),
            ("nightly", Some(RunStatus::TimedOut), None, 0),
            ("nightly", None, Some(other), 0),
            ("rare", None, Some(schedule()), 1),
            ("rare", Some(RunStatus::Succeeded), None, 0),
            ("nightly", Some(RunStatus::Queued), None, 1),
            ("rare", Some(RunStatus::Queued), Some(schedule()), 1),
            ("rare", Some(RunStatus::Queued), Some(other), 0),
            ("nightly", Some(RunStatus::Running), None, 0),
        ] {
            let filter = tagged(tag, status, schedule);
            let page = within(fixture, RARE, fixture.store.list_runs(org, filter)).await;
            assert_eq!((page.items.len(), page.stopped_at), (count, None), "{tag} {status:?} {schedule:?}");
        }
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        let running = tagged("nightly", Some(RunStatus::Running), Some(schedule()));
        let page = fixture.store.list_runs(org, running).await.unwrap();
        assert_eq!(page.items.iter().map(|listed| listed.run.id).collect::<Vec<_>>(), [fence.run]);
    }

    async fn pages_by_any_properties_have_every_match_once(fixture: &Fixture, org: OrgId) {
        fill(fixture, org).await;
        change(fixture, FAILED).await;
        change(fixture, "UPDATE run SET workflow = 'rare', error = 'Budget 100% reached', cost_micros = 7, model = 'm' \
             WHERE (created_at / 1000000) % 5 = 0").await;
        let failed = vec![RunStatus::Failed, RunStatus::Interrupted];
        let base = RunFilter { limit: 40, ..RunFilter::default() };
        let rare = Some("rare".to_owned());
        let matches = |sql| matching(fixture, sql);
        for (filter, expected) in [
            (RunFilter { workflow: rare.clone(), ..base.clone() },
                matches("SELECT id FROM run WHERE workflow = 'rare' ORDER BY created_at DESC").await),
            (RunFilter { workflow: rare.clone(), statuses: failed.clone(), ..base.clone() },
                matches("SELECT id FROM run WHERE workflow = 'rare' AND status = 'failed' ORDER BY created_at DESC").await),
            (RunFilter { statuses: failed.clone(), ..base.clone() },
                matches("SELECT id FROM run WHERE status = 'failed' ORDER BY created_at DESC").await),
            (RunFilter { error: Some("budget 100%".to_owned()), schedule: Some(schedule()), ..base.clone() },
                matches("SELECT id FROM run WHERE workflow = 'rare' ORDER BY created_at DESC").await),
            (RunFilter { error: Some("1000%".to_owned()), ..base.clone() }, Vec::new()),
            (RunFilter { min_cost: Micros::new(7).ok(), model: Some("m".to_owned()), key: Some(key()), tag: Some("nightly".to_owned()), ..base.clone() },
                matches("SELECT id FROM run WHERE workflow = 'rare' ORDER BY created_at DESC").await),
            (RunFilter { since: Some(Timestamp::from_micros(FIRST + SECOND)), until: Some(Timestamp::from_micros(FIRST + 3 * SECOND)), ..base.clone() },
                matches("SELECT id FROM run WHERE created_at IN (1795132801000000, 1795132802000000) ORDER BY created_at DESC").await),
        ] {
            assert_eq!(all_runs(fixture, org, filter.clone()).await.0, expected, "{filter:?}");
        }
    }

    async fn a_search_finds_texts_as_they_are(fixture: &Fixture, org: OrgId, other: OrgId) {
        let mut ids = Vec::new();
        for text in ["sums of june\n", "100%_ready!", "übung", "sums of july"] {
            let mut run = fixture.new_run(org);
            run.labels.search_text = Some(text.to_owned());
            fixture.store.create_run(run.clone()).await.unwrap();
            ids.push(run.id);
        }
        let newest = ids.clone();
        let find = async |org, text: &str, ids: &[RunId]| {
            let filter = RunFilter { text: Some(text.to_owned()), ids: ids.to_vec(), limit: 10, ..RunFilter::default() };
            let page = within(fixture, FEW_TEXTS, fixture.store.list_runs(org, filter)).await;
            page.items.iter().map(|listed| listed.run.id).collect::<Vec<_>>()
        };
        assert_eq!(find(org, "SUMS of", &[]).await, [newest[3], newest[0]]);
        assert_eq!(find(org, "Übu", &[]).await, [newest[2]]);
        assert_eq!(find(org, "%_", &[]).await, [newest[1]]);
        assert_eq!(find(org, "!", &newest[1..]).await, [newest[1]]);
        assert!(find(org, "0_ready", &[]).await.is_empty());
        assert!(find(org, "sums", &newest[1..3]).await.is_empty());
        assert!(find(other, "sums", &[]).await.is_empty());
        assert!(find(other, "sums", &newest).await.is_empty());
    }

    async fn runs_of_others_are_not_looked_at(fixture: &Fixture, org: OrgId, other: OrgId) {
        fill(fixture, org).await;
        fixture.sql("UPDATE run_label SET org_id = $1", vals![other]).await;
        for tag in [Some("nightly".to_owned()), None] {
            let filter = RunFilter { tag, ..tagged("", None, Some(schedule())) };
            let page = within(fixture, FEW, fixture.store.list_runs(other, filter)).await;
            assert_eq!((page.items.len(), page.stopped_at), (0, None));
        }
    }

    async fn the_log_by_key_and_action_is_read_in_bounded_pages(fixture: &Fixture, org: OrgId) {
        fill(fixture, org).await;
        change(fixture, "UPDATE audit SET action = 'a.get' WHERE (at / 1000000) % 2 = 0").await;
        let other: KeyId = "key_01kafs6w1cefkstv6qr1ptb0mm".parse().unwrap();
        fixture.sql("UPDATE audit SET actor_id = $1 WHERE (at / 1000000) % 2 = 1", vals![other]).await;
        let mut filter = AuditFilter {
            action: Some("a.put".to_owned()),
            key: Some(key()),
            limit: 10,
            ..AuditFilter::default()
        };
        // Both are common, and no entry has both.
        let page = within(fixture, AUDIT_PAGE, fixture.store.list_audit(org, filter.clone())).await;
        assert!(page.items.is_empty() && page.stopped_at.is_some(), "{page:?}");
        filter.before = page.stopped_at;
        let page = fixture.store.list_audit(org, filter.clone()).await.unwrap();
        assert_eq!((page.items.len(), page.stopped_at), (0, None));
        // The list of a key with few changes is read to the end in one command.
        change(fixture, "UPDATE audit SET actor_id = 'key_01kafs6w1cefkstv6qr1ptb0mk', action = 'a.get' WHERE at < 1795132800000000 + 5000000").await;
        filter = AuditFilter {
            action: Some("a.get".to_owned()),
            key: Some("key_01kafs6w1cefkstv6qr1ptb0mk".parse().unwrap()),
            before: None,
            ..filter
        };
        let page = within(fixture, AUDIT_RARE, fixture.store.list_audit(org, filter)).await;
        assert_eq!((page.items.len(), page.stopped_at), (5, None));
    }

    async fn long_queries_keep_no_list_no_read_and_no_write_waiting(fixture: &Fixture, org: OrgId) {
        let run = fixture.queued(org).await;
        let (go_on, waits) = std::sync::mpsc::channel::<()>();
        let waits = std::sync::Arc::new(parking_lot::Mutex::new(waits));
        let scan = || {
            let waits = std::sync::Arc::clone(&waits);
            fixture.store.db.scan(Turn::Organization(org), move |tx| {
                tx.query_one("SELECT 1", vals![])?;
                // The sender is dropped once the others are done.
                Ok(waits.lock().recv().is_err())
            })
        };
        let scans = futures_util::future::join_all((0..16).map(|_| scan()));
        let others = async {
            for _ in 0..16 {
                fixture.get(org, run).await;
                fixture.queued(org).await;
                let newest = RunFilter { tag: None, limit: 1, ..tagged("", None, None) };
                assert_eq!(fixture.store.list_runs(org, newest).await.unwrap().items.len(), 1);
                let audit = fixture.store.list_audit(org, crate::access::AuditFilter::default());
                audit.await.unwrap();
            }
            drop(go_on);
        };
        let (scanned, ()) = futures_util::future::join(scans, others).await;
        assert!(scanned.into_iter().all(|scanned| scanned.unwrap()));
    }
}
