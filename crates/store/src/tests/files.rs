use sortie_api::{BlobId, FileId, Sha256};

use super::prelude::*;
use crate::files::{NewBlob, NewFile, PendingDelete};

const HOUR: Duration = Duration::from_hours(1);

impl Fixture {
    /// Creates a request for content of one byte, written now and checked in an hour.
    pub(super) fn new_blob(&self, org: OrgId, byte: u8) -> NewBlob {
        let at = self.now();
        NewBlob {
            id: BlobId::new(at, self.random()),
            org,
            sha256: Sha256::new([byte; 32]),
            size: 7,
            at,
            check_at: at + HOUR,
            most_bytes: i64::MAX,
        }
    }

    /// Creates a file to save, with this content.
    pub(super) async fn new_file(&self, org: OrgId, name: &str, byte: u8) -> NewFile {
        let new = self.new_blob(org, byte);
        let blob = self.store.reserve_blob(new).await.unwrap();
        NewFile {
            id: FileId::new(new.at, self.random()),
            org,
            name: name.to_owned(),
            blob,
            size: new.size,
            sha256: new.sha256,
            content_type: "text/csv".to_owned(),
            at: new.at,
            check_at: new.check_at,
        }
    }

    /// Saves a file.
    pub(super) async fn file(&self, org: OrgId, name: &str, byte: u8) -> NewFile {
        let new = self.new_file(org, name, byte).await;
        self.store
            .create_file(new.clone(), self.audit_of(org, "file.create", "a file"))
            .await
            .unwrap();
        new
    }

    /// Runs every command of files and their content.
    pub(super) async fn use_files(&self, org: OrgId) {
        let store = &self.store;
        let file = self.file(org, "a", 1).await;
        store.get_file(org, file.id).await.unwrap();
        store.file_named(org, "a").await.unwrap();
        store.listed_file(org, file.id).await.unwrap();
        store.listed_file_named(org, "a").await.unwrap();
        store
            .find_files(org, &[file.id], &["a".to_owned()])
            .await
            .unwrap();
        store.list_files(org, None, 10).await.unwrap();
        store
            .rename_file(org, file.id, "b", self.audit_of(org, "file.rename", "a file"))
            .await
            .unwrap();
        store
            .delete_file(
                org,
                file.id,
                file.check_at,
                self.audit_of(org, "file.delete", "a file"),
            )
            .await
            .unwrap();
        assert_eq!(self.sweep_blobs(file.check_at + HOUR).await.len(), 1);
    }

    /// Marks due blobs as pending delete and forgets them. Returns the blobs that were marked.
    pub(super) async fn sweep_blobs(&self, now: Timestamp) -> Vec<PendingDelete> {
        let mut after = None;
        loop {
            after = self
                .store
                .mark_unreferenced_blobs(now, after, 2)
                .await
                .unwrap()
                .next;
            if after.is_none() {
                break;
            }
        }
        let mut doomed: Vec<PendingDelete> = Vec::new();
        loop {
            let more = self.store.pending_deletes(after, 2).await.unwrap();
            doomed.extend(more.items);
            after = more.stopped_at;
            if after.is_none() {
                break;
            }
        }
        let ids: Vec<BlobId> = doomed.iter().map(|blob| blob.id).collect();
        self.store.forget_blobs(&ids).await.unwrap();
        doomed
    }

    async fn audit_entries(&self) -> i64 {
        self.count("SELECT COUNT(*) FROM audit").await
    }
}

