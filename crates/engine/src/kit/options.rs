//! Settings of a node.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use sortie_api::{Credential, Micros, Mode, Timestamp, limits, usage::Day};
use sortie_net::{Network, Outbound, Reach};
use sortie_sandbox::Limits;
use sortie_store::money::Payment;
use sortie_web::{RobotsTxt, SearchSettings};

use crate::kit::traces::Traces;
use sortie_base::{CREDENTIAL_LOOKUP, Clock, LicensePublicKey, MasterKey};

/// Environment variables for access to an S3-compatible store, by name.
pub type AwsVariables = BTreeMap<String, Credential>;

/// Runs that an engine works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// Every waiting run: an ordinary node.
    Everyone,
    /// Only the runs that were created through it, or that it is asked to resume: the engine of one command.
    OwnRuns,
    /// None: it only answers.
    Nothing,
}

/// A node's settings. [`Default`] is a self-hosted node.
#[derive(Clone, Debug)]
pub struct Options {
    /// The deployment mode.
    pub mode: Mode,
    /// Source of the time.
    pub clock: Clock,
    /// Folder of working directories and local data.
    pub data_dir: PathBuf,
    /// Storage of file content: `file:<folder>` or `s3://<bucket>[/<prefix>]`. `None`: `blobs` below `data_dir`.
    pub blob_url: Option<String>,
    /// Credentials and region of an S3-compatible store.
    pub aws: AwsVariables,
    /// Maximum size of an uploaded file, in bytes.
    pub max_file_bytes: u64,
    /// Name of the node. Keep it across restarts: the node then resumes runs of its earlier process at once.
    pub node_name: String,
    /// Runs that the node works on.
    pub serves: Serves,
    /// Maximum concurrent runs on this node.
    pub concurrency: u32,
    /// Maximum concurrent runs of one organization on all nodes. `None`: unlimited.
    pub organization_concurrency: Option<u32>,
    /// Maximum bytes of files and artifacts that one organization has stored. `None`: unlimited.
    pub organization_storage_bytes: Option<u64>,
    /// Price of a second of compute.
    pub compute_micros_per_second: Micros,
    /// Budget of a run that names none.
    pub default_max_cost: Micros,
    /// Resource limits of the commands of a run.
    pub sandbox_limits: Limits,
    /// Treatment of robots.txt by the web tools.
    pub robots: RobotsTxt,
    /// Search provider of `web_search`. `None`: the tool is not available.
    pub search: Option<SearchSettings>,
    /// Network that the web tools and commands of runs may reach. `None`: public addresses, without those of this host.
    pub network: Option<Arc<Network>>,
    /// Providers and models.
    pub models: sortie_models::Settings,
    /// Keys that seal stored credentials, the newest first. Without a key no credentials can be stored.
    pub master_keys: Vec<MasterKey>,
    /// Proxies and certificates of the connections to the outside, other than those to providers of models.
    pub outbound: Outbound,
    /// Addresses that connections may reach.
    pub connections_reach: Reach,
    /// Addresses that callbacks may reach.
    pub callbacks_reach: Reach,
    /// Base URL of this engine for browsers and authorization servers, without a slash at its end.
    pub base_url: Option<String>,
    /// Address of this node for other nodes, as `http://host:port`. `None`: they cannot reach it.
    pub node_address: Option<String>,
    /// Folder, on a file system in memory, of the working directories of runs without retention. `None`: a folder below
    /// `/dev/shm` with the node's name.
    pub memory_dir: Option<PathBuf>,
    /// Memory limit, in bytes, of the content of all runs without retention on this node.
    pub memory_bytes: usize,
    /// Surcharge on a run without retention, in percent.
    pub surcharge_percent: u32,
    /// Duration of a node's lease. Once it has expired, other nodes take over the node's runs.
    pub lease: Duration,
    /// Interval between renewals of a node's lease.
    pub heartbeat: Duration,
    /// Intervals between polls for changes by other nodes.
    pub polls: Polls,
    /// Time for which a look-up of a credential is reused.
    pub credential_lookup: Duration,
    /// Retention of finished runs. `None`: they are kept for ever.
    pub retention: Option<Duration>,
    /// Day on which the operator has compared the clock with another one. Retention requires it after the engine was stopped for
    /// longer than `retention`, because that looks the same as a wrong clock.
    pub retention_clock_checked: Option<Day>,
    /// Time that runs have to end when the node stops.
    pub shutdown_grace: Duration,
    /// Time for which a run retries an unavailable storage while it keeps its slot and its compute clock runs.
    pub storage_retry: Duration,
    /// Time for which a run then waits for the storage. Outputs that are not stored by then are lost.
    pub storage_wait: Duration,
    /// License of a self-hosted engine.
    pub license: LicenseOptions,
    /// Export of spans.
    pub traces: Traces,
}

