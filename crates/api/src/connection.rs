//! Connections (`docs/CONNECTIONS.md`): the definition that a client sends, the saved record, and other small responses.
//!
//! Secrets are read but never written: serializing a definition writes the kind of its `auth` and the names of its
//! headers and variables, without their values. The engine checks everything except the form.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    Credential, limits,
    object::{list, objects, unique},
    time::Timestamp,
};

/// Kind of server that a connection calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionType {
    /// An HTTP API: requests stay on the origin of `url` and below its path.
    Http,
    /// An MCP server. The agent can call its tools.
    Mcp,
}

impl ConnectionType {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Mcp => "mcp",
        }
    }
}

impl fmt::Display for ConnectionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Authentication method of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    /// No authentication.
    #[default]
    None,
    /// `Authorization: Bearer` with `token`.
    Bearer,
    /// `Authorization: Basic` with `username` and `password`.
    Basic,
    /// A header `name` with `value`.
    Header,
    /// A query parameter `name` with `value`.
    Query,
    /// OAuth: a person authorizes the engine once. The engine refreshes the tokens.
    #[serde(rename = "oauth")]
    OAuth,
}

impl AuthType {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bearer => "bearer",
            Self::Basic => "basic",
            Self::Header => "header",
            Self::Query => "query",
            Self::OAuth => "oauth",
        }
    }
}

impl fmt::Display for AuthType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionStatus {
    /// No fault is known. The last test passed, or there was none: a save makes no call.
    Ready,
    /// A person has to authorize the connection, by `POST /v1/connections/{name}/oauth`.
    NeedsAuthorization,
    /// The last test failed; `error` has the reason.
    Error,
}

/// A text that is not a connection's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of ready, needs_authorization, error")]
pub struct UnknownConnectionStatus;

impl ConnectionStatus {
    /// The name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NeedsAuthorization => "needs_authorization",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for ConnectionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ConnectionStatus {
    type Err = UnknownConnectionStatus;

    fn from_str(text: &str) -> Result<Self, UnknownConnectionStatus> {
        [Self::Ready, Self::NeedsAuthorization, Self::Error]
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or(UnknownConnectionStatus)
    }
}

objects!(ConnectionDefinition ConnectionAuth ConfirmAuthorization);

/// Body of `PUT /v1/connections/{name}`: an HTTP API, or an MCP server by `url` or, self-hosted, by `command`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct ConnectionDefinition {
    /// Kind of server that the connection calls.
    #[serde(rename = "type")]
    pub kind: ConnectionType,
    /// Base URL of the API, or the endpoint of the MCP server: http or https, without user info and fragment. A query
    /// in it is kept secret and added to every request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        nullable = false,
        max_length = 2_048,
        pattern = "^https?://",
        example = "https://api.example.com/v1"
    )]
    pub url: Option<String>,
    /// `mcp` on a self-hosted engine: the program that serves on its standard input and output, and its arguments.
    #[serde(
        default,
        deserialize_with = "list::<_, _, { limits::COMMAND_PARTS }>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, min_items = 1, max_items = 64)]
    pub command: Option<Vec<String>>,
    /// Environment of `command`, by name. The values are redacted in answers.
    #[serde(
        default,
        deserialize_with = "unique::<_, _, { limits::CONNECTION_HEADERS }>",
        skip_serializing_if = "Option::is_none",
        serialize_with = "names_only"
    )]
    #[schema(nullable = false, value_type = Option<BTreeMap<String, String>>)]
    pub env: Option<BTreeMap<String, Credential>>,
    /// Authentication method and credentials. Default: `{"type": "none"}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub auth: Option<ConnectionAuth>,
    /// Headers added to every request, by name; at most 32. The values are redacted in answers.
    #[serde(
        default,
        deserialize_with = "unique::<_, _, { limits::CONNECTION_HEADERS }>",
        skip_serializing_if = "Option::is_none",
        serialize_with = "names_only"
    )]
    #[schema(nullable = false, value_type = Option<BTreeMap<String, String>>)]
    pub headers: Option<BTreeMap<String, Credential>>,
    /// `http`: the only methods the agent may use. Default: all.
    #[serde(
        default,
        deserialize_with = "list::<_, _, { limits::ALLOWED_METHODS }>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, min_items = 1)]
    pub allowed_methods: Option<Vec<String>>,
    /// `mcp`: the only tools the agent may use, by the server's names. Default: all.
    #[serde(
        default,
        deserialize_with = "list::<_, _, { limits::ALLOWED_TOOLS }>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, min_items = 1, max_items = 100)]
    pub allowed_tools: Option<Vec<String>>,
    /// Purpose of the connection, for people and agents. At most 500 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_length = 500)]
    pub description: Option<String>,
}

