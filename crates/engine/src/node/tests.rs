use std::sync::Arc;

use sortie_api::{OrgId, RunId, RunStatus};
use sortie_store::nodes::NodeId;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{reconciler::Suspects, *};
use crate::{
    cluster::{hints::Wake, lease_clock::LeaseClock, leases::Leases},
    kit::options::Options,
    runs::active::{Active, StopReason},
    testing::{Held, claimed_beside, held, new_node},
};

/// A node, without its tasks.
struct Rig {
    takeover: Takeover,
    wake: Wake,
    _dir: TempDir,
}

impl Rig {
    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            node: self.takeover.clone(),
            wake: self.wake.clone(),
        }
    }

    fn sweeper(&self) -> Sweeper {
        Sweeper {
            node: self.takeover.clone(),
            wake: self.wake.clone(),
        }
    }

    fn reconciler(&self) -> Reconciler {
        Reconciler(self.takeover.clone())
    }

    fn active(&self) -> &Active {
        self.takeover.slots.active()
    }
}

/// A node that holds one run without a task for it.
async fn holding() -> (Rig, OrgId, RunId) {
    let held = held().await;
    let (org, run) = (held.claim.org, held.claim.fence.run);
    (node_of(held, Options::default()).await, org, run)
}

/// A node with these options, on the store of `held`.
async fn node_of(held: Held, options: Options) -> Rig {
    let worker = held.worker_with(options).await;
    let Held { store, node, dir, .. } = held;
    let options = Arc::clone(&worker.options);
    let slots = Slots::new(worker, TaskTracker::new(), CancellationToken::new());
    let clock = LeaseClock::begin(&store, options.clock.clone()).await.unwrap();
    let seen = Leases::new(options.lease, Instant::now());
    let takeover = Takeover {
        identity: Identity::of(node, clock, seen),
        store,
        slots,
    };
    Rig {
        takeover,
        wake: Wake::default(),
        _dir: dir,
    }
}

async fn status(rig: &Rig, org: OrgId, run: RunId) -> RunStatus {
    rig.takeover.store.get_run(org, run).await.unwrap().status
}

