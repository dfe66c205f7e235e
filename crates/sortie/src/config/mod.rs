//! Configuration: one typed value from four layers (flag over environment over file over default).
//!
//! The embedded `default.toml` is its documentation. Contradictions are refused here, before anything is started, with
//! one sentence that names the key and the source of its value.

mod environment;
mod hosted;
mod layers;
mod license;
mod network;
mod plans;
mod print;
mod providers;
mod settings;
mod sign_in;
mod traces;
mod values;
mod versions;
mod web;

use std::{
    fs::File,
    io::{self, Read as _},
    ops::Deref,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use sortie_accounts::IdentityProvider;
use sortie_api::plain;
use sortie_billing::Plan;
use sortie_engine::AwsVariables;
use sortie_net::Outbound;
use sortie_sandbox::Level;
use sortie_web::SearchSettings;
use toml::Value;
use zeroize::Zeroizing;

pub(crate) use environment::Environment;
pub(crate) use hosted::HostedSettings;
use layers::Layers;
pub(crate) use settings::{LogFormat, PrivateFeature, Settings};
#[cfg(feature = "otel")]
pub(crate) use traces::Sampler;
pub(crate) use traces::TraceSettings;
pub(crate) use values::is_node_name;

use crate::{
    data_dir::{DataDir, is_missing},
    failure::Exit,
    user_folders,
};

/// The commented default file.
pub(crate) const DEFAULT_FILE: &str = include_str!("default.toml");

/// The file that is read if no other is named.
const FILE: &str = "sortie.toml";

/// Key of the data folder.
const DATA_DIR: &str = "data_dir";

/// Maximum size of a file that holds a value.
const MAX_VALUE_BYTES: u64 = 64 * 1024;

/// Mistake in the configuration: its place, its value and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(pub(crate) String);

/// Rule for the confinement of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SandboxPolicy {
    /// A service for others: an isolation below the configured minimum is refused.
    Required,
    /// A personal machine: `landlock` is enough if no minimum is configured.
    Strongest,
}

/// The configuration in effect: its keys, and the values that follow from several keys.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    // Boxed, because the futures of most commands hold a configuration.
    settings: Box<Settings>,
    /// Settings of a hosted deployment; `None` on a self-hosted one.
    pub(crate) hosted: Option<HostedSettings>,
    /// Identity providers that people sign in with. A self-hosted engine with some has `advertise_url`, an origin.
    pub(crate) sign_in: Vec<IdentityProvider>,
    /// Plans of licenses that a hosted deployment sells.
    pub(crate) plans: Vec<Plan>,
    /// The `AWS_…` variables, if content is in such a store.
    pub(crate) aws: AwsVariables,
    /// Proxies and certificates of outbound connections, except those to providers.
    pub(crate) outbound: Outbound,
    pub(crate) models: sortie_models::Settings,
    pub(crate) search: Option<SearchSettings>,
    /// End of `/v1`.
    pub(crate) deprecation: Option<sortie_server::Deprecation>,
    /// Export of spans; none: disabled.
    pub(crate) traces: Option<TraceSettings>,
    layers: Layers,
}

impl Deref for Config {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

/// Settings of the command line: each key with its value and its flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    /// The file of `--config`.
    pub(crate) file: Option<PathBuf>,
    /// Data folder of commands outside a project. Without one, and for `serve`, it is the default of the configuration.
    pub(crate) outside_project: Option<PathBuf>,
    values: Vec<(&'static str, Value, &'static str)>,
}

impl Flags {
    /// No flags except `--config`, if given.
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self {
            file,
            ..Self::default()
        }
    }

    /// Adds the value of a flag, if given.
    pub(crate) fn text(&mut self, key: &'static str, flag: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.values.push((key, Value::String(value.to_owned()), flag));
        }
    }

    /// Adds a flag without a value, if given.
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

    /// Reads only the data folder, for commands that need no other settings of a node.
    pub(crate) fn data_dir(flags: &Flags, environment: &Environment) -> Result<PathBuf, Error> {
        let mut layers = layers(flags, environment)?;
        Ok(settings(&mut layers, SandboxPolicy::Required)?.data_dir)
    }

    fn from_layers(
        mut layers: Layers,
        environment: &Environment,
        policy: SandboxPolicy,
    ) -> Result<Self, Error> {
        let settings = settings(&mut layers, policy)?;
        settings.check(&layers)?;
        let outbound = settings.network.outbound(&layers, environment)?;
        Ok(Self {
            hosted: HostedSettings::new(&settings, &layers, &outbound)?,
            sign_in: sign_in::providers(&settings, &layers)?,
            plans: plans::plans(&settings, &layers)?,
            aws: environment.aws(),
            models: providers::models(&settings, &mut layers, &outbound)?,
            search: settings.web.search(&layers)?,
            deprecation: settings.api.deprecation(&layers)?,
            traces: settings.trace_section.settings(&layers, environment)?,
            outbound,
            settings: Box::new(settings),
            layers,
        })
    }

    /// Reads a text as the only file, without the environment and flags.
    pub(crate) fn of_text(path: &Path, text: &str) -> Result<Self, Error> {
        let environment = Environment::default();
        let layers = stack(Some((path, text)), &Flags::default(), &environment)?;
        Self::from_layers(layers, &environment, SandboxPolicy::Strongest)
    }

    /// Every key with its value and its source, secrets left out, in the form of the file.
    pub(crate) fn to_toml(&self) -> String {
        print::as_toml(&self.layers)
    }

    /// Every key with its value and its source, secrets left out.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        print::as_json(&self.layers)
    }
}

