//! Configuration: one typed value from four layers (flag over environment over file over default).
//!
//! The embedded `default.toml` is its documentation. What contradicts itself is refused here, before anything is
//! started, with one sentence that names the key and where its value comes from.

mod environment;
mod hosted;
mod layers;
mod license;
mod network;
mod plans;
mod print;
mod providers;
mod sign_in;
mod traces;
mod values;
mod versions;

use std::{
    fs::File,
    io::{self, Read as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use rustix::fs::OFlags;
use sortie_accounts::IdentityProvider;
use sortie_api::{Micros, Mode, plain, usage::Day};
use sortie_base::LicenseSigner;
use sortie_billing::Plan;
use sortie_engine::{AwsVariables, LicenseOptions, MasterKey};
use sortie_net::{Outbound, Reach};
use sortie_sandbox::{Level, Limits};
use sortie_web::{RobotsTxt, SearchSettings};
use toml::Value;
use zeroize::Zeroizing;

pub(crate) use environment::Environment;
pub(crate) use hosted::HostedSettings;
use layers::{Layers, Source};
#[cfg(feature = "otel")]
pub(crate) use traces::Sampler;
pub(crate) use traces::TraceSettings;
pub(crate) use values::{DatabaseUrl, is_node_name};

/// The commented default file.
pub(crate) const DEFAULT_FILE: &str = include_str!("default.toml");

/// The file that is read when none is named.
const FILE: &str = "sortie.toml";

/// The most that `max_file_bytes` may be: what S3 takes in parts of 8 MiB.
const MAX_FILE_BYTES: i64 = 10_000 * 8 * 1024 * 1024;

/// The most that a file with a value may hold.
const MAX_VALUE_BYTES: u64 = 64 * 1024;

/// Mistake in the configuration: its place, its value and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(pub(crate) String);

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// A JSON object a line.
    Json,
}

/// Rule for the confinement of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SandboxPolicy {
    /// A service for others: less than the configured minimum is refused.
    Required,
    /// A machine of one's own: `landlock` is enough where no minimum is configured.
    Strongest,
}

/// The configuration in effect.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    /// Address of `/metrics`; `None`: beside the API.
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) data_dir: PathBuf,
    pub(crate) mode: Mode,
    /// Settings of a hosted deployment; none on a self-hosted one.
    pub(crate) hosted: Option<HostedSettings>,
    /// Identity providers that people sign in with. A self-hosted engine with some has `advertise_url`, an origin.
    pub(crate) sign_in: Vec<IdentityProvider>,
    /// License of a self-hosted engine.
    pub(crate) license: LicenseOptions,
    /// Key that signs licenses on a hosted deployment; none where it issues none.
    pub(crate) license_signer: Option<Arc<LicenseSigner>>,
    /// Plans of licenses that a hosted deployment sells.
    pub(crate) plans: Vec<Plan>,
    pub(crate) database_url: DatabaseUrl,
    pub(crate) database_connections: u32,
    /// Storage for the content of files; `None`: the data folder.
    pub(crate) blob_url: Option<String>,
    /// The `AWS_…` variables, where content lives in such a store.
    pub(crate) aws: AwsVariables,
    /// The largest file that is taken, in bytes.
    pub(crate) max_file_bytes: u64,
    pub(crate) node_name: Option<String>,
    pub(crate) advertise_url: Option<String>,
    pub(crate) node_url: Option<String>,
    /// Keys that credentials are sealed with, the newest first; none: the key of the data folder.
    pub(crate) master_keys: Option<Vec<MasterKey>>,
    pub(crate) concurrency: u32,
    pub(crate) organization_concurrency: Option<u32>,
    pub(crate) organization_storage_bytes: Option<u64>,
    pub(crate) compute_micros_per_second: Micros,
    pub(crate) default_max_cost: Micros,
    pub(crate) rate_limit_per_minute: u32,
    pub(crate) anonymous_rate_limit_per_minute: u32,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) drain: Duration,
    pub(crate) shutdown_grace: Duration,
    /// Surcharge of a run without retention, in percent.
    pub(crate) surcharge_percent: u32,
    pub(crate) memory_bytes: usize,
    pub(crate) memory_dir: Option<PathBuf>,
    /// Time for which finished runs are kept; none: for ever.
    pub(crate) retention: Option<Duration>,
    /// Day on which the operator has compared the clock with another one.
    pub(crate) retention_clock_checked: Option<Day>,
    /// Proxies and certificates of the connections to the outside, other than those to providers.
    pub(crate) outbound: Outbound,
    pub(crate) models: sortie_models::Settings,
    pub(crate) robots: RobotsTxt,
    pub(crate) search: Option<SearchSettings>,
    /// End of `/v1`.
    pub(crate) deprecation: Option<sortie_server::Deprecation>,
    /// Networks that connections may reach.
    pub(crate) connections_reach: Reach,
    /// Networks that callbacks may reach.
    pub(crate) callbacks_reach: Reach,
    pub(crate) sandbox_minimum: Level,
    pub(crate) sandbox_readable: Vec<PathBuf>,
    pub(crate) sandbox_limits: Limits,
    pub(crate) log_format: LogFormat,
    pub(crate) log_filter: String,
    /// Export of spans; none: disabled.
    pub(crate) traces: Option<TraceSettings>,
    layers: Layers,
}

