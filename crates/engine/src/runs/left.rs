//! Runs of an engine that serves one command, and what other such engines have left.

use sortie_api::{Refusal, RunId};

use crate::Engine;

impl Engine {
    /// Works on runs that no node works on: those that wait, and those of lost nodes. Other runs are left as they are. For
    /// engines that serve one command: other nodes look for such runs themselves.
    pub fn resume(&self, runs: impl IntoIterator<Item = RunId>) {
        let work = &self.0.work;
        for run in runs {
            work.own.add(run);
        }
        work.waiting.notify_one();
    }

    /// Ends `run` as interrupted if it outlives an engine that serves one command. Other runs of that engine stay `running` until
    /// another engine resumes them.
    pub fn end_with_engine(&self, run: RunId) {
        self.0.work.own.tie(run);
    }

    /// Returns those of `runs` that no node works on, where this engine is not one that works on everybody's runs.
    pub async fn unattended(&self, runs: Vec<RunId>) -> Result<Vec<RunId>, Refusal> {
        let (store, node) = (&self.0.stores.database, self.0.cluster.identity.get());
        Ok(store.unattended(node, runs).await?)
    }
}
