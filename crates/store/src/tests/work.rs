use sortie_api::Run;

use super::{fixture::usage, prelude::*};

fn micros(amount: u64) -> Micros {
    Micros::new(amount).unwrap()
}

both! {
    async fn a_run_goes_from_queued_to_succeeded(fixture: &Fixture, org: OrgId, node: NodeId) {
        let id = fixture.queued(org).await;
        let claim = fixture.claim_one(node).await;
        let fence = fixture.start(claim.fence).await.unwrap();
        let events = vec![fixture.message("one"), fixture.message("two")];
        fixture.append(fence, events, micros(7)).await.unwrap();
        let at_work = fixture.get(org, id).await;
        assert_eq!((at_work.cost_micros, at_work.usage), (micros(7), Some(usage(1))));
        let finish = fixture.succeeded("the answer");
        let run = fixture.store.finish_run(after(fence, 2), finish.clone()).await.unwrap();

        assert_eq!(run, fixture.get(org, id).await);
        assert_eq!(run.status, RunStatus::Succeeded);
        assert_eq!(run.output.as_deref(), Some("the answer"));
        assert_eq!(run.error, None);
        assert_eq!(run.started_at, Some(claim.started_at));
        assert_eq!(run.finished_at, Some(finish.at));
        assert_eq!(run.cost_micros, micros(42));
        assert_eq!(run.usage, Some(usage(1)));
        assert!(!run.billing_pending);
        assert_eq!(fixture.told(org, id).await, ["queued", "starting", "running", "succeeded"]);
        let kinds: Vec<_> = fixture.events(org, id).await.into_iter().map(|event| event.kind).collect();
        assert_eq!(kinds, ["status", "status", "status", "message", "message", "message", "status"]);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM queue").await, 0);
    }

    async fn a_failed_run_keeps_its_error(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let finish = fixture.finish(RunStatus::Failed, None, Some("it broke"));
        let run = fixture.store.finish_run(fence, finish).await.unwrap();
        assert_eq!((run.status, run.error.as_deref(), run.output), (RunStatus::Failed, Some("it broke"), None));
        assert_eq!(fixture.get(org, fence.run).await.error.as_deref(), Some("it broke"));
    }

    async fn a_run_may_fail_while_it_starts_but_not_succeed(fixture: &Fixture, org: OrgId, node: NodeId) {
        let id = fixture.queued(org).await;
        let fence = fixture.claim_one(node).await.fence;
        let refused = fixture.store.finish_run(fence, fixture.succeeded("x")).await.unwrap_err();
        assert!(matches!(refused, Error::Conflict(_)), "{refused}");
        assert_eq!(fixture.get(org, id).await.status, RunStatus::Starting);
        let finish = fixture.finish(RunStatus::Failed, None, Some("no sandbox"));
        fixture.store.finish_run(fence, finish).await.unwrap();
    }

    async fn a_run_does_not_start_twice(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let refused = fixture.start(fence).await.unwrap_err();
        assert!(matches!(refused, Error::Conflict(_)), "{refused}");
    }

    async fn a_run_does_not_finish_with_a_status_that_is_not_final(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let finish = fixture.finish(RunStatus::Running, None, None);
        let refused = fixture.store.finish_run(fence, finish).await.unwrap_err();
        assert!(matches!(refused, Error::Conflict(_)), "{refused}");
        assert_eq!(fixture.get(org, fence.run).await.status, RunStatus::Running);
    }

    async fn the_writes_of_an_old_attempt_are_fenced(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        for stale in [
            Fence { attempt: fence.attempt - 1, ..fence },
            Fence { attempt: fence.attempt + 1, ..fence },
            Fence { last_event: fence.last_event - 1, ..fence },
            Fence { last_event: fence.last_event + 1, ..fence },
            Fence { run: fixture.run_id(), ..fence },
        ] {
            let events = || vec![fixture.message("stale")];
            let store = &fixture.store;
            assert_eq!(store.start_run(stale, events()).await.unwrap_err(), Error::Fenced);
            assert_eq!(fixture.append(stale, events(), micros(1)).await.unwrap_err(), Error::Fenced);
            assert_eq!(fixture.append(stale, vec![], micros(1)).await.unwrap_err(), Error::Fenced);
            assert_eq!(store.finish_run(stale, fixture.succeeded("stale")).await.unwrap_err(), Error::Fenced);
        }
        let run = fixture.get(org, fence.run).await;
        assert_eq!((run.status, run.cost_micros, run.output), (RunStatus::Running, Micros::ZERO, None));
        assert_eq!(fixture.events(org, fence.run).await.len(), 3);
        fixture.store.finish_run(fence, fixture.succeeded("fresh")).await.unwrap();
    }

    async fn a_worker_of_a_cancelled_run_is_fenced(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let at = fixture.now();
        let Cancelled::Now(run) = fixture.store.cancel_run(org, fence.run, at).await.unwrap() else {
            panic!("it was running");
        };
        assert_eq!(run, fixture.get(org, fence.run).await);
        assert_eq!((run.status, run.finished_at, run.billing_pending), (RunStatus::Cancelled, Some(at), true));
        let store = &fixture.store;
        assert_eq!(fixture.append(fence, vec![], micros(1)).await.unwrap_err(), Error::Fenced);
        assert_eq!(store.finish_run(fence, fixture.succeeded("late")).await.unwrap_err(), Error::Fenced);
        // The number of events that the cancelled run has now does not help either.
        let caught_up = after(fence, 1);
        assert_eq!(fixture.append(caught_up, vec![], micros(1)).await.unwrap_err(), Error::Fenced);
    }

    async fn a_queued_run_is_cancelled_and_never_claimed(fixture: &Fixture, org: OrgId, node: NodeId) {
        let id = fixture.queued(org).await;
        fixture.store.cancel_run(org, id, fixture.now()).await.unwrap();
        assert!(fixture.claim(node, 10).await.is_empty());
        assert_eq!(fixture.told(org, id).await, ["queued", "cancelled"]);
        assert_eq!(fixture.get(org, id).await.started_at, None);
    }

    async fn cancel_keeps_the_cost_recorded_so_far(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        fixture.append(fence, vec![], micros(9)).await.unwrap();
        fixture.store.cancel_run(org, fence.run, fixture.now()).await.unwrap();
        assert_eq!(fixture.get(org, fence.run).await.cost_micros, micros(9));
    }

    async fn a_run_that_no_worker_holds_is_settled_by_its_cancellation(fixture: &Fixture, org: OrgId) {
        let id = fixture.queued(org).await;
        fixture.store.cancel_run(org, id, fixture.now()).await.unwrap();
        let run = fixture.get(org, id).await;
        assert_eq!((run.billing_pending, run.cost_micros), (false, Micros::ZERO));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM queue").await, 0);
        assert_eq!(fixture.store.settle_run(id, 0, of_calls(micros(1)), Vec::new()).await.unwrap_err(), Error::Fenced);
    }

    async fn a_run_that_is_cancelled_under_its_worker_is_settled_by_its_report(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.cancelled(org, node).await;
        let pending = fixture.get(org, fence.run).await;
        assert!(pending.billing_pending);
        let settle = async |attempt| fixture.store.settle_run(fence.run, attempt, FinalCost { usage: usage(5), ..of_calls(micros(11)) }, Vec::new()).await;
        for stale in [fence.attempt - 1, fence.attempt + 1] {
            assert_eq!(settle(stale).await.unwrap_err(), Error::Fenced);
        }
        assert_eq!(fixture.get(org, fence.run).await, pending);
        settle(fence.attempt).await.unwrap();
        let run = fixture.get(org, fence.run).await;
        assert_eq!((run.billing_pending, run.cost_micros, run.usage), (false, micros(11), Some(usage(5))));
        assert_eq!(run.status, RunStatus::Cancelled);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM queue").await, 0);
        assert_eq!(settle(fence.attempt).await.unwrap_err(), Error::Fenced);
    }

    async fn events_that_a_cancel_kept_out_follow_it_with_the_report(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        fixture.append(fence, vec![fixture.called(micros(5))], micros(5)).await.unwrap();
        fixture.store.cancel_run(org, fence.run, fixture.now()).await.unwrap();
        let events = vec![fixture.called(micros(7)), fixture.tool_ended(micros(2), "found"), fixture.called(Micros::ZERO)];
        let settle = async |attempt| {
            let cost = FinalCost { usage: usage(5), ..of_calls(micros(14)) };
            fixture.store.settle_run(fence.run, attempt, cost, events.clone()).await
        };
        assert_eq!(settle(fence.attempt + 1).await, Err(Error::Fenced));
        assert_eq!(fixture.events(org, fence.run).await.len(), 5, "nothing comes with a report that is refused");
        let settled = settle(fence.attempt).await.unwrap();
        assert_eq!((settled.last_event, settled.cost), (8, micros(14)));
        assert_eq!(settle(fence.attempt).await, Err(Error::Fenced));
        let recorded = fixture.events(org, fence.run).await;
        let kinds: Vec<_> = recorded.iter().map(|event| (event.seq, event.kind.as_str())).collect();
        assert_eq!(
            kinds[3..],
            [(4, "model_call"), (5, "status"), (6, "model_call"), (7, "tool_end"), (8, "model_call")]
        );
        for (event, new) in recorded[5..].iter().zip(&events) {
            assert_eq!((&event.data, event.created_at), (&new.data, new.at));
        }
        let run = fixture.get(org, fence.run).await;
        assert_eq!((run.billing_pending, run.cost_micros, run.usage), (false, micros(14), Some(usage(5))));
        assert_eq!(fixture.store.progress(org, fence.run).await.unwrap().last_event, 8);
        // A repeated cancel finds the last event, and adds none.
        fixture.store.cancel_run(org, fence.run, fixture.now()).await.unwrap();
        assert_eq!(fixture.events(org, fence.run).await, recorded);
        fixture.check().await;
    }

    async fn a_follower_gets_the_run_with_its_last_event_alone(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.cancelled(org, node).await;
        let followed = fixture.store.follow(org, fence.run, 0, 100).await.unwrap();
        assert!(followed.run.is_some_and(|listed| listed.run.billing_pending));
        let events = vec![fixture.called(micros(7))];
        fixture.store.settle_run(fence.run, fence.attempt, of_calls(micros(7)), events).await.unwrap();
        let last = followed.progress.last_event;
        let part = fixture.store.follow(org, fence.run, 0, u32::try_from(last).unwrap()).await.unwrap();
        assert_eq!((part.progress.last_event, part.run.is_none()), (last + 1, true));
        let rest = fixture.store.follow(org, fence.run, last, 100).await.unwrap();
        assert_eq!(rest.events.len(), 1);
        assert!(rest.run.is_some_and(|listed| !listed.run.billing_pending));
    }

    async fn time_after_the_cancel_costs_nothing(fixture: &Fixture, org: OrgId, node: NodeId) {
        // 2.5 s at 7 micros, rounded up.
        for (reported, charged) in [(1_000, 18), (3, 3)] {
            let fence = fixture.cancelled(org, node).await;
            fixture.on_node_clocks(fence.run).await;
            fixture.lasted(fence.run, Duration::from_millis(2_500)).await;
            let cost = FinalCost {
                compute: micros(reported),
                compute_micros_per_second: micros(7),
                ..of_calls(micros(100))
            };
            fixture.store.settle_run(fence.run, fence.attempt, cost, Vec::new()).await.unwrap();
            assert_eq!(fixture.get(org, fence.run).await.cost_micros, micros(100 + charged));
        }
    }

    async fn the_cost_of_a_cancelled_run_is_within_its_budget_whatever_its_worker_reports(fixture: &Fixture, org: OrgId, node: NodeId) {
        for (percent, surcharge) in [(0_i64, 0), (25, 200)] {
            let fence = fixture.cancelled(org, node).await;
            let sql = "UPDATE run SET max_cost_micros = 1000, surcharge_percent = $2 WHERE id = $1";
            fixture.sql(sql, vals![fence.run, percent]).await;
            let events = vec![fixture.called(micros(5_000))];
            let settled = fixture.store.settle_run(fence.run, fence.attempt, of_calls(micros(5_000)), events).await;
            let run = fixture.get(org, fence.run).await;
            assert_eq!((run.cost_micros, run.surcharge_micros), (micros(1_000), micros(surcharge)));
            assert_eq!(settled.unwrap().cost, micros(1_000 - surcharge));
        }
    }

    async fn only_a_cancelled_run_is_settled(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let refused = fixture.store.settle_run(fence.run, fence.attempt, of_calls(micros(1)), Vec::new()).await.unwrap_err();
        assert_eq!(refused, Error::Fenced);
        fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        let refused = fixture.store.settle_run(fence.run, fence.attempt, of_calls(micros(1)), Vec::new()).await.unwrap_err();
        assert_eq!(refused, Error::Fenced);
        assert_eq!(fixture.get(org, fence.run).await.cost_micros, micros(42));
    }

    async fn cancel_of_a_finished_run_returns_it_unchanged(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let run = fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        let Cancelled::AlreadyFinal(same) =
            fixture.store.cancel_run(org, fence.run, fixture.now()).await.unwrap()
        else {
            panic!("it was final");
        };
        assert_eq!((same.run, same.has_large_output), (run.clone(), false));
        assert_eq!(fixture.get(org, fence.run).await, run);
    }

    async fn cancel_of_a_finished_run_leaves_its_large_output_out(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let run = fixture.store.finish_run(fence, fixture.succeeded(&"x".repeat(20_000))).await.unwrap();
        let Cancelled::AlreadyFinal(same) =
            fixture.store.cancel_run(org, fence.run, fixture.now()).await.unwrap()
        else {
            panic!("it was final");
        };
        assert!(same.has_large_output);
        assert_eq!(same.run, Run { output: None, ..run });
    }

    async fn a_run_of_another_organization_is_not_found(fixture: &Fixture, org: OrgId, other: OrgId) {
        let id = fixture.queued(org).await;
        let store = &fixture.store;
        assert_eq!(store.get_run(other, id).await.unwrap_err(), Error::NotFound);
        assert_eq!(store.run_definition(other, id).await.unwrap_err(), Error::NotFound);
        assert_eq!(store.events_after(other, id, 0, 10).await.unwrap_err(), Error::NotFound);
        assert_eq!(store.follow(other, id, 0, 10).await.unwrap_err(), Error::NotFound);
        assert_eq!(store.cancel_run(other, id, fixture.now()).await.unwrap_err(), Error::NotFound);
        assert_eq!(fixture.get(org, id).await.status, RunStatus::Queued);
    }
}