/// Settings of the command line: each key with its value and its flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    /// The file of `--config`.
    pub(crate) file: Option<PathBuf>,
    values: Vec<(&'static str, Value, &'static str)>,
}

impl Flags {
    /// No flags but `--config`, where it was given.
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self {
            file,
            values: Vec::new(),
        }
    }

    /// Adds the value of a flag, where it was given.
    pub(crate) fn text(&mut self, key: &'static str, flag: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.values.push((key, Value::String(value.to_owned()), flag));
        }
    }

    /// Adds a flag without a value, where it was given.
    pub(crate) fn switch(&mut self, key: &'static str, flag: &'static str, given: bool) {
        if given {
            self.values.push((key, Value::Boolean(true), flag));
        }
    }
}

impl Config {
    /// Reads all four layers and checks them.
    pub(crate) fn load(
        flags: &Flags,
        environment: &Environment,
        policy: SandboxPolicy,
    ) -> Result<Self, Error> {
        Self::from_layers(layers(flags, environment)?, environment, policy)
    }

    /// Reads the data folder alone, for commands that need nothing else of a node's configuration.
    pub(crate) fn data_dir(flags: &Flags, environment: &Environment) -> Result<PathBuf, Error> {
        let layers = layers(flags, environment)?;
        Ok(PathBuf::from(values::Reader(&layers).text("data_dir")?))
    }

    fn from_layers(
        mut layers: Layers,
        environment: &Environment,
        policy: SandboxPolicy,
    ) -> Result<Self, Error> {
        relax_sandbox(&mut layers, policy);
        hosted::apply_defaults(&mut layers)?;
        let read = values::Reader(&layers);
        let data_dir = PathBuf::from(read.text("data_dir")?);
        let outbound = network::outbound(&read, environment)?;
        let config = Self {
            listen: read.parsed(
                "listen",
                "must be an IP address and a port, such as 127.0.0.1:8080",
            )?,
            metrics_listen: read.optional_address("metrics_listen")?,
            mode: read.mode()?,
            hosted: hosted::settings(&read, &outbound)?,
            sign_in: sign_in::settings(&layers)?,
            license: license::options(&read)?,
            license_signer: license::signer(&read)?,
            plans: plans::settings(&layers)?,
            database_url: read.database_url(&data_dir)?,
            database_connections: read.integer("database_connections", 1, 100)?,
            blob_url: read.blob_url()?,
            aws: environment.aws(),
            max_file_bytes: read.integer("max_file_bytes", 1, MAX_FILE_BYTES)?,
            node_name: read.node_name()?,
            advertise_url: read.base_url("advertise_url")?,
            node_url: read.base_url("node_url")?,
            master_keys: read.master_keys()?,
            concurrency: read.at_least_one("concurrency")?,
            organization_concurrency: read.optional_at_least_one("organization_concurrency")?,
            organization_storage_bytes: read.optional_bytes("organization_storage_bytes")?,
            compute_micros_per_second: read.micros("compute_micros_per_second", 0, i64::MAX)?,
            default_max_cost: read.micros(
                "default_max_cost_micros",
                1,
                sortie_api::limits::MAX_COST_MICROS,
            )?,
            rate_limit_per_minute: read.at_least_one("rate_limit_per_minute")?,
            anonymous_rate_limit_per_minute: read.at_least_one("anonymous_rate_limit_per_minute")?,
            trusted_proxies: read.networks("trusted_proxies")?,
            drain: Duration::from_secs(read.integer("drain_seconds", 0, 3_600)?),
            shutdown_grace: Duration::from_secs(read.integer("shutdown_grace_seconds", 0, 86_400)?),
            surcharge_percent: read.integer("surcharge_percent", 0, 1_000)?,
            memory_bytes: read.integer("zero_data_retention.memory_bytes", 1 << 20, i64::MAX)?,
            memory_dir: read
                .optional_text("zero_data_retention.work_dir")?
                .map(PathBuf::from),
            retention: read.retention()?,
            retention_clock_checked: read.retention_clock_checked()?,
            models: providers::settings(
                &layers,
                (environment, &outbound),
                read.default_model()?,
                Duration::from_secs(read.integer("model_silence_seconds", 1, 3_600)?),
            )?,
            robots: read.robots()?,
            search: read.search()?,
            deprecation: read.deprecation()?,
            connections_reach: read.reach("connections")?,
            callbacks_reach: read.reach("callbacks")?,
            sandbox_minimum: read.sandbox_minimum()?,
            sandbox_readable: read.sandbox_readable()?,
            sandbox_limits: read.sandbox_limits()?,
            log_format: read.log_format()?,
            log_filter: read.log_filter()?,
            traces: read.traces(environment)?,
            data_dir,
            outbound,
            layers: Layers::default(),
        };
        layers.forget("master_key");
        layers.forget(license::SIGNING_KEY);
        Ok(Self { layers, ..config })
    }

