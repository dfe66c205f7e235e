//! A hosted server on free ports, with people and two organizations.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use sortie_accounts::{Accounts, SignUp};
use sortie_api::{
    AuditId, Mode, OrgId, Role, SessionId, Timestamp, UserId,
    secret::{SESSION_TOKEN, Secret},
};
use sortie_base::{Clock, MasterKey, Sealer};
use sortie_engine::Engine;
use sortie_server::{Listeners, Options, OrganizationListener};
use sortie_store::{Actor, Audit, NewOrganization, NewPerson, NewSession, SessionKind, SignIn, Store};
use sortie_testkit::Client;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Time at which the clock of the accounts stands.
pub(crate) const AT: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);

/// Server with the organizations `ours` and `theirs`.
pub(crate) struct Rig {
    /// Owner of `ours`.
    pub(crate) owner: Signed,
    /// Admin of `ours`.
    pub(crate) admin: Signed,
    /// Member of `ours`.
    pub(crate) member: Signed,
    /// Owner of `theirs`.
    pub(crate) stranger: Signed,
    /// The first organization.
    pub(crate) ours: OrgId,
    /// The second organization.
    pub(crate) theirs: OrgId,
    /// Address of the engine API.
    pub(crate) engine_address: SocketAddr,
    /// Address of the organization API.
    pub(crate) address: SocketAddr,
    /// Address of the organization API, as the cookie and the OAuth server know it.
    pub(crate) org_url: String,
    pub(crate) engine: Engine,
    pub(crate) accounts: Accounts,
    /// Clock of the accounts. It stands still until a test moves it.
    pub(crate) clock: Clock,
    pub(crate) stop: CancellationToken,
    serving: TaskTracker,
    file: PathBuf,
    _dir: TempDir,
}

/// A person with a session.
pub(crate) struct Signed {
    pub(crate) user: UserId,
    pub(crate) session: SessionId,
    pub(crate) token: String,
    /// With the token of the session, on the organization API.
    pub(crate) client: Client,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts a server whose options of the accounts `change` has changed.
    pub(crate) async fn start_with(change: impl FnOnce(&mut sortie_accounts::Options)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sortie.db");
        let store = Store::open(&format!("sqlite:{}", file.display())).await.unwrap();
        let (api, organization) = (listener().await, listener().await);
        let (engine_address, address) = (api.local_addr().unwrap(), organization.local_addr().unwrap());
        let (org_url, engine_url) = (format!("http://{address}"), format!("http://{engine_address}"));
        let master_key = MasterKey::new([7; 32]);
        let clock = Clock::manual(AT);
        let options = sortie_engine::Options {
            mode: Mode::Hosted,
            clock: clock.clone(),
            data_dir: dir.path().to_owned(),
            shutdown_grace: Duration::from_millis(50),
            master_keys: vec![master_key.clone()],
            base_url: Some(engine_url.clone()),
            ..sortie_engine::Options::default()
        };
        let no_sandbox = Err("this test has no sandbox.".to_owned());
        let engine = Engine::start(options, store.clone(), no_sandbox).await.unwrap();
        let mut options = sortie_accounts::Options {
            clock: clock.clone(),
            org_url: org_url.clone(),
            engine_url: engine_url.clone(),
            sign_up: SignUp::Open,
            mail: None,
        };
        change(&mut options);
        let accounts = Accounts::new(options, store, Sealer::new(vec![master_key]));
        let listeners = Listeners {
            api,
            metrics: None,
            organization: Some(OrganizationListener {
                listener: organization,
                accounts: accounts.clone(),
            }),
        };
        let (stop, serving) = (CancellationToken::new(), TaskTracker::new());
        serving.spawn(sortie_server::serve(
            listeners,
            engine.clone(),
            Arc::new(server_options(engine_url)),
            stop.clone(),
        ));
        serving.close();
        let people = People {
            store: accounts.store().clone(),
            address,
        };
        let (owner, admin) = (people.sign_up("owner", 1).await, people.sign_up("admin", 2).await);
        let (member, stranger) = (
            people.sign_up("member", 3).await,
            people.sign_up("stranger", 4).await,
        );
        let ours = people.organization("ours", 1, owner.user).await;
        let theirs = people.organization("theirs", 2, stranger.user).await;
        let rig = Self {
            owner,
            admin,
            member,
            stranger,
            ours,
            theirs,
            engine_address,
            address,
            org_url,
            engine,
            accounts,
            clock,
            stop,
            serving,
            file,
            _dir: dir,
        };
        rig.join(ours, rig.admin.user, Role::Admin);
        rig.join(ours, rig.member.user, Role::Member);
        rig
    }

