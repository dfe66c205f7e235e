//! Metrics that are queried for each scrape: figures of the whole database, readiness, and active runs.
//!
//! The database is queried at most once a second, regardless of the number of scrapes. If it does not answer in time, the scrape
//! takes that long and its figures are left out: old figures are never returned.

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder},
    metrics::{MetricType, gauge::ConstGauge, info::Info},
    registry::Registry,
};
use sortie_api::{Mode, RunStatus, Timestamp};
use sortie_sandbox::Capabilities;
use sortie_store::{
    installation::{DeadRows, Observed},
    licenses::LicenseUse,
    money::CreditSums,
};
use tokio::time::{Instant, timeout};

use crate::{
    Engine,
    files::{LatestStanding, Standing},
    runs::active::Active,
};

/// Time for which a sample is reused.
const FRESH: Duration = Duration::from_secs(1);

/// Timeout of the queries of a sample.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// Sampler of the metrics that need a query.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Time of the last sample. Locked during a sample, so that concurrent scrapes share one.
    at: tokio::sync::Mutex<Option<Instant>>,
    last: Arc<LastSample>,
}

#[derive(Debug, Default)]
struct LastSample(Mutex<Sample>);

#[derive(Clone, Debug, Default)]
struct Sample {
    is_ready: bool,
    database: Option<DatabaseSample>,
}

/// Figures of the whole database.
#[derive(Clone, Debug)]
struct DatabaseSample {
    observed: Observed,
    at: Timestamp,
    /// Time of the sample on the clock of leases.
    leases_at: Timestamp,
    /// License of the engine, if it has one.
    license: Option<LicenseUse>,
    /// Credits of a hosted deployment.
    credits: Option<CreditSums>,
    /// Dead rows, if the database has a count of them.
    dead_rows: Option<DeadRows>,
}

impl LastSample {
    fn get(&self) -> MutexGuard<'_, Sample> {
        self.0.lock()
    }
}

/// Figures of this node.
struct Node {
    active: Active,
    storage: LatestStanding,
    slots: u32,
    sandbox: Capabilities,
}

impl Engine {
    /// Registers every metric of this node and its store, for output as `OpenMetrics`.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let node = &self.0;
        node.metrics.register(registry);
        let own = Node {
            active: node.work.active.clone(),
            storage: node.stores.contents.standing().clone(),
            slots: node.options.concurrency,
            sandbox: node.work.slots.sandbox().clone(),
        };
        node.watched.register(own, registry);
        node.stores.database.register_metrics(registry);
        if node.options.mode == Mode::Hosted {
            node.stores.database.register_credit_metrics(registry);
            node.metrics.register_ledger(registry);
        }
    }

    /// Samples the metrics of the whole database, unless the last sample is less than a second old. Returns within two
    /// seconds: the figures are left out if the database does not answer.
    pub async fn look_around(&self) {
        self.0.watched.sample(self).await;
    }
}

/// Returns the sums of the credits. None on a self-hosted engine.
async fn credits_of(engine: &Engine) -> sortie_store::Result<Option<CreditSums>> {
    match engine.0.options.mode {
        Mode::Hosted => engine.store().credit_sums().await.map(Some),
        Mode::SelfHosted => Ok(None),
    }
}

impl Watched {
    /// Takes a new sample if the last one is old.
    async fn sample(&self, engine: &Engine) {
        let mut at = self.at.lock().await;
        if at.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        let now = engine.0.options.clock.now();
        let (ready, database) = tokio::join!(
            timeout(PATIENCE, engine.ready()),
            timeout(PATIENCE, async {
                let licensing = &engine.0.stores.licensing;
                tokio::try_join!(
                    engine.store().observe(now),
                    licensing.in_use(now),
                    credits_of(engine),
                    engine.store().dead_rows()
                )
            }),
        );
        let database = match database {
            Ok(Ok((observed, license, credits, dead_rows))) => Some(DatabaseSample {
                observed,
                license,
                credits,
                dead_rows,
                at: now,
                leases_at: engine.0.cluster.identity.leases.now(),
            }),
            Ok(Err(error)) => {
                tracing::debug!(%error, "querying the database for metrics failed");
                None
            }
            Err(_late) => None,
        };
        *self.last.get() = Sample {
            is_ready: matches!(ready, Ok(Ok(()))),
            database,
        };
        *at = Some(Instant::now());
    }

