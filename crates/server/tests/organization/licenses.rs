//! Licenses over HTTP: the operator's grant, deployments, and tokens that a self-hosted engine verifies
//! (`docs/LICENSES.md`).

use futures_util::future::join_all;
use sortie_base::{LicensePublicKey, read_license};

use crate::prelude::*;

crate::settings::everywhere! {
    a_grant_makes_deployments_possible_and_each_token_is_shown_once,
    deployments_that_are_asked_for_at_once_are_as_many_as_granted,
    an_entitlement_ends_and_a_new_one_replaces_it,
    another_organization_has_no_part_in_our_deployments,
    requests_that_break_a_rule_are_refused,
}

fn grant(operator: &Client, rig: &Rig, body: &Value) -> Pending {
    let path = format!("/v1/operator/organizations/{}/license", rig.ours);
    operator.put(&path, body)
}

fn deploy(rig: &Rig, body: &Value) -> Pending {
    let path = rig.path("/deployments");
    rig.admin.post(&path, body)
}

async fn a_grant_makes_deployments_possible_and_each_token_is_shown_once() {
    let rig = Rig::start().await;
    let ours = format!("/v1/organizations/{}", rig.ours);
    let (license, list) = (format!("{ours}/license"), format!("{ours}/deployments"));
    assert_eq!(get(&rig.admin, &license).await, json!({"entitlement": null}));
    let refused = deploy(&rig, &json!({"name": "north"}))
        .must_refuse("payment_required")
        .await;
    assert_eq!(
        refused.error,
        "license: the organization has no active entitlement"
    );

    let operator = operator(&rig).await;
    let granted = grant(&operator, &rig, &json!({"monthly_runs": 500, "deployments": 2}))
        .must_json(200)
        .await;
    let end = AT + Duration::from_hours(24 * 365);
    let expected = json!({"source": "operator", "monthly_runs": 500, "deployments": 2, "deployments_used": 0,
        "state": "active", "period_end": end});
    assert_eq!(granted, expected);
    assert_eq!(get(&rig.admin, &license).await, json!({"entitlement": granted}));

    let made = deploy(&rig, &json!({"name": " north "})).must(201).await;
    assert_eq!(made.header("cache-control").unwrap(), "no-store");
    let made = made.json().unwrap();
    let machine = "0123456789abcdef".repeat(2);
    let second = deploy(&rig, &json!({"name": "south", "machine_id": machine}))
        .must_json(201)
        .await;
    assert_eq!(second["machine_id"], json!(machine));
    let key = get(&operator, "/v1/operator/license-key").await;
    let key: LicensePublicKey = key["public_key"].as_str().unwrap().parse().unwrap();
    for (made, name) in [(&made, "north"), (&second, "south")] {
        let claims = read_license(made["token"].as_str().unwrap(), std::slice::from_ref(&key)).unwrap();
        assert_eq!((claims.name.as_str(), claims.organization), (name, rig.ours));
        assert_eq!(
            (json!(claims.deployment), json!(claims.machine_id)),
            (made["id"].clone(), made["machine_id"].clone())
        );
        assert_eq!(
            (claims.monthly_runs, claims.issued_at, claims.expires_at),
            (500, AT, end)
        );
        assert_eq!((claims.serial.len(), claims.machine_id.len()), (16, 32));
    }
    let listed = get(&rig.admin, &list).await;
    assert!(!listed.to_string().contains("v4.public"), "{listed}");
    let expected = json!({"id": made["id"], "name": "north", "machine_id": made["machine_id"], "monthly_runs": 500,
        "created_by": rig.admin.user, "created_at": AT, "expires_at": end});
    assert!(listed.as_array().unwrap().contains(&expected), "{listed}");
    let full = deploy(&rig, &json!({"name": "west"}))
        .must_refuse("payment_required")
        .await;
    assert_eq!(
        full.error,
        "license: all 2 deployments of the organization are in use; delete one first"
    );
    assert_eq!(
        get(&rig.admin, &license).await["entitlement"]["deployments_used"],
        2
    );

    deletes(&rig, &made).await;
    audited(&rig).await;
    rig.end().await;
}

/// Deletes a deployment, and adds one in its place.
async fn deletes(rig: &Rig, made: &Value) {
    let list = rig.path("/deployments");
    let path = format!("{list}/{}", made["id"].as_str().unwrap());
    let delete = async || rig.admin.delete(&path).await.unwrap();
    assert_eq!(delete().await.status, 204);
    delete().await.refused("not_found").unwrap();
    deploy(rig, &json!({"name": "west"})).must(201).await;
    let listed = get(&rig.admin, &list).await;
    let ended: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter(|of| of["ended_at"] == json!(AT))
        .collect();
    assert_eq!((listed.as_array().unwrap().len(), ended.len()), (3, 1));
}

/// Checks the entries of the audit log.
async fn audited(rig: &Rig) {
    let key = json!({"name": "x", "role": "admin"});
    let path = rig.path("/keys");
    let key = rig.owner.post(&path, &key).await.unwrap().json().unwrap();
    let engine = rig.engine_client(key["key"].as_str().unwrap());
    let log = get(&engine, "/v1/admin/audit").await;
    let entries = log["items"].as_array().unwrap().iter();
    let of = |entry: &Value| {
        let action = entry["action"].as_str().unwrap().to_owned();
        let is_ours = action.starts_with("license.") || action.starts_with("deployment.");
        is_ours.then(|| (action, entry["actor_kind"].as_str().unwrap().to_owned()))
    };
    let mut entries: Vec<(String, String)> = entries.filter_map(of).collect();
    entries.sort_unstable();
    let created = ("deployment.create", "session");
    let expected = [
        created,
        created,
        created,
        ("deployment.delete", "session"),
        ("license.grant", "operator"),
    ];
    let expected = expected.map(|(action, kind)| (action.to_owned(), kind.to_owned()));
    assert_eq!(entries, expected);
}

