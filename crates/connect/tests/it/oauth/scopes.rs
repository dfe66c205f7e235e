//! Challenges of calls: they lead to the authorization server, and their scopes are added to the granted ones.

use serde_json::{Value, json};
use sortie_connect::oauth::Settings;
use sortie_testkit::rows;

use super::{World, client, home, parameter};

/// Settings after a challenge of a call.
fn challenged(challenge: Value, granted: &str, scopes: &[&str]) -> Settings {
    Settings {
        challenge: Some(serde_json::from_value(challenge).unwrap()),
        granted: Some(granted.to_owned()),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        ..Settings::default()
    }
}

#[tokio::test]
async fn a_challenge_for_more_scopes_asks_for_those_before_as_well() {
    let world = World::new().await;
    for (challenge, scopes, expected) in rows! {
        json!({"scope": "write tools"}), &[][..], "tools read write";
        json!({"scope": "write tools"}), &["own"], "own read write tools";
        json!({"scope": null}), &[], "tools";
        json!({"resource_metadata": "https://elsewhere.example"}), &["own"], "own";
    } {
        let settings = challenged(challenge, "read", scopes);
        let started = client().start(&world.target(), &settings, &home()).await.unwrap();
        assert_eq!(
            parameter(&started.authorization_url, "scope").as_deref(),
            Some(expected)
        );
    }
}

/// The server accepts the first message without authorization and requires it only for calls.
#[tokio::test]
async fn a_challenge_of_a_call_leads_to_the_authorization_server() {
    let world = World::new().await;
    world.set("/mcp", json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    world.remove("/.well-known/oauth-protected-resource/mcp");
    let base = &world.base;
    world.set(
        "/meta",
        json!({"resource": format!("{base}/mcp"), "authorization_servers": [format!("{base}/as")]}),
    );
    world.remove("/.well-known/oauth-authorization-server");
    let mut metadata = world.metadata();
    metadata["issuer"] = json!(format!("{base}/as"));
    world.set("/.well-known/oauth-authorization-server/as", metadata);
    assert!(world.start().await.is_err());
    let settings = challenged(
        json!({"resource_metadata": format!("{base}/meta"), "scope": "w"}),
        "",
        &[],
    );
    let started = client().start(&world.target(), &settings, &home()).await.unwrap();
    assert_eq!(
        parameter(&started.authorization_url, "scope").as_deref(),
        Some("w")
    );
}
