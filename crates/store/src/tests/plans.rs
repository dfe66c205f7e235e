//! How the database finds the rows of a statement: through an index, in the order of the answer.

use std::{collections::HashMap, time::Duration};

use sortie_api::{ConnectionStatus, Micros, OrgId, Role, RunStatus};

use super::fixture::{Fixture, after, entries};
use crate::{
    Append, Batch, Expiry, InlineCredentials, OldTokens, RunFilter, SeenTokens,
    db::{Dialect, Row, Tx, vals},
};

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
    keyed.labels.tags = vec!["red".to_owned()];
    fixture.store.create_run(keyed).await.unwrap();
    let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
    let one = Append {
        events: vec![fixture.message("x")],
        journal: entries(0, &["{}", "{}"]),
        cost: Micros::ZERO,
    };
    fixture.store.append(fence, one).await.unwrap();
    fixture.store.journal(fence.run).await.unwrap();
    fixture.store.unsettled(vec![fence.run]).await.unwrap();
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
    let (run, attempt) = (cancelled.run, cancelled.attempt);
    fixture
        .store
        .settle_run(run, attempt, Micros::ZERO)
        .await
        .unwrap();
    fixture.store.find_idempotent(org, "once").await.unwrap();
    fixture.store.position(fence.run, 1).await.unwrap_err();
    fixture.store.last_events(vec![run]).await.unwrap();
    fixture.store.held_runs(node).await.unwrap();
    fixture.store.progress(org, run).await.unwrap();
    fixture
        .store
        .claim_named(node, vec![run], fixture.now())
        .await
        .unwrap();
    let mut abandoned = vec![fixture.running(org, node).await.run];
    abandoned.push(fixture.tired(org, node).await.run);
    fixture
        .store
        .retake_held(node, abandoned, fixture.now(), Micros::ZERO)
        .await
        .unwrap();
    fixture.tired(org, node).await;
    fixture.running(org, node).await;
    fixture.store.heartbeat(node, fixture.now()).await.unwrap();
    let taker = fixture.node().await;
    let later = fixture.now() + Duration::from_mins(1);
    let swept = fixture.take_over(taker, later, 10).await;
    assert_eq!((swept.ended.len(), swept.taken.len()), (1, 2));
    fixture.store.deregister_node(taker, later).await.unwrap();
    fixture.store.run_definition(org, fence.run).await.unwrap();
    fixture.events(org, fence.run).await;
    fixture.get(org, fence.run).await;
    list_everything(fixture, org).await;
    use_connections(fixture, org).await;
    fixture.use_files(org).await;
    use_artifacts(fixture, org).await;
    delete_expired(fixture, org).await;
}

async fn use_artifacts(fixture: &Fixture, org: OrgId) {
    let node = fixture.node().await;
    fixture
        .store
        .claim_runs(node, 100, None, fixture.now())
        .await
        .unwrap();
    let fence = fixture.running(org, node).await;
    let finish = fixture.with_artifacts(org, &[("a", 9)]).await;
    fixture.store.finish_run(fence, finish).await.unwrap();
    fixture.store.run_artifacts(org, fence.run).await.unwrap();
}

async fn delete_expired(fixture: &Fixture, org: OrgId) {
    fixture.store.organizations(Some(org), 10).await.unwrap();
    let now = fixture.now();
    let expiry = Expiry {
        org,
        finished_before: now,
        created_before: now,
        check_at: now,
    };
    let batch = Batch {
        runs: 100,
        events: 1_000,
    };
    let deleted = fixture.store.delete_expired_runs(expiry, batch).await.unwrap();
    assert!(deleted.runs > 1, "{deleted:?}");
}

