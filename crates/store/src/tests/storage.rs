//! Bytes that an organization has stored, and their limit.

use sortie_api::FileId;

use super::{people::conflicts, prelude::*};
use crate::files::NewBlob;

const HOUR: std::time::Duration = std::time::Duration::from_hours(1);

/// Size of each content of the tests.
const SIZE: i64 = 7;

/// Room for ten contents.
const ROOM: i64 = 10 * SIZE + 6;

impl Fixture {
    fn limited(&self, org: OrgId, byte: u8) -> NewBlob {
        NewBlob {
            most_bytes: ROOM,
            ..self.new_blob(org, byte)
        }
    }

    pub(super) async fn stored(&self, org: OrgId) -> i64 {
        self.store.operated_organization(org).await.unwrap().stored_bytes
    }

    /// Sum of the blobs that count.
    async fn summed(&self) -> i64 {
        self.count(
            "SELECT COALESCE(CAST(SUM(size) AS BIGINT), 0) FROM blob WHERE counted = 1 AND doomed_at IS NULL",
        )
        .await
    }
}

both! {
    async fn content_counts_once_until_the_sweep_gives_it_back(fixture: &Fixture, org: OrgId, other: OrgId, store: &Store) {
        assert_eq!(fixture.stored(org).await, 0);
        for byte in 0..10 {
            store.reserve_blob(fixture.limited(org, byte)).await.unwrap();
        }
        assert_eq!(fixture.stored(org).await, 10 * SIZE);
        conflicts(&store.reserve_blob(fixture.limited(org, 10)).await);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM blob").await, 10, "a refused one leaves nothing");
        // Content that is there already needs no room, and another organization has its own.
        store.reserve_blob(fixture.limited(org, 3)).await.unwrap();
        store.reserve_blob(fixture.limited(other, 10)).await.unwrap();
        assert_eq!((fixture.stored(org).await, fixture.stored(other).await), (10 * SIZE, SIZE));
        let file = fixture.file(org, "kept", 3).await;
        assert_eq!(fixture.sweep_blobs(file.check_at).await.len(), 10);
        assert_eq!((fixture.stored(org).await, fixture.stored(other).await), (SIZE, 0));
        store.reserve_blob(fixture.limited(org, 10)).await.unwrap();
    }

    async fn deleted_bytes_are_free_at_once(fixture: &Fixture, org: OrgId, store: &Store) {
        for byte in 0..9 {
            store.reserve_blob(fixture.limited(org, byte)).await.unwrap();
        }
        let (first, second) = (fixture.file(org, "first", 9).await, fixture.file(org, "second", 9).await);
        let delete = async |file: FileId| {
            let audit = fixture.audit_of(org, "file.delete", "a file");
            store.delete_file(org, file, fixture.now() + HOUR, audit).await.unwrap();
        };
        delete(first.id).await;
        assert_eq!(fixture.stored(org).await, 10 * SIZE, "another file has the content");
        conflicts(&store.reserve_blob(fixture.limited(org, 10)).await);
        delete(second.id).await;
        assert_eq!((fixture.stored(org).await, fixture.summed().await), (9 * SIZE, 9 * SIZE));
        store.reserve_blob(fixture.limited(org, 10)).await.unwrap();
        // The content is not deleted yet, and counts again if it is reused.
        conflicts(&store.reserve_blob(fixture.limited(org, 9)).await);
        let swept = fixture.sweep_blobs(fixture.now() + HOUR * 2).await;
        assert_eq!(swept.len(), 11);
        assert_eq!(fixture.stored(org).await, 0);
    }

    async fn content_that_comes_back_counts_again(fixture: &Fixture, org: OrgId, store: &Store) {
        let delete = async |file: FileId| {
            let audit = fixture.audit_of(org, "file.delete", "a file");
            store.delete_file(org, file, fixture.now() + HOUR, audit).await.unwrap();
        };
        let file = fixture.file(org, "a", 1).await;
        delete(file.id).await;
        assert_eq!(fixture.stored(org).await, 0);
        let again = fixture.file(org, "a", 1).await;
        assert_eq!((again.blob, fixture.stored(org).await), (file.blob, SIZE));
        // The last reference is deleted between a reservation and the reference that it is for.
        let late = fixture.new_file(org, "late", 1).await;
        delete(again.id).await;
        assert_eq!(fixture.stored(org).await, 0);
        store.create_file(late, fixture.audit_of(org, "file.create", "a file")).await.unwrap();
        assert_eq!((fixture.stored(org).await, fixture.summed().await), (SIZE, SIZE));
        assert_eq!(fixture.sweep_blobs(fixture.now() + HOUR * 2).await, []);
        assert_eq!(fixture.stored(org).await, SIZE);
    }

    async fn of_many_contents_at_once_as_many_are_taken_as_there_is_room_for(fixture: &Fixture) {
        for _ in 0..8 {
            let org = fixture.org().await;
            let taken = join_all((0..32).map(|byte| fixture.store.reserve_blob(fixture.limited(org, byte)))).await;
            assert_eq!(taken.iter().filter(|taken| taken.is_ok()).count(), 10, "{taken:?}");
            let refused = taken.into_iter().filter_map(Result::err);
            assert!(refused.into_iter().all(|error| matches!(error, Error::Conflict(_))));
            assert_eq!(fixture.stored(org).await, 10 * SIZE);
        }
    }

    async fn uploads_and_sweeps_at_once_keep_the_sum(fixture: &Fixture) {
        let organizations = [fixture.org().await, fixture.org().await, fixture.org().await];
        for round in 0..12 {
            let uploads = join_all(organizations.iter().flat_map(|org| {
                (0..6).map(move |byte| fixture.store.reserve_blob(fixture.limited(*org, byte + round % 4)))
            }));
            let later = fixture.now() + std::time::Duration::from_hours(2);
            let sweeps = join_all((0..3).map(|_| fixture.store.mark_unreferenced_blobs(later, None, 20)));
            let (taken, swept) = join(uploads, sweeps).await;
            for done in taken {
                assert!(done.is_ok() || matches!(done, Err(Error::Conflict(_))), "{done:?}");
            }
            for done in swept {
                done.unwrap();
            }
            let mut sum = 0;
            for org in organizations {
                sum += fixture.stored(org).await;
            }
            assert_eq!(sum, fixture.summed().await, "round {round}");
        }
    }
}
