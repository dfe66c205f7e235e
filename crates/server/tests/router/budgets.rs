//! Budgets over HTTP: set, read, delete, and the refusal of a run that exceeds one.

use sortie_api::Budget;

use crate::prelude::*;

fn put(client: &Client, scope: &str, body: &Value) -> Pending {
    client.put(&format!("/v1/budgets/{scope}"), body)
}

async fn get(client: &Client, scope: &str) -> Budget {
    client.get(&format!("/v1/budgets/{scope}")).must_read(200).await
}

#[tokio::test]
async fn a_budget_is_set_changed_read_and_deleted_under_its_scope_in_either_spelling() {
    let rig = Rig::start().await;
    let day = |limit: i64| json!({"limit_micros": limit, "period": "day"});
    let made: Budget = put(&rig.admin, "workflow%3Areport", &day(5)).must_read(201).await;
    assert_eq!(made.scope.to_string(), "workflow:report");
    assert_eq!((made.limit_micros.get(), made.available_micros.get()), (5, 5));
    put(&rig.admin, "workflow:report", &day(7)).must(200).await;
    for spelling in ["workflow:report", "workflow%3Areport", "workflow%3areport"] {
        let budget = get(&rig.member, spelling).await;
        assert_eq!(
            (budget.limit_micros.get(), budget.created_at),
            (7, made.created_at)
        );
    }
    let month = json!({"limit_micros": 0, "period": "month"});
    put(&rig.admin, "organization", &month).must(201).await;
    let listed: Vec<Budget> = rig.member.get("/v1/budgets").await.unwrap().read().unwrap();
    let scopes: Vec<String> = listed.iter().map(|budget| budget.scope.to_string()).collect();
    assert_eq!(scopes, ["organization", "workflow:report"]);
    let delete = async || rig.admin.delete("/v1/budgets/workflow%3Areport").await.unwrap();
    delete().await.expect(204).unwrap();
    delete().await.refused("not_found").unwrap();
    rig.admin
        .get("/v1/budgets/workflow:report")
        .must_refuse("not_found")
        .await;
}

#[tokio::test]
async fn what_breaks_a_rule_is_refused_with_the_field_and_changes_nothing() {
    let rig = Rig::start().await;
    let fine = json!({"limit_micros": 5, "period": "day"});
    for scope in [
        "org",
        "workflow:",
        "workflow:Report",
        "key:sched_1",
        "organization:x",
        "run:1",
    ] {
        let refused = put(&rig.admin, scope, &fine).must_refuse("invalid_request").await;
        assert!(
            refused.error.starts_with("scope: must be organization, "),
            "{}",
            refused.error
        );
        rig.admin
            .get(&format!("/v1/budgets/{scope}"))
            .must_refuse("not_found")
            .await;
    }
    for (body, field) in rows! {
        json!({"limit_micros": -1, "period": "day"}), "limit_micros";
        json!({"limit_micros": 1_000_000_000_000_001_i64, "period": "day"}), "limit_micros";
        json!({"limit_micros": 1.5, "period": "day"}), "limit_micros";
        json!({"limit_micros": 1, "period": "week"}), "period";
        json!({"limit_micros": 1}), "period";
        json!({"period": "day"}), "limit_micros";
        json!({"limit_micros": 1, "period": "day", "scope": "organization"}), "scope";
    } {
        let refused = put(&rig.admin, "organization", &body)
            .must_refuse("invalid_request")
            .await;
        assert!(refused.error.contains(field), "{body}: {}", refused.error);
    }
    for limit in [-1, 1_000_000_000_000_001_i64] {
        let refused = put(
            &rig.admin,
            "organization",
            &json!({"limit_micros": limit, "period": "day"}),
        )
        .await
        .unwrap();
        assert_eq!(
            refused.refused("invalid_request").unwrap().error,
            "limit_micros: must be from 0 to 1000000000000000"
        );
    }
    let listed: Vec<Budget> = rig.member.get("/v1/budgets").await.unwrap().read().unwrap();
    assert_eq!(listed, []);
    let most = json!({"limit_micros": 1_000_000_000_000_000_i64, "period": "month"});
    put(&rig.admin, "organization", &most).must(201).await;
}

#[tokio::test]
async fn a_run_that_does_not_fit_is_402_and_a_used_idempotency_key_still_answers_its_run() {
    let rig = Rig::start().await;
    let limit = json!({"limit_micros": 1_500_000, "period": "day"});
    put(&rig.admin, "organization", &limit).must(201).await;
    let keyed = rig.member.with_header("idempotency-key", "once");
    let first: Value = keyed.post("/v1/runs", &waiting()).must_json(202).await;
    let refused = rig
        .member
        .post("/v1/runs", &plain("x"))
        .must_refuse("payment_required")
        .await;
    let said = "budget organization: max_cost_micros is 1000000, and 500000 are left until ";
    assert!(refused.error.starts_with(said), "{}", refused.error);
    let again = keyed.post("/v1/runs", &plain("x")).await.unwrap();
    assert_eq!(again.expect(200).unwrap().json().unwrap()["id"], first["id"]);
    assert_eq!(rig.member.list("").await.unwrap().len(), 1);
    let budget = get(&rig.member, "organization").await;
    assert_eq!(
        (budget.held_micros.get(), budget.available_micros.get()),
        (1_000_000, 500_000)
    );
    let small = json!({"prompt": "x", "shell": false, "max_cost_micros": 500_000});
    let (_, run) = rig.member.complete(&small).await.unwrap();
    assert_eq!(run.cost_micros.get(), 0);
    assert_eq!(
        get(&rig.member, "organization").await.held_micros.get(),
        1_000_000
    );
    // Another organization has separate budgets.
    rig.stranger.create(&plain("x")).await.unwrap();
}

#[tokio::test]
async fn a_budget_of_a_key_is_about_the_runs_of_that_key() {
    let rig = Rig::start().await;
    let made = rig
        .admin
        .post("/v1/admin/keys", &json!({"name": "ci"}))
        .must_json(201)
        .await;
    let scope = format!("key:{}", made["id"].as_str().unwrap());
    let limit = json!({"limit_micros": 999_999, "period": "month"});
    put(&rig.admin, &scope, &limit).must(201).await;
    let ci = rig.admin.with_key(made["key"].as_str().unwrap());
    let refused = ci
        .post("/v1/runs", &plain("x"))
        .must_refuse("payment_required")
        .await;
    assert!(
        refused.error.starts_with(&format!("budget {scope}: ")),
        "{}",
        refused.error
    );
    rig.member.create(&plain("x")).await.unwrap();
}
