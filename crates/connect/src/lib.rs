//! Connections: the HTTP APIs and MCP servers a run calls through the engine, whose credentials it never sees.
//!
//! A [`Connection`] says where something is and how the engine proves itself there. The engine adds the credentials to
//! the outgoing request and to nothing else; what comes back is bounded in bytes and in time and has the credentials
//! taken out before the agent, an event, an error or a log line can hold it.

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
pub use connector::{Connector, OPEN_TIMEOUT, OpenError, Opened, Status, TestReport};
pub use failure::Failure;
pub use mcp::{Program, ProgramEnd, StdioLauncher, StdioProcess};