async fn use_connections(fixture: &Fixture, org: OrgId) {
    let store = &fixture.store;
    let new = fixture.connection(org, "a").await;
    let flow = Fixture::flow(&new, 1);
    store.begin_authorization(flow.clone(), new.at).await.unwrap();
    store.take_authorization(flow.state_hash, new.at).await.unwrap();
    store
        .save_authorization(org, (new.id, 1), b"x".to_vec())
        .await
        .unwrap();
    let failed = store.record_failed_authorization(org, (new.id, 1), "x".to_owned());
    assert!(failed.await.unwrap());
    let seen = SeenTokens {
        org,
        connection: new.id,
        version: 1,
    };
    assert!(store.lease_refresh(seen, new.at, new.at).await.unwrap());
    store.release_refresh(seen).await.unwrap();
    assert!(store.save_refreshed(seen, b"y".to_vec()).await.unwrap());
    store
        .drop_refused(SeenTokens { version: 2, ..seen }, "x".to_owned())
        .await
        .unwrap();
    store
        .set_connection_status(org, (new.id, 1), ConnectionStatus::Error, None)
        .await
        .unwrap();
    store
        .replace_connection(new.clone(), 1, OldTokens::Keep)
        .await
        .unwrap();
    store
        .replace_connection(new.clone(), 2, OldTokens::Drop)
        .await
        .unwrap();
    store.get_connection(org, "a").await.unwrap();
    store.connection_by_id(org, new.id).await.unwrap();
    store.list_connections(org).await.unwrap();
    store.connections_named(org, vec!["a".to_owned()]).await.unwrap();
    store.delete_connection(org, "a").await.unwrap();
    let mut run = fixture.new_run(org);
    run.inline = Some(InlineCredentials {
        sealed: b"x".to_vec(),
        names: "[]".to_owned(),
    });
    store.create_run(run.clone()).await.unwrap();
    store.run_secrets(run.id).await.unwrap();
    store.seal_check(b"x".to_vec()).await.unwrap();
}

