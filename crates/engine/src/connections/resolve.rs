//! Resolution of the connections that a run names into tools of its agent. Saved connections are read by name when the
//! run starts; inline ones use the credentials of the run. A failure is a sentence for the run's `error`.

use std::{collections::BTreeMap, sync::Arc};

use reqwest::{Method, header::HeaderName};
use sortie_agent::Redactor;
use sortie_api::{
    ConnectionStatus, Credential, OrgId, Refusal, RunId,
    connection::{ConnectionDefinition, ConnectionType},
    request::RunConnection,
};
use sortie_connect::{Auth, Connection, Opened, Target};
use sortie_store::connections::ConnectionRow;
use url::Url;

use super::{
    Connections,
    addressed::{Address, Inline, inline_at},
    definition_of,
    secrets::{AuthSecret, Secrets},
    tokens::ConnectionTokens,
};
use crate::kit::retry::until_read;

/// Location of the credentials of a run's inline connections.
pub(crate) enum InlineSecrets {
    /// Sealed in the store.
    Stored,
    /// In memory, by the names of the connections, for a run without stored content.
    Given(BTreeMap<String, Secrets>),
}

impl Connections {
    /// Opens the connections of a run. Each credential is added to `redactor` before it is used.
    pub(crate) async fn open_for_run(
        &self,
        (org, run): (OrgId, RunId),
        wanted: &BTreeMap<String, RunConnection>,
        inline: InlineSecrets,
        redactor: &Arc<Redactor>,
    ) -> Result<Opened, String> {
        let saved = self.saved_ones(org, wanted).await?;
        let mut secrets = match inline {
            InlineSecrets::Given(secrets) => secrets,
            InlineSecrets::Stored if wanted.values().any(|connection| connection.reference.is_none()) => {
                self.inline_secrets((org, run), wanted).await?
            }
            InlineSecrets::Stored => BTreeMap::new(),
        };
        let mut connections = Vec::with_capacity(wanted.len());
        for (name, wants) in wanted {
            let connection = match &wants.reference {
                Some(reference) => {
                    let row = saved.iter().find(|row| row.name == *reference).ok_or_else(|| {
                        format!("connection `{name}`: the saved connection {reference:?} was deleted")
                    })?;
                    let connection = self.ready(org, name, row, redactor)?;
                    narrowed(connection, wants).map_err(|rule| format!("connection `{name}`: {rule}"))?
                }
                None => inline_connection(name, wants, secrets.remove(name), redactor)?,
            };
            connections.push(connection);
        }
        match self.0.connector.open(&connections, redactor).await {
            Ok(opened) => Ok(opened),
            Err(error) => {
                let reference = wanted
                    .get(&error.connection)
                    .and_then(|wants| wants.reference.as_ref());
                if let Some(row) = saved.iter().find(|row| Some(&row.name) == reference) {
                    self.record_unauthorized(org, row, &error).await;
                }
                Err(error.to_string())
            }
        }
    }

    async fn saved_ones(
        &self,
        org: OrgId,
        wanted: &BTreeMap<String, RunConnection>,
    ) -> Result<Vec<ConnectionRow>, String> {
        let names: Vec<String> = wanted
            .values()
            .filter_map(|wants| wants.reference.clone())
            .collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let rows = until_read(|| self.0.store.connections_named(org, names.clone())).await;
        rows.map_err(|error| unreadable(&error))
    }

    /// Returns a saved connection. Fails if it needs to be authorized and has no tokens. Tokens are tried whatever the
    /// status says: a server that wanted more scopes for one call may take them for others.
    fn ready(
        &self,
        org: OrgId,
        name: &str,
        row: &ConnectionRow,
        redactor: &Redactor,
    ) -> Result<Connection, String> {
        let about = |sentence: String| format!("connection `{name}`: {sentence}");
        if row.status == ConnectionStatus::NeedsAuthorization && row.tokens.is_none() {
            return Err(about(format!(
                "{:?} needs to be authorized by an admin first (`sortie connections authorize {}`)",
                row.name, row.name
            )));
        }
        let secrets = self
            .secrets_of(org, row)
            .map_err(|error| about(error.to_string()))?;
        for text in secrets.texts() {
            redactor.add(&text);
        }
        self.saved(org, name, row).map_err(about)
    }

    /// Returns a saved connection under the name that the agent uses. The error is a sentence for people.
    pub(super) fn saved(&self, org: OrgId, name: &str, row: &ConnectionRow) -> Result<Connection, String> {
        let definition = definition_of(row).map_err(|error| error.to_string())?;
        let secrets = self.secrets_of(org, row).map_err(|error| error.to_string())?;
        let auth = if let AuthSecret::OAuth(_) = secrets.auth {
            let address = Address::of(&definition);
            Auth::OAuth(Arc::new(ConnectionTokens::new(
                self.clone(),
                (org, row.id),
                address,
            )))
        } else {
            plain_auth(&secrets.auth)?
        };
        connection(name, &definition, &secrets, auth)
    }

