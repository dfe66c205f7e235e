//! Parts that all modules use: settings, time, callers, metrics, traces, models, the network and the disk.

pub(crate) mod descriptors;
pub(crate) mod disk;
pub(crate) mod hooks;
pub(crate) mod metrics;
pub(crate) mod models;
pub(crate) mod no_sandbox;
pub(crate) mod options;
pub(crate) mod random;
pub(crate) mod retry;
pub(crate) mod rules;
pub(crate) mod traces;
pub(crate) mod units;
pub(crate) mod web;
