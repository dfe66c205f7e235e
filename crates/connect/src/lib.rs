//! Connections: HTTP APIs and MCP servers that a run calls through the engine without access to their credentials.
//!
//! A [`Connection`] defines a server and the engine's authentication there. The engine adds the credentials only to the outgoing
//! request. Responses have limits of size and time, and credentials are redacted before the agent, an event, an error or a log
//! line can contain them.

mod call;
mod connection;
mod connector;
mod failure;
mod http;
mod mcp;
pub mod oauth;
mod outlet;
mod text;
mod tool_name;

use sortie_agent::surrogates;

pub use connection::{Auth, Connection, Target, TokenError, Tokens};
pub use connector::{Connector, LeftTasks, OPEN_TIMEOUT, OpenError, Opened, Status, TestReport};
pub use failure::Failure;
pub use mcp::{Program, ProgramEnd, StdioLauncher, StdioProcess};
