//! Bytes that an organization has stored, and their limit.

use futures_util::future::{join, join_all};
use sortie_api::OrgId;

use super::{both, fixture::Fixture, people::conflicts};
use crate::{Error, NewBlob};

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

    async fn stored(&self, org: OrgId) -> i64 {
        self.store.operated_organization(org).await.unwrap().stored_bytes
    }

    /// Sum of the blobs that count.
    async fn summed(&self) -> i64 {
        self.count("SELECT COALESCE(CAST(SUM(size) AS BIGINT), 0) FROM blob WHERE doomed_at IS NULL")
            .await
    }
}

both! {
    async fn content_counts_once_until_the_sweep_gives_it_back(fixture: &Fixture) {
        let (org, other) = (fixture.org().await, fixture.org().await);
        let store = &fixture.store;
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
