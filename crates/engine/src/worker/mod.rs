//! The worker: claims waiting runs and works on each in a task of its own.

mod active;
mod dispatch;
mod finish;
mod recorder;
mod run_one;
mod writes;

pub(crate) use active::{Active, StopReason};
pub(crate) use dispatch::{Dispatcher, Own, Source};
pub(crate) use run_one::Worker;
