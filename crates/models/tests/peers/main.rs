//! Our clients against third-party servers, and our scripted models against third-party clients. Together they check the wire
//! format.
//!
//! `scripts/peers` installs them. A missing peer fails its test.

#![cfg(test)]

mod aimock;
mod litellm;
mod sdks;
mod support;
