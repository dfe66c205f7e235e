//! Rules of a connection's definition, saved or inline: allowed fields and values, and the split into its two halves.
//!
//! A checked definition has two halves: one without secrets, which is stored and returned to clients, and [`Secrets`],
//! which are sealed. Every message names the field and the rule, and repeats no value.

use std::{collections::BTreeMap, net::IpAddr};

use percent_encoding::percent_decode_str;
use sortie_api::{
    Credential, Refusal,
    connection::{AuthType, ConnectionAuth, ConnectionDefinition, ConnectionType},
    limits,
};
use sortie_net::Reach;
use url::{Host, Url};

use super::{
    auth,
    fields::{At, header_name, header_value, is_name, short},
    secrets::{AuthSecret, Secrets},
};

/// Headers that belong to the transport, or have a field of their own in a definition.
const RESERVED: [&str; 16] = [
    "host",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "authorization",
    "mcp-session-id",
    "last-event-id",
];

/// Further headers that the MCP transport sets.
const MCP_RESERVED: [&str; 5] = [
    "accept",
    "content-type",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
];

/// Methods that a definition may allow.
pub(crate) const METHODS: [&str; 7] = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"];

/// Origin of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Saved under a name.
    Saved,
    /// In the request of one run.
    Inline,
}

/// Rules that a definition is checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) reach: Reach,
    pub(crate) usage: Use,
    /// `Ok` if a connection may be a program, otherwise the rule that forbids it.
    pub(crate) programs: Result<(), &'a str>,
}

/// A definition that has passed every rule.
pub(crate) struct Checked {
    /// Definition without secrets.
    pub(crate) definition: ConnectionDefinition,
    pub(crate) secrets: Secrets,
}

/// Checks a definition and separates its secrets from it.
pub(crate) fn check(
    at: At<'_>,
    rules: Rules<'_>,
    mut definition: ConnectionDefinition,
) -> Result<Checked, Refusal> {
    let mut secrets = Secrets::default();
    let auth = definition.auth.take().unwrap_or_default();
    secrets.auth = auth::check(at, &auth)?;
    check_target(at, rules, &mut definition, &mut secrets)?;
    check_oauth(at, rules, &definition, &secrets)?;
    if let Some(given) = &definition.headers {
        secrets.headers = headers(at, definition.kind, given, &secrets.auth)?;
    }
    if let Some(methods) = &definition.allowed_methods {
        if definition.kind != ConnectionType::Http {
            return Err(at.broken("allowed_methods", "is for type http"));
        }
        allowed_methods(at, methods)?;
    }
    if let Some(tools) = &definition.allowed_tools {
        if definition.kind != ConnectionType::Mcp {
            return Err(at.broken("allowed_tools", "is for type mcp"));
        }
        allowed_tools(at, tools)?;
    }
    if let Some(description) = &definition.description
        && description.chars().count() > limits::DESCRIPTION_CHARS
    {
        let rule = format!("must be at most {} characters", limits::DESCRIPTION_CHARS);
        return Err(at.broken("description", rule));
    }
    let kind = secrets.auth.kind();
    definition.auth = (kind != AuthType::None).then(|| ConnectionAuth {
        kind,
        ..ConnectionAuth::default()
    });
    hide(&mut definition.headers);
    hide(&mut definition.env);
    Ok(Checked { definition, secrets })
}

/// Empties the values of a map. An empty map becomes `None`.
fn hide(values: &mut Option<BTreeMap<String, Credential>>) {
    if values.as_ref().is_some_and(BTreeMap::is_empty) {
        *values = None;
    }
    for value in values.iter_mut().flat_map(BTreeMap::values_mut) {
        *value = Credential::new("");
    }
}

/// Checks the target: either a URL or a program.
fn check_target(
    at: At<'_>,
    rules: Rules<'_>,
    definition: &mut ConnectionDefinition,
    secrets: &mut Secrets,
) -> Result<(), Refusal> {
    match (&definition.url, &definition.command) {
        (Some(text), None) => {
            if definition.env.is_some() {
                return Err(at.broken("env", "is for a connection with a command"));
            }
            definition.url = Some(target_url(at, rules, text, secrets)?);
            Ok(())
        }
        (None, Some(command)) => {
            if definition.kind != ConnectionType::Mcp {
                return Err(at.broken("command", "is for type mcp"));
            }
            rules.programs.map_err(|reason| at.broken("command", reason))?;
            program(at, command)?;
            if secrets.auth != AuthSecret::None {
                return Err(at.broken(
                    "auth",
                    "is for a connection with a url: a program gets its credentials by env",
                ));
            }
            if definition.headers.is_some() {
                return Err(at.broken("headers", "is for a connection with a url"));
            }
            secrets.env = environment(at, definition.env.as_ref())?;
            Ok(())
        }
        (Some(_), Some(_)) => Err(at.broken("command", "cannot be combined with url: send one of the two")),
        (None, None) => Err(at.broken("url", "required")),
    }
}

