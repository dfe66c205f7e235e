//! Working directories that nobody needs any more: a run that another node has taken over, or ended, leaves its own here.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use sortie_api::RunId;
use sortie_sandbox::Workdir;
use sortie_store::Store;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{error::Error, runs::active::Active};

/// How often they are looked for. Where every directory is that of a run at work here, that is a look at a folder.
const PAUSE: Duration = Duration::from_secs(10);

/// Runs of one query.
const AT_ONCE: usize = 100;

/// Removes the working directories of runs that are over and that nobody works on here, at the start and then now and
/// again.
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
                    tracing::info!(removed, "working directories of lost runs were removed");
                }
                last_error.clear();
            }
            Err(error) => {
                // What cannot be removed now cannot in ten seconds: once is enough.
                let error = error.to_string();
                if error != last_error {
                    tracing::error!(error, "working directories of lost runs could not be removed");
                }
                last_error = error;
            }
        }
    }
}

/// What becomes of directories whose names are not those of runs.
#[derive(Clone, Copy)]
enum Others {
    /// Left by an earlier start.
    Remove,
    /// Somebody may be at work in them, as a `doctor` is that tries the sandbox.
    Leave,
}

/// Removes the directories of runs that are settled. A run that is not may be taken over by this node, which then needs
/// its directory; one that is at work here has taken its place before it makes its directory.
async fn remove(store: &Store, work_dir: &Path, active: &Active, others: Others) -> Result<u64, Error> {
    let mut idle = in_background(work_dir, |work_dir| {
        let mut names = HashSet::new();
        // Everything is said to be live, so that nothing is removed.
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
) -> Result<T, Error> {
    let work_dir = work_dir.to_owned();
    let done = tokio::task::spawn_blocking(move || work(&work_dir)).await;
    let internal = |error: &dyn std::fmt::Display| Error::Internal(format!("working directories: {error}"));
    done.map_err(|error| internal(&error))?
        .map_err(|error| internal(&error))
}

#[cfg(test)]
mod tests {
    use sortie_api::Micros;

    use super::*;
    use crate::{
        kit::clock::Clock,
        testing::{Held, held},
    };

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
            .settle_run(held, 1, Micros::ZERO, sortie_api::RunUsage::default())
            .await
            .unwrap();
        assert_eq!(removes(Others::Remove).await, 1);
        assert!(work_dir.join(at_work.to_string()).exists());
        drop(active_run);
        assert_eq!(removes(Others::Remove).await, 1);
    }
}
