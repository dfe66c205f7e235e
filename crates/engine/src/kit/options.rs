//! What a node is told at its start.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use sortie_api::{Credential, Micros, Mode, limits};
use sortie_net::{Network, Reach};
use sortie_sandbox::Limits;
use sortie_web::{RobotsTxt, SearchSettings};

use crate::{
    credentials::sealing::MasterKey,
    kit::{clock::Clock, traces::Traces},
};

/// The variables that an S3-compatible store is reached with, by name.
pub type AwsVariables = BTreeMap<String, Credential>;

/// Whose runs an engine works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// Every waiting run: an ordinary node.
    Everyone,
    /// Only the runs that were created through it: the engine of one command.
    OwnRuns,
    /// None: it only answers.
    Nothing,
}

/// A node's settings. [`Default`] is a self-hosted node.
#[derive(Clone, Debug)]
pub struct Options {
    /// The deployment mode.
    pub mode: Mode,
    /// Where the node reads the time.
    pub clock: Clock,
    /// Where working directories live.
    pub data_dir: PathBuf,
    /// Where the content of files lives: `file:<folder>` or `s3://<bucket>[/<prefix>]`; `None`: `blobs` below `data_dir`.
    pub blob_url: Option<String>,
    /// What an S3-compatible store is reached with.
    pub aws: AwsVariables,
    /// The largest file that is taken, in bytes.
    pub max_file_bytes: u64,
    /// The node's name, the same at each start: runs that an earlier start left go on at once.
    pub node_name: String,
    /// Whose runs it works on.
    pub serves: Serves,
    /// Runs at work at once on this node.
    pub concurrency: u32,
    /// Runs of one organization at work at once on all nodes; `None`: unlimited.
    pub organization_concurrency: Option<u32>,
    /// Price of a second of a run.
    pub compute_micros_per_second: Micros,
    /// Budget of a run that names none.
    pub default_max_cost: Micros,
    /// What one run's commands may use.
    pub sandbox_limits: Limits,
    /// Whether the web tools honour robots.txt.
    pub robots: RobotsTxt,
    /// What `web_search` asks; `None`: there is no search.
    pub search: Option<SearchSettings>,
    /// Where the web of runs may reach; `None`: public addresses, besides those of this host.
    pub network: Option<Arc<Network>>,
    /// Providers and models.
    pub models: sortie_models::Settings,
    /// What credentials are sealed with, the newest first. Without one, none can be kept.
    pub master_keys: Vec<MasterKey>,
    /// How far connections may reach.
    pub connections_reach: Reach,
    /// How far callbacks may reach.
    pub callbacks_reach: Reach,
    /// The address that browsers and authorization servers reach this engine under, without a slash at its end.
    pub base_url: Option<String>,
    /// Where other nodes reach this one, as `http://host:port`; none where they cannot.
    pub node_address: Option<String>,
    /// Where runs without retention have their working directories: on a file system in memory. None: below `/dev/shm`,
    /// by the node's name.
    pub memory_dir: Option<PathBuf>,
    /// What the content of runs without retention may take of this node's memory together, in bytes.
    pub memory_bytes: usize,
    /// What a run without retention costs more, in percent.
    pub surcharge_percent: u32,
    /// How long a node may be silent before its runs are given up.
    pub lease: Duration,
    /// How often a node renews its lease.
    pub heartbeat: Duration,
    /// How long finished runs are kept; `None`: for ever.
    pub retention: Option<Duration>,
    /// How long runs may go on when the node is told to stop.
    pub shutdown_grace: Duration,
    /// Where spans go.
    pub traces: Traces,
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
            compute_micros_per_second: Micros::ZERO,
            default_max_cost: Micros::new(1_000_000).unwrap_or_default(),
            sandbox_limits: Limits::default(),
            models: sortie_models::Settings::default(),
            robots: RobotsTxt::Honoured,
            search: None,
            network: None,
            master_keys: Vec::new(),
            connections_reach: Reach::Private,
            callbacks_reach: Reach::Private,
            base_url: None,
            node_address: None,
            memory_dir: None,
            memory_bytes: 1 << 30,
            surcharge_percent: 0,
            lease: Duration::from_secs(10),
            heartbeat: Duration::from_secs(3),
            retention: Some(Duration::from_hours(30 * 24)),
            shutdown_grace: Duration::from_secs(30),
            traces: Traces::default(),
        }
    }
}

impl Options {
    /// Where the working directories of runs live.
    pub(crate) fn work_dir(&self) -> PathBuf {
        self.data_dir.join("work")
    }
}
