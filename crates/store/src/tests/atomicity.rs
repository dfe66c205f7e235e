//! Atomicity: every command that writes is one transaction. When one of its statements or its commit fails, the database is
//! unchanged, and another try of the command does everything.

use sortie_api::ConnectionStatus;

use super::{commits::Again, deliveries::made, prelude::*, usage::leaving};
use crate::{Result, connections::OauthFlow, nodes::NewNode};

/// Queries of every table, without times of the clock.
const TABLES: &[&str] = &[
    "SELECT id, name, usage_until, suspended_at, suspended_why, deleted_at, erased_at FROM organization ORDER BY id",
    "SELECT id, org_id, role, hash, expires_at, previous_hash, previous_until, last_used_at FROM api_key ORDER BY id",
    "SELECT org_id, day, workflow, runs, cost_micros FROM usage_day ORDER BY org_id, day, workflow",
    "SELECT org_id, month, workflow, runs, cost_micros FROM usage_month ORDER BY org_id, month, workflow",
    "SELECT run_id, org_id, created_at FROM late_run ORDER BY run_id",
    "SELECT id, name, lease_until, ended_at, address, draining_since, master_keys FROM node ORDER BY id",
    "SELECT id, status, outcome, attempt, last_event, started_at, finished_at, cost_micros, billing_pending, \
         clock_started_at, clock_cancelled_at, error, resumes, surcharge_micros, output_expires_at, output_read_at, reserved_micros, \
         holds FROM run ORDER BY id",
    "SELECT run_id, node_id FROM unretained ORDER BY run_id",
    "SELECT run_id, definition, requires_credentials FROM run_definition ORDER BY run_id",
    "SELECT run_id, credentials FROM run_secret ORDER BY run_id",
    "SELECT run_id, artifacts FROM run_artifacts ORDER BY run_id",
    "SELECT run_id, blob_id FROM artifact_blob ORDER BY run_id, blob_id",
    "SELECT run_id, label, created_at FROM run_label ORDER BY run_id, label",
    "SELECT id, name, definition, credentials, tokens, tokens_version, refresh_until, refresh_holder, status, error, revision, issuer, challenge \
         FROM connection ORDER BY id",
    "SELECT state_hash, connection_id, revision, pending, expires_at, tries FROM oauth_flow ORDER BY state_hash",
    "SELECT id, sealed FROM seal_check",
    "SELECT id, seed, retention_at FROM installation",
    "SELECT run_id, output FROM run_output ORDER BY run_id",
    "SELECT run_id, seq, kind, data, created_at FROM event ORDER BY run_id, seq",
    "SELECT run_id, seq, data FROM journal ORDER BY run_id, seq",
    "SELECT run_id, org_id, enqueued_at, node_id, stopping FROM queue ORDER BY run_id",
    "SELECT turn, last_org FROM dispatch",
    "SELECT org_id, name, revision, updated_at, summary, definition FROM workflow ORDER BY org_id, name",
    "SELECT org_id, scope, limit_micros, period, since, updated_at FROM budget ORDER BY org_id, scope",
    "SELECT org_id, scope, since, starts_at, held_micros, spent_micros FROM budget_window \
         ORDER BY org_id, scope, since, starts_at",
    "SELECT org_id, balance_micros, reserved_micros, suspended, topup_below_micros FROM credit ORDER BY org_id",
    "SELECT org_id, threshold_cents, failures, paused_until FROM auto_topup ORDER BY org_id",
    "SELECT id, org_id, at, consent_text FROM auto_topup_consent ORDER BY id",
    "SELECT cause, org_id, at, kind, amount_micros, run_id, description FROM ledger ORDER BY cause",
    "SELECT org_id, at, cause, balance_micros FROM ledger_sum ORDER BY org_id",
    "SELECT org_id, payment_id, bought_micros, taken_micros FROM ledger_payment_sum ORDER BY org_id, payment_id",
    "SELECT org_id, customer, payment_method, source, asked_at, seen_at, close_at FROM billing_account ORDER BY org_id",
    "SELECT id, org_id, kind, state, session_id, intent_id, check_at, checks, error FROM topup ORDER BY id",
    "SELECT id, topup_id, intent_id, refunded_cents, disputed_cents, compare_at FROM payment ORDER BY id",
    "SELECT id, payment_id, amount_cents, state FROM refund ORDER BY id",
    "SELECT id, payment_id, reference, amount_cents, state, refund_id, due_at, tries FROM refund_order ORDER BY id",
    "SELECT id, payment_id, amount_cents, state FROM dispute ORDER BY id",
    "SELECT id, kind, object_id, due_at, tries, outcome FROM stripe_event ORDER BY id",
    "SELECT due_at, until_at FROM stripe_search",
    "SELECT month, used FROM allowance ORDER BY month",
    "SELECT id, serial, deployment_id, organization, name, monthly_runs, expires_at, installed_at FROM license",
    "SELECT org_id, source, monthly_runs, deployments, state, period_end FROM entitlement ORDER BY org_id",
    "SELECT org_id, id, plan, deployments, state, period_end, renews, revision FROM subscription ORDER BY org_id",
    "SELECT id, org_id, machine_id, serial, monthly_runs, expires_at, ended_at FROM deployment ORDER BY id",
    "SELECT org_id, at, id, action, target, actor_id FROM audit ORDER BY org_id, at, id",
    "SELECT run_id, org_id, host, target, attempts, failures, due_at, give_up_at, claim, node FROM delivery \
         ORDER BY run_id",
    "SELECT run_id, attempt, at, status, error, duration_ms, next_at FROM delivery_attempt \
         ORDER BY run_id, attempt",
    "SELECT id, org_id, sha256, check_at, doomed_at, counted FROM blob ORDER BY id",
    "SELECT org_id, bytes FROM organization_storage ORDER BY org_id",
    "SELECT id, org_id, name, blob_id, size, sha256, content_type FROM file ORDER BY id",
    "SELECT id, name, callback_secret, enabled, next_instant, due_at, handled_instant, waiting_instant, last_run_id, revision, \
         updated_at FROM schedule ORDER BY id",
    "SELECT run_id, org_id FROM replaced_run ORDER BY run_id",
    "SELECT id, email, name, password, email_verified_at, totp, totp_since, totp_step, deleted_at, disabled_at FROM person ORDER BY id",
    "SELECT user_id, sha256 FROM avatar ORDER BY user_id",
    "SELECT id, hash, user_id, seen_at FROM session ORDER BY id",
    "SELECT id, hash, key_id, key_hash, seen_at, expires_at FROM console_session ORDER BY id",
    "SELECT hash, key_id, key_hash, expires_at FROM console_code ORDER BY hash",
    "SELECT hash, purpose, user_id, expires_at FROM one_time ORDER BY hash",
    "SELECT window_start, subject, count FROM attempt ORDER BY window_start, subject",
    "SELECT org_id, user_id, role FROM membership ORDER BY org_id, user_id",
    "SELECT id, org_id, email, role, hash, expires_at FROM invitation ORDER BY id",
    "SELECT hash FROM operator_key ORDER BY hash",
    "SELECT id, content, dedupe, due_at, attempts FROM mail ORDER BY id",
    "SELECT id, kind, metadata, secret_hash, expires_at FROM oauth_client ORDER BY id",
    "SELECT id, org_id, user_id, client_id, scope, used_at, expires_at FROM oauth_grant ORDER BY id",
    "SELECT hash, grant_id, redirect_uri, challenge, expires_at, used_at FROM oauth_code ORDER BY hash",
    "SELECT hash, grant_id, kind, expires_at, used_at FROM oauth_token ORDER BY hash",
    "SELECT minute, subject, granted, block FROM rate_lease ORDER BY minute, subject",
    "SELECT schedule_id, instant, occasion, last_instant, instants, outcome, reason, run_id FROM fire \
         ORDER BY schedule_id, instant, occasion",
];

