//! The four layers of the configuration: default file, file, environment, flags; the later wins, key by key.
//!
//! Every value remembers where it comes from, so that a message can say it. A key that [`KEYS`] does not list is an
//! error.

use std::{collections::BTreeMap, fmt, path::Path};

use sortie_api::plain;
use strsim::levenshtein;
use toml::{Table, Value};
use zeroize::{Zeroize as _, Zeroizing};

use super::{Error, environment::Environment, traces::STANDARD_VARIABLES};
use crate::texts;

/// Kind of a key: the form of its environment variable and flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    Switch,
    /// Texts, separated by commas or ends of lines outside the configuration file.
    List,
}

/// Every key. `default.toml` documents exactly these.
pub(super) const KEYS: &[(&str, Kind)] = &[
    ("listen", Kind::Text),
    ("metrics_listen", Kind::Text),
    ("org_listen", Kind::Text),
    ("data_dir", Kind::Text),
    ("mode", Kind::Text),
    ("database_url", Kind::Text),
    ("database_connections", Kind::Integer),
    ("blob_url", Kind::Text),
    ("max_file_bytes", Kind::Integer),
    ("node_name", Kind::Text),
    ("advertise_url", Kind::Text),
    ("org_url", Kind::Text),
    ("node_url", Kind::Text),
    ("sign_up", Kind::Text),
    ("smtp_url", Kind::Text),
    ("mail_from", Kind::Text),
    ("master_key", Kind::Text),
    ("concurrency", Kind::Integer),
    ("organization_concurrency", Kind::Integer),
    ("organization_storage_bytes", Kind::Integer),
    ("compute_micros_per_second", Kind::Integer),
    ("default_max_cost_micros", Kind::Integer),
    ("rate_limit_per_minute", Kind::Integer),
    ("anonymous_rate_limit_per_minute", Kind::Integer),
    ("trusted_proxies", Kind::List),
    ("private_addresses", Kind::List),
    ("drain_seconds", Kind::Integer),
    ("shutdown_grace_seconds", Kind::Integer),
    ("retention_days", Kind::Integer),
    ("retention_clock_checked", Kind::Text),
    ("default_model", Kind::Text),
    ("model_silence_seconds", Kind::Integer),
    ("surcharge_percent", Kind::Integer),
    ("zero_data_retention.memory_bytes", Kind::Integer),
    ("zero_data_retention.work_dir", Kind::Text),
    ("network.proxy", Kind::Text),
    ("network.no_proxy", Kind::List),
    ("network.ca_file", Kind::Text),
    ("network.proxy_resolves", Kind::Switch),
    ("sandbox.minimum", Kind::Text),
    ("sandbox.i_understand_commands_run_unsandboxed", Kind::Switch),
    ("sandbox.readable_paths", Kind::List),
    ("sandbox.limits.processes", Kind::Integer),
    ("sandbox.limits.open_files", Kind::Integer),
    ("sandbox.limits.file_bytes", Kind::Integer),
    ("sandbox.limits.memory_bytes", Kind::Integer),
    ("sandbox.limits.disk_bytes", Kind::Integer),
    ("sandbox.limits.disk_entries", Kind::Integer),
    ("sandbox.limits.tmp_bytes", Kind::Integer),
    ("web.robots", Kind::Switch),
    ("web.search.backend", Kind::Text),
    ("web.search.api_key", Kind::Text),
    ("web.search.base_url", Kind::Text),
    ("web.search.price_micros", Kind::Integer),
    ("api.v1.deprecated", Kind::Text),
    ("api.v1.sunset", Kind::Text),
    ("api.v1.successor", Kind::Text),
    ("license.signing_key", Kind::Text),
    ("license.public_keys", Kind::List),
    ("license.machine_id", Kind::Text),
    ("log.format", Kind::Text),
    ("log.filter", Kind::Text),
    ("purchases.auto_per_day", Kind::Integer),
    ("purchases.auto_cents_per_day", Kind::Integer),
    ("stripe.secret_key", Kind::Text),
    ("stripe.webhook_secrets", Kind::List),
    ("stripe.api_url", Kind::Text),
    ("traces.endpoint", Kind::Text),
    ("traces.headers", Kind::List),
    ("traces.service_name", Kind::Text),
    ("traces.resource_attributes", Kind::List),
    ("traces.sampler", Kind::Text),
    ("traces.sampler_arg", Kind::Text),
];