#[tokio::test]
async fn a_run_that_is_held_without_a_task_goes_on_at_the_second_look() {
    let (rig, org, run) = holding().await;
    let mut suspects = Suspects::default();
    rig.reconciler().compare(&mut suspects).await.unwrap();
    assert!(!rig.active().contains(run));
    rig.reconciler().compare(&mut suspects).await.unwrap();
    assert!(rig.active().contains(run));
    rig.active().drained().await;
    assert_eq!(status(&rig, org, run).await, RunStatus::Succeeded);
    let events = rig.takeover.store.events_after(org, run, 0, 100).await.unwrap();
    let resumed: Vec<_> = events.iter().filter(|event| event.kind == "resumed").collect();
    assert_eq!(resumed.len(), 1);
    assert_eq!(resumed[0].data, r#"{"step":0,"attempt":2}"#);
}

#[tokio::test]
async fn a_node_that_was_declared_lost_gets_back_what_nobody_took_over() {
    let (rig, org, run) = holding().await;
    let mut earlier = rig.active().enter(run);
    let lost = rig.takeover.identity.get();
    rig.takeover
        .store
        .deregister_node(lost, rig.takeover.slots.worker().options.clock.now())
        .await
        .unwrap();
    rig.heartbeat().beat().await.unwrap();
    // The heartbeat has notified the sweeper, and the node holds a lease.
    rig.wake.nodes.notified().await;
    assert!(rig.takeover.identity.seen.is_held());
    rig.sweeper().sweep().await.unwrap();
    assert_ne!(rig.takeover.identity.get(), lost);
    assert_eq!(earlier.stopped().await, StopReason::Lost);
    assert_eq!(status(&rig, org, run).await, RunStatus::Starting);
    // The next attempt waits until the earlier one has ended.
    drop(earlier);
    rig.active().drained().await;
    assert_eq!(status(&rig, org, run).await, RunStatus::Succeeded);
}

#[tokio::test]
async fn a_node_that_is_declared_lost_while_it_drains_is_shown_as_draining() {
    let (rig, _org, _run) = holding().await;
    let since = rig.takeover.slots.worker().options.clock.now();
    rig.takeover
        .identity
        .drain(&rig.takeover.store, since)
        .await
        .unwrap();
    let lost = rig.takeover.identity.get();
    rig.takeover.store.deregister_node(lost, since).await.unwrap();
    rig.heartbeat().beat().await.unwrap();
    let nodes = rig.takeover.store.list_nodes().await.unwrap();
    let shown = nodes
        .iter()
        .find(|row| row.node.id == rig.takeover.identity.get());
    assert_eq!(shown.unwrap().node.draining_since, Some(since));
}

#[tokio::test]
async fn a_closing_node_takes_nothing_up_again() {
    let (rig, org, run) = holding().await;
    rig.takeover.slots.close();
    let mut suspects = Suspects::default();
    for _ in 0..3 {
        rig.reconciler().compare(&mut suspects).await.unwrap();
    }
    assert_eq!(rig.active().count(), 0);
    assert_eq!(status(&rig, org, run).await, RunStatus::Starting);
}

#[tokio::test]
async fn a_run_with_a_task_is_left_alone_until_it_is_cancelled_elsewhere() {
    let (rig, org, run) = holding().await;
    let mut active_run = rig.active().enter(run);
    let mut suspects = Suspects::default();
    for _ in 0..3 {
        rig.reconciler().compare(&mut suspects).await.unwrap();
    }
    assert_eq!(status(&rig, org, run).await, RunStatus::Starting);
    rig.takeover
        .store
        .cancel_run(org, run, rig.takeover.slots.worker().options.clock.now())
        .await
        .unwrap();
    rig.reconciler().compare(&mut suspects).await.unwrap();
    assert_eq!(active_run.stopped().await, StopReason::NotOurs);
}

#[tokio::test]
async fn a_node_is_ready_before_it_has_taken_over_the_runs_of_its_earlier_process() {
    let held = held().await;
    let mut runs = claimed_beside(&held, 250).await;
    runs.push(held.claim.fence.run);
    let Held {
        store, claim, dir, ..
    } = held;
    let options = Options {
        data_dir: dir.path().to_owned(),
        concurrency: 300,
        ..Options::default()
    };
    let storage = parts::Storage::open(&options).await.unwrap();
    let no_sandbox = Err("a test".to_owned());
    let assembled = crate::Engine::assemble(options, store.clone(), no_sandbox, storage).await;
    let (engine, sweeper) = assembled.unwrap();
    engine.ready().await.unwrap();
    for run in &runs {
        let position = store.position(*run).await.unwrap();
        assert_eq!(position.attempt, claim.fence.attempt, "nobody has taken it over");
    }
    engine.begin_runs(sweeper, None);
    for run in runs {
        while store.get_run(claim.org, run).await.unwrap().billing_pending {
            tokio::task::yield_now().await;
        }
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn many_lost_runs_are_taken_over_in_bounded_pieces() {
    let mut held = held().await;
    let (store, org) = (held.store.clone(), held.claim.org);
    let mut runs = claimed_beside(&held, 250).await;
    runs.push(held.claim.fence.run);
    let options = Options {
        concurrency: 300,
        ..Options::default()
    };
    // The next process of the node. The previous process is lost.
    held.node = NodeId(2);
    let start = new_node(held.node, &options, options.clock.now());
    store.register_node(start).await.unwrap();
    let rig = node_of(held, options).await;
    let taken = async || {
        let mut taken = 0;
        for run in &runs {
            taken += u32::from(store.position(*run).await.unwrap().attempt > 1);
        }
        taken
    };
    let mut before = 0;
    while rig.sweeper().sweep_some().await.unwrap() {
        let now = taken().await;
        assert!((1..=100).contains(&(now - before)), "{before} to {now}");
        before = now;
    }
    assert_eq!(taken().await, 251);
    for run in &runs {
        while store.get_run(org, *run).await.unwrap().billing_pending {
            tokio::task::yield_now().await;
        }
    }
}
