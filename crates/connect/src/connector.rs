//! The node's way to connections: opens what a run has, and tests one for an administrator.
//!
//! Opening reaches every MCP server of the run at once and ends within [`OPEN_TIMEOUT`]; a server that cannot be had is
//! an [`OpenError`] that names its connection. HTTP APIs are not asked at the start.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use sortie_agent::Tool;

/// The longest that opening one connection may take.
pub const OPEN_TIMEOUT: Duration = Duration::from_secs(15);

/// The connections of a run, open. Dropping it closes the MCP sessions in the background; [`Opened::close`] waits.
pub struct Opened {
    /// What the agent gets: `<connection>__request` for an HTTP API, `<connection>__<tool>` for an MCP server.
    pub tools: Vec<Arc<dyn Tool>>,
    /// What was left out of a server's tools and why, in sentences.
    pub notes: Vec<String>,
}

/// A connection could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection `{connection}`: {failure}")]
pub struct OpenError {
    /// Its name in the run.
    pub connection: String,
    /// Why.
    pub failure: Failure,
}

/// Why a connection does not work. The sentences hold no credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A person has to authorize it first, or again.
    #[error("it needs authorization: {0}")]
    NeedsAuthorization(String),
    /// The server does not answer, or not as it should, or the definition cannot be used.
    #[error("{0}")]
    Error(String),
}

/// What a test of a connection found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TestReport {
    /// Whether it works.
    pub status: Status,
    /// What was found, in a sentence.
    pub detail: String,
    /// The status an HTTP API answered with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// The MCP revision the server speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// The tools an MCP server offers, by its own names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It can be used.
    Ready,
    /// A person has to authorize it first.
    NeedsAuthorization,
    /// It cannot be used.
    Error,
}