/// Returns the URL without its user info and its query, which become secrets.
fn target_url(at: At<'_>, rules: Rules<'_>, text: &str, secrets: &mut Secrets) -> Result<String, Refusal> {
    let mut url = web_url(at, "url", rules.reach, text)?;
    if !url.username().is_empty() || url.password().is_some() {
        if rules.usage == Use::Saved {
            return Err(at.broken("url", "must not contain user info: use auth"));
        }
        if secrets.auth != AuthSecret::None {
            return Err(at.broken("url", "must not contain user info if auth is set"));
        }
        secrets.auth = user_info(at, &url)?;
        // Neither call can fail for a URL with a host.
        let _cleared = url.set_username("").and_then(|()| url.set_password(None));
    }
    secrets.query = url.query().filter(|query| !query.is_empty()).map(str::to_owned);
    url.set_query(None);
    Ok(url.to_string())
}

fn user_info(at: At<'_>, url: &Url) -> Result<AuthSecret, Refusal> {
    let decoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8().ok()?;
        (!text.contains(char::is_control)).then(|| text.into_owned())
    };
    let username = decoded(url.username()).filter(|name| !name.contains(':'));
    let password = decoded(url.password().unwrap_or_default());
    match (username, password) {
        (Some(username), Some(password)) => Ok(AuthSecret::Basic { username, password }),
        _ => Err(at.broken(
            "url",
            "has user info that is not UTF-8 without control characters",
        )),
    }
}

/// Reads an http or https URL that `reach` allows. The addresses of its host name are checked when it is called.
pub(crate) fn web_url(at: At<'_>, field: &str, reach: Reach, text: &str) -> Result<Url, Refusal> {
    if text.chars().count() > limits::CONNECTION_URL_CHARS {
        let rule = format!("must be at most {} characters", limits::CONNECTION_URL_CHARS);
        return Err(at.broken(field, rule));
    }
    // The URL parser would silently drop these characters.
    if text.contains(|character: char| character.is_control() || character.is_whitespace()) {
        return Err(at.broken(field, "must not contain spaces or control characters"));
    }
    let url =
        Url::parse(text).map_err(|_| at.broken(field, "must be a URL such as https://api.example.com/v1"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(at.broken(field, "must be http or https"));
    }
    if url.fragment().is_some() {
        return Err(at.broken(field, "must not contain a fragment"));
    }
    let refused = match url.host() {
        Some(Host::Ipv4(ip)) => !reach.allows(IpAddr::V4(ip)),
        Some(Host::Ipv6(ip)) => !reach.allows(IpAddr::V6(ip)),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            reach == Reach::Public && (name == "localhost" || name.ends_with(".localhost"))
        }
        None => return Err(at.broken(field, "must name a host")),
    };
    if refused {
        return Err(at.broken(field, "leads to an address that connections must not reach"));
    }
    Ok(url)
}

fn check_oauth(
    at: At<'_>,
    rules: Rules<'_>,
    definition: &ConnectionDefinition,
    secrets: &Secrets,
) -> Result<(), Refusal> {
    let AuthSecret::OAuth(client) = &secrets.auth else {
        return Ok(());
    };
    if rules.usage == Use::Inline {
        return Err(at.broken(
            "auth.type",
            "oauth needs a person: save the connection, authorize it and use its ref",
        ));
    }
    if let Some(issuer) = &client.issuer {
        let url = web_url(at, "auth.issuer", rules.reach, issuer)?;
        if url.query().is_some() {
            return Err(at.broken("auth.issuer", "must have no query"));
        }
    }
    match &client.endpoints {
        Some((authorization_url, token_url)) => {
            web_url(at, "auth.authorization_url", rules.reach, authorization_url)?;
            web_url(at, "auth.token_url", rules.reach, token_url)?;
            if client.client_id.is_none() {
                return Err(at.broken("auth.client_id", "required together with authorization_url"));
            }
        }
        None if definition.kind == ConnectionType::Http => {
            return Err(at.broken("auth.authorization_url", "required for type http"));
        }
        None => {}
    }
    Ok(())
}