impl ConnectionDefinition {
    /// Authentication method; `none` where the definition has none.
    pub fn auth_type(&self) -> AuthType {
        self.auth.as_ref().map_or(AuthType::None, |auth| auth.kind)
    }
}

/// Authentication method of a connection: `type`, and the fields of that type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct ConnectionAuth {
    /// Type of the authentication.
    #[serde(rename = "type")]
    pub kind: AuthType,
    /// `bearer`: the token.
    #[schema(nullable = false, value_type = Option<String>, write_only)]
    pub token: Option<Credential>,
    /// `basic`: the user name, without a colon.
    #[schema(nullable = false, value_type = Option<String>, write_only)]
    pub username: Option<Credential>,
    /// `basic`: the password, which may be empty.
    #[schema(nullable = false, value_type = Option<String>, write_only)]
    pub password: Option<Credential>,
    /// `header`, `query`: the name of the header or parameter.
    #[schema(nullable = false, write_only)]
    pub name: Option<String>,
    /// `header`, `query`: the value of the header or parameter.
    #[schema(nullable = false, value_type = Option<String>, write_only)]
    pub value: Option<Credential>,
    /// `oauth`: the client ID that is registered for this engine. Default: the engine registers itself if the
    /// server allows it.
    #[schema(nullable = false, write_only)]
    pub client_id: Option<String>,
    /// `oauth`: the client secret, if there is one.
    #[schema(nullable = false, value_type = Option<String>, write_only)]
    pub client_secret: Option<Credential>,
    /// `oauth`: authorization endpoint. Default, for `mcp`: discovered from the server.
    #[schema(nullable = false, write_only)]
    pub authorization_url: Option<String>,
    /// `oauth`: token endpoint; sent together with `authorization_url`.
    #[schema(nullable = false, write_only)]
    pub token_url: Option<String>,
    /// `oauth`: the scopes to ask for.
    #[serde(default, deserialize_with = "list::<_, _, { limits::SCOPES }>")]
    #[schema(nullable = false, max_items = 50)]
    pub scopes: Option<Vec<String>>,
    /// `oauth`: issuer of the authorization server that `client_id` belongs to. The client and its secret go to no
    /// other. Default: the server that authorized the connection first; with `authorization_url`, any server of its origin.
    #[schema(
        nullable = false,
        write_only,
        max_length = 2_048,
        pattern = "^https?://",
        example = "https://auth.example.com"
    )]
    pub issuer: Option<String>,
}

impl ConnectionAuth {
    /// Writes the type and nothing else.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([("type", self.kind)])
    }
}

/// Writes the names of a map of credentials, each with an empty text: sent back as it is, it is refused.
#[expect(clippy::ref_option, reason = "the form that serde asks for")]
pub(crate) fn names_only<S: Serializer>(
    values: &Option<BTreeMap<String, Credential>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(values.iter().flatten().map(|(name, _)| (name, "")))
}

/// A saved connection. Nothing of it is secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Connection {
    /// Name of the connection, unique in the organization.
    #[schema(example = "crm")]
    pub name: String,
    /// Kind of server that the connection calls.
    #[serde(rename = "type")]
    pub kind: ConnectionType,
    /// URL of the server, without its query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub url: Option<String>,
    /// Program that serves the connection, with its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub command: Option<Vec<String>>,
    /// The names of the program's environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Authentication method, without credentials.
    pub auth: ShownAuth,
    /// The names of the headers that are added.
    pub headers: Vec<String>,
    /// The only methods the agent may use. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub allowed_methods: Option<Vec<String>>,
    /// The only tools the agent may use. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub allowed_tools: Option<Vec<String>>,
    /// Purpose of the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    /// State of the connection.
    pub status: ConnectionStatus,
    /// Reason why the connection cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<String>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Names of the workflows that name the connection, in order: at most the first 20.
    #[schema(max_items = 20)]
    pub used_by: Vec<String>,
}