    /// Returns the credentials of a run's inline connections, by their names.
    pub(super) async fn inline_secrets(
        &self,
        (org, run): (OrgId, RunId),
        wanted: &BTreeMap<String, RunConnection>,
    ) -> Result<BTreeMap<String, Secrets>, String> {
        let sealed = until_read(|| self.0.store.run_secrets(run)).await;
        let Some(sealed) = sealed.map_err(|error| unreadable(&error))? else {
            return Ok(BTreeMap::new());
        };
        let unreadable = |error: Refusal| format!("the run's credentials cannot be read: {error}");
        let all: Inline = self
            .open(inline_at(&run.to_string(), org), &sealed)
            .map_err(unreadable)?;
        let mut secrets = BTreeMap::new();
        for (name, sealed) in all {
            // Credentials of a connection that the definition does not name are not used.
            if let Some(address) = wanted.get(&name).and_then(Address::of_inline) {
                let accepted = sealed.accept(&address).map_err(unreadable)?;
                secrets.insert(name, accepted);
            }
        }
        Ok(secrets)
    }
}

/// Returns the message for the client and logs the cause.
fn unreadable(error: &sortie_store::Error) -> String {
    tracing::error!(%error, "cannot read the connections of a run");
    "the run's connections cannot be read".to_owned()
}

/// Joins an inline connection with its credentials.
fn inline_connection(
    name: &str,
    wants: &RunConnection,
    secrets: Option<Secrets>,
    redactor: &Redactor,
) -> Result<Connection, String> {
    let about = |sentence: &str| format!("connection `{name}`: {sentence}");
    let needs_secrets = wants.auth.is_some() || wants.headers.is_some();
    let secrets = match secrets {
        Some(secrets) => secrets,
        None if needs_secrets => return Err(about("its credentials were deleted")),
        None => Secrets::default(),
    };
    for text in secrets.texts() {
        redactor.add(&text);
    }
    let definition = inline_definition(wants).ok_or_else(|| about("the stored definition has no type"))?;
    let auth = plain_auth(&secrets.auth).map_err(|rule| about(&rule))?;
    connection(name, &definition, &secrets, auth).map_err(|rule| about(&rule))
}

/// Returns the definition in a run's inline connection.
fn inline_definition(inline: &RunConnection) -> Option<ConnectionDefinition> {
    Some(ConnectionDefinition {
        kind: inline.kind?,
        url: inline.url.clone(),
        command: None,
        env: None,
        auth: inline.auth.clone(),
        headers: inline.headers.clone(),
        allowed_methods: inline.allowed_methods.clone(),
        allowed_tools: inline.allowed_tools.clone(),
        description: None,
    })
}

fn plain_auth(secret: &AuthSecret) -> Result<Auth, String> {
    Ok(match secret {
        AuthSecret::None => Auth::None,
        AuthSecret::Bearer { token } => Auth::Bearer(Credential::new(token)),
        AuthSecret::Basic { username, password } => Auth::Basic {
            username: username.clone(),
            password: Credential::new(password),
        },
        AuthSecret::Header { name, value } => Auth::Header {
            name: header_name(name)?,
            value: Credential::new(value),
        },
        AuthSecret::Query { name, value } => Auth::Query {
            name: name.clone(),
            value: Credential::new(value),
        },
        AuthSecret::OAuth(_) => return Err("oauth needs a saved connection".to_owned()),
    })
}

fn header_name(name: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is not the name of a header"))
}

fn connection(
    name: &str,
    definition: &ConnectionDefinition,
    secrets: &Secrets,
    auth: Auth,
) -> Result<Connection, String> {
    let headers = secrets
        .headers
        .iter()
        .map(|(name, value)| Ok((header_name(name)?, Credential::new(value))));
    Ok(Connection {
        name: name.to_owned(),
        target: target(definition, secrets)?,
        auth,
        headers: headers.collect::<Result<_, String>>()?,
        description: definition.description.clone(),
    })
}

pub(super) fn target(definition: &ConnectionDefinition, secrets: &Secrets) -> Result<Target, String> {
    let allowed_tools = definition.allowed_tools.clone();
    let Some(text) = &definition.url else {
        let command = definition
            .command
            .clone()
            .ok_or("the stored definition has no url")?;
        let env = secrets
            .env
            .iter()
            .map(|(name, value)| (name.clone(), Credential::new(value)));
        return Ok(Target::McpStdio {
            command,
            env: env.collect(),
            allowed_tools,
        });
    };
    let url: Url = text
        .parse()
        .map_err(|error| format!("the stored url cannot be read: {error}"))?;
    let url = secrets.whole_url(url);
    Ok(match definition.kind {
        ConnectionType::Http => Target::Http {
            url,
            allowed_methods: definition.allowed_methods.as_deref().map(methods).transpose()?,
        },
        ConnectionType::Mcp => Target::Mcp { url, allowed_tools },
    })
}

