//! Store on a fresh database, and helpers that drive it.

use std::{
    pin::pin,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use futures_util::future::{Either, join, select};
use sortie_api::{
    AuditId, Micros, OrgId, Role, Run, RunId, RunStatus, RunUsage, Timestamp,
    event::{EventType, ModelCall, ToolEnd},
    id::KeyId,
};
use sortie_testkit::{Database, postgres::TestDatabase};
use tokio::sync::OnceCell;

use super::{commits::Behind, settings};
use crate::{
    CONNECTIONS, Result, Store,
    access::{Actor, Audit, NewKey},
    db::{Dialect, Val, vals},
    nodes::{Heartbeat, NewNode, NodeId, SeenLease},
    runs::{
        Append, Claim, Counted, Created, Definition, EventRow, Fence, FinalCost, Finish, Journal, NewEntries,
        NewEvent, NewRun, Sweep, Swept, Unretained, UnretainedFinish,
    },
};

/// Stored definition of the runs of tests.
pub(super) const DEFINITION: &str = r#"{"prompt":"hello"}"#;

/// Duration of a lease that does not expire during a test.
const LEASE: Duration = Duration::from_hours(24 * 365);

pub(super) struct Fixture {
    pub(super) store: Store,
    pub(super) database: TestDatabase,
    pub(super) counter: AtomicI64,
    /// Proxy between the store and the database, if the test has one.
    pub(super) behind: Option<Behind>,
    /// Node of [`Self::sweep`].
    sweeper: OnceCell<NodeId>,
}

impl Fixture {
    pub(super) async fn sqlite() -> Self {
        Self::on(settings::migrated(Database::Sqlite).await).await
    }

    pub(super) async fn postgres() -> Self {
        Self::on(settings::migrated(Database::Postgres).await).await
    }

    /// URL of the database, for another store on it.
    pub(super) fn url(&self) -> &str {
        self.database.url()
    }

    async fn on(database: TestDatabase) -> Self {
        let options = settings::options(CONNECTIONS);
        let store = Store::open_with(database.url(), options)
            .await
            .expect("the store opens");
        Self::with(store, database, None)
    }

    /// Makes a fixture of a store, its database and the proxy between them.
    pub(super) fn with(store: Store, database: TestDatabase, behind: Option<Behind>) -> Self {
        Self {
            store,
            database,
            counter: AtomicI64::new(1),
            behind,
            sweeper: OnceCell::new(),
        }
    }

    /// Dialect of the database.
    pub(super) fn dialect(&self) -> Dialect {
        if self.database.url().starts_with("sqlite:") {
            Dialect::Sqlite
        } else {
            Dialect::Postgres
        }
    }

    /// File of a `SQLite` database.
    pub(super) fn sqlite_file(&self) -> std::path::PathBuf {
        let path = self.database.url().strip_prefix("sqlite:");
        path.expect("a SQLite database").into()
    }

    /// Returns a number that this fixture has not returned before.
    pub(super) fn number(&self) -> i64 {
        self.counter.fetch_add(1, Ordering::SeqCst)
    }

    /// Returns a time later than every earlier one and than the database's own clock. Anything due by that clock is due at
    /// this time.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_micros(4_098_377_600_000_000 + self.number() * 1_000)
    }

    pub(super) fn random(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[2..].copy_from_slice(&self.number().to_be_bytes());
        bytes
    }

    pub(super) fn run_id(&self) -> RunId {
        RunId::new(self.now(), self.random())
    }

    /// Adds an organization.
    pub(super) async fn org(&self) -> OrgId {
        let org = OrgId::new(self.now(), self.random());
        self.sql(
            "INSERT INTO organization (id, name, created_at) VALUES ($1, 'a', 1)",
            vals![org],
        )
        .await;
        org
    }

    pub(super) fn new_key(&self, org: OrgId, role: Role) -> NewKey {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&self.number().to_be_bytes());
        NewKey {
            id: KeyId::new(self.now(), self.random()),
            org,
            name: "a key".to_owned(),
            role,
            hash,
            created_at: self.now(),
            expires_at: None,
        }
    }

    /// Adds an API key.
    pub(super) async fn key(&self, org: OrgId, role: Role) -> NewKey {
        let key = self.new_key(org, role);
        self.store
            .create_key(key.clone(), self.audit(org))
            .await
            .expect("a key");
        key
    }

    /// Makes an entry of the audit log, without storing it.
    pub(super) fn audit(&self, org: OrgId) -> Audit {
        let at = self.now();
        Audit {
            id: AuditId::new(at, self.random()),
            org,
            at,
            actor: Actor::default(),
            action: "test.change",
            target: "x".to_owned(),
        }
    }

    pub(super) fn new_run(&self, org: OrgId) -> NewRun {
        NewRun {
            id: self.run_id(),
            org,
            idempotency_key: None,
            definition: DEFINITION.into(),
            inline: None,
            callback: None,
            max_cost: Micros::new(1_000_000).expect("an amount"),
            payment: crate::money::Payment::Free,
            timeout_seconds: 300,
            labels: crate::runs::Labels::default(),
            created_at: self.now(),
            trace: None,
            allowance: None,
        }
    }

    /// Makes a run without retention and with content on `node`, with a surcharge of 20 percent.
    pub(super) fn new_unretained(&self, org: OrgId, node: NodeId) -> NewRun {
        let unretained = Unretained {
            node,
            surcharge_percent: 20,
        };
        NewRun {
            definition: Definition::Unretained(unretained),
            ..self.new_run(org)
        }
    }

    /// Makes the end of a run without retention: two more events, and an output that is held for an hour.
    pub(super) fn unretained_finish(&self) -> UnretainedFinish {
        let at = self.now();
        UnretainedFinish {
            status: RunStatus::Succeeded,
            error: None,
            last: Counted {
                events: 2,
                cost: Micros::new(101).expect("an amount"),
                usage: sortie_api::RunUsage::default(),
            },
            output_expires_at: Some(at + Duration::from_hours(1)),
            receiver: crate::runs::Receiver::Waits,
            at,
        }
    }

    /// Adds a run, which is queued.
    pub(super) async fn queued(&self, org: OrgId) -> RunId {
        match self.store.create_run(self.new_run(org)).await.expect("a run") {
            Created::New(run) => run.id,
            Created::Existing(run) => panic!("{} exists", run.id),
        }
    }

    /// Registers a node with a lease of an hour.
    pub(super) async fn node(&self) -> NodeId {
        let number = self.number();
        self.node_named(&format!("node-{number}")).await
    }

    pub(super) async fn node_named(&self, name: &str) -> NodeId {
        self.node_with(name, |_| {}).await
    }

    pub(super) async fn node_with(&self, name: &str, change: impl FnOnce(&mut NewNode)) -> NodeId {
        let started_at = self.now();
        let mut node = NewNode {
            id: NodeId(self.number()),
            name: name.to_owned(),
            started_at,
            lease_until: started_at + Duration::from_hours(1),
            address: Some(format!("http://{name}")),
            version: "1.2.3".to_owned(),
            master_keys: Vec::new(),
            draining_since: None,
        };
        change(&mut node);
        let id = node.id;
        self.store.register_node(node).await.expect("a node");
        id
    }

    pub(super) async fn claim(&self, node: NodeId, limit: u32) -> Vec<Claim> {
        self.store
            .claim_runs(node, limit, None, self.now())
            .await
            .expect("a claim")
    }

    /// Claims a run that waits.
    pub(super) async fn claim_one(&self, node: NodeId) -> Claim {
        let mut claims = self.claim(node, 1).await;
        assert_eq!(claims.len(), 1);
        claims.remove(0)
    }

    /// Starts a claimed run. Returns the fence for the next write.
    pub(super) async fn start(&self, fence: Fence) -> Result<Fence> {
        self.store
            .start_run(fence, vec![self.status(RunStatus::Running)])
            .await?;
        Ok(after(fence, 1))
    }

    /// Adds a run with the status `running`.
    pub(super) async fn running(&self, org: OrgId, node: NodeId) -> Fence {
        self.queued(org).await;
        let claim = self.claim_one(node).await;
        self.start(claim.fence).await.expect("it starts")
    }

    /// Adds a run that has succeeded.
    pub(super) async fn finished(&self, org: OrgId, node: NodeId) -> Run {
        let fence = self.running(org, node).await;
        let finished = self.store.finish_run(fence, self.succeeded("out")).await;
        finished.expect("it finishes")
    }

    /// Sends a heartbeat of a node at `at`, with a lease that does not expire during a test.
    pub(super) async fn renew(&self, node: NodeId, at: Timestamp) -> Result<Heartbeat> {
        self.store.heartbeat(node, at, LEASE).await
    }

    /// End of a node's lease.
    pub(super) async fn lease_of(&self, node: NodeId) -> Timestamp {
        let nodes = self.store.list_nodes().await.expect("the nodes");
        let row = nodes.into_iter().find(|row| row.node.id == node);
        row.expect("a node that is known").node.lease_until
    }

    /// Leases that end before `at`, as another node would have read them.
    pub(super) async fn overdue(&self, at: Timestamp) -> Vec<SeenLease> {
        let nodes = self.store.list_nodes().await.expect("the nodes");
        nodes
            .iter()
            .filter(|row| row.ended_at.is_none() && row.node.lease_until < at)
            .map(|row| SeenLease {
                node: row.node.id,
                lease_until: row.node.lease_until,
            })
            .collect()
    }

    /// Makes a sweep of a node, after its own heartbeat at `at`. Every lease that ends before `at` counts as overdue.
    pub(super) async fn declaring(&self, node: NodeId, at: Timestamp, limit: u32) -> Sweep {
        // The heartbeat of a node that was declared lost is refused, and so is its sweep.
        drop(self.renew(node, at).await);
        Sweep {
            overdue: self.overdue(at).await,
            ..sweep(node, at, limit)
        }
    }

    /// Declares nodes with an expired lease lost, and ends those of their runs that were resumed too often. The sweep takes
    /// no run over, and compute time is free. Returns the runs that ended.
    pub(super) async fn sweep(&self, at: Timestamp, limit: u32) -> Vec<(OrgId, RunId)> {
        let node = *self.sweeper.get_or_init(|| self.node_named("sweeper")).await;
        let sweep = self.declaring(node, at, limit).await;
        let swept = self.store.sweep(sweep).await.expect("a sweep");
        assert!(swept.taken.is_empty());
        swept.ended
    }

    /// Runs such a sweep on `node`, which takes over up to `places` runs.
    pub(super) async fn take_over(&self, node: NodeId, at: Timestamp, places: u32) -> Swept {
        let sweep = Sweep {
            places,
            ..self.declaring(node, at, 100).await
        };
        self.store.sweep(sweep).await.expect("a sweep")
    }

    /// Sets the takeover count of a run so high that no node takes it over again.
    pub(super) async fn tire(&self, run: RunId) {
        let sql = "UPDATE run SET resumes = 4 WHERE id = $1";
        assert_eq!(self.sql(sql, vals![run]).await, 1);
    }

    /// Adds a run with the status `running` that was resumed too often.
    pub(super) async fn tired(&self, org: OrgId, node: NodeId) -> Fence {
        let fence = self.running(org, node).await;
        self.tire(fence.run).await;
        fence
    }

    /// Appends events, and no entries of the journal.
    pub(super) async fn append(&self, fence: Fence, events: Vec<NewEvent>, cost: Micros) -> Result<()> {
        let new = Append {
            events,
            journal: NewEntries::default(),
            cost,
            usage: usage(1),
        };
        self.store.append(fence, new).await
    }

    /// Clears the times of the database's clock, as if nodes older than these columns had claimed and cancelled the run. The
    /// duration of such a run is the time from `started_at` to its end.
    pub(super) async fn on_node_clocks(&self, run: RunId) {
        let sql = "UPDATE run SET clock_started_at = NULL, clock_cancelled_at = NULL WHERE id = $1";
        assert_eq!(self.sql(sql, vals![run]).await, 1);
    }

    /// Moves the start of a run that has ended to a duration before its end, on the clock of the nodes.
    pub(super) async fn lasted(&self, run: RunId, duration: Duration) {
        let micros = i64::try_from(duration.as_micros()).expect("a span");
        let sql = "UPDATE run SET started_at = finished_at - CAST($2 AS BIGINT) WHERE id = $1";
        assert_eq!(self.sql(sql, vals![run, micros]).await, 1);
    }

    /// Moves the first claim of a run back by a duration, on the clock that counts the run's time.
    pub(super) async fn claimed_earlier(&self, run: RunId, by: Duration) {
        let by = i64::try_from(by.as_micros()).expect("a span");
        let sql = "UPDATE run SET clock_started_at = clock_started_at - CAST($2 AS BIGINT) WHERE id = $1";
        assert_eq!(self.sql(sql, vals![run, by]).await, 1);
    }

    /// Adds a run that is cancelled while a worker has it. Returns the fence of that worker.
    pub(super) async fn cancelled(&self, org: OrgId, node: NodeId) -> Fence {
        let fence = self.running(org, node).await;
        self.store
            .cancel_run(org, fence.run, self.now())
            .await
            .expect("it is cancelled");
        fence
    }

    pub(super) fn status(&self, status: RunStatus) -> NewEvent {
        self.event(&EventType::status(status))
    }

    pub(super) fn message(&self, text: &str) -> NewEvent {
        self.event(&EventType::Message {
            text: text.to_owned(),
            step: 1,
        })
    }

    /// Event of a model call with this cost.
    pub(super) fn called(&self, cost: Micros) -> NewEvent {
        self.event(&EventType::ModelCall(ModelCall {
            model: "m".to_owned(),
            step: 1,
            input_tokens: 1,
            output_tokens: 1,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
            cost_micros: cost,
            duration_ms: 1,
            stop_reason: "end_turn",
        }))
    }

    /// Event of a tool call with this cost and this output.
    pub(super) fn tool_ended(&self, cost: Micros, output: &str) -> NewEvent {
        self.event(&EventType::ToolEnd(ToolEnd {
            tool: "search".to_owned(),
            id: "call_1".to_owned(),
            is_error: false,
            output: output.to_owned(),
            output_bytes: output.len() as u64,
            duration_ms: 1,
            cost_micros: cost,
        }))
    }

    fn event(&self, event: &EventType) -> NewEvent {
        NewEvent::new(event, self.now()).expect("an event is JSON")
    }

    pub(super) fn succeeded(&self, output: &str) -> Finish {
        self.finish(RunStatus::Succeeded, Some(output), None)
    }

    pub(super) fn finish(&self, status: RunStatus, output: Option<&str>, error: Option<&str>) -> Finish {
        Finish {
            status,
            output: output.map(str::to_owned),
            error: error.map(str::to_owned),
            cost: Micros::new(42).expect("an amount"),
            usage: usage(1),
            events: vec![self.message("bye"), self.status(status)],
            journal: Journal::Written,
            stored_credentials: crate::runs::StoredCredentials::Possible,
            receiver: crate::runs::Receiver::Nobody,
            artifacts: None,
            at: self.now(),
        }
    }

    pub(super) async fn get(&self, org: OrgId, id: RunId) -> Run {
        self.store.get_run(org, id).await.expect("the run is there")
    }

    pub(super) async fn events(&self, org: OrgId, id: RunId) -> Vec<EventRow> {
        self.store
            .events_after(org, id, 0, 1_000)
            .await
            .expect("the run is there")
    }

    /// Statuses in the events of a run, in order.
    pub(super) async fn told(&self, org: OrgId, id: RunId) -> Vec<String> {
        self.events(org, id)
            .await
            .iter()
            .filter(|event| event.kind == "status")
            .map(|event| {
                let data: serde_json::Value = serde_json::from_str(&event.data).expect("JSON");
                data["status"].as_str().expect("a status").to_owned()
            })
            .collect()
    }

    /// Changes rows past the commands. Returns the number of changed rows.
    pub(super) async fn sql(&self, sql: &'static str, params: Vec<Val<'static>>) -> u64 {
        let changed = self.store.db.write(move |tx| tx.exec(sql, params.clone()));
        changed.await.expect(sql)
    }

    /// Runs a query with one row of one number.
    pub(super) async fn count(&self, sql: &'static str) -> i64 {
        self.store
            .db
            .read(move |tx| tx.query_one(sql, vals![])?.int(0))
            .await
            .expect("a count")
    }

    /// Pauses a command in its first batch of more than `after` statements, after that number of them. Then a second command
    /// begins. Once that one waits for a lock, the first continues. Only `PostgreSQL` allows both at the same time.
    pub(super) async fn overlapped<A, B>(
        &self,
        after: usize,
        first: impl Future<Output = A>,
        second: impl Future<Output = B>,
    ) -> (A, B) {
        let faults = self.store.db.faults();
        let (reached, go_on) = faults.pause(after);
        let first = async {
            let done = first.await;
            faults.forget_pause();
            done
        };
        let waits = async {
            let waiting = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                           AND datname = current_database()";
            while self.count(waiting).await == 0 {
                tokio::task::yield_now().await;
            }
        };
        let second = async {
            reached.await.expect("the first command has such a batch");
            match select(pin!(second), pin!(waits)).await {
                Either::Left(_) => panic!("the second command does not wait for the first one"),
                Either::Right(((), second)) => {
                    drop(go_on);
                    second.await
                }
            }
        };
        join(first, second).await
    }
}

