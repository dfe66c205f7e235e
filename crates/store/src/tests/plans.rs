//! Query plans: statements find their rows through an index, in the order of the answer.

mod connections;
mod workflows;

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use sortie_api::{
    Micros, OrgId, Role, RunStatus, Timestamp,
    schedule::FireOutcome,
    usage::{Day, UsageDimension},
};

use super::{
    deliveries::made,
    fixture::{Fixture, after, entries, of_calls},
    read::read_events_and_texts,
    usage::leaving,
};
use crate::{
    access::{AuditFilter, Rotation},
    db::{Dialect, Row, Tx, vals},
    money::{UsageDue, UsageQuery},
    outbox::AfterAttempt,
    runs::{Append, Batch, Counted, Expiry, LargeText, NewRun, OpenCallbacks, RunFilter},
    schedules::SaveSchedule,
};

/// A run with a key, a tag and metadata.
fn labelled(fixture: &Fixture, org: OrgId) -> NewRun {
    let mut run = fixture.new_run(org);
    run.idempotency_key = Some("once".to_owned());
    run.labels.tags = vec!["red".to_owned()];
    run.labels.metadata = [("color".to_owned(), "red".to_owned())].into();
    run
}

/// Runs every command on tables that can have many rows.
async fn use_everything(fixture: &Fixture) {
    let org = fixture.org().await;
    administer(fixture, org).await;
    let node = fixture.node().await;
    let keyed = labelled(fixture, org);
    for id in [keyed.id, fixture.run_id()] {
        fixture
            .store
            .create_run(NewRun { id, ..keyed.clone() })
            .await
            .unwrap();
    }
    let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
    let one = Append {
        events: vec![fixture.message("x")],
        journal: entries(0, &["{}", "{}"]),
        cost: Micros::ZERO,
        usage: sortie_api::RunUsage::default(),
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
        .settle_run(run, attempt, of_calls(Micros::ZERO), Vec::new())
        .await
        .unwrap();
    fixture.store.find_idempotent(org, "once").await.unwrap();
    fixture.store.position(fence.run).await.unwrap();
    fixture.store.watch(node, vec![run]).await.unwrap();
    fixture.store.drain_node(node, fixture.now()).await.unwrap();
    fixture.store.list_nodes().await.unwrap();
    fixture.store.held_runs(node).await.unwrap();
    fixture.store.observe(fixture.now()).await.unwrap();
    fixture.store.progress(org, run).await.unwrap();
    fixture.store.follow(org, run, 0, 10).await.unwrap();
    fixture
        .store
        .claim_named(node, vec![run], None, fixture.now())
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
    let taker = fixture.node().await;
    let later = fixture.now() + Duration::from_hours(2);
    let swept = fixture.take_over(taker, later, 10).await;
    assert_eq!((swept.ended.len(), swept.taken.len()), (1, 2));
    fixture.store.deregister_node(taker, later).await.unwrap();
    fixture.store.run_definition(org, fence.run).await.unwrap();
    read_events_and_texts(fixture, org, fence.run).await;
    fixture.events(org, fence.run).await;
    fixture.get(org, fence.run).await;
    use_all_resources(fixture, org).await;
}

async fn use_all_resources(fixture: &Fixture, org: OrgId) {
    use_unretained(fixture, org).await;
    list_everything(fixture, org).await;
    connections::use_connections(fixture, org).await;
    workflows::use_workflows(fixture, org).await;
    use_schedules(fixture, org).await;
    fixture.use_budgets().await;
    fixture.use_credits().await;
    fixture.use_auto_topups().await;
    fixture.use_purchases().await;
    fixture.use_licenses().await;
    fixture.use_subscriptions().await;
    fixture.use_people().await;
    fixture.use_console(org).await;
    fixture.use_organizations().await;
    fixture.use_avatars().await;
    fixture.use_mails().await;
    fixture.use_oauth().await;
    let wanted = vec![super::rates::wants("a", 10, 0)];
    fixture.store.lease_rates(wanted, 1, fixture.now()).await.unwrap();
    fixture.store.forget_rates(super::rates::MINUTE).await.unwrap();
    use_deliveries(fixture, org).await;
    fixture.use_files(org).await;
    use_artifacts(fixture, org).await;
    use_sealed(fixture).await;
    delete_expired(fixture, org).await;
}

async fn use_sealed(fixture: &Fixture) {
    fixture.store.database_info().await.unwrap();
    fixture.store.backlog(fixture.now(), 10).await.unwrap();
    let org = fixture.org().await;
    fixture.store.node_master_keys(fixture.now()).await.unwrap();
    fixture.seal_everywhere(org).await;
    for column in crate::installation::SealedColumn::ALL {
        for row in fixture.sealed(column).await {
            let value = crate::installation::Resealed {
                row: row.row,
                new: row.sealed.clone(),
                old: row.sealed,
            };
            fixture.store.reseal(column, vec![value], None).await.unwrap();
        }
    }
}

async fn use_artifacts(fixture: &Fixture, org: OrgId) {
    let node = fixture.node().await;
    fixture.claim(node, 100).await;
    let (store, fence) = (&fixture.store, fixture.running(org, node).await);
    let finish = fixture.with_artifacts(org, &[("a", 9)]).await;
    store.take_named(node, fence.run, fixture.now()).await.unwrap();
    store.unattended(node, vec![fence.run]).await.unwrap();
    store.finish_run(fence, finish).await.unwrap();
    store.run_artifacts(org, fence.run).await.unwrap();
}

async fn delete_expired(fixture: &Fixture, org: OrgId) {
    fixture
        .store
        .organizations(Some(org.to_string()), 10)
        .await
        .unwrap();
    let now = fixture.now();
    let expiry = Expiry {
        org,
        finished_before: now,
        created_before: now,
        check_at: now,
        open_callbacks: OpenCallbacks::Wait,
    };
    let batch = Batch {
        runs: 100,
        events: 1_000,
    };
    let deleted = fixture
        .store
        .delete_expired_runs(expiry, batch, &mut crate::runs::Undeletable::default())
        .await
        .unwrap();
    assert!(deleted.runs > 1, "{deleted:?}");
}

async fn use_deliveries(fixture: &Fixture, org: OrgId) {
    let node = fixture.node().await;
    let run = fixture.with_callback(org, "a:1");
    fixture.store.create_run(run.clone()).await.unwrap();
    while let Some(claim) = fixture.claim(node, 1).await.pop() {
        if claim.callback_host.is_some() {
            let fence = fixture.start(claim.fence).await.unwrap();
            fixture.store.finish_run(fence, fixture.ends()).await.unwrap();
        }
    }
    let at = fixture.now();
    let due = fixture.store.due_hosts(String::new(), at, 10).await.unwrap();
    assert_eq!(due.len(), 1);
    let claimed = fixture.claim_due("n", "a:1", at).await.remove(0);
    let mut attempt = made(&claimed, at, AfterAttempt::Delivered);
    attempt.number = sortie_api::limits::CALLBACK_ATTEMPTS + 1;
    fixture.store.record_attempt(attempt).await.unwrap();
    fixture.store.list_deliveries(org, run.id).await.unwrap();
    fixture.store.redeliver(org, run.id, at).await.unwrap();
    fixture
        .store
        .release_deliveries("n".to_owned(), at)
        .await
        .unwrap();
}

async fn administer(fixture: &Fixture, org: OrgId) {
    let store = &fixture.store;
    let key = fixture.new_key(org, Role::Admin);
    store
        .create_key(key.clone(), fixture.audit(key.org))
        .await
        .unwrap();
    store.find_principal(key.hash).await.unwrap();
    store.list_keys(org, None, 10).await.unwrap();
    let at = fixture.now();
    let rotation = Rotation {
        id: key.id,
        hash: [9; 32],
        at,
        previous_until: at,
    };
    store.rotate_key(org, rotation, fixture.audit(org)).await.unwrap();
    let (target, action) = (Some("x".to_owned()), Some("test.change".to_owned()));
    for (target, key, action) in [
        (None, None, None),
        (target, None, None),
        (None, Some(key.id), None),
        (None, Some(key.id), action.clone()),
        (None, None, action),
    ] {
        let filter = AuditFilter {
            target,
            key,
            action,
            limit: 10,
            ..AuditFilter::default()
        };
        store.list_audit(org, filter).await.unwrap();
    }
    let day = Day::of(at);
    let query = UsageQuery {
        from: day,
        to: day,
        by: vec![UsageDimension::Day],
        after: None,
        limit: 10,
    };
    store.usage(org, query.clone()).await.unwrap();
    store.usage_rows(org, query).await.unwrap();
    store.usage_due(at, None, 10).await.unwrap();
    let due = UsageDue {
        org,
        counted_until: Timestamp::from_micros(0),
        next_run: Timestamp::from_micros(0),
        are_many: true,
    };
    assert_eq!(
        store.count_usage(due, leaving(1)).await.unwrap(),
        crate::money::CountedPart::Counted(0)
    );
    store.late_runs(None, 10).await.unwrap();
    store.count_late_run(fixture.run_id()).await.unwrap();
    store.dead_rows().await.unwrap();
}

async fn use_unretained(fixture: &Fixture, org: OrgId) {
    let (store, node) = (&fixture.store, fixture.node().await);
    let (first, second) = (
        fixture.new_unretained(org, node),
        fixture.new_unretained(org, node),
    );
    for new in [&first, &second] {
        store.create_run(new.clone()).await.unwrap();
    }
    let claims = store.claim_named(node, vec![first.id], Some(1_000), fixture.now());
    let fence = claims.await.unwrap()[0].fence;
    store.start_unretained(fence, 1).await.unwrap();
    let fence = after(fence, 1);
    store.append_unretained(fence, Counted::default()).await.unwrap();
    let finish = fixture.unretained_finish();
    store.finish_unretained(fence, finish).await.unwrap();
    store.content_holder(org, first.id).await.unwrap();
    store.statuses(vec![first.id]).await.unwrap();
    store.forget_outputs(vec![(first.id, None)]).await.unwrap();
    store.forget_content(vec![first.id]).await.unwrap();
    assert_eq!(store.content_of(node).await.unwrap(), [second.id]);
    let missing = store.abandon_missing(node, vec![first.id], fixture.now(), Micros::ZERO);
    assert_eq!(missing.await.unwrap(), []);
    let ended = store.abandon_content(node, fixture.now(), Micros::ZERO);
    assert_eq!(ended.await.unwrap(), [(org, second.id)]);
}

async fn use_schedules(fixture: &Fixture, org: OrgId) {
    let store = &fixture.store;
    let row = fixture.schedule(org).await;
    let new = SaveSchedule {
        id: row.id,
        ..fixture.new_schedule(org)
    };
    let audit = fixture.audit_of(org, "schedule.update", "x");
    assert!(store.update_schedule(new, 1, audit).await.unwrap());
    let row = store.get_schedule(org, row.id).await.unwrap();
    let mut fires = fixture.start_next(&row);
    fires.rows[0].outcome = FireOutcome::Waiting;
    fires.state.waiting = Some(fires.rows[0].instant);
    fires.replaces = true;
    let run = store.record_fires(fires.clone()).await.unwrap().unwrap();
    store.replaced_runs(Some(run.id.to_string()), 5).await.unwrap();
    store.forget_replaced(&[run.id]).await.unwrap();
    fires.released = fires.state.waiting.take();
    fires.run = None;
    fires.revision += 1;
    store.record_fires(fires).await.unwrap();
    store
        .trigger_schedule(row.id, fixture.new_run(org))
        .await
        .unwrap();
    store.list_schedules(org, None, 5).await.unwrap();
    let input = LargeText::ScheduleInput(row.id, row.updated_at);
    store.large_text(org, input).await.ok();
    store.list_fires(org, row.id, None, 5).await.unwrap();
    let before = (fixture.now(), String::new(), String::new());
    store.list_all_fires(org, fixture.now(), before, 5).await.unwrap();
    store.schedules_with_fires(None, fixture.now(), 5).await.unwrap();
    store
        .delete_expired_fires(row.id, fixture.now(), 5)
        .await
        .unwrap();
    store.due_schedules(fixture.now(), None, 5).await.unwrap();
    store.released_schedules(None, 5).await.unwrap();
    store.next_due(fixture.now()).await.unwrap();
    store.open_runs(org, (row.id, 1), 5).await.unwrap();
    let since = (fixture.now(), 5);
    store.recent_outcomes(org, row.id, since).await.unwrap();
    let audit = fixture.audit_of(org, "schedule.delete", "x");
    store.delete_schedule(org, row.id, audit).await.unwrap();
}

async fn list_deliveries(fixture: &Fixture, org: OrgId) {
    let retrying = vec![sortie_api::DeliveryState::Retrying];
    let receiver = Some("a:1".to_owned());
    for (states, receiver) in [(Vec::new(), None), (retrying, receiver)] {
        let filter = crate::outbox::DeliveryFilter {
            states,
            receiver,
            before: None,
            limit: 10,
        };
        fixture.store.deliveries(org, filter).await.unwrap();
    }
}

async fn list_everything(fixture: &Fixture, org: OrgId) {
    fixture.store.run_states(org, 10, 10).await.unwrap();
    let known = vec![fixture.run_id()];
    fixture.store.runs_of_feed(org, known).await.unwrap();
    list_deliveries(fixture, org).await;
    let schedule = Some(super::indexes::scheduled(fixture, org).await);
    let states = [
        (vec![], None),
        (vec![RunStatus::Failed], None),
        (vec![RunStatus::Queued], None),
        (vec![RunStatus::Running], None),
        (vec![RunStatus::Running, RunStatus::Failed], None),
        (vec![], schedule),
        (vec![RunStatus::Failed], schedule),
        (vec![RunStatus::Queued], schedule),
    ];
    let further = RunFilter {
        model: Some("runbook".to_owned()),
        key: Some(super::indexes::key()),
        since: Some(Timestamp::from_micros(0)),
        error: Some("x".to_owned()),
        min_cost: Some(Micros::ZERO),
        text: Some("x".to_owned()),
        ..RunFilter::default()
    };
    let ids = vec![fixture.run_id()];
    let named = RunFilter {
        ids,
        ..further.clone()
    };
    for filter in [RunFilter::default(), further, named] {
        for (statuses, schedule) in &states {
            for (tag, workflow) in [(None, None), (Some("nightly"), None), (None, Some("report"))] {
                let filter = RunFilter {
                    statuses: statuses.clone(),
                    schedule: *schedule,
                    tag: tag.map(str::to_owned),
                    workflow: workflow.map(str::to_owned),
                    limit: 10,
                    ..filter.clone()
                };
                fixture.store.list_runs(org, filter).await.unwrap();
            }
        }
    }
}

/// Number of parameters of a statement, which may not use all of them.
fn parameters(sql: &str) -> usize {
    (1..100)
        .rev()
        .find(|number| sql.contains(&format!("${number}")))
        .unwrap_or(0)
}

/// Runs statements with texts that are made at run time. Returns the rows of the last one.
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
    const SMALL: &[&str] = &[
        "n",
        "node",
        "w",
        "h",
        "found",
        "counted",
        "made",
        "moved",
        "used",
        "users",
        "soon",
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
            // There are few nodes: `n` is each of them, `h` those that hold runs. `w` and `found` are the organizations
            // found so far, `counted`, `soon` and `users` end at their limits, `made` and `used` are rows that a query of usage has
            // found, `moved` those of the payments of an organization. `json_each` and `t` are parameters. Only statements
            // on a list of run ids sort.
            let is_small = SMALL
                .iter()
                .any(|small| step.starts_with(&format!("SCAN {small}")));
            assert!(
                !step.starts_with("SCAN")
                    || is_small
                    || step.ends_with("VALUES CLAUSE")
                    || step.ends_with("CONSTANT ROWS"),
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

/// Reads the columns of each index, in order.
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

/// Whether the condition of an index scan names the columns of the index from the first one on, without a gap. A column
/// after a gap does not narrow the scan. `scanned` is the name of the table in the plan; columns of other tables do not
/// count.
fn enters(condition: &str, columns: &[String], scanned: &str) -> bool {
    let words: Vec<&str> = condition
        .split(|character: char| !character.is_ascii_alphanumeric() && character != '_' && character != '.')
        .filter_map(|word| match word.split_once('.') {
            Some((table, column)) => (table == scanned).then_some(column),
            None => Some(word),
        })
        .collect();
    let mut named = columns.iter().map(|column| words.contains(&column.as_str()));
    named.next() == Some(true) && !named.skip_while(|is_named| *is_named).any(|is_named| is_named)
}

#[tokio::test]
async fn no_statement_walks_or_sorts_a_table_that_grows_on_postgres() {
    let fixture = Fixture::postgres().await;
    use_everything(&fixture).await;
    let statements = fixture.store.db.faults().statements();
    assert!(statements.len() > 40, "{}", statements.len());
    nothing_is_walked_or_sorted(&fixture, &statements, "before").await;
    // An automatic vacuum may analyze these tables while they are nearly empty.
    let busy = "VACUUM (ANALYZE) queue, event";
    fixture.database.execute(busy).await.unwrap();
    nothing_is_walked_or_sorted(&fixture, &statements, "after").await;
}

async fn nothing_is_walked_or_sorted(fixture: &Fixture, statements: &BTreeSet<&'static str>, look: &str) {
    let columns = index_columns(fixture).await;
    let mut wrong = Vec::new();
    for (number, sql) in statements.iter().enumerate() {
        let text = Dialect::Postgres.translate(sql);
        let arguments = vec!["NULL"; parameters(sql)].join(", ");
        let arguments = if arguments.is_empty() {
            arguments
        } else {
            format!("({arguments})")
        };
        let name = format!("plan_{look}_{number}");
        let plan = query(
            fixture,
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
            // There are few nodes, and the first organization is enough.
            let is_small = ["node", "organization"].iter().any(|few| step.ends_with(few));
            let is_walk = step.starts_with("Seq Scan") && !is_small;
            // Every index scan has a condition, except the one that looks for any organization.
            let index = step
                .split_whitespace()
                .skip_while(|word| *word != "using")
                .nth(1)
                .unwrap_or("none");
            let columns = columns.get(index).map_or(&[][..], Vec::as_slice);
            let scanned = step.split_whitespace().last().unwrap_or_default();
            let is_entered = next.starts_with("Index Cond") && enters(next, columns, scanned)
                || step.ends_with(" on organization");
            let is_index = step.starts_with("Index") && !step.starts_with("Index Cond");
            let is_sort = step.starts_with("Sort") && !is_named;
            let is_slow = step.starts_with("Join Filter") || step.starts_with("Materialize");
            if is_walk || is_index && !is_entered || is_sort || is_slow {
                wrong.push(format!("{step}\n{sql}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{look} the look:\n{}", wrong.join("\n\n"));
}
