//! Sign-in with an identity provider at a self-hosted engine that serves the pages on its listener.

use std::{net::SocketAddr, sync::Arc};

use sortie_accounts::{Accounts, IdentityProvider, RoleRule};
use sortie_api::SignUpRule;
use sortie_api::{
    Credential, Mode,
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_base::{CREDENTIAL_LOOKUP, Clock, MasterKey, Sealer, spawn_short};
use sortie_engine::Engine;
use sortie_server::{Listeners, Options};
use sortie_store::Store;
use sortie_testkit::{
    ScriptedProvider,
    client::Next,
    identity::{CLIENT_ID, CLIENT_SECRET},
    postgres::TestDatabase,
};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{prelude::*, settings::Setting};

crate::settings::both_databases! {
    without_a_provider_no_page_answers,
    a_person_works_with_the_engine_by_cookie_and_by_bearer,
    a_stream_ends_with_the_session_that_opened_it,
    an_admin_ends_the_session_of_a_person,
    the_role_is_that_of_the_claim_at_each_sign_in,
    the_pages_of_an_engine_forbid_frames_and_scripts,
}

const START: &str = "/sign-in/oidc/idp";

/// A self-hosted engine with an admin key.
pub(crate) struct Rig {
    engine: Engine,
    pub(crate) address: SocketAddr,
    pub(crate) url: String,
    /// The admin key.
    pub(crate) key: String,
    pub(crate) clock: Clock,
    _database: TestDatabase,
    stop: CancellationToken,
    serving: TaskTracker,
    _dir: tempfile::TempDir,
}

impl Rig {
    /// Starts an engine with or without an identity provider.
    pub(crate) async fn start(provider: Option<&ScriptedProvider>) -> Self {
        Self::start_with(provider, Clock::system(), |_| {}).await
    }

    /// Starts an engine with a clock, and with changed settings of its server.
    pub(crate) async fn start_with(
        provider: Option<&ScriptedProvider>,
        clock: Clock,
        change: impl FnOnce(&mut Options),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let database = Setting::current().database().await;
        let store = Store::open(database.url()).await.unwrap();
        let api = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = api.local_addr().unwrap();
        let url = format!("http://{address}");
        let options = sortie_engine::Options {
            data_dir: dir.path().to_owned(),
            shutdown_grace: Duration::from_millis(50),
            clock: clock.clone(),
            ..sortie_engine::Options::default()
        };
        let no_sandbox = Err("this test has no sandbox.".to_owned());
        let engine = Engine::start(options, store.clone(), no_sandbox).await.unwrap();
        let key = Secret::new(SELF_HOSTED_KEY, [7; 32]);
        assert!(engine.bootstrap(&key).await.unwrap());
        let people = provider.map(|provider| {
            let options = sortie_accounts::Options {
                mode: Mode::SelfHosted,
                clock: Clock::system(),
                org_url: url.clone(),
                engine_url: url.clone(),
                sign_up: SignUpRule::Closed,
                mail: None,
                providers: vec![settings(provider)],
                outbound: sortie_net::Outbound::default(),
                license_signer: None,
                credential_lookup: CREDENTIAL_LOOKUP,
            };
            Accounts::new(options, store, Sealer::new(vec![MasterKey::new([7; 32])]))
        });
        let listeners = Listeners {
            people,
            ..Listeners::from(api)
        };
        let (stop, serving) = serve(listeners, &engine, &url, change);
        Self {
            engine,
            address,
            url,
            key: key.expose().to_owned(),
            clock,
            _database: database,
            stop,
            serving,
            _dir: dir,
        }
    }

    /// Serves the same engine with changed settings, on another port and without people.
    pub(crate) async fn restarted(self, change: impl FnOnce(&mut Options)) -> Self {
        self.stop.cancel();
        self.serving.wait().await;
        let api = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = api.local_addr().unwrap();
        let url = format!("http://{address}");
        let (stop, serving) = serve(Listeners::from(api), &self.engine, &url, change);
        Self {
            address,
            url,
            stop,
            serving,
            ..self
        }
    }

    pub(crate) fn browser(&self) -> Browser {
        Browser::at(self.address, &self.url)
    }

    pub(crate) fn client(&self, credential: Option<&str>) -> Client {
        Client::new(self.address, credential.map(str::to_owned))
    }

    /// Client with the cookie of a browser, as a page of `origin` makes its requests.
    fn by_cookie(&self, browser: &Browser, origin: Option<&str>) -> Client {
        let client = self
            .client(None)
            .with_header("cookie", browser.session_cookie())
            .with_header("x-sortie-console", "1");
        match origin {
            Some(origin) => client.with_header("origin", origin),
            None => client,
        }
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.serving.wait().await;
    }
}

/// Serves an engine until the token is cancelled.
fn serve(
    listeners: Listeners,
    engine: &Engine,
    url: &str,
    change: impl FnOnce(&mut Options),
) -> (CancellationToken, TaskTracker) {
    let mut options = Options {
        requests_per_minute: 1_000_000,
        anonymous_requests_per_minute: 1_000_000,
        base_url: Some(url.to_owned()),
        ..Options::default()
    };
    change(&mut options);
    let (stop, serving) = (CancellationToken::new(), TaskTracker::new());
    spawn_short(
        &serving,
        sortie_server::serve(listeners, engine.clone(), Arc::new(options), stop.clone()),
    );
    serving.close();
    (stop, serving)
}

fn settings(provider: &ScriptedProvider) -> IdentityProvider {
    IdentityProvider {
        name: "idp".to_owned(),
        label: "Example".to_owned(),
        issuer: provider.issuer(),
        client_id: CLIENT_ID.to_owned(),
        client_secret: Credential::new(CLIENT_SECRET),
        trusted_domains: vec!["corp.example".to_owned()],
        scopes: vec!["groups".to_owned()],
        roles: Some(RoleRule {
            claim: Some("groups".to_owned()),
            admin_values: vec!["admins".to_owned()],
            member_values: vec!["devs".to_owned()],
            default_role: None,
        }),
    }
}

pub(crate) async fn provider() -> ScriptedProvider {
    let provider = ScriptedProvider::start(Clock::system().now().as_micros() / 1_000_000)
        .await
        .unwrap();
    provider.person("s-1", "ann@corp.example");
    provider
}

/// Assigns these groups to the next person who signs in.
pub(crate) fn groups(provider: &ScriptedProvider, groups: Value) {
    provider.script(|script| drop(script.claims.insert("groups".to_owned(), groups)));
}

pub(crate) async fn sign_in(browser: &Browser, provider: &ScriptedProvider) -> Answer {
    let away = browser.get(START).await;
    let location = away.header("location").unwrap();
    assert_contains!(location, "scope=openid+email+profile+groups");
    browser.get(&provider.authorize(location).unwrap()).await
}

async fn a_stream_ends_with_the_session_that_opened_it() {
    let provider = provider().await;
    let rig = Rig::start(Some(&provider)).await;
    groups(&provider, json!(["devs"]));
    let browser = rig.browser();
    assert_eq!(sign_in(&browser, &provider).await.status, 303);
    let admin = rig.client(Some(&rig.key));
    let request = json!({"prompt": "```wait 3600000\n```", "shell": false});
    let run = admin.create(&request).await.unwrap().id.to_string();
    let bearer = rig.client(Some(&browser.session().unwrap()));
    let mut streams = Vec::new();
    for client in [&bearer, &rig.by_cookie(&browser, None)] {
        streams.push(client.follow(&run, None).await.unwrap());
    }
    let form = form_token(&browser.get("/").await, "/sign-out");
    assert_eq!(browser.post("/sign-out", &[("form", &form)]).await.status, 200);
    for stream in &mut streams {
        loop {
            match stream.next().await.unwrap() {
                Next::Event(_) => {}
                Next::Closed => break,
                Next::Done(run) => panic!("the run has ended: {run}"),
            }
        }
    }
    admin.cancel(&run).await.unwrap();
    rig.end().await;
}

async fn an_admin_ends_the_session_of_a_person() {
    let provider = provider().await;
    let rig = Rig::start(Some(&provider)).await;
    groups(&provider, json!(["devs"]));
    let (first, second) = (rig.browser(), rig.browser());
    for browser in [&first, &second] {
        assert_eq!(sign_in(browser, &provider).await.status, 303);
    }
    let (first, second) = (rig.by_cookie(&first, None), rig.by_cookie(&second, None));
    let admin = rig.client(Some(&rig.key));
    let listed = async || {
        let listed = admin.get("/v1/admin/sessions").await.unwrap().json().unwrap();
        listed.as_array().unwrap().clone()
    };
    let sessions = listed().await;
    assert_eq!(sessions.len(), 2);
    assert!(
        sessions.iter().all(|of| of["email"] == "ann@corp.example"),
        "{sessions:?}"
    );
    assert!(sessions[0]["created_at"].as_str() >= sessions[1]["created_at"].as_str());
    // The newest session belongs to the second browser.
    let id = sessions[0]["id"].as_str().unwrap();
    let path = format!("/v1/admin/sessions/{id}");
    let end = async |client: &Client| client.delete(&path).await.unwrap();
    end(&second.with_header("origin", &rig.url))
        .await
        .refused("forbidden")
        .unwrap();
    end(&admin).await.expect(204).unwrap();
    end(&admin).await.refused("not_found").unwrap();
    second.get("/v1/me").must_refuse("unauthorized").await;
    first.get("/v1/me").must(200).await;
    assert_eq!(listed().await.len(), 1);
    let audit = admin
        .get("/v1/admin/audit?action=session.end")
        .await
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "{audit}");
    assert_eq!(audit["items"][0]["target"], id);
    rig.end().await;
}

