//! The client, the signature and the testkit's double of Stripe, beside servers and libraries that nobody here wrote.
//! `scripts/peers` installs them.

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
