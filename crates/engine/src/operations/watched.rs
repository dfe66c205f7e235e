//! What is looked up when somebody asks: what is in the database, whether the node is ready, how many runs are at work.
//!
//! The database is asked at most once a second, whoever asks how often. One that does not answer in time costs whoever
//! asks that time, and its figures are left out: nobody is shown old ones.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder},
    metrics::{MetricType, gauge::ConstGauge, info::Info},
    registry::Registry,
};
use sortie_api::{RunStatus, Timestamp};
use sortie_sandbox::Capabilities;
use sortie_store::Observed;
use tokio::time::{Instant, timeout};

use crate::{Engine, runs::active::Active};

/// How long what was looked up is shown again.
const FRESH: Duration = Duration::from_secs(1);

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// What was looked up last.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// When that was. Held while it is looked up, so that those who ask together ask once.
    at: tokio::sync::Mutex<Option<Instant>>,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen(Mutex<Found>);

#[derive(Clone, Debug, Default)]
struct Found {
    is_ready: bool,
    database: Option<Looked>,
}

/// A look at the database.
#[derive(Clone, Debug)]
struct Looked {
    observed: Observed,
    at: Timestamp,
    /// Likewise, on the clock of leases.
    leases_at: Timestamp,
}

impl Seen {
    fn found(&self) -> MutexGuard<'_, Found> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What this node is, and what it does now.
struct Node {
    active: Active,
    places: u32,
    sandbox: Capabilities,
}

impl Engine {
    /// Registers everything that this node and its store measure, to be shown as `OpenMetrics`.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let node = &self.0;
        node.metrics.register(registry);
        let own = Node {
            active: node.work.active.clone(),
            places: node.options.concurrency,
            sandbox: node.work.places.sandbox().clone(),
        };
        node.watched.register(own, registry);
        node.stores.database.register_metrics(registry);
    }

    /// Looks up what the metrics tell of the whole database, where the last look is older than a second. Returns within two
    /// seconds: a database that does not answer has its figures left out.
    pub async fn look_around(&self) {
        self.0.watched.look(self).await;
    }
}

impl Watched {
    /// Looks again, where the last look is old.
    async fn look(&self, engine: &Engine) {
        let mut at = self.at.lock().await;
        if at.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        let now = engine.0.options.clock.now();
        let (ready, database) = tokio::join!(
            timeout(PATIENCE, engine.ready()),
            timeout(PATIENCE, engine.store().observe(now)),
        );
        let database = match database {
            Ok(Ok(observed)) => Some(Looked {
                observed,
                at: now,
                leases_at: engine.0.cluster.identity.leases.now(),
            }),
            Ok(Err(error)) => {
                tracing::debug!(%error, "the database could not be looked at for metrics");
                None
            }
            Err(_late) => None,
        };
        *self.seen.found() = Found {
            is_ready: matches!(ready, Ok(Ok(()))),
            database,
        };
        *at = Some(Instant::now());
    }

    /// Registers all of it, with what `node` tells of itself.
    fn register(&self, node: Node, registry: &mut Registry) {
        let sandbox = [
            ("level", node.sandbox.level.as_str()),
            ("memory", node.sandbox.memory.as_str()),
            ("disk", node.sandbox.disk.as_str()),
        ];
        registry.register(
            "sandbox",
            "What confines the commands of runs on this node, and whether their memory and disk have hard limits",
            Info::new(sandbox),
        );
        registry.register_collector(Box::new(Shown {
            seen: Arc::clone(&self.seen),
            active: node.active,
            places: node.places,
        }));
    }
}

struct Shown {
    seen: Arc<Seen>,
    active: Active,
    places: u32,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Found { is_ready, database } = self.seen.found().clone();
        gauge(
            &mut encoder,
            "ready",
            "1 while the node can take runs, as /readyz answers: its database and its storage answer, and it is not stopping.",
            i64::from(is_ready),
        )?;
        gauge(
            &mut encoder,
            "store_up",
            "1 while the database answers the query of this scrape in time; otherwise the figures of the whole database are left out.",
            i64::from(database.is_some()),
        )?;
        gauge(
            &mut encoder,
            "runs_at_work",
            "Runs that this node works on.",
            i64::try_from(self.active.count()).unwrap_or(i64::MAX),
        )?;
        gauge(
            &mut encoder,
            "run_places",
            "Runs that this node works on at once at most.",
            i64::from(self.places),
        )?;
        match database {
            Some(looked) => show(&mut encoder, &looked),
            None => Ok(()),
        }
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: i64) -> std::fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn seconds(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> std::fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn by<const N: usize>(
    mut family: MetricEncoder<'_>,
    label: &'static str,
    values: [(&'static str, i64); N],
) -> std::fmt::Result {
    for (name, value) in values {
        let labels = [(label, name)];
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// How long ago something was; no time where there is nothing.
fn age(since: Option<Timestamp>, now: Timestamp) -> f64 {
    since.map_or(0.0, |since| now.since(since).as_secs_f64())
}

fn show(encoder: &mut DescriptorEncoder<'_>, looked: &Looked) -> std::fmt::Result {
    let (seen, at) = (&looked.observed, looked.at);
    let open = encoder.encode_descriptor(
        "runs_open",
        "Runs of the whole database that are not settled: waiting, claimed, at work, or cancelled under their worker, which has not told their cost yet. Counted up to 100,000 each.",
        None,
        MetricType::Gauge,
    )?;
    let statuses = [
        (RunStatus::Queued.as_str(), seen.queued),
        (RunStatus::Starting.as_str(), seen.starting),
        (RunStatus::Running.as_str(), seen.running),
        (RunStatus::Cancelled.as_str(), seen.settling),
    ];
    by(open, "status", statuses)?;
    gauge(
        encoder,
        "queue_depth",
        "Runs of the whole database that wait for a worker, counted up to 100,000.",
        seen.queued,
    )?;
    seconds(
        encoder,
        "queue_oldest_age_seconds",
        "How long the run has been waiting that waits longest for a worker; 0 where none waits.",
        age(seen.oldest_queued_at, at),
    )?;
    gauge(
        encoder,
        "callbacks_waiting",
        "Callbacks of the whole database that are neither delivered nor given up, counted up to 100,000.",
        seen.callbacks_waiting,
    )?;
    gauge(
        encoder,
        "callbacks_due",
        "Those of them whose next attempt is due.",
        seen.callbacks_due,
    )?;
    seconds(
        encoder,
        "callback_oldest_due_age_seconds",
        "How long the attempt has been due that is due for longest; 0 where none is.",
        age(seen.oldest_callback_due_at, at),
    )?;
    let nodes = encoder.encode_descriptor(
        "nodes",
        "Nodes of the database: `live` those that nobody has declared lost, `lost` those that still hold runs.",
        None,
        MetricType::Gauge,
    )?;
    by(nodes, "state", [("live", seen.nodes), ("lost", seen.lost_nodes)])?;
    let Some(until) = seen.first_lease_until else {
        return Ok(());
    };
    // `since` is zero where the other is later: one of the two is.
    let at = looked.leases_at;
    let left = until.since(at).as_secs_f64() - at.since(until).as_secs_f64();
    seconds(
        encoder,
        "lease_remaining_seconds",
        "What is left of the lease of a live node that ends first; below 0 it is over and its runs are about to be taken over.",
        left,
    )
}
