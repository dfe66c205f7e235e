//! Tests against third-party mail servers and identity providers, which `scripts/peers` installs.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod mail;
mod oidc;
mod rig;