    /// Every key with its value and its source, secrets left out, in the form of the file.
    pub(crate) fn to_toml(&self) -> String {
        print::as_toml(&self.layers)
            + &print::providers_as_toml(&self.models)
            + &sign_in::as_toml(&self.sign_in)
            + &plans::as_toml(&self.plans)
    }

    /// Every key with its value and its source, secrets left out.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        print::as_json(&self.layers, &self.models, (&self.sign_in, &self.plans))
    }
}

fn stack(file: Option<(&Path, &str)>, flags: &Flags, environment: &Environment) -> Result<Layers, Error> {
    let mut layers = Layers::defaults()?;
    if let Some((path, text)) = file {
        layers.add_file(path, text)?;
    }
    layers.add_environment(environment)?;
    for (key, value, flag) in &flags.values {
        layers.set(key, value.clone(), Source::Flag(flag));
    }
    Ok(layers)
}

/// On one's own machine the confirmation is enough to go without a sandbox, and nobody has to ask for `landlock`.
fn relax_sandbox(layers: &mut Layers, policy: SandboxPolicy) {
    let untouched = layers
        .get("sandbox.minimum")
        .is_some_and(|setting| setting.source == Source::Default);
    if policy == SandboxPolicy::Strongest && untouched {
        let confirmed = layers
            .get("sandbox.i_understand_commands_run_unsandboxed")
            .is_some_and(|setting| setting.value.as_bool() == Some(true));
        let level = if confirmed { Level::None } else { Level::Landlock };
        layers.set(
            "sandbox.minimum",
            Value::String(level.as_str().to_owned()),
            Source::Default,
        );
    }
}

fn read_file(path: &Path) -> io::Result<Zeroizing<String>> {
    std::fs::read_to_string(path).map(Zeroizing::new)
}

/// Reads the configuration file, the environment and the flags, without judging the values.
fn layers(flags: &Flags, environment: &Environment) -> Result<Layers, Error> {
    let named = flags
        .file
        .clone()
        .or_else(|| environment.get("SORTIE_CONFIG").map(PathBuf::from));
    let file = match &named {
        Some(path) => Some((path.clone(), read_file(path).map_err(|e| unreadable(path, &e))?)),
        None => match read_file(Path::new(FILE)) {
            Ok(text) => Some((PathBuf::from(FILE), text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(Path::new(FILE), &error)),
        },
    };
    let file = file.as_ref().map(|(path, text)| (path.as_path(), text.as_str()));
    stack(file, flags, environment)
}

/// Reads the value that a file holds, without the ends of lines behind it. Only a regular file has one: a pipe would be
/// waited for, a device never end.
fn read_value(path: &Path) -> io::Result<Zeroizing<String>> {
    // Opening a pipe without this waits for its other end.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?);
    let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why);
    if !file.metadata()?.is_file() {
        return Err(refused("it is no regular file"));
    }
    // Room for the whole value at once: a text that grows leaves copies behind.
    let mut text = Zeroizing::new(String::with_capacity(4 * 1024));
    file.take(MAX_VALUE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_VALUE_BYTES {
        return Err(refused("it is larger than 64 KiB"));
    }
    let length = text.trim_end_matches(['\n', '\r']).len();
    text.truncate(length);
    Ok(text)
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error(format!(
        "{}: cannot be read: {}",
        path.display(),
        plain::io(error)
    ))
}

#[cfg(test)]
mod tests;
