//! The models that come with the engine. Those of providers are clients behind the same trait.

pub(crate) mod runbook;