/// Intervals between polls for changes by other nodes. The nodes also notify each other, so a poll only finds changes of which
/// the hint was lost. Each pause is extended at random by up to a half, so that nodes that started together drift apart.
#[derive(Clone, Copy, Debug)]
pub struct Polls {
    /// Interval between polls for changes to runs that are followed or active on this node.
    pub runs: Duration,
    /// Interval between polls for waiting runs.
    pub queue: Duration,
}

impl Polls {
    /// Default of [`Self::runs`].
    pub(crate) const RUNS: Duration = Duration::from_millis(500);
}

impl Default for Polls {
    fn default() -> Self {
        Self {
            runs: Self::RUNS,
            queue: Duration::from_secs(1),
        }
    }
}

/// Returns the pause before the next poll.
pub(crate) fn poll_pause(interval: Duration, now: Timestamp) -> Duration {
    let longest = interval / 2;
    let drawn = Duration::from_millis(now.as_micros().unsigned_abs() % 1_000);
    interval + longest.mul_f64(drawn.as_secs_f64())
}

/// Settings of the license of a self-hosted engine.
#[derive(Clone, Debug, Default)]
pub struct LicenseOptions {
    /// Keys that verify licenses.
    pub public_keys: Vec<LicensePublicKey>,
    /// ID of the installation. `None`: it is derived from the organization that was created with the database.
    pub machine_id: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::SelfHosted,
            clock: Clock::system(),
            data_dir: PathBuf::from("data"),
            blob_url: None,
            aws: AwsVariables::new(),
            max_file_bytes: limits::FILE_BYTES,
            node_name: "local".to_owned(),
            serves: Serves::Everyone,
            concurrency: 10_000,
            organization_concurrency: None,
            organization_storage_bytes: None,
            compute_micros_per_second: Micros::ZERO,
            default_max_cost: Micros::new(1_000_000).unwrap_or_default(),
            sandbox_limits: Limits::default(),
            // The offline model by its name, so that it accepts prompts of every kind.
            models: sortie_models::Settings {
                default_model: Some("runbook".to_owned()),
                ..sortie_models::Settings::default()
            },
            robots: RobotsTxt::Honoured,
            search: None,
            network: None,
            master_keys: Vec::new(),
            outbound: Outbound::default(),
            connections_reach: Reach::Private,
            callbacks_reach: Reach::Private,
            base_url: None,
            node_address: None,
            memory_dir: None,
            memory_bytes: 1 << 30,
            surcharge_percent: 0,
            lease: Duration::from_secs(10),
            heartbeat: Duration::from_secs(3),
            polls: Polls::default(),
            credential_lookup: CREDENTIAL_LOOKUP,
            retention: Some(Duration::from_hours(30 * 24)),
            retention_clock_checked: None,
            shutdown_grace: Duration::from_secs(30),
            storage_retry: Duration::from_mins(2),
            storage_wait: Duration::from_hours(1),
            license: LicenseOptions::default(),
            traces: Traces::default(),
        }
    }
}

impl Options {
    /// Returns the folder of the runs' working directories.
    pub(crate) fn work_dir(&self) -> PathBuf {
        self.data_dir.join("work")
    }

    /// Returns the number of slots for runs.
    pub(crate) fn slots(&self) -> usize {
        usize::try_from(self.concurrency).unwrap_or(usize::MAX)
    }

    /// Returns the payment for runs.
    pub(crate) fn payment(&self) -> Payment {
        match self.mode {
            Mode::Hosted => Payment::Credit,
            Mode::SelfHosted => Payment::Free,
        }
    }
}
