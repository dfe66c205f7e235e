//! From settings to typed values: the rule of every key.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use ipnet::IpNet;
use sortie_api::{Credential, Micros, Mode, usage::Day};
use sortie_engine::MasterKey;
use sortie_net::Reach;
use sortie_sandbox::{Level, Limits, check_readable};
use sortie_web::{Backend, RobotsTxt, SearchSettings};
use toml::Value;

use super::{
    Error, LogFormat,
    layers::Layers,
    providers::{BASE_URL, base_url},
};
use crate::logging::{self, FILTER_RULE};

/// Address of the database. `Debug` and `Display` leave the password out.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DatabaseUrl(String);

impl DatabaseUrl {
    /// The URL with its password, for the store alone.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// The file of an `SQLite` database.
    pub(crate) fn sqlite_path(&self) -> Option<&Path> {
        self.0.strip_prefix("sqlite:").map(Path::new)
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact(&self.0))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A database URL without what may be a password: in the user info, or in a parameter.
pub(super) fn redact(url: &str) -> String {
    if url.starts_with("sqlite:") {
        return url.to_owned();
    }
    let Ok(mut parsed) = url::Url::parse(url) else {
        return "(not a URL)".to_owned();
    };
    if parsed.password().is_some() && parsed.set_password(Some("***")).is_err() {
        return "(not shown)".to_owned();
    }
    if parsed.query().is_some() {
        parsed.set_query(Some("***"));
    }
    parsed.to_string()
}

/// Reads typed values out of the layers.
pub(super) struct Reader<'a>(pub(super) &'a Layers);

