//! An engine on a SQLite file, without a sandbox, and its organization.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::BoxStream};
use serde_json::{Value, json};
use sortie_api::{
    OrgId, Refusal, Run, RunId, RunStatus,
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_engine::{Batch, Deltas, Engine, Hop, Message, Options};
use sortie_store::{
    Store,
    access::{Actor, Caller},
    nodes::{NewNode, NodeId},
    runs::{Created, RunFilter},
};
use sortie_testkit::until;
use tempfile::TempDir;

/// Stream of the events of a run.
pub(crate) type Stream = BoxStream<'static, Result<Arc<Batch>, Refusal>>;

/// An engine with an organization, and the folder of its data.
pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) caller: Caller,
    pub(crate) org: OrgId,
    pub(crate) key: Secret,
    pub(crate) dir: Arc<TempDir>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Options)) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let engine = in_folder(&dir, change).await;
        let (caller, key) = bootstrapped(&engine).await;
        Self {
            engine,
            org: caller.org,
            caller,
            key,
            dir,
        }
    }

    /// Restarts the node on the same data. The previous engine must be shut down already.
    pub(crate) async fn restart(self, change: impl FnOnce(&mut Options)) -> Self {
        let Self { engine, dir, .. } = self;
        drop(engine);
        let engine = in_folder(&dir, change).await;
        Self { engine, dir, ..self }
    }

    pub(crate) async fn create(&self, request: Value) -> Result<Run, Refusal> {
        self.create_once(request, None).await
    }

    /// Creates a run with an idempotency key, or returns the run that has it.
    pub(crate) async fn create_once(&self, request: Value, key: Option<String>) -> Result<Run, Refusal> {
        let request = serde_json::from_value(request).unwrap();
        match self.engine.create_run(&self.caller, request, key).await? {
            Created::New(run) | Created::Existing(run) => Ok(run),
        }
    }

    /// Stream of a run's events after `after`, without pieces of text.
    pub(crate) async fn stream(&self, run: RunId, after: i64) -> Result<Stream, Refusal> {
        let from = (after, Deltas::Off);
        self.engine.follow(&self.caller, run, from, Hop::First).await
    }

    /// The run's events after `after` to the end of its stream: ids with types, and the run in `done`.
    pub(crate) async fn follow(&self, run: &Run, after: i64) -> (Vec<(i64, String)>, Option<Run>) {
        read(self.stream(run.id, after).await.unwrap()).await
    }

    /// Reads the run's stream until an event of this type. Returns the types of the events so far.
    pub(crate) async fn until_event(&self, run: &Run, wanted: &str) {
        let mut stream = self.stream(run.id, 0).await.unwrap();
        loop {
            let batch = stream.next().await.expect("the stream goes on").unwrap();
            if events_and_done(&batch).0.iter().any(|(_, kind)| kind == wanted) {
                return;
            }
        }
    }

    /// The run as it is stored.
    pub(crate) async fn status(&self, run: &Run) -> Run {
        self.engine.store().get_run(self.org, run.id).await.unwrap()
    }

    /// The run at its end.
    pub(crate) async fn ended(&self, run: &Run) -> Run {
        self.follow(run, 0).await;
        self.status(run).await
    }

    pub(crate) async fn until_at_work(&self, run: &Run) {
        let look = async || Ok(self.status(run).await);
        let at_work = until("the start", look, |run| run.status == RunStatus::Running).await;
        at_work.unwrap();
    }
}

/// Starts an engine without a sandbox.
pub(crate) async fn start(options: Options, store: Store) -> Engine {
    let no_sandbox = Err("this test has no sandbox.".to_owned());
    Engine::start(options, store, no_sandbox).await.unwrap()
}

/// Opens the store of a folder.
pub(crate) async fn store_in(dir: &TempDir) -> Store {
    let url = format!("sqlite:{}", dir.path().join("sortie.db").display());
    Store::open(&url).await.unwrap()
}

async fn in_folder(dir: &TempDir, change: impl FnOnce(&mut Options)) -> Engine {
    let mut options = Options {
        data_dir: dir.path().to_owned(),
        shutdown_grace: Duration::from_millis(50),
        ..Options::default()
    };
    change(&mut options);
    start(options, store_in(dir).await).await
}

/// Makes the organization of an engine and its first key.
pub(crate) async fn bootstrapped(engine: &Engine) -> (Caller, Secret) {
    let key = Secret::new(SELF_HOSTED_KEY, [7; 32]);
    assert!(
        engine.bootstrap(&key).await.unwrap(),
        "a new store has no key yet"
    );
    let principal = engine.authenticate(key.expose()).await.unwrap();
    let caller = Caller {
        org: principal.expect("the first key is known").org,
        actor: Actor::default(),
    };
    (caller, key)
}

/// Reads a stream to its end: ids of the events with types, and the run in `done`.
pub(crate) async fn read(mut stream: Stream) -> (Vec<(i64, String)>, Option<Run>) {
    let (mut events, mut done) = (Vec::new(), None);
    while let Some(batch) = stream.next().await {
        let (more, run) = events_and_done(&batch.unwrap());
        events.extend(more);
        done = run;
    }
    (events, done)
}

/// The events of a batch as ids with types, and the final run if the batch ends with it.
pub(crate) fn events_and_done(batch: &Batch) -> (Vec<(i64, String)>, Option<Run>) {
    let (mut events, mut done) = (Vec::new(), None);
    for message in batch.messages() {
        match message {
            Message::Event(event) => events.push((event.seq, event.kind.clone())),
            // The streams of these tests do not ask for live text.
            Message::Delta(_) => {}
            Message::Done(run) => done = Some(serde_json::from_str(run.get()).unwrap()),
            Message::Large(_) | Message::Passed(_) | Message::Change(_) => {
                unreachable!("these events are small: {message:?}")
            }
        }
    }
    (events, done)
}

/// Request for a run without commands.
pub(crate) fn prompt(text: &str) -> Value {
    json!({ "prompt": text, "shell": false })
}

/// Filter for runs of any kind.
pub(crate) fn any_run(status: Option<RunStatus>) -> RunFilter {
    RunFilter {
        statuses: status.into_iter().collect(),
        limit: 10,
        ..RunFilter::default()
    }
}

/// Process of a node with a lease until then.
pub(crate) fn new_node(
    id: NodeId,
    name: &str,
    started_at: sortie_api::Timestamp,
    lease: Duration,
) -> NewNode {
    NewNode {
        id,
        name: name.to_owned(),
        started_at,
        lease_until: started_at + lease,
        address: None,
        version: String::new(),
        master_keys: Vec::new(),
        draining_since: None,
    }
}
