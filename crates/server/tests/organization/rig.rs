//! Hosted servers on free ports, with people and two organizations.

use std::{net::SocketAddr, ops::Deref, path::Path, sync::Arc};

use sortie_accounts::Accounts;
use sortie_api::SignUpRule;
use sortie_api::{
    AuditId, Credential, LedgerKind, Micros, Mode, OrgId, SessionId, Timestamp, UserId,
    secret::{SESSION_TOKEN, Secret},
};
use sortie_base::{Clock, MasterKey, Sealer, spawn_short};
use sortie_billing::{AutoTopupLimits, Billing, Plan};
use sortie_engine::{Engine, Serves};
use sortie_server::{Listeners, Options, OrganizationListener};
use sortie_store::{
    OpenOptions, Store,
    access::{Actor, Audit},
    money::{Appended, NewLedgerEntry},
    people::{NewOrganization, NewPerson, NewSession, SessionKind, SignIn},
};
use sortie_testkit::{Balancer, StripeDouble, postgres::TestDatabase};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    prelude::*,
    settings::{Setting, in_front_of},
};

/// Initial time of the accounts' clock.
pub(crate) const AT: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);

/// Creation time of the organizations. The clock does not advance, so all changes of a test have the same time and are ordered by
/// their random ids.
const BEFORE: Timestamp = Timestamp::from_micros(1_763_674_100_000_000);

/// Hash that matches no password.
const NO_PASSWORD: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$c29ydGllLW5vYm9keS1hdC1hbGw$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Time for which a node caches the owner of a credential.
const KEPT: Duration = Duration::from_millis(300);

/// Nodes of one deployment with the organizations `ours` and `theirs`.
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
    /// Address of the engine API of each node.
    pub(crate) nodes: Vec<SocketAddr>,
    /// Address of the organization API.
    pub(crate) address: SocketAddr,
    /// Address of the organization API for the cookie and the OAuth server.
    pub(crate) org_url: String,
    /// Engine of the first node.
    pub(crate) engine: Engine,
    /// Accounts of the first node.
    pub(crate) accounts: Accounts,
    /// Payments of each node; empty if nothing is sold.
    pub(crate) billing: Vec<Billing>,
    /// Clock of the accounts. Only tests advance it.
    pub(crate) clock: Clock,
    pub(crate) stop: CancellationToken,
    serving: TaskTracker,
    database: TestDatabase,
    _balancers: Vec<Balancer>,
    _dir: TempDir,
}

/// A person with a session, and a client of the organization API with its token.
pub(crate) struct Signed {
    pub(crate) user: UserId,
    pub(crate) session: SessionId,
    pub(crate) token: String,
    client: Client,
}

impl Deref for Signed {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts nodes that execute no runs: runs stay queued.
    pub(crate) async fn start_idle() -> Self {
        Self::start_nodes(Serves::Nothing, None, |_| {}).await
    }

    /// Starts the nodes of the setting. `change` changes the options of their accounts.
    pub(crate) async fn start_with(change: impl Fn(&mut sortie_accounts::Options)) -> Self {
        Self::start_nodes(Serves::Everyone, None, change).await
    }

    /// Starts nodes that sell credits through the double, and sets its clock to theirs. The nodes run no payment worker.
    pub(crate) async fn start_selling(double: &StripeDouble) -> Self {
        double.set_clock(AT.as_micros() / 1_000_000);
        let rig = Self::start_nodes(Serves::Nothing, Some(double), |_| {}).await;
        double
            .send_webhooks(&rig.webhooks(), &WEBHOOK_SECRETS[..1])
            .unwrap();
        rig
    }

    /// Address for webhooks of the double.
    pub(crate) fn webhooks(&self) -> String {
        format!("{}/v1/webhooks/stripe", self.org_url)
    }

