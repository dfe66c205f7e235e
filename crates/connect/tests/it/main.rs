//! Connections as a run has them, against servers of the tests' own: well-behaved ones and hostile ones.

mod hostile;
mod http;
mod mcp;
mod oauth;
mod rig;
mod script;
mod stdio;