    /// Registers these metrics, with the figures of the node itself.
    fn register(&self, node: Node, registry: &mut Registry) {
        let sandbox = [
            ("level", node.sandbox.level.as_str()),
            ("memory", node.sandbox.memory.as_str()),
            ("disk", node.sandbox.disk.as_str()),
        ];
        registry.register(
            "sandbox",
            "Confinement of the commands of runs on this node, and whether their memory and disk have hard limits",
            Info::new(sandbox),
        );
        registry.register_collector(Box::new(SampleCollector {
            last: Arc::clone(&self.last),
            active: node.active,
            storage: node.storage,
            slots: node.slots,
        }));
    }
}

struct SampleCollector {
    last: Arc<LastSample>,
    active: Active,
    storage: LatestStanding,
    slots: u32,
}

impl std::fmt::Debug for SampleCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SampleCollector").finish_non_exhaustive()
    }
}

impl Collector for SampleCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Sample { is_ready, database } = self.last.get().clone();
        gauge(
            &mut encoder,
            "ready",
            "1 while the node can take runs, as /readyz answers: its database answers, and it is not stopping.",
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
            "storage_up",
            "1 while the storage of files answers this node; otherwise files cannot be saved, and runs with files or outputs wait.",
            i64::from(self.storage.get() == Standing::Up),
        )?;
        gauge(
            &mut encoder,
            "runs_waiting_for_storage",
            "Runs of this node that wait for the storage of files. They have no slot and no running compute clock.",
            i64::try_from(self.active.waiting()).unwrap_or(i64::MAX),
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
            i64::from(self.slots),
        )?;
        match database {
            Some(sample) => encode_database(&mut encoder, &sample),
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

/// Returns the age in seconds, or 0 without a time.
fn age(since: Option<Timestamp>, now: Timestamp) -> f64 {
    since.map_or(0.0, |since| now.since(since).as_secs_f64())
}

fn encode_license(encoder: &mut DescriptorEncoder<'_>, sample: &DatabaseSample) -> std::fmt::Result {
    let (used, most, left) = sample.license.as_ref().map_or((0, 0, 0.0), |found| {
        let left = found.license.expires_at.since(sample.at).as_secs_f64();
        (found.used, found.license.monthly_runs, left)
    });
    gauge(
        encoder,
        "license_runs_used",
        "Runs of this month that count in the allowance of the license; 0 without a license.",
        used,
    )?;
    gauge(
        encoder,
        "license_monthly_runs",
        "Runs that the license allows in a month; 0 without a license.",
        most,
    )?;
    seconds(
        encoder,
        "license_remaining_seconds",
        "Remaining time of the license; 0 once it has expired, and without a license.",
        left,
    )
}

fn encode_credits(encoder: &mut DescriptorEncoder<'_>, sums: &CreditSums) -> std::fmt::Result {
    gauge(
        encoder,
        "credit_balance_micros",
        "Credits of all organizations, up to 100,000 of them.",
        sums.balance_micros,
    )?;
    gauge(
        encoder,
        "credit_reserved_micros",
        "Credits of these organizations that are reserved for runs that are not settled.",
        sums.reserved_micros,
    )?;
    gauge(
        encoder,
        "credit_negative_organizations",
        "Organizations with a negative balance, counted as these are.",
        sums.negative,
    )
}

/// Writes the outstanding maintenance of the database.
fn encode_upkeep(encoder: &mut DescriptorEncoder<'_>, sample: &DatabaseSample) -> std::fmt::Result {
    gauge(
        encoder,
        "usage_late_runs",
        "Runs that were not settled when the usage of their hour was counted, and that are not counted yet. Counted up to 100,000.",
        sample.observed.late_runs,
    )?;
    seconds(
        encoder,
        "usage_late_oldest_age_seconds",
        "Age of the oldest of these runs; 0 if there is none.",
        age(sample.observed.oldest_late_run_at, sample.at),
    )?;
    let Some(dead) = &sample.dead_rows else {
        return Ok(());
    };
    let rows = encoder.encode_descriptor(
        "database_dead_rows",
        "Dead rows of the two tables of the PostgreSQL database that change most, which a vacuum cleans.",
        None,
        MetricType::Gauge,
    )?;
    by(rows, "table", [("queue", dead.queue), ("event", dead.event)])?;
    seconds(
        encoder,
        "database_oldest_snapshot_seconds",
        "Age of the oldest transaction that keeps dead rows from being cleaned; 0 if there is none, or the user of the database may not see it.",
        dead.oldest_snapshot.as_secs_f64(),
    )
}

fn encode_database(encoder: &mut DescriptorEncoder<'_>, sample: &DatabaseSample) -> std::fmt::Result {
    let (observed, at) = (&sample.observed, sample.at);
    let open = encoder.encode_descriptor(
        "runs_open",
        "Runs of the whole database that are not settled: waiting, claimed, at work, or cancelled under their worker, which has not reported their cost yet. Counted up to 100,000 each.",
        None,
        MetricType::Gauge,
    )?;
    let statuses = [
        (RunStatus::Queued.as_str(), observed.queued),
        (RunStatus::Starting.as_str(), observed.starting),
        (RunStatus::Running.as_str(), observed.running),
        (RunStatus::Cancelled.as_str(), observed.settling),
    ];
    by(open, "status", statuses)?;
    gauge(
        encoder,
        "queue_depth",
        "Runs of the whole database that wait for a worker, counted up to 100,000.",
        observed.queued,
    )?;
    seconds(
        encoder,
        "settlement_oldest_age_seconds",
        "Time since the cancellation of the run that waits longest for its worker to report the cost; 0 if none waits.",
        age(observed.oldest_settling_at, at),
    )?;
    seconds(
        encoder,
        "queue_oldest_age_seconds",
        "Waiting time of the run that waits longest for a worker; 0 if none waits.",
        age(observed.oldest_queued_at, at),
    )?;
    gauge(
        encoder,
        "callbacks_waiting",
        "Callbacks of the whole database that are neither delivered nor abandoned, counted up to 100,000.",
        observed.callbacks_waiting,
    )?;
    gauge(
        encoder,
        "callbacks_due",
        "Callbacks with an attempt that is due.",
        observed.callbacks_due,
    )?;
    seconds(
        encoder,
        "callback_oldest_due_age_seconds",
        "Time since the oldest due attempt became due; 0 if none is due.",
        age(observed.oldest_callback_due_at, at),
    )?;
    let nodes = encoder.encode_descriptor(
        "nodes",
        "Nodes of the database: `live` nodes, and `lost` nodes that still hold runs.",
        None,
        MetricType::Gauge,
    )?;
    by(
        nodes,
        "state",
        [("live", observed.nodes), ("lost", observed.lost_nodes)],
    )?;
    encode_upkeep(encoder, sample)?;
    encode_license(encoder, sample)?;
    if let Some(sums) = &sample.credits {
        encode_credits(encoder, sums)?;
    }
    let Some(until) = observed.first_lease_until else {
        return Ok(());
    };
    // `since` is zero if the other time is later, so one of the two is zero.
    let at = sample.leases_at;
    let left = until.since(at).as_secs_f64() - at.since(until).as_secs_f64();
    seconds(
        encoder,
        "lease_remaining_seconds",
        "Remaining time of the lease that expires first among the live nodes; below 0 it has expired and the runs of its node are about to be taken over.",
        left,
    )
}
