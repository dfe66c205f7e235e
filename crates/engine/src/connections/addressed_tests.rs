use serde_json::{Value, json};
use sortie_api::{Credential, RunId, Timestamp};
use sortie_connect::{Auth, Target, TokenError, Tokens as _};
use sortie_store::{Store, access::Caller, connections::OauthFlow, runs::Created};
use tempfile::TempDir;

use super::*;
use crate::{
    Engine,
    connections::tokens::{ConnectionTokens, tokens_at},
    kit::{options::Options, random::random},
    testing::{bootstrapped, caller, engine, idle},
};
use sortie_base::{Clock, MasterKey, Sealer};

const BEGIN: Timestamp = Timestamp::from_micros(1_767_225_630_000_000);
const HERE: &str = r#"{"type":"http","url":"http://here.example/v1"}"#;
const ELSEWHERE: &str = r#"{"type":"http","url":"http://elsewhere.example/v1"}"#;

/// A database that engines of a data folder are started on, one after the other.
struct Rig {
    store: Store,
    dir: TempDir,
    clock: Clock,
    caller: Caller,
}

impl Rig {
    async fn new() -> Self {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::manual(BEGIN));
        let store = crate::testing::store_in(&dir).await;
        let caller = caller(OrgId::new(BEGIN, [1; 10]));
        let rig = Self {
            store,
            dir,
            clock,
            caller,
        };
        let engine = rig.start().await;
        let caller = bootstrapped(&engine).await;
        engine.shutdown().await;
        Self { caller, ..rig }
    }

    async fn start(&self) -> Engine {
        let options = Options {
            node_name: "new".to_owned(),
            retention: None,
            ..idle(&self.clock, self.dir.path())
        };
        engine(options, self.store.clone()).await
    }

    /// The connection `c1` as it is stored.
    async fn row(&self) -> sortie_store::connections::ConnectionRow {
        self.store.get_connection(self.caller.org, "c1").await.unwrap()
    }

    fn audit(&self) -> sortie_store::access::Audit {
        self.caller
            .audit((self.clock.now(), random().unwrap()), "connection.put", "c")
    }

    /// Stores tokens of `c1` that were sealed for this address.
    async fn store_tokens(&self, access_token: &str, address: &Address) {
        let held = json!({"given_at": BEGIN, "address": address, "grant": {
            "access_token": access_token, "expires_in_seconds": null, "refresh_token": null, "scope": null,
            "issuer": null, "account": null, "token_url": "http://issuer.example/token", "resource": null,
            "identity": {"client_id": "c", "client_secret": null, "method": "none"}}});
        let id = self.row().await.id.to_string();
        let sealed = Sealer::new(vec![key()])
            .seal(
                tokens_at(&id, self.caller.org),
                held.to_string().as_bytes(),
                random().unwrap(),
            )
            .unwrap();
        self.sql(&format!(
            "UPDATE connection SET tokens = x'{}', tokens_version = tokens_version + 1",
            sortie_base::hex(&sealed)
        ));
    }

    fn sql(&self, statement: &str) {
        let changed = self.database().execute(statement, ());
        assert_eq!(changed.unwrap(), 1, "{statement}");
    }

    fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.dir.path().join("test.db")).unwrap()
    }

    /// The bearer token that a run would use for `c1`, or the reason why it gets no token.
    async fn token(&self, engine: &Engine) -> Result<String, String> {
        let row = self.row().await;
        let connection = engine.0.stores.connections.saved(self.caller.org, "c", &row)?;
        assert!(matches!(connection.target, Target::Http { .. }));
        let Auth::Bearer(token) = connection.auth else {
            panic!("{:?}", connection.auth)
        };
        Ok(token.expose().to_owned())
    }
}

fn key() -> MasterKey {
    MasterKey::new([1; 32])
}

