//! Artifacts and their content over the life of a run, on a SQLite file and with a clock that the tests move. The input files lie
//! below `outputs/` and are still there at the end of the run, so these tests need no sandbox.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::StreamExt;
use serde_json::json;
use sortie_api::{ErrorCode, Micros, Run, RunStatus, Timestamp, file::KeepArtifact};
use sortie_engine::{Clock, Options};
use sortie_testkit::{PATIENCE, until};

use crate::rig::{Rig, prompt};

const START: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);
const DAY: Duration = Duration::from_hours(24);

impl Rig {
    /// A run that left these files, all of the same content.
    async fn finished_with(&self, paths: &[&str]) -> Run {
        let file = |path: &&str| json!({"path": format!("outputs/{path}"), "content": "some content"});
        let files: Vec<_> = paths.iter().map(file).collect();
        let request = json!({"prompt": "x", "shell": false, "files": files});
        let run = self.create(request).await.unwrap();
        self.ended(&run).await
    }

    /// Waits for a short run, which can only end in the single slot.
    async fn slot_is_free(&self) {
        let other = self.create(prompt("other")).await.unwrap();
        assert_eq!(self.ended(&other).await.status, RunStatus::Succeeded);
    }

    async fn kinds(&self, run: &Run) -> Vec<String> {
        let events = self.engine.store().events_after(self.org, run.id, 0, 100).await;
        events.unwrap().into_iter().map(|event| event.kind).collect()
    }

    /// Returns once the run waits for the storage.
    async fn waits(&self, run: &Run) -> Run {
        let look = async || Ok(self.kinds(run).await);
        let retries = |kinds: &Vec<String>| kinds.iter().any(|kind| kind == "retry");
        until("a retry", look, retries).await.unwrap();
        let waiting = self.status(run).await;
        assert_eq!(waiting.status, RunStatus::Running);
        waiting
    }

    /// Waits for the end of a run that leaves its file.
    async fn ends_with_its_file(&self, run: &Run) -> Run {
        let run = self.ended(run).await;
        assert_eq!(run.status, RunStatus::Succeeded, "{:?}", run.error);
        assert_eq!(run.output.as_deref(), Some("the answer"));
        assert_eq!(run.artifacts.len(), 1);
        let stored = self
            .engine
            .stored_artifact(self.org, run.id, "a.txt")
            .await
            .unwrap();
        let mut content = self.engine.read_content(&stored, 0..stored.size).await.unwrap();
        assert_eq!(&content.next().await.unwrap().unwrap()[..], b"some content");
        run
    }
}

/// Options of an engine with this clock that keeps runs for a month.
fn at(clock: &Clock) -> impl FnOnce(&mut Options) {
    let clock = clock.clone();
    move |options| {
        options.clock = clock;
        options.retention = Some(DAY * 30);
    }
}

/// Contents in the storage.
fn contents(folder: &Path) -> usize {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name() != "staging")
        .map(|entry| {
            if entry.file_type().unwrap().is_dir() {
                contents(&entry.path())
            } else {
                1
            }
        })
        .sum()
}

#[tokio::test]
async fn the_same_content_is_stored_once_and_read_by_every_path() {
    let rig = Rig::start_with(at(&Clock::manual(START))).await;
    let run = rig.finished_with(&["b.txt", "a/b.txt"]).await;
    let paths: Vec<_> = run.artifacts.iter().map(|artifact| &artifact.path).collect();
    assert_eq!(paths, ["a/b.txt", "b.txt"]);
    assert_eq!(contents(&rig.dir.path().join("blobs")), 1);
    for path in ["a/b.txt", "b.txt"] {
        let stored = rig.engine.stored_artifact(rig.org, run.id, path).await.unwrap();
        assert_eq!((stored.name.as_str(), stored.size), ("b.txt", 12));
        let pieces = rig.engine.read_content(&stored, 0..stored.size).await.unwrap();
        let pieces: Vec<_> = pieces.collect().await;
        let content: Vec<u8> = pieces.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(content, b"some content");
    }
    let other = rig.engine.stored_artifact(rig.org, run.id, "c.txt").await;
    assert!(matches!(&other, Err(refused) if refused.code == ErrorCode::NotFound));
}

