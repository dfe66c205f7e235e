//! The gate of the organization API: health, credentials, the cookie of a browser, and access to the engine.

use std::collections::BTreeSet;

use sortie_server::{Api, Modes};

use crate::prelude::*;

crate::settings::everywhere! {
    no_two_requests_have_the_same_id,
    both_apis_answer_with_their_own_description,
    the_description_of_the_engine_has_no_operation_that_a_hosted_engine_lacks,
    a_session_reaches_the_engine_in_the_organizations_of_the_person_alone,
    a_browser_changes_something_from_a_page_of_this_origin_alone,
}

/// A client that sends the session as a browser does.
fn browser(rig: &Rig, token: &str) -> Client {
    let cookie = HeaderValue::try_from(format!("sortie={token}")).unwrap();
    Client::new(rig.address, None)
        .with_header("cookie", cookie)
        .with_header("x-sortie-console", "1")
}

async fn no_two_requests_have_the_same_id() {
    let rig = Rig::start().await;
    let mut ids = BTreeSet::new();
    for address in [rig.engine_address, rig.address, rig.engine_address, rig.address] {
        let answer = Client::new(address, None).get("/healthz").await.unwrap();
        ids.insert(answer.header("x-request-id").unwrap().to_owned());
    }
    assert_eq!(ids.len(), 4, "{ids:?}");
    rig.end().await;
}

async fn both_apis_answer_with_their_own_description() {
    let rig = Rig::start().await;
    for (address, title) in [
        (rig.engine_address, "Sortie engine API"),
        (rig.address, "Sortie organization API"),
    ] {
        let anybody = Client::new(address, None);
        anybody.get("/healthz").must(200).await;
        anybody.get("/readyz").must(200).await;
        let document = anybody.get("/openapi.json").must(200).await;
        assert_eq!(document.json().unwrap()["info"]["title"], title);
        let unknown = anybody.get("/v1/nothing").await.unwrap();
        unknown.refused("not_found").unwrap();
        assert!(unknown.header("ratelimit").is_ok());
    }
    rig.end().await;
}

async fn the_description_of_the_engine_has_no_operation_that_a_hosted_engine_lacks() {
    let rig = Rig::start().await;
    let anybody = Client::new(rig.engine_address, None);
    let document = anybody.get("/openapi.json").must(200).await;
    let document = document.json().unwrap();
    let paths = document["paths"].as_object().unwrap().values();
    let described: BTreeSet<&str> = paths
        .flat_map(|item| item.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    let access = sortie_server::access(Api::Engine).iter();
    let served: BTreeSet<&str> = access
        .filter(|access| access.modes == Modes::All)
        .map(|access| access.operation)
        .collect();
    assert_eq!(described, served);
    let schemas = &document["components"]["schemas"];
    assert!(schemas["Run"].is_object() && schemas["ErrorBody"].is_object());
    for gone in ["ApiKey", "CreateKey", "Node", "NodeChecks", "Check", "License"] {
        assert!(schemas[gone].is_null(), "{gone}");
    }
    rig.end().await;
}

// Each node has a separate list of untrusted peers.
#[tokio::test]
async fn a_proxy_that_is_not_trusted_is_named_to_the_operator() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    let check = async || {
        let answer = operator.get("/v1/operator/checks").must(200).await;
        let found = answer.json().unwrap()["checks"].as_array().unwrap().clone();
        found
            .into_iter()
            .find(|check| check["name"] == "proxies")
            .unwrap()
    };
    assert_eq!(check().await["verdict"], "ok");
    // On both listeners.
    let forwarded = Client::new(rig.engine_address, None).with_header("x-forwarded-for", "203.0.113.9");
    forwarded.get("/v1/models").must(200).await;
    let found = check().await;
    assert_eq!(found["verdict"], "warning", "{found}");
    assert_eq!(found["found"], "the X-Forwarded-For of 127.0.0.1 is ignored");
    rig.end().await;
}

async fn a_session_reaches_the_engine_in_the_organizations_of_the_person_alone() {
    let rig = Rig::start().await;
    let path = format!("/engine/{}/v1/me", rig.ours);
    for (signed, role) in [
        (&rig.owner, "owner"),
        (&rig.admin, "admin"),
        (&rig.member, "member"),
    ] {
        for client in [Client::clone(signed), browser(&rig, &signed.token)] {
            let me = client.get(&path).must_json(200).await;
            assert_eq!((&me["role"], &me["mode"]), (&role.into(), &"hosted".into()));
            assert_eq!(me["organization_id"], rig.ours.to_string());
        }
    }
    let theirs = rig.stranger.get(&path).await.unwrap();
    let theirs = theirs.refused("not_found").unwrap();
    let none = rig.stranger.get("/engine/org_x/v1/me").await.unwrap();
    assert_eq!(none.refused("not_found").unwrap().error, theirs.error);
    Client::new(rig.address, None)
        .get(&path)
        .must_refuse("unauthorized")
        .await;
    // The listener of the engine does not accept sessions.
    rig.engine_client(&rig.owner.token)
        .get("/v1/me")
        .must_refuse("unauthorized")
        .await;
    rig.end().await;
}

async fn a_browser_changes_something_from_a_page_of_this_origin_alone() {
    let rig = Rig::start().await;
    let path = format!("/engine/{}/v1/runs", rig.ours);
    let body = Bytes::from_static(br#"{"prompt":"x","shell":false,"model":"runbook"}"#);
    let from = |origin: Option<&str>| {
        let client = browser(&rig, &rig.member.token);
        match origin {
            Some(origin) => client.with_header("origin", origin),
            None => client,
        }
    };
    for foreign in [
        None,
        Some("null"),
        Some("https://evil.example"),
        Some("http://127.0.0.1"),
    ] {
        from(foreign)
            .send(Method::POST, &path, body.clone())
            .must_refuse("forbidden")
            .await;
    }
    let listed = rig.member.get(&path).await.unwrap().json().unwrap();
    assert_eq!(listed, serde_json::json!([]), "nothing was changed");
    from(Some(&rig.org_url))
        .send(Method::POST, &path, body.clone())
        .must(202)
        .await;
    // A client with the token in the header is not a browser that another page could control.
    rig.member.send(Method::POST, &path, body).must(202).await;
    rig.end().await;
}