    /// Makes a person a member, past the store.
    pub(crate) fn join(&self, org: OrgId, user: UserId, role: Role) {
        self.meddle(
            "INSERT INTO membership (org_id, user_id, role, created_at) VALUES (?1, ?2, ?3, 1)",
            &[&org.to_string(), &user.to_string(), role.as_str()],
        );
    }

    /// Changes the role of a member, past the store.
    pub(crate) fn set_role(&self, org: OrgId, user: UserId, role: Role) {
        self.meddle(
            "UPDATE membership SET role = ?3 WHERE org_id = ?1 AND user_id = ?2",
            &[&org.to_string(), &user.to_string(), role.as_str()],
        );
    }

    /// Changes the database past the store.
    pub(crate) fn meddle(&self, sql: &str, parameters: &[&str]) {
        let connection = rusqlite::Connection::open(&self.file).unwrap();
        let changed = connection
            .execute(sql, rusqlite::params_from_iter(parameters))
            .unwrap();
        assert_eq!(changed, 1, "{sql}");
    }

    /// Signs a new person up, past the rules of passwords: the address is `NAME@example.com`, and verified.
    pub(crate) async fn sign_up(&self, name: &str, number: u8) -> Signed {
        let people = People {
            store: self.accounts.store().clone(),
            address: self.address,
        };
        people.sign_up(name, number).await
    }

    /// Begins another session of a person. Returns the token.
    pub(crate) async fn another_session(&self, user: UserId) -> String {
        let token = Secret::new(SESSION_TOKEN, sortie_base::random().unwrap());
        let session = NewSession {
            id: SessionId::new(AT, sortie_base::random().unwrap()),
            hash: token.hash(),
            user,
            kind: SessionKind::Api,
            created_at: AT,
            expires_at: AT + Duration::from_hours(24 * 30),
            address: None,
            agent: None,
        };
        let store = self.accounts.store();
        store.sign_in(session, SignIn::default()).await.unwrap();
        token.expose().to_owned()
    }

    /// A client of the engine API with this credential.
    pub(crate) fn engine_client(&self, credential: &str) -> Client {
        Client::new(self.engine_address, Some(credential.to_owned()))
    }

    /// Stops the server and waits until it has ended.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.serving.wait().await;
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// Limits far above the requests of a test.
fn server_options(engine_url: String) -> Options {
    Options {
        requests_per_minute: 1_000_000,
        anonymous_requests_per_minute: 1_000_000,
        trusted_proxies: Vec::new(),
        base_url: Some(engine_url),
        deprecation: None,
    }
}

struct People {
    store: Store,
    address: SocketAddr,
}

impl People {
    async fn sign_up(&self, name: &str, number: u8) -> Signed {
        let (user, session) = (UserId::new(AT, [number; 10]), SessionId::new(AT, [number; 10]));
        let token = Secret::new(SESSION_TOKEN, [number; 32]);
        let email = format!("{name}@example.com");
        let person = NewPerson {
            id: user,
            email_key: email.clone(),
            email,
            name: name.to_owned(),
            // No password has this hash.
            password: String::new(),
            created_at: AT,
        };
        let begun = NewSession {
            id: session,
            hash: token.hash(),
            user,
            kind: SessionKind::Api,
            created_at: AT,
            expires_at: AT + Duration::from_hours(24 * 30),
            address: None,
            agent: None,
        };
        self.store.sign_up(person, Some(begun), None).await.unwrap();
        Signed {
            user,
            session,
            client: Client::new(self.address, Some(token.expose().to_owned())),
            token: token.expose().to_owned(),
        }
    }

    async fn organization(&self, name: &str, number: u8, owner: UserId) -> OrgId {
        let id = OrgId::new(AT, [number; 10]);
        let audit = Audit {
            id: AuditId::new(AT, [number; 10]),
            org: id,
            at: AT,
            actor: Actor::default(),
            action: "organization.create",
            target: id.to_string(),
        };
        let new = NewOrganization {
            id,
            name: name.to_owned(),
            owner,
            created_at: AT,
        };
        self.store.create_organization(new, audit).await.unwrap();
        id
    }
}