impl Reader<'_> {
    /// The error that says that a key's value breaks a rule.
    pub(super) fn wrong(&self, key: &str, rule: &str) -> Error {
        match self.0.get(key) {
            Some(setting) => Error(format!("{key} ({}): {rule}", setting.source)),
            None => Error(format!("{key}: {rule}")),
        }
    }

    pub(super) fn optional_text(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.0.get(key).map(|setting| &setting.value) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "must be a text that is not empty")),
        }
    }

    /// Whether a key has a value.
    pub(super) fn is_set(&self, key: &str) -> bool {
        self.0.get(key).is_some()
    }

    /// Returns a list of texts. The rule does not repeat them.
    pub(super) fn optional_texts(&self, key: &str) -> Result<Option<Vec<&str>>, Error> {
        let Some(setting) = self.0.get(key) else {
            return Ok(None);
        };
        let texts = setting
            .value
            .as_array()
            .and_then(|items| items.iter().map(Value::as_str).collect());
        texts
            .map(Some)
            .ok_or_else(|| self.wrong(key, "must be a list of texts"))
    }

    pub(super) fn text(&self, key: &str) -> Result<&str, Error> {
        self.optional_text(key)?
            .ok_or_else(|| self.wrong(key, "must be set"))
    }

    pub(super) fn parsed<T: FromStr>(&self, key: &str, rule: &str) -> Result<T, Error> {
        self.text(key)?.parse().map_err(|_| self.wrong(key, rule))
    }

    pub(super) fn optional_integer(&self, key: &str, least: i64, most: i64) -> Result<Option<i64>, Error> {
        match self.0.get(key).map(|setting| &setting.value) {
            None => Ok(None),
            Some(Value::Integer(value)) if (least..=most).contains(value) => Ok(Some(*value)),
            Some(_) if most == i64::MAX => {
                Err(self.wrong(key, &format!("must be a whole number, at least {least}")))
            }
            Some(_) => Err(self.wrong(key, &format!("must be a whole number from {least} to {most}"))),
        }
    }

    /// A number within bounds, of the type it is needed in.
    pub(super) fn integer<T: TryFrom<i64>>(&self, key: &str, least: i64, most: i64) -> Result<T, Error> {
        self.optional_integer(key, least, most)?
            .and_then(|value| T::try_from(value).ok())
            .ok_or_else(|| self.wrong(key, "must be a whole number"))
    }

    pub(super) fn at_least_one(&self, key: &str) -> Result<u32, Error> {
        self.integer(key, 1, u32::MAX.into())
    }

    pub(super) fn optional_at_least_one(&self, key: &str) -> Result<Option<u32>, Error> {
        match self.0.get(key) {
            Some(_) => self.at_least_one(key).map(Some),
            None => Ok(None),
        }
    }

    /// Returns a number of bytes, at least 1. None where the key has no value.
    pub(super) fn optional_bytes(&self, key: &str) -> Result<Option<u64>, Error> {
        match self.0.get(key) {
            Some(_) => self.integer(key, 1, i64::MAX).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the time for which finished runs are kept; none: for ever.
    pub(super) fn retention(&self) -> Result<Option<Duration>, Error> {
        let days: u64 = self.integer("retention_days", 0, 36_500)?;
        Ok((days > 0).then(|| Duration::from_hours(days * 24)))
    }

    /// Returns the day on which the operator has checked the clock.
    pub(super) fn retention_clock_checked(&self) -> Result<Option<Day>, Error> {
        let key = "retention_clock_checked";
        let rule = "must be a date such as 2026-11-28";
        match self.optional_text(key)? {
            Some(_) => self.parsed(key, rule).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn micros(&self, key: &str, least: i64, most: i64) -> Result<Micros, Error> {
        self.integer(key, least, most)
    }

    pub(super) fn switch(&self, key: &str) -> Result<bool, Error> {
        self.0
            .get(key)
            .and_then(|setting| setting.value.as_bool())
            .ok_or_else(|| self.wrong(key, "must be true or false"))
    }

    /// An address and a port to listen on.
    pub(super) fn optional_address(&self, key: &str) -> Result<Option<SocketAddr>, Error> {
        match self.optional_text(key)? {
            Some(_) => {
                let rule = "must be an IP address and a port, such as 127.0.0.1:9090";
                self.parsed(key, rule).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Returns a list of texts.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<&str>, Error> {
        let rule = || self.wrong(key, "must be a list of texts");
        let Some(Value::Array(items)) = self.0.get(key).map(|setting| &setting.value) else {
            return Err(rule());
        };
        items.iter().map(|item| item.as_str().ok_or_else(rule)).collect()
    }

    pub(super) fn networks(&self, key: &str) -> Result<Vec<IpNet>, Error> {
        let rule = "must be a list of IP addresses and networks, such as 10.0.0.7 and 10.244.0.0/16";
        let Some(Value::Array(items)) = self.0.get(key).map(|setting| &setting.value) else {
            return Err(self.wrong(key, rule));
        };
        items
            .iter()
            .map(|item| {
                item.as_str()
                    .and_then(network)
                    .ok_or_else(|| self.wrong(key, rule))
            })
            .collect()
    }

    pub(super) fn default_model(&self) -> Result<Option<&str>, Error> {
        self.optional_text("default_model")
    }

    pub(super) fn robots(&self) -> Result<RobotsTxt, Error> {
        Ok(if self.switch("web.robots")? {
            RobotsTxt::Honoured
        } else {
            RobotsTxt::Ignored
        })
    }

    /// Returns the search service of `web_search`, if there is one.
    pub(super) fn search(&self) -> Result<Option<SearchSettings>, Error> {
        let Some(backend) = self.optional_text("web.search.backend")? else {
            return Ok(None);
        };
        let backend = match backend {
            "brave" => Backend::Brave,
            "tavily" => Backend::Tavily,
            "searxng" => Backend::Searxng,
            _ => return Err(self.wrong("web.search.backend", "must be `brave`, `tavily` or `searxng`")),
        };
        let key = self.optional_text("web.search.api_key")?.map(Credential::new);
        let base_url = match self.optional_text("web.search.base_url")? {
            Some(text) => Some(base_url(text).ok_or_else(|| self.wrong("web.search.base_url", BASE_URL))?),
            None => None,
        };
        match (backend, &key, &base_url) {
            (Backend::Searxng, _, None) => {
                Err(self.wrong("web.search.base_url", "must be set for `searxng`"))
            }
            (Backend::Brave | Backend::Tavily, None, _) => {
                Err(self.wrong("web.search.api_key", "must be set for this search service"))
            }
            _ => Ok(Some(SearchSettings {
                backend,
                key,
                base_url,
                price: self.micros("web.search.price_micros", 0, sortie_api::limits::MAX_COST_MICROS)?,
            })),
        }
    }

    pub(super) fn mode(&self) -> Result<Mode, Error> {
        match self.text("mode")? {
            "self-hosted" => Ok(Mode::SelfHosted),
            "hosted" => Ok(Mode::Hosted),
            _ => Err(self.wrong("mode", "must be `self-hosted` or `hosted`")),
        }
    }

    pub(super) fn blob_url(&self) -> Result<Option<String>, Error> {
        let key = "blob_url";
        match self.optional_text(key)? {
            Some(url) if url.starts_with("s3://") || url.starts_with("file:") => Ok(Some(url.to_owned())),
            Some(_) => Err(self.wrong(key, "must begin with `file:` or `s3://`")),
            None => Ok(None),
        }
    }

    pub(super) fn database_url(&self, data_dir: &Path) -> Result<DatabaseUrl, Error> {
        let key = "database_url";
        let Some(url) = self.optional_text(key)? else {
            return Ok(DatabaseUrl(format!(
                "sqlite:{}",
                data_dir.join("sortie.db").display()
            )));
        };
        let sqlite_file = url.strip_prefix("sqlite:").is_some_and(|path| !path.is_empty());
        let postgres = ["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| url.starts_with(scheme));
        if sqlite_file || (postgres && url::Url::parse(url).is_ok()) {
            Ok(DatabaseUrl(url.to_owned()))
        } else {
            Err(self.wrong(
                key,
                "must be `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/DATABASE`",
            ))
        }
    }

    pub(super) fn node_name(&self) -> Result<Option<String>, Error> {
        let Some(name) = self.optional_text("node_name")? else {
            return Ok(None);
        };
        if is_node_name(name) {
            Ok(Some(name.to_owned()))
        } else {
            Err(self.wrong(
                "node_name",
                "must be 1 to 100 letters, digits, dots, dashes or underscores",
            ))
        }
    }

    /// The address of an engine or a node, without a slash at its end.
    pub(super) fn base_url(&self, key: &str) -> Result<Option<String>, Error> {
        let Some(text) = self.optional_text(key)? else {
            return Ok(None);
        };
        match base_url(text) {
            Some(_) => Ok(Some(text.trim_end_matches('/').to_owned())),
            None => Err(self.wrong(key, BASE_URL)),
        }
    }

    /// The rule does not repeat the value.
    pub(super) fn master_keys(&self) -> Result<Option<Vec<MasterKey>>, Error> {
        let key = "master_key";
        let Some(text) = self.optional_text(key)? else {
            return Ok(None);
        };
        MasterKey::list(text).map(Some).map_err(|_| {
            self.wrong(
                key,
                "must be 32 bytes in base64 or hexadecimal, or several of them separated by commas",
            )
        })
    }

    /// Returns the networks that `who` (`callbacks` or `connections`) may reach. Default: all on a self-hosted engine,
    /// public ones on a hosted one.
    pub(super) fn reach(&self, who: &str) -> Result<Reach, Error> {
        let key = "private_addresses";
        let private = match self.0.get(key).map(|setting| &setting.value) {
            None => self.mode()? == Mode::SelfHosted,
            Some(Value::Array(items)) => {
                let known = |item: &Value| matches!(item.as_str(), Some("callbacks" | "connections"));
                if !items.iter().all(known) {
                    return Err(self.wrong(key, "must be a list of `callbacks` and `connections`"));
                }
                items.iter().any(|item| item.as_str() == Some(who))
            }
            Some(_) => return Err(self.wrong(key, "must be a list of `callbacks` and `connections`")),
        };
        Ok(if private { Reach::Private } else { Reach::Public })
    }

    pub(super) fn sandbox_minimum(&self) -> Result<Level, Error> {
        let (key, confirmation) = ("sandbox.minimum", "sandbox.i_understand_commands_run_unsandboxed");
        let text = self.text(key)?;
        let level = [Level::Namespaces, Level::Landlock, Level::None]
            .into_iter()
            .find(|level| level.as_str() == text)
            .ok_or_else(|| self.wrong(key, "must be `namespaces`, `landlock` or `none`"))?;
        match (level, self.switch(confirmation)?) {
            (Level::None, false) => Err(self.wrong(
                key,
                &format!(
                    "`none` lets runs do whatever this user can; accept that by {confirmation} = true or the flag \
                     --i-understand-commands-run-unsandboxed"
                ),
            )),
            (Level::Landlock | Level::Namespaces, true) => Err(self.wrong(
                confirmation,
                &format!(
                    "is true, but {key} is `{text}`; set {key} = \"none\", or take the confirmation back"
                ),
            )),
            (level, _) => Ok(level),
        }
    }

    pub(super) fn sandbox_readable(&self) -> Result<Vec<PathBuf>, Error> {
        let (key, data_dir) = ("sandbox.readable_paths", self.text("data_dir")?);
        let paths = self.optional_texts(key)?.unwrap_or_default();
        for path in &paths {
            check_readable(Path::new(path), Path::new(data_dir))
                .map_err(|reason| self.wrong(key, &format!("cannot show {path} to commands: {reason}")))?;
        }
        Ok(paths.into_iter().map(PathBuf::from).collect())
    }

    pub(super) fn sandbox_limits(&self) -> Result<Limits, Error> {
        let limits = Limits {
            processes: self.integer("sandbox.limits.processes", 8, 100_000)?,
            open_files: self.integer("sandbox.limits.open_files", 32, 1_000_000)?,
            file_bytes: self.integer("sandbox.limits.file_bytes", 1 << 20, i64::MAX)?,
            memory_bytes: self.integer("sandbox.limits.memory_bytes", 32 << 20, i64::MAX)?,
            disk_bytes: self.integer("sandbox.limits.disk_bytes", 1 << 20, i64::MAX)?,
            disk_entries: self.integer("sandbox.limits.disk_entries", 16, i64::MAX)?,
            tmp_bytes: self.integer("sandbox.limits.tmp_bytes", 1 << 20, i64::MAX)?,
        };
        if limits.file_bytes > limits.disk_bytes {
            return Err(self.wrong(
                "sandbox.limits.file_bytes",
                "is larger than sandbox.limits.disk_bytes, so that no file could ever reach it; lower it",
            ));
        }
        Ok(limits)
    }

    /// Returns the selection of log lines, which the log is able to read.
    pub(super) fn log_filter(&self) -> Result<String, Error> {
        let text = self.text("log.filter")?;
        match logging::filter(text) {
            Some(_) => Ok(text.to_owned()),
            None => Err(self.wrong("log.filter", FILTER_RULE)),
        }
    }

    pub(super) fn log_format(&self) -> Result<LogFormat, Error> {
        match self.text("log.format")? {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(self.wrong("log.format", "must be `text` or `json`")),
        }
    }
}

/// A network, or a lone address as one of a single host. IPv4 in the form of IPv6 is none: no client's address is in
/// it.
fn network(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>()
        .or_else(|_| {
            text.parse::<IpAddr>()
                .map(|address| address.to_canonical().into())
        })
        .ok()
        .filter(|network| network.addr() == network.addr().to_canonical())
}

/// Whether a text may name a node.
pub(crate) fn is_node_name(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
}
