//! Runs of an engine that serves one command, and the runs that such engines have left.

use sortie_api::{Refusal, RunId};

use crate::Engine;

impl Engine {
    /// Works on those of `runs` that no node works on: waiting runs, and runs of lost nodes. Other runs are left as they are.
    /// This is for engines that serve one command; other nodes find such runs themselves.
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

    /// Returns those of `runs` that no node works on: runs of a lost node, and waiting runs if no other node is alive. For an
    /// engine that does not serve everyone.
    pub async fn unattended(&self, runs: Vec<RunId>) -> Result<Vec<RunId>, Refusal> {
        let (store, node) = (&self.0.stores.database, self.0.cluster.identity.get());
        Ok(store.unattended(node, runs).await?)
    }
}
