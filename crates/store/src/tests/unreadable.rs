//! Unreadable rows: the pages of background tasks continue after them.

use super::prelude::*;
use crate::{Found, Result};

impl Fixture {
    /// Changes stored rows directly, bypassing the store.
    async fn harm(&self, sql: &'static str, params: Vec<Val<'static>>) {
        assert_ne!(self.sql(sql, params).await, 0, "{sql}");
    }

    /// Stores an organization with an unreadable id that sorts before all others.
    async fn broken_organization(&self) {
        let insert =
            "INSERT INTO organization (id, name, created_at, deleted_at) VALUES ('broken', 'x', 1, 1)";
        self.harm(insert, vals![]).await;
    }
}

/// Reads a list in pages of one row.
async fn all<T>(mut page: impl AsyncFnMut(Option<String>) -> Result<Found<T, String>>) -> Vec<T> {
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let found = page(after).await.unwrap();
        items.extend(found.items);
        after = found.stopped_at;
        if after.is_none() {
            return items;
        }
    }
}

both! {
    async fn an_organization_that_cannot_be_read_does_not_keep_those_behind_it(fixture: &Fixture, org: OrgId, store: &Store) {
        fixture.queued(org).await;
        fixture.broken_organization().await;
        let later = fixture.now() + Duration::from_hours(2);
        let due = all(async |after| store.usage_due(later, after, 1).await).await;
        assert_eq!(due.len(), 1);
        assert!(due[0].0 == org && due[0].1.is_some(), "{due:?}");
        assert_eq!(store.usage_due_of(org, later).await.unwrap(), due[0].1);
        let listed = all(async |after| store.organizations(after, 1).await).await;
        assert_eq!(listed.iter().map(|(org, _)| *org).collect::<Vec<_>>(), [org]);
        fixture.harm("UPDATE organization SET deleted_at = 1 WHERE id = $1", vals![org]).await;
        assert_eq!(all(async |after| store.deleted_organizations(after, 1).await).await, [org]);
        fixture.harm("UPDATE organization SET deleted_at = NULL WHERE id = $1", vals![org]).await;
        fixture.harm("DELETE FROM organization WHERE id = 'broken'", vals![]).await;
    }

    async fn a_late_or_replaced_run_that_cannot_be_read_does_not_keep_those_behind_it(fixture: &Fixture, org: OrgId, store: &Store) {
        let run = fixture.queued(org).await;
        fixture.harm("INSERT INTO late_run (run_id, org_id, created_at) VALUES ('broken', 'x', 1)", vals![]).await;
        fixture.harm("INSERT INTO late_run (run_id, org_id, created_at) VALUES ($1, $2, 1)", vals![run, org]).await;
        assert_eq!(all(async |after| store.late_runs(after, 1).await).await, [(run, false)]);
        fixture.harm("DELETE FROM late_run", vals![]).await;
        fixture.harm("INSERT INTO replaced_run (run_id, org_id) VALUES ('broken', 'x')", vals![]).await;
        fixture.harm("INSERT INTO replaced_run (run_id, org_id) VALUES ($1, $2)", vals![run, org]).await;
        let replaced: Vec<RunId> = all(async |after| store.replaced_runs(after, 1).await)
            .await.into_iter().map(|replaced| replaced.run).collect();
        assert_eq!(replaced, [run]);
        fixture.harm("DELETE FROM replaced_run", vals![]).await;
    }

    async fn a_schedule_that_cannot_be_read_does_not_keep_the_occurrences_of_those_behind_it(fixture: &Fixture, org: OrgId, store: &Store) {
        let (broken, whole) = (fixture.schedule(org).await, fixture.schedule(org).await);
        for row in [&broken, &whole] {
            store.record_fires(fixture.start_next(row)).await.unwrap();
        }
        fixture.harm("UPDATE schedule SET id = 'broken' WHERE id = $1", vals![broken.id]).await;
        fixture.harm("UPDATE fire SET schedule_id = 'broken' WHERE schedule_id = $1", vals![broken.id]).await;
        let before = fixture.now() + Duration::from_hours(24);
        let found = all(async |after| store.schedules_with_fires(after, before, 1).await).await;
        assert_eq!(found, [whole.id]);
        fixture.harm("UPDATE fire SET schedule_id = $1 WHERE schedule_id = 'broken'", vals![broken.id]).await;
        fixture.harm("UPDATE schedule SET id = $1 WHERE id = 'broken'", vals![broken.id]).await;
    }

    async fn a_held_run_that_cannot_be_read_does_not_hide_the_others(fixture: &Fixture, org: OrgId, node: NodeId) {
        let [nameless, odd, whole] = [
            fixture.running(org, node).await.run,
            fixture.running(org, node).await.run,
            fixture.running(org, node).await.run,
        ];
        fixture.harm("UPDATE queue SET run_id = 'broken' WHERE run_id = $1", vals![nameless]).await;
        fixture.harm("UPDATE run SET status = 'odd' WHERE id = $1", vals![odd]).await;
        let held = fixture.store.held_runs(node).await.unwrap();
        let held: Vec<_> = held.iter().map(|held| (held.run, held.status)).collect();
        // A running run must not be mistaken for one that no node holds.
        assert_eq!(held, [(odd, None), (whole, Some(RunStatus::Running))]);
        fixture.harm("UPDATE queue SET run_id = $1 WHERE run_id = 'broken'", vals![nameless]).await;
        fixture.harm("UPDATE run SET status = 'running' WHERE id = $1", vals![odd]).await;
    }

    async fn content_that_cannot_be_read_or_marked_does_not_keep_the_rest_from_the_sweep(fixture: &Fixture, org: OrgId, store: &Store) {
        let mut blobs = Vec::new();
        for byte in 0..4 {
            blobs.push(store.reserve_blob(fixture.new_blob(org, byte)).await.unwrap());
        }
        let [nameless, unowned, unknown, whole] = blobs[..] else { panic!("{blobs:?}") };
        fixture.harm("UPDATE blob SET id = 'broken' WHERE id = $1", vals![nameless]).await;
        fixture.broken_organization().await;
        fixture.harm("UPDATE blob SET org_id = 'broken' WHERE id = $1", vals![unowned]).await;
        fixture.harm("UPDATE blob SET sha256 = $2 WHERE id = $1", vals![unknown, b"short".as_slice()]).await;
        let swept = fixture.sweep_blobs(fixture.now() + Duration::from_hours(2)).await;
        assert_eq!(swept.iter().map(|blob| blob.id).collect::<Vec<_>>(), [whole]);
        let stored = fixture.store.operated_organization(org).await.unwrap().stored_bytes;
        assert_eq!(stored, 7, "what no organization owns is given back to none");
        fixture.harm("DELETE FROM blob", vals![]).await;
        fixture.harm("DELETE FROM organization WHERE id = 'broken'", vals![]).await;
        fixture.harm("UPDATE organization_storage SET bytes = 0", vals![]).await;
    }

    async fn content_that_cannot_be_marked_does_not_keep_the_rest_from_the_sweep(fixture: &Fixture, org: OrgId) {
        let mut blobs = Vec::new();
        for byte in 0..5 {
            let new = fixture.new_blob(org, byte);
            blobs.push(fixture.store.reserve_blob(new).await.unwrap());
        }
        let [refuse, allow]: [&[&str]; 2] = match fixture.dialect() {
            Dialect::Sqlite => [
                &["CREATE TRIGGER injected BEFORE UPDATE ON blob WHEN OLD.size > 7 BEGIN SELECT RAISE(ABORT, 'injected'); END"],
                &["DROP TRIGGER injected"],
            ],
            Dialect::Postgres => [
                &[
                    "CREATE FUNCTION injected() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''injected''; END'",
                    "CREATE TRIGGER injected BEFORE UPDATE ON blob FOR EACH ROW WHEN (OLD.size > 7) EXECUTE FUNCTION injected()",
                ],
                &["DROP TRIGGER injected ON blob", "DROP FUNCTION injected"],
            ],
        };
        let execute = async |statements: &'static [&'static str]| {
            for sql in statements {
                fixture.sql(sql, vals![]).await;
            }
        };
        for blob in &blobs[..3] {
            fixture.harm("UPDATE blob SET size = 8 WHERE id = $1", vals![*blob]).await;
        }
        execute(refuse).await;
        let later = fixture.now() + Duration::from_hours(2);
        let swept = fixture.sweep_blobs(later).await;
        assert_eq!(swept.iter().map(|blob| blob.id).collect::<Vec<_>>(), blobs[3..]);
        let checked = fixture.store.mark_unreferenced_blobs(later, None, 10).await.unwrap();
        assert_eq!((checked.blobs, checked.failed, checked.next), (3, 3, None));
        execute(allow).await;
        let swept = fixture.sweep_blobs(later).await;
        assert_eq!(swept.iter().map(|blob| blob.id).collect::<Vec<_>>(), blobs[..3]);
    }
}
