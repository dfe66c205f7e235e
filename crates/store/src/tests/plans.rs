//! How the database finds the rows of a statement: through an index, in the order of the answer.

use std::time::Duration;

use sortie_api::{Micros, Role, RunStatus};

use super::fixture::{Fixture, after};
use crate::{RunFilter, db::vals};

/// Runs every command that meets rows which can be many.
async fn use_everything(fixture: &Fixture) {
    let org = fixture.org().await;
    let key = fixture.new_key(org, Role::Admin);
    fixture.store.create_key(key.clone()).await.unwrap();
    fixture.store.find_key(key.hash).await.unwrap();
    fixture.store.list_keys(org).await.unwrap();
    let node = fixture.node().await;
    let mut keyed = fixture.new_run(org);
    keyed.idempotency_key = Some("once".to_owned());
    fixture.store.create_run(keyed).await.unwrap();
    let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
    let one = vec![fixture.message("x")];
    fixture
        .store
        .append_events(fence, one, Micros::ZERO)
        .await
        .unwrap();
    fixture
        .store
        .finish_run(after(fence, 1), fixture.succeeded("out"))
        .await
        .unwrap();
    fixture
        .store
        .finish_run(fence, fixture.succeeded("late"))
        .await
        .unwrap_err();
    let cancelled = fixture.running(org, node).await;
    fixture
        .store
        .cancel_run(org, cancelled.run, fixture.now())
        .await
        .unwrap();
    fixture.running(org, node).await;
    fixture.store.heartbeat(node, fixture.now()).await.unwrap();
    let later = fixture.now() + Duration::from_hours(1);
    fixture.store.interrupt_lost(later, 10).await.unwrap();
    fixture.store.deregister_node(node).await.unwrap();
    fixture.store.run_definition(org, fence.run).await.unwrap();
    fixture.events(org, fence.run).await;
    fixture.get(org, fence.run).await;
    let schedule = Some("sched_01hf7yat00e0080000000000aa".parse().unwrap());
    for (status, schedule) in [
        (None, None),
        (Some(RunStatus::Failed), None),
        (Some(RunStatus::Queued), None),
        (None, schedule),
    ] {
        let filter = RunFilter {
            status,
            schedule,
            before: None,
            limit: 10,
        };
        fixture.store.list_runs(org, filter).await.unwrap();
    }
}

const SMALL: [&str; 9] = [
    "n",
    "node",
    "w",
    "found",
    "counted",
    "json_each",
    "CONSTANT ROW",
    "organization",
    "dispatch",
];

#[tokio::test]
async fn no_statement_walks_or_sorts_a_table_that_grows() {
    let fixture = Fixture::sqlite().await;
    use_everything(&fixture).await;
    let mut explained = 0;
    for sql in fixture.store.db.faults().statements() {
        let explain: &'static str = Box::leak(format!("EXPLAIN QUERY PLAN {sql}").into_boxed_str());
        let numbers = (1..20)
            .filter(|number| sql.contains(&format!("${number}")))
            .count();
        let plan = fixture
            .store
            .db
            .read(move |tx| tx.query_all(explain, (0..numbers).flat_map(|_| vals![0_i64]).collect()))
            .await
            .unwrap();
        for step in plan {
            let step = step.text(3).unwrap();
            // `n` is the few nodes, `w` and `found` the organizations found so far, `counted` ends at its limit,
            // `json_each` is a parameter. Only runs that were named are put in order.
            let is_small = SMALL
                .iter()
                .any(|small| step.starts_with(&format!("SCAN {small}")));
            assert!(!step.starts_with("SCAN") || is_small, "{step}\n{sql}");
            let is_named = sql.contains("{JSON_EACH}");
            assert!(
                !step.contains("TEMP B-TREE FOR ORDER") || is_named,
                "{step}\n{sql}"
            );
            explained += 1;
        }
    }
    assert!(explained > 40, "{explained}");
}
