//! A server on a free port with two organizations.

use std::{net::SocketAddr, path::Path, sync::Arc};

use sortie_api::{
    AuditId, KeyId, LedgerKind, Mode, OrgId, Role, Timestamp,
    secret::{HOSTED_KEY, SELF_HOSTED_KEY, Secret},
};
use sortie_base::spawn_short;
use sortie_engine::{Engine, MasterKey};
use sortie_server::Options;
use sortie_store::{
    Store,
    access::{Actor, Audit, NewKey},
    money::NewLedgerEntry,
};
use sortie_testkit::PATIENCE;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::prelude::*;

/// Master key of the engine.
pub(crate) const MASTER_KEY: [u8; 32] = [7; 32];

const AT: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);

pub(crate) struct Rig {
    /// Client with the admin key of the first organization.
    pub(crate) admin: Client,
    /// Client with a member key of the first organization.
    pub(crate) member: Client,
    /// Member key of the first organization.
    pub(crate) member_key: String,
    /// Client with an admin key of the second organization.
    pub(crate) stranger: Client,
    /// The first organization.
    pub(crate) org: OrgId,
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine,
    pub(crate) stop: CancellationToken,
    serving: TaskTracker,
    pub(crate) dir: TempDir,
    memory: Option<TempDir>,
}

/// A key, and a client that uses it.
pub(crate) struct FreshKey {
    pub(crate) id: String,
    pub(crate) client: Client,
}

/// Limits far above the requests of a test.
pub(crate) fn options() -> Options {
    Options {
        requests_per_minute: 1_000_000,
        anonymous_requests_per_minute: 1_000_000,
        ..Options::default()
    }
}

/// A request that ends at once and needs no sandbox.
pub(crate) fn plain(prompt: &str) -> Value {
    json!({"prompt": prompt, "shell": false})
}

/// A request that stays active until it is cancelled.
pub(crate) fn waiting() -> Value {
    plain("```wait 3600000\n```")
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::start_with(Mode::SelfHosted, options()).await
    }

    pub(crate) async fn start_with(mode: Mode, options: Options) -> Self {
        Self::start_engine(mode, options, sortie_engine::Options::default()).await
    }

    /// Starts with a directory in memory, which runs with zero data retention need.
    pub(crate) async fn start_in_memory() -> Self {
        let memory = tempfile::Builder::new()
            .prefix("sortie-test-")
            .tempdir_in("/dev/shm")
            .unwrap();
        let engine = sortie_engine::Options {
            memory_dir: Some(memory.path().join("work")),
            ..sortie_engine::Options::default()
        };
        let mut rig = Self::start_engine(Mode::SelfHosted, options(), engine).await;
        rig.memory = Some(memory);
        rig
    }

    /// Starts with these settings of the engine, except those that the rig sets.
    pub(crate) async fn start_engine(mode: Mode, options: Options, engine: sortie_engine::Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sortie.db");
        let store = Store::open(&format!("sqlite:{}", file.display())).await.unwrap();
        let engine = sortie_engine::Options {
            mode,
            data_dir: dir.path().to_owned(),
            shutdown_grace: Duration::from_millis(50),
            master_keys: vec![MasterKey::new(MASTER_KEY)],
            base_url: Some("http://127.0.0.1:9".to_owned()),
            ..engine
        };
        let no_sandbox = Err("this test has no sandbox.".to_owned());
        let engine = Engine::start(engine, store, no_sandbox).await.unwrap();
        let prefix = prefix(mode);
        let first = Secret::new(prefix, [0; 32]);
        assert!(engine.bootstrap(&first).await.unwrap(), "a new store");
        let org = engine.authenticate(first.expose()).await.unwrap().unwrap().org;
        let other = second_organization(&file);
        if mode == Mode::Hosted {
            for org in [org, other] {
                give_credits(&engine, org).await;
            }
        }
        let member = key(&engine, prefix, org, Role::Member, 1).await;
        let stranger = key(&engine, prefix, other, Role::Admin, 2).await;

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let admin = Client::new(address, Some(first.expose().to_owned()));
        let (stop, serving) = (CancellationToken::new(), TaskTracker::new());
        spawn_short(
            &serving,
            sortie_server::serve(listener, engine.clone(), Arc::new(options), stop.clone()),
        );
        serving.close();
        Self {
            member: admin.with_key(member.expose()),
            member_key: member.expose().to_owned(),
            stranger: admin.with_key(stranger.expose()),
            admin,
            org,
            address,
            engine,
            stop,
            serving,
            dir,
            memory: None,
        }
    }

    /// Removes the second organization from the database.
    pub(crate) fn remove_stranger(&self) {
        let org = self.org;
        let remove = format!(
            "DELETE FROM api_key WHERE org_id <> '{org}'; DELETE FROM organization WHERE id <> '{org}'"
        );
        self.database().execute_batch(&remove).unwrap();
    }

    /// Direct connection to the database.
    pub(crate) fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.dir.path().join("sortie.db")).unwrap()
    }

    /// Creates a valid admin key.
    pub(crate) async fn new_key(&self, name: &str) -> FreshKey {
        let body = json!({"name": name, "role": "admin"});
        let made = self.admin.post("/v1/admin/keys", &body).must_json(201).await;
        let client = self.admin.with_key(made["key"].as_str().unwrap());
        client.get("/v1/me").must(200).await;
        FreshKey {
            id: made["id"].as_str().unwrap().to_owned(),
            client,
        }
    }

    /// An admin key of the first organization that has expired long ago.
    pub(crate) async fn expired_key(&self) -> Secret {
        let secret = Secret::new(prefix(self.engine.mode()), [3; 32]);
        let key = NewKey {
            id: KeyId::new(AT, [3; 10]),
            org: self.org,
            name: "expired".to_owned(),
            role: Role::Admin,
            hash: secret.hash(),
            created_at: AT,
            expires_at: Some(AT + Duration::from_secs(1)),
        };
        record(&self.engine, key).await;
        secret
    }

    /// A well-formed but unknown key.
    pub(crate) fn unknown_key(&self) -> Secret {
        Secret::new(prefix(self.engine.mode()), [99; 32])
    }

    /// Waits until `serve` has returned.
    pub(crate) async fn served(&self) {
        tokio::time::timeout(PATIENCE, self.serving.wait())
            .await
            .expect("serve returns after the stop");
    }
}

