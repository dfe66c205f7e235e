//! Schedules of which the runs are refused: they can still be stopped, and a refused run replaces no other run.

use crate::kit::random::random;
use futures_util::future::join_all;
use prometheus_client::{encoding::text::encode, registry::Registry};
use sortie_api::{BudgetPeriod, BudgetScope, DeploymentId, ErrorCode, Micros, PutBudget};
use sortie_store::licenses::InstalledLicense;

use super::*;

#[tokio::test]
async fn a_schedule_whose_run_would_be_refused_can_be_paused_renamed_and_switched_off_but_not_on() {
    let rig = Rig::sqlite().await;
    let callback = json!({"url": "https://example.com/hook", "secret": "s"});
    let made = rig.made(json!({"callback": callback})).await;
    let stricter = json!({"type": "object", "required": ["week"]});
    rig.put(
        "w",
        json!({"prompt": "x", "shell": false, "input_schema": stricter}),
    )
    .await;
    let told = "input: required by input_schema";
    let paused = rig
        .patched(made.id, json!({"paused_until": "2026-01-02T00:00:00Z"}))
        .await;
    assert_eq!(paused.paused_until, Some(at("2026-01-02T00:00:00Z")));
    rig.patched(made.id, json!({"name": "n", "workflow": "w", "input": null}))
        .await;
    let refused = rig.patch(made.id, json!({"max_cost_micros": 5})).await;
    assert_eq!(invalid(refused), told);
    let refused = rig.patch(made.id, json!({"callback": callback})).await;
    assert_eq!(invalid(refused), told);
    let off = rig.patched(made.id, json!({"enabled": false})).await;
    assert_eq!((off.enabled, off.next_run_at), (false, None));
    assert_eq!(off.callback.unwrap().url, "https://example.com/hook");
    assert_eq!(invalid(rig.patch(made.id, json!({"enabled": true})).await), told);
    let on = json!({"enabled": true, "input": {"week": 1}});
    assert!(rig.patched(made.id, on).await.enabled);
    // The callback is still the one that was sealed.
    rig.engine().trigger_schedule(&rig.caller, made.id).await.unwrap();
}

/// Changes the key id of the sealed callback secrets, so that they look as if sealed with a master key that the node lacks.
fn seal_with_a_key_that_is_gone(rig: &Rig) {
    let file = rig.database.url().strip_prefix("sqlite:").unwrap();
    let database = rusqlite::Connection::open(file).unwrap();
    let sealed = database.query_row("SELECT callback_secret FROM schedule", (), |row| row.get(0));
    let mut sealed: Vec<u8> = sealed.unwrap();
    // The id of the key follows the version.
    sealed[1] ^= 1;
    let changed = database.execute("UPDATE schedule SET callback_secret = ?1", (sealed,));
    assert_eq!(changed.unwrap(), 1);
}

/// A node without the master key cannot read the callback: the occurrence stays due, but the schedule can be stopped.
#[tokio::test]
async fn a_schedule_is_stopped_also_while_what_is_due_of_it_cannot_be_dealt_with() {
    let rig = Rig::sqlite().await;
    let callback = json!({"url": "https://example.com/hook", "secret": "s"});
    let id = rig.made(json!({"callback": callback})).await.id;
    seal_with_a_key_that_is_gone(&rig);
    rig.clock.set(at("2026-01-01T00:10:05Z"));
    let refused = rig.patch(id, json!({"name": "other"})).await;
    assert!(
        matches!(&refused, Err(refused) if refused.code == ErrorCode::Unavailable),
        "{refused:?}"
    );
    let until = json!({"paused_until": "2026-01-02T00:00:00Z"});
    rig.patched(id, until).await;
    assert_eq!(rig.told(id).await, [""; 0]);
    let off = rig.patched(id, json!({"enabled": false})).await;
    assert_eq!((off.enabled, off.next_run_at), (false, None));
}

#[tokio::test]
async fn an_instant_that_waited_starts_nothing_after_too_many_failures() {
    let rig = Rig::sqlite().await;
    let id = rig
        .made(json!({"overlap": "queue_one", "max_consecutive_failures": 1}))
        .await
        .id;
    rig.go("2026-01-01T00:10:00Z").await;
    rig.go("2026-01-01T00:20:00Z").await;
    assert_eq!(rig.told(id).await, ["00:10 started", "00:20 waiting"]);
    rig.end_last(id, RunStatus::Failed).await;
    rig.go("2026-01-01T00:21:00Z").await;
    assert_eq!(rig.told(id).await, ["00:10 started", "00:20 failures"]);
    let off = rig.get(id).await;
    assert_eq!((off.enabled, off.next_run_at), (false, None));
}

