use super::prelude::*;
use crate::{nodes::SeenLease, runs::Claim};

const HOURS: Duration = Duration::from_hours(2);

fn runs(claims: &[Claim]) -> Vec<RunId> {
    claims.iter().map(|claim| claim.fence.run).collect()
}

both! {
    async fn operators_see_the_nodes_and_what_each_holds(fixture: &Fixture, org: OrgId) {
        let (second, first) = (fixture.node_named("b").await, fixture.node_named("a").await);
        fixture.running(org, second).await;
        let since = fixture.now();
        fixture.store.drain_node(second, since).await.unwrap();
        // A second announcement does not change the time.
        fixture.store.drain_node(second, fixture.now()).await.unwrap();
        let listed = fixture.store.list_nodes().await.unwrap();
        let seen: Vec<_> = listed
            .iter()
            .map(|row| (row.node.id, &*row.node.name, row.node.draining_since, row.ended_at, row.runs)).collect();
        assert_eq!(seen, [(first, "a", None, None, 0), (second, "b", Some(since), None, 1)]);
        assert_eq!(listed[0].node.address.as_deref(), Some("http://a"));
        assert_eq!(listed[0].node.version, "1.2.3");
        let at = fixture.now();
        fixture.store.deregister_node(first, at).await.unwrap();
        fixture.store.deregister_node(second, at).await.unwrap();
        let left = fixture.store.list_nodes().await.unwrap();
        assert_eq!(left.iter().map(|row| (row.node.id, row.ended_at)).collect::<Vec<_>>(), [(second, Some(at))]);
    }

    async fn the_watch_finds_what_was_cancelled_under_the_node_and_how_far_followed_runs_are(fixture: &Fixture, org: OrgId) {
        let (node, other) = (fixture.node().await, fixture.node().await);
        let (kept, stopped) = (fixture.running(org, node).await, fixture.running(org, node).await);
        let elsewhere = fixture.running(org, other).await;
        let waiting = fixture.queued(org).await;
        let unknown = fixture.run_id();
        let nothing = fixture.store.watch(node, vec![]).await.unwrap();
        assert_eq!(nothing, crate::runs::Watched::default());
        for run in [stopped.run, elsewhere.run, waiting] {
            fixture.store.cancel_run(org, run, fixture.now()).await.unwrap();
        }
        let mut watched = fixture.store.watch(node, vec![kept.run, waiting, unknown]).await.unwrap();
        watched.positions.sort_unstable();
        assert_eq!(watched.positions, [(kept.run, kept.last_event), (waiting, 2)]);
        assert_eq!(watched.cancelled, [stopped.run]);
        // A cancel by another organization has no effect.
        fixture.store.cancel_run(fixture.org().await, kept.run, fixture.now()).await.unwrap_err();
        assert_eq!(fixture.store.watch(node, vec![]).await.unwrap().cancelled, [stopped.run]);
        fixture.store.settle_run(stopped.run, stopped.attempt, of_calls(Micros::ZERO), Vec::new()).await.unwrap();
        assert_eq!(fixture.store.watch(node, vec![]).await.unwrap().cancelled, []);
    }

    async fn runs_that_were_resumed_too_often_end_with_their_node(fixture: &Fixture, org: OrgId, node: NodeId, alive: NodeId) {
        let running = fixture.tired(org, node).await;
        fixture.queued(org).await;
        let starting = fixture.claim_one(node).await.fence;
        fixture.tire(starting.run).await;
        let kept = fixture.tired(org, alive).await;
        let waiting = fixture.queued(org).await;
        let at = fixture.now() + HOURS;
        fixture.renew(alive, at).await.unwrap();

        let mut ended = fixture.sweep(at, 100).await;
        ended.sort_unstable();
        assert_eq!(ended, [(org, running.run), (org, starting.run)]);
        for id in [running.run, starting.run] {
            let run = fixture.get(org, id).await;
            assert_eq!((run.status, run.finished_at), (RunStatus::Interrupted, Some(at)));
            assert_eq!(run.error.as_deref(), Some("the worker that ran it was lost, and it had been resumed 3 times"));
            let events = fixture.events(org, id).await;
            let [.., reason, status] = &events[..] else { panic!("{events:?}") };
            assert_eq!((&*reason.kind, &*reason.data), ("interrupted", r#"{"reason":"worker_lost","step":0}"#));
            let text = r#"{"status":"interrupted","error":"the worker that ran it was lost, and it had been resumed 3 times"}"#;
            assert_eq!((&*status.kind, &*status.data), ("status", text));
        }
        assert_eq!(fixture.get(org, kept.run).await.status, RunStatus::Running);
        assert_eq!(fixture.get(org, waiting).await.status, RunStatus::Queued);
        let late = fixture.append(running, vec![], Micros::ZERO).await;
        assert_eq!(late.unwrap_err(), Error::Fenced);
    }

    async fn a_renewed_lease_keeps_the_runs(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        fixture.tired(org, node).await;
        let at = fixture.now() + HOURS;
        fixture.renew(node, fixture.now()).await.unwrap();
        let other = fixture.node().await;
        let swept = fixture.take_over(other, at, 100).await;
        assert!(swept.taken.is_empty() && swept.ended.is_empty());
        assert_eq!(fixture.get(org, fence.run).await.status, RunStatus::Running);
    }

    async fn only_a_database_that_nodes_share_has_a_clock(fixture: &Fixture, node: NodeId) {
        let first = fixture.store.clock().await.unwrap();
        let second = fixture.renew(node, fixture.now()).await.unwrap().clock;
        match fixture.dialect() {
            Dialect::Sqlite => assert_eq!((first, second), (None, None)),
            // The clock is in microseconds of this century. No argument gives the time.
            Dialect::Postgres => {
                assert!(first > Some(Timestamp::from_micros(1_700_000_000_000_000)), "{first:?}");
                assert!(first < second && second < Some(Timestamp::from_micros(4_100_000_000_000_000)), "{second:?}");
            }
        }
    }

    async fn a_lease_that_was_renewed_since_it_was_seen_keeps_its_node(fixture: &Fixture, org: OrgId, node: NodeId, taker: NodeId) {
        let fence = fixture.running(org, node).await;
        let at = fixture.now() + HOURS;
        // The sweep may have waited long for the lock. The lease has expired by then, like the earlier one, but
        // it is not the lease that the sweep has read.
        let sweep = Sweep { places: 10, ..fixture.declaring(taker, at, 100).await };
        fixture.store.heartbeat(node, fixture.now(), Duration::ZERO).await.unwrap();
        assert!(fixture.store.sweep(sweep).await.unwrap().taken.is_empty());
        let swept = fixture.take_over(taker, at, 10).await;
        assert_eq!(runs(&swept.taken), [fence.run]);
        assert_eq!(fixture.renew(node, at).await.unwrap_err(), Error::Fenced);
    }

    async fn a_lease_that_lasts_by_the_clock_of_the_database_keeps_its_node(fixture: &Fixture, org: OrgId, node: NodeId, taker: NodeId) {
        fixture.running(org, node).await;
        let at = fixture.now();
        fixture.store.heartbeat(node, at, HOURS).await.unwrap();
        let seen = SeenLease { node, lease_until: fixture.lease_of(node).await };
        // The clock of the database decides, regardless of what the sweeping node has read.
        let sweep = Sweep { places: 10, overdue: vec![seen], ..fixture.declaring(taker, at, 100).await };
        assert!(fixture.store.sweep(sweep).await.unwrap().taken.is_empty());
        fixture.renew(node, at).await.unwrap();
    }

    async fn a_node_whose_own_lease_has_expired_declares_nobody(fixture: &Fixture, org: OrgId, node: NodeId, taker: NodeId) {
        let fence = fixture.running(org, node).await;
        let at = fixture.now() + HOURS;
        let sweep = Sweep { places: 10, ..fixture.declaring(taker, at, 100).await };
        fixture.store.heartbeat(taker, fixture.now(), Duration::ZERO).await.unwrap();
        assert!(fixture.store.sweep(sweep.clone()).await.unwrap().taken.is_empty());
        fixture.renew(taker, at).await.unwrap();
        assert_eq!(runs(&fixture.store.sweep(sweep).await.unwrap().taken), [fence.run]);
    }

    async fn a_lease_from_before_the_clock_was_set_back_is_over(fixture: &Fixture, org: OrgId, node: NodeId, taker: NodeId) {
        let fence = fixture.running(org, node).await;
        let at = fixture.now();
        fixture.store.heartbeat(node, at, HOURS).await.unwrap();
        let seen = SeenLease { node, lease_until: fixture.lease_of(node).await };
        fixture.renew(taker, at).await.unwrap();
        let with_lease = |lease| Sweep { places: 10, overdue: vec![seen], lease, ..sweep(taker, at, 100) };
        // A lease may end two leases from now, and no later. The clock of one of the databases keeps running.
        let swept = fixture.store.sweep(with_lease(HOURS / 2)).await.unwrap();
        assert!(swept.taken.is_empty());
        let swept = fixture.store.sweep(with_lease(HOURS / 3)).await.unwrap();
        assert_eq!(runs(&swept.taken), [fence.run]);
    }

    async fn a_heartbeat_reads_the_leases_of_the_others(fixture: &Fixture, own: NodeId, other: NodeId, gone: NodeId) {
        fixture.store.deregister_node(gone, fixture.now()).await.unwrap();
        let beat = fixture.renew(own, fixture.now()).await.unwrap();
        let seen = SeenLease { node: other, lease_until: fixture.lease_of(other).await };
        assert_eq!(beat.others, [seen]);
    }

    async fn a_node_that_was_declared_lost_is_fenced(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.tired(org, node).await;
        fixture.queued(org).await;
        let at = fixture.now() + HOURS;
        fixture.sweep(at, 0).await;
        assert_eq!(fixture.renew(node, at).await.unwrap_err(), Error::Fenced);
        let claim = fixture.store.claim_runs(node, 5, None, at).await;
        assert_eq!(claim.unwrap_err(), Error::Fenced);
        // The run of the lost node has not ended yet, so its late writes count.
        fixture.store.finish_run(fence, fixture.succeeded("in time")).await.unwrap();
        assert!(fixture.sweep(at, 100).await.is_empty());
    }

    async fn lost_runs_are_ended_in_bounded_steps(fixture: &Fixture, org: OrgId, node: NodeId) {
        for _ in 0..7 {
            fixture.queued(org).await;
        }
        for claim in fixture.claim(node, 7).await {
            fixture.tire(claim.fence.run).await;
        }
        let at = fixture.now() + HOURS;
        let mut steps = Vec::new();
        for _ in 0..4 {
            steps.push(fixture.sweep(at, 3).await.len());
        }
        assert_eq!(steps, [3, 3, 1, 0]);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM node WHERE ended_at IS NOT NULL").await, 0);
    }

    async fn a_restarted_node_takes_over_at_once_what_it_held_before(fixture: &Fixture, org: OrgId) {
        let before = fixture.node_named("a").await;
        let other = fixture.node_named("b").await;
        let (lost, kept) = (fixture.running(org, before).await, fixture.running(org, other).await);
        let after = fixture.node_named("a").await;
        assert_eq!(fixture.renew(before, fixture.now()).await.unwrap_err(), Error::Fenced);
        let swept = fixture.take_over(after, fixture.now(), 100).await;
        assert_eq!(runs(&swept.taken), [lost.run]);
        assert_eq!(fixture.get(org, kept.run).await.status, RunStatus::Running);
        fixture.renew(after, fixture.now()).await.unwrap();
    }

    async fn a_node_that_sweeps_never_declares_itself(fixture: &Fixture, org: OrgId, own: NodeId, other: NodeId) {
        let (kept, lost) = (fixture.tired(org, own).await, fixture.tired(org, other).await);
        let at = fixture.now() + HOURS;
        let own_lease = SeenLease { node: own, lease_until: fixture.lease_of(own).await };
        let mut sweep = fixture.declaring(own, at, 100).await;
        sweep.overdue.push(own_lease);
        let ended = fixture.store.sweep(sweep).await.unwrap().ended;
        assert_eq!(ended, [(org, lost.run)]);
        assert_eq!(fixture.get(org, kept.run).await.status, RunStatus::Running);
        fixture.renew(own, at).await.unwrap();
    }

    async fn a_sweep_that_leaves_expired_nodes_ends_only_the_runs_of_declared_ones(fixture: &Fixture, org: OrgId) {
        let (before, slow) = (fixture.node_named("a").await, fixture.node_named("b").await);
        let (lost, kept) = (fixture.tired(org, before).await, fixture.tired(org, slow).await);
        let own = fixture.node_named("a").await;
        let at = fixture.now() + HOURS;
        let leave = sweep(own, at, 100);
        assert_eq!(fixture.store.sweep(leave).await.unwrap().ended, [(org, lost.run)]);
        fixture.renew(slow, at).await.unwrap();
        assert_eq!(fixture.get(org, kept.run).await.status, RunStatus::Running);
    }

    async fn runs_of_a_node_that_is_not_known_any_more_are_ended(fixture: &Fixture, org: OrgId, gone: NodeId, alive: NodeId) {
        let (lost, kept) = (fixture.tired(org, gone).await, fixture.tired(org, alive).await);
        let cancelled = fixture.cancelled(org, gone).await;
        let forget = fixture.store.db.write(move |tx| tx.exec("DELETE FROM node WHERE id = $1", vals![gone]));
        forget.await.unwrap();
        assert_eq!(fixture.store.sweep(sweep(alive, fixture.now(), 100)).await.unwrap().ended, [(org, lost.run)]);
        assert_eq!(fixture.get(org, kept.run).await.status, RunStatus::Running);
        assert!(!fixture.get(org, cancelled.run).await.billing_pending);
    }

    async fn a_lost_run_costs_the_time_since_its_claim_up_to_its_budget(fixture: &Fixture, org: OrgId) {
        // Each case has the recorded cost, the price of a second, and the resulting cost of a run of
        // 10.000001 seconds with a budget of a million.
        for (recorded, rate, cost) in [
            (0, 0, 0),
            (7, 0, 7),
            (7, 3, 31),
            (500, 3, 500),
            (0, 1_000_000, 1_000_000),
            (2_000_000, 0, 1_000_000),
            (0, i64::MAX.unsigned_abs(), 1_000_000),
        ] {
            let node = fixture.node().await;
            fixture.queued(org).await;
            let claim = fixture.claim_one(node).await;
            let recorded = Micros::new(recorded).unwrap();
            let (run, price) = (claim.fence.run, Micros::new(rate).unwrap());
            fixture.append(claim.fence, vec![], recorded).await.unwrap();
            let at = claim.started_at + Duration::from_micros(10_000_001);
            fixture.tire(run).await;
            fixture.on_node_clocks(run).await;
            fixture.store.retake_held(node, vec![run], at, price).await.unwrap();
            assert_eq!(fixture.get(org, run).await.cost_micros.get(), cost, "{recorded:?} {rate}");
        }
    }

    async fn no_length_of_time_and_no_price_overflows_a_cost(fixture: &Fixture, org: OrgId) {
        for at in [0, i64::MAX] {
            for rate in [0, 1, 999_999, 1_000_001, i64::MAX.unsigned_abs()] {
                let node = fixture.node().await;
                let mut new = fixture.new_run(org);
                new.max_cost = Micros::new(i64::MAX.unsigned_abs()).unwrap();
                fixture.store.create_run(new.clone()).await.unwrap();
                fixture.claim_one(node).await;
                fixture.tire(new.id).await;
                fixture.on_node_clocks(new.id).await;
                let (at, price) = (Timestamp::from_micros(at), Micros::new(rate).unwrap());
                fixture.store.retake_held(node, vec![new.id], at, price).await.unwrap();
                let cost = fixture.get(org, new.id).await.cost_micros;
                assert_eq!(cost.is_zero(), at == Timestamp::from_micros(0) || rate == 0, "{at:?} {rate}");
            }
        }
    }

    async fn a_run_that_changes_its_node_is_timed_on_the_clock_that_all_nodes_share(fixture: &Fixture, org: OrgId, node: NodeId, other: NodeId) {
        fixture.queued(org).await;
        let claim = fixture.claim_one(node).await;
        assert!(claim.elapsed < Duration::from_mins(1), "{:?}", claim.elapsed);
        fixture.store.deregister_node(node, fixture.now()).await.unwrap();
        // The clock of the other node is ten hours ahead.
        let taken = fixture.take_over(other, claim.started_at + 5 * HOURS, 5).await.taken.remove(0);
        match fixture.dialect() {
            Dialect::Sqlite => assert_eq!(taken.elapsed, 5 * HOURS),
            Dialect::Postgres => assert!(taken.elapsed < HOURS, "{:?}", taken.elapsed),
        }
        fixture.claimed_earlier(claim.fence.run, HOURS).await;
        let swept = fixture.store.retake_held(other, vec![claim.fence.run], claim.started_at, Micros::ZERO).await;
        let elapsed = swept.unwrap().taken[0].elapsed;
        assert!(elapsed >= HOURS && elapsed < 2 * HOURS, "{elapsed:?}");
    }

    async fn time_that_runs_backwards_between_two_nodes_counts_as_none(fixture: &Fixture, org: OrgId, node: NodeId) {
        fixture.queued(org).await;
        let claim = fixture.claim_one(node).await;
        let run = claim.fence.run;
        fixture.on_node_clocks(run).await;
        let behind = Timestamp::from_micros(claim.started_at.as_micros() - 5_000_000);
        let price = Micros::new(3).unwrap();
        let swept = fixture.store.retake_held(node, vec![run], behind, price).await.unwrap();
        assert_eq!(swept.taken[0].elapsed, Duration::ZERO);
        fixture.tire(run).await;
        fixture.store.retake_held(node, vec![run], behind, price).await.unwrap();
        assert_eq!(fixture.get(org, run).await.cost_micros, Micros::ZERO);
    }

    async fn compute_of_a_run_that_ends_with_its_node_is_charged_by_the_clock_that_all_nodes_share(fixture: &Fixture, org: OrgId) {
        let price = Micros::new(1).unwrap();
        for is_cancelled in [false, true] {
            let node = fixture.node().await;
            fixture.queued(org).await;
            let claim = fixture.claim_one(node).await;
            let run = claim.fence.run;
            fixture.tire(run).await;
            fixture.claimed_earlier(run, HOURS).await;
            // The clocks of the nodes that cancel and sweep are slower than the clock of the node that claimed.
            let behind = Timestamp::from_micros(claim.started_at.as_micros() - 1);
            if is_cancelled {
                fixture.store.cancel_run(org, run, behind).await.unwrap();
            }
            fixture.store.retake_held(node, vec![run], behind, price).await.unwrap();
            let cost = fixture.get(org, run).await.cost_micros.get();
            assert!((7_200..14_400).contains(&cost), "{cost}, cancelled: {is_cancelled}");
        }
    }

    async fn a_cancelled_run_of_a_lost_node_is_settled_for_its_time_and_not_counted(fixture: &Fixture, org: OrgId, node: NodeId) {
        fixture.queued(org).await;
        let claim = fixture.claim_one(node).await;
        let at = claim.started_at + Duration::from_secs(20);
        fixture.store.cancel_run(org, claim.fence.run, at).await.unwrap();
        fixture.on_node_clocks(claim.fence.run).await;
        let events = fixture.events(org, claim.fence.run).await;
        let price = Micros::new(3).unwrap();
        let taker = fixture.node().await;
        let sweep = Sweep { compute_micros_per_second: price, ..fixture.declaring(taker, at + HOURS, 100).await };
        assert!(fixture.store.sweep(sweep).await.unwrap().ended.is_empty());
        let run = fixture.get(org, claim.fence.run).await;
        assert_eq!((run.status, run.finished_at), (RunStatus::Cancelled, Some(at)));
        assert_eq!((run.billing_pending, run.cost_micros.get()), (false, 60));
        assert_eq!(fixture.events(org, run.id).await, events);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM queue").await, 0);
    }

    async fn a_sweep_with_fewer_than_its_limit_has_left_nothing_however_many_were_cancelled(fixture: &Fixture, org: OrgId, node: NodeId) {
        for _ in 0..8 {
            fixture.cancelled(org, node).await;
        }
        for _ in 0..5 {
            fixture.tired(org, node).await;
        }
        for _ in 0..8 {
            fixture.cancelled(org, node).await;
        }
        let at = fixture.now() + HOURS;
        assert_eq!([fixture.sweep(at, 3).await.len(), fixture.sweep(at, 3).await.len()], [3, 2]);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM queue").await, 0);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run WHERE billing_pending = 1").await, 0);
    }

    async fn a_node_takes_up_again_what_it_holds_without_a_task(fixture: &Fixture, org: OrgId, node: NodeId, other: NodeId) {
        let (forgotten, worked_on) = (fixture.running(org, node).await, fixture.running(org, node).await);
        let (tired, foreign) = (fixture.tired(org, node).await, fixture.running(org, other).await);
        let cancelled = fixture.cancelled(org, node).await;
        let mut held: Vec<_> = [forgotten, worked_on, tired].map(|fence| (fence.run, RunStatus::Running)).to_vec();
        held.push((cancelled.run, RunStatus::Cancelled));
        let found = fixture.store.held_runs(node).await.unwrap();
        assert_eq!(found.iter().map(|held| (held.run, held.status.unwrap())).collect::<Vec<_>>(), held);

        let at = fixture.now();
        let named = vec![forgotten.run, tired.run, cancelled.run, foreign.run, fixture.run_id()];
        let swept = fixture.store.retake_held(node, named, at, Micros::ZERO).await.unwrap();
        assert_eq!(swept.ended, [(org, tired.run)]);
        let [taken] = &swept.taken[..] else { panic!("{swept:?}") };
        assert_eq!(taken.fence, Fence { attempt: forgotten.attempt + 1, ..forgotten });
        let run = fixture.get(org, tired.run).await;
        assert_eq!((run.status, run.finished_at), (RunStatus::Interrupted, Some(at)));
        assert_eq!(fixture.told(org, run.id).await.last().unwrap(), "interrupted");
        assert!(!fixture.get(org, cancelled.run).await.billing_pending);
        for fence in [forgotten, foreign] {
            assert_eq!(fixture.get(org, fence.run).await.status, RunStatus::Running);
        }
        let left = fixture.store.held_runs(node).await.unwrap();
        assert_eq!(left.iter().map(|held| held.run).collect::<Vec<_>>(), [forgotten.run, worked_on.run]);
        let nothing = fixture.store.retake_held(node, vec![], at, Micros::ZERO).await.unwrap();
        assert!(nothing.ended.is_empty() && nothing.taken.is_empty());
    }

    async fn a_node_that_signs_off_leaves_its_runs_to_the_next_sweep(fixture: &Fixture, org: OrgId, node: NodeId, next: NodeId) {
        let (left, cancelled) = (fixture.running(org, node).await, fixture.cancelled(org, node).await);
        fixture.store.deregister_node(node, fixture.now()).await.unwrap();
        assert_eq!(fixture.get(org, left.run).await.status, RunStatus::Running);
        let leave = Sweep { places: 5, ..sweep(next, fixture.now(), 100) };
        assert_eq!(runs(&fixture.store.sweep(leave).await.unwrap().taken), [left.run]);
        assert!(!fixture.get(org, cancelled.run).await.billing_pending);
        fixture.store.deregister_node(node, fixture.now()).await.unwrap();
        assert_eq!(fixture.renew(node, fixture.now()).await.unwrap_err(), Error::Fenced);
    }

    async fn a_node_that_holds_nothing_is_forgotten_when_it_signs_off(fixture: &Fixture, org: OrgId, node: NodeId) {
        fixture.finished(org, node).await;
        for _ in 0..2 {
            fixture.store.deregister_node(node, fixture.now()).await.unwrap();
        }
        assert_eq!(fixture.count("SELECT COUNT(*) FROM node").await, 0);
    }

    async fn a_ready_store_answers_a_ping(fixture: &Fixture) {
        fixture.store.ping().await.unwrap();
        assert_eq!(fixture.count("SELECT turn FROM dispatch").await, 0);
    }
}
