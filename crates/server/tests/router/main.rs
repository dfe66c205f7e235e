//! The whole server over TCP on a SQLite engine without a sandbox: access, refusals, lists, streams, limits and
//! the stop.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod access;
mod administration;
mod budgets;
mod deliveries;
mod downloads;
mod files;
mod license;
mod mcp;
mod prelude;
mod rate_limit;
mod refusals;
mod rig;
mod run_filters;
mod runs;
mod stop;
mod streams;
mod ui_messages;
mod unread;
mod workflows;