#[tokio::test]
async fn cancel_other_leaves_the_run_alone_whose_budget_has_no_room_for_another() {
    let rig = Rig::sqlite().await;
    let id = rig
        .made(json!({"overlap": "cancel_other", "max_cost_micros": 60}))
        .await
        .id;
    let limit = async |limit| {
        let put = PutBudget {
            limit_micros: Micros::new(limit).unwrap(),
            period: BudgetPeriod::Day,
        };
        rig.engine()
            .put_budget(&rig.caller, BudgetScope::Schedule(id), put)
            .await
            .unwrap();
    };
    limit(100).await;
    rig.go("2026-01-01T00:10:00Z").await;
    let first = rig.get(id).await.last_run_id.unwrap();
    rig.go("2026-01-01T00:20:00Z").await;
    assert_eq!(rig.told(id).await, ["00:10 started", "00:20 budget"]);
    assert_eq!(rig.run(first).await.status, RunStatus::Queued);
    limit(120).await;
    rig.go("2026-01-01T00:30:00Z").await;
    assert_eq!(rig.told(id).await[2], "00:30 started");
    assert_eq!(rig.run(first).await.status, RunStatus::Cancelled);
}

#[tokio::test]
async fn what_a_budget_refuses_at_one_instant_is_counted_once_by_all_nodes_together() {
    let rig = Rig::on(TestDatabase::sqlite().unwrap(), 3).await;
    let id = rig.made(json!({"max_cost_micros": 60})).await.id;
    let put = PutBudget {
        limit_micros: Micros::new(50).unwrap(),
        period: BudgetPeriod::Day,
    };
    rig.engine()
        .put_budget(&rig.caller, BudgetScope::Schedule(id), put)
        .await
        .unwrap();
    let now = at("2026-01-01T00:10:00Z");
    rig.clock.set(now);
    for fired in join_all(rig.engines.iter().map(|engine| engine.fire_due(now))).await {
        fired.unwrap();
    }
    assert_eq!(rig.told(id).await, ["00:10 budget"]);
    let counted = rig.engines.iter().map(|engine| {
        let (mut registry, mut text) = (Registry::default(), String::new());
        engine.register_metrics(&mut registry);
        encode(&mut text, &registry).unwrap();
        let mut counts = text
            .lines()
            .filter_map(|line| line.strip_prefix("budget_refusals_total "));
        counts.next().unwrap().parse::<u64>().unwrap()
    });
    assert_eq!(counted.sum::<u64>(), 1);
}

#[tokio::test]
async fn the_schedules_of_a_suspended_organization_skip_and_say_so() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({"overlap": "cancel_other"})).await.id;
    rig.go("2026-01-01T00:10:00Z").await;
    let first = rig.get(id).await.last_run_id.unwrap();
    let (store, org) = (rig.engine().store(), rig.caller.org);
    let audit = || {
        rig.caller
            .audit((rig.clock.now(), random().unwrap()), "organization.suspend", org)
    };
    let suspended = store.suspend_organization(org, None, rig.clock.now(), audit());
    suspended.await.unwrap();
    rig.go("2026-01-01T00:20:00Z").await;
    assert_eq!(rig.told(id).await, ["00:10 started", "00:20 suspended"]);
    assert_eq!(
        rig.get(id).await.last_error.as_deref(),
        Some("the organization is suspended")
    );
    assert_eq!(
        rig.run(first).await.status,
        RunStatus::Queued,
        "nothing takes its place"
    );
    store.resume_organization(org, audit()).await.unwrap();
    rig.go("2026-01-01T00:30:00Z").await;
    assert_eq!(rig.told(id).await[2], "00:30 started");
}

#[tokio::test]
async fn an_occurrence_beyond_the_allowance_of_the_license_is_skipped() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({"overlap": "allow"})).await.id;
    let now = at("2026-01-01T00:00:00Z");
    let license = InstalledLicense {
        serial: "1".to_owned(),
        deployment: DeploymentId::new(now, [1; 10]),
        organization: rig.caller.org,
        name: "north".to_owned(),
        monthly_runs: 1,
        expires_at: at("2026-02-01T00:00:00Z"),
        installed_at: now,
    };
    let audit = rig
        .caller
        .audit((rig.clock.now(), random().unwrap()), "license.put", "x");
    rig.engine().store().put_license(license, audit).await.unwrap();
    rig.engine().0.stores.licensing.reread().await.unwrap();
    rig.go("2026-01-01T00:10:00Z").await;
    rig.go("2026-01-01T00:20:00Z").await;
    assert_eq!(rig.told(id).await, ["00:10 started", "00:20 license"]);
    let error = rig.get(id).await.last_error.unwrap();
    assert!(
        error.starts_with("license: all 1 runs of this month are used"),
        "{error}"
    );
    let triggered = rig.engine().trigger_schedule(&rig.caller, id).await;
    assert_eq!(triggered.err(), Some(ErrorCode::PaymentRequired.because(error)));
    rig.go("2026-02-20T00:10:00Z").await;
    let told = rig.told(id).await;
    assert_eq!(
        told.last().unwrap().split(' ').next_back(),
        Some("license"),
        "the grace has ended"
    );
}