async fn deployments_that_are_asked_for_at_once_are_as_many_as_granted() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    grant(&operator, &rig, &json!({"monthly_runs": 1, "deployments": 3}))
        .must(200)
        .await;
    let asked = join_all((0..12).map(|_| deploy(&rig, &json!({"name": "north"})))).await;
    let statuses: Vec<u16> = asked
        .iter()
        .map(|answer| answer.as_ref().unwrap().status)
        .collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 201).count(),
        3,
        "{statuses:?}"
    );
    assert_eq!(
        statuses.iter().filter(|status| **status == 402).count(),
        9,
        "{statuses:?}"
    );
    rig.end().await;
}

async fn an_entitlement_ends_and_a_new_one_replaces_it() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    let end = AT + Duration::from_hours(24);
    let short = json!({"monthly_runs": 1, "deployments": 3, "expires_at": end});
    grant(&operator, &rig, &short).must(200).await;
    let made = deploy(&rig, &json!({"name": "north"})).must_json(201).await;
    assert_eq!(made["expires_at"], json!(end));
    rig.clock.set(end);
    deploy(&rig, &json!({"name": "south"}))
        .must_refuse("payment_required")
        .await;
    let longer = json!({"monthly_runs": 2, "deployments": 3});
    grant(&operator, &rig, &longer).must(200).await;
    // The same machine is licensed again once its deployment is deleted.
    let again = json!({"name": "north", "machine_id": made["machine_id"]});
    let conflict = deploy(&rig, &again).must_refuse("conflict").await;
    assert_eq!(conflict.error, "the installation has a deployment already");
    let path = format!(
        "/v1/organizations/{}/deployments/{}",
        rig.ours,
        made["id"].as_str().unwrap()
    );
    rig.admin.delete(&path).must(204).await;
    let renewed = deploy(&rig, &again).must_json(201).await;
    assert_has!(renewed, {"machine_id": made["machine_id"], "monthly_runs": 2});
    rig.end().await;
}

async fn another_organization_has_no_part_in_our_deployments() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    grant(&operator, &rig, &json!({"monthly_runs": 1, "deployments": 3}))
        .must(200)
        .await;
    let made = deploy(&rig, &json!({"name": "north"})).must_json(201).await;
    let id = made["id"].as_str().unwrap();
    let theirs = format!("/v1/organizations/{}", rig.theirs);
    let client = &rig.stranger;
    assert_eq!(
        get(client, &format!("{theirs}/license")).await,
        json!({"entitlement": null})
    );
    assert_eq!(get(client, &format!("{theirs}/deployments")).await, json!([]));
    for org in [rig.ours, rig.theirs] {
        let path = format!("/v1/organizations/{org}/deployments/{id}");
        let refused = client.delete(&path).await.unwrap();
        refused.refused("not_found").unwrap();
    }
    let list = rig.path("/deployments");
    assert_eq!(get(&rig.admin, &list).await[0].get("ended_at"), None);
    rig.member.get(&list).must_refuse("forbidden").await;
    rig.end().await;
}

async fn requests_that_break_a_rule_are_refused() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    for (body, field) in rows! {
        json!({"monthly_runs": -1, "deployments": 1}), "monthly_runs";
        json!({"monthly_runs": 1_000_000_000_001_i64, "deployments": 1}), "monthly_runs";
        json!({"monthly_runs": 1, "deployments": 1_001}), "deployments";
        json!({"monthly_runs": 1, "deployments": 1, "expires_at": AT}), "expires_at";
        json!({"monthly_runs": 1}), "deployments";
    } {
        let refused = grant(&operator, &rig, &body).must_refuse("invalid_request").await;
        assert!(refused.error.contains(field), "{}", refused.error);
    }
    grant(&operator, &rig, &json!({"monthly_runs": 1, "deployments": 1}))
        .must(200)
        .await;
    for (body, field) in rows! {
        json!({"name": " "}), "name";
        json!({"name": "x", "machine_id": "ABCDEF0123456789ABCDEF0123456789"}), "machine_id";
        json!({"name": "x", "machine_id": "0123"}), "machine_id";
        json!({"name": "x", "machine_id": null}), "machine_id";
        json!({"name": "x", "monthly_runs": 9}), "monthly_runs";
    } {
        let refused = deploy(&rig, &body).must_refuse("invalid_request").await;
        assert!(refused.error.contains(field), "{}", refused.error);
    }
    let nobody = "/v1/operator/organizations/org_01kafs6w1cefkstv6qr1ptb0mp/license";
    let body = json!({"monthly_runs": 1, "deployments": 1});
    operator.put(nobody, &body).must_refuse("not_found").await;
    rig.end().await;
}

#[tokio::test]
async fn a_deployment_without_a_signing_key_issues_no_license() {
    let rig = Rig::start_with(|options| options.license_signer = None).await;
    let operator = operator(&rig).await;
    grant(&operator, &rig, &json!({"monthly_runs": 1, "deployments": 1}))
        .must(200)
        .await;
    let refused = deploy(&rig, &json!({"name": "north"}))
        .must_refuse("conflict")
        .await;
    assert_eq!(refused.error, "this deployment has no license.signing_key");
    operator
        .get("/v1/operator/license-key")
        .must_refuse("conflict")
        .await;
    let list = rig.path("/deployments");
    assert_eq!(get(&rig.admin, &list).await, json!([]));
    rig.end().await;
}
