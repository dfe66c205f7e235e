//! Connections of a run against test servers, both correct and hostile ones.

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
mod tasks;
