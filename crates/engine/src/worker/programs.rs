//! Programs of the sandbox. They are listed once for all runs of this node.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use sortie_agent::{Environment, Model, Shell, Workspace, model::Kind};
use sortie_sandbox::Backend;
use sortie_store::runs::Claim;
use tokio::sync::OnceCell;

use super::Worker;
use crate::kit::{hooks, options::Options};

/// Prefix of the name of a list's folder, below the working directories.
const FOLDER: &str = "environment";

/// The operating system of this node, and the programs that commands can use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    known: OnceCell<Environment>,
    /// Number of lists that were begun. Each has a separate folder, because a cancelled list does not remove its folder.
    begun: AtomicU64,
}

impl Programs {
    /// Returns the environment block for the model of a run.
    pub(super) async fn environment(
        &self,
        worker: &Worker,
        claim: &Claim,
        model: &dyn Model,
        shell: Shell,
    ) -> Environment {
        let lists = model.kind() == Kind::Language && shell == Shell::Allowed;
        let known = if lists && !hooks::is_running() {
            self.known(&worker.sandbox, &worker.options).await
        } else {
            Environment::default()
        };
        let day = claim.started_at.to_string();
        Environment {
            date: day
                .get(..10)
                .map(|day| format!("{day} (UTC)"))
                .unwrap_or_default(),
            ..known
        }
    }

    /// Lists the programs in a sandbox the first time. If that fails the list is empty, and the next run tries again.
    async fn known(&self, sandbox: &Arc<dyn Backend>, options: &Options) -> Environment {
        let list = || {
            let number = self.0.begun.fetch_add(1, Ordering::Relaxed);
            let workspace = Workspace::new(
                options.work_dir(),
                format!("{FOLDER}-{number}"),
                Arc::clone(sandbox),
                options.sandbox_limits,
            );
            sortie_agent::list_programs(workspace)
        };
        match self.0.known.get_or_try_init(list).await {
            Ok(known) => known.clone(),
            Err(error) => {
                tracing::warn!(error, "cannot list the programs of the sandbox");
                Environment::default()
            }
        }
    }
}