    async fn start_nodes(
        serves: Serves,
        double: Option<&StripeDouble>,
        change: impl Fn(&mut sortie_accounts::Options),
    ) -> Self {
        let setting = Setting::current();
        let (database, dir) = (setting.database().await, tempfile::tempdir().unwrap());
        let (clock, stop, serving) = (Clock::manual(AT), CancellationToken::new(), TaskTracker::new());
        let mut listeners = Vec::new();
        for _ in 0..setting.nodes() {
            listeners.push((listener().await, listener().await));
        }
        let address_of = |listener: &TcpListener| listener.local_addr().unwrap();
        let apis: Vec<_> = listeners.iter().map(|(api, _)| address_of(api)).collect();
        let organizations: Vec<_> = listeners.iter().map(|(_, org)| address_of(org)).collect();
        let ((engine_address, before_engines), (address, before)) =
            (in_front_of(&apis).await, in_front_of(&organizations).await);
        let (org_url, engine_url) = (format!("http://{address}"), format!("http://{engine_address}"));
        let (mut nodes, mut billings) = (Vec::new(), Vec::new());
        // Enough for races within a node. The database server prepares every statement again for each connection.
        let store_options = OpenOptions {
            connections: 2,
            ..OpenOptions::default()
        };
        for (number, (api, organization)) in listeners.into_iter().enumerate() {
            let store = Store::open_with(database.url(), store_options).await.unwrap();
            let data_dir = dir.path().join(number.to_string());
            let engine = engine(&store, &clock, (&data_dir, serves), &engine_url).await;
            let billing = double.map(|double| billing(double, store.clone(), &clock, &org_url));
            billings.extend(billing.clone());
            let accounts = accounts(store, &clock, [&org_url, &engine_url], &change);
            let listeners = both(api, (organization, &accounts, billing));
            let options = Arc::new(server_options(engine_url.clone()));
            spawn_short(
                &serving,
                sortie_server::serve(listeners, engine.clone(), options, stop.clone()),
            );
            nodes.push((engine, accounts));
        }
        serving.close();
        let mut balancers: Vec<_> = before_engines.into_iter().chain(before).collect();
        for balancer in &mut balancers {
            balancer.until_ready(setting.nodes()).await.unwrap();
        }
        let (engine, accounts) = nodes.swap_remove(0);
        let store = accounts.store();
        let owner = sign_up(store, address, "owner", 1).await;
        let admin = sign_up(store, address, "admin", 2).await;
        let member = sign_up(store, address, "member", 3).await;
        let stranger = sign_up(store, address, "stranger", 4).await;
        let ours = organization(store, "ours", 1, owner.user).await;
        let theirs = organization(store, "theirs", 2, stranger.user).await;
        let rig = Self {
            owner,
            admin,
            member,
            stranger,
            ours,
            theirs,
            engine_address,
            nodes: apis,
            address,
            org_url,
            engine,
            accounts,
            billing: billings,
            clock,
            stop,
            serving,
            database,
            _balancers: balancers,
            _dir: dir,
        };
        rig.join(ours, rig.admin.user, Role::Admin).await;
        rig.join(ours, rig.member.user, Role::Member).await;
        rig
    }

    /// Makes a person a member, directly in the database.
    pub(crate) async fn join(&self, org: OrgId, user: UserId, role: Role) {
        let role = role.as_str();
        self.meddle(&format!(
            "INSERT INTO membership (org_id, user_id, role, created_at) VALUES ('{org}', '{user}', '{role}', 1)"
        ))
        .await;
    }

    /// Changes the role of a member, directly in the database.
    pub(crate) async fn set_role(&self, org: OrgId, user: UserId, role: Role) {
        let role = role.as_str();
        self.meddle(&format!(
            "UPDATE membership SET role = '{role}' WHERE org_id = '{org}' AND user_id = '{user}'"
        ))
        .await;
    }

