//! Fixtures of unit tests in several modules.

use std::{path::Path, sync::Arc, time::Duration};

use sortie_api::{
    AuditId, KeyId, Micros, OrgId, Role, RunId, Timestamp,
    event::{EventType, ModelCall},
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_store::{
    Store,
    access::{Actor, Audit, Caller, NewKey},
    nodes::{NewNode, NodeId},
    runs::{Claim, Created, NewCallback, NewRun},
};
use sortie_testkit::template::copy_sqlite_template;
use tempfile::TempDir;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Engine,
    callbacks::DeliveryHints,
    cluster::hints::{HintSender, TimerBell},
    connections::Connections,
    files::contents::{self, Contents},
    kit::{
        metrics::Metrics,
        models::Models,
        no_sandbox::NoSandbox,
        options::{Options, Serves},
        web::NodeWeb,
    },
    runs::{active::Active, hub::Hub, run_log::Records, unretained::Unretained},
    worker::{Collecting, Programs, Worker},
};
use sortie_base::{Clock, MasterKey};

/// A fresh SQLite file with a node, and a run that it has claimed.
pub(crate) struct Held {
    pub(crate) store: Store,
    pub(crate) node: NodeId,
    pub(crate) claim: Claim,
    pub(crate) dir: TempDir,
}

/// Event of a model call with this cost in micros.
pub(crate) fn called(cost: u64) -> EventType {
    EventType::ModelCall(ModelCall {
        model: "m".to_owned(),
        step: 1,
        input_tokens: 5,
        output_tokens: 0,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        cost_micros: Micros::new(cost).unwrap(),
        duration_ms: 1,
        stop_reason: "end_turn",
    })
}

/// Opens the store `test.db` of a folder, which has none yet.
pub(crate) async fn store_in(dir: &TempDir) -> Store {
    let file = dir.path().join("test.db");
    let migrate = async |url: &str| Ok(Store::open(url).await.map(drop)?);
    copy_sqlite_template(&file, "store", migrate).await.unwrap();
    Store::open(&format!("sqlite:{}", file.display())).await.unwrap()
}

/// Options of an engine that works on no runs, with a clock that a test moves.
pub(crate) fn idle(clock: &Clock, data_dir: &Path) -> Options {
    Options {
        clock: clock.clone(),
        data_dir: data_dir.to_owned(),
        serves: Serves::Nothing,
        master_keys: vec![MasterKey::new([1; 32])],
        // The clock jumps, and no node may be declared lost because of that.
        heartbeat: Duration::from_hours(1),
        ..Options::default()
    }
}

/// Starts an engine without a sandbox.
pub(crate) async fn engine(options: Options, store: Store) -> Engine {
    let no_sandbox = Err("this test has none.".to_owned());
    Engine::start(options, store, no_sandbox).await.unwrap()
}

/// Creates the only organization of an engine, with the only key.
pub(crate) async fn bootstrapped(engine: &Engine) -> Caller {
    let key = Secret::new(SELF_HOSTED_KEY, [7; 32]);
    assert!(engine.bootstrap(&key).await.unwrap());
    caller(engine.authenticate(key.expose()).await.unwrap().unwrap().org)
}

/// Caller without a session.
pub(crate) fn caller(org: OrgId) -> Caller {
    Caller {
        org,
        actor: Actor::default(),
    }
}

/// Makes the first organization of a store.
pub(crate) async fn organization(store: &Store, org: OrgId, at: Timestamp) {
    let key = NewKey {
        id: KeyId::new(at, [1; 10]),
        org,
        name: "test".to_owned(),
        role: Role::Admin,
        hash: Secret::new(SELF_HOSTED_KEY, [1; 32]).hash(),
        created_at: at,
        expires_at: None,
    };
    let audit = Audit {
        id: AuditId::new(at, [1; 10]),
        org,
        at,
        actor: Actor::default(),
        action: "key.create",
        target: key.id.to_string(),
    };
    assert!(store.bootstrap("test", key, audit).await.unwrap());
}

impl Held {
    /// Changes the database directly, without the store.
    pub(crate) fn sql(&self, statement: &str) {
        let file = self.dir.path().join("test.db");
        let changed = rusqlite::Connection::open(file).unwrap().execute(statement, ());
        assert_eq!(changed.unwrap(), 1, "{statement}");
    }

    /// Makes every change fail that fires this trigger.
    pub(crate) fn fail(&self, trigger: &str) {
        let sql = format!("CREATE TRIGGER injected {trigger} BEGIN SELECT RAISE(ABORT, 'injected'); END");
        self.batch(&sql);
    }

    /// Adds an organization with a smaller id and one with a greater id, each with a copy of this run.
    pub(crate) fn between_others(&self) {
        let (org, run) = (self.claim.org, self.claim.fence.run);
        for number in [0, 9] {
            let other = OrgId::new(self.claim.created_at, [number; 10]);
            let copy = RunId::new(self.claim.created_at, [number + 20; 10]);
            self.batch(&format!(
                "CREATE TEMP TABLE o AS SELECT * FROM organization WHERE id = '{org}'; UPDATE o SET id = '{other}'; \
                 INSERT INTO organization SELECT * FROM o; \
                 CREATE TEMP TABLE r AS SELECT * FROM run WHERE id = '{run}'; UPDATE r SET id = '{copy}', org_id = '{other}'; \
                 INSERT INTO run SELECT * FROM r"
            ));
        }
    }

