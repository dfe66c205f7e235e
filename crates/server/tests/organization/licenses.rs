//! Licenses over HTTP: the operator's grant, deployments, and tokens that a self-hosted engine verifies
//! (`docs/LICENSES.md`).

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use sortie_base::{LicensePublicKey, read_license};
use sortie_testkit::{Answer, Bytes, Client, http::Method};

use crate::{
    operator::operator,
    organizations::send,
    rig::{AT, Rig},
};

crate::settings::everywhere! {
    a_grant_makes_deployments_possible_and_each_token_is_shown_once,
    deployments_that_are_asked_for_at_once_are_as_many_as_granted,
    an_entitlement_ends_and_a_new_one_replaces_it,
    another_organization_has_no_part_in_our_deployments,
    requests_that_break_a_rule_are_refused,
}

async fn get(client: &Client, path: &str) -> Value {
    let answer = client.get(path).await.unwrap();
    answer.expect(200).unwrap().json().unwrap()
}

async fn grant(operator: &Client, rig: &Rig, body: Value) -> Answer {
    let path = format!("/v1/operator/organizations/{}/license", rig.ours);
    send(operator, Method::PUT, &path, &body).await
}

async fn deploy(rig: &Rig, body: Value) -> Answer {
    let path = format!("/v1/organizations/{}/deployments", rig.ours);
    rig.admin.client.post(&path, &body).await.unwrap()
}

async fn a_grant_makes_deployments_possible_and_each_token_is_shown_once() {
    let rig = Rig::start().await;
    let ours = format!("/v1/organizations/{}", rig.ours);
    let (license, list) = (format!("{ours}/license"), format!("{ours}/deployments"));
    assert_eq!(
        get(&rig.admin.client, &license).await,
        json!({"entitlement": null})
    );
    let refused = deploy(&rig, json!({"name": "north"})).await;
    let refused = refused.failure(402, "payment_required").unwrap();
    assert_eq!(
        refused.error,
        "license: the organization has no active entitlement"
    );

    let operator = operator(&rig).await;
    let granted = grant(&operator, &rig, json!({"monthly_runs": 500, "deployments": 2})).await;
    let granted = granted.expect(200).unwrap().json().unwrap();
    let end = AT + Duration::from_hours(24 * 365);
    let expected = json!({"source": "operator", "monthly_runs": 500, "deployments": 2, "deployments_used": 0,
        "state": "active", "period_end": end});
    assert_eq!(granted, expected);
    assert_eq!(
        get(&rig.admin.client, &license).await,
        json!({"entitlement": granted})
    );

    let made = deploy(&rig, json!({"name": " north "}))
        .await
        .expect(201)
        .unwrap();
    assert_eq!(made.header("cache-control").unwrap(), "no-store");
    let made = made.json().unwrap();
    let machine = "0123456789abcdef".repeat(2);
    let second = deploy(&rig, json!({"name": "south", "machine_id": machine})).await;
    let second = second.expect(201).unwrap().json().unwrap();
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
    let listed = get(&rig.admin.client, &list).await;
    assert!(!listed.to_string().contains("v4.public"), "{listed}");
    let expected = json!({"id": made["id"], "name": "north", "machine_id": made["machine_id"], "monthly_runs": 500,
        "created_by": rig.admin.user, "created_at": AT, "expires_at": end});
    assert!(listed.as_array().unwrap().contains(&expected), "{listed}");
    let full = deploy(&rig, json!({"name": "west"}))
        .await
        .failure(402, "payment_required")
        .unwrap();
    assert_eq!(
        full.error,
        "license: all 2 deployments of the organization are in use; delete one first"
    );
    assert_eq!(
        get(&rig.admin.client, &license).await["entitlement"]["deployments_used"],
        2
    );

    deletes(&rig, &made).await;
    audited(&rig).await;
    rig.end().await;
}

/// Deletes a deployment, and adds one in its place.
async fn deletes(rig: &Rig, made: &Value) {
    let list = format!("/v1/organizations/{}/deployments", rig.ours);
    let path = format!("{list}/{}", made["id"].as_str().unwrap());
    let delete = async || {
        rig.admin
            .client
            .send(Method::DELETE, &path, Bytes::new())
            .await
            .unwrap()
    };
    assert_eq!(delete().await.status, 204);
    delete().await.failure(404, "not_found").unwrap();
    deploy(rig, json!({"name": "west"})).await.expect(201).unwrap();
    let listed = get(&rig.admin.client, &list).await;
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
    let path = format!("/v1/organizations/{}/keys", rig.ours);
    let key = rig.owner.client.post(&path, &key).await.unwrap().json().unwrap();
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
    grant(&operator, &rig, json!({"monthly_runs": 1, "deployments": 3}))
        .await
        .expect(200)
        .unwrap();
    let asked = join_all((0..12).map(|_| deploy(&rig, json!({"name": "north"})))).await;
    let statuses: Vec<u16> = asked.iter().map(|answer| answer.status).collect();
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
    grant(&operator, &rig, short).await.expect(200).unwrap();
    let made = deploy(&rig, json!({"name": "north"}))
        .await
        .expect(201)
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(made["expires_at"], json!(end));
    rig.clock.set(end);
    deploy(&rig, json!({"name": "south"}))
        .await
        .failure(402, "payment_required")
        .unwrap();
    let longer = json!({"monthly_runs": 2, "deployments": 3});
    grant(&operator, &rig, longer).await.expect(200).unwrap();
    // The same machine is licensed again once its deployment is deleted.
    let again = json!({"name": "north", "machine_id": made["machine_id"]});
    let conflict = deploy(&rig, again.clone())
        .await
        .failure(409, "conflict")
        .unwrap();
    assert_eq!(conflict.error, "the installation has a deployment already");
    let path = format!(
        "/v1/organizations/{}/deployments/{}",
        rig.ours,
        made["id"].as_str().unwrap()
    );
    rig.admin
        .client
        .send(Method::DELETE, &path, Bytes::new())
        .await
        .unwrap()
        .expect(204)
        .unwrap();
    let renewed = deploy(&rig, again).await.expect(201).unwrap().json().unwrap();
    assert_eq!(
        (&renewed["machine_id"], &renewed["monthly_runs"]),
        (&made["machine_id"], &json!(2))
    );
    rig.end().await;
}

