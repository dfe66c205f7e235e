//! Types and rules of single values.

use std::{fmt, net::IpAddr, path::Path, sync::Arc, time::Duration};

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, de::Error as _};
use sortie_api::Credential;
use sortie_api::SignUpRule;
use sortie_base::{InvalidLicenseKey, LicensePublicKey, LicenseSigner};
use sortie_engine::MasterKey;
use sortie_net::check_form;
use sortie_sandbox::Level;
use sortie_web::{Backend, RobotsTxt};
use toml::Value;
use url::Url;

/// Text that replaces a redacted secret.
pub(super) const HIDDEN: &str = "***";

/// Address of the database. `Debug` and `Display` leave the password out.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct DatabaseUrl(String);

impl DatabaseUrl {
    /// The URL with its password, only for the store.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// The file of an `SQLite` database.
    pub(crate) fn sqlite_path(&self) -> Option<&Path> {
        self.0.strip_prefix("sqlite:").map(Path::new)
    }
}

impl TryFrom<String> for DatabaseUrl {
    type Error = &'static str;

    fn try_from(url: String) -> Result<Self, Self::Error> {
        let sqlite_file = url.strip_prefix("sqlite:").is_some_and(|path| !path.is_empty());
        let postgres = ["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| url.starts_with(scheme));
        if sqlite_file || (postgres && Url::parse(&url).is_ok()) {
            Ok(Self(url))
        } else {
            Err("must be `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/DATABASE`")
        }
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
    let Ok(mut parsed) = Url::parse(url) else {
        return "(not a URL)".to_owned();
    };
    if parsed.password().is_some() && parsed.set_password(Some(HIDDEN)).is_err() {
        return "(not shown)".to_owned();
    }
    if parsed.query().is_some() {
        parsed.set_query(Some(HIDDEN));
    }
    parsed.to_string()
}

/// Base address of requests. `Display` has no slash at its end.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct BaseUrl {
    text: String,
    pub(super) url: Url,
}

impl TryFrom<String> for BaseUrl {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Url::parse(&text)
            .ok()
            .filter(|url| url.query().is_none() && url.fragment().is_none() && check_form(url).is_ok())
            .map(|url| Self {
                text: text.trim_end_matches('/').to_owned(),
                url,
            })
            .ok_or("must be an http:// or https:// address of a host, without user, query or fragment")
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Name of a table that is a part of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct ShortName(String);

impl TryFrom<String> for ShortName {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=32).contains(&name.len()) && name.bytes().all(is_allowed) {
            Ok(Self(name))
        } else {
            Err("must be 1 to 32 lower-case letters, digits and hyphens")
        }
    }
}

impl From<ShortName> for String {
    fn from(name: ShortName) -> Self {
        name.0
    }
}

/// Reads a whole number from `LEAST` to `MOST`.
pub(super) fn whole<'de, D, T, const LEAST: i64, const MOST: i64>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    Value::deserialize(deserializer)?
        .as_integer()
        .filter(|number| (LEAST..=MOST).contains(number))
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| {
            D::Error::custom(if MOST == i64::MAX {
                format!("must be a whole number, at least {LEAST}")
            } else {
                format!("must be a whole number from {LEAST} to {MOST}")
            })
        })
}

pub(super) fn some_whole<'de, D, T, const LEAST: i64, const MOST: i64>(
    deserializer: D,
) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    whole::<D, T, LEAST, MOST>(deserializer).map(Some)
}

/// Reads a time of whole seconds.
pub(super) fn seconds<'de, D, const LEAST: i64, const MOST: i64>(
    deserializer: D,
) -> Result<Duration, D::Error>
where
    D: Deserializer<'de>,
{
    whole::<D, u64, LEAST, MOST>(deserializer).map(Duration::from_secs)
}

/// Reads a time of days; `None` for 0.
pub(super) fn days<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let days = whole::<D, u64, 0, 36_500>(deserializer)?;
    Ok((days > 0).then(|| Duration::from_hours(days * 24)))
}

pub(super) fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    let rule = "must be a list of IP addresses and networks, such as 10.0.0.7 and 10.244.0.0/16";
    list(deserializer, |text| network(&text).ok_or(rule))
}

