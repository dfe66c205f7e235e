//! A target for each parser of strangers' bytes.
//!
//! The parsers are compiled from their own files, not through the crates they belong to. So all that is built for fuzzing
//! has coverage counters, and a third of the crates is enough: no TLS, no HTTP client, no sandbox.

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