/// Sections with as many tables as the operator writes: one of each provider, one of each model, one of each
/// plan. They are read whole.
const TABLES: &[&str] = &[
    "providers",
    "models",
    super::sign_in::SECTION,
    super::plans::SECTION,
];

/// Variables with our prefix that are not configuration keys.
const OTHER_VARIABLES: &[&str] = &[
    "SORTIE_URL",
    "SORTIE_API_KEY",
    "SORTIE_OPERATOR_KEY",
    "SORTIE_CONFIG",
];

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The embedded default file.
    Default,
    /// The configuration file of this name.
    File(String),
    /// This environment variable.
    Environment(String),
    /// This flag.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(name) | Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Value and its source.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) value: Value,
    pub(super) source: Source,
}

/// The values in effect, by key.
#[derive(Clone, Default)]
pub(super) struct Layers(BTreeMap<&'static str, Setting>);

/// Without secrets, as they are printed.
impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::print::as_toml(self))
    }
}

/// The environment variable of a key.
pub(super) fn variable(key: &str) -> String {
    format!("SORTIE_{}", key.replace('.', "_").to_ascii_uppercase())
}

/// The environment variable that names a file with the value of a key, as secrets are handed to services.
fn file_variable(key: &str) -> String {
    format!("{}_FILE", variable(key))
}

/// Returns the value of a key in the environment, from a variable or from the file that one names, and the variable's
/// name.
fn value_of(key: &str, environment: &Environment) -> Result<Option<(String, Zeroizing<String>)>, Error> {
    let (name, file_name) = (variable(key), file_variable(key));
    match (environment.get(&name), environment.get(&file_name)) {
        (Some(_), Some(_)) => Err(Error(format!("{key}: set {name} or {file_name}, not both"))),
        (Some(text), None) => Ok(Some((name, text.to_owned().into()))),
        (None, Some(path)) => {
            let text = super::read_value(Path::new(path)).map_err(|error| {
                Error(format!(
                    "{key} ({file_name}): {path} cannot be read: {}",
                    plain::io(&error)
                ))
            })?;
            Ok(Some((file_name, text)))
        }
        (None, None) => Ok(None),
    }
}

impl Layers {
    /// The embedded default file.
    pub(super) fn defaults() -> Result<Self, Error> {
        let mut layers = Self::default();
        layers.add_toml(super::DEFAULT_FILE, &Source::Default)?;
        Ok(layers)
    }

    /// Lays a configuration file over what is there.
    pub(super) fn add_file(&mut self, path: &Path, text: &str) -> Result<(), Error> {
        self.add_toml(text, &Source::File(path.display().to_string()))
    }

    fn add_toml(&mut self, text: &str, source: &Source) -> Result<(), Error> {
        let table = texts::toml(text).map_err(|rule| Error(format!("{source}: {rule}")))?;
        self.add_table("", table, source)
    }

    fn add_table(&mut self, prefix: &str, table: Table, source: &Source) -> Result<(), Error> {
        for (name, value) in table {
            let path = format!("{prefix}{name}");
            if let Some(section) = TABLES.iter().find(|section| **section == path) {
                self.set(section, value, source.clone());
                continue;
            }
            let keys = KEYS.iter().map(|(key, _)| key).chain(TABLES);
            let is_section = keys.into_iter().any(|key| key.starts_with(&format!("{path}.")));
            if let (Value::Table(inner), true) = (&value, is_section) {
                self.add_table(&format!("{path}."), inner.clone(), source)?;
                continue;
            }
            let key = known(&path).ok_or_else(|| Error(format!("{source}: {}", unknown_key(&path))))?;
            self.set(key.0, value, source.clone());
        }
        Ok(())
    }

