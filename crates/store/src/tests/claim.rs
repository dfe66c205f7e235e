use std::time::Instant;

use super::{fixture::DEFINITION, prelude::*};
use crate::{
    Result,
    runs::{Claim, Origin},
};

async fn waiting(fixture: &Fixture, org: OrgId, count: usize) {
    for _ in 0..count {
        fixture.queued(org).await;
    }
}

fn of(claims: &[Claim], org: OrgId) -> usize {
    claims.iter().filter(|claim| claim.org == org).count()
}

/// Adds `orgs` organizations, and `per_org` waiting runs for each organization of the database. The rows are
/// added in steps, because no statement may take long.
async fn backlog(fixture: &Fixture, orgs: i64, per_org: i64) {
    fixture
        .sql(
            "INSERT INTO organization (id, name, created_at) \
             WITH RECURSIVE n (i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < $1) \
             SELECT 'org_01hf7yat00e00800' || CAST(1000000000 + i AS TEXT), 'a', 1 FROM n",
            vals![orgs],
        )
        .await;
    let mut from = 1;
    while from <= per_org {
        let to = per_org.min(from + 9_999);
        let add = move |tx: &mut dyn Tx| add_waiting(tx, from, to);
        fixture.store.db.write(add).await.unwrap();
        from = to + 1;
    }
}

/// Adds a waiting run for each number and each organization. The number is the creation time.
fn add_waiting(tx: &mut dyn Tx, from: i64, to: i64) -> Result<()> {
    tx.exec(
        "INSERT INTO run (id, org_id, status, attempt, last_event, created_at, max_cost_micros, \
         cost_micros, billing_pending, timeout_seconds) \
         WITH RECURSIVE n (i) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < $2) \
         SELECT 'run_' || substr(o.id, 5, 16) || CAST(1000000 + n.i AS TEXT) || substr(o.id, 28), \
         o.id, 'queued', 0, 1, n.i, 1, 0, 1, 300 FROM n CROSS JOIN organization o",
        vals![from, to],
    )?;
    for belonging in [
        "INSERT INTO run_definition (run_id, definition) \
         SELECT id, '{}' FROM run WHERE created_at BETWEEN $1 AND $2",
        "INSERT INTO event (run_id, seq, kind, data, created_at) \
         SELECT id, 1, 'status', '{\"status\":\"queued\"}', 1 FROM run WHERE created_at BETWEEN $1 AND $2",
        "INSERT INTO queue (run_id, org_id, enqueued_at) \
         SELECT id, org_id, created_at FROM run WHERE created_at BETWEEN $1 AND $2",
    ] {
        tx.exec(belonging, vals![from, to])?;
    }
    Ok(())
}

/// Number of tries. Other work of the machine disturbs the fastest of them least.
const TRIES: usize = 24;

/// Time of the fastest of [`TRIES`] claims. They take nearly 200 runs.
async fn fastest_claim(fixture: &Fixture, node: NodeId) -> Duration {
    let mut fastest = Duration::MAX;
    for _ in 0..TRIES {
        let started = Instant::now();
        assert_eq!(fixture.claim(node, 8).await.len(), 8);
        fastest = fastest.min(started.elapsed());
    }
    fastest
}

