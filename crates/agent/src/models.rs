//! Models that come with the engine. Those of providers are clients that implement the same trait.

pub(crate) mod runbook;