async fn list_everything(fixture: &Fixture, org: OrgId) {
    let schedule = Some("sched_01hf7yat00e0080000000000aa".parse().unwrap());
    for (status, schedule) in [
        (None, None),
        (Some(RunStatus::Failed), None),
        (Some(RunStatus::Queued), None),
        (Some(RunStatus::Running), None),
        (None, schedule),
        (Some(RunStatus::Failed), schedule),
        (Some(RunStatus::Queued), schedule),
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

/// How many parameters a statement takes.
fn parameters(sql: &str) -> usize {
    (1..30)
        .filter(|number| sql.contains(&format!("${number}")))
        .count()
}

/// Runs a statement that is made up here.
async fn query(fixture: &Fixture, statements: Vec<(String, usize)>) -> Vec<Row> {
    let statements: Vec<(&'static str, usize)> = statements
        .into_iter()
        .map(|(sql, parameters)| (&*Box::leak(sql.into_boxed_str()), parameters))
        .collect();
    let all = move |tx: &mut dyn Tx| {
        let mut rows = Vec::new();
        for (sql, parameters) in &statements {
            rows = tx.query_all(sql, (0..*parameters).flat_map(|_| vals![0_i64]).collect())?;
        }
        Ok(rows)
    };
    fixture.store.db.write(all).await.unwrap()
}

#[tokio::test]
async fn no_statement_walks_or_sorts_a_table_that_grows_on_sqlite() {
    const SMALL: [&str; 12] = [
        "n",
        "node",
        "w",
        "h",
        "found",
        "counted",
        "json_each",
        "t VIRTUAL TABLE",
        "CONSTANT ROW",
        "organization",
        "dispatch",
        "run_secret",
    ];
    let fixture = Fixture::sqlite().await;
    use_everything(&fixture).await;
    let mut explained = 0;
    for sql in fixture.store.db.faults().statements() {
        let explain = (format!("EXPLAIN QUERY PLAN {sql}"), parameters(sql));
        for step in query(&fixture, vec![explain]).await {
            let step = step.text(3).unwrap();
            // `n` is the few nodes, `h` those that hold runs, `w` and `found` the organizations found so far, `counted` ends at its limit,
            // `json_each` and `t` are parameters. Only runs that were named are put in order.
            let is_small = SMALL
                .iter()
                .any(|small| step.starts_with(&format!("SCAN {small}")));
            assert!(
                !step.starts_with("SCAN") || is_small || step.ends_with("VALUES CLAUSE"),
                "{step}\n{sql}"
            );
            let is_named = sql.contains("id {IN}");
            assert!(
                !step.contains("TEMP B-TREE FOR ORDER") || is_named,
                "{step}\n{sql}"
            );
            explained += 1;
        }
    }
    assert!(explained > 40, "{explained}");
}

/// The columns of each index, in order.
async fn index_columns(fixture: &Fixture) -> HashMap<String, Vec<String>> {
    let sql = "SELECT CAST(i.relname AS TEXT), CAST(a.attname AS TEXT) FROM pg_index x \
               JOIN pg_class i ON i.oid = x.indexrelid \
               JOIN pg_attribute a ON a.attrelid = i.oid ORDER BY a.attnum";
    let mut columns: HashMap<String, Vec<String>> = HashMap::new();
    for row in query(fixture, vec![(sql.to_owned(), 0)]).await {
        let column = row.text(1).unwrap().to_owned();
        columns
            .entry(row.text(0).unwrap().to_owned())
            .or_default()
            .push(column);
    }
    columns
}

/// Whether the condition of an index names its columns from the first one on and leaves none out: what comes after a gap
/// is looked for in all that the columns before it let through.
fn enters(condition: &str, columns: &[String]) -> bool {
    let words: Vec<&str> = condition
        .split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .collect();
    let mut named = columns.iter().map(|column| words.contains(&column.as_str()));
    named.next() == Some(true) && !named.skip_while(|is_named| *is_named).any(|is_named| is_named)
}

#[tokio::test]
async fn no_statement_walks_or_sorts_a_table_that_grows_on_postgres() {
    let fixture = Fixture::postgres().await;
    use_everything(&fixture).await;
    let statements = fixture.store.db.faults().statements();
    let columns = index_columns(&fixture).await;
    let mut explained = 0;
    for sql in statements {
        let text = Dialect::Postgres.translate(sql);
        let arguments = vec!["NULL"; parameters(sql)].join(", ");
        let arguments = if arguments.is_empty() {
            arguments
        } else {
            format!("({arguments})")
        };
        let name = format!("plan_{explained}");
        let plan = query(
            &fixture,
            vec![
                (format!("PREPARE {name} AS {text}"), 0),
                (format!("EXPLAIN (COSTS OFF) EXECUTE {name}{arguments}"), 0),
            ],
        )
        .await;
        let steps: Vec<&str> = plan
            .iter()
            .map(|step| step.text(0).unwrap().trim().trim_start_matches("->  "))
            .collect();
        let is_named = sql.contains("id {IN}");
        for (step, next) in steps.iter().zip(steps.iter().skip(1).chain([&"end"])) {
            // Nodes are few, of the organizations the first one is enough.
            let is_small = ["node", "organization"].iter().any(|few| step.ends_with(few));
            assert!(!step.starts_with("Seq Scan") || is_small, "{step}\n{sql}");
            // An index is entered by a condition, except to find out whether it is empty.
            let index = step
                .split_whitespace()
                .skip_while(|word| *word != "using")
                .nth(1)
                .unwrap_or("none");
            let columns = columns.get(index).map_or(&[][..], Vec::as_slice);
            let is_entered =
                next.starts_with("Index Cond") && enters(next, columns) || step.ends_with(" on organization");
            assert!(
                !step.starts_with("Index") || step.starts_with("Index Cond") || is_entered,
                "{step}\n{sql}"
            );
            assert!(!step.starts_with("Sort") || is_named, "{step}\n{sql}");
            assert!(
                !step.starts_with("Join Filter") && !step.starts_with("Materialize"),
                "{step}\n{sql}"
            );
        }
        explained += 1;
    }
    assert!(explained > 40, "{explained}");
}
