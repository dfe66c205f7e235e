//! Leases on rate limits.

use super::prelude::*;
use crate::nodes::{GrantedBlock, WantedBlock};

/// Minute of the leases in these tests.
pub(super) const MINUTE: i64 = 28_333_333;

/// Request for a block, for a node that wants to have `target` requests of a quota of 600.
pub(super) fn wants(subject: &str, target: u32, unused: i64) -> WantedBlock {
    WantedBlock {
        minute: MINUTE,
        subject: subject.to_owned(),
        quota: 600,
        target,
        unused,
    }
}

/// Leases a single block.
async fn lease(fixture: &Fixture, wanted: WantedBlock, nodes: u32) -> GrantedBlock {
    let leased = fixture
        .store
        .lease_rates(vec![wanted], nodes, fixture.now())
        .await
        .unwrap();
    assert_eq!(leased.blocks.len(), 1);
    leased.blocks[0]
}

fn block(requests: u32, rest: u32) -> GrantedBlock {
    GrantedBlock { requests, rest }
}

both! {
    async fn blocks_shrink_with_what_is_left_and_end_at_the_quota(fixture: &Fixture) {
        // With three nodes a block is at most a twelfth of the rest.
        assert_eq!(lease(fixture, wants("a", 10, 0), 3).await, block(10, 590));
        assert_eq!(lease(fixture, wants("a", 1_000, 0), 3).await, block(50, 540));
        assert_eq!(lease(fixture, wants("a", 1_000, 20), 3).await, block(25, 515), "filled up to 45");
        assert_eq!(lease(fixture, wants("a", 1_000, 60), 3).await, block(0, 515), "it has more than that");
        let (mut granted, mut last, mut leases) = (85, 50, 0);
        loop {
            let got = lease(fixture, wants("a", 1_000, 0), 3).await;
            assert_eq!(got.rest, 600 - granted - got.requests);
            granted += got.requests;
            if got.requests == 0 {
                break;
            }
            assert!(got.requests <= last, "{} after {last}", got.requests);
            last = got.requests;
            leases += 1;
        }
        assert_eq!((granted, last), (600, 1));
        assert!(leases < 70, "{leases}");
    }

    async fn what_was_let_through_beyond_the_blocks_is_taken_first(fixture: &Fixture) {
        assert_eq!(lease(fixture, wants("a", 10, -30), 3).await, block(40, 560));
        assert_eq!(lease(fixture, wants("a", 10, -30), 3).await, block(40, 520));
        assert_eq!(lease(fixture, wants("a", 10, -9_000), 3).await, block(520, 0), "all that is left");
        assert_eq!(lease(fixture, wants("b", 10, -9_000), 3).await, block(600, 0));
    }

    async fn subjects_and_minutes_are_counted_apart_and_the_answers_stay_in_order(fixture: &Fixture) {
        let next = WantedBlock { minute: MINUTE + 1, ..wants("a", 4, 0) };
        let small = WantedBlock { quota: 5, ..wants("z", 9, 0) };
        let wanted = vec![small, next, wants("a", 2, 0), wants("b", 3, 0)];
        let leased = fixture.store.lease_rates(wanted, 1, fixture.now()).await.unwrap();
        assert_eq!(leased.blocks, [block(2, 3), block(4, 596), block(2, 598), block(3, 597)]);
    }

    async fn a_smaller_quota_than_what_is_out_grants_nothing_and_takes_nothing_back(fixture: &Fixture) {
        assert_eq!(lease(fixture, wants("a", 100, 0), 1).await, block(100, 500));
        let smaller = WantedBlock { quota: 50, ..wants("a", 100, 0) };
        assert_eq!(lease(fixture, smaller, 1).await, block(0, 0));
        assert_eq!(lease(fixture, wants("a", 100, 100), 1).await, block(0, 500));
    }

    async fn the_answer_says_how_many_nodes_are_alive(fixture: &Fixture) {
        let alive = async |at| fixture.store.lease_rates(Vec::new(), 1, at).await.unwrap().nodes;
        assert_eq!(alive(fixture.now()).await, 1, "the one that asks, though it is not registered");
        let nodes = [fixture.node().await, fixture.node().await, fixture.node().await];
        assert_eq!(alive(fixture.now()).await, 3);
        fixture.store.deregister_node(nodes[0], fixture.now()).await.unwrap();
        assert_eq!(alive(fixture.now()).await, 2);
        let later = fixture.now() + Duration::from_hours(2);
        fixture.renew(nodes[1], later).await.unwrap();
        assert_eq!(alive(later).await, 1);
    }

    async fn minutes_that_are_over_are_forgotten_one_by_one(fixture: &Fixture) {
        for (minute, subject) in [(MINUTE, "a"), (MINUTE, "b"), (MINUTE + 1, "a"), (MINUTE + 2, "a")] {
            lease(fixture, WantedBlock { minute, ..wants(subject, 1, 0) }, 1).await;
        }
        let mut forgotten = Vec::new();
        while forgotten.last() != Some(&0) {
            forgotten.push(fixture.store.forget_rates(MINUTE + 2).await.unwrap());
        }
        assert_eq!(forgotten, [2, 1, 0]);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM rate_lease").await, 1);
    }
}
