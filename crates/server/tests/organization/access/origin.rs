//! Requests of a signed-in browser that a page of another origin triggers.

use sortie_server::Api;

use super::{Resources, table::CALLS};
use crate::prelude::*;

crate::settings::everywhere! {
    no_operation_is_done_for_a_page_of_another_origin,
}

/// Origins of other pages; `None` for a browser that sends no header.
const FOREIGN: [Option<&str>; 4] = [
    None,
    Some("null"),
    Some("https://evil.example"),
    Some("http://127.0.0.1"),
];

/// The browser of a person, with a page of this origin open.
fn browser(resources: &Resources, token: &str, origin: Option<&str>) -> Client {
    let cookie = HeaderValue::try_from(format!("sortie={token}")).unwrap();
    let client = Client::new(resources.rig.address, None)
        .with_header("cookie", cookie)
        .with_header("x-sortie-console", "1");
    match origin {
        Some(origin) => client.with_header("origin", origin),
        None => client,
    }
}

/// Operations of the engine API that change something, below the path of the organization.
fn changes_of_the_engine(org: &str) -> Vec<(Method, String)> {
    let document = sortie_server::openapi(Api::Engine);
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys().filter(|method| *method != "get") {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            found.push((method, format!("/engine/{org}{}", path.replace(['{', '}'], ""))));
        }
    }
    found
}

async fn no_operation_is_done_for_a_page_of_another_origin() {
    let resources = Resources::new().await;
    let rig = &resources.rig;
    let audit = async || {
        let filter = sortie_store::access::AuditFilter {
            limit: 1_000,
            ..Default::default()
        };
        rig.engine
            .store()
            .list_audit(rig.ours, filter)
            .await
            .unwrap()
            .items
            .len()
    };
    let before = audit().await;
    let engine = changes_of_the_engine(&rig.ours.to_string());
    assert!(engine.len() > 20, "{engine:?}");
    for origin in FOREIGN {
        // The owner may do everything; the other token is not a valid session.
        for token in [rig.owner.token.as_str(), "stu_guess"] {
            let client = browser(&resources, token, origin);
            // A webhook is authenticated by its signature, and its cookies are ignored.
            let changes = CALLS.iter().filter(|call| call.method != "GET");
            for call in changes.filter(|call| call.operation != "receive_stripe_event") {
                let told = format!("{} from {origin:?}", call.operation);
                let answer = resources.call(&client, call).await.unwrap();
                answer.refused("forbidden").expect(&told);
            }
            for (method, path) in &engine {
                let told = format!("{method} {path} from {origin:?}");
                let answer = client
                    .send(method.clone(), path, Bytes::from("{}"))
                    .await
                    .unwrap();
                answer.refused("forbidden").expect(&told);
            }
        }
    }
    assert_eq!(audit().await, before, "nothing was changed");
    resources.stand().await;
    let own = browser(&resources, &rig.owner.token, Some(&rig.org_url));
    let renamed = CALLS.iter().find(|call| call.operation == "rename_organization");
    let renamed = resources.call(&own, renamed.unwrap()).await.unwrap();
    renamed.expect(200).unwrap();
    assert_eq!(audit().await, before + 1);
    resources.rig.end().await;
}
