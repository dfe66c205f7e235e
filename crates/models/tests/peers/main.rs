//! The clients against servers that others wrote, and the scripted models of the other tests against clients that
//! others wrote: what all of these agree on is what goes over the wire.
//!
//! `scripts/peers` installs them. A peer that is not there fails its test.

#![cfg(test)]

mod aimock;
mod litellm;
mod sdks;
mod support;
