//! Every command that writes is one transaction: whichever of its statements fails, or its commit, nothing of it is
//! seen afterwards, and another try does the whole.

use sortie_api::{ConnectionStatus, Micros, OrgId, Role};

use super::{
    both,
    fixture::{Fixture, entries, sweep},
};
use crate::{
    Append, Batch, Error, Expiry, InlineCredentials, NewNode, NodeId, OauthFlow, OldTokens, Result,
    SeenTokens, Sweep, db::vals,
};

/// Everything that is stored, as text.
async fn everything(fixture: &Fixture) -> Vec<String> {
    const TABLES: [&str; 20] = [
        "SELECT id, name FROM organization ORDER BY id",
        "SELECT id, org_id, role FROM api_key ORDER BY id",
        "SELECT id, name, lease_until, ended_at FROM node ORDER BY id",
        "SELECT id, status, outcome, attempt, last_event, started_at, finished_at, cost_micros, billing_pending, \
         error, resumes FROM run ORDER BY id",
        "SELECT run_id, definition, requires_credentials FROM run_definition ORDER BY run_id",
        "SELECT run_id, credentials FROM run_secret ORDER BY run_id",
        "SELECT run_id, artifacts FROM run_artifacts ORDER BY run_id",
        "SELECT run_id, blob_id FROM artifact_blob ORDER BY run_id, blob_id",
        "SELECT run_id, tag, created_at FROM run_tag ORDER BY run_id, tag",
        "SELECT id, name, definition, credentials, tokens, tokens_version, refresh_until, status, error, revision \
         FROM connection ORDER BY id",
        "SELECT state_hash, connection_id, revision, pending, expires_at FROM oauth_flow ORDER BY state_hash",
        "SELECT id, sealed FROM seal_check",
        "SELECT run_id, output FROM run_output ORDER BY run_id",
        "SELECT run_id, seq, kind, data, created_at FROM event ORDER BY run_id, seq",
        "SELECT run_id, seq, data FROM journal ORDER BY run_id, seq",
        "SELECT run_id, org_id, enqueued_at, node_id FROM queue ORDER BY run_id",
        "SELECT turn, last_org FROM dispatch",
        "SELECT id, org_id, sha256, check_at, doomed_at FROM blob ORDER BY id",
        "SELECT id, org_id, name, blob_id, size, sha256, content_type FROM file ORDER BY id",
        "SELECT org_id, at, id, action, target FROM audit ORDER BY org_id, at, id",
    ];
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

/// Makes each statement of `command` fail in turn, then its commit, then runs it undisturbed.
async fn proves_atomic<T>(fixture: &Fixture, command: impl AsyncFn() -> Result<T>) -> T {
    let before = everything(fixture).await;
    let faults = fixture.store.db.faults();
    let mut statements = 0;
    loop {
        faults.fail_statement(statements + 1);
        let outcome = command().await;
        if faults.disarm() {
            // All its statements have passed.
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

both! {
    async fn bootstrap_is_one_transaction(fixture: &Fixture) {
        let org = OrgId::new(fixture.now(), [1; 10]);
        let key = fixture.new_key(org, Role::Admin);
        proves_atomic(fixture, async || fixture.store.bootstrap("home", key.clone()).await).await;
    }

    async fn create_key_and_delete_key_are_one_transaction_each(fixture: &Fixture) {
        let org = fixture.org().await;
        fixture.store.create_key(fixture.new_key(org, Role::Admin)).await.unwrap();
        let key = fixture.new_key(org, Role::Admin);
        proves_atomic(fixture, async || fixture.store.create_key(key.clone()).await).await;
        proves_atomic(fixture, async || fixture.store.delete_key(org, key.id).await).await;
    }

    async fn create_run_is_one_transaction(fixture: &Fixture) {
        let mut run = fixture.new_run(fixture.org().await);
        run.idempotency_key = Some("once".to_owned());
        proves_atomic(fixture, async || fixture.store.create_run(run.clone()).await).await;
    }

    async fn create_run_with_credentials_of_its_own_is_one_transaction(fixture: &Fixture) {
        let mut run = fixture.new_run(fixture.org().await);
        run.inline = Some(InlineCredentials { sealed: b"x".to_vec(), names: "[]".to_owned() });
        proves_atomic(fixture, async || fixture.store.create_run(run.clone()).await).await;
        proves_atomic(fixture, async || fixture.store.cancel_run(run.org, run.id, fixture.now()).await).await;
        proves_atomic(fixture, async || fixture.store.seal_check(b"x".to_vec()).await).await;
    }

    async fn the_commands_of_connections_are_one_transaction_each(fixture: &Fixture) {
        let (org, store) = (fixture.org().await, &fixture.store);
        let new = fixture.new_connection(org, "a");
        proves_atomic(fixture, async || store.create_connection(new.clone(), 5).await).await;
        let old = Fixture::flow(&new, 1);
        store.begin_authorization(old.clone(), new.at).await.unwrap();
        let flow = Fixture::flow(&new, 2);
        let later = old.expires_at + std::time::Duration::from_secs(1);
        proves_atomic(fixture, async || store.begin_authorization(flow.clone(), later).await).await;
        proves_atomic(fixture, async || store.take_authorization([2; 32], later).await).await;
        proves_atomic(fixture, async || {
            store.record_failed_authorization(org, (new.id, 1), "x".to_owned()).await
        })
        .await;
        proves_atomic(fixture, async || store.save_authorization(org, (new.id, 1), b"x".to_vec()).await).await;
        let seen = SeenTokens { org, connection: new.id, version: 1 };
        proves_atomic(fixture, async || store.lease_refresh(seen, later, later).await).await;
        proves_atomic(fixture, async || store.save_refreshed(seen, b"y".to_vec()).await).await;
        let seen = SeenTokens { version: 2, ..seen };
        proves_atomic(fixture, async || store.drop_refused(seen, "x".to_owned()).await).await;
        proves_atomic(fixture, async || {
            store.set_connection_status(org, (new.id, 1), ConnectionStatus::Error, None).await
        })
        .await;
        proves_atomic(fixture, async || store.replace_connection(new.clone(), 1, OldTokens::Drop).await).await;
        store.begin_authorization(OauthFlow { revision: 2, ..old.clone() }, new.at).await.unwrap();
        proves_atomic(fixture, async || store.delete_connection(org, "a").await).await;
    }

    async fn claim_runs_is_one_transaction(fixture: &Fixture) {
        let (org, node) = org_with_run(fixture).await;
        fixture.queued(fixture.org().await).await;
        fixture.queued(org).await;
        let at = fixture.now();
        let claims = proves_atomic(fixture, async || {
            fixture.store.claim_runs(node, 5, Some(5), at).await
        })
        .await;
        assert_eq!(claims.len(), 3);
        assert!(claims.iter().all(|claim| claim.fence.attempt == 1));
    }

    async fn claim_named_is_one_transaction(fixture: &Fixture) {
        let (org, node) = org_with_run(fixture).await;
        let named = fixture.queued(org).await;
        let at = fixture.now();
        let claims = proves_atomic(fixture, async || {
            fixture.store.claim_named(node, vec![named], at).await
        })
        .await;
        assert_eq!(claims.len(), 1);
    }

    async fn the_writes_of_a_worker_are_one_transaction_each(fixture: &Fixture) {
        let (org, node) = org_with_run(fixture).await;
        let fence = fixture.claim_one(node).await.fence;
        let events = || vec![fixture.message("a"), fixture.message("b")];
        proves_atomic(fixture, async || fixture.store.start_run(fence, events()).await).await;
        let fence = super::fixture::after(fence, 2);
        let cost = Micros::new(5).unwrap();
        proves_atomic(fixture, async || {
            let journal = entries(0, &["a", "b", "c", "d", "e"]);
            fixture.store.append(fence, Append { events: events(), journal, cost }).await
        })
        .await;
        let fence = super::fixture::after(fence, 2);
        let finish = fixture.succeeded("out");
        let run = proves_atomic(fixture, async || fixture.store.finish_run(fence, finish.clone()).await).await;
        assert_eq!(run, fixture.get(org, fence.run).await);
    }

    async fn cancel_run_is_one_transaction(fixture: &Fixture) {
        let (org, node) = org_with_run(fixture).await;
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        let at = fixture.now();
        proves_atomic(fixture, async || fixture.store.cancel_run(org, fence.run, at).await).await;
        let cost = Micros::new(5).unwrap();
        proves_atomic(fixture, async || fixture.store.settle_run(fence.run, fence.attempt, cost).await).await;
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
        let swept = proves_atomic(fixture, async || {
            fixture.store.retake_held(node, runs.to_vec(), at, Micros::ZERO).await
        })
        .await;
        assert_eq!((swept.ended, swept.taken.len()), (vec![(org, tired.run)], 1));
    }

    async fn the_commands_of_nodes_are_one_transaction_each(fixture: &Fixture) {
        let (org, node) = org_with_run(fixture).await;
        fixture.claim_one(node).await;
        let at = fixture.now();
        let later = at + std::time::Duration::from_hours(5);
        proves_atomic(fixture, async || fixture.store.heartbeat(node, later).await).await;
        let new = NewNode { id: NodeId(fixture.number()), name: "x".to_owned(), started_at: at, lease_until: at };
        proves_atomic(fixture, async || fixture.store.register_node(new.clone()).await).await;
        proves_atomic(fixture, async || fixture.store.deregister_node(new.id, at).await).await;
        let tired = fixture.tired(org, node).await.run;
        proves_atomic(fixture, async || fixture.store.deregister_node(node, at).await).await;
        let taker = fixture.node().await;
        let sweep = Sweep { node: taker, places: 5, ..sweep(at, 10) };
        let swept = proves_atomic(fixture, async || fixture.store.sweep(sweep).await).await;
        assert_eq!((swept.ended, swept.taken.len()), (vec![(org, tired)], 1));
    }

    async fn delete_expired_runs_is_one_transaction(fixture: &Fixture) {
        let (org, node) = (fixture.org().await, fixture.node().await);
        let mut run = fixture.new_run(org);
        run.labels.tags = vec!["red".to_owned()];
        fixture.store.create_run(run).await.unwrap();
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        let finish = fixture.with_artifacts(org, &[("a", 1)]).await;
        proves_atomic(fixture, async || fixture.store.finish_run(fence, finish.clone()).await).await;
        let now = fixture.now();
        let expiry = Expiry { org, finished_before: now, created_before: now, check_at: now };
        let batch = Batch { runs: 10, events: 10 };
        proves_atomic(fixture, async || fixture.store.delete_expired_runs(expiry, batch).await).await;
    }

    async fn the_commands_of_files_are_one_transaction_each(fixture: &Fixture) {
        let org = fixture.org().await;
        let store = &fixture.store;
        let (audit, at) = (fixture.audit(org, "file.x"), fixture.now());
        let blob = fixture.new_blob(org, 1);
        proves_atomic(fixture, async || store.reserve_blob(blob).await).await;
        let new = fixture.new_file(org, "a", 1).await;
        proves_atomic(fixture, async || store.create_file(new.clone(), audit.clone()).await).await;
        let audit = fixture.audit(org, "file.x");
        proves_atomic(fixture, async || store.rename_file(org, new.id, "b", audit.clone()).await).await;
        let audit = fixture.audit(org, "file.x");
        proves_atomic(fixture, async || store.delete_file(org, new.id, at, audit.clone()).await).await;
        proves_atomic(fixture, async || store.doom_blobs(at, 10).await).await;
        proves_atomic(fixture, async || store.forget_blobs(&[new.blob]).await).await;
    }

    async fn a_failed_group_fails_everyone_in_it_and_nobody_after(fixture: &Fixture) {
        let org = fixture.org().await;
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
}
