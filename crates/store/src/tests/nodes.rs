use std::time::Duration;

use sortie_api::{Micros, RunStatus, Timestamp};

use super::both;
use crate::Error;

const HOURS: Duration = Duration::from_hours(2);

both! {
    async fn a_node_whose_lease_is_over_loses_its_runs(fixture: &Fixture) {
        let org = fixture.org().await;
        let (node, alive) = (fixture.node().await, fixture.node().await);
        let running = fixture.running(org, node).await;
        fixture.queued(org).await;
        let starting = fixture.claim_one(node).await.fence;
        let kept = fixture.running(org, alive).await;
        let waiting = fixture.queued(org).await;
        let at = fixture.now() + HOURS;
        fixture.store.heartbeat(alive, at + HOURS).await.unwrap();

        let mut ended = fixture.store.interrupt_lost(at, 100).await.unwrap();
        ended.sort_unstable();
        assert_eq!(ended, [(org, running.run), (org, starting.run)]);
        for id in [running.run, starting.run] {
            let run = fixture.get(org, id).await;
            assert_eq!((run.status, run.finished_at), (RunStatus::Interrupted, Some(at)));
            assert_eq!(run.error.as_deref(), Some("the worker that ran it was lost"));
            let events = fixture.events(org, id).await;
            let [.., reason, status] = &events[..] else { panic!("{events:?}") };
            assert_eq!((&*reason.kind, &*reason.data), ("interrupted", r#"{"reason":"worker_lost"}"#));
            let text = r#"{"status":"interrupted","error":"the worker that ran it was lost"}"#;
            assert_eq!((&*status.kind, &*status.data), ("status", text));
        }
        assert_eq!(fixture.get(org, kept.run).await.status, RunStatus::Running);
        assert_eq!(fixture.get(org, waiting).await.status, RunStatus::Queued);
        let late = fixture.store.append_events(running, vec![], Micros::ZERO).await;
        assert_eq!(late.unwrap_err(), Error::Fenced);
    }

    async fn a_renewed_lease_keeps_the_runs(fixture: &Fixture) {
        let org = fixture.org().await;
        let node = fixture.node().await;
        let fence = fixture.running(org, node).await;
        let at = fixture.now() + HOURS;
        fixture.store.heartbeat(node, at + Duration::from_secs(1)).await.unwrap();
        assert!(fixture.store.interrupt_lost(at, 100).await.unwrap().is_empty());
        assert_eq!(fixture.get(org, fence.run).await.status, RunStatus::Running);
    }

    async fn a_node_that_was_declared_lost_is_fenced(fixture: &Fixture) {
        let org = fixture.org().await;
        let node = fixture.node().await;
        let fence = fixture.running(org, node).await;
        fixture.queued(org).await;
        let at = fixture.now() + HOURS;
        fixture.store.interrupt_lost(at, 0).await.unwrap();
        assert_eq!(fixture.store.heartbeat(node, at + HOURS).await.unwrap_err(), Error::Fenced);
        let claim = fixture.store.claim_runs(node, 5, None, at).await;
        assert_eq!(claim.unwrap_err(), Error::Fenced);
        // Its run is not ended yet: what it still manages counts.
        fixture.store.finish_run(fence, fixture.succeeded("in time")).await.unwrap();
        assert!(fixture.store.interrupt_lost(at, 100).await.unwrap().is_empty());
    }

    async fn lost_runs_are_ended_in_bounded_steps(fixture: &Fixture) {
        let org = fixture.org().await;
        let node = fixture.node().await;
        for _ in 0..7 {
            fixture.queued(org).await;
        }
        assert_eq!(fixture.claim(node, 7).await.len(), 7);
        let at = fixture.now() + HOURS;
        let mut steps = Vec::new();
        for _ in 0..4 {
            steps.push(fixture.store.interrupt_lost(at, 3).await.unwrap().len());
        }
        assert_eq!(steps, [3, 3, 1, 0]);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM node").await, 0);
    }

    async fn a_restarted_node_loses_what_it_held_before_at_once(fixture: &Fixture) {
        let org = fixture.org().await;
        let before = fixture.node_named("a").await;
        let other = fixture.node_named("b").await;
        let (lost, kept) = (fixture.running(org, before).await, fixture.running(org, other).await);
        let after = fixture.node_named("a").await;
        assert_eq!(fixture.store.heartbeat(before, Timestamp::from_micros(i64::MAX)).await.unwrap_err(), Error::Fenced);
        let ended = fixture.store.interrupt_lost(fixture.now(), 100).await.unwrap();
        assert_eq!(ended, [(org, lost.run)]);
        assert_eq!(fixture.get(org, kept.run).await.status, RunStatus::Running);
        fixture.store.heartbeat(after, fixture.now() + HOURS).await.unwrap();
    }

    async fn a_node_that_holds_runs_does_not_go(fixture: &Fixture) {
        let org = fixture.org().await;
        let node = fixture.node().await;
        let fence = fixture.running(org, node).await;
        let refused = fixture.store.deregister_node(node).await.unwrap_err();
        assert_eq!(refused, Error::Conflict("the node still holds runs"));
        fixture.store.finish_run(fence, fixture.succeeded("x")).await.unwrap();
        fixture.store.deregister_node(node).await.unwrap();
        fixture.store.deregister_node(node).await.unwrap();
        assert_eq!(fixture.count("SELECT COUNT(*) FROM node").await, 0);
        assert_eq!(fixture.store.heartbeat(node, fixture.now() + HOURS).await.unwrap_err(), Error::Fenced);
    }

    async fn a_ready_store_answers_a_ping(fixture: &Fixture) {
        fixture.store.ping().await.unwrap();
    }
}
