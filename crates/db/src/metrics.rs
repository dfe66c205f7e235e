//! Metrics of the store: the time that commands wait for a thread, the number of commands that share a commit, and the
//! time of a commit. A measurement costs one clock read and one addition, regardless of who reads the figures.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{
        MetricType,
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
    registry::Registry,
};

use crate::job::{Access, Job, Queue};

/// Bounds of waits and commits in seconds: from a commit that reaches a fast disk to the longest that a statement may take.
const SECONDS: [f64; 14] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0,
];

/// Bounds of the number of commands that share a commit.
const GROUP: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

type Seconds = Family<[(&'static str, &'static str); 1], Histogram, fn() -> Histogram>;

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

/// Metrics of one open database. Clones share the same figures.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    queue_wait: Seconds,
    read_wait: Histogram,
    write_wait: Histogram,
    group: Histogram,
    commit: Histogram,
    busy: Gauge,
    retries: Counter,
    refusals: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let queue_wait = Seconds::new_with_constructor(seconds);
        Self {
            read_wait: queue_wait.get_or_create_owned(&[("access", "read")]),
            write_wait: queue_wait.get_or_create_owned(&[("access", "write")]),
            queue_wait,
            group: Histogram::new(GROUP),
            commit: seconds(),
            busy: Gauge::default(),
            retries: Counter::default(),
            refusals: Counter::default(),
        }
    }
}

impl Metrics {
    /// Records that a thread has taken these jobs. The thread is busy until the returned value is dropped.
    pub(crate) fn took(&self, jobs: &[Box<dyn Job>]) -> Busy<'_> {
        let now = Instant::now();
        for job in jobs {
            let wait = match job.access() {
                Access::Read => &self.read_wait,
                Access::Write | Access::Own => &self.write_wait,
            };
            wait.observe(now.saturating_duration_since(job.queued_at()).as_secs_f64());
        }
        self.busy.inc();
        Busy(&self.busy)
    }

    /// Records that a transaction of this number of commands was committed in this time.
    pub(crate) fn committed(&self, commands: usize, took: Duration) {
        self.group
            .observe(u32::try_from(commands).unwrap_or(u32::MAX).into());
        self.commit.observe(took.as_secs_f64());
    }

    /// Counts a command that is run again.
    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    /// Returns the number of commands that were run again.
    #[cfg(any(test, feature = "faults"))]
    pub(crate) fn retries(&self) -> u64 {
        self.retries.get()
    }

    /// Counts a command that was refused because too many wait.
    pub(crate) fn refused(&self) {
        self.refusals.inc();
    }
}

/// Marks a thread as busy until it is dropped.
pub(crate) struct Busy<'a>(&'a Gauge);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Figures that are looked up when the metrics are read.
#[derive(Debug)]
pub(crate) struct LiveFigures {
    /// Queues of commands, without duplicates.
    pub(crate) queues: Vec<Arc<Queue>>,
    /// Number of threads with a connection.
    pub(crate) threads: usize,
    /// Path of the write-ahead log, if it is a file on this machine.
    pub(crate) wal: Option<PathBuf>,
}

impl Collector for LiveFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let mut gauge = |name: &str, help: &str, value: u64| {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        let waiting: usize = self.queues.iter().map(|queue| queue.waiting()).sum();
        gauge(
            "store_waiting_commands",
            "Commands on the database that wait for a thread; beyond 20,000 they are refused.",
            waiting as u64,
        )?;
        gauge(
            "store_threads",
            "Threads that run commands on the database.",
            self.threads as u64,
        )?;
        if let Some(wal) = &self.wal {
            gauge(
                "store_wal_bytes",
                "Size of SQLite's write-ahead log; it is checkpointed every 4,000 pages and when nothing is written.",
                // SQLite creates the file with the first write.
                std::fs::metadata(wal).map_or(0, |file| file.len()),
            )?;
        }
        Ok(())
    }
}

impl Metrics {
    /// Registers every figure.
    pub(crate) fn register(&self, figures: LiveFigures, registry: &mut Registry) {
        registry.register(
            "store_queue_wait_seconds",
            "Time that a command on the database waited for a thread",
            self.queue_wait.clone(),
        );
        registry.register(
            "store_group_commands",
            "Commands that shared one commit",
            self.group.clone(),
        );
        registry.register(
            "store_commit_seconds",
            "Duration of a commit: on SQLite until the disk has it, on PostgreSQL until the server confirms it",
            self.commit.clone(),
        );
        registry.register(
            "store_busy_threads",
            "Threads that work on a command now",
            self.busy.clone(),
        );
        registry.register(
            "store_retries",
            "Commands that were run again: after a deadlock, a serialization failure or a lost connection, or because their group failed",
            self.retries.clone(),
        );
        registry.register(
            "store_refusals",
            "Commands that were refused because too many were waiting",
            self.refusals.clone(),
        );
        registry.register_collector(Box::new(figures));
    }
}
