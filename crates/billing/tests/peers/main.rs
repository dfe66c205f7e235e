//! Compares the client, the signature and the testkit's double of Stripe with third-party servers and libraries, which
//! `scripts/peers` installs.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod idempotency;
mod localstripe;
mod rig;
mod sdks;
