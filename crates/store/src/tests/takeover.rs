//! Runs after the loss of their worker: the journal, and the next holder.

use super::{fixture::usage, prelude::*};
use crate::runs::{Journal, NewEntries, Origin};

const HOURS: Duration = Duration::from_hours(2);

fn journaled(journal: NewEntries) -> Append {
    Append {
        journal,
        ..Append::default()
    }
}

both! {
    async fn a_run_that_cannot_be_ended_or_taken_over_does_not_keep_the_others(fixture: &Fixture, org: OrgId, lost: NodeId, taker: NodeId) {
        let (bad_end, bad_take) = (fixture.tired(org, lost).await, fixture.running(org, lost).await);
        let (end, take) = (fixture.tired(org, lost).await, fixture.running(org, lost).await);
        let write = async |sql, run| fixture.sql(sql, vals![run]).await;
        // An event already has the number of the end event, and the budget of the other run is not a valid
        // amount.
        write("INSERT INTO event (run_id, seq, kind, data, created_at) SELECT id, last_event + 1, 'x', '{}', 1 FROM run WHERE id = $1", bad_end.run).await;
        write("UPDATE run SET max_cost_micros = 0 - max_cost_micros WHERE id = $1", bad_take.run).await;
        fixture.store.deregister_node(lost, fixture.now()).await.unwrap();
        // A single slot is enough: a run that cannot be taken over does not use one.
        let swept = fixture.take_over(taker, fixture.now(), 1).await;
        let resumed: Vec<_> = swept.taken.iter().map(|claim| claim.fence.run).collect();
        assert_eq!((swept.ended, resumed), (vec![(org, end.run)], vec![take.run]));
        let again = fixture.take_over(taker, fixture.now(), 1).await;
        assert!(again.ended.is_empty() && again.taken.is_empty());
        write("DELETE FROM event WHERE kind = 'x' AND run_id = $1", bad_end.run).await;
        write("UPDATE run SET max_cost_micros = 0 - max_cost_micros WHERE id = $1", bad_take.run).await;
        let swept = fixture.take_over(taker, fixture.now(), 1).await;
        assert_eq!((swept.ended.len(), swept.taken.len()), (1, 1));
    }

    async fn pages_of_runs_that_cannot_be_handled_do_not_keep_those_behind_them(fixture: &Fixture, org: OrgId, lost: NodeId, taker: NodeId) {
        for _ in 0..105 {
            fixture.running(org, lost).await;
            fixture.tired(org, lost).await;
        }
        // The budget of these is not a valid amount, and an event already has the number of their end event.
        let harm = fixture.store.db.write(|tx| {
            tx.exec("UPDATE run SET max_cost_micros = 0 - max_cost_micros", vals![])?;
            tx.exec("INSERT INTO event (run_id, seq, kind, data, created_at) SELECT id, last_event + 1, 'x', '{}', 1 FROM run", vals![])
        });
        harm.await.unwrap();
        let (end, take) = (fixture.tired(org, lost).await, fixture.running(org, lost).await);
        fixture.store.deregister_node(lost, fixture.now()).await.unwrap();
        let swept = fixture.take_over(taker, fixture.now(), 1).await;
        let resumed: Vec<_> = swept.taken.iter().map(|claim| claim.fence.run).collect();
        assert_eq!((swept.ended, resumed), (vec![(org, end.run)], vec![take.run]));
        let repair = fixture.store.db.write(|tx| {
            tx.exec("DELETE FROM event WHERE kind = 'x'", vals![])?;
            tx.exec("UPDATE run SET max_cost_micros = 0 - max_cost_micros WHERE max_cost_micros < 0", vals![])
        });
        repair.await.unwrap();
    }

    async fn a_run_that_cannot_be_resumed_does_not_keep_the_others(fixture: &Fixture, org: OrgId, node: NodeId) {
        let (bad, good) = (fixture.running(org, node).await, fixture.running(org, node).await);
        let turn = async || {
            fixture.sql("UPDATE run SET max_cost_micros = 0 - max_cost_micros WHERE id = $1", vals![bad.run]).await;
        };
        let retake = async || {
            let both = vec![bad.run, good.run];
            let swept = fixture.store.retake_held(node, both, fixture.now(), Micros::ZERO).await.unwrap();
            swept.taken.iter().map(|claim| claim.fence.run).collect::<Vec<_>>()
        };
        turn().await;
        assert_eq!(retake().await, [good.run]);
        turn().await;
        assert_eq!(retake().await, [bad.run, good.run]);
    }

    async fn runs_that_were_taken_over_count_against_the_limit_of_their_organization(fixture: &Fixture, org: OrgId, lost: NodeId, taker: NodeId) {
        fixture.running(org, lost).await;
        fixture.running(org, lost).await;
        fixture.queued(org).await;
        fixture.renew(taker, fixture.now()).await.unwrap();
        let swept = fixture.take_over(taker, fixture.now() + HOURS, 100).await;
        assert_eq!(swept.taken.len(), 2);
        let claim = async |limit| fixture.store.claim_runs(taker, 10, Some(limit), fixture.now()).await.unwrap();
        assert_eq!(claim(2).await.len(), 0);
        assert_eq!(claim(3).await.len(), 1);
    }

    async fn a_run_of_a_lost_node_is_handed_to_the_one_that_sweeps(fixture: &Fixture, org: OrgId, lost: NodeId, taker: NodeId) {
        fixture.queued(org).await;
        let claim = fixture.claim_one(lost).await;
        let running = fixture.start(claim.fence).await.unwrap();
        let cost = Micros::new(7).unwrap();
        fixture.append(running, vec![fixture.message("a")], cost).await.unwrap();
        let running = after(running, 1);
        fixture.queued(org).await;
        let starting = fixture.claim_one(lost).await;
        let events = fixture.events(org, running.run).await;
        fixture.renew(taker, fixture.now()).await.unwrap();
        let at = fixture.now() + HOURS;

        let swept = fixture.take_over(taker, at, 100).await;
        assert!(swept.ended.is_empty());
        let [first, second] = &swept.taken[..] else { panic!("{swept:?}") };
        assert_eq!(first.fence, Fence { attempt: 2, ..running });
        assert_eq!((first.started_at, first.org, &first.definition), (claim.started_at, org, &claim.definition));
        assert_eq!(first.origin, Origin::Lost { status: RunStatus::Running, cost, usage: usage(1) });
        assert_eq!(second.fence, Fence { attempt: 2, ..starting.fence });
        assert_eq!(second.origin, Origin::Lost { status: RunStatus::Starting, cost: Micros::ZERO, usage: sortie_api::RunUsage::default() });
        // Clients notice nothing of the takeover.
        assert_eq!(fixture.events(org, running.run).await, events);
        assert_eq!(fixture.get(org, running.run).await.status, RunStatus::Running);
        // The old worker is fenced, the new one continues.
        let late = fixture.append(running, vec![], Micros::ZERO).await;
        assert_eq!(late.unwrap_err(), Error::Fenced);
        fixture.store.finish_run(first.fence, fixture.succeeded("out")).await.unwrap();
        fixture.start(second.fence).await.unwrap();
        let again = fixture.take_over(taker, at, 100).await;
        assert!(again.taken.is_empty() && again.ended.is_empty());
    }

    async fn a_takeover_by_name_takes_a_run_of_a_lost_node_and_no_other(fixture: &Fixture, org: OrgId, lost: NodeId, alive: NodeId, taker: NodeId) {
        let (left, other) = (fixture.running(org, lost).await, fixture.running(org, lost).await);
        let (held, tired) = (fixture.running(org, alive).await, fixture.tired(org, lost).await);
        let (cancelled, waits) = (fixture.cancelled(org, lost).await, fixture.queued(org).await);
        let all = [left.run, other.run, held.run, tired.run, cancelled.run, waits];
        let take_all = async || {
            let mut claims = Vec::new();
            for run in [left.run, held.run, tired.run, cancelled.run, waits, fixture.run_id()] {
                claims.extend(fixture.store.take_named(taker, run, fixture.now()).await.unwrap());
            }
            claims
        };
        let unattended = async |node| {
            let mut found = fixture.store.unattended(node, all.to_vec()).await.unwrap();
            found.sort_unstable();
            found
        };
        let sorted = |mut runs: Vec<RunId>| {
            runs.sort_unstable();
            runs
        };
        assert!(take_all().await.is_empty());
        assert_eq!(unattended(taker).await, []);
        fixture.store.deregister_node(lost, fixture.now()).await.unwrap();
        assert_eq!(unattended(taker).await, sorted(vec![left.run, other.run, tired.run, cancelled.run]));
        let claims = take_all().await;
        let [claim] = &claims[..] else { panic!("{claims:?}") };
        assert_eq!(claim.fence, Fence { attempt: 2, ..left });
        assert!(matches!(claim.origin, Origin::Lost { status: RunStatus::Running, .. }));
        assert!(take_all().await.is_empty());
        // A waiting run is unattended once no other node is alive.
        fixture.store.deregister_node(alive, fixture.now()).await.unwrap();
        let nobodys = sorted(vec![other.run, held.run, tired.run, cancelled.run, waits]);
        assert_eq!(unattended(taker).await, nobodys);
        let refused = fixture.store.take_named(NodeId(77), other.run, fixture.now()).await;
        assert_eq!(refused.unwrap_err(), Error::Fenced);
    }

    async fn a_run_is_taken_over_four_times_and_then_ended(fixture: &Fixture, org: OrgId) {
        let mut node = fixture.node().await;
        let mut fence = fixture.running(org, node).await;
        fixture.store.append(fence, journaled(entries(0, &["{}"]))).await.unwrap();
        for attempt in 2..=5 {
            let next = fixture.node().await;
            fixture.store.deregister_node(node, fixture.now()).await.unwrap();
            let swept = fixture.take_over(next, fixture.now(), 1).await;
            let [claim] = &swept.taken[..] else { panic!("{swept:?}") };
            assert_eq!(claim.fence, Fence { attempt, ..fence });
            (node, fence) = (next, claim.fence);
        }
        let next = fixture.node().await;
        fixture.store.deregister_node(node, fixture.now()).await.unwrap();
        let swept = fixture.take_over(next, fixture.now(), 1).await;
        assert_eq!((swept.taken.len(), swept.ended), (0, vec![(org, fence.run)]));
        assert_eq!(fixture.get(org, fence.run).await.status, RunStatus::Interrupted);
        assert!(fixture.store.journal(fence.run).await.unwrap().is_empty());
    }

    async fn no_more_is_taken_over_than_there_are_places(fixture: &Fixture, org: OrgId, lost: NodeId, taker: NodeId) {
        for _ in 0..5 {
            fixture.running(org, lost).await;
        }
        let cancelled = fixture.cancelled(org, lost).await;
        let tired = fixture.tired(org, lost).await;
        fixture.store.deregister_node(lost, fixture.now()).await.unwrap();
        // Runs that cannot be taken over do not delay runs that end.
        let swept = fixture.take_over(taker, fixture.now(), 0).await;
        assert_eq!((swept.taken.len(), swept.ended), (0, vec![(org, tired.run)]));
        assert!(!fixture.get(org, cancelled.run).await.billing_pending);
        let mut counts = Vec::new();
        for _ in 0..4 {
            counts.push(fixture.take_over(taker, fixture.now(), 2).await.taken.len());
        }
        assert_eq!(counts, [2, 2, 1, 0]);
        assert_eq!(fixture.store.held_runs(taker).await.unwrap().len(), 5);
    }

    async fn a_node_that_was_declared_lost_takes_nothing_over(fixture: &Fixture, org: OrgId) {
        let (one, two) = (fixture.node_named("a").await, fixture.node().await);
        fixture.running(org, two).await;
        fixture.node_named("a").await;
        fixture.store.deregister_node(two, fixture.now()).await.unwrap();
        let leave = Sweep { places: 5, ..sweep(one, fixture.now(), 100) };
        assert_eq!(fixture.store.sweep(leave.clone()).await.unwrap_err(), Error::Fenced);
        let none = Sweep { places: 0, ..leave };
        assert!(fixture.store.sweep(none).await.unwrap().taken.is_empty());
    }

    async fn a_journal_is_kept_in_order_across_attempts_and_goes_with_the_end(fixture: &Fixture, org: OrgId, node: NodeId, taker: NodeId) {
        let fence = fixture.running(org, node).await;
        let store = &fixture.store;
        let texts: Vec<String> = (1..=150).map(|n| format!("{{\"n\":{n}}}")).collect();
        let data: Vec<&str> = texts.iter().map(String::as_str).collect();
        store.append(fence, journaled(entries(0, &data[..70]))).await.unwrap();
        store.deregister_node(node, fixture.now()).await.unwrap();
        let claim = fixture.take_over(taker, fixture.now(), 1).await.taken.remove(0);
        // Without an event the position stays. Entries that may not have been stored are written again.
        for _ in 0..2 {
            store.append(claim.fence, journaled(entries(70, &data[70..]))).await.unwrap();
        }
        let late = store.append(fence, journaled(entries(150, &["late"]))).await;
        assert_eq!(late.unwrap_err(), Error::Fenced);
        assert_eq!(store.journal(fence.run).await.unwrap(), texts);
        fixture.check().await;
        store.finish_run(claim.fence, fixture.succeeded("out")).await.unwrap();
        assert!(store.journal(fence.run).await.unwrap().is_empty());
    }

    async fn a_run_that_ends_without_a_worker_costs_what_its_events_show_and_its_time(fixture: &Fixture, org: OrgId) {
        let micros = |amount| Micros::new(amount).unwrap();
        for is_cancelled in [true, false] {
            let node = fixture.node().await;
            let fence = fixture.running(org, node).await;
            // A text is not evaluated as a cost, and an escaped NUL does not matter.
            let tricky = "{\"cost_micros\":1000}, \"cost_micros\":1000 \\\"cost_micros\":1000 \0";
            let events = vec![
                fixture.tool_ended(micros(4), tricky),
                fixture.called(micros(9)),
                fixture.tool_ended(Micros::ZERO, tricky),
                fixture.message(tricky),
            ];
            fixture.append(fence, events, micros(13)).await.unwrap();
            let at = fixture.now();
            if is_cancelled {
                fixture.store.cancel_run(org, fence.run, at).await.unwrap();
            } else {
                fixture.tire(fence.run).await;
            }
            fixture.on_node_clocks(fence.run).await;
            let swept = fixture.store.retake_held(node, vec![fence.run], at, micros(1_000_000)).await;
            assert_eq!(swept.unwrap().ended.len(), usize::from(!is_cancelled));
            let run = fixture.get(org, fence.run).await;
            let micros_of_time = at.as_micros() - run.started_at.unwrap().as_micros();
            let time = u64::try_from(micros_of_time).unwrap();
            assert_eq!((run.billing_pending, run.cost_micros), (false, micros(13 + time)));
            fixture.check().await;
        }
    }

    async fn the_journal_of_a_cancelled_run_goes_when_it_is_settled(fixture: &Fixture, org: OrgId, node: NodeId) {
        for settles in [true, false] {
            let fence = fixture.running(org, node).await;
            fixture.store.append(fence, journaled(entries(0, &["{}"]))).await.unwrap();
            fixture.store.cancel_run(org, fence.run, fixture.now()).await.unwrap();
            if settles {
                fixture.store.settle_run(fence.run, fence.attempt, of_calls(Micros::ZERO), Vec::new()).await.unwrap();
            } else {
                let held = vec![fence.run];
                fixture.store.retake_held(node, held, fixture.now(), Micros::ZERO).await.unwrap();
            }
            assert!(fixture.store.journal(fence.run).await.unwrap().is_empty());
        }
    }

    async fn a_run_without_a_journal_ends_without_a_statement_for_it(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let faults = fixture.store.db.faults();
        faults.watch();
        let finish = crate::runs::Finish { journal: Journal::Empty, ..fixture.succeeded("out") };
        fixture.store.finish_run(fence, finish).await.unwrap();
        let statements: Vec<_> = faults.watched().into_iter().map(|(sql, _)| sql).collect();
        assert!(statements.iter().any(|sql| sql.contains("UPDATE run ")), "{statements:?}");
        assert!(!statements.iter().any(|sql| sql.contains("journal")), "{statements:?}");
    }

    async fn what_is_not_settled_is_told_apart(fixture: &Fixture, org: OrgId, node: NodeId) {
        let (ended, open) = (fixture.running(org, node).await, fixture.running(org, node).await);
        fixture.store.finish_run(ended, fixture.succeeded("out")).await.unwrap();
        let asked = vec![ended.run, fixture.run_id(), open.run];
        assert_eq!(fixture.store.unsettled(asked).await.unwrap(), [open.run]);
    }
}
