use serde_json::{Value, json};
use sortie_api::{
    ConnectionId, Credential, OrgId, RunId,
    check::{Check, Verdict},
    connection::ConnectionDefinition,
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_connect::{Auth, Target, TokenError, Tokens as _};
use sortie_store::{Actor, Created, NewNode, NodeId, OauthFlow, SaveConnection, Store};
use tempfile::TempDir;

use super::*;
use crate::{
    Engine,
    connections::{
        addressed::inline_at,
        credentials_at,
        tokens::{ConnectionTokens, tokens_at},
    },
    kit::{
        caller::Caller,
        options::{Options, Serves},
    },
};
use sortie_base::{Clock, MasterKey, Sealer};

const BEGIN: Timestamp = Timestamp::from_micros(1_767_225_630_000_000);
const HERE: &str = r#"{"type":"http","url":"http://here.example/v1"}"#;
const ELSEWHERE: &str = r#"{"type":"http","url":"http://elsewhere.example/v1"}"#;
/// The credentials of a connection as the version before has sealed them.
const SECRETS: &str = r#"{"auth":{"bearer":{"token":"hush"}},"headers":{},"query":null,"env":{}}"#;

/// A database that engines of a data folder are started on, one after the other.
struct Rig {
    store: Store,
    dir: TempDir,
    clock: Clock,
    caller: Caller,
}

impl Rig {
    /// Beside no sealed value yet.
    async fn new() -> Self {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::manual(BEGIN));
        let store = crate::testing::store_in(&dir).await;
        let caller = Caller {
            org: OrgId::new(BEGIN, [1; 10]),
            actor: Actor::default(),
        };
        let rig = Self {
            store,
            dir,
            clock,
            caller,
        };
        let engine = rig.start().await;
        let key = Secret::new(SELF_HOSTED_KEY, [7; 32]);
        assert!(engine.bootstrap(&key).await.unwrap());
        let org = engine.authenticate(key.expose()).await.unwrap().unwrap().org;
        engine.shutdown().await;
        let caller = Caller { org, ..rig.caller };
        Self { caller, ..rig }
    }

    async fn start(&self) -> Engine {
        let options = Options {
            clock: self.clock.clone(),
            data_dir: self.dir.path().to_owned(),
            node_name: "new".to_owned(),
            serves: Serves::Nothing,
            master_keys: vec![key()],
            heartbeat: Duration::from_hours(1),
            retention: None,
            ..Options::default()
        };
        let sandbox = Err("this test has none.".to_owned());
        Engine::start(options, self.store.clone(), sandbox).await.unwrap()
    }

    /// Saves a connection with tokens, and the key check, as a node of the version before does.
    async fn saved_before(&self) -> ConnectionId {
        self.store
            .seal_check(sealed(SEAL_CHECK, INCOMPLETE))
            .await
            .unwrap();
        self.save(1, HERE).await
    }

    async fn save(&self, number: u8, definition: &str) -> ConnectionId {
        let (id, org) = (ConnectionId::new(BEGIN, [number; 10]), self.caller.org);
        let new = SaveConnection {
            id,
            org,
            name: format!("c{number}"),
            definition: definition.to_owned(),
            credentials: sealed(credentials_at(&id.to_string(), org), SECRETS.as_bytes()),
            status: sortie_api::ConnectionStatus::Ready,
            at: BEGIN,
        };
        let made = self.store.create_connection(new, 10, self.audit()).await;
        assert!(made.unwrap());
        id
    }

    /// The connection `c1` as it is stored.
    async fn row(&self) -> sortie_store::ConnectionRow {
        self.store.get_connection(self.caller.org, "c1").await.unwrap()
    }

    fn audit(&self) -> sortie_store::Audit {
        self.caller.audit(&self.clock, "connection.put", "c").unwrap()
    }

    /// A node of the version before is at work, or not any more.
    async fn earlier_node(&self) {
        let node = NewNode {
            id: NodeId(7),
            name: "earlier".to_owned(),
            started_at: BEGIN,
            lease_until: BEGIN + Duration::from_secs(10),
            address: None,
            version: "0.1.0".to_owned(),
            master_keys: Some(vec![key().id()]),
            draining_since: None,
        };
        self.store.register_node(node).await.unwrap();
    }

    fn sql(&self, statement: &str) {
        let changed = self.database().execute(statement, ());
        assert_eq!(changed.unwrap(), 1, "{statement}");
    }

    fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.dir.path().join("test.db")).unwrap()
    }

    /// Result of the master key check of `doctor`.
    async fn master_key_check(&self, engine: &Engine) -> Check {
        let found = engine
            .checks(Some(self.caller.org), crate::operations::checks::Providers::Left)
            .await;
        let mut checks = found.checks.into_iter();
        checks.find(|check| check.name == "master key").unwrap()
    }

    /// The bearer token that a run would be given for a connection, or why not.
    async fn token(&self, engine: &Engine, number: u8) -> Result<String, String> {
        let org = self.caller.org;
        let row = self
            .store
            .get_connection(org, &format!("c{number}"))
            .await
            .unwrap();
        let connection = engine.0.stores.connections.saved(org, "c", &row)?;
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

/// A text sealed as it is, by the version before as well as by this one.
fn sealed(context: SealContext<'_>, text: &[u8]) -> Vec<u8> {
    Sealer::new(vec![key()])
        .seal(context, text, random().unwrap())
        .unwrap()
}

fn opened(context: SealContext<'_>, sealed: &[u8]) -> Value {
    let text = Sealer::new(vec![key()]).open(context, sealed).unwrap();
    serde_json::from_slice(&text).unwrap()
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
    assert_eq!(rig.token(&engine, 1).await.as_deref(), Ok("hush"));
    for changed in [
        ELSEWHERE,
        r#"{"type":"mcp","url":"http://here.example/v1"}"#,
        r#"{"type":"mcp","command":["sh"]}"#,
    ] {
        rig.sql(&format!("UPDATE connection SET definition = '{changed}'"));
        let refused = rig.token(&engine, 1).await.unwrap_err();
        assert!(refused.contains("saved for another address"), "{refused}");
    }
    rig.sql(&format!("UPDATE connection SET definition = '{HERE}'"));
    assert_eq!(rig.token(&engine, 1).await.as_deref(), Ok("hush"));
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
    let [one, other] = [1, 2].map(|number| ConnectionId::new(BEGIN, [number; 10]));
    let begun = Address::of_authorization(one, &here);
    assert_ne!(begun, Address::of_authorization(other, &here));
    assert_ne!(begun, Address::of_authorization(one, &elsewhere));
}

#[tokio::test]
async fn what_the_version_before_has_sealed_opens_once_with_its_address_and_never_again_without() {
    let rig = Rig::new().await;
    let id = rig.saved_before().await;
    let org = rig.caller.org;
    let row = id.to_string();
    let before = rig.store.get_connection(org, "c1").await.unwrap().credentials;
    let engine = rig.start().await;
    assert_eq!(rig.token(&engine, 1).await.as_deref(), Ok("hush"));
    let after = rig.store.get_connection(org, "c1").await.unwrap().credentials;
    let found = opened(credentials_at(&row, org), &after);
    assert_eq!(found["address"], r#"["http","http://here.example/v1",null]"#);
    assert_eq!(found["auth"]["bearer"]["token"], "hush");
    let (check, text) = engine.0.stores.connections.key_check().await.unwrap().unwrap();
    assert_eq!(text, COMPLETE);
    engine.shutdown().await;

    // Whoever writes the database puts the old values back, the key check included, and another address beside them.
    let hex = |bytes: &[u8]| sortie_base::hex(bytes);
    let old_check = sealed(SEAL_CHECK, INCOMPLETE);
    for statement in [
        format!(
            "UPDATE connection SET definition = '{ELSEWHERE}', credentials = x'{}'",
            hex(&before)
        ),
        format!("UPDATE seal_check SET sealed = x'{}'", hex(&old_check)),
    ] {
        rig.sql(&statement);
    }
    let engine = rig.start().await;
    let refused = rig.token(&engine, 1).await.unwrap_err();
    assert!(refused.contains("without their address"), "{refused}");
    assert!(refused.contains("`addresses.sealed`"), "{refused}");
    assert_eq!(engine.0.stores.connections.unaddressed(), Unaddressed::Refused);
    let doctor = rig.master_key_check(&engine).await;
    assert_eq!(doctor.verdict, Verdict::Fault, "{doctor:?}");
    assert!(doctor.hints.concat().contains("addresses.sealed"), "{doctor:?}");
    engine.shutdown().await;

    // A key check that is gone is none from before, and neither is that of somebody who has no key.
    rig.sql("DELETE FROM seal_check");
    std::fs::remove_file(rig.dir.path().join(REMEMBERED)).unwrap();
    let engine = rig.start().await;
    assert!(rig.token(&engine, 1).await.is_err());
    engine.shutdown().await;
    rig.store.seal_check(check).await.unwrap();
    let engine = rig.start().await;
    assert!(rig.token(&engine, 1).await.is_err());
}

#[tokio::test]
async fn the_upgrade_waits_for_nodes_of_the_version_before_and_both_read_what_either_writes() {
    let rig = Rig::new().await;
    rig.saved_before().await;
    rig.earlier_node().await;
    let engine = rig.start().await;
    let connections = &engine.0.stores.connections;
    let now = engine.0.cluster.identity.leases.now();
    assert_eq!(
        connections.complete_upgrade(now).await.unwrap(),
        Upgrade::Waits(vec!["earlier".to_owned()])
    );
    assert_eq!(rig.token(&engine, 1).await.as_deref(), Ok("hush"));
    let check = rig.master_key_check(&engine).await;
    assert!(
        check.found.contains("not sealed with their addresses yet"),
        "{}",
        check.found
    );
    // The version before reads the fields that it knows of a value of this one.
    let definition =
        put(r#"{"type":"http","url":"http://here.example/v1","auth":{"type":"bearer","token":"new"}}"#);
    connections.put(&rig.caller, "c2", definition).await.unwrap();
    let row = rig.store.get_connection(rig.caller.org, "c2").await.unwrap();
    let place_row = row.id.to_string();
    let text = Sealer::new(vec![key()])
        .open(credentials_at(&place_row, rig.caller.org), &row.credentials)
        .unwrap();
    assert_eq!(serde_json::from_slice::<Secrets>(&text).unwrap().texts(), ["new"]);
    // A value that it writes meanwhile opens, and gets its address once it is gone.
    rig.save(3, HERE).await;
    assert_eq!(rig.token(&engine, 3).await.as_deref(), Ok("hush"));
    rig.store.deregister_node(NodeId(7), BEGIN).await.unwrap();
    assert_eq!(
        connections.complete_upgrade(now).await.unwrap(),
        Upgrade::Complete
    );
    for number in 1..=3 {
        assert!(rig.token(&engine, number).await.is_ok(), "{number}");
    }
    // A text of the version before that comes afterwards does not open.
    rig.save(4, HERE).await;
    assert!(rig.token(&engine, 4).await.is_err());
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

    // Credentials of the version before get the addresses that stand in the definition of the run.
    let place_row = run.to_string();
    let context = inline_at(&place_row, rig.caller.org);
    let row = CredentialRow {
        sealed: sortie_store::SealedRow {
            row: RowKey::Text(place_row.clone()),
            org: Some(rig.caller.org),
            sealed: sealed(context, format!(r#"{{"crm":{SECRETS}}}"#).as_bytes()),
        },
        definition: r#"{"prompt":"x","connections":{"crm":{"type":"http","url":"http://here.example/v1"}}}"#
            .to_owned(),
    };
    let new = connections
        .with_address(SealedColumn::RunSecret, context, &row)
        .unwrap()
        .unwrap();
    let new = sealed(context, &new);
    let found = opened(context, &new);
    assert_eq!(
        found["crm"]["address"],
        r#"["http","http://here.example/v1",null]"#
    );
    let done = CredentialRow {
        sealed: sortie_store::SealedRow {
            sealed: new,
            ..row.sealed
        },
        ..row
    };
    assert_eq!(
        connections
            .with_address(SealedColumn::RunSecret, context, &done)
            .unwrap(),
        None
    );
}

#[tokio::test]
async fn a_database_in_which_nothing_was_sealed_is_upgraded_once_the_nodes_of_the_version_before_are_gone() {
    let rig = Rig::new().await;
    rig.earlier_node().await;
    let engine = rig.start().await;
    let connections = &engine.0.stores.connections;
    let now = engine.0.cluster.identity.leases.now();
    let definition =
        put(r#"{"type":"http","url":"http://here.example/v1","auth":{"type":"bearer","token":"new"}}"#);
    connections.put(&rig.caller, "c2", definition).await.unwrap();
    let (_, text) = connections.key_check().await.unwrap().unwrap();
    assert_eq!(text, INCOMPLETE);
    rig.save(3, HERE).await;
    assert_eq!(rig.token(&engine, 3).await.as_deref(), Ok("hush"));
    rig.store.deregister_node(NodeId(7), BEGIN).await.unwrap();
    // Even where the key check is gone meanwhile.
    rig.sql("DELETE FROM seal_check");
    assert_eq!(
        connections.complete_upgrade(now).await.unwrap(),
        Upgrade::Complete
    );
    assert_eq!(rig.token(&engine, 3).await.as_deref(), Ok("hush"));
    let (_, text) = connections.key_check().await.unwrap().unwrap();
    assert_eq!(text, COMPLETE);
}

#[tokio::test]
async fn an_upgrade_that_cannot_seal_a_credential_this_time_is_not_complete() {
    let rig = Rig::new().await;
    rig.saved_before().await;
    let refuses =
        "CREATE TRIGGER refuses BEFORE INSERT ON seal_check BEGIN SELECT RAISE(ABORT, 'not now'); END";
    rig.database().execute_batch(refuses).unwrap();
    let engine = rig.start().await;
    let connections = &engine.0.stores.connections;
    let now = engine.0.cluster.identity.leases.now();
    assert!(connections.complete_upgrade(now).await.is_err());
    assert_eq!(connections.unaddressed(), Unaddressed::Opens);
    rig.database().execute_batch("DROP TRIGGER refuses").unwrap();
    let completed = loop {
        match connections.complete_upgrade(now).await {
            // The engine's own task was at it.
            Err(Error::Conflict(_)) => {}
            found => break found.unwrap(),
        }
    };
    assert_eq!(completed, Upgrade::Complete);
    assert_eq!(rig.token(&engine, 1).await.as_deref(), Ok("hush"));
}

#[tokio::test]
async fn tokens_without_an_address_are_authorized_again_once_the_upgrade_is_complete() {
    let rig = Rig::new().await;
    let engine = rig.start().await;
    let (connections, org) = (&engine.0.stores.connections, rig.caller.org);
    let definition = || put(r#"{"type":"mcp","url":"http://here.example/v1","auth":{"type":"oauth"}}"#);
    connections.put(&rig.caller, "c1", definition()).await.unwrap();
    let row = rig.store.get_connection(org, "c1").await.unwrap();
    let id = row.id.to_string();
    let held = json!({"given_at": BEGIN, "grant": {
        "access_token": "at", "expires_in_seconds": null, "refresh_token": null, "scope": null,
        "issuer": "http://issuer.example", "token_url": "http://issuer.example/token", "resource": null,
        "identity": {"client_id": "c", "client_secret": null, "method": "none"}}});
    let store_tokens = |text: &Value| {
        let tokens = sortie_base::hex(&sealed(tokens_at(&id, org), text.to_string().as_bytes()));
        rig.sql(&format!("UPDATE connection SET tokens = x'{tokens}'"));
    };
    let is_kept = async || {
        connections.put(&rig.caller, "c1", definition()).await.unwrap();
        let row = rig.store.get_connection(org, "c1").await.unwrap();
        row.tokens.is_some()
    };
    store_tokens(&held);
    let address = Address::of(&definition());
    let tokens = ConnectionTokens::new(connections.clone(), (org, row.id), address.clone());
    let refused = tokens.token(None).await;
    assert!(
        matches!(&refused, Err(TokenError::NeedsAuthorization(why)) if why.contains("authorize it again")),
        "{refused:?}"
    );
    let row = rig.store.get_connection(org, "c1").await.unwrap();
    assert_eq!(connections.first_issuer(org, &row).unwrap(), None);
    assert!(!is_kept().await);
    let mut addressed = held;
    addressed["address"] = json!(address);
    store_tokens(&addressed);
    let row = rig.store.get_connection(org, "c1").await.unwrap();
    let issuer = connections.first_issuer(org, &row).unwrap();
    assert_eq!(issuer.as_deref(), Some("http://issuer.example"));
    assert!(is_kept().await);
}

#[tokio::test]
async fn tokens_that_nobody_has_confirmed_are_deleted_on_a_node_without_retention() {
    let rig = Rig::new().await;
    let connection = rig.saved_before().await;
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
    let held = json!({"given_at": BEGIN, "address": address, "grant": {
        "access_token": "new", "expires_in_seconds": null, "refresh_token": null, "scope": null,
        "issuer": null, "token_url": "http://issuer.example/token", "resource": null,
        "identity": {"client_id": "c", "client_secret": null, "method": "none"}}});
    let tokens = sealed(tokens_at(&id.to_string(), org), held.to_string().as_bytes());
    rig.sql(&format!(
        "UPDATE connection SET tokens = x'{}', tokens_version = 2",
        sortie_base::hex(&tokens)
    ));
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