    /// Path of a resource of the first organization.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/organizations/{}{rest}", self.ours)
    }

    /// Changes one row directly in the database.
    pub(crate) async fn meddle(&self, sql: &str) {
        assert_eq!(self.database.change(sql).await.unwrap(), 1, "{sql}");
    }

    /// Reads one value directly from the database: the column `v` of a query.
    pub(crate) async fn text(&self, sql: &str) -> String {
        self.database.value(sql).await.unwrap()
    }

    /// Counts rows directly in the database: the column `v` of a query.
    pub(crate) async fn count(&self, sql: &str) -> i64 {
        self.text(sql).await.parse().unwrap()
    }

    /// Creates a person without the password rules: the address is `NAME@example.com`, and verified.
    pub(crate) async fn sign_up(&self, name: &str, number: u8) -> Signed {
        sign_up(self.accounts.store(), self.address, name, number).await
    }

    /// Begins another session of a person. Returns the token.
    pub(crate) async fn another_session(&self, user: UserId) -> String {
        let token = Secret::new(SESSION_TOKEN, sortie_base::random().unwrap());
        let session = new_session(SessionId::new(AT, sortie_base::random().unwrap()), user, &token);
        let store = self.accounts.store();
        store.sign_in(session, SignIn::default()).await.unwrap();
        token.expose().to_owned()
    }

    /// A client of the engine API with this credential.
    pub(crate) fn engine_client(&self, credential: &str) -> Client {
        Client::new(self.engine_address, Some(credential.to_owned()))
    }

    /// Repeats a request until every node answers with this status. A single node does so at once, because it made the change.
    /// Other nodes may cache the owner of a credential for [`KEPT`].
    #[expect(clippy::future_not_send, reason = "a test awaits it on one thread")]
    pub(crate) async fn soon(&self, status: u16, ask: impl AsyncFn() -> Answer) -> Answer {
        let nodes = Setting::current().nodes();
        let mut in_a_row = 0;
        let look = async || {
            let answer = ask().await;
            let is_so = answer.status == status;
            assert!(nodes > 1 || is_so, "{}: {}", answer.status, answer.text());
            in_a_row = if is_so { in_a_row + 1 } else { 0 };
            Ok((in_a_row, answer))
        };
        let what = format!("{status} of every node");
        let answered = until(&what, look, |(in_a_row, _)| *in_a_row == nodes).await;
        answered.unwrap().1
    }

    /// Stops the server and waits until it has ended.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.serving.wait().await;
    }
}

fn master_key() -> MasterKey {
    MasterKey::new([7; 32])
}

async fn engine(
    store: &Store,
    clock: &Clock,
    (data_dir, serves): (&Path, Serves),
    engine_url: &str,
) -> Engine {
    let options = sortie_engine::Options {
        mode: Mode::Hosted,
        clock: clock.clone(),
        data_dir: data_dir.to_owned(),
        serves,
        shutdown_grace: Duration::from_millis(50),
        credential_lookup: KEPT,
        master_keys: vec![master_key()],
        base_url: Some(engine_url.to_owned()),
        compute_micros_per_second: Micros::new(30).unwrap(),
        ..sortie_engine::Options::default()
    };
    let no_sandbox = Err("this test has no sandbox.".to_owned());
    Engine::start(options, store.clone(), no_sandbox).await.unwrap()
}

fn accounts(
    store: Store,
    clock: &Clock,
    [org_url, engine_url]: [&str; 2],
    change: impl Fn(&mut sortie_accounts::Options),
) -> Accounts {
    let mut options = sortie_accounts::Options {
        mode: Mode::Hosted,
        clock: clock.clone(),
        org_url: org_url.to_owned(),
        engine_url: engine_url.to_owned(),
        sign_up: SignUpRule::Open,
        mail: None,
        providers: Vec::new(),
        outbound: sortie_net::Outbound::default(),
        license_signer: Some(Arc::new("11".repeat(32).parse().unwrap())),
        credential_lookup: KEPT,
    };
    change(&mut options);
    Accounts::new(options, store, Sealer::new(vec![master_key()]))
}