/// Reads the stored rows of every table, as text.
async fn everything(fixture: &Fixture) -> Vec<String> {
    let read = |tx: &mut dyn crate::db::Tx| -> Result<Vec<String>> {
        let mut rows = Vec::new();
        for table in TABLES {
            for row in tx.query_all(table, vals![])? {
                rows.push(format!("{table}: {row:?}"));
            }
        }
        Ok(rows)
    };
    fixture.store.db.read(read).await.unwrap()
}

/// Proves that `command` is one transaction, then runs it without faults. If the fixture uses a proxy, proves instead that
/// the command takes effect once although its commits are lost or late.
#[expect(clippy::future_not_send, reason = "a test awaits it on one thread")]
pub(super) async fn proves<T>(fixture: &Fixture, command: impl AsyncFn() -> Result<T>) -> T {
    if let Some(behind) = &fixture.behind {
        return behind.prove(fixture, Again::Nothing, command).await;
    }
    proves_atomic(fixture, command).await
}

/// Proves a command like [`proves`]; another call of the command does its next step.
#[expect(clippy::future_not_send, reason = "a test awaits it on one thread")]
pub(super) async fn proves_step<T>(fixture: &Fixture, command: impl AsyncFn() -> Result<T>) -> T {
    if let Some(behind) = &fixture.behind {
        return behind.prove(fixture, Again::Step, command).await;
    }
    proves_atomic(fixture, command).await
}