fn create_key(client: &Client) -> Pending {
    client.post("/v1/admin/keys", &json!({"name": "ci", "role": "member"}))
}

async fn without_a_provider_no_page_answers() {
    let rig = Rig::start(None).await;
    for page in sortie_server::engine_pages() {
        let method = page.method.to_uppercase().parse().unwrap();
        let path = page.path.replace("{name}", "idp");
        rig.client(None)
            .send(method, &path, Bytes::new())
            .must_refuse("not_found")
            .await;
    }
    let session = format!("stu_{}", "0".repeat(49));
    rig.client(Some(&session))
        .get("/v1/me")
        .must_refuse("unauthorized")
        .await;
    rig.end().await;
}

async fn a_person_works_with_the_engine_by_cookie_and_by_bearer() {
    let provider = provider().await;
    let rig = Rig::start(Some(&provider)).await;
    groups(&provider, json!(["admins", "devs"]));
    let browser = rig.browser();
    let page = browser.get("/sign-in").await.text();
    assert_contains!(page, "Sign in with Example");
    assert_lacks!(page, "password");
    let answer = sign_in(&browser, &provider).await;
    assert_eq!(
        (answer.status, answer.header("location").unwrap()),
        (303, "/"),
        "{}",
        answer.text()
    );
    assert!(browser.get("/").await.text().contains("ann@corp.example"));
    let mut cookies = answer.headers.get_all("set-cookie").iter();
    let twelve_hours = cookies.any(|cookie| cookie.to_str().unwrap().contains("Max-Age=43200"));
    assert!(twelve_hours, "{:?}", answer.headers);

    let token = browser.session().unwrap();
    let bearer = rig.client(Some(&token));
    let cookie = rig.by_cookie(&browser, None);
    for client in [&bearer, &cookie] {
        let me = client.get("/v1/me").must_json(200).await;
        assert_has!(me, {"role": "admin", "mode": "self-hosted"});
    }
    // With a cookie, a change must come from a page of this address.
    for origin in [None, Some("https://evil.example"), Some("null")] {
        create_key(&rig.by_cookie(&browser, origin))
            .must_refuse("forbidden")
            .await;
    }
    create_key(&rig.by_cookie(&browser, Some(&rig.url)))
        .must(201)
        .await;
    create_key(&bearer).must(201).await;
    let admin = rig.client(Some(&rig.key));
    create_key(&admin).must(201).await;
    let audit = admin.get("/v1/admin/audit").await.unwrap().json().unwrap();
    let entries: Vec<_> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            (
                entry["action"].as_str().unwrap(),
                entry["actor_kind"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    let by_sessions = entries
        .iter()
        .filter(|entry| **entry == ("key.create", "session"))
        .count();
    assert_eq!(by_sessions, 2, "{entries:?}");
    assert!(entries.iter().any(|entry| entry.0 == "member.add"), "{entries:?}");

    let form = form_token(&browser.get("/").await, "/sign-out");
    assert_eq!(browser.post("/sign-out", &[("form", &form)]).await.status, 200);
    bearer.get("/v1/me").must_refuse("unauthorized").await;
    rig.end().await;
}

async fn the_role_is_that_of_the_claim_at_each_sign_in() {
    let provider = provider().await;
    let rig = Rig::start(Some(&provider)).await;
    let enters = async |values: Value| {
        groups(&provider, values);
        let browser = rig.browser();
        let status = sign_in(&browser, &provider).await.status;
        (status, browser.session().map(|token| rig.client(Some(&token))))
    };
    let role = async |client: &Client| {
        let answer = client.get("/v1/me").await.unwrap();
        let role = (answer.status == 200).then(|| answer.json().unwrap()["role"].clone());
        role.ok_or(answer.status)
    };
    for refused in [json!([]), json!("Admins"), Value::Null] {
        assert_eq!(enters(refused.clone()).await.0, 403, "{refused}");
    }
    let (status, Some(first)) = enters(json!(["admins"])).await else {
        panic!("nobody is signed in")
    };
    assert_eq!((status, role(&first).await), (303, Ok(json!("admin"))));
    let (status, Some(second)) = enters(json!("devs")).await else {
        panic!("nobody is signed in")
    };
    assert_eq!((status, role(&second).await), (303, Ok(json!("member"))));
    assert_eq!(
        role(&first).await,
        Ok(json!("member")),
        "the role is read, not carried"
    );
    create_key(&first).must_refuse("forbidden").await;
    let (status, none) = enters(json!(["others"])).await;
    assert_eq!((status, none.is_none()), (403, true));
    for client in [&first, &second] {
        assert_eq!(role(client).await, Err(401), "a role that the provider took");
    }
    let (status, Some(third)) = enters(json!(["devs"])).await else {
        panic!("nobody is signed in")
    };
    assert_eq!((status, role(&third).await), (303, Ok(json!("member"))));
    let audit = rig
        .client(Some(&rig.key))
        .get("/v1/admin/audit")
        .await
        .unwrap()
        .json()
        .unwrap();
    let actions: Vec<_> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["action"].clone())
        .collect();
    assert_eq!(
        actions[..4],
        ["member.add", "member.remove", "member.role", "member.add"]
    );
    rig.end().await;
}

async fn the_pages_of_an_engine_forbid_frames_and_scripts() {
    let provider = provider().await;
    let rig = Rig::start(Some(&provider)).await;
    let browser = rig.browser();
    for page in sortie_server::engine_pages() {
        let path = page.path.replace("{name}", "idp");
        let answer = match page.method {
            "get" => browser.get(&path).await,
            _ => browser.post(&path, &[]).await,
        };
        assert_eq!(answer.header("x-frame-options").unwrap(), "DENY", "{path}");
        assert_eq!(answer.header("cache-control").unwrap(), "no-store", "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
    }
    // Sign-up and sign-in with a password are disabled here.
    for path in ["/sign-up", "/forgot-password", "/v1/auth/login"] {
        browser.get(path).await.refused("not_found").unwrap();
    }
    let posted = browser.post("/sign-in", &[("email", "a@b.c")]).await;
    assert_eq!(posted.status, 405);
    rig.end().await;
}