both! {
    async fn a_run_that_cannot_be_read_does_not_keep_the_others_waiting(fixture: &Fixture, org: OrgId, node: NodeId) {
        let (broken, whole) = (fixture.queued(org).await, fixture.queued(org).await);
        let turn = "UPDATE run SET timeout_seconds = 0 - timeout_seconds WHERE id = $1";
        fixture.sql(turn, vals![broken]).await;
        let claims = fixture.store.claim_runs(node, 5, None, fixture.now()).await.unwrap();
        assert_eq!(claims.iter().map(|claim| claim.fence.run).collect::<Vec<_>>(), [whole]);
        fixture.sql(turn, vals![broken]).await;
    }

    async fn a_claim_brings_all_that_the_worker_needs(fixture: &Fixture, org: OrgId, node: NodeId) {
        let new = fixture.new_run(org);
        fixture.store.create_run(new.clone()).await.unwrap();
        let at = fixture.now();
        let claims = fixture.store.claim_runs(node, 5, None, at).await.unwrap();
        let [claim] = &claims[..] else { panic!("{claims:?}") };
        assert_eq!((claim.fence.run, claim.fence.attempt, claim.fence.last_event), (new.id, 1, 2));
        assert_eq!((claim.org, claim.definition.as_deref()), (org, Some(DEFINITION)));
        assert_eq!((claim.max_cost, claim.timeout_seconds, claim.started_at), (new.max_cost, 300, at));
        let event = fixture.events(org, new.id).await.remove(1);
        assert_eq!(event.data, r#"{"status":"starting"}"#);
        assert_eq!(claim.origin, Origin::Queue(event));
        let run = fixture.get(org, new.id).await;
        assert_eq!((run.status, run.started_at), (RunStatus::Starting, Some(at)));
    }

    async fn nothing_is_claimed_where_nothing_waits(fixture: &Fixture, org: OrgId, node: NodeId) {
        assert!(fixture.claim(node, 5).await.is_empty());
        fixture.queued(org).await;
        assert!(fixture.claim(node, 0).await.is_empty());
        assert!(fixture.store.claim_runs(node, 5, Some(0), fixture.now()).await.unwrap().is_empty());
        assert_eq!(fixture.claim(node, 5).await.len(), 1);
        assert!(fixture.claim(node, 5).await.is_empty());
    }

    async fn runs_of_one_organization_are_claimed_first_come_first_served(fixture: &Fixture, org: OrgId, node: NodeId) {
        let mut ids = Vec::new();
        for _ in 0..10 {
            ids.push(fixture.queued(org).await);
        }
        let mut claimed = Vec::new();
        for limit in [1, 3, 2, 10] {
            claimed.extend(fixture.claim(node, limit).await.iter().map(|claim| claim.fence.run));
        }
        assert_eq!(claimed, ids);
    }

    async fn organizations_take_turns_whatever_their_backlog(fixture: &Fixture) {
        let orgs = [fixture.org().await, fixture.org().await, fixture.org().await];
        let node = fixture.node().await;
        waiting(fixture, orgs[0], 20).await;
        waiting(fixture, orgs[1], 2).await;
        waiting(fixture, orgs[2], 20).await;
        let claims = fixture.claim(node, 9).await;
        assert_eq!(orgs.map(|org| of(&claims, org)), [4, 2, 3]);
        // The first organization was served last, so the third is next.
        let claims = fixture.claim(node, 1).await;
        assert_eq!(claims[0].org, orgs[2]);
        let claims = fixture.claim(node, 1).await;
        assert_eq!(claims[0].org, orgs[0]);
    }

    async fn single_claims_go_round(fixture: &Fixture) {
        let orgs = [fixture.org().await, fixture.org().await, fixture.org().await];
        let node = fixture.node().await;
        for org in orgs {
            waiting(fixture, org, 4).await;
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            order.push(fixture.claim_one(node).await.org);
        }
        assert_eq!(order, [orgs, orgs].concat());
    }

    async fn an_organization_never_holds_more_than_its_limit(fixture: &Fixture, busy: OrgId, small: OrgId) {
        let nodes = [fixture.node().await, fixture.node().await];
        waiting(fixture, busy, 10).await;
        waiting(fixture, small, 1).await;
        let claim = async |node: NodeId| fixture.store.claim_runs(node, 8, Some(3), fixture.now()).await.unwrap();
        let claims = claim(nodes[0]).await;
        assert_eq!((of(&claims, busy), of(&claims, small)), (3, 1));
        assert!(claim(nodes[1]).await.is_empty());
        let held = claims.iter().find(|claim| claim.org == busy).unwrap();
        let fence = fixture.start(held.fence).await.unwrap();
        fixture.store.finish_run(fence, fixture.succeeded("x")).await.unwrap();
        assert_eq!(of(&claim(nodes[1]).await, busy), 1);
        assert!(claim(nodes[0]).await.is_empty());
    }

    async fn a_cancelled_run_counts_until_it_is_settled(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.cancelled(org, node).await;
        waiting(fixture, org, 2).await;
        let claim = async || fixture.store.claim_runs(node, 8, Some(1), fixture.now()).await.unwrap();
        assert!(claim().await.is_empty());
        fixture.store.settle_run(fence.run, fence.attempt, of_calls(Micros::ZERO), Vec::new()).await.unwrap();
        assert_eq!(claim().await.len(), 1);
    }

    async fn a_claim_by_name_takes_those_that_wait_and_no_others(fixture: &Fixture, org: OrgId, node: NodeId, other: NodeId) {
        let held = fixture.running(org, other).await.run;
        let (named, unnamed) = (fixture.queued(org).await, fixture.queued(org).await);
        let runs = || vec![named, held, fixture.run_id()];
        let claims = fixture.store.claim_named(node, runs(), None, fixture.now()).await.unwrap();
        let [claim] = &claims[..] else { panic!("{claims:?}") };
        assert_eq!((claim.fence.run, claim.fence.attempt, claim.org), (named, 1, org));
        assert_eq!(fixture.get(org, unnamed).await.status, RunStatus::Queued);
        assert!(fixture.store.claim_named(node, runs(), None, fixture.now()).await.unwrap().is_empty());
        let refused = fixture.store.claim_named(NodeId(77), vec![unnamed], None, fixture.now()).await;
        assert_eq!(refused.unwrap_err(), Error::Fenced);
    }

    async fn a_node_that_is_not_known_claims_nothing(fixture: &Fixture, org: OrgId) {
        fixture.queued(org).await;
        let refused = fixture.store.claim_runs(NodeId(77), 5, None, fixture.now()).await;
        assert_eq!(refused.unwrap_err(), Error::Fenced);
    }

    async fn a_claim_costs_the_same_whatever_waits(fixture: &Fixture, org: OrgId, node: NodeId) {
        waiting(fixture, org, 200).await;
        let short = fastest_claim(fixture, node).await;
        backlog(fixture, 0, 100_000).await;
        let deep = fastest_claim(fixture, node).await;
        // Walking the backlog would take a hundred times as long.
        assert!(deep < short * 10, "{short:?} with a few waiting, {deep:?} with 100,000");
    }

    async fn a_list_of_running_runs_costs_the_same_whatever_waits(fixture: &Fixture, org: OrgId, node: NodeId) {
        for _ in 0..20 {
            fixture.running(org, node).await;
        }
        // The limit is one more than the number of runs, so the search continues to the end.
        let filter = RunFilter { statuses: vec![RunStatus::Running], limit: 21, ..RunFilter::default() };
        let fastest = async || {
            let mut fastest = Duration::MAX;
            for _ in 0..TRIES {
                let started = Instant::now();
                assert_eq!(fixture.store.list_runs(org, filter.clone()).await.unwrap().items.len(), 20);
                fastest = fastest.min(started.elapsed());
            }
            fastest
        };
        let short = fastest().await;
        backlog(fixture, 0, 100_000).await;
        let deep = fastest().await;
        assert!(deep < short * 10, "{short:?} with none waiting, {deep:?} with 100,000");
    }

    async fn a_claim_costs_the_same_however_many_organizations_wait(fixture: &Fixture, org: OrgId, node: NodeId) {
        waiting(fixture, org, 200).await;
        let one = fastest_claim(fixture, node).await;
        backlog(fixture, 1_000, 20).await;
        let many = fastest_claim(fixture, node).await;
        assert!(many < one * 10, "{one:?} with one waiting, {many:?} with 1,000");

        let [first, second] = [fixture.claim(node, 64).await, fixture.claim(node, 64).await];
        let orgs = |claims: &[Claim]| claims.iter().map(|claim| claim.org).collect::<HashSet<_>>();
        assert_eq!((orgs(&first).len(), orgs(&second).len()), (64, 64));
        assert!(orgs(&first).is_disjoint(&orgs(&second)));
    }
}
