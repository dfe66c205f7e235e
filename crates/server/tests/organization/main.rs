//! The whole server of a hosted deployment over TCP: the organization API and the engine API.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod access;
mod accounts;
mod avatars;
mod browser;
mod console;
mod console_files;
mod credits;
mod deletion;
mod ends;
mod gate;
mod licenses;
mod oauth;
mod oidc;
mod operator;
mod organizations;
mod pages;
mod prelude;
mod purchases;
mod rig;
mod self_hosted;
mod settings;
mod streams;
mod subscriptions;