    /// Changes the database directly, by several statements.
    pub(crate) fn batch(&self, sql: &str) {
        let file = rusqlite::Connection::open(self.dir.path().join("test.db")).unwrap();
        file.execute_batch(sql).unwrap();
    }

    pub(crate) fn records(&self) -> Records {
        records(&self.store)
    }

    /// A worker of the node, with its data directory in `dir`.
    pub(crate) async fn worker(&self) -> Arc<Worker> {
        self.worker_with(Options::default()).await
    }

    /// A worker of the node with these options, with its data directory in `dir`.
    pub(crate) async fn worker_with(&self, options: Options) -> Arc<Worker> {
        let options = Arc::new(Options {
            data_dir: self.dir.path().to_owned(),
            ..options
        });
        let (records, metrics) = (self.records(), Arc::new(Metrics::default()));
        let connections = Connections::new(
            &options,
            self.store.clone(),
            TaskTracker::new(),
            &Err("a test".to_owned()),
        );
        Arc::new(Worker {
            hub: Hub::new(records.clone(), HintSender::default(), CancellationToken::new()),
            records,
            clock: options.clock.clone(),
            models: Arc::new(Models::new(&sortie_models::Settings::default(), &metrics.models).unwrap()),
            metrics,
            connections: connections.unwrap(),
            contents: contents(&options, &self.store).await,
            collecting: Collecting::default(),
            sandbox: Arc::new(NoSandbox::new("a test".to_owned())),
            programs: Programs::default(),
            web: NodeWeb::new(&options).unwrap(),
            schedules: TimerBell::default(),
            active: Active::default(),
            callbacks: DeliveryHints::default(),
            options,
        })
    }
}

/// Contents in the storage that the options name.
pub(crate) async fn contents(options: &Options, store: &Store) -> Contents {
    let blobs = contents::open(options).await.unwrap();
    Contents::over(blobs, store.clone(), options)
}

/// The records of a store, with room for runs without retention.
pub(crate) fn records(store: &Store) -> Records {
    Records {
        store: store.clone(),
        unretained: Unretained::new(1 << 30, Clock::system(), Active::default(), Arc::default()),
    }
}

/// A claimed run that answers at once, on a node with the default name.
pub(crate) async fn held() -> Held {
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(&dir).await;
    let now = Clock::system().now();
    let org = OrgId::new(now, [1; 10]);
    organization(&store, org, now).await;
    let run = queued(&store, (org, RunId::new(now, [2; 10])), None).await;
    let options = Options::default();
    let node = NodeId(1);
    store.register_node(new_node(node, &options, now)).await.unwrap();
    let mut claims = store.claim_named(node, vec![run], None, now).await.unwrap();
    assert_eq!(claims.len(), 1);
    Held {
        store,
        node,
        claim: claims.remove(0),
        dir,
    }
}

/// Process of a node with the name in these options.
pub(crate) fn new_node(id: NodeId, options: &Options, now: Timestamp) -> NewNode {
    NewNode {
        id,
        name: options.node_name.clone(),
        started_at: now,
        lease_until: now + options.lease,
        address: None,
        version: String::new(),
        master_keys: Vec::new(),
        draining_since: None,
    }
}

/// Creates a second run of the same organization, which waits.
pub(crate) async fn queued_with(held: &Held, callback: Option<NewCallback>) -> RunId {
    let id = RunId::new(Clock::system().now(), [3; 10]);
    queued(&held.store, (held.claim.org, id), callback).await
}

/// Creates further runs of the same organization, and claims them for the node.
pub(crate) async fn claimed_beside(held: &Held, count: u16) -> Vec<RunId> {
    let now = Clock::system().now();
    let mut runs = Vec::new();
    for number in 0..count {
        let [high, low] = number.to_be_bytes();
        let mut random = [4; 10];
        random[..2].copy_from_slice(&[high, low]);
        let id = RunId::new(now, random);
        runs.push(queued(&held.store, (held.claim.org, id), None).await);
    }
    let claims = held.store.claim_named(held.node, runs.clone(), None, now).await;
    assert_eq!(claims.unwrap().len(), runs.len());
    runs
}

async fn queued(store: &Store, (org, id): (OrgId, RunId), callback: Option<NewCallback>) -> RunId {
    let run = NewRun {
        id,
        org,
        idempotency_key: None,
        definition: r#"{"prompt":"x","shell":false}"#.into(),
        inline: None,
        callback,
        max_cost: Micros::new(1_000_000).unwrap(),
        payment: sortie_store::money::Payment::Free,
        timeout_seconds: 60,
        labels: sortie_store::runs::Labels::default(),
        created_at: Clock::system().now(),
        trace: None,
        allowance: None,
    };
    match store.create_run(run).await.unwrap() {
        Created::New(run) => run.id,
        Created::Existing(run) => panic!("{} is not new", run.id),
    }
}
