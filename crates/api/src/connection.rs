//! Connections (decisions 4): what a client sends to save one, the record it gets back, and their small answers.
//!
//! What is secret is read and never written: serializing a definition leaves the kind of its `auth` and the names of its
//! headers and variables, with nothing behind them. The engine checks everything beyond the form.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    Credential,
    object::{objects, present, unique},
    time::Timestamp,
};

/// What a connection leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionType {
    /// An HTTP API: requests stay on the origin of `url` and below its path.
    Http,
    /// An MCP server, whose tools the agent is offered.
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

/// How the engine proves itself to the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    /// Not at all.
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
    /// OAuth: a person authorizes the engine once, which keeps its tokens fresh.
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

/// Whether a connection can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionStatus {
    /// It can.
    Ready,
    /// A person has to authorize it, by `POST /v1/connections/{name}/oauth`.
    NeedsAuthorization,
    /// Its last test failed; `error` says how.
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
    /// What it leads to.
    #[serde(rename = "type")]
    pub kind: ConnectionType,
    /// Base URL of the API, or the endpoint of the MCP server: http or https, without user info and fragment. A query in
    /// it is kept secret and added to every request.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
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
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, min_items = 1, max_items = 64)]
    pub command: Option<Vec<String>>,
    /// Environment of `command`, by name. The values are never shown again.
    #[serde(
        default,
        deserialize_with = "unique",
        skip_serializing_if = "Option::is_none",
        serialize_with = "names_only"
    )]
    #[schema(nullable = false, value_type = Option<BTreeMap<String, String>>)]
    pub env: Option<BTreeMap<String, Credential>>,
    /// How the engine proves itself. Default: `{"type": "none"}`.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub auth: Option<ConnectionAuth>,
    /// Headers added to every request, by name; at most 32. The values are never shown again.
    #[serde(
        default,
        deserialize_with = "unique",
        skip_serializing_if = "Option::is_none",
        serialize_with = "names_only"
    )]
    #[schema(nullable = false, value_type = Option<BTreeMap<String, String>>)]
    pub headers: Option<BTreeMap<String, Credential>>,
    /// `http`: the only methods the agent may use. Default: all.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, min_items = 1)]
    pub allowed_methods: Option<Vec<String>>,
    /// `mcp`: the only tools the agent may use, by the server's names. Default: all.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, min_items = 1, max_items = 100)]
    pub allowed_tools: Option<Vec<String>>,
    /// What it is for, for people and agents. At most 500 characters.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, max_length = 500)]
    pub description: Option<String>,
}

impl ConnectionDefinition {
    /// How the engine proves itself; `none` where nothing is said.
    pub fn auth_type(&self) -> AuthType {
        self.auth.as_ref().map_or(AuthType::None, |auth| auth.kind)
    }
}

/// How the engine proves itself: `type`, and the fields that go with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct ConnectionAuth {
    /// The way.
    #[serde(rename = "type")]
    pub kind: AuthType,
    /// `bearer`: the token.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, value_type = Option<String>, write_only)]
    pub token: Option<Credential>,
    /// `basic`: the user name, without a colon.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, value_type = Option<String>, write_only)]
    pub username: Option<Credential>,
    /// `basic`: the password, which may be empty.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, value_type = Option<String>, write_only)]
    pub password: Option<Credential>,
    /// `header`, `query`: the name of the header or parameter.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, write_only)]
    pub name: Option<String>,
    /// `header`, `query`: its value.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, value_type = Option<String>, write_only)]
    pub value: Option<Credential>,
    /// `oauth`: the client that is registered for this engine. Default: the engine registers itself where the server lets it.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, write_only)]
    pub client_id: Option<String>,
    /// `oauth`: the secret of that client, if it has one.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, value_type = Option<String>, write_only)]
    pub client_secret: Option<Credential>,
    /// `oauth`: where a person authorizes the engine. Default, for `mcp`: found out by asking the server.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, write_only)]
    pub authorization_url: Option<String>,
    /// `oauth`: where tokens come from; together with `authorization_url`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, write_only)]
    pub token_url: Option<String>,
    /// `oauth`: the scopes to ask for.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, max_items = 50)]
    pub scopes: Option<Vec<String>>,
    /// `oauth`: issuer of the authorization server that `client_id` belongs to. The client and its secret go to no other.
    /// Default: the server that authorized the connection first; beside `authorization_url`, any of its origin.
    #[serde(default, deserialize_with = "present")]
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
    /// Its name, unique in the organization.
    #[schema(example = "crm")]
    pub name: String,
    /// What it leads to.
    #[serde(rename = "type")]
    pub kind: ConnectionType,
    /// Where it leads, without a query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub url: Option<String>,
    /// The program that serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub command: Option<Vec<String>>,
    /// The names of the program's environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// How the engine proves itself: the kind only.
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
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    /// Whether it can be used.
    pub status: ConnectionStatus,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// The kind of a connection's authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShownAuth {
    /// The way.
    #[serde(rename = "type")]
    pub kind: AuthType,
}

/// What a test of a connection found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionTest {
    /// Whether it can be used.
    pub status: ConnectionStatus,
    /// What was found, in a sentence.
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
    /// How long it took, in milliseconds.
    #[schema(minimum = 0)]
    pub duration_ms: u64,
}

/// Where a person authorizes a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Authorization {
    /// To be opened in a browser.
    pub authorization_url: String,
    /// Until when the answer is taken.
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
    /// Account whose tokens the connection uses now, where the authorization server names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "ann@example.com")]
    pub account: Option<String>,
    /// Issuer of the authorization server, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "https://auth.example.com")]
    pub issuer: Option<String>,
    /// Scopes that were granted, where the server names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "read")]
    pub scope: Option<String>,
}

/// A service that is known well enough to be connected by name and credential alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KnownService {
    /// A good name for the connection.
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: ConnectionType,
    /// Where it is.
    pub url: String,
    /// The authentication it takes.
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