fn methods(names: &[String]) -> Result<Vec<Method>, String> {
    names
        .iter()
        .map(|name| Method::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is not a method")))
        .collect()
}

/// Restricts a saved connection to the methods and tools that the run allows as well.
fn narrowed(mut connection: Connection, wants: &RunConnection) -> Result<Connection, String> {
    match &mut connection.target {
        Target::Http { allowed_methods, .. } => {
            if wants.allowed_tools.is_some() {
                return Err("allowed_tools is for an MCP server, and it leads to an HTTP API now".to_owned());
            }
            let wanted = wants.allowed_methods.as_deref().map(methods).transpose()?;
            *allowed_methods = both(allowed_methods.take(), wanted, "methods")?;
        }
        Target::Mcp { allowed_tools, .. } | Target::McpStdio { allowed_tools, .. } => {
            if wants.allowed_methods.is_some() {
                return Err(
                    "allowed_methods is for an HTTP API, and it leads to an MCP server now".to_owned(),
                );
            }
            *allowed_tools = both(allowed_tools.take(), wants.allowed_tools.clone(), "tools")?;
        }
    }
    Ok(connection)
}

/// Returns the entries that are in both lists. `None` allows everything.
fn both<T: PartialEq>(
    saved: Option<Vec<T>>,
    wanted: Option<Vec<T>>,
    what: &str,
) -> Result<Option<Vec<T>>, String> {
    match (saved, wanted) {
        (None, list) | (list, None) => Ok(list),
        (Some(saved), Some(mut wanted)) => {
            wanted.retain(|item| saved.contains(item));
            if wanted.is_empty() {
                return Err(format!(
                    "the saved connection allows no {what} that the run allows"
                ));
            }
            Ok(Some(wanted))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(allowed_methods: Option<Vec<Method>>) -> Connection {
        Connection {
            name: "crm".to_owned(),
            target: Target::Http {
                url: "https://a.example".parse().unwrap(),
                allowed_methods,
            },
            auth: Auth::None,
            headers: Vec::new(),
            description: None,
        }
    }

    fn after(saved: Option<Vec<Method>>, wanted: Option<&[&str]>) -> Result<Option<Vec<Method>>, String> {
        let wants = RunConnection {
            allowed_methods: wanted.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
            ..RunConnection::default()
        };
        match narrowed(http(saved), &wants)?.target {
            Target::Http { allowed_methods, .. } => Ok(allowed_methods),
            other @ (Target::Mcp { .. } | Target::McpStdio { .. }) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_run_narrows_what_is_saved_and_never_widens_it() {
        let get = || Some(vec![Method::GET]);
        assert_eq!(after(None, None), Ok(None));
        assert_eq!(after(None, Some(&["GET"])), Ok(get()));
        assert_eq!(after(get(), None), Ok(get()));
        assert_eq!(after(get(), Some(&["POST", "GET"])), Ok(get()));
        assert!(
            after(get(), Some(&["POST"]))
                .unwrap_err()
                .contains("allows no methods that the run allows")
        );
        let tools = RunConnection {
            allowed_tools: Some(vec!["x".to_owned()]),
            ..RunConnection::default()
        };
        assert!(narrowed(http(None), &tools).is_err());
    }

    #[test]
    fn an_inline_connection_without_the_credentials_it_came_with_is_not_used() {
        let wants: RunConnection =
            serde_json::from_str(r#"{"type":"http","url":"https://a.example","headers":{"X-Key":""}}"#)
                .unwrap();
        let redactor = Redactor::default();
        let refused = inline_connection("crm", &wants, None, &redactor).unwrap_err();
        assert_eq!(refused, "connection `crm`: its credentials were deleted");
        let secrets = Secrets {
            headers: [("X-Key".to_owned(), "hush-hush".to_owned())].into(),
            query: Some("k=secret-in-query".to_owned()),
            auth: AuthSecret::None,
            env: BTreeMap::new(),
        };
        let connection = inline_connection("crm", &wants, Some(secrets), &redactor).unwrap();
        assert!(
            matches!(&connection.target, Target::Http { url, .. } if url.query() == Some("k=secret-in-query"))
        );
        assert_eq!(
            redactor.redact("hush-hush secret-in-query"),
            "[redacted] [redacted]"
        );
    }
}
