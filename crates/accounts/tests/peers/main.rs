//! Mails to servers and sign-ins at providers that nobody here wrote. `scripts/peers` installs them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod mail;
mod oidc;
mod rig;