#[tokio::test]
async fn content_goes_with_the_last_that_refers_to_it() {
    let clock = Clock::manual(START);
    let rig = Rig::start_with(at(&clock)).await;
    let run = rig.finished_with(&["a.txt"]).await;
    let wanted = KeepArtifact {
        run: run.id,
        path: "a.txt".to_owned(),
        name: "kept.txt".to_owned(),
    };
    rig.engine.keep_artifact(&rig.caller, wanted).await.unwrap();
    // An engine that was away for longer than the retention deletes nothing.
    rig.engine
        .store()
        .record_retention(START + DAY * 20)
        .await
        .unwrap();
    rig.engine.shutdown().await;

    // The next start deletes the run. Its content also belongs to the file and stays.
    clock.set(START + DAY * 31);
    let rig = rig.restart(at(&clock)).await;
    let (engine, blobs) = (&rig.engine, rig.dir.path().join("blobs"));
    let look = async || Ok(engine.store().get_run(rig.org, run.id).await);
    let gone = until("the deletion of the run", look, Result::is_err).await;
    gone.unwrap().unwrap_err();
    clock.set(START + DAY * 32);
    assert_eq!(engine.sweep_contents().await.unwrap(), 0);
    assert_eq!(contents(&blobs), 1);
    engine.delete_file(&rig.caller, "kept.txt").await.unwrap();
    let swept = engine.sweep_contents().await.unwrap();
    assert_eq!(swept, 0, "who reads it now may go on");
    clock.set(START + DAY * 33);
    assert_eq!(engine.sweep_contents().await.unwrap(), 1);
    assert_eq!(contents(&blobs), 0);
}

/// A storage that refuses all reads and writes of an organization until it is unblocked.
struct Blocked {
    folder: PathBuf,
    aside: PathBuf,
}

impl Blocked {
    fn new(rig: &Rig) -> Self {
        let blobs = rig.dir.path().join("blobs");
        let (folder, aside) = (blobs.join(rig.org.to_string()), blobs.join("aside"));
        if folder.exists() {
            std::fs::rename(&folder, &aside).unwrap();
        }
        std::fs::write(&folder, "").unwrap();
        Self { folder, aside }
    }

    fn unblock(self) {
        std::fs::remove_file(&self.folder).unwrap();
        if self.aside.exists() {
            std::fs::rename(&self.aside, &self.folder).unwrap();
        }
    }
}

/// Options of an engine with one slot. Its runs wait for the storage, for this long, as soon as it is unavailable.
fn impatient(storage_wait: Duration, clock: Clock) -> impl FnOnce(&mut Options) {
    move |options| {
        options.clock = clock;
        options.retention = Some(DAY * 30);
        options.concurrency = 1;
        options.storage_retry = Duration::ZERO;
        options.storage_wait = storage_wait;
        options.shutdown_grace = Duration::ZERO;
        options.compute_micros_per_second = Micros::new(1_000).unwrap();
    }
}

/// An engine of one slot with a blocked storage, and a run that leaves a file.
async fn blocked(storage_wait: Duration, clock: Clock) -> (Rig, Blocked, Run) {
    let rig = Rig::start_with(impatient(storage_wait, clock)).await;
    let blocked = Blocked::new(&rig);
    let request = json!({
        "prompt": "the answer", "shell": false, "timeout_seconds": 600,
        "files": [{"path": "outputs/a.txt", "content": "some content"}]
    });
    let run = rig.create(request).await.unwrap();
    (rig, blocked, run)
}