fn headers(
    at: At<'_>,
    kind: ConnectionType,
    given: &BTreeMap<String, Credential>,
    auth: &AuthSecret,
) -> Result<BTreeMap<String, String>, Refusal> {
    if given.len() > limits::CONNECTION_HEADERS {
        return Err(at.broken(
            "headers",
            format!("must have at most {} entries", limits::CONNECTION_HEADERS),
        ));
    }
    let mut seen = Vec::new();
    for (text, value) in given {
        let name = header_name(at, "headers", text)?;
        let field = format!("headers.{}", short(text));
        let of_mcp = kind == ConnectionType::Mcp && MCP_RESERVED.contains(&name.as_str());
        if of_mcp || RESERVED.contains(&name.as_str()) {
            let rule = if name == "authorization" {
                "is set by auth"
            } else {
                "belongs to the engine"
            };
            return Err(at.broken(field, rule));
        }
        if matches!(auth, AuthSecret::Header { name: own, .. } if own.eq_ignore_ascii_case(text)) {
            return Err(at.broken(field, "is set by auth"));
        }
        if seen.contains(&name) {
            return Err(at.broken(field, "is a duplicate: names ignore case"));
        }
        seen.push(name);
        header_value(at, field, value.expose())?;
    }
    Ok(given
        .iter()
        .map(|(name, value)| (name.clone(), value.expose().to_owned()))
        .collect())
}

/// Checks the allowed methods: at least one, each once, in capitals.
pub(crate) fn allowed_methods(at: At<'_>, methods: &[String]) -> Result<(), Refusal> {
    at_least_one(at, "allowed_methods", methods)?;
    for (number, method) in methods.iter().enumerate() {
        if !METHODS.contains(&method.as_str()) {
            let field = format!("allowed_methods[{number}]");
            return Err(at.broken(field, format!("must be one of {}", METHODS.join(", "))));
        }
    }
    each_once(at, "allowed_methods", methods)
}

/// Checks the allowed tools: at least one, each once.
pub(crate) fn allowed_tools(at: At<'_>, tools: &[String]) -> Result<(), Refusal> {
    at_least_one(at, "allowed_tools", tools)?;
    if tools.len() > limits::ALLOWED_TOOLS {
        return Err(at.broken(
            "allowed_tools",
            format!("must have at most {} entries", limits::ALLOWED_TOOLS),
        ));
    }
    for (number, tool) in tools.iter().enumerate() {
        if !is_name(tool) {
            return Err(at.broken(format!("allowed_tools[{number}]"), NAME_RULE));
        }
    }
    each_once(at, "allowed_tools", tools)
}

const NAME_RULE: &str = "must be 1 to 128 bytes without control characters";

fn at_least_one(at: At<'_>, field: &str, items: &[String]) -> Result<(), Refusal> {
    if items.is_empty() {
        return Err(at.broken(field, "must have at least one entry: leave it out to allow all"));
    }
    Ok(())
}

fn each_once(at: At<'_>, field: &str, items: &[String]) -> Result<(), Refusal> {
    for (number, item) in items.iter().enumerate() {
        if items.iter().take(number).any(|before| before == item) {
            return Err(at.broken(format!("{field}[{number}]"), "is there twice"));
        }
    }
    Ok(())
}

fn program(at: At<'_>, command: &[String]) -> Result<(), Refusal> {
    if !(1..=limits::COMMAND_PARTS).contains(&command.len()) {
        return Err(at.broken(
            "command",
            format!("must have 1 to {} entries", limits::COMMAND_PARTS),
        ));
    }
    for (number, part) in command.iter().enumerate() {
        if (number == 0 && part.trim().is_empty()) || part.len() > limits::COMMAND_PART_BYTES {
            let rule = format!("must be 1 to {} bytes", limits::COMMAND_PART_BYTES);
            return Err(at.broken(format!("command[{number}]"), rule));
        }
    }
    Ok(())
}

fn environment(
    at: At<'_>,
    given: Option<&BTreeMap<String, Credential>>,
) -> Result<BTreeMap<String, String>, Refusal> {
    let given = given.into_iter().flatten();
    let mut env = BTreeMap::new();
    for (name, value) in given {
        if !is_name(name) || name.contains('=') {
            return Err(at.broken("env", format!("{:?} is not the name of a variable", short(name))));
        }
        if !(1..=limits::CREDENTIAL_BYTES).contains(&value.expose().len()) {
            let rule = format!("must be 1 to {} bytes", limits::CREDENTIAL_BYTES);
            return Err(at.broken(format!("env.{}", short(name)), rule));
        }
        env.insert(name.clone(), value.expose().to_owned());
    }
    if env.len() > limits::CONNECTION_HEADERS {
        return Err(at.broken(
            "env",
            format!("must have at most {} entries", limits::CONNECTION_HEADERS),
        ));
    }
    Ok(env)
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