both! {
    async fn a_file_is_saved_found_renamed_and_deleted(fixture: &Fixture, org: OrgId, other: OrgId, store: &Store) {
        let new = fixture.file(org, "a.csv", 1).await;
        fixture.file(other, "a.csv", 1).await;
        let found = store.get_file(org, new.id).await.unwrap();
        assert_eq!((found.id, found.name.as_str(), found.blob), (new.id, "a.csv", new.blob));
        assert_eq!((found.size, found.sha256, found.created_at), (7, new.sha256, new.at));
        assert_eq!(found.content_type, "text/csv");
        assert_eq!(store.file_named(org, "a.csv").await.unwrap(), found);
        assert_eq!(store.get_file(other, new.id).await.unwrap_err(), Error::NotFound);

        let audit = fixture.audit_of(other, "file.rename", "a file");
        assert_eq!(store.rename_file(other, new.id, "b", audit).await.unwrap_err(), Error::NotFound);
        let renamed = store.rename_file(org, new.id, "b", fixture.audit_of(org, "file.rename", "a file")).await.unwrap();
        assert_eq!((renamed.id, renamed.name.as_str(), renamed.sha256), (new.id, "b", new.sha256));
        assert_eq!(store.file_named(org, "a.csv").await.unwrap_err(), Error::NotFound);

        let deleted = store.delete_file(other, new.id, new.check_at, fixture.audit_of(other, "file.delete", "a file")).await;
        assert_eq!(deleted.unwrap_err(), Error::NotFound);
        store.delete_file(org, new.id, new.check_at, fixture.audit_of(org, "file.delete", "a file")).await.unwrap();
        let deleted = store.delete_file(org, new.id, new.check_at, fixture.audit_of(org, "file.delete", "a file")).await;
        assert_eq!(deleted.unwrap_err(), Error::NotFound);
        // Two files were saved, one was renamed and one was deleted. Refused commands are not in the log.
        assert_eq!(fixture.audit_entries().await, 4);
    }

    async fn a_name_is_taken_once_in_an_organization(fixture: &Fixture, org: OrgId, store: &Store) {
        fixture.file(org, "a", 1).await;
        let b = fixture.file(org, "b", 2).await;
        let again = fixture.new_file(org, "a", 3).await;
        let taken = store.create_file(again, fixture.audit_of(org, "file.create", "a file")).await.unwrap_err();
        assert!(matches!(taken, Error::Conflict(_)));
        let taken = store.rename_file(org, b.id, "a", fixture.audit_of(org, "file.rename", "a file")).await.unwrap_err();
        assert!(matches!(taken, Error::Conflict(_)));
        assert_eq!(store.get_file(org, b.id).await.unwrap().name, "b");
        assert_eq!(fixture.audit_entries().await, 2);
    }

    async fn of_many_that_take_a_name_at_once_one_has_it(fixture: &Fixture, org: OrgId) {
        for round in 0..5 {
            let name = format!("name {round}");
            let old = fixture.file(org, &format!("old {round}"), 1).await;
            let (first, second) = (fixture.new_file(org, &name, 2).await, fixture.new_file(org, &name, 3).await);
            let store = &fixture.store;
            let (created, renamed) = join(
                join(
                    store.create_file(first, fixture.audit_of(org, "file.create", "a file")),
                    store.create_file(second, fixture.audit_of(org, "file.create", "a file")),
                ),
                store.rename_file(org, old.id, &name, fixture.audit_of(org, "file.rename", "a file")),
            )
            .await;
            let outcomes = [created.0, created.1, renamed];
            let refused = outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::Conflict(_)))).count();
            assert_eq!((refused, outcomes.iter().filter(|outcome| outcome.is_ok()).count()), (2, 1), "{outcomes:?}");
        }
    }

    async fn files_are_listed_newest_first_and_found_by_ids_and_names(fixture: &Fixture, org: OrgId, other: OrgId) {
        let mut files = Vec::new();
        for number in 0..5 {
            files.push(fixture.file(org, &format!("file {number}"), 1).await);
        }
        let foreign = fixture.file(other, "file 0", 1).await;
        let store = &fixture.store;
        let mut listed = Vec::new();
        let mut before = None;
        loop {
            let page = store.list_files(org, before, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            before = Some((last.created_at, last.id));
            listed.extend(page.into_iter().map(|file| file.id));
        }
        assert_eq!(listed, files.iter().rev().map(|file| file.id).collect::<Vec<_>>());
        let names = ["file 3".to_owned(), "gone".to_owned()];
        let found = store.find_files(org, &[files[1].id, foreign.id], &names).await.unwrap();
        let mut found: Vec<_> = found.into_iter().map(|row| row.name).collect();
        found.sort();
        assert_eq!(found, ["file 1", "file 3"]);
    }

    async fn the_same_content_is_one_blob_in_an_organization_and_another_in_the_next(fixture: &Fixture, org: OrgId, other: OrgId) {
        let first = fixture.file(org, "a", 1).await;
        assert_eq!(fixture.file(org, "b", 1).await.blob, first.blob);
        assert_ne!(fixture.file(org, "c", 2).await.blob, first.blob);
        assert_ne!(fixture.file(other, "a", 1).await.blob, first.blob);
    }

    async fn content_goes_an_hour_after_its_last_reference_and_not_before(fixture: &Fixture, org: OrgId) {
        let (a, b) = (fixture.file(org, "a", 1).await, fixture.file(org, "b", 1).await);
        let stays = fixture.file(org, "stays", 2).await;
        let later = b.at + HOUR * 24;
        assert_eq!(fixture.sweep_blobs(later).await, []);
        let store = &fixture.store;
        store.delete_file(org, a.id, later + HOUR, fixture.audit_of(org, "file.delete", "a file")).await.unwrap();
        assert_eq!(fixture.sweep_blobs(later + HOUR).await, []);
        store.delete_file(org, b.id, later + HOUR, fixture.audit_of(org, "file.delete", "a file")).await.unwrap();
        assert_eq!(fixture.sweep_blobs(later + Duration::from_secs(3_599)).await, []);
        let gone = fixture.sweep_blobs(later + HOUR).await;
        assert_eq!(gone.iter().map(|blob| (blob.id, blob.sha256, blob.org)).collect::<Vec<_>>(), [(a.blob, a.sha256, org)]);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM blob").await, 1);
        assert_eq!(fixture.file(org, "again", 2).await.blob, stays.blob);
    }

    async fn content_that_was_announced_and_never_referred_to_goes(fixture: &Fixture, org: OrgId) {
        let mut left = Vec::new();
        for byte in 0..5 {
            left.push(fixture.store.reserve_blob(fixture.new_blob(org, byte)).await.unwrap());
        }
        let mut gone: Vec<_> = fixture.sweep_blobs(fixture.now() + HOUR).await.iter().map(|blob| blob.id).collect();
        gone.sort();
        assert_eq!(gone, left);
    }

    async fn a_doomed_blob_is_never_taken_up_again(fixture: &Fixture, org: OrgId) {
        let late = fixture.new_file(org, "late", 1).await;
        let store = &fixture.store;
        assert_eq!(store.mark_unreferenced_blobs(late.check_at, None, 10).await.unwrap().blobs, 1);
        let refused = store.create_file(late.clone(), fixture.audit_of(org, "file.create", "a file")).await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable(_)));
        let anew = fixture.file(org, "late", 1).await;
        assert_ne!(anew.blob, late.blob);
        let doomed = store.pending_deletes(None, 10).await.unwrap().items;
        assert_eq!(doomed.iter().map(|blob| blob.id).collect::<Vec<_>>(), [late.blob]);
        // Only blobs that are pending delete are forgotten.
        store.forget_blobs(&[late.blob, anew.blob]).await.unwrap();
        assert_eq!(fixture.count("SELECT COUNT(*) FROM blob").await, 1);
    }

    async fn of_a_doom_and_a_new_reference_one_wins(fixture: &Fixture, org: OrgId) {
        let mut outcomes = [0, 0];
        for byte in 0..40 {
            let new = fixture.new_file(org, &format!("file {byte}"), byte).await;
            let store = &fixture.store;
            let later = new.at + HOUR * 3;
            let sooner = NewFile { check_at: later + HOUR, ..new.clone() };
            let (created, _) = join(
                store.create_file(sooner, fixture.audit_of(org, "file.create", "a file")),
                store.mark_unreferenced_blobs(later, None, 10),
            )
            .await;
            let doomed = store.pending_deletes(None, 100).await.unwrap().items.iter().any(|blob| blob.id == new.blob);
            assert_eq!(doomed, created.is_err(), "{created:?}");
            outcomes[usize::from(doomed)] += 1;
        }
        assert_eq!(outcomes.iter().sum::<i32>(), 40);
    }

    async fn of_a_look_and_the_end_of_a_reference_none_loses_the_content(fixture: &Fixture, org: OrgId) {
        for byte in 0..20 {
            let file = fixture.file(org, "a", byte).await;
            let store = &fixture.store;
            let later = file.at + HOUR * 3;
            let (deleted, _) = join(
                store.delete_file(org, file.id, later + HOUR, fixture.audit_of(org, "file.delete", "a file")),
                store.mark_unreferenced_blobs(later, None, 10),
            )
            .await;
            deleted.unwrap();
            let gone = fixture.sweep_blobs(later + HOUR).await;
            assert_eq!(gone.iter().map(|blob| blob.id).collect::<Vec<_>>(), [file.blob]);
        }
    }
}

