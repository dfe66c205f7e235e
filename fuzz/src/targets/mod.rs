//! A target for each parser of untrusted bytes.
//!
//! The parsers are compiled from their source files and not as parts of their crates. All code of a fuzz build therefore has
//! coverage counters, and two thirds of the dependencies are not needed: no TLS, no HTTP client, no sandbox.

pub mod hello;
pub mod html;
pub mod license;
pub mod mcp;
pub mod mcp_endpoint;
pub mod model_event;
pub mod oauth;
pub mod oidc;
pub mod picture;
pub mod replies;
pub mod robots;
pub mod sse;
pub mod stripe_webhook;
