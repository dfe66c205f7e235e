//! Callbacks: due at the end of their run, claimed host by host under a lease, recorded under a fence.

use sortie_api::{Delivery, DeliveryState, TraceContext, limits};

use super::prelude::*;
use crate::{
    outbox::{ClaimedDelivery, DeliveryFilter, MadeAttempt, Order, SCANNED},
    runs::{NewCallback, Receiver},
};

const LEASE: Duration = Duration::from_secs(30);

impl Fixture {
    /// Creates a run request with a callback to `host`.
    pub(super) fn with_callback(&self, org: OrgId, host: &str) -> NewRun {
        NewRun {
            callback: Some(NewCallback {
                host: host.to_owned(),
                target: b"sealed".to_vec(),
            }),
            ..self.new_run(org)
        }
    }

    /// Creates a run with a callback to `host` that a worker works on.
    pub(super) async fn calling_back(&self, org: OrgId, node: NodeId, host: &str) -> Fence {
        self.store
            .create_run(self.with_callback(org, host))
            .await
            .unwrap();
        let claim = self.claim_one(node).await;
        assert_eq!(claim.callback_host.as_deref(), Some(host));
        self.start(claim.fence).await.unwrap()
    }

    /// Creates a run with a callback that has been due since `at`.
    pub(super) async fn due(&self, org: OrgId, node: NodeId, host: &str) -> (RunId, Timestamp) {
        let fence = self.calling_back(org, node, host).await;
        let finish = self.ends();
        let at = finish.at;
        self.store.finish_run(fence, finish).await.unwrap();
        (fence.run, at)
    }

    /// Creates the end of a run that has a callback.
    pub(super) fn ends(&self) -> Finish {
        Finish {
            receiver: Receiver::Waits,
            ..self.succeeded("out")
        }
    }

    /// Claims deliveries to `host` that are due at `at`, for the node `name`.
    pub(super) async fn claim_due(&self, name: &str, host: &str, at: Timestamp) -> Vec<ClaimedDelivery> {
        let orders = vec![Order {
            host: host.to_owned(),
            limit: 10,
            without: Vec::new(),
        }];
        self.store
            .claim_deliveries((name.to_owned(), crate::nodes::NodeId(7)), orders, at, at + LEASE)
            .await
            .unwrap()
            .deliveries
    }

    /// Returns the hosts with a delivery that is due by `at`.
    async fn hosts(&self, at: Timestamp) -> Vec<String> {
        let due = self.store.due_hosts(String::new(), at, 100).await.unwrap();
        due.into_iter().map(|due| due.host).collect()
    }
}

/// Creates an attempt under the claim of `claimed`, which leads to `after`.
pub(super) fn made(claimed: &ClaimedDelivery, at: Timestamp, after: AfterAttempt) -> MadeAttempt {
    let error = (after != AfterAttempt::Delivered).then(|| "answered 500".to_owned());
    MadeAttempt {
        run: claimed.run,
        claim: claimed.claim,
        number: claimed.attempts + 1,
        at,
        status: Some(if error.is_none() { 204 } else { 500 }),
        error,
        duration_ms: 7,
        after,
    }
}

