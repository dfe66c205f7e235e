//! Commands that wait for each other on PostgreSQL, or that another one interrupts between two statements.

use super::prelude::*;

postgres! {
    async fn a_run_that_comes_between_is_not_handed_out_without_the_lock(fixture: &Fixture, org: OrgId, node: NodeId) {
        let turn = fixture.count("SELECT turn FROM dispatch").await;
        let (reached, go_on) = fixture.store.db.faults().pause(1);
        let (claims, ()) = join(fixture.claim(node, 5), async {
            reached.await.unwrap();
            fixture.queued(org).await;
            go_on.send(()).unwrap();
        })
        .await;
        assert!(claims.is_empty(), "{claims:?}");
        assert_eq!(fixture.count("SELECT turn FROM dispatch").await, turn);
        assert_eq!(fixture.claim(node, 5).await.len(), 1);
        fixture.check().await;
    }

    async fn a_run_that_ends_without_a_worker_is_charged_for_a_call_that_is_recorded_meanwhile(fixture: &Fixture) {
        let micros = |amount| Micros::new(amount).unwrap();
        let (org, node) = (fixture.org().await, fixture.node().await);
        let fence = fixture.tired(org, node).await;
        fixture.on_node_clocks(fence.run).await;
        let at = fixture.now();
        // The slow worker has locked the row of its run. It stores its event after the end of the run has begun to wait
        // for this row.
        let append = fixture.append(fence, vec![fixture.called(micros(7))], micros(7));
        let retake = fixture.store.retake_held(node, vec![fence.run], at, micros(1_000_000));
        let (appended, ended) = fixture.overlapped(1, append, retake).await;
        assert_eq!((appended, ended.unwrap().ended.len()), (Ok(()), 1));
        let run = fixture.get(org, fence.run).await;
        let time = at.as_micros() - run.started_at.unwrap().as_micros();
        assert_eq!(run.cost_micros, micros(7 + u64::try_from(time).unwrap()));
        fixture.check().await;
    }

    async fn a_node_that_is_replaced_while_its_claim_by_name_waits_for_the_lock_is_fenced(fixture: &Fixture, org: OrgId) {
        let old = fixture.node_named("same").await;
        let run = fixture.queued(org).await;
        // The replacement has the lock. It waits until the claim waits for the lock.
        let claim = fixture.store.claim_named(old, vec![run], None, fixture.now());
        let (_, claimed) = fixture.overlapped(2, fixture.node_named("same"), claim).await;
        assert_eq!(claimed.unwrap_err(), Error::Fenced);
        fixture.check().await;
    }

    async fn a_node_that_is_forgotten_while_it_claims_is_fenced(fixture: &Fixture, org: OrgId, node: NodeId) {
        fixture.queued(org).await;
        let (reached, go_on) = fixture.store.db.faults().pause(1);
        let (claimed, ()) = join(fixture.store.claim_runs(node, 5, None, fixture.now()), async {
            reached.await.unwrap();
            let forget = |tx: &mut dyn Tx| tx.exec("DELETE FROM node", vals![]);
            fixture.store.db.write(forget).await.unwrap();
            go_on.send(()).unwrap();
        })
        .await;
        assert_eq!(claimed.unwrap_err(), Error::Fenced);
        fixture.check().await;
    }
}