async fn another_organization_has_no_part_in_our_deployments() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    grant(&operator, &rig, json!({"monthly_runs": 1, "deployments": 3}))
        .await
        .expect(200)
        .unwrap();
    let made = deploy(&rig, json!({"name": "north"}))
        .await
        .expect(201)
        .unwrap()
        .json()
        .unwrap();
    let id = made["id"].as_str().unwrap();
    let theirs = format!("/v1/organizations/{}", rig.theirs);
    let client = &rig.stranger.client;
    assert_eq!(
        get(client, &format!("{theirs}/license")).await,
        json!({"entitlement": null})
    );
    assert_eq!(get(client, &format!("{theirs}/deployments")).await, json!([]));
    for org in [rig.ours, rig.theirs] {
        let path = format!("/v1/organizations/{org}/deployments/{id}");
        let refused = client.send(Method::DELETE, &path, Bytes::new()).await.unwrap();
        refused.failure(404, "not_found").unwrap();
    }
    let list = format!("/v1/organizations/{}/deployments", rig.ours);
    assert_eq!(get(&rig.admin.client, &list).await[0].get("ended_at"), None);
    rig.member
        .client
        .get(&list)
        .await
        .unwrap()
        .failure(403, "forbidden")
        .unwrap();
    rig.end().await;
}

async fn requests_that_break_a_rule_are_refused() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    for (body, field) in [
        (json!({"monthly_runs": -1, "deployments": 1}), "monthly_runs"),
        (
            json!({"monthly_runs": 1_000_000_000_001_i64, "deployments": 1}),
            "monthly_runs",
        ),
        (json!({"monthly_runs": 1, "deployments": 1_001}), "deployments"),
        (
            json!({"monthly_runs": 1, "deployments": 1, "expires_at": AT}),
            "expires_at",
        ),
        (json!({"monthly_runs": 1}), "deployments"),
    ] {
        let refused = grant(&operator, &rig, body)
            .await
            .failure(400, "invalid_request")
            .unwrap();
        assert!(refused.error.contains(field), "{}", refused.error);
    }
    grant(&operator, &rig, json!({"monthly_runs": 1, "deployments": 1}))
        .await
        .expect(200)
        .unwrap();
    for (body, field) in [
        (json!({"name": " "}), "name"),
        (
            json!({"name": "x", "machine_id": "ABCDEF0123456789ABCDEF0123456789"}),
            "machine_id",
        ),
        (json!({"name": "x", "machine_id": "0123"}), "machine_id"),
        (json!({"name": "x", "machine_id": null}), "machine_id"),
        (json!({"name": "x", "monthly_runs": 9}), "monthly_runs"),
    ] {
        let refused = deploy(&rig, body).await.failure(400, "invalid_request").unwrap();
        assert!(refused.error.contains(field), "{}", refused.error);
    }
    let nobody = "/v1/operator/organizations/org_01kafs6w1cefkstv6qr1ptb0mp/license";
    let body = json!({"monthly_runs": 1, "deployments": 1});
    send(&operator, Method::PUT, nobody, &body)
        .await
        .failure(404, "not_found")
        .unwrap();
    rig.end().await;
}

#[tokio::test]
async fn a_deployment_without_a_signing_key_issues_no_license() {
    let rig = Rig::start_with(|options| options.license_signer = None).await;
    let operator = operator(&rig).await;
    grant(&operator, &rig, json!({"monthly_runs": 1, "deployments": 1}))
        .await
        .expect(200)
        .unwrap();
    let refused = deploy(&rig, json!({"name": "north"}))
        .await
        .failure(409, "conflict")
        .unwrap();
    assert_eq!(refused.error, "this deployment has no license.signing_key");
    operator
        .get("/v1/operator/license-key")
        .await
        .unwrap()
        .failure(409, "conflict")
        .unwrap();
    let list = format!("/v1/organizations/{}/deployments", rig.ours);
    assert_eq!(get(&rig.admin.client, &list).await, json!([]));
    rig.end().await;
}
