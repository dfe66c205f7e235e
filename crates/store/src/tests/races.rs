//! Commands that run at the same time. In any order, the outcome is one of the allowed ones and the rules
//! hold.

use super::{deliveries::made, prelude::*, usage::leaving};
use crate::{money::CountedPart, outbox::Order, workflows::SavedWorkflow};

both! {
    async fn nodes_that_race_for_the_last_of_a_quota_never_get_more_than_it(fixture: &Fixture) {
        // The subjects are given in both orders. A command that locks one of them waits for the other.
        let orders = [["a", "b"], ["b", "a"]];
        let races = (0..60).map(|number| {
            let wanted = orders[number % 2].map(|subject| crate::nodes::WantedBlock { quota: 40, ..super::rates::wants(subject, 7, 0) });
            fixture.store.lease_rates(wanted.to_vec(), 1, fixture.now())
        });
        let (mut granted, mut empty) = ([0; 2], 0);
        for (number, leased) in join_all(races).await.into_iter().enumerate() {
            let blocks = leased.unwrap().blocks;
            granted[number % 2] += blocks[0].requests;
            granted[1 - number % 2] += blocks[1].requests;
            empty += usize::from(blocks[0].requests == 0);
        }
        assert_eq!(granted, [40, 40]);
        assert!(empty > 0, "some came too late");
    }

    async fn two_claimers_never_get_the_same_run(fixture: &Fixture) {
        let orgs = [fixture.org().await, fixture.org().await, fixture.org().await];
        for number in 0..60 {
            fixture.queued(orgs[number % 3]).await;
        }
        let nodes = [fixture.node().await, fixture.node().await, fixture.node().await, fixture.node().await];
        let claims = join_all((0..40).map(|number| fixture.claim(nodes[number % 4], 2))).await.concat();
        let runs: HashSet<_> = claims.iter().map(|claim| claim.fence.run).collect();
        assert_eq!((claims.len(), runs.len()), (60, 60));
        assert!(claims.iter().all(|claim| claim.fence.attempt == 1));
    }

    async fn the_limit_of_an_organization_is_exact_for_claimers_that_race(fixture: &Fixture, org: OrgId) {
        for _ in 0..30 {
            fixture.queued(org).await;
        }
        let nodes = [fixture.node().await, fixture.node().await];
        let claims = join_all((0..10).map(|number| {
            fixture.store.claim_runs(nodes[number % 2], 3, Some(7), fixture.now())
        }))
        .await;
        let claimed: usize = claims.into_iter().map(|claims| claims.unwrap().len()).sum();
        assert_eq!(claimed, 7);
    }

    async fn of_cancel_and_finish_one_wins(fixture: &Fixture, org: OrgId, node: NodeId) {
        for _ in 0..25 {
            let fence = fixture.running(org, node).await;
            let (cancelled, finished) = join(
                fixture.store.cancel_run(org, fence.run, fixture.now()),
                fixture.store.finish_run(fence, fixture.succeeded("out")),
            )
            .await;
            let run = fixture.get(org, fence.run).await;
            match (cancelled.unwrap(), finished) {
                (Cancelled::Now(_), Err(Error::Fenced)) => {
                    assert_eq!((run.status, run.output), (RunStatus::Cancelled, None));
                }
                (Cancelled::AlreadyFinal(_), Ok(_)) => assert_eq!(run.status, RunStatus::Succeeded),
                other => panic!("{other:?}"),
            }
        }
    }

    async fn of_cancel_and_finish_the_callback_is_due_once(fixture: &Fixture, org: OrgId, node: NodeId) {
        for _ in 0..15 {
            let fence = fixture.calling_back(org, node, "a:1").await;
            let (cancelled, finished) = join(
                fixture.store.cancel_run(org, fence.run, fixture.now()),
                fixture.store.finish_run(fence, fixture.ends()),
            )
            .await;
            cancelled.unwrap();
            assert!(matches!(finished, Ok(_) | Err(Error::Fenced)), "{finished:?}");
            let claimed = fixture.claim_due("n", "a:1", fixture.now()).await;
            assert_eq!(claimed.iter().map(|one| one.run).collect::<Vec<_>>(), [fence.run]);
            let sent = made(&claimed[0], fixture.now(), AfterAttempt::Delivered);
            fixture.store.record_attempt(sent).await.unwrap();
        }
    }

    async fn two_nodes_never_claim_the_same_delivery(fixture: &Fixture, org: OrgId, node: NodeId) {
        for number in 0..40 {
            fixture.due(org, node, if number % 2 == 0 { "a:1" } else { "b:1" }).await;
        }
        let at = fixture.now();
        let claims = join_all((0..24).map(|number| {
            let orders = [("b:1", 3), ("a:1", 3)]
                .map(|(host, limit)| Order { host: host.to_owned(), limit, without: Vec::new() }).to_vec();
            fixture.store.claim_deliveries((format!("node-{}", number % 3), crate::nodes::NodeId(number % 3)), orders, at, at + Duration::from_secs(30))
        }))
        .await;
        let claimed: Vec<_> = claims.into_iter().flat_map(|claims| claims.unwrap().deliveries).map(|one| one.run).collect();
        let runs: HashSet<_> = claimed.iter().collect();
        assert_eq!(claimed.len(), runs.len());
        // A command that met another one at a row claimed fewer deliveries. Nothing is lost.
        let rest = fixture.claim_due("last", "a:1", at).await.len() + fixture.claim_due("last", "b:1", at).await.len();
        assert_eq!(claimed.len() + rest, 40);
    }

    async fn of_record_and_redeliver_both_count(fixture: &Fixture, org: OrgId, node: NodeId) {
        for _ in 0..15 {
            let (run, at) = fixture.due(org, node, "a:1").await;
            let claimed = fixture.claim_due("n", "a:1", at).await.remove(0);
            let (recorded, again) = join(
                fixture.store.record_attempt(made(&claimed, at, AfterAttempt::Delivered)),
                fixture.store.redeliver(org, run, at),
            )
            .await;
            assert_eq!(recorded, Ok(()));
            // If the redelivery came before the record, the pending attempt was its attempt. Otherwise there
            // is one more.
            let due = fixture.claim_due("n", "a:1", at).await;
            let (number, _) = again.unwrap();
            assert_eq!(number, 1 + i64::try_from(due.len()).unwrap());
            for one in due {
                fixture.store.record_attempt(made(&one, at, AfterAttempt::Delivered)).await.unwrap();
            }
        }
    }

    async fn of_cancel_and_claim_both_may_win_but_the_worker_is_fenced(fixture: &Fixture, org: OrgId, node: NodeId) {
        for _ in 0..25 {
            let id = fixture.queued(org).await;
            let (cancelled, claims) = join(
                fixture.store.cancel_run(org, id, fixture.now()),
                fixture.claim(node, 5),
            )
            .await;
            assert!(matches!(cancelled.unwrap(), Cancelled::Now(_)));
            for claim in claims {
                assert_eq!(fixture.start(claim.fence).await.unwrap_err(), Error::Fenced);
            }
        }
    }

    async fn of_cancel_and_settle_and_sweep_the_run_is_settled_once(fixture: &Fixture, org: OrgId) {
        for _ in 0..25 {
            let node = fixture.node().await;
            let fence = fixture.tired(org, node).await;
            let at = fixture.now() + Duration::from_hours(5);
            let cost = Micros::new(9).unwrap();
            let (cancelled, (settled, swept)) = join(
                fixture.store.cancel_run(org, fence.run, fixture.now()),
                join(fixture.store.settle_run(fence.run, fence.attempt, of_calls(cost), Vec::new()), fixture.sweep(at, 5)),
            )
            .await;
            // The second command in the queue had nothing to do. A run that both have missed is found now.
            let late = fixture.sweep(at, 5).await;
            let run = fixture.get(org, fence.run).await;
            assert!(!run.billing_pending, "{cancelled:?} {settled:?} {swept:?}");
            match cancelled.unwrap() {
                Cancelled::Now(_) => {
                    assert_eq!((run.status, swept.len() + late.len()), (RunStatus::Cancelled, 0));
                    assert_eq!(run.cost_micros, if settled.is_ok() { cost } else { Micros::ZERO });
                }
                Cancelled::AlreadyFinal(_) => {
                    assert_eq!((run.status, settled), (RunStatus::Interrupted, Err(Error::Fenced)));
                }
            }
            fixture.check().await;
        }
    }

    async fn of_cancel_and_append_the_events_stay_without_gap(fixture: &Fixture, org: OrgId, node: NodeId) {
        for _ in 0..25 {
            let fence = fixture.running(org, node).await;
            let events = vec![fixture.message("a"), fixture.message("b"), fixture.message("c")];
            let (cancelled, appended) = join(
                fixture.store.cancel_run(org, fence.run, fixture.now()),
                fixture.append(fence, events, Micros::ZERO),
            )
            .await;
            assert!(matches!(cancelled.unwrap(), Cancelled::Now(_)));
            assert!(matches!(appended, Ok(()) | Err(Error::Fenced)), "{appended:?}");
            fixture.check().await;
        }
    }

    async fn creates_with_one_idempotency_key_make_one_run(fixture: &Fixture, org: OrgId) {
        for round in 0..10 {
            let creates = (0..6).map(|_| {
                let mut run = fixture.new_run(org);
                run.idempotency_key = Some(format!("key {round}"));
                fixture.store.create_run(run)
            });
            let mut made = 0;
            let mut ids = HashSet::new();
            for created in join_all(creates).await {
                match created.unwrap() {
                    Created::New(run) => {
                        made += 1;
                        ids.insert(run.id);
                    }
                    Created::Existing(run) => {
                        ids.insert(run.id);
                    }
                }
            }
            assert_eq!((made, ids.len()), (1, 1));
        }
    }

    async fn two_sweepers_end_each_lost_run_once(fixture: &Fixture, org: OrgId) {
        let nodes = [fixture.node().await, fixture.node().await];
        for _ in 0..40 {
            fixture.queued(org).await;
        }
        for node in nodes {
            for claim in fixture.claim(node, 20).await {
                fixture.tire(claim.fence.run).await;
            }
        }
        let at = fixture.now() + Duration::from_hours(5);
        let ended = join_all((0..6).map(|_| fixture.sweep(at, 11))).await;
        let ended = ended.concat();
        let runs: HashSet<_> = ended.iter().map(|(_, run)| *run).collect();
        assert_eq!((ended.len(), runs.len()), (40, 40));
    }

    async fn of_sweep_and_finish_one_wins(fixture: &Fixture, org: OrgId) {
        for _ in 0..25 {
            let node = fixture.node().await;
            let fence = fixture.tired(org, node).await;
            let at = fixture.now() + Duration::from_hours(5);
            let (swept, finished) = join(
                fixture.sweep(at, 10),
                fixture.store.finish_run(fence, fixture.succeeded("out")),
            )
            .await;
            let run = fixture.get(org, fence.run).await;
            match (swept.len(), finished) {
                (1, Err(Error::Fenced)) => assert_eq!(run.status, RunStatus::Interrupted),
                (0, Ok(_)) => assert_eq!(run.status, RunStatus::Succeeded),
                other => panic!("{other:?}"),
            }
        }
    }

    async fn of_sweep_and_heartbeat_one_wins(fixture: &Fixture, org: OrgId) {
        for _ in 0..25 {
            let node = fixture.node().await;
            let fence = fixture.tired(org, node).await;
            let at = fixture.now() + Duration::from_hours(5);
            let (swept, renewed) = join(fixture.sweep(at, 10), fixture.renew(node, at)).await;
            let run = fixture.get(org, fence.run).await;
            match (swept.len(), renewed) {
                (1, Err(Error::Fenced)) => assert_eq!(run.status, RunStatus::Interrupted),
                (0, Ok(_)) => {
                    assert_eq!(run.status, RunStatus::Running);
                    fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
                    fixture.store.deregister_node(node, at).await.unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
    }

    async fn two_sweepers_take_each_lost_run_over_once(fixture: &Fixture, org: OrgId) {
        let lost = [fixture.node().await, fixture.node().await, fixture.node().await];
        for node in lost {
            for _ in 0..15 {
                fixture.running(org, node).await;
            }
        }
        // A lost node is unregistered. In that case the first search takes no lock.
        let forget = fixture.store.db.write(move |tx| tx.exec("DELETE FROM node WHERE id = $1", vals![lost[2]]));
        forget.await.unwrap();
        let takers = [fixture.node().await, fixture.node().await];
        let at = fixture.now() + Duration::from_hours(5);
        for taker in takers {
            fixture.renew(taker, at).await.unwrap();
        }
        let swept = join_all((0..10).map(|n| fixture.take_over(takers[n % 2], at, 6))).await;
        let taken: Vec<_> = swept.iter().flat_map(|swept| &swept.taken).collect();
        let runs: HashSet<_> = taken.iter().map(|claim| claim.fence.run).collect();
        assert_eq!((taken.len(), runs.len()), (45, 45));
        assert!(taken.iter().all(|claim| claim.fence.attempt == 2));
        let held = [fixture.store.held_runs(takers[0]).await.unwrap(), fixture.store.held_runs(takers[1]).await.unwrap()];
        assert_eq!(held.concat().len(), 45);
    }

    async fn of_takeover_and_finish_one_wins(fixture: &Fixture, org: OrgId, taker: NodeId) {
        for _ in 0..25 {
            let node = fixture.node().await;
            let fence = fixture.running(org, node).await;
            fixture.store.deregister_node(node, fixture.now()).await.unwrap();
            let (swept, finished) = join(
                fixture.take_over(taker, fixture.now(), 5),
                fixture.store.finish_run(fence, fixture.succeeded("out")),
            )
            .await;
            let run = fixture.get(org, fence.run).await;
            match (&swept.taken[..], finished) {
                ([claim], Err(Error::Fenced)) => {
                    assert_eq!((run.status, claim.fence.attempt), (RunStatus::Running, 2));
                    fixture.store.finish_run(claim.fence, fixture.succeeded("again")).await.unwrap();
                }
                ([], Ok(_)) => assert_eq!(run.status, RunStatus::Succeeded),
                other => panic!("{other:?}"),
            }
        }
    }

    async fn of_takeover_and_append_the_next_worker_misses_nothing_that_was_stored(fixture: &Fixture, org: OrgId, taker: NodeId) {
        for _ in 0..25 {
            let node = fixture.node().await;
            let fence = fixture.running(org, node).await;
            fixture.store.deregister_node(node, fixture.now()).await.unwrap();
            let new = Append {
                events: vec![fixture.message("a")],
                journal: entries(0, &["{}"]),
                cost: Micros::new(3).unwrap(), usage: sortie_api::RunUsage::default() };
            let (swept, appended) = join(
                fixture.take_over(taker, fixture.now(), 5),
                fixture.store.append(fence, new),
            )
            .await;
            let [claim] = &swept.taken[..] else { panic!("{swept:?}") };
            let journal = fixture.store.journal(fence.run).await.unwrap();
            match appended {
                Ok(()) => assert_eq!((claim.fence.last_event, journal.len()), (fence.last_event + 1, 1)),
                Err(Error::Fenced) => assert_eq!((claim.fence.last_event, journal.len()), (fence.last_event, 0)),
                Err(error) => panic!("{error}"),
            }
            fixture.store.finish_run(claim.fence, fixture.succeeded("out")).await.unwrap();
        }
    }

    async fn of_takeover_and_cancel_the_run_is_cancelled_and_settled_once(fixture: &Fixture, org: OrgId, taker: NodeId) {
        for _ in 0..25 {
            let node = fixture.node().await;
            let fence = fixture.running(org, node).await;
            fixture.store.deregister_node(node, fixture.now()).await.unwrap();
            let (swept, cancelled) = join(
                fixture.take_over(taker, fixture.now(), 5),
                fixture.store.cancel_run(org, fence.run, fixture.now()),
            )
            .await;
            assert!(matches!(cancelled.unwrap(), Cancelled::Now(_)));
            for claim in swept.taken {
                let late = fixture.store.finish_run(claim.fence, fixture.succeeded("late")).await;
                assert_eq!(late.unwrap_err(), Error::Fenced);
            }
            // A run that is cancelled between the two searches of a sweep is met by neither search, but by
            // the next sweep.
            fixture.take_over(taker, fixture.now(), 5).await;
            // The node that holds the run now has no task for it.
            let held = vec![fence.run];
            fixture.store.retake_held(taker, held, fixture.now(), Micros::ZERO).await.unwrap();
            let run = fixture.get(org, fence.run).await;
            assert_eq!((run.status, run.billing_pending), (RunStatus::Cancelled, false));
        }
    }

    async fn a_node_that_is_replaced_while_it_claims_leaves_nothing_behind(fixture: &Fixture, org: OrgId) {
        for _ in 0..10 {
            let old = fixture.node_named("same").await;
            for _ in 0..4 {
                fixture.queued(org).await;
            }
            let (claimed, new) = join(
                fixture.store.claim_runs(old, 4, None, fixture.now()),
                fixture.node_named("same"),
            )
            .await;
            let held = match claimed {
                Ok(claims) => claims.len(),
                Err(error) => {
                    assert_eq!(error, Error::Fenced);
                    0
                }
            };
            let taken = fixture.take_over(new, fixture.now(), 100).await.taken;
            assert_eq!(taken.len(), held);
            for claim in taken.into_iter().chain(fixture.claim(new, 100).await) {
                let fence = fixture.start(claim.fence).await.unwrap();
                fixture.store.finish_run(fence, fixture.succeeded("x")).await.unwrap();
            }
            assert_eq!(fixture.count("SELECT COUNT(*) FROM queue").await, 0);
        }
    }

    async fn of_two_that_delete_the_last_admin_keys_one_is_refused(fixture: &Fixture) {
        for _ in 0..10 {
            let org = fixture.org().await;
            let keys = [fixture.new_key(org, Role::Admin), fixture.new_key(org, Role::Admin)];
            for key in keys.clone() {
                fixture.store.create_key(key.clone(), fixture.audit(key.org)).await.unwrap();
            }
            let (one, two) = join(
                fixture.store.delete_key(org, keys[0].id, fixture.audit(org)),
                fixture.store.delete_key(org, keys[1].id, fixture.audit(org)),
            )
            .await;
            assert_ne!(one.is_ok(), two.is_ok(), "{one:?} {two:?}");
            assert_eq!(fixture.store.list_keys(org, None, 10).await.unwrap().len(), 1);
        }
    }

    async fn workflows_saved_at_once_keep_to_the_limit_and_count_each_change_once(fixture: &Fixture, org: OrgId) {
        let names: Vec<String> = (0..30).map(|number| format!("w{}", number % 15)).collect();
        let saved = join_all(names.iter().map(|name| fixture.put_workflow(org, name, "x"))).await;
        let refused = Error::Conflict("the organization has reached its limit of workflows");
        assert!(saved.iter().all(|saved| saved.as_ref().err().is_none_or(|error| *error == refused)));
        let created = saved.iter().filter(|saved| matches!(saved, Ok(SavedWorkflow::Created(_)))).count();
        let kept = fixture.store.workflow_names(org).await.unwrap();
        assert_eq!((created, kept.len(), fixture.audited(org).await.len()), (10, 10, 10));
        let prompts: Vec<String> = (0..20).map(|number| format!("p{}", number % 4)).collect();
        let name = kept.first().unwrap().as_str();
        let saved = join_all(prompts.iter().map(|prompt| fixture.put_workflow(org, name, prompt))).await;
        assert!(saved.iter().all(|saved| matches!(saved, Ok(SavedWorkflow::Replaced(_)))));
        let changes = i64::try_from(fixture.audited(org).await.len()).unwrap() - 10;
        assert_eq!(fixture.store.get_workflow(org, name).await.unwrap().revision, 1 + changes);
    }

    async fn of_saving_and_deleting_a_workflow_both_are_done_in_some_order(fixture: &Fixture) {
        for _ in 0..20 {
            let org = fixture.org().await;
            fixture.put_workflow(org, "a", "x").await.unwrap();
            let (saved, deleted) = join(fixture.put_workflow(org, "a", "y"), fixture.delete_workflow(org, "a")).await;
            deleted.unwrap();
            let left = fixture.store.get_workflow(org, "a").await;
            match saved.unwrap() {
                SavedWorkflow::Created(row) => {
                    assert_eq!(row.revision, 1);
                    assert_eq!(left.unwrap(), row);
                }
                SavedWorkflow::Replaced(row) => {
                    assert_eq!((left.unwrap_err(), row.revision), (Error::NotFound, 2));
                }
            }
        }
    }

    async fn of_rotations_at_once_the_last_two_secrets_work(fixture: &Fixture, org: OrgId) {
        let key = fixture.key(org, Role::Admin).await;
        let at = fixture.now();
        let rotations = (1..=12_u8).map(|number| {
            let rotation = Rotation { id: key.id, hash: [number; 32], at, previous_until: at + Duration::from_hours(1) };
            fixture.store.rotate_key(org, rotation, fixture.audit(org))
        });
        for rotated in join_all(rotations).await {
            rotated.unwrap();
        }
        let hashes = (1..=12_u8).map(|number| [number; 32]).chain([key.hash]);
        let found = join_all(hashes.map(|hash| fixture.store.find_principal(hash))).await;
        let ends: Vec<_> = found.into_iter().filter_map(Result::unwrap).map(|record| record.until).collect();
        assert_eq!(ends.len(), 2, "{ends:?}");
        assert!(ends.contains(&None));
    }

    async fn of_two_that_count_the_same_hour_one_does(fixture: &Fixture, org: OrgId, node: NodeId) {
        fixture.finished(org, node).await;
        let later = fixture.now() + Duration::from_hours(2);
        let due = fixture.store.usage_due(later, None, 10).await.unwrap().items;
        let due = due[0].1.unwrap();
        let counted = join_all((0..8).map(|_| fixture.store.count_usage(due, leaving(0)))).await;
        let (first, others): (Vec<_>, Vec<_>) =
            counted.into_iter().partition(|counted| counted == &Ok(CountedPart::Counted(0)));
        assert_eq!((first.len(), others), (1, vec![Ok(CountedPart::Elsewhere); 7]));
        assert_eq!(fixture.count("SELECT CAST(SUM(runs) AS BIGINT) FROM usage_day").await, 1);
    }

    async fn many_nodes_that_start_together_make_one_organization(fixture: &Fixture) {
        let starts = (0..5_u8).map(|number| {
            let org = sortie_api::OrgId::new(fixture.now(), [number; 10]);
            fixture.store.bootstrap("home", fixture.new_key(org, Role::Admin), fixture.audit(org))
        });
        let made = join_all(starts).await.into_iter().filter(|made| *made.as_ref().unwrap()).count();
        assert_eq!(made, 1);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM organization").await, 1);
    }
}