/// The kind of a connection's authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShownAuth {
    /// Type of the authentication.
    #[serde(rename = "type")]
    pub kind: AuthType,
}

/// Result of a connection test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionTest {
    /// State of the connection after the test.
    pub status: ConnectionStatus,
    /// Finding, in a sentence.
    #[schema(example = "the server offers 12 tools")]
    pub detail: String,
    /// `http`: the status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub http_status: Option<u16>,
    /// `mcp`: the revision of the protocol that the server speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub protocol_version: Option<String>,
    /// `mcp`: the tools that the server offers, by its own names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tools: Option<Vec<String>>,
    /// Duration of the test, in milliseconds.
    #[schema(minimum = 0)]
    pub duration_ms: u64,
}

/// Address at which a person authorizes a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Authorization {
    /// Address that the person opens in a browser.
    pub authorization_url: String,
    /// Time at which the authorization expires.
    pub expires_at: Timestamp,
}

/// Body of `POST /v1/connections/{name}/oauth/confirm`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct ConfirmAuthorization {
    /// Code that the page shows to the person who has consented. Case, spaces and hyphens do not matter.
    #[schema(max_length = 64, example = "BCDF-GHJK")]
    pub code: String,
}

/// A confirmed authorization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfirmedAuthorization {
    /// Name of the connection.
    #[schema(example = "tracker")]
    pub connection: String,
    /// Status of the connection: `ready`.
    pub status: ConnectionStatus,
    /// Account that the connection now acts for, if the authorization server names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "ann@example.com")]
    pub account: Option<String>,
    /// Issuer of the authorization server, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "https://auth.example.com")]
    pub issuer: Option<String>,
    /// Granted scopes, if the server names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "read")]
    pub scope: Option<String>,
}

/// Well-known service that can be connected by name and credential alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KnownService {
    /// Suggested name of the connection.
    pub name: String,
    /// Kind of server.
    #[serde(rename = "type")]
    pub kind: ConnectionType,
    /// URL of the server.
    pub url: String,
    /// Authentication method of the service.
    pub auth: ShownAuth,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<ConnectionDefinition, String> {
        serde_json::from_str(body).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_secret_is_written_again() {
        let body = r#"{"type":"http","url":"https://a.example","headers":{"X-Key":"hush1"},"env":{"K":"hush2"},
            "auth":{"type":"oauth","token":"hush3","username":"hush4","password":"hush5","name":"hush6","value":"hush7",
            "client_id":"hush8","client_secret":"hush9","scopes":["hush10"],"issuer":"hush11"}}"#;
        let definition = read(body).unwrap();
        let written = serde_json::to_string(&definition).unwrap();
        assert_eq!(
            written,
            r#"{"type":"http","url":"https://a.example","env":{"K":""},"auth":{"type":"oauth"},"headers":{"X-Key":""}}"#
        );
        let shown = format!("{definition:?}");
        for hidden in ["hush1", "hush2", "hush3", "hush4", "hush5", "hush7", "hush9"] {
            assert!(!shown.contains(&format!("{hidden}\"")), "{shown}");
        }
    }

    #[test]
    fn unknown_and_repeated_fields_are_named() {
        for (body, told) in [
            (r#"{"type":"http","uri":"x"}"#, "unknown field `uri`"),
            (
                r#"{"type":"http","auth":{"type":"bearer","tokn":"x"}}"#,
                "unknown field `tokn`",
            ),
            (
                r#"{"type":"http","headers":{"a":"x","a":"y"}}"#,
                "duplicate field `a`",
            ),
            (r#"{"type":"ftp"}"#, "unknown variant `ftp`"),
            (
                r#"{"type":"http","auth":{"type":"OAuth"}}"#,
                "unknown variant `OAuth`",
            ),
            (r#"{"type":"http","url":null}"#, "invalid type: null"),
            (r#"{"url":"x"}"#, "missing field `type`"),
            (r#"["http","x"]"#, "expected an object"),
        ] {
            let refusal = read(body).unwrap_err();
            assert!(refusal.contains(told), "{body}: {refusal}");
        }
    }

    #[test]
    fn a_status_survives_its_text() {
        for status in [
            ConnectionStatus::Ready,
            ConnectionStatus::NeedsAuthorization,
            ConnectionStatus::Error,
        ] {
            assert_eq!(status.as_str().parse(), Ok(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }
}