/// Fails each statement of `command` in turn, and its commit each time, then runs the command without faults.
async fn proves_atomic<T>(fixture: &Fixture, command: impl AsyncFn() -> Result<T>) -> T {
    let before = everything(fixture).await;
    let faults = fixture.store.db.faults();
    let mut statements = 0;
    loop {
        faults.fail_statement(statements + 1);
        let outcome = command().await;
        if faults.disarm() {
            // The command has fewer statements: none failed.
            assert!(statements > 0, "the command has no statement");
            let done = everything(fixture).await;
            assert_ne!(done, before, "the command changes something");
            return outcome.expect("nothing failed");
        }
        let error = outcome.err().expect("a statement failed");
        assert!(error.to_string().contains("injected"), "{error}");
        assert_eq!(everything(fixture).await, before, "statement {}", statements + 1);
        statements += 1;

        faults.fail_commit();
        let error = command().await.err().expect("the commit failed");
        assert!(error.to_string().contains("injected"), "{error}");
        assert!(!faults.disarm());
        assert_eq!(everything(fixture).await, before, "the commit");
    }
}

async fn org_with_run(fixture: &Fixture) -> (OrgId, NodeId) {
    let org = fixture.org().await;
    let node = fixture.node().await;
    fixture.queued(org).await;
    (org, node)
}