/// Origins as browsers send them: no path, no user, no port that the scheme has by default.
pub(super) fn origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let rule = "must be a list of origins as browsers send them, such as https://app.example.com and http://localhost:5173";
    list(deserializer, |text| {
        let url = Url::parse(&text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"));
        let is_origin = url.is_some_and(|url| url.origin().ascii_serialization() == *text);
        is_origin.then(|| text.clone()).ok_or(rule)
    })
}

/// A network, or a single address as a network of one host. IPv4-mapped IPv6 is refused: no client's address matches
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

/// Reads the keys that seal credentials. Error messages do not repeat them.
pub(super) fn master_keys<'de, D>(deserializer: D) -> Result<Option<Vec<MasterKey>>, D::Error>
where
    D: Deserializer<'de>,
{
    let rule = "must be 32 bytes in base64 or hexadecimal, or several of them separated by commas";
    let keys = MasterKey::list(Credential::deserialize(deserializer)?.expose());
    keys.map(Some).map_err(|_| D::Error::custom(rule))
}

pub(super) fn license_signer<'de, D>(deserializer: D) -> Result<Option<Arc<LicenseSigner>>, D::Error>
where
    D: Deserializer<'de>,
{
    let seed = Credential::deserialize(deserializer)?;
    let signer: Result<LicenseSigner, InvalidLicenseKey> = seed.expose().parse();
    signer
        .map(|signer| Some(Arc::new(signer)))
        .map_err(D::Error::custom)
}

pub(super) fn public_keys<'de, D>(deserializer: D) -> Result<Vec<LicensePublicKey>, D::Error>
where
    D: Deserializer<'de>,
{
    list(deserializer, |text| {
        text.parse()
            .map_err(|error: InvalidLicenseKey| format!("each {error}"))
    })
}

pub(super) fn robots<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RobotsTxt, D::Error> {
    Ok(if bool::deserialize(deserializer)? {
        RobotsTxt::Honoured
    } else {
        RobotsTxt::Ignored
    })
}

/// Reads a list of texts, each by `read`.
fn list<'de, D, T, E>(deserializer: D, read: impl FnMut(String) -> Result<T, E>) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    E: fmt::Display,
{
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts
        .into_iter()
        .map(read)
        .collect::<Result<_, _>>()
        .map_err(D::Error::custom)
}

/// Reads one of several names.
pub(super) fn one_of<'de, D, T>(deserializer: D, names: &[(&str, T)]) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Copy,
{
    let text = String::deserialize(deserializer)?;
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let mut names = names.iter().map(|(name, _)| format!("`{name}`"));
        let last = names.next_back().unwrap_or_default();
        D::Error::custom(format!(
            "must be {} or {last}",
            names.collect::<Vec<_>>().join(", ")
        ))
    })
}

pub(super) fn level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Level, D::Error> {
    let levels = [Level::Namespaces, Level::Landlock, Level::None];
    one_of(deserializer, &levels.map(|level| (level.as_str(), level)))
}

pub(super) fn sign_up<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SignUpRule, D::Error> {
    let rules = [
        SignUpRule::Open,
        SignUpRule::VerifyFirst,
        SignUpRule::Invited,
        SignUpRule::Closed,
    ];
    one_of(deserializer, &rules.map(|rule| (rule.as_str(), rule)))
}

pub(super) fn some_backend<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Backend>, D::Error> {
    let names = [
        ("brave", Backend::Brave),
        ("tavily", Backend::Tavily),
        ("searxng", Backend::Searxng),
    ];
    one_of(deserializer, &names).map(Some)
}

/// Rule of `console_trace_url`.
pub(super) const TRACE_URL_RULE: &str = "must be an http:// or https:// address without user and password that has {trace_id} \
     after the host, as in https://traces.example.com/trace/{trace_id}";

/// Whether a text is the address of a trace in another tool, with `{trace_id}` in its path, query or fragment.
pub(super) fn is_trace_url(text: &str) -> bool {
    // A placeholder in the scheme, the host or the port makes another address of an ID of letters than of one of digits.
    let with = |id: &str| Url::parse(&text.replace("{trace_id}", id)).ok();
    let (letters, digits) = (with("aa"), with("11"));
    let (Some(letters), Some(digits)) = (letters, digits) else {
        return false;
    };
    text.contains("{trace_id}")
        && check_form(&letters).is_ok()
        && letters.authority() == digits.authority()
        && letters.scheme() == digits.scheme()
}

/// Whether a text may name a node.
pub(crate) fn is_node_name(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
}
