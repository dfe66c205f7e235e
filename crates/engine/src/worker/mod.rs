//! The worker: claims waiting runs, takes over runs of lost workers, and works on each in a separate task.

mod attempt;
#[cfg(test)]
mod directory_tests;
mod dispatch;
mod ended;
mod files;
mod finish;
pub(crate) mod leftovers;
mod obstacle;
mod outputs;
mod pictures;
mod prepare;
mod programs;
mod recorder;
mod resume;
mod slots;
mod spent;
mod storing;
#[cfg(test)]
mod storing_tests;
mod supervise;
mod unstored;
mod web;
mod writes;

use std::sync::Arc;

use sortie_agent::Workspace;
use sortie_api::RunId;
use sortie_sandbox::Backend;
use sortie_store::runs::Retention;

pub(crate) use self::{
    dispatch::{Dispatcher, OwnRuns, Source},
    outputs::Collecting,
    programs::Programs,
    slots::{Slots, StartPermit},
};
use crate::{
    callbacks::DeliveryHints,
    cluster::hints::TimerBell,
    connections::Connections,
    files::contents::Contents,
    kit::{metrics::Metrics, models::Models, options::Options, web::NodeWeb},
    runs::{active::Active, hub::Hub, run_log::Records},
};
use sortie_base::Clock;

/// Parts of the node that every run needs.
pub(crate) struct Worker {
    pub(crate) records: Records,
    pub(crate) hub: Hub,
    pub(crate) clock: Clock,
    pub(crate) models: Arc<Models>,
    pub(crate) connections: Connections,
    /// Wakes the callback worker.
    pub(crate) callbacks: DeliveryHints,
    pub(crate) contents: Contents,
    /// Permits of the runs that store artifacts.
    pub(crate) collecting: Collecting,
    pub(crate) sandbox: Arc<dyn Backend>,
    pub(crate) programs: Programs,
    pub(crate) web: NodeWeb,
    pub(crate) metrics: Arc<Metrics>,
    /// Wakes the timer of the schedules.
    pub(crate) schedules: TimerBell,
    pub(crate) active: Active,
    pub(crate) options: Arc<Options>,
}

impl Worker {
    /// Returns a working directory that is created at its first use. The directory of a run without retention is in
    /// memory.
    pub(crate) fn workspace(&self, run: RunId, retention: Retention) -> Workspace {
        let root = match retention {
            Retention::Full => self.options.work_dir(),
            Retention::None => self.options.memory_dir(),
        };
        Workspace::new(
            root,
            run.to_string(),
            Arc::clone(&self.sandbox),
            self.options.sandbox_limits,
        )
    }
}