/// Reads the keys, after the defaults that depend on other keys. The layers hold no secrets afterwards.
fn settings(layers: &mut Layers, policy: SandboxPolicy) -> Result<Settings, Error> {
    if layers.text("mode") == Some("hosted") {
        for (key, value) in hosted::DEFAULTS {
            layers.set_default(key, Value::Integer(value));
        }
    }
    if policy == SandboxPolicy::Strongest {
        // The confirmation alone allows commands without a sandbox: the user need not lower the minimum as well.
        let confirmed = layers.get("sandbox.i_understand_commands_run_unsandboxed");
        let is_confirmed = confirmed.and_then(Value::as_bool) == Some(true);
        let level = if is_confirmed {
            Level::None
        } else {
            Level::Landlock
        };
        layers.set_default("sandbox.minimum", Value::String(level.as_str().to_owned()));
    }
    if let Some(folder) = layers.text("data_dir") {
        let url = format!("sqlite:{}", Path::new(folder).join("sortie.db").display());
        layers.set_default("database_url", Value::String(url));
    }
    let settings = layers.read()?;
    layers.redact();
    Ok(settings)
}

fn stack(file: Option<(&Path, &str)>, flags: &Flags, environment: &Environment) -> Result<Layers, Error> {
    let mut layers = Layers::defaults()?;
    if let Some((path, text)) = file {
        layers.add_file(path, text)?;
    }
    layers.add_environment(environment)?;
    for (key, value, flag) in &flags.values {
        layers.set(key, value.clone(), Some(flag));
    }
    Ok(layers)
}

fn read_file(path: &Path) -> io::Result<Zeroizing<String>> {
    std::fs::read_to_string(path).map(Zeroizing::new)
}

/// Reads the configuration file, the environment and the flags, without validating the values.
fn layers(flags: &Flags, environment: &Environment) -> Result<Layers, Error> {
    let named = flags
        .file
        .clone()
        .or_else(|| environment.get("SORTIE_CONFIG").map(PathBuf::from));
    let of_project = match named {
        Some(path) => Some((read_file(&path).map_err(|e| unreadable(&path, &e))?, path)),
        None => read_if_any(Path::new(FILE))?,
    };
    let is_project = of_project.is_some();
    let file = match (of_project, user_file(environment)) {
        (None, Some(path)) => read_if_any(&path)?,
        (of_project, _) => of_project,
    };
    let file = file.as_ref().map(|(text, path)| (path.as_path(), text.as_str()));
    let mut layers = stack(file, flags, environment)?;
    if let Some(folder) = flags.outside_project.as_ref().filter(|_| !is_project)
        && !layers.is_given(DATA_DIR)
        && !layers.text(DATA_DIR).is_some_and(is_data_folder)
    {
        layers.set_default(DATA_DIR, Value::String(folder.display().to_string()));
    }
    Ok(layers)
}

/// The configuration file of the user. It is read if the command names none and the working folder has none.
pub(crate) fn user_file(environment: &Environment) -> Option<PathBuf> {
    user_folders::settings(environment).map(|folder| folder.join(FILE))
}

fn read_if_any(path: &Path) -> Result<Option<(Zeroizing<String>, PathBuf)>, Error> {
    match read_file(path) {
        Ok(text) => Ok(Some((text, path.to_owned()))),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// Whether an engine has used this folder. A folder that cannot be read counts: it may be that of another user's engine,
/// and the command then fails with the reason.
fn is_data_folder(path: &str) -> bool {
    match DataDir::new(Path::new(path)).is_used() {
        Ok(is_used) => is_used,
        Err(failure) => failure.exit == Exit::Denied,
    }
}

/// Reads the value that a file holds, without trailing line ends. Only regular files are read: a pipe could block, and
/// a device may never end.
fn read_value(path: &Path) -> io::Result<Zeroizing<String>> {
    // Opening a pipe without this flag would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?);
    let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why);
    if !file.metadata()?.is_file() {
        return Err(refused("it is no regular file"));
    }
    // Reserve room for the whole value at once: a text that grows leaves copies in memory.
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