commands! {
    async fn bootstrap_is_one_transaction(fixture: &Fixture) {
        let org = OrgId::new(fixture.now(), [1; 10]);
        let key = fixture.new_key(org, Role::Admin);
        proves(fixture, async || fixture.store.bootstrap("home", key.clone(), fixture.audit(org)).await).await;
    }

    async fn create_key_and_delete_key_are_one_transaction_each(fixture: &Fixture, org: OrgId) {
        fixture.store.create_key(fixture.new_key(org, Role::Admin), fixture.audit(org)).await.unwrap();
        let key = fixture.new_key(org, Role::Admin);
        proves(fixture, async || fixture.store.create_key(key.clone(), fixture.audit(key.org)).await).await;
        proves(fixture, async || fixture.store.delete_key(org, key.id, fixture.audit(org)).await).await;
    }

    async fn rotate_key_is_one_transaction(fixture: &Fixture, org: OrgId) {
        let key = fixture.key(org, Role::Member).await;
        let at = fixture.now();
        let rotation = Rotation { id: key.id, hash: [9; 32], at, previous_until: at };
        proves(fixture, async || fixture.store.rotate_key(org, rotation, fixture.audit(org)).await).await;
    }

    async fn count_usage_is_one_transaction(fixture: &Fixture) {
        let (org, node) = org_with_run(fixture).await;
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        fixture.store.finish_run(fence, fixture.succeeded("x")).await.unwrap();
        let later = fixture.now() + std::time::Duration::from_hours(2);
        let due = fixture.store.usage_due(later, None, 10).await.unwrap();
        let due = due.items.into_iter().find(|(of, _)| *of == org).unwrap().1.unwrap();
        assert_eq!(proves(fixture, async || fixture.store.count_usage(due, leaving(0)).await).await, crate::money::CountedPart::Counted(0));
    }

    async fn usage_without_a_late_run_is_counted_in_one_transaction_and_the_run_in_another(fixture: &Fixture) {
        let (org, node) = org_with_run(fixture).await;
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        let later = fixture.now() + std::time::Duration::from_hours(2);
        let due = fixture.store.usage_due(later, None, 10).await.unwrap();
        let due = due.items.into_iter().find(|(of, _)| *of == org).unwrap().1.unwrap();
        assert_eq!(proves(fixture, async || fixture.store.count_usage(due, leaving(1)).await).await, crate::money::CountedPart::Counted(1));
        fixture.store.finish_run(fence, fixture.succeeded("x")).await.unwrap();
        assert!(proves(fixture, async || fixture.store.count_late_run(fence.run).await).await);
    }

    async fn create_run_is_one_transaction(fixture: &Fixture) {
        let mut run = fixture.new_run(fixture.org().await);
        run.idempotency_key = Some("once".to_owned());
        proves(fixture, async || fixture.store.create_run(run.clone()).await).await;
    }

    async fn create_run_with_credentials_of_its_own_is_one_transaction(fixture: &Fixture) {
        let mut run = fixture.new_run(fixture.org().await);
        run.inline = Some(InlineCredentials { sealed: b"x".to_vec(), names: "[]".to_owned() });
        proves(fixture, async || fixture.store.create_run(run.clone()).await).await;
        proves(fixture, async || fixture.store.cancel_run(run.org, run.id, fixture.now()).await).await;
        proves(fixture, async || fixture.store.seal_check(b"x".to_vec()).await).await;
        proves(fixture, async || fixture.store.installation_seed([1; 32]).await).await;
        let pass = fixture.now();
        proves(fixture, async || fixture.store.record_retention(pass).await).await;
    }

    async fn the_commands_of_connections_are_one_transaction_each(fixture: &Fixture, org: OrgId, store: &Store) {
        let new = fixture.new_connection(org, "a");
        proves(fixture, async || store.create_connection(new.clone(), 5, fixture.audit(org)).await).await;
        let old = Fixture::flow(&new, 1);
        store.begin_authorization(old.clone(), new.at, fixture.audit(org)).await.unwrap();
        let flow = Fixture::flow(&new, 2);
        let later = old.expires_at + std::time::Duration::from_secs(1);
        proves(fixture, async || store.begin_authorization(flow.clone(), later, fixture.audit(org)).await).await;
        proves(fixture, async || store.take_authorization([2; 32], later).await).await;
        proves(fixture, async || {
            store.record_failed_authorization(org, (new.id, 1), "x".to_owned(), fixture.audit(org)).await
        })
        .await;
        let back = Fixture::flow(&new, 3);
        proves(fixture, async || store.await_confirmation(back.clone(), "x".to_owned(), fixture.audit(org)).await).await;
        proves_step(fixture, async || store.try_confirmation(org, new.id, new.at).await).await;
        proves(fixture, async || store.refuse_confirmation(org, new.id, fixture.audit(org)).await).await;
        let confirmed = Fixture::confirmed(&new, 3, b"x");
        proves(fixture, async || store.save_authorization(confirmed.clone(), fixture.audit(org)).await).await;
        let seen = SeenTokens { org, connection: new.id, version: 1 };
        let (holder, minute) = (crate::connections::RefreshHolder(1), std::time::Duration::from_mins(1));
        proves(fixture, async || store.lease_refresh(seen, holder, later, minute).await).await;
        proves(fixture, async || store.release_refresh(seen, holder).await).await;
        proves(fixture, async || store.lease_refresh(seen, holder, later, minute).await).await;
        proves(fixture, async || store.save_refreshed(seen, b"y".to_vec()).await).await;
        let seen = SeenTokens { version: 2, ..seen };
        proves(fixture, async || store.drop_refused(seen, "x".to_owned()).await).await;
        let seen = SeenTokens { version: 3, ..seen };
        let status = ConnectionStatus::Error;
        proves(fixture, async || store.set_connection_status(seen, 1, status, None).await).await;
        let why = Some("x".to_owned());
        proves(fixture, async || store.keep_challenge(seen, 1, b"c".to_vec(), why.clone()).await).await;
        proves(fixture, async || store.replace_connection(new.clone(), 1, OldTokens::Drop, fixture.audit(org)).await).await;
        let again = OauthFlow { revision: 2, ..old.clone() };
        store.begin_authorization(again.clone(), new.at, fixture.audit(org)).await.unwrap();
        proves(fixture, async || store.forget_flows(later).await).await;
        store.begin_authorization(again, new.at, fixture.audit(org)).await.unwrap();
        proves(fixture, async || store.delete_connection(org, "a", fixture.audit(org)).await).await;
    }

    async fn the_commands_of_budgets_and_the_ends_of_their_runs_are_one_transaction_each(fixture: &Fixture, org: OrgId, node: NodeId, store: &Store) {
        let (scope, at) = (BudgetScope::Organization, fixture.now());
        let put = PutBudget { limit_micros: Micros::new(10_000_000).unwrap(), period: BudgetPeriod::Day };
        let audit = fixture.audit_at(org, "budget.put", at);
        proves(fixture, async || store.put_budget(scope.clone(), put, 5, audit.clone()).await).await;
        fixture.budget(org, &super::budgets::workflow(), 10_000_000).await;
        let mut runs = Vec::new();
        for _ in 0..4 {
            let run = NewRun { labels: super::budgets::labels(), ..fixture.new_run(org) };
            proves(fixture, async || store.create_run(run.clone()).await).await;
            runs.push(run.id);
        }
        proves(fixture, async || store.cancel_run(org, runs[3], at).await).await;
        let claims = fixture.claim(node, 3).await;
        let fence = fixture.start(claims[0].fence).await.unwrap();
        let finish = fixture.succeeded("out");
        proves(fixture, async || store.finish_run(fence, finish.clone()).await).await;
        store.cancel_run(org, runs[1], at).await.unwrap();
        proves(fixture, async || store.settle_run(runs[1], claims[1].fence.attempt, of_calls(Micros::new(7).unwrap()), Vec::new()).await).await;
        fixture.tire(runs[2]).await;
        proves_step(fixture, async || store.retake_held(node, vec![runs[2]], at, Micros::ZERO).await).await;
        let audit = fixture.audit_at(org, "budget.delete", at);
        proves(fixture, async || store.delete_budget(scope.clone(), audit.clone()).await).await;
        assert_eq!(fixture.count("SELECT CAST(SUM(held_micros) AS BIGINT) FROM budget_window").await, 0);
    }

    async fn the_commands_of_credits_and_the_ends_of_paid_runs_are_one_transaction_each(fixture: &Fixture, org: OrgId, node: NodeId, store: &Store) {
        let (grant, at) = (fixture.grant(org, 10_000), fixture.now());
        let audit = fixture.audit(org);
        proves_step(fixture, async || store.move_credits(grant.clone(), audit.clone()).await).await;
        let mut runs = Vec::new();
        for _ in 0..4 {
            let run = fixture.paid(org, 1_000);
            proves(fixture, async || store.create_run(run.clone()).await).await;
            runs.push(run.id);
        }
        proves(fixture, async || store.cancel_run(org, runs[3], at).await).await;
        let claims = fixture.claim(node, 3).await;
        let fence = fixture.start(claims[0].fence).await.unwrap();
        let finish = fixture.succeeded("out");
        proves(fixture, async || store.finish_run(fence, finish.clone()).await).await;
        store.cancel_run(org, runs[1], at).await.unwrap();
        proves(fixture, async || store.settle_run(runs[1], claims[1].fence.attempt, of_calls(Micros::new(7).unwrap()), Vec::new()).await).await;
        fixture.tire(runs[2]).await;
        proves_step(fixture, async || store.retake_held(node, vec![runs[2]], at, Micros::ZERO).await).await;
        assert_eq!(fixture.credits(org).await, (10_000 - 42 - 7, 0));
        assert_eq!(fixture.differences().await, []);
    }

    async fn the_ends_of_a_run_with_a_callback_are_one_transaction_each(fixture: &Fixture, org: OrgId, node: NodeId) {
        let run = fixture.with_callback(org, "a:1");
        proves(fixture, async || fixture.store.create_run(run.clone()).await).await;
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        let finish = fixture.ends();
        proves(fixture, async || fixture.store.finish_run(fence, finish.clone()).await).await;
        let cancelled = fixture.calling_back(org, node, "a:1").await.run;
        let at = fixture.now();
        proves(fixture, async || fixture.store.cancel_run(org, cancelled, at).await).await;
        let tired = fixture.calling_back(org, node, "a:1").await.run;
        fixture.tire(tired).await;
        let at = fixture.now();
        let swept = proves_step(fixture, async || {
            fixture.store.retake_held(node, vec![tired], at, Micros::ZERO).await
        })
        .await;
        assert_eq!(swept.ended.len(), 1);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM delivery WHERE due_at IS NOT NULL").await, 3);
    }

    async fn the_commands_of_deliveries_are_one_transaction_each(fixture: &Fixture, org: OrgId, node: NodeId) {
        let (run, at) = fixture.due(org, node, "a:1").await;
        fixture.due(org, node, "b:1").await;
        let at = at + std::time::Duration::from_secs(1);
        let orders = ["a:1", "b:1"].map(|host| crate::outbox::Order { host: host.to_owned(), limit: 2, without: Vec::new() });
        let claimed = proves_step(fixture, async || {
            fixture.store.claim_deliveries(("n".to_owned(), node), orders.to_vec(), at, at).await
        })
        .await;
        let claimed = claimed.deliveries.iter().find(|one| one.run == run).unwrap();
        let mut attempt = made(claimed, at, AfterAttempt::RetryAt(at));
        proves(fixture, async || fixture.store.record_attempt(attempt.clone()).await).await;
        attempt.number = sortie_api::limits::CALLBACK_ATTEMPTS + 1;
        proves(fixture, async || fixture.store.record_attempt(attempt.clone()).await).await;
        proves(fixture, async || fixture.store.release_deliveries("n".to_owned(), at).await).await;
        let later = at + std::time::Duration::from_secs(1);
        proves(fixture, async || fixture.store.redeliver(org, run, later).await).await;
    }

    async fn the_commands_of_schedules_are_one_transaction_each(fixture: &Fixture, org: OrgId, store: &Store) {
        fixture.put_workflow(org, "w", "x").await.unwrap();
        let new = fixture.new_schedule(org);
        proves(fixture, async || fixture.create_schedule(new.clone()).await).await;
        let audit = fixture.audit_of(org, "schedule.update", "x");
        proves(fixture, async || store.update_schedule(new.clone(), 1, audit.clone()).await).await;
        let row = store.get_schedule(org, new.id).await.unwrap();
        let mut fires = fixture.start_next(&row);
        let instant = fires.rows[0].instant;
        fires.rows.push(super::schedules::skipped(fixture.now()));
        fires.rows[0].outcome = sortie_api::schedule::FireOutcome::Waiting;
        fires.state.waiting = Some(instant);
        proves(fixture, async || store.record_fires(fires.clone()).await).await;
        let row = store.get_schedule(org, new.id).await.unwrap();
        let mut fires = fixture.start_next(&row);
        fires.rows[0].instant = instant;
        fires.released = Some(instant);
        fires.audit = Some(fixture.audit_of(org, "schedule.pause", "x"));
        fires.replaces = true;
        proves(fixture, async || store.record_fires(fires.clone()).await).await;
        let replaced = store.replaced_runs(None, 5).await.unwrap();
        assert_eq!(replaced.items.len(), 1);
        proves(fixture, async || store.forget_replaced(&[replaced.items[0].run]).await).await;
        let run = fixture.new_run(org);
        proves(fixture, async || store.trigger_schedule(new.id, run.clone()).await).await;
        let audit = fixture.audit_of(org, "schedule.delete", "x");
        proves(fixture, async || store.delete_schedule(org, new.id, audit.clone()).await).await;
    }

    async fn claim_runs_is_one_transaction(fixture: &Fixture) {
        let (org, node) = org_with_run(fixture).await;
        fixture.queued(fixture.org().await).await;
        fixture.queued(org).await;
        let at = fixture.now();
        let claims = proves(fixture, async || fixture.store.claim_runs(node, 5, Some(5), at).await).await;
        assert_eq!(claims.len(), 3);
        assert!(claims.iter().all(|claim| claim.fence.attempt == 1));
    }

    async fn claim_named_is_one_transaction(fixture: &Fixture) {
        let (org, node) = org_with_run(fixture).await;
        let named = fixture.queued(org).await;
        let at = fixture.now();
        let claims = proves(fixture, async || fixture.store.claim_named(node, vec![named], Some(5), at).await).await;
        assert_eq!(claims.len(), 1);
        fixture.store.deregister_node(node, at).await.unwrap();
        let taker = fixture.node().await;
        let again = proves(fixture, async || fixture.store.take_named(taker, named, at).await).await;
        assert_eq!(again.map(|claim| claim.fence.attempt), Some(2));
    }

    async fn the_writes_of_a_worker_are_one_transaction_each(fixture: &Fixture) {
        let (org, node) = org_with_run(fixture).await;
        let fence = fixture.claim_one(node).await.fence;
        let events = || vec![fixture.message("a"), fixture.message("b")];
        proves(fixture, async || fixture.store.start_run(fence, events()).await).await;
        let fence = super::fixture::after(fence, 2);
        let cost = Micros::new(5).unwrap();
        proves(fixture, async || {
            let journal = entries(0, &["a", "b", "c", "d", "e"]);
            fixture.store.append(fence, Append { events: events(), journal, cost, usage: sortie_api::RunUsage::default() }).await
        })
        .await;
        let fence = super::fixture::after(fence, 2);
        let finish = fixture.succeeded("out");
        let run = proves(fixture, async || fixture.store.finish_run(fence, finish.clone()).await).await;
        assert_eq!(run, fixture.get(org, fence.run).await);
    }

    async fn cancel_run_is_one_transaction(fixture: &Fixture) {
        let (org, node) = org_with_run(fixture).await;
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        let at = fixture.now();
        proves(fixture, async || fixture.store.cancel_run(org, fence.run, at).await).await;
        proves(fixture, async || fixture.store.settle_run(fence.run, fence.attempt, of_calls(Micros::new(5).unwrap()), Vec::new()).await).await;
    }

    async fn the_commands_of_workflows_are_one_transaction_each(fixture: &Fixture, org: OrgId) {
        proves(fixture, async || fixture.put_workflow(org, "a", "x").await).await;
        proves(fixture, async || fixture.put_workflow(org, "a", "y").await).await;
        proves(fixture, async || fixture.delete_workflow(org, "a").await).await;
    }

    async fn the_next_attempt_at_held_runs_is_one_transaction(fixture: &Fixture) {
        let (org, node) = org_with_run(fixture).await;
        let cancelled = fixture.start(fixture.claim_one(node).await.fence).await.unwrap().run;
        fixture.store.cancel_run(org, cancelled, fixture.now()).await.unwrap();
        let (tired, goes_on) = (fixture.tired(org, node).await, fixture.running(org, node).await);
        let new = Append { journal: entries(0, &["{}"]), ..Append::default() };
        fixture.store.append(tired, new).await.unwrap();
        let runs = [tired.run, goes_on.run, cancelled];
        let at = fixture.now();
        let swept = proves_step(fixture, async || {
            fixture.store.retake_held(node, runs.to_vec(), at, Micros::ZERO).await
        })
        .await;
        assert_eq!((swept.ended, swept.taken.len()), (vec![(org, tired.run)], 1));
    }

    async fn the_commands_of_nodes_are_one_transaction_each(fixture: &Fixture) {
        let (org, node) = org_with_run(fixture).await;
        fixture.claim_one(node).await;
        let at = fixture.now();
        proves(fixture, async || fixture.store.heartbeat(node, at, std::time::Duration::from_hours(1)).await).await;
        let new = NewNode { id: NodeId(fixture.number()), name: "x".to_owned(), started_at: at, lease_until: at, address: None, version: "1".to_owned(), master_keys: Vec::new(), draining_since: None };
        proves(fixture, async || fixture.store.register_node(new.clone()).await).await;
        proves(fixture, async || fixture.store.drain_node(new.id, at).await).await;
        proves(fixture, async || fixture.store.deregister_node(new.id, at).await).await;
        let tired = fixture.tired(org, node).await.run;
        proves(fixture, async || fixture.store.deregister_node(node, at).await).await;
        let taker = fixture.node().await;
        let sweep = Sweep { places: 5, ..fixture.declaring(taker, at, 10).await };
        let swept = proves_step(fixture, async || fixture.store.sweep(sweep.clone()).await).await;
        assert_eq!((swept.ended, swept.taken.len()), (vec![(org, tired)], 1));
    }

    async fn the_commands_on_runs_without_retention_are_one_transaction_each(fixture: &Fixture, org: OrgId, node: NodeId, store: &Store) {
        let new = fixture.new_unretained(org, node);
        proves(fixture, async || store.create_run(new.clone()).await).await;
        let at = fixture.now();
        let claims = proves(fixture, async || store.claim_named(node, vec![new.id], None, at).await).await;
        let fence = claims[0].fence;
        proves(fixture, async || store.start_unretained(fence, 2).await).await;
        let fence = super::fixture::after(fence, 2);
        let more = Counted { events: 3, cost: Micros::new(10).unwrap(), ..Counted::default() };
        proves(fixture, async || store.append_unretained(fence, more).await).await;
        let fence = super::fixture::after(fence, 3);
        let finish = fixture.unretained_finish();
        let run = proves(fixture, async || store.finish_unretained(fence, finish).await).await;
        assert_eq!(run, fixture.get(org, fence.run).await);
        proves(fixture, async || store.forget_outputs(vec![(new.id, Some(at))]).await).await;
        let cancelled = fixture.run_id();
        store.create_run(NewRun { id: cancelled, ..new.clone() }).await.unwrap();
        store.claim_named(node, vec![cancelled], None, at).await.unwrap();
        store.cancel_run(org, cancelled, at).await.unwrap();
        proves(fixture, async || store.settle_unretained(cancelled, 1, of_calls(Micros::new(5).unwrap()), 2).await).await;
        proves(fixture, async || store.forget_content(vec![new.id, cancelled]).await).await;
        let waits = fixture.new_unretained(org, node);
        store.create_run(waits.clone()).await.unwrap();
        let ended = proves(fixture, async || store.abandon_content(node, at, Micros::ZERO).await).await;
        assert_eq!(ended, [(org, waits.id)]);
        let missing = fixture.new_unretained(org, node);
        store.create_run(missing.clone()).await.unwrap();
        let ended = proves(fixture, async || store.abandon_missing(node, vec![missing.id], at, Micros::ZERO).await).await;
        assert_eq!(ended, [(org, missing.id)]);
        let kept = fixture.new_unretained(org, node);
        store.create_run(kept.clone()).await.unwrap();
        let row = store.list_nodes().await.unwrap().into_iter().find(|row| row.node.id == node).unwrap();
        let node = NodeId(fixture.number());
        let again = NewNode { id: node, ..row.node };
        proves(fixture, async || store.register_again(again.clone(), vec![kept.id]).await).await;
        let stray = fixture.node().await;
        let late = fixture.new_unretained(org, stray);
        store.create_run(late.clone()).await.unwrap();
        proves(fixture, async || store.adopt_contents(node, vec![late.id]).await).await;
        assert_eq!(store.content_of(node).await.unwrap().len(), 2);
        store.deregister_node(node, at).await.unwrap();
        let taker = fixture.node().await;
        let sweep = Sweep { places: 5, ..fixture.declaring(taker, at, 10).await };
        let swept = proves_step(fixture, async || store.sweep(sweep.clone()).await).await;
        assert_eq!((swept.ended.len(), swept.taken.len()), (2, 0));
    }

    async fn delete_expired_fires_is_one_transaction(fixture: &Fixture) {
        let row = fixture.schedule(fixture.org().await).await;
        let fires = fixture.start_next(&row);
        let after = fires.rows[0].instant + std::time::Duration::from_hours(1);
        fixture.store.record_fires(fires).await.unwrap();
        proves(fixture, async || fixture.store.delete_expired_fires(row.id, after, 10).await).await;
    }

    async fn leasing_and_forgetting_rates_are_one_transaction_each(fixture: &Fixture, store: &Store, at: Timestamp) {
        let wanted = vec![super::rates::wants("b", 10, 0), super::rates::wants("a", 5, 0)];
        for _ in 0..2 {
            proves_step(fixture, async || store.lease_rates(wanted.clone(), 1, at).await).await;
        }
        proves(fixture, async || store.forget_rates(super::rates::MINUTE + 1).await).await;
    }

    async fn delete_expired_runs_is_one_transaction(fixture: &Fixture, org: OrgId, node: NodeId) {
        let mut run = fixture.new_run(org);
        run.labels.tags = vec!["red".to_owned()];
        run.labels.metadata = [("color".to_owned(), "red".to_owned())].into();
        fixture.store.create_run(run).await.unwrap();
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        let finish = fixture.with_artifacts(org, &[("a", 1)]).await;
        proves(fixture, async || fixture.store.finish_run(fence, finish.clone()).await).await;
        let now = fixture.now();
        let expiry = Expiry { org, finished_before: now, created_before: now, check_at: now, open_callbacks: OpenCallbacks::Wait };
        let batch = Batch { runs: 10, events: 10 };
        proves(fixture, async || fixture.store.delete_expired_runs(expiry, batch, &mut crate::runs::Undeletable::default()).await).await;
    }

    async fn the_commands_of_files_are_one_transaction_each(fixture: &Fixture, org: OrgId, store: &Store) {
        let (audit, at) = (fixture.audit_of(org, "file.x", "a file"), fixture.now());
        let blob = fixture.new_blob(org, 1);
        proves(fixture, async || store.reserve_blob(blob).await).await;
        let new = fixture.new_file(org, "a", 1).await;
        proves(fixture, async || store.create_file(new.clone(), audit.clone()).await).await;
        let audit = fixture.audit_of(org, "file.x", "a file");
        proves(fixture, async || store.rename_file(org, new.id, "b", audit.clone()).await).await;
        let audit = fixture.audit_of(org, "file.x", "a file");
        proves(fixture, async || store.delete_file(org, new.id, at, audit.clone()).await).await;
        proves(fixture, async || store.mark_unreferenced_blobs(at, None, 10).await).await;
        proves(fixture, async || store.forget_blobs(&[new.blob]).await).await;
    }

    async fn a_failed_group_fails_everyone_in_it_and_nobody_after(fixture: &Fixture, org: OrgId) {
        fixture.store.db.faults().fail_commit();
        let runs = (0..20).map(|_| fixture.store.create_run(fixture.new_run(org)));
        let outcomes = futures_util::future::join_all(runs).await;
        let failed = outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::Unavailable(_)))).count();
        assert!(failed >= 1);
        let stored = usize::try_from(fixture.count("SELECT COUNT(*) FROM run").await).unwrap();
        assert_eq!(stored, outcomes.iter().filter(|outcome| outcome.is_ok()).count());
        assert_eq!(stored + failed, 20);
        fixture.queued(org).await;
    }

    async fn resealing_is_one_transaction_for_each_column(fixture: &Fixture, org: OrgId) {
        fixture.seal_everywhere(org).await;
        let audit = fixture.audit(org);
        for column in crate::installation::SealedColumn::ALL {
            let values: Vec<_> = fixture.sealed(column).await.into_iter().map(|row| crate::installation::Resealed {
                row: row.row,
                new: [&row.sealed, &b" anew"[..]].concat(),
                old: row.sealed,
            }).collect();
            let audit = (column == crate::installation::SealedColumn::SealCheck).then(|| audit.clone());
            let done = proves(fixture, async || fixture.store.reseal(column, values.clone(), audit.clone()).await).await;
            assert_eq!(done, 1);
        }
    }
}