    /// Lays the environment over what is there.
    pub(super) fn add_environment(&mut self, environment: &Environment) -> Result<(), Error> {
        for name in environment.names_with("SORTIE_") {
            if let Some(meant) = misspelt(name) {
                return Err(Error(format!("{name}: no such setting; did you mean {meant}?")));
            }
        }
        for (name, key) in STANDARD_VARIABLES {
            if let (Some(text), Some((key, kind))) = (environment.get(name), known(key)) {
                let value = read(*kind, text).map_err(|rule| Error(format!("{key} ({name}): {rule}")))?;
                self.set(key, value, Source::Environment((*name).to_owned()));
            }
        }
        for (key, kind) in KEYS {
            if let Some((name, text)) = value_of(key, environment)? {
                let value = read(*kind, &text).map_err(|rule| Error(format!("{key} ({name}): {rule}")))?;
                self.set(key, value, Source::Environment(name));
            }
        }
        Ok(())
    }

    /// Lays one value over what is there.
    pub(super) fn set(&mut self, key: &'static str, value: Value, source: Source) {
        self.forget(key);
        self.0.insert(key, Setting { value, source });
    }

    /// Overwrites a value that is known now and that nothing may show.
    pub(super) fn forget(&mut self, key: &str) {
        if let Some(Setting {
            value: Value::String(text),
            ..
        }) = self.0.get_mut(key)
        {
            text.zeroize();
        }
    }

    /// A section with the operator's tables.
    pub(super) fn table(&self, section: &str) -> Option<&Setting> {
        self.0.get(section)
    }

    /// The value of a key in effect.
    pub(super) fn get(&self, key: &str) -> Option<&Setting> {
        self.0.get(key)
    }
}

/// The setting that an unknown variable is nearly called. A name that resembles none is somebody else's: Kubernetes
/// makes `SORTIE_SERVICE_HOST` of a service called `sortie`, and scripts have variables of their own.
fn misspelt(name: &str) -> Option<String> {
    let ours = KEYS
        .iter()
        .flat_map(|(key, _)| [variable(key), file_variable(key)]);
    let ours = ours.chain(OTHER_VARIABLES.iter().map(|name| (*name).to_owned()));
    ours.map(|known| (levenshtein(name, &known), known))
        .min()
        .filter(|(distance, _)| (1..=2).contains(distance))
        .map(|(_, known)| known)
}

fn known(path: &str) -> Option<&'static (&'static str, Kind)> {
    KEYS.iter().find(|(key, _)| *key == path)
}

fn unknown_key(path: &str) -> String {
    let nearest = KEYS
        .iter()
        .map(|(key, _)| (levenshtein(path, key), *key))
        .min()
        .filter(|(distance, _)| *distance <= 3);
    match nearest {
        Some((_, key)) => format!("unknown key `{path}`; did you mean `{key}`?"),
        None => format!("unknown key `{path}`; `sortie config default` lists all keys"),
    }
}

/// Reads a value that was not given in TOML.
fn read(kind: Kind, text: &str) -> Result<Value, &'static str> {
    match kind {
        Kind::Text => Ok(Value::String(text.to_owned())),
        Kind::Integer => text
            .parse()
            .map(Value::Integer)
            .map_err(|_| "must be a whole number"),
        Kind::Switch => text
            .parse()
            .map(Value::Boolean)
            .map_err(|_| "must be true or false"),
        Kind::List => Ok(Value::Array(
            text.split([',', '\n'])
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| Value::String(item.to_owned()))
                .collect(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_file_documents_every_key_and_no_other() {
        let mut section = String::new();
        let mut uncommented = String::new();
        for line in super::super::DEFAULT_FILE.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = format!("{name}.");
            }
            let is_key = |rest: &&str| {
                let name = rest.split(" = ").next().unwrap_or_default();
                known(&format!("{section}{name}")).is_some()
            };
            uncommented += line.strip_prefix("# ").filter(is_key).unwrap_or(line);
            uncommented.push('\n');
        }
        let mut layers = Layers::default();
        layers.add_toml(&uncommented, &Source::Default).unwrap();
        let documented: Vec<_> = layers.0.keys().copied().collect();
        let mut keys: Vec<_> = KEYS.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        assert_eq!(documented, keys);
    }

    #[test]
    fn every_key_has_its_own_variable() {
        let mut names: Vec<_> = KEYS
            .iter()
            .flat_map(|(key, _)| [variable(key), file_variable(key)])
            .collect();
        names.extend(OTHER_VARIABLES.iter().map(ToString::to_string));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
