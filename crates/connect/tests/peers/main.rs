//! Connections to third-party servers. `scripts/peers` installs them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod oauth;
mod rig;
mod tasks;
mod tools;