fn put(text: &str) -> ConnectionDefinition {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn a_connection_that_is_pointed_elsewhere_in_the_database_does_not_open() {
    let rig = Rig::new().await;
    let engine = rig.start().await;
    let definition =
        put(r#"{"type":"http","url":"http://here.example/v1","auth":{"type":"bearer","token":"hush"}}"#);
    engine
        .connections()
        .put(&rig.caller, "c1", definition)
        .await
        .unwrap();
    assert_eq!(rig.token(&engine).await.as_deref(), Ok("hush"));
    for changed in [
        ELSEWHERE,
        r#"{"type":"mcp","url":"http://here.example/v1"}"#,
        r#"{"type":"mcp","command":["sh"]}"#,
    ] {
        rig.sql(&format!("UPDATE connection SET definition = '{changed}'"));
        let refused = rig.token(&engine).await.unwrap_err();
        assert!(refused.contains("saved for another address"), "{refused}");
    }
    rig.sql(&format!("UPDATE connection SET definition = '{HERE}'"));
    assert_eq!(rig.token(&engine).await.as_deref(), Ok("hush"));
}

#[tokio::test]
async fn tokens_and_authorizations_do_not_open_for_another_connection_or_address() {
    let rig = Rig::new().await;
    let engine = rig.start().await;
    let connections = &engine.0.stores.connections;
    let (here, elsewhere) = (Address::of(&put(HERE)), Address::of(&put(ELSEWHERE)));
    let context = tokens_at("conn_1", rig.caller.org);
    let sealed = connections
        .seal_for(context, &here, &json!({"a": 1}))
        .await
        .unwrap();
    assert_eq!(
        connections.open_for::<Value>(context, &here, &sealed).unwrap(),
        json!({"a": 1})
    );
    assert!(
        connections
            .open_for::<Value>(context, &elsewhere, &sealed)
            .is_err()
    );
    // A value without an address opens for no address.
    let without = connections.seal(context, &json!({"a": 1})).await.unwrap();
    assert!(connections.open_for::<Value>(context, &here, &without).is_err());
    let [one, other] = [1, 2].map(|number| ConnectionId::new(BEGIN, [number; 10]));
    let begun = Address::of_authorization(one, &here);
    assert_ne!(begun, Address::of_authorization(other, &here));
    assert_ne!(begun, Address::of_authorization(one, &elsewhere));
}

#[tokio::test]
async fn credentials_that_a_run_brings_open_for_the_addresses_of_its_request_alone() {
    let rig = Rig::new().await;
    let engine = rig.start().await;
    let connections = &engine.0.stores.connections;
    let request = json!({"prompt": "x", "shell": false, "connections": {
        "crm": {"type": "http", "url": "http://here.example/v1", "auth": {"type": "bearer", "token": "hush"}}}});
    let request = serde_json::from_value(request).unwrap();
    let run: RunId = match engine.create_run(&rig.caller, request, None).await.unwrap() {
        Created::New(run) | Created::Existing(run) => run.id,
    };
    let brought = |url: &str| {
        let wanted = json!({"crm": {"type": "http", "url": url}});
        let wanted = serde_json::from_value(wanted).unwrap();
        let connections = connections.clone();
        let org = rig.caller.org;
        async move { connections.inline_secrets((org, run), &wanted).await }
    };
    let secrets = brought("http://here.example/v1").await.unwrap();
    assert_eq!(secrets["crm"].texts(), ["hush"]);
    let refused = brought("http://elsewhere.example/v1")
        .await
        .map(drop)
        .unwrap_err();
    assert!(refused.contains("saved for another address"), "{refused}");
}

#[tokio::test]
async fn tokens_for_another_address_are_authorized_again_and_not_kept() {
    let rig = Rig::new().await;
    let engine = rig.start().await;
    let (connections, org) = (&engine.0.stores.connections, rig.caller.org);
    let definition = || put(r#"{"type":"mcp","url":"http://here.example/v1","auth":{"type":"oauth"}}"#);
    connections.put(&rig.caller, "c1", definition()).await.unwrap();
    let id = rig.row().await.id;
    let here = Address::of(&definition());
    for (address, is_kept) in [(&Address::of(&put(ELSEWHERE)), false), (&here, true)] {
        rig.store_tokens("at", address).await;
        let tokens = ConnectionTokens::new(connections.clone(), (org, id), here.clone());
        match tokens.token(None).await {
            Ok(token) => assert!(is_kept, "{token:?}"),
            Err(TokenError::NeedsAuthorization(why)) => {
                assert!(!is_kept && why.contains("authorize it again"), "{why}");
            }
            Err(error) => panic!("{error:?}"),
        }
        connections.put(&rig.caller, "c1", definition()).await.unwrap();
        assert_eq!(rig.row().await.tokens.is_some(), is_kept);
    }
}

#[tokio::test]
async fn tokens_that_nobody_has_confirmed_are_deleted_on_a_node_without_retention() {
    let rig = Rig::new().await;
    let engine = rig.start().await;
    engine
        .connections()
        .put(&rig.caller, "c1", put(HERE))
        .await
        .unwrap();
    engine.shutdown().await;
    let connection = rig.row().await.id;
    let flow = OauthFlow {
        state_hash: [1; 32],
        org: rig.caller.org,
        connection,
        revision: 1,
        pending: b"tokens".to_vec(),
        expires_at: Timestamp::from_micros(BEGIN.as_micros() - 1),
    };
    let waits = rig
        .store
        .await_confirmation(flow, "waits".to_owned(), rig.audit());
    assert!(waits.await.unwrap());
    let _engine = rig.start().await;
    let count = || {
        let database = rig.database();
        database.query_row("SELECT COUNT(*) FROM oauth_flow", (), |row| row.get::<_, i64>(0))
    };
    while count().unwrap() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_late_challenge_to_a_token_from_before_an_authorization_does_not_count() {
    let rig = Rig::new().await;
    let engine = rig.start().await;
    let (connections, org) = (&engine.0.stores.connections, rig.caller.org);
    let definition = || put(r#"{"type":"mcp","url":"http://here.example/v1","auth":{"type":"oauth"}}"#);
    connections.put(&rig.caller, "c1", definition()).await.unwrap();
    let (address, id) = (Address::of(&definition()), rig.row().await.id);
    rig.store_tokens("new", &address).await;
    let tokens = ConnectionTokens::new(connections.clone(), (org, id), address);
    let challenge = || {
        let mut challenge = sortie_connect::oauth::Challenge::default();
        challenge.scope = Some("write".to_owned());
        challenge
    };
    tokens.challenged(&Credential::new("old"), challenge()).await;
    assert_eq!(rig.row().await.challenge, None);
    tokens.challenged(&Credential::new("new"), challenge()).await;
    let kept = connections.challenge_of(org, &rig.row().await).unwrap();
    assert_eq!(kept.scope.as_deref(), Some("write"));
}

#[test]
fn the_form_of_an_address_stays_for_what_is_sealed_with_it() {
    for (text, address) in [
        (
            r#"{"type":"http","url":"https://a.example/v1","allowed_methods":["GET"]}"#,
            r#"["http","https://a.example/v1",null]"#,
        ),
        (
            r#"{"type":"mcp","command":["npx","x y"],"description":"d"}"#,
            r#"["mcp",null,["npx","x y"]]"#,
        ),
    ] {
        assert_eq!(Address::of(&put(text)).0, address);
    }
    let inline: RunConnection =
        serde_json::from_str(r#"{"type":"http","url":"https://a.example/v1"}"#).unwrap();
    assert_eq!(
        Address::of_inline(&inline).unwrap().0,
        r#"["http","https://a.example/v1",null]"#
    );
    assert!(Address::of_inline(&RunConnection::default()).is_none());
}
