//! The worker: claims waiting runs, takes over those whose worker was lost, and works on each in a task of its own.

#[cfg(test)]
mod directory_tests;
mod dispatch;
mod files;
mod finish;
pub(crate) mod leftovers;
mod outputs;
mod pictures;
mod places;
mod programs;
mod recorder;
mod resume;
mod run_one;
mod spent;
mod web;
mod writes;

pub(crate) use dispatch::{Dispatcher, Own, Source};
pub(crate) use outputs::Collecting;
pub(crate) use places::{Places, Turn};
pub(crate) use programs::Programs;
pub(crate) use run_one::Worker;
