//! Codes, client secrets and refresh tokens are sent only to their authorization server.

use serde_json::json;
use sortie_api::Credential;
use sortie_connect::{
    Target,
    oauth::{Callback, Client, Endpoints, Error, Settings, Started},
};
use sortie_net::{Network, Reach};

use super::{URL_SAFE_NO_PAD, World, client, finish, form, home, parameter, tag};
use base64::Engine as _;

impl World {
    /// A server that does not identify itself in the callback.
    async fn unnamed() -> Self {
        let world = Self::new().await;
        let mut metadata = world.metadata();
        metadata["authorization_response_iss_parameter_supported"] = json!(false);
        world.set("/.well-known/oauth-authorization-server", metadata);
        world
    }

    /// Makes the resource name another authorization server.
    fn moves_to(&self, issuer: &str) {
        self.set(
            "/.well-known/oauth-protected-resource/mcp",
            json!({"resource": format!("{}/mcp", self.base), "authorization_servers": [issuer]}),
        );
    }

    fn asked(&self, path: &str) -> usize {
        let asked = self.documents.asked.lock();
        asked.iter().filter(|(at, _, _)| at == path).count()
    }

    async fn start_for(&self, settings: &Settings) -> Result<Started, Error> {
        client().start(&self.target(), settings, &home()).await
    }
}

fn state(started: &Started) -> &str {
    started.pending.state.expose()
}

/// The person starts at an attacker's server, which redirects the browser to an honest server with the `state` of this flow.
#[tokio::test]
async fn a_code_that_arrives_at_the_address_of_another_server_is_sent_to_nobody() {
    let (honest, attacker) = (World::unnamed().await, World::unnamed().await);
    let begun = honest.start().await.unwrap();
    let started = attacker.start().await.unwrap();
    assert_ne!(tag(&begun), tag(&started));
    let query = format!("code=of-the-honest-server&state={}", state(&started));
    for arrived in [tag(&begun), None, Some(String::new())] {
        let callback = Callback {
            tag: arrived.as_deref(),
            query: &query,
        };
        let refused = client()
            .finish(started.pending.clone(), callback)
            .await
            .unwrap_err();
        assert!(
            matches!(&refused, Error::Refused(why) if why.contains("redirect URI of another")),
            "{refused}"
        );
    }
    assert_eq!(attacker.asked("/token"), 0);
    finish(&started, &query).await.unwrap();
    // Registered only for its separate address, which stays the same.
    let (_, registration) = honest.sent("/register");
    let registration: serde_json::Value = serde_json::from_str(&registration).unwrap();
    let own = parameter(&begun.authorization_url, "redirect_uri").unwrap();
    assert_eq!(registration["redirect_uris"], json!([own]));
    assert_eq!(tag(&honest.start().await.unwrap()), tag(&begun));
    // Two connections to one server have two addresses.
    let another = Settings {
        context: "another".to_owned(),
        ..Settings::default()
    };
    assert_ne!(tag(&honest.start_for(&another).await.unwrap()), tag(&begun));
}

fn confidential(issuer: Option<&str>) -> Settings {
    Settings {
        client_id: Some("given".to_owned()),
        client_secret: Some(Credential::new("hush-client")),
        issuer: issuer.map(str::to_owned),
        ..Settings::default()
    }
}

#[tokio::test]
async fn a_client_secret_goes_to_the_issuer_it_belongs_to_and_to_no_other() {
    let (world, other) = (World::new().await, World::new().await);
    let base = world.base.clone();
    for named in [base.clone(), format!("{base}/")] {
        let started = world.start_for(&confidential(Some(&named))).await.unwrap();
        // A client that an administrator registered keeps its registered address.
        assert_eq!(tag(&started), None);
        let query = world.agreed(&started);
        finish(&started, &query).await.unwrap();
    }
    world.moves_to(&other.base);
    let error = world.start_for(&confidential(Some(&base))).await.unwrap_err();
    let told = error.to_string();
    for part in [
        format!("names {} as its authorization server", other.base),
        format!("belongs to {base}: nothing was sent"),
        "auth.issuer".to_owned(),
    ] {
        assert!(told.contains(&part), "{part}: {told}");
    }
    // Another issuer is also refused if the resource names no server, so that its origin applies.
    world.remove("/.well-known/oauth-protected-resource/mcp");
    let elsewhere = Some("https://login.example");
    let error = world.start_for(&confidential(elsewhere)).await.unwrap_err();
    assert!(
        error.to_string().contains("belongs to https://login.example"),
        "{error}"
    );
    assert_eq!((other.asked("/token"), world.asked("/token")), (0, 2));
    // A client that the engine registers is registered again at the new server.
    world.moves_to(&other.base);
    let own = Settings {
        issuer: Some(base),
        ..Settings::default()
    };
    world.start_for(&own).await.unwrap();
    assert_eq!(other.asked("/register"), 1);
}

#[tokio::test]
async fn a_server_that_is_expected_is_found_among_several() {
    let (world, other) = (World::new().await, World::new().await);
    world.set(
        "/.well-known/oauth-protected-resource/mcp",
        json!({"resource": format!("{}/mcp", world.base), "authorization_servers": [other.base, world.base]}),
    );
    let started = world.start_for(&confidential(Some(&world.base))).await.unwrap();
    let asked = parameter(&started.authorization_url, "client_id");
    assert_eq!(asked.as_deref(), Some("given"));
    assert!(started.authorization_url.as_str().starts_with(&world.base));
}