postgres! {
    /// Covers a window that `of_a_doom_and_a_new_reference_one_wins` may miss: the sweep has seen no reference
    /// and waits for the row.
    async fn a_doom_that_waits_for_a_new_reference_lets_the_content_live(fixture: &Fixture, org: OrgId) {
        let new = fixture.new_file(org, "a", 1).await;
        let later = new.at + HOUR * 3;
        let new = NewFile { check_at: later + HOUR, ..new };
        // After its second statement the new reference holds the row of the blob. It waits until the sweep waits
        // for that row.
        let audit = fixture.audit_of(org, "file.create", "a file");
        let create = fixture.store.create_file(new.clone(), audit);
        let doom = fixture.store.mark_unreferenced_blobs(later, None, 10);
        let (created, doomed) = fixture.overlapped(3, create, doom).await;
        created.unwrap();
        assert_eq!(doomed.unwrap().blobs, 1);
        assert_eq!(fixture.store.pending_deletes(None, 10).await.unwrap().items, []);
        let read = |tx: &mut dyn crate::db::Tx| {
            tx.query_one("SELECT check_at FROM blob", vals![])?
                .only::<Option<Timestamp>>()
        };
        assert_eq!(fixture.store.db.read(read).await.unwrap(), Some(new.check_at));
    }
}