/// Prefix of the keys of a deployment mode.
fn prefix(mode: Mode) -> &'static str {
    match mode {
        Mode::SelfHosted => SELF_HOSTED_KEY,
        Mode::Hosted => HOSTED_KEY,
    }
}

/// No command creates a second organization on a self-hosted engine yet, so it is written directly to the database.
fn second_organization(file: &Path) -> OrgId {
    let org = OrgId::new(AT, [9; 10]);
    rusqlite::Connection::open(file)
        .unwrap()
        .execute(
            "INSERT INTO organization (id, name, created_at) VALUES (?1, 'other', 1)",
            [org.to_string()],
        )
        .unwrap();
    org
}

/// Gives an organization credits for every run of a test.
async fn give_credits(engine: &Engine, org: OrgId) {
    let entry = NewLedgerEntry {
        cause: format!("grant:{org}"),
        org,
        kind: LedgerKind::Grant,
        amount_micros: 1_000_000_000,
        description: "for tests".to_owned(),
        payment: None,
        topup: None,
        user: None,
        at: AT,
    };
    let audit = Audit {
        id: AuditId::new(AT, sortie_base::random().unwrap()),
        org,
        at: AT,
        actor: Actor::default(),
        action: "credits.grant",
        target: org.to_string(),
    };
    engine.store().move_credits(entry, audit).await.unwrap();
}

/// Stores a key without a request to the API.
async fn key(engine: &Engine, prefix: &str, org: OrgId, role: Role, number: u8) -> Secret {
    let secret = Secret::new(prefix, [number; 32]);
    let key = NewKey {
        id: KeyId::new(AT, [number; 10]),
        org,
        name: format!("key {number}"),
        role,
        hash: secret.hash(),
        created_at: AT,
        expires_at: None,
    };
    record(engine, key).await;
    secret
}

async fn record(engine: &Engine, key: NewKey) {
    let audit = Audit {
        id: AuditId::new(AT, [key.hash[0]; 10]),
        org: key.org,
        at: AT,
        actor: Actor::default(),
        action: "key.create",
        target: key.id.to_string(),
    };
    engine.store().create_key(key, audit).await.unwrap();
}