const HOUR: Duration = Duration::from_hours(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_outputs_are_not_taken_waits_without_a_slot_and_without_cost() {
    let (rig, blocked, run) = blocked(HOUR, Clock::system()).await;
    let cost = rig.waits(&run).await.cost_micros;
    // The storage answers, but accepts nothing of the organization.
    let degraded = async || Ok(rig.engine.degraded());
    let is_degraded = until("a degraded storage", degraded, |parts| *parts == ["storage"]).await;
    is_degraded.unwrap();
    rig.slot_is_free().await;
    blocked.unblock();
    assert_eq!(rig.ends_with_its_file(&run).await.cost_micros, cost);
    assert!(rig.engine.degraded().is_empty());
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_outputs_are_not_taken_in_time_fails_and_says_so() {
    let (rig, _blocked, run) = blocked(Duration::ZERO, Clock::system()).await;
    let run = rig.ended(&run).await;
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.error.as_deref().unwrap();
    assert!(
        error.starts_with("cannot store the files under `outputs/`"),
        "{error}"
    );
    assert!(run.artifacts.is_empty() && run.output.is_none());
    let kinds = rig.kinds(&run).await;
    assert!(kinds.contains(&"artifact_skipped".to_owned()), "{kinds:?}");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_the_storage_is_cancelled_and_settled() {
    let (rig, _blocked, run) = blocked(HOUR, Clock::system()).await;
    let cost = rig.waits(&run).await.cost_micros;
    rig.engine.cancel_run(rig.org, run.id).await.unwrap();
    let look = async || Ok(rig.status(&run).await);
    let settled = until("the settlement", look, |run| !run.billing_pending).await;
    let run = settled.unwrap();
    assert_eq!((run.status, run.cost_micros), (RunStatus::Cancelled, cost));
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_process_on_the_same_folder_stores_the_outputs_and_asks_no_model_again() {
    let clock = Clock::manual(START);
    let (rig, blocked, run) = blocked(HOUR, clock.clone()).await;
    let cost = rig.waits(&run).await.cost_micros;
    rig.engine.shutdown().await;
    // By then the time limit of the run has passed.
    clock.set(START + Duration::from_mins(50));
    let rig = rig.restart(impatient(HOUR, clock)).await;
    blocked.unblock();
    assert_eq!(rig.ends_with_its_file(&run).await.cost_micros, cost);
    let kinds = rig.kinds(&run).await;
    let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
    assert_eq!((count("model_call"), count("resumed")), (1, 1), "{kinds:?}");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_are_stored_after_a_downtime_that_is_longer_than_the_wait() {
    let clock = Clock::manual(START);
    let (rig, blocked, run) = blocked(HOUR, clock.clone()).await;
    rig.waits(&run).await;
    // The run is handed over at once, without using the grace period.
    let stopping = rig.engine.shutdown_within(HOUR);
    tokio::time::timeout(PATIENCE, stopping).await.unwrap();
    blocked.unblock();
    clock.set(START + 2 * HOUR);
    let same_wait = |options: &mut Options| {
        at(&clock)(options);
        options.storage_wait = HOUR;
    };
    let rig = rig.restart(same_wait).await;
    rig.ends_with_its_file(&run).await;
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_that_went_with_their_node_make_the_run_fail() {
    let (rig, blocked, run) = blocked(HOUR, Clock::system()).await;
    rig.waits(&run).await;
    rig.engine.shutdown().await;
    let directory = rig.dir.path().join("work").join(run.id.to_string());
    std::fs::rename(directory, rig.dir.path().join("lost")).unwrap();
    blocked.unblock();
    let rig = rig.restart(impatient(HOUR, Clock::system())).await;
    let run = rig.ended(&run).await;
    assert_eq!(run.status, RunStatus::Failed);
    assert!(run.error.unwrap().contains("their node was lost"));
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_waits_for_its_files_without_a_slot_while_the_storage_is_away() {
    let rig = Rig::start_with(impatient(HOUR, Clock::system())).await;
    let mut upload = rig.engine.begin_upload(&rig.caller).await.unwrap();
    upload.write(b"some content").await.unwrap();
    let name = "a.txt".to_owned();
    let file = rig.engine.create_file(&rig.caller, upload, name, None).await;
    let blocked = Blocked::new(&rig);
    let reads = json!({
        "prompt": "the answer", "shell": false,
        "files": [{"path": "outputs/a.txt", "file": file.unwrap().id}]
    });
    let run = rig.create(reads).await.unwrap();
    // This run can only end in the slot of the run that waits.
    rig.slot_is_free().await;
    assert_eq!(rig.status(&run).await.status, RunStatus::Starting);
    blocked.unblock();
    rig.ends_with_its_file(&run).await;
    rig.engine.shutdown().await;
}
