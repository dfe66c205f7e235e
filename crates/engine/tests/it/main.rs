//! Engines as a whole, on real databases and without a sandbox: one program, which is linked once.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod artifacts;
mod cluster;
mod engine;
mod feeds;
mod files;
mod resume;
mod rig;
mod tasks;
mod unretained;
