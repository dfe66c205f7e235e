//! The programs that the commands of this node's runs find, listed once for all of them.

use std::sync::Arc;

use sortie_agent::{Environment, Workspace};
use sortie_sandbox::Backend;
use tokio::sync::OnceCell;

use crate::Options;

/// The folder of the list, below the working directories.
const FOLDER: &str = "environment";

/// The operating system and the programs that commands find on this node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs(Arc<OnceCell<Environment>>);

impl Programs {
    /// Lists them in a sandbox the first time. Nothing is known where that fails: the next run tries again.
    pub(super) async fn known(&self, sandbox: &Arc<dyn Backend>, options: &Options) -> Environment {
        let list = || {
            let workspace = Workspace::new(
                options.work_dir(),
                FOLDER.to_owned(),
                Arc::clone(sandbox),
                options.sandbox_limits,
            );
            sortie_agent::list_programs(workspace)
        };
        match self.0.get_or_try_init(list).await {
            Ok(known) => known.clone(),
            Err(error) => {
                tracing::warn!(error, "cannot list the programs of the sandbox");
                Environment::default()
            }
        }
    }
}
