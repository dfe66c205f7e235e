//! Runs without retention: the nodes that may claim them, the writes of their workers, and their fate without
//! their node.

use proptest::prelude::*;
use sortie_api::RunUsage;

use super::prelude::*;
use crate::runs::{
    ContentHolder, PlainError,
    sweep::{Answers, Ending, give_up},
};

/// Creates a run that a worker processes and that has its content only on `node`.
async fn at_work(fixture: &Fixture, org: OrgId, node: NodeId) -> Fence {
    let new = fixture.new_unretained(org, node);
    fixture.store.create_run(new.clone()).await.unwrap();
    let claims = fixture.store.claim_named(node, vec![new.id], None, fixture.now());
    let fence = claims.await.unwrap()[0].fence;
    fixture.store.start_unretained(fence, 1).await.unwrap();
    after(fence, 1)
}

fn counted(events: i64, cost: u64) -> Counted {
    Counted {
        events,
        cost: Micros::new(cost).unwrap(),
        usage: RunUsage::default(),
    }
}

both! {
    async fn only_the_node_that_has_it_claims_it_and_its_budget_leaves_room_for_the_surcharge(fixture: &Fixture, org: OrgId) {
        let (own, other) = (fixture.node().await, fixture.node().await);
        let new = fixture.new_unretained(org, own);
        fixture.store.create_run(new.clone()).await.unwrap();
        let listed = fixture.get(org, new.id).await;
        assert_eq!((listed.status, listed.zero_data_retention), (RunStatus::Queued, true));
        assert_eq!((listed.surcharge_percent, listed.output_available), (Some(20), Some(false)));
        for node in [own, other] {
            assert!(fixture.claim(node, 10).await.is_empty());
        }
        fixture.check().await;
        let filter = RunFilter { statuses: vec![RunStatus::Queued], limit: 10, ..RunFilter::default() };
        let kept = fixture.queued(org).await;
        let listed = fixture.store.list_runs(org, filter).await.unwrap().items;
        assert_eq!(listed.iter().map(|listed| listed.run.id).collect::<Vec<_>>(), [kept, new.id]);
        let holder = fixture.store.content_holder(org, new.id).await.unwrap().unwrap();
        assert_eq!(holder.node, own);
        assert!(holder.address.is_some());
        assert_eq!(fixture.store.content_holder(org, kept).await.unwrap(), None);
        let foreign = fixture.org().await;
        assert_eq!(fixture.store.content_holder(foreign, new.id).await, Err(Error::NotFound));

        let claims = fixture.store.claim_named(own, vec![new.id], None, fixture.now()).await.unwrap();
        let [claim] = &claims[..] else { panic!("{claims:?}") };
        assert_eq!((claim.definition.as_deref(), claim.max_cost.get()), (None, 1_000_000 * 100 / 120));
        fixture.check().await;
    }

    async fn the_limit_of_an_organization_holds_for_them_too(fixture: &Fixture, org: OrgId, node: NodeId) {
        let waits = fixture.new_unretained(org, node);
        fixture.store.create_run(waits.clone()).await.unwrap();
        // A waiting run does not count against the limit.
        fixture.queued(org).await;
        let claimed = fixture.store.claim_runs(node, 5, Some(1), fixture.now()).await.unwrap();
        assert_eq!(claimed.len(), 1);
        let claim = async || fixture.store.claim_named(node, vec![waits.id], Some(1), fixture.now()).await.unwrap();
        assert!(claim().await.is_empty());
        let fence = fixture.start(claimed[0].fence).await.unwrap();
        fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        assert_eq!(claim().await.len(), 1);
    }

    async fn events_are_counted_and_the_surcharge_is_added_to_the_cost(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = at_work(fixture, org, node).await;
        fixture.store.append_unretained(fence, counted(3, 11)).await.unwrap();
        let run = fixture.get(org, fence.run).await;
        assert_eq!((run.cost_micros.get(), run.surcharge_micros.get()), (11 + 3, 3));
        let late = fixture.store.append_unretained(fence, counted(1, 12)).await;
        assert_eq!(late.unwrap_err(), Error::Fenced);
        let fence = after(fence, 3);
        let finish = fixture.unretained_finish();
        let run = fixture.store.finish_unretained(fence, finish).await.unwrap();
        assert_eq!((run.cost_micros.get(), run.surcharge_micros.get()), (101 + 21, 21));
        assert_eq!((run.output, run.output_available), (None, Some(true)));
        assert_eq!(run.output_expires_at, finish.output_expires_at);
        fixture.check().await;
        let read_at = fixture.now();
        fixture.store.forget_outputs(vec![(fence.run, Some(read_at))]).await.unwrap();
        let run = fixture.get(org, fence.run).await;
        assert_eq!((run.output_available, run.output_expires_at), (Some(false), None));
        assert_eq!(run.output_read_at, Some(read_at));
        // An output that was read before is not deleted unread.
        fixture.store.forget_outputs(vec![(fence.run, None)]).await.unwrap();
        assert_eq!(fixture.get(org, fence.run).await.output_read_at, Some(read_at));
        fixture.store.forget_content(vec![fence.run]).await.unwrap();
        assert_eq!(fixture.store.content_holder(org, fence.run).await.unwrap(), None);
        let statuses = fixture.store.statuses(vec![fence.run]).await.unwrap();
        assert_eq!(statuses, [(fence.run, RunStatus::Succeeded)]);
    }

    async fn one_that_is_cancelled_stores_no_event_and_is_settled_with_the_surcharge(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = at_work(fixture, org, node).await;
        let cancelled = fixture.store.cancel_run(org, fence.run, fixture.now()).await.unwrap();
        assert!(matches!(cancelled, Cancelled::Now(run) if run.billing_pending));
        let cost = Micros::new(50).unwrap();
        let settled = fixture.store.settle_unretained(fence.run, fence.attempt, of_calls(cost), 2).await.unwrap();
        // Two events more than the cancellation, which are counted.
        assert_eq!((settled.last_event, settled.cost), (fence.last_event + 3, cost));
        let again = fixture.store.settle_unretained(fence.run, fence.attempt, of_calls(cost), 2).await;
        assert_eq!(again, Err(Error::Fenced));
        let run = fixture.get(org, fence.run).await;
        assert_eq!((run.cost_micros.get(), run.surcharge_micros.get()), (60, 10));
        fixture.check().await;
    }

    async fn an_answer_that_is_stored_while_a_sweep_gives_its_run_up_stays(fixture: &Fixture, org: OrgId, lost: NodeId) {
        let fence = at_work(fixture, org, lost).await;
        fixture.store.finish_unretained(fence, fixture.unretained_finish()).await.unwrap();
        let ids = serde_json::to_string(&[fence.run]).unwrap();
        let ending = Ending::new(fixture.now(), Micros::ZERO).unwrap();
        // This is a sweep that has found the run in progress, and has waited for its row.
        let swept = fixture.store.db.write(move |tx| give_up(tx, &ids, Answers::Expired, &ending));
        assert_eq!(swept.await.unwrap(), []);
        assert_eq!(fixture.get(org, fence.run).await.output_available, Some(true));
        assert_eq!(fixture.store.content_of(lost).await.unwrap(), [fence.run]);
    }

    async fn a_content_whose_row_names_an_earlier_identity_is_adopted(fixture: &Fixture, org: OrgId) {
        let earlier = fixture.node_named("a").await;
        let (waits, works) = (fixture.new_unretained(org, earlier), at_work(fixture, org, earlier).await);
        fixture.store.create_run(waits.clone()).await.unwrap();
        let now = fixture.node().await;
        let held = vec![waits.id, works.run, fixture.run_id()];
        fixture.store.adopt_contents(now, held.clone()).await.unwrap();
        // A worker was working on the other run, and was stopped with that identity of the node.
        assert_eq!(fixture.store.content_of(now).await.unwrap(), [waits.id]);
        let fenced = fixture.node_named("b").await;
        fixture.node_named("b").await;
        let refused = fixture.store.adopt_contents(fenced, held).await;
        assert_eq!(refused.unwrap_err(), Error::Fenced);
    }

    async fn one_that_names_an_earlier_identity_of_its_node_is_not_recorded(fixture: &Fixture, org: OrgId) {
        let earlier = fixture.node_named("a").await;
        let new = fixture.new_unretained(org, earlier);
        fixture.node_named("a").await;
        let refused = fixture.store.create_run(new).await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run").await, 0);
    }

    async fn those_of_a_lost_node_are_interrupted_and_never_taken_over(fixture: &Fixture, org: OrgId, lost: NodeId, other: NodeId) {
        let works = at_work(fixture, org, lost).await;
        fixture.store.append_unretained(works, counted(1, 100)).await.unwrap();
        let waits = fixture.new_unretained(org, lost);
        fixture.store.create_run(waits.clone()).await.unwrap();
        let done = at_work(fixture, org, lost).await;
        fixture.store.finish_unretained(done, fixture.unretained_finish()).await.unwrap();
        let cancelled = at_work(fixture, org, lost).await;
        fixture.store.cancel_run(org, cancelled.run, fixture.now()).await.unwrap();
        let kept = fixture.running(org, lost).await;
        fixture.store.deregister_node(lost, fixture.now()).await.unwrap();

        let sweep = Sweep { places: 10, ..sweep(other, fixture.now(), 2) };
        let mut swept = fixture.store.sweep(sweep.clone()).await.unwrap();
        // A sweep does not exceed the limit. The next sweep handles the remaining runs.
        let next = fixture.store.sweep(sweep.clone()).await.unwrap();
        swept.ended.extend(next.ended);
        swept.taken.extend(next.taken);
        let mut ended: Vec<_> = swept.ended.iter().map(|(_, run)| *run).collect();
        ended.sort();
        let mut gone = vec![works.run, waits.id];
        gone.sort();
        assert_eq!(ended, gone);
        assert_eq!(swept.taken.iter().map(|claim| claim.fence.run).collect::<Vec<_>>(), [kept.run]);
        for run in [works.run, waits.id] {
            let run = fixture.get(org, run).await;
            assert_eq!((run.status, run.output_available), (RunStatus::Interrupted, Some(false)));
            assert_eq!(run.error.as_deref(), Some("the node that had its content was lost"));
        }
        assert_eq!(fixture.get(org, works.run).await.cost_micros.get(), 120);
        assert!(!fixture.get(org, cancelled.run).await.billing_pending);
        // The process may still be alive, so its answer stays until it expires.
        let answered = fixture.get(org, done.run).await;
        assert_eq!((answered.status, answered.output_available), (RunStatus::Succeeded, Some(true)));
        let holder = fixture.store.content_holder(org, done.run).await.unwrap().unwrap();
        assert_eq!((holder.node, holder.is_lost, holder.has_answer), (lost, true, true));
        fixture.check().await;
        let over = Sweep { at: answered.output_expires_at.unwrap(), ..sweep };
        for _ in 0..2 {
            fixture.store.sweep(over.clone()).await.unwrap();
        }
        assert_eq!(fixture.get(org, done.run).await.output_available, Some(false));
        assert_eq!(fixture.store.content_holder(org, done.run).await.unwrap(), None);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM node").await, 1);
        fixture.check().await;
    }

    async fn a_node_that_was_declared_lost_has_what_is_still_in_its_memory_again(fixture: &Fixture, org: OrgId) {
        let (node, other) = (fixture.node_named("a").await, fixture.node().await);
        let (held, dropped) = (at_work(fixture, org, node).await, at_work(fixture, org, node).await);
        for fence in [held, dropped] {
            fixture.store.finish_unretained(fence, fixture.unretained_finish()).await.unwrap();
        }
        let works = at_work(fixture, org, node).await;
        let cancelled = at_work(fixture, org, node).await;
        fixture.store.cancel_run(org, cancelled.run, fixture.now()).await.unwrap();
        let waits = fixture.new_unretained(org, node);
        fixture.store.create_run(waits.clone()).await.unwrap();
        // The node is declared lost before a sweep handles its runs.
        fixture.store.deregister_node(node, fixture.now()).await.unwrap();
        let row = fixture.store.list_nodes().await.unwrap().into_iter().find(|row| row.node.id == node).unwrap();
        let renewed = NodeId(fixture.number());
        let again = crate::nodes::NewNode { id: renewed, ..row.node };
        let in_memory = vec![held.run, works.run, cancelled.run, waits.id];
        fixture.store.register_again(again, in_memory).await.unwrap();
        let mut adopted = fixture.store.content_of(renewed).await.unwrap();
        adopted.sort();
        let mut expected = vec![held.run, waits.id];
        expected.sort();
        assert_eq!(adopted, expected);
        assert_eq!(fixture.get(org, held.run).await.output_available, Some(true));
        assert_eq!(fixture.get(org, dropped.run).await.output_available, Some(false));
        let swept = fixture.take_over(other, fixture.now(), 5).await;
        assert_eq!((swept.ended, swept.taken.len()), (vec![(org, works.run)], 0));
        assert!(!fixture.get(org, cancelled.run).await.billing_pending);
        let claims = fixture.store.claim_named(renewed, vec![waits.id], None, fixture.now()).await.unwrap();
        assert_eq!(claims.len(), 1);
        fixture.check().await;
    }

    async fn the_next_process_of_a_node_gives_up_the_answers_of_the_one_before_at_once(fixture: &Fixture, org: OrgId) {
        let (node, stays) = (fixture.node_named("a").await, fixture.node_named("b").await);
        let (gone, kept) = (at_work(fixture, org, node).await, at_work(fixture, org, stays).await);
        for fence in [gone, kept] {
            fixture.store.finish_unretained(fence, fixture.unretained_finish()).await.unwrap();
        }
        // The runs are swept before the next start. The name of the node is still known.
        fixture.store.deregister_node(node, fixture.now()).await.unwrap();
        fixture.take_over(stays, fixture.now(), 5).await;
        assert_eq!(fixture.get(org, gone.run).await.output_available, Some(true));
        fixture.node_named("a").await;
        assert_eq!(fixture.get(org, gone.run).await.output_available, Some(false));
        assert_eq!(fixture.get(org, kept.run).await.output_available, Some(true));
        fixture.take_over(stays, fixture.now(), 5).await;
        assert_eq!(fixture.store.content_holder(org, gone.run).await.unwrap(), None);
    }

    async fn a_run_that_is_recorded_after_its_content_was_forgotten_is_given_up(fixture: &Fixture, org: OrgId, node: NodeId) {
        let new = fixture.new_unretained(org, node);
        fixture.store.db.faults().lose_answer();
        assert!(matches!(fixture.store.create_run(new.clone()).await, Err(Error::Unavailable(_))));
        assert_eq!(fixture.store.content_of(node).await.unwrap(), [new.id]);
        let other = fixture.node().await;
        for (node, ended) in [(other, vec![]), (node, vec![(org, new.id)]), (node, vec![])] {
            let given_up = fixture.store.abandon_missing(node, vec![new.id], fixture.now(), Micros::ZERO).await;
            assert_eq!(given_up.unwrap(), ended);
        }
        assert_eq!(fixture.get(org, new.id).await.status, RunStatus::Interrupted);
        assert_eq!(fixture.store.content_of(node).await.unwrap(), []);
        fixture.check().await;
    }

    async fn one_whose_claim_lost_its_answer_is_claimed_again_by_its_node_alone(fixture: &Fixture, org: OrgId, node: NodeId, other: NodeId) {
        let new = fixture.new_unretained(org, node);
        fixture.store.create_run(new.clone()).await.unwrap();
        let claim = async |node| fixture.store.claim_named(node, vec![new.id], Some(1), fixture.now()).await;
        fixture.store.db.faults().lose_answer();
        assert!(matches!(claim(node).await, Err(Error::Unavailable(_))));
        assert!(claim(other).await.unwrap().is_empty());
        let claims = claim(node).await.unwrap();
        let [claimed] = &claims[..] else { panic!("{claims:?}") };
        assert_eq!((claimed.fence.attempt, claimed.fence.last_event), (1, 2));
        fixture.store.start_unretained(claimed.fence, 1).await.unwrap();
        assert!(claim(node).await.unwrap().is_empty());
        fixture.check().await;
    }

    async fn its_position_tells_of_a_finish_whose_answer_was_lost(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = at_work(fixture, org, node).await;
        fixture.store.db.faults().lose_answer();
        let finish = fixture.unretained_finish();
        let finished = fixture.store.finish_unretained(fence, finish).await;
        assert!(matches!(finished, Err(Error::Unavailable(_))));
        let position = fixture.store.position(fence.run).await.unwrap();
        let last_event = fence.last_event + finish.last.events;
        let expected = crate::runs::Position { attempt: fence.attempt, status: finish.status, last_event, is_billing_pending: false };
        assert_eq!(position, expected);
        assert_eq!(fixture.store.position(fixture.run_id()).await, Err(Error::NotFound));
    }

    async fn one_that_was_cancelled_is_settled_once_when_its_content_was_forgotten_before_its_node_was_lost(fixture: &Fixture, org: OrgId) {
        let (lost, other) = (fixture.node().await, fixture.node().await);
        let fence = at_work(fixture, org, lost).await;
        fixture.store.append_unretained(fence, counted(1, 100)).await.unwrap();
        fixture.store.cancel_run(org, fence.run, fixture.now()).await.unwrap();
        fixture.store.forget_content(vec![fence.run]).await.unwrap();
        assert!(fixture.get(org, fence.run).await.billing_pending);
        fixture.store.deregister_node(lost, fixture.now()).await.unwrap();
        let sweep = Sweep { places: 10, ..sweep(other, fixture.now(), 2) };
        for _ in 0..2 {
            let swept = fixture.store.sweep(sweep.clone()).await.unwrap();
            assert!(swept.ended.is_empty() && swept.taken.is_empty());
            let run = fixture.get(org, fence.run).await;
            assert_eq!((run.status, run.billing_pending, run.cost_micros.get()), (RunStatus::Cancelled, false, 120));
            fixture.check().await;
        }
    }

    async fn one_that_its_node_holds_without_a_task_is_ended(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = at_work(fixture, org, node).await;
        let swept = fixture.store.retake_held(node, vec![fence.run], fixture.now(), Micros::ZERO).await.unwrap();
        assert_eq!((swept.ended, swept.taken.len()), (vec![(org, fence.run)], 0));
        fixture.check().await;
    }

    async fn a_node_that_stops_gives_up_its_own_alone(fixture: &Fixture, org: OrgId, stops: NodeId, stays: NodeId) {
        let (ours, theirs) = (fixture.new_unretained(org, stops), fixture.new_unretained(org, stays));
        for new in [&ours, &theirs] {
            fixture.store.create_run(new.clone()).await.unwrap();
        }
        let ended = fixture.store.abandon_content(stops, fixture.now(), Micros::ZERO).await.unwrap();
        assert_eq!(ended, [(org, ours.id)]);
        assert_eq!(fixture.get(org, theirs.id).await.status, RunStatus::Queued);
        let holder = fixture.store.content_holder(org, theirs.id).await.unwrap();
        assert!(matches!(holder, Some(ContentHolder { node, .. }) if node == stays));
        fixture.check().await;
    }

    async fn a_node_that_stops_gives_up_more_than_a_transaction_takes(fixture: &Fixture, org: OrgId, node: NodeId) {
        let new = fixture.new_unretained(org, node);
        fixture.store.create_run(new.clone()).await.unwrap();
        // Contents of deleted runs fill two transactions.
        assert_eq!(fixture.store.db.write(move |tx| tx.exec(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
                 INSERT INTO unretained (run_id, node_id) SELECT 'run_' || i, CAST($1 AS BIGINT) FROM n",
                vals![node],
            )).await, Ok(1_000));
        let ended = fixture.store.abandon_content(node, fixture.now(), Micros::ZERO).await.unwrap();
        assert_eq!(ended, [(org, new.id)]);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM unretained").await, 0);
        fixture.check().await;
    }

    async fn an_idempotency_key_finds_one_and_its_definition_was_never_kept(fixture: &Fixture, org: OrgId, node: NodeId) {
        let mut new = fixture.new_unretained(org, node);
        new.idempotency_key = Some("once".to_owned());
        fixture.store.create_run(new.clone()).await.unwrap();
        let mut again = fixture.new_unretained(org, node);
        again.idempotency_key = Some("once".to_owned());
        let found = fixture.store.create_run(again.clone()).await.unwrap();
        assert!(matches!(found, crate::runs::Created::Existing(run) if run.id == new.id));
        assert_eq!(fixture.store.run_definition(org, new.id).await, Err(Error::Unretained));
        assert_eq!(fixture.store.events_after(org, new.id, 0, 10).await, Err(Error::Unretained));
        assert_eq!(fixture.store.list_events(org, new.id, crate::runs::EventSelection::after(0), 10).await, Err(Error::Unretained));
        assert_eq!(fixture.store.progress(org, new.id).await, Err(Error::Unretained));
        assert_eq!(fixture.store.follow(org, new.id, 0, 10).await, Err(Error::Unretained));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM unretained").await, 1);
    }
}

#[test]
fn why_a_run_did_not_succeed_is_told_without_a_word_of_it() {
    assert_eq!(PlainError::TimedOut(7).text(), "timed out after 7 s");
    assert!(PlainError::Withheld.text().contains("zero data retention"));
    assert!(PlainError::Stopped.text().contains("stopped"));
}

proptest! {
    /// Evaluates the surcharge as the statements do, in their own integers.
    #[test]
    fn the_surcharge_always_fits_the_budget(max in 1_i64..=100_000_000, percent in 0_i64..=1_000, part in 0.0_f64..=1.0) {
        let room = max / (100 + percent) * 100 + max % (100 + percent) * 100 / (100 + percent);
        prop_assert_eq!(room, max * 100 / (100 + percent));
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "any cost up to the room will do")]
        let cost = ((room as f64) * part) as i64;
        for cost in [cost, room] {
            let surcharge = cost / 100 * percent + (cost % 100 * percent + 99) / 100;
            prop_assert!(cost + surcharge <= max);
            prop_assert!(surcharge * 100 >= cost * percent);
        }
    }
}