both! {
    async fn callbacks_are_listed_by_state_and_receiver(fixture: &Fixture, org: OrgId, other: OrgId, node: NodeId) {
        let list = async |org, states: &[DeliveryState], receiver: Option<&str>, before, limit| {
            let filter = DeliveryFilter { states: states.to_vec(), receiver: receiver.map(str::to_owned), before, limit };
            let found = fixture.store.deliveries(org, filter).await.unwrap();
            assert_eq!(found.stopped_at, None);
            found.items
        };
        let runs = |found: Vec<Delivery>| found.into_iter().map(|found| found.run_id).collect::<Vec<_>>();
        let mut made_of = Vec::new();
        for (host, after) in [
            ("a:1", Some(AfterAttempt::Delivered)),
            ("b:1", Some(AfterAttempt::RetryAt(fixture.now() + Duration::from_hours(1)))),
            ("a:1", Some(AfterAttempt::Abandoned)),
            ("c:1", None),
        ] {
            let (run, due_at) = fixture.due(org, node, host).await;
            if let Some(after) = after {
                let claimed = fixture.claim_due("n", host, due_at).await;
                fixture.store.record_attempt(made(&claimed[0], due_at, after)).await.unwrap();
            }
            made_of.push(run);
        }
        // A run that is not finished has no callback to send yet.
        fixture.calling_back(org, node, "a:1").await;
        let [delivered, retrying, abandoned, pending] = made_of[..] else { panic!("four runs") };
        let all = list(org, &[], None, None, 10).await;
        let states: Vec<DeliveryState> = all.iter().map(|found| found.state).collect();
        assert_eq!(states, [DeliveryState::Pending, DeliveryState::Abandoned, DeliveryState::Retrying, DeliveryState::Delivered]);
        assert_eq!((all[0].attempts, all[0].status, all[0].next_at.is_some()), (0, None, true));
        assert_eq!((all[2].attempts, all[2].status, all[2].error.as_deref(), all[2].next_at.is_some()), (1, Some(500), Some("answered 500"), true));
        assert_eq!((all[3].status, &all[3].error, all[3].next_at), (Some(204), &None, None));
        assert_eq!(runs(all), [pending, abandoned, retrying, delivered]);
        let failing = [DeliveryState::Retrying, DeliveryState::Abandoned];
        assert_eq!(runs(list(org, &failing, None, None, 10).await), [abandoned, retrying]);
        assert_eq!(runs(list(org, &failing, Some("a:1"), None, 10).await), [abandoned]);
        assert_eq!(runs(list(org, &[], None, Some(abandoned), 1).await), [retrying]);
        assert!(list(other, &[], None, None, 10).await.is_empty());
    }

    async fn a_callback_that_cannot_be_read_does_not_keep_the_others(fixture: &Fixture, org: OrgId, node: NodeId) {
        let (broken, _) = fixture.due(org, node, "a:1").await;
        let (whole, due_at) = fixture.due(org, node, "a:1").await;
        let harm = "UPDATE delivery SET give_up_at = NULL WHERE run_id = $1";
        fixture.sql(harm, vals![broken]).await;
        let claimed = fixture.claim_due("n", "a:1", due_at).await;
        assert_eq!(claimed.iter().map(|delivery| delivery.run).collect::<Vec<_>>(), [whole]);
        let harm = "UPDATE delivery SET due_at = 1, host = 'b:1', org_id = 'nobody' WHERE run_id = $1";
        fixture.sql(harm, vals![broken]).await;
        let (_, due_at) = fixture.due(org, node, "c:1").await;
        assert_eq!(fixture.hosts(due_at).await, ["c:1"]);
        fixture.sql("UPDATE delivery SET org_id = $2, give_up_at = 1 WHERE run_id = $1", vals![broken, org]).await;
    }

    async fn the_trace_of_a_run_goes_to_its_workers_and_to_its_callback(fixture: &Fixture, org: OrgId, node: NodeId) {
        let trace = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Some("a=1,b=2"));
        let run = NewRun { trace: trace.clone(), ..fixture.with_callback(org, "a:1") };
        let id = run.id;
        fixture.store.create_run(run).await.unwrap();
        let trace_id = fixture.store.get_run(org, id).await.unwrap().trace_id;
        assert_eq!(trace_id.as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        let claim = fixture.claim_one(node).await;
        assert_eq!(claim.trace, trace);
        fixture.start(claim.fence).await.unwrap();
        let other = fixture.node().await;
        fixture.store.deregister_node(node, fixture.now()).await.unwrap();
        let swept = fixture.take_over(other, fixture.now(), 5).await;
        let taken = swept.taken.first().expect("it is taken over");
        assert_eq!((taken.fence.attempt, &taken.trace), (2, &trace));
        let at = fixture.now();
        fixture.store.cancel_run(org, taken.fence.run, at).await.unwrap();
        let claimed = fixture.claim_due("n", "a:1", at).await;
        assert_eq!(claimed[0].trace, trace);

        let (without, due) = fixture.due(org, other, "b:1").await;
        let claimed = fixture.claim_due("n", "b:1", due).await;
        assert_eq!((claimed[0].run, &claimed[0].trace), (without, &None));
    }

    async fn a_callback_is_due_when_its_run_ends_whoever_ends_it(fixture: &Fixture, org: OrgId, node: NodeId) {
        let finished = fixture.calling_back(org, node, "a:1").await;
        let held = fixture.calling_back(org, node, "b:1").await;
        let tired = fixture.calling_back(org, node, "c:1").await;
        fixture.tire(tired.run).await;
        let waiting = fixture.with_callback(org, "d:1");
        fixture.store.create_run(waiting.clone()).await.unwrap();
        let far = fixture.now() + Duration::from_hours(1000);
        assert!(fixture.hosts(far).await.is_empty());
        fixture.store.finish_run(finished, fixture.ends()).await.unwrap();
        assert_eq!(fixture.hosts(far).await, ["a:1"]);
        fixture.store.cancel_run(org, held.run, fixture.now()).await.unwrap();
        fixture.store.cancel_run(org, waiting.id, fixture.now()).await.unwrap();
        assert_eq!(fixture.hosts(far).await, ["a:1", "b:1", "d:1"]);
        fixture.sweep(fixture.now() + Duration::from_hours(5), 5).await;
        assert_eq!(fixture.hosts(far).await, ["a:1", "b:1", "c:1", "d:1"]);
    }

    async fn a_callback_is_due_by_the_clock_that_all_nodes_share(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.calling_back(org, node, "a:1").await;
        // The clock of the node that ends the run is hours ahead.
        let at = fixture.now() + Duration::from_hours(5);
        fixture.store.finish_run(fence, Finish { at, ..fixture.ends() }).await.unwrap();
        let is_due = fixture.dialect() == Dialect::Postgres;
        assert_eq!(fixture.hosts(fixture.now()).await.len(), usize::from(is_due));
        let claimed = fixture.claim_due("n", "a:1", at).await.remove(0);
        fixture.store.record_attempt(made(&claimed, at, AfterAttempt::Abandoned)).await.unwrap();
        fixture.store.redeliver(org, fence.run, at).await.unwrap();
        assert_eq!(fixture.hosts(fixture.now()).await.len(), usize::from(is_due));
    }

    async fn a_callback_becomes_due_once(fixture: &Fixture, org: OrgId, node: NodeId) {
        let held = fixture.calling_back(org, node, "a:1").await;
        fixture.store.cancel_run(org, held.run, fixture.now()).await.unwrap();
        let claimed = fixture.claim_due("n", "a:1", fixture.now()).await;
        fixture.store.record_attempt(made(&claimed[0], fixture.now(), AfterAttempt::Delivered)).await.unwrap();
        // The run is cancelled again and settled by a sweep. Its callback does not become due again.
        fixture.store.cancel_run(org, held.run, fixture.now()).await.unwrap();
        fixture.sweep(fixture.now() + Duration::from_hours(5), 5).await;
        assert!(fixture.hosts(fixture.now() + Duration::from_hours(1000)).await.is_empty());
    }

    async fn a_run_of_an_idempotency_key_that_is_there_keeps_its_callback(fixture: &Fixture, org: OrgId, node: NodeId) {
        let with_key = |host| NewRun { idempotency_key: Some("once".to_owned()), ..fixture.with_callback(org, host) };
        fixture.store.create_run(with_key("a:1")).await.unwrap();
        let again = fixture.store.create_run(with_key("b:1")).await.unwrap();
        assert!(matches!(again, Created::Existing(_)));
        assert_eq!(fixture.claim_one(node).await.callback_host.as_deref(), Some("a:1"));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM delivery").await, 1);
    }

    async fn a_claim_is_a_lease_that_another_node_takes_over(fixture: &Fixture, org: OrgId, node: NodeId) {
        let (run, at) = fixture.due(org, node, "a:1").await;
        let due = fixture.count("SELECT due_at FROM delivery").await;
        let early = Timestamp::from_micros(due - 1);
        assert!(fixture.claim_due("one", "a:1", early).await.is_empty());
        let first = fixture.claim_due("one", "a:1", at).await;
        assert_eq!((first.len(), first[0].run, first[0].org, first[0].target.as_slice()), (1, run, org, &b"sealed"[..]));
        assert_eq!(first[0].give_up_at, Timestamp::from_micros(due) + Duration::from_secs(limits::CALLBACK_SECONDS));
        assert!(fixture.claim_due("two", "a:1", at + Duration::from_secs(29)).await.is_empty());
        let second = fixture.claim_due("two", "a:1", at + LEASE).await;
        assert_eq!(second.len(), 1);
        let late = fixture.store.record_attempt(made(&first[0], at, AfterAttempt::Delivered)).await;
        assert_eq!(late, Err(Error::Fenced));
        fixture.store.record_attempt(made(&second[0], at, AfterAttempt::Delivered)).await.unwrap();
        assert_eq!(fixture.store.list_deliveries(org, run).await.unwrap().len(), 1);
    }

    async fn what_a_node_held_is_due_again_when_it_starts_anew(fixture: &Fixture, org: OrgId, node: NodeId) {
        let (_, at) = fixture.due(org, node, "a:1").await;
        fixture.due(org, node, "b:1").await;
        let at = at + Duration::from_secs(1);
        fixture.claim_due("one", "a:1", at).await;
        fixture.claim_due("two", "b:1", at).await;
        assert_eq!(fixture.store.release_deliveries("one".to_owned(), at).await, Ok(1));
        assert_eq!(fixture.hosts(at).await, ["a:1"]);
        assert_eq!(fixture.store.release_deliveries("one".to_owned(), at).await, Ok(0));
    }

    async fn one_host_takes_no_more_than_was_ordered_for_it(fixture: &Fixture, org: OrgId, node: NodeId) {
        let mut runs = Vec::new();
        for _ in 0..5 {
            runs.push(fixture.due(org, node, "dead:1").await.0);
        }
        fixture.due(org, node, "live:1").await;
        let at = fixture.now();
        let order = |host: &str, limit| Order { host: host.to_owned(), limit, without: Vec::new() };
        let orders = vec![order("live:1", 3), order("dead:1", 2), order("unknown:1", 3)];
        let claimed = fixture.store.claim_deliveries(("n".to_owned(), crate::nodes::NodeId(7)), orders, at, at + LEASE).await.unwrap().deliveries;
        let mut of_dead: Vec<_> = claimed.iter().filter(|one| one.host == "dead:1").map(|one| one.run).collect();
        of_dead.sort();
        // The deliveries that were due first were claimed.
        assert_eq!(of_dead, runs[..2]);
        assert_eq!(claimed.len(), 3);
    }

    async fn organizations_that_are_left_out_are_stepped_over(fixture: &Fixture) {
        let (node, mut runs) = (fixture.node().await, Vec::new());
        let orgs = [fixture.org().await, fixture.org().await, fixture.org().await];
        for org in orgs {
            runs.push(fixture.due(org, node, "a:1").await.0);
        }
        let at = fixture.now();
        let claim = async |without: &[OrgId]| {
            let order = Order { host: "a:1".to_owned(), limit: 1, without: without.to_vec() };
            let claimed = fixture.store.claim_deliveries(("n".to_owned(), crate::nodes::NodeId(7)), vec![order], at, at + LEASE).await;
            claimed.unwrap().deliveries.iter().map(|one| one.run).collect::<Vec<_>>()
        };
        assert_eq!(claim(&orgs).await, []);
        assert_eq!(claim(&[orgs[0], orgs[2]]).await, [runs[1]]);
        assert_eq!(claim(&orgs[..1]).await, [runs[2]]);
        assert_eq!(claim(&[]).await, [runs[0]]);
    }

    async fn an_order_looks_no_further_than_it_says_for_organizations_that_are_not_left_out(fixture: &Fixture) {
        let (busy, other, node) = (fixture.org().await, fixture.org().await, fixture.node().await);
        let (run, due) = fixture.due(other, node, "a:1").await;
        for _ in 0..SCANNED {
            fixture.store.create_run(fixture.with_callback(busy, "a:1")).await.unwrap();
        }
        let before = "UPDATE delivery SET due_at = 1, give_up_at = 2 WHERE due_at IS NULL";
        fixture.sql(before, vals![]).await;
        let claim = async |without: &[OrgId]| {
            let order = Order { host: "a:1".to_owned(), limit: 1, without: without.to_vec() };
            let node = ("n".to_owned(), crate::nodes::NodeId(7));
            let claimed = fixture.store.claim_deliveries(node, vec![order], due, due + LEASE).await;
            claimed.unwrap().deliveries.iter().map(|one| (one.org, one.run)).collect::<Vec<_>>()
        };
        assert_eq!(claim(&[busy]).await, []);
        assert_eq!(claim(&[]).await[0].0, busy);
        // A delivery before this one was claimed, so this one is among those that are searched.
        assert_eq!(claim(&[busy]).await, [(other, run)]);
    }

    async fn a_claim_tells_which_delivery_of_the_host_is_due_next(fixture: &Fixture) {
        let (node, mut runs) = (fixture.node().await, Vec::new());
        let orgs = [fixture.org().await, fixture.org().await, fixture.org().await];
        for org in orgs {
            runs.push(fixture.due(org, node, "a:1").await.0);
        }
        fixture.due(orgs[0], node, "b:1").await;
        let at = fixture.now();
        let soon = at + Duration::from_millis(400);
        for (run, due_at) in [(runs[1], soon), (runs[2], soon + Duration::from_secs(1))] {
            fixture.sql("UPDATE delivery SET due_at = $2 WHERE run_id = $1", vals![run, due_at]).await;
        }
        let claim = async |without: &[OrgId]| {
            let order = |host: &str| Order { host: host.to_owned(), limit: 10, without: without.to_vec() };
            let orders = vec![order("b:1"), order("a:1")];
            let node = ("n".to_owned(), crate::nodes::NodeId(7));
            let claimed = fixture.store.claim_deliveries(node, orders, at, at + LEASE).await.unwrap();
            let mut next: Vec<_> = claimed.next.into_iter().map(|next| (next.host, next.org, next.due_at)).collect();
            next.sort();
            (claimed.deliveries.len(), next)
        };
        let due = |host: &str, org: OrgId, at: Timestamp| (host.to_owned(), org, at);
        // At the end of its lease the delivery becomes due again.
        assert_eq!(claim(&[]).await, (2, vec![due("a:1", orgs[1], soon), due("b:1", orgs[0], at + LEASE)]));
        let later = due("a:1", orgs[2], soon + Duration::from_secs(1));
        assert_eq!(claim(&[orgs[0], orgs[1]]).await, (0, vec![later]));
        assert_eq!(claim(&orgs).await, (0, vec![]));
    }

    async fn hosts_that_are_due_are_found_from_any_name_on(fixture: &Fixture, org: OrgId, node: NodeId) {
        for host in ["c:1", "a:1", "b:1", "a:1"] {
            fixture.due(org, node, host).await;
        }
        let at = fixture.now();
        let first = fixture.store.due_hosts(String::new(), at, 2).await.unwrap();
        assert_eq!(first.iter().map(|due| due.host.as_str()).collect::<Vec<_>>(), ["a:1", "b:1"]);
        let rest = fixture.store.due_hosts("b:1".to_owned(), at, 2).await.unwrap();
        assert_eq!(rest.len(), 1);
        assert!(rest[0].host == "c:1" && rest[0].due_at <= at);
        assert_eq!(rest[0].org, org);
    }

    async fn attempts_are_listed_and_failures_counted(fixture: &Fixture, org: OrgId, node: NodeId) {
        let (run, at) = fixture.due(org, node, "a:1").await;
        let claimed = fixture.claim_due("n", "a:1", at).await.remove(0);
        let next = at + Duration::from_secs(10);
        fixture.store.record_attempt(made(&claimed, at, AfterAttempt::RetryAt(next))).await.unwrap();
        let claimed = fixture.claim_due("n", "a:1", next).await.remove(0);
        assert_eq!((claimed.attempts, claimed.failures), (1, 1));
        fixture.store.record_attempt(made(&claimed, next, AfterAttempt::Abandoned)).await.unwrap();
        assert!(fixture.claim_due("n", "a:1", next + Duration::from_hours(900)).await.is_empty());
        let listed = fixture.store.list_deliveries(org, run).await.unwrap();
        let shown: Vec<_> = listed.iter().map(|one| (one.attempt, one.at, one.status, one.next_at)).collect();
        assert_eq!(shown, [(1, at, Some(500), Some(next)), (2, next, Some(500), None)]);
        assert_eq!(listed[0].error.as_deref(), Some("answered 500"));
        let other = fixture.org().await;
        assert_eq!(fixture.store.list_deliveries(other, run).await, Err(Error::NotFound));
    }

    async fn only_the_newest_attempts_are_kept(fixture: &Fixture, org: OrgId, node: NodeId) {
        let (run, at) = fixture.due(org, node, "a:1").await;
        let claimed = fixture.claim_due("n", "a:1", at).await.remove(0);
        let most = limits::CALLBACK_ATTEMPTS;
        for number in [1, 2, 3, most + 1, most + 2] {
            let attempt = MadeAttempt { number, ..made(&claimed, at, AfterAttempt::RetryAt(at)) };
            fixture.store.record_attempt(attempt).await.unwrap();
        }
        let listed = fixture.store.list_deliveries(org, run).await.unwrap();
        assert_eq!(listed.iter().map(|one| one.attempt).collect::<Vec<_>>(), [3, most + 1, most + 2]);
    }

    async fn a_callback_is_sent_again_on_request(fixture: &Fixture, org: OrgId, node: NodeId) {
        let open = fixture.calling_back(org, node, "a:1").await;
        let without = fixture.running(org, node).await;
        let now = fixture.now();
        let refused = async |run| fixture.store.redeliver(org, run, now).await.unwrap_err().to_string();
        assert_eq!(refused(open.run).await, "the run is not finished: its callback is sent when it is");
        assert_eq!(refused(without.run).await, "the run has no callback");
        let stranger = fixture.org().await;
        assert_eq!(fixture.store.redeliver(stranger, open.run, now).await, Err(Error::NotFound));

        fixture.store.finish_run(open, fixture.ends()).await.unwrap();
        let at = fixture.now();
        let claimed = fixture.claim_due("n", "a:1", at).await.remove(0);
        // The delivery is in progress, so no node sends it a second time.
        assert_eq!(fixture.store.redeliver(org, open.run, at).await, Ok((1, "a:1".to_owned())));
        assert!(fixture.claim_due("n", "a:1", at).await.is_empty());
        let later = at + Duration::from_secs(10);
        fixture.store.record_attempt(made(&claimed, at, AfterAttempt::RetryAt(later))).await.unwrap();
        // The delivery waits for its next attempt. Redelivery starts the attempt now, and resets the count of
        // failures.
        assert_eq!(fixture.store.redeliver(org, open.run, at).await, Ok((2, "a:1".to_owned())));
        let claimed = fixture.claim_due("n", "a:1", at).await.remove(0);
        assert_eq!((claimed.attempts, claimed.failures), (1, 0));
        fixture.store.record_attempt(made(&claimed, at, AfterAttempt::Delivered)).await.unwrap();
        // The delivery has succeeded, and restarts.
        assert_eq!(fixture.store.redeliver(org, open.run, later).await, Ok((3, "a:1".to_owned())));
        assert_eq!(fixture.claim_due("n", "a:1", later).await.len(), 1);
        assert_eq!(fixture.get(org, open.run).await.status, RunStatus::Succeeded);
    }
}