#[tokio::test]
async fn a_refresh_token_goes_where_it_came_from_though_the_metadata_moved() {
    let (world, other) = (World::new().await, World::new().await);
    let started = world.start_for(&confidential(None)).await.unwrap();
    let query = world.agreed(&started);
    let grant = finish(&started, &query).await.unwrap();
    assert_eq!(grant.issuer.as_ref(), Some(&world.base));
    world.moves_to(&other.base);
    let mut metadata = world.metadata();
    metadata["token_endpoint"] = json!(format!("{}/token", other.base));
    world.set("/.well-known/oauth-authorization-server", metadata);
    client().refresh(&grant).await.unwrap();
    assert_eq!((other.asked("/token"), world.asked("/token")), (0, 2));
    let (_, sent) = world.sent("/token");
    assert_eq!(form(&sent, "refresh_token").as_deref(), Some("rt-1"));
}

#[tokio::test]
async fn the_account_is_named_where_the_server_names_it() {
    let world = World::new().await;
    let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"7","email":"ann@example.com"}"#);
    world.set(
        "/token",
        json!({"access_token": "at", "refresh_token": "rt", "id_token": format!("e30.{claims}.c2ln")}),
    );
    let grant = world.grant().await;
    assert_eq!(grant.account.as_deref(), Some("ann@example.com"));
    // A refresh without an issuer changes nothing.
    world.set("/token", json!({"access_token": "at-2"}));
    let renewed = client().refresh(&grant).await.unwrap();
    assert_eq!(renewed.account, grant.account);
    let stored = serde_json::to_string(&renewed).unwrap();
    assert!(!stored.contains("c2ln"));
}

/// Configured endpoints have no metadata, so the callback does not have to name its server. If it does, the name is checked.
#[tokio::test]
async fn a_callback_to_given_endpoints_that_names_another_server_is_refused() {
    let world = World::new().await;
    let endpoints = Endpoints {
        authorization_url: format!("{}/authorize", world.base).parse().unwrap(),
        token_url: format!("{}/token", world.base).parse().unwrap(),
    };
    let tenant = format!("{}/tenant", world.base);
    for (issuer, named, is_taken) in [
        (None, None, true),
        (None, Some(world.base.as_str()), true),
        (None, Some(tenant.as_str()), true),
        (None, Some("https://evil.example"), false),
        (None, Some("no url"), false),
        (Some(tenant.as_str()), Some(tenant.as_str()), true),
        (Some(tenant.as_str()), Some(world.base.as_str()), false),
        (Some("https://login.example"), Some("https://login.example"), true),
        (Some("https://login.example"), None, true),
    ] {
        let settings = Settings {
            endpoints: Some(endpoints.clone()),
            ..confidential(issuer)
        };
        let started = world.start_for(&settings).await.unwrap();
        let before = world.asked("/token");
        let iss = named.map(|named| format!("&iss={named}")).unwrap_or_default();
        let query = format!("code=c&state={}{iss}", state(&started));
        let finished = finish(&started, &query).await;
        assert_eq!(finished.is_ok(), is_taken, "{issuer:?} {named:?}: {finished:?}");
        assert_eq!(world.asked("/token") - before, usize::from(is_taken));
        if let (Err(error), None) = (finished, issuer) {
            assert!(error.to_string().contains("name it in auth.issuer"), "{error}");
        }
    }
}

#[tokio::test]
async fn given_endpoints_need_a_client_id_and_https_where_the_network_is_public() {
    let endpoints = |scheme: &str| Endpoints {
        authorization_url: format!("{scheme}://login.example/authorize").parse().unwrap(),
        token_url: format!("{scheme}://login.example/token").parse().unwrap(),
    };
    let target = Target::Http {
        url: "https://api.example/".parse().unwrap(),
        allowed_methods: None,
    };
    let settings = |scheme: &str, client_id: Option<&str>| Settings {
        client_id: client_id.map(str::to_owned),
        client_secret: Some(Credential::new("s")),
        endpoints: Some(endpoints(scheme)),
        ..Settings::default()
    };
    let public = Client::new(&Network::new(Reach::Public, Vec::new()).into()).unwrap();
    let started = public
        .start(&target, &settings("https", Some("c")), &home())
        .await
        .unwrap();
    assert_eq!(parameter(&started.authorization_url, "resource"), None);
    assert!(parameter(&started.authorization_url, "code_challenge").is_some());
    let error = public
        .start(&target, &settings("http", Some("c")), &home())
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "auth.authorization_url: must be an https URL");
    let error = public
        .start(&target, &settings("https", None), &home())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "auth.client_id: required with authorization_url and token_url"
    );
}

#[tokio::test]
async fn the_engines_own_addresses_are_refused_as_authorization_servers() {
    let own = vec!["8.8.8.8".parse().unwrap()];
    let public = Client::new(&Network::new(Reach::Public, own).into()).unwrap();
    let target = Target::Mcp {
        url: "https://8.8.8.8:1/mcp".parse().unwrap(),
        allowed_tools: None,
    };
    let started = public.start(&target, &Settings::default(), &home()).await;
    let told = started.unwrap_err().to_string();
    assert!(told.contains("8.8.8.8 is not a public address"), "{told}");
}
