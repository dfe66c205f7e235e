//! Removal of unused working directories. If another node takes over or ends a run, the directory of the run stays on this node.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use sortie_api::{Refusal, RunId};
use sortie_sandbox::Workdir;
use sortie_store::Store;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::runs::active::Active;

/// Pause between two passes. If every directory belongs to an active run of this node, a pass only lists a folder.
const PAUSE: Duration = Duration::from_secs(10);

/// Runs in one query.
const AT_ONCE: usize = 100;

/// Removes the working directories of ended runs that are not active here, at the start and then every [`PAUSE`].
pub(crate) async fn clean_up(store: Store, work_dir: PathBuf, active: Active, stop: CancellationToken) {
    let mut tick = tokio::time::interval(PAUSE);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut others = Others::Remove;
    let mut last_error = String::new();
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = stop.cancelled() => return,
        }
        let removed = remove(&store, &work_dir, &active, others).await;
        others = Others::Leave;
        match removed {
            Ok(removed) => {
                if removed > 0 {
                    tracing::info!(removed, "removed working directories of ended runs");
                }
                last_error.clear();
            }
            Err(error) => {
                // A directory that cannot be removed now will probably fail again in ten seconds: one report is enough.
                let error = error.to_string();
                if error != last_error {
                    tracing::error!(error, "removing working directories of ended runs failed");
                }
                last_error = error;
            }
        }
    }
}

/// Treatment of directories that are not named after a run.
#[derive(Clone, Copy)]
enum Others {
    /// They were left by an earlier process of the node and are removed.
    Remove,
    /// They may be in use, for instance by a `doctor` that tests the sandbox, and stay.
    Leave,
}

/// Removes the directories of settled runs. An unsettled run may be taken over by this node, which then needs its directory. An
/// active run is in the registry before its directory is created.
async fn remove(store: &Store, work_dir: &Path, active: &Active, others: Others) -> Result<u64, Refusal> {
    let mut idle = in_background(work_dir, |work_dir| {
        let mut names = HashSet::new();
        // Every directory is reported as live, so that nothing is removed.
        Workdir::sweep(work_dir, |name| {
            names.insert(name.to_owned());
            true
        })?;
        Ok(names)
    })
    .await?;
    idle.retain(|name| match name.parse() {
        Ok(run) => !active.contains(run),
        Err(_) => matches!(others, Others::Remove),
    });
    if idle.is_empty() {
        return Ok(0);
    }
    let runs: Vec<RunId> = idle.iter().filter_map(|name| name.parse().ok()).collect();
    for some in runs.chunks(AT_ONCE) {
        for run in store.unsettled(some.to_vec()).await? {
            idle.remove(&run.to_string());
        }
    }
    let active = active.clone();
    in_background(work_dir, move |work_dir| {
        Workdir::sweep(work_dir, |name| {
            !idle.contains(name) || name.parse().is_ok_and(|run| active.contains(run))
        })
    })
    .await
}

async fn in_background<T: Send + 'static>(
    work_dir: &Path,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, Refusal> {
    let work_dir = work_dir.to_owned();
    let done = tokio::task::spawn_blocking(move || work(&work_dir)).await;
    let internal = |error: &dyn std::fmt::Display| Refusal::internal(format!("working directories: {error}"));
    done.map_err(|error| internal(&error))?
        .map_err(|error| internal(&error))
}

#[cfg(test)]
mod tests {
    use sortie_base::Clock;

    use super::*;
    use crate::testing::{Held, held};

    #[tokio::test]
    async fn directories_of_runs_that_are_over_go_and_those_of_others_stay() {
        let Held {
            store, claim, dir, ..
        } = held().await;
        let (work_dir, active, now) = (dir.path().join("work"), Active::default(), Clock::system().now());
        let held = claim.fence.run;
        let (at_work, over) = (RunId::new(now, [3; 10]), RunId::new(now, [4; 10]));
        let active_run = active.enter(at_work);
        for name in [
            held.to_string(),
            at_work.to_string(),
            over.to_string(),
            "stray".to_owned(),
        ] {
            drop(Workdir::create(&work_dir, &name).unwrap());
        }
        let removes = async |others| remove(&store, &work_dir, &active, others).await.unwrap();
        assert_eq!(removes(Others::Leave).await, 1);
        assert!(!work_dir.join(over.to_string()).exists());
        assert_eq!(removes(Others::Remove).await, 1);
        assert!(!work_dir.join("stray").exists());
        assert_eq!(removes(Others::Remove).await, 0);
        store.cancel_run(claim.org, held, now).await.unwrap();
        store
            .settle_run(held, 1, sortie_store::runs::FinalCost::default(), Vec::new())
            .await
            .unwrap();
        assert_eq!(removes(Others::Remove).await, 1);
        assert!(work_dir.join(at_work.to_string()).exists());
        drop(active_run);
        assert_eq!(removes(Others::Remove).await, 1);
    }
}
