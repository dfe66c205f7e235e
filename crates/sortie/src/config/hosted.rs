//! Settings of a hosted deployment, and the defaults that it has of its own.

use std::net::{IpAddr, SocketAddr};

use sortie_accounts::SignUp;
use sortie_api::Mode;
use toml::Value;
use url::{Host, Url};

use super::{
    Error,
    layers::{Layers, Source},
    values::Reader,
};

/// Settings of a hosted deployment.
#[derive(Clone, Debug)]
pub(crate) struct HostedSettings {
    /// Address of the listener of the organization API.
    pub(crate) listen: SocketAddr,
    /// Address of the organization API that people use: an origin, as browsers write it.
    pub(crate) org_url: String,
    /// Address of the engine API that clients use, without a slash at its end.
    pub(crate) engine_url: String,
    /// Rule for new accounts.
    pub(crate) sign_up: SignUp,
}

/// Defaults of a hosted deployment, where a key has no other value.
const DEFAULTS: [(&str, i64); 3] = [
    ("compute_micros_per_second", 30),
    ("surcharge_percent", 20),
    ("organization_concurrency", 20),
];

/// Puts the defaults of a hosted deployment in the place of the general ones.
pub(super) fn apply_defaults(layers: &mut Layers) -> Result<(), Error> {
    if Reader(layers).mode()? == Mode::SelfHosted {
        return Ok(());
    }
    for (key, value) in DEFAULTS {
        let untouched = layers
            .get(key)
            .is_none_or(|setting| setting.source == Source::Default);
        if untouched {
            layers.set(key, Value::Integer(value), Source::Default);
        }
    }
    Ok(())
}

/// Reads the settings of a hosted deployment. None on a self-hosted one, which must not have them.
pub(super) fn settings(read: &Reader<'_>) -> Result<Option<HostedSettings>, Error> {
    let sign_up = sign_up(read)?;
    if read.mode()? == Mode::SelfHosted {
        for key in ["org_listen", "org_url"] {
            if read.optional_text(key)?.is_some() {
                return Err(read.wrong(key, "needs mode = \"hosted\""));
            }
        }
        return Ok(None);
    }
    let needed = |key| read.wrong(key, "must be set with mode = \"hosted\"");
    Ok(Some(HostedSettings {
        listen: read
            .optional_address("org_listen")?
            .ok_or_else(|| needed("org_listen"))?,
        org_url: org_url(read)?.ok_or_else(|| needed("org_url"))?,
        engine_url: engine_url(read)?.ok_or_else(|| needed("advertise_url"))?,
        sign_up,
    }))
}

fn sign_up(read: &Reader<'_>) -> Result<SignUp, Error> {
    let text = read.text("sign_up")?;
    [SignUp::Open, SignUp::VerifyFirst, SignUp::Invited, SignUp::Closed]
        .into_iter()
        .find(|rule| rule.as_str() == text)
        .ok_or_else(|| read.wrong("sign_up", "must be `open`, `verify_first`, `invited` or `closed`"))
}

fn org_url(read: &Reader<'_>) -> Result<Option<String>, Error> {
    let key = "org_url";
    let Some(text) = read.base_url(key)? else {
        return Ok(None);
    };
    let url = Url::parse(&text).map_err(|_| read.wrong(key, "must be an address"))?;
    if url.path() != "/" {
        return Err(read.wrong(key, "must have no path"));
    }
    secure(read, key, &url)?;
    // Browsers write an origin in this form: compared with `Origin`, it must have the same bytes.
    Ok(Some(url.origin().ascii_serialization()))
}

fn engine_url(read: &Reader<'_>) -> Result<Option<String>, Error> {
    let key = "advertise_url";
    let Some(text) = read.base_url(key)? else {
        return Ok(None);
    };
    let url = Url::parse(&text).map_err(|_| read.wrong(key, "must be an address"))?;
    secure(read, key, &url)?;
    Ok(Some(text))
}

/// Refuses plain http, except on loopback addresses: tokens and passwords would travel in clear.
fn secure(read: &Reader<'_>, key: &str, url: &Url) -> Result<(), Error> {
    let loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        None => false,
    };
    if url.scheme() == "https" || loopback {
        Ok(())
    } else {
        Err(read.wrong(
            key,
            "must begin with https:// unless its host is a loopback address",
        ))
    }
}
