//! Connections as a run has them, against servers of the tests' own: well-behaved ones and hostile ones.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod hostile;
mod http;
mod http_sse;
mod lenient;
mod mcp;
mod oauth;
mod repairs;
mod rig;
mod script;
mod stdio;