/// Secrets of the webhooks. The double signs with the first one.
pub(crate) const WEBHOOK_SECRETS: [&str; 2] = ["whsec_first", "whsec_second"];

fn billing(double: &StripeDouble, store: Store, clock: &Clock, org_url: &str) -> Billing {
    let options = sortie_billing::Options {
        clock: clock.clone(),
        org_url: org_url.to_owned(),
        stripe: sortie_billing::StripeSettings {
            secret_key: Credential::new(double.secret_key()),
            webhook_secrets: WEBHOOK_SECRETS.into_iter().map(Credential::new).collect(),
            api_url: double.url().parse().unwrap(),
            outbound: sortie_net::Outbound::default(),
        },
        auto_topup: AutoTopupLimits::default(),
        plans: plans(),
        notices: None,
    };
    Billing::new(options, store).unwrap()
}

/// License plans on sale: `team`, and `company` with twice the runs and deployments.
fn plans() -> Vec<Plan> {
    let plan = |name: &str, monthly_runs, deployments| Plan {
        name: name.to_owned(),
        price: format!("price_{name}"),
        monthly_runs,
        deployments,
    };
    vec![plan("team", 1_000, 2), plan("company", 2_000, 4)]
}

/// Listeners of a node.
fn both(
    api: TcpListener,
    (listener, accounts, billing): (TcpListener, &Accounts, Option<Billing>),
) -> Listeners {
    Listeners {
        organization: Some(OrganizationListener {
            listener,
            accounts: accounts.clone(),
            billing,
        }),
        ..Listeners::from(api)
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
        base_url: Some(engine_url),
        ..Options::default()
    }
}

fn new_session(id: SessionId, user: UserId, token: &Secret) -> NewSession {
    NewSession {
        id,
        hash: token.hash(),
        user,
        kind: SessionKind::Api,
        created_at: AT,
        expires_at: AT + Duration::from_hours(24 * 30),
        address: None,
        agent: None,
    }
}

async fn sign_up(store: &Store, address: SocketAddr, name: &str, number: u8) -> Signed {
    let (user, session) = (UserId::new(AT, [number; 10]), SessionId::new(AT, [number; 10]));
    let token = Secret::new(SESSION_TOKEN, [number; 32]);
    let email = format!("{name}@example.com");
    let person = NewPerson {
        id: user,
        email_key: email.clone(),
        email,
        name: name.to_owned(),
        password: NO_PASSWORD.to_owned(),
        created_at: AT,
    };
    let begun = new_session(session, user, &token);
    store.sign_up(person, Some(begun), None).await.unwrap();
    Signed {
        user,
        session,
        client: Client::new(address, Some(token.expose().to_owned())),
        token: token.expose().to_owned(),
    }
}

async fn organization(store: &Store, name: &str, number: u8, owner: UserId) -> OrgId {
    let id = OrgId::new(AT, [number; 10]);
    let audit = Audit {
        id: AuditId::new(BEFORE, [number; 10]),
        org: id,
        at: BEFORE,
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
    store.create_organization(new, audit).await.unwrap();
    give_credits(store, id, CREDITS).await;
    id
}

/// Initial credits of each organization, in micros.
pub(crate) const CREDITS: i64 = 1_000_000_000;

/// Gives credits to an organization, without the operator API.
async fn give_credits(store: &Store, org: OrgId, amount_micros: i64) {
    let entry = NewLedgerEntry {
        cause: format!("grant:{org}"),
        org,
        kind: LedgerKind::Grant,
        amount_micros,
        description: "for tests".to_owned(),
        payment: None,
        topup: None,
        user: None,
        at: AT,
    };
    let audit = Audit {
        id: AuditId::new(BEFORE, sortie_base::random().unwrap()),
        org,
        at: BEFORE,
        actor: Actor::default(),
        action: "credits.grant",
        target: org.to_string(),
    };
    let appended = store.move_credits(entry, audit).await.unwrap();
    assert_eq!(appended, Appended::New);
}