/// Entries of a journal that already has `after` entries.
pub(super) fn entries(after: i64, data: &[&str]) -> NewEntries {
    NewEntries {
        after,
        data: data.iter().map(|entry| (*entry).to_owned()).collect(),
    }
}

/// Sweep that declares no node lost and takes no run over. Compute time is free.
pub(super) fn sweep(node: NodeId, at: Timestamp, limit: u32) -> Sweep {
    Sweep {
        node,
        at,
        limit,
        places: 0,
        overdue: Vec::new(),
        lease: LEASE,
        compute_micros_per_second: Micros::ZERO,
    }
}

/// Fence after `events` more events.
pub(super) fn after(fence: Fence, events: i64) -> Fence {
    Fence {
        last_event: fence.last_event + events,
        ..fence
    }
}

/// Final cost of a run with free compute time.
pub(super) fn of_calls(calls: Micros) -> FinalCost {
    FinalCost {
        calls,
        ..FinalCost::default()
    }
}

/// Usage in which no two figures are equal.
pub(super) const fn usage(first: i64) -> RunUsage {
    RunUsage {
        input_tokens: first,
        output_tokens: first + 1,
        cache_read_tokens: first + 2,
        cache_write_tokens: first + 3,
        model_calls: first + 4,
        tool_calls: first + 5,
    }
}
