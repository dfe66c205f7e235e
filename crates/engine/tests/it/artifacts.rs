//! Artifacts and their content over the life of a run, on a SQLite file and with a clock that is moved. What a run brings
//! below `outputs/` lies there at its end as well, so that none of this needs a sandbox.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::StreamExt;
use serde_json::json;
use sortie_api::{
    Micros, OrgId, Run, RunRequest, RunStatus, Timestamp,
    file::KeepArtifact,
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_engine::{Clock, Deltas, Engine, Error, Hop, Options};
use sortie_store::{
    Store,
    access::{Actor, Caller},
    runs::Created,
};
use sortie_testkit::{PATIENCE, until};
use tempfile::TempDir;

const START: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);
const DAY: Duration = Duration::from_hours(24);

async fn engine(dir: &TempDir, clock: Clock) -> Engine {
    engine_with(dir, |options| options.clock = clock).await
}

async fn engine_with(dir: &TempDir, change: impl FnOnce(&mut Options)) -> Engine {
    let url = format!("sqlite:{}", dir.path().join("sortie.db").display());
    let mut options = Options {
        data_dir: dir.path().to_owned(),
        retention: Some(DAY * 30),
        ..Options::default()
    };
    change(&mut options);
    let no_sandbox = Err("this test has no sandbox.".to_owned());
    Engine::start(options, Store::open(&url).await.unwrap(), no_sandbox)
        .await
        .unwrap()
}

async fn organization(engine: &Engine) -> OrgId {
    let key = Secret::new(SELF_HOSTED_KEY, [7; 32]);
    assert!(engine.bootstrap(&key).await.unwrap());
    engine.authenticate(key.expose()).await.unwrap().unwrap().org
}

fn caller(org: OrgId) -> Caller {
    Caller {
        org,
        actor: Actor::default(),
    }
}

/// A run that left these files, all of the same content.
async fn finished(engine: &Engine, org: OrgId, paths: &[&str]) -> Run {
    let files: Vec<_> = paths
        .iter()
        .map(|path| json!({"path": format!("outputs/{path}"), "content": "some content"}))
        .collect();
    let request = json!({"prompt": "x", "shell": false, "files": files});
    let request = serde_json::from_value(request).unwrap();
    let run = create(engine, org, request).await;
    ended(engine, org, &run).await
}

async fn create(engine: &Engine, org: OrgId, request: RunRequest) -> Run {
    let created = engine.create_run(&caller(org), request, None).await.unwrap();
    let (Created::New(run) | Created::Existing(run)) = created;
    run
}

async fn ended(engine: &Engine, org: OrgId, run: &Run) -> Run {
    let mut stream = engine
        .follow(&caller(org), run.id, (0, Deltas::Off), Hop::First)
        .await
        .unwrap();
    while stream.next().await.is_some() {}
    engine.store().get_run(org, run.id).await.unwrap()
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
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(&dir, Clock::manual(START)).await;
    let org = organization(&engine).await;
    let run = finished(&engine, org, &["b.txt", "a/b.txt"]).await;
    let paths: Vec<_> = run.artifacts.iter().map(|artifact| &artifact.path).collect();
    assert_eq!(paths, ["a/b.txt", "b.txt"]);
    assert_eq!(contents(&dir.path().join("blobs")), 1);
    for path in ["a/b.txt", "b.txt"] {
        let stored = engine.stored_artifact(org, run.id, path).await.unwrap();
        assert_eq!((stored.name.as_str(), stored.size), ("b.txt", 12));
        let pieces: Vec<_> = engine
            .read_content(&stored, 0..stored.size)
            .await
            .unwrap()
            .collect()
            .await;
        let content: Vec<u8> = pieces.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(content, b"some content");
    }
    let other = engine.stored_artifact(org, run.id, "c.txt").await;
    assert!(matches!(other, Err(Error::NotFound)));
}

#[tokio::test]
async fn content_goes_with_the_last_that_refers_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = dir.path().join("blobs");
    let clock = Clock::manual(START);
    let first = engine(&dir, clock.clone()).await;
    let org = organization(&first).await;
    let run = finished(&first, org, &["a.txt"]).await;
    let wanted = KeepArtifact {
        run: run.id,
        path: "a.txt".to_owned(),
        name: "kept.txt".to_owned(),
    };
    first.keep_artifact(&caller(org), wanted).await.unwrap();
    // An engine that was away for longer than the retention deletes nothing.
    first.store().record_retention(START + DAY * 20).await.unwrap();
    first.shutdown().await;
    drop(first);

    // The run goes at the next start; its content belongs to the file as well.
    clock.set(START + DAY * 31);
    let second = engine(&dir, clock.clone()).await;
    let look = async || Ok(second.store().get_run(org, run.id).await);
    let gone = until("the deletion of the run", look, Result::is_err).await;
    gone.unwrap().unwrap_err();
    clock.set(START + DAY * 32);
    assert_eq!(second.sweep_contents().await.unwrap(), 0);
    assert_eq!(contents(&blobs), 1);
    second.delete_file(&caller(org), "kept.txt").await.unwrap();
    assert_eq!(
        second.sweep_contents().await.unwrap(),
        0,
        "who reads it now may go on"
    );
    clock.set(START + DAY * 33);
    assert_eq!(second.sweep_contents().await.unwrap(), 1);
    assert_eq!(contents(&blobs), 0);
}

/// A storage that takes and gives nothing of an organization until it is unblocked.
struct Blocked {
    folder: PathBuf,
    aside: PathBuf,
}

impl Blocked {
    fn new(dir: &TempDir, org: OrgId) -> Self {
        let blobs = dir.path().join("blobs");
        let (folder, aside) = (blobs.join(org.to_string()), blobs.join("aside"));
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

/// An engine of one slot whose runs wait for the storage as soon as it is away, for this long.
async fn impatient(dir: &TempDir, storage_wait: Duration) -> Engine {
    impatient_at(dir, storage_wait, Clock::system()).await
}

async fn impatient_at(dir: &TempDir, storage_wait: Duration, clock: Clock) -> Engine {
    engine_with(dir, |options| {
        options.clock = clock;
        options.concurrency = 1;
        options.storage_retry = Duration::ZERO;
        options.storage_wait = storage_wait;
        options.shutdown_grace = Duration::ZERO;
        options.compute_micros_per_second = Micros::new(1_000).unwrap();
    })
    .await
}

const HOUR: Duration = Duration::from_hours(1);

fn request(request: serde_json::Value) -> RunRequest {
    serde_json::from_value(request).unwrap()
}

/// A run that leaves a file.
fn leaves_a_file() -> RunRequest {
    request(json!({
        "prompt": "the answer", "shell": false, "timeout_seconds": 600,
        "files": [{"path": "outputs/a.txt", "content": "some content"}]
    }))
}

async fn kinds(engine: &Engine, org: OrgId, run: &Run) -> Vec<String> {
    let events = engine.store().events_after(org, run.id, 0, 100).await.unwrap();
    events.into_iter().map(|event| event.kind).collect()
}

/// Returns once the run waits for the storage.
async fn waits(engine: &Engine, org: OrgId, run: &Run) -> Run {
    let look = async || Ok(kinds(engine, org, run).await);
    let retries = |kinds: &Vec<String>| kinds.iter().any(|kind| kind == "retry");
    until("a retry", look, retries).await.unwrap();
    let waiting = engine.store().get_run(org, run.id).await.unwrap();
    assert_eq!(waiting.status, RunStatus::Running);
    waiting
}

async fn has_its_file(engine: &Engine, org: OrgId, run: &Run) {
    assert_eq!(run.status, RunStatus::Succeeded, "{:?}", run.error);
    assert_eq!(run.output.as_deref(), Some("the answer"));
    assert_eq!(run.artifacts.len(), 1);
    let stored = engine.stored_artifact(org, run.id, "a.txt").await.unwrap();
    let mut content = engine.read_content(&stored, 0..stored.size).await.unwrap();
    assert_eq!(&content.next().await.unwrap().unwrap()[..], b"some content");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_outputs_are_not_taken_waits_without_a_slot_and_without_cost() {
    let dir = tempfile::tempdir().unwrap();
    let engine = impatient(&dir, HOUR).await;
    let org = organization(&engine).await;
    let blocked = Blocked::new(&dir, org);
    let run = create(&engine, org, leaves_a_file()).await;
    let cost = waits(&engine, org, &run).await.cost_micros;
    // The storage answers, and takes nothing of the organization.
    let degraded = async || Ok(engine.degraded());
    until("a degraded storage", degraded, |parts| *parts == ["storage"])
        .await
        .unwrap();
    // The only slot is free.
    let other = request(json!({"prompt": "other", "shell": false}));
    let other = create(&engine, org, other).await;
    assert_eq!(ended(&engine, org, &other).await.status, RunStatus::Succeeded);
    blocked.unblock();
    let run = ended(&engine, org, &run).await;
    has_its_file(&engine, org, &run).await;
    assert_eq!(run.cost_micros, cost);
    assert!(engine.degraded().is_empty());
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_outputs_are_not_taken_in_time_fails_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let engine = impatient(&dir, Duration::ZERO).await;
    let org = organization(&engine).await;
    let _blocked = Blocked::new(&dir, org);
    let run = create(&engine, org, leaves_a_file()).await;
    let run = ended(&engine, org, &run).await;
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.error.as_deref().unwrap();
    assert!(
        error.starts_with("cannot store the files under `outputs/`"),
        "{error}"
    );
    assert!(run.artifacts.is_empty() && run.output.is_none());
    let kinds = kinds(&engine, org, &run).await;
    assert!(kinds.contains(&"artifact_skipped".to_owned()), "{kinds:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_the_storage_is_cancelled_and_settled() {
    let dir = tempfile::tempdir().unwrap();
    let engine = impatient(&dir, HOUR).await;
    let org = organization(&engine).await;
    let _blocked = Blocked::new(&dir, org);
    let run = create(&engine, org, leaves_a_file()).await;
    let cost = waits(&engine, org, &run).await.cost_micros;
    engine.cancel_run(org, run.id).await.unwrap();
    let look = async || Ok(engine.store().get_run(org, run.id).await?);
    let settled = until("the settlement", look, |run| !run.billing_pending).await;
    let run = settled.unwrap();
    assert_eq!((run.status, run.cost_micros), (RunStatus::Cancelled, cost));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_process_on_the_same_folder_stores_the_outputs_and_asks_no_model_again() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::manual(START);
    let first = impatient_at(&dir, HOUR, clock.clone()).await;
    let org = organization(&first).await;
    let blocked = Blocked::new(&dir, org);
    let run = create(&first, org, leaves_a_file()).await;
    let cost = waits(&first, org, &run).await.cost_micros;
    first.shutdown().await;
    drop(first);
    // The run's own time is over by then.
    clock.set(START + Duration::from_mins(50));
    let second = impatient_at(&dir, HOUR, clock).await;
    blocked.unblock();
    let run = ended(&second, org, &run).await;
    has_its_file(&second, org, &run).await;
    assert_eq!(run.cost_micros, cost);
    let kinds = kinds(&second, org, &run).await;
    let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
    assert_eq!((count("model_call"), count("resumed")), (1, 1), "{kinds:?}");
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_are_stored_after_a_downtime_that_is_longer_than_the_wait() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::manual(START);
    let first = impatient_at(&dir, HOUR, clock.clone()).await;
    let org = organization(&first).await;
    let blocked = Blocked::new(&dir, org);
    let run = create(&first, org, leaves_a_file()).await;
    waits(&first, org, &run).await;
    // The run is handed over at once: it does not use the grace period.
    let stopping = first.shutdown_within(HOUR);
    tokio::time::timeout(PATIENCE, stopping).await.unwrap();
    drop(first);
    blocked.unblock();
    clock.set(START + 2 * HOUR);
    let second = engine_with(&dir, |options| {
        options.clock = clock;
        options.storage_wait = HOUR;
    })
    .await;
    let run = ended(&second, org, &run).await;
    has_its_file(&second, org, &run).await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_that_went_with_their_node_make_the_run_fail() {
    let dir = tempfile::tempdir().unwrap();
    let first = impatient(&dir, HOUR).await;
    let org = organization(&first).await;
    let blocked = Blocked::new(&dir, org);
    let run = create(&first, org, leaves_a_file()).await;
    waits(&first, org, &run).await;
    first.shutdown().await;
    drop(first);
    let directory = dir.path().join("work").join(run.id.to_string());
    std::fs::rename(directory, dir.path().join("lost")).unwrap();
    blocked.unblock();
    let second = impatient(&dir, HOUR).await;
    let run = ended(&second, org, &run).await;
    assert_eq!(run.status, RunStatus::Failed);
    assert!(run.error.unwrap().contains("their node was lost"));
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_waits_for_its_files_without_a_slot_while_the_storage_is_away() {
    let dir = tempfile::tempdir().unwrap();
    let engine = impatient(&dir, HOUR).await;
    let org = organization(&engine).await;
    let mut upload = engine.begin_upload(&caller(org)).await.unwrap();
    upload.write(b"some content").await.unwrap();
    let name = "a.txt".to_owned();
    let file = engine
        .create_file(&caller(org), upload, name, None)
        .await
        .unwrap();
    let blocked = Blocked::new(&dir, org);
    let reads = request(json!({
        "prompt": "the answer", "shell": false, "files": [{"path": "outputs/a.txt", "file": file.id}]
    }));
    let run = create(&engine, org, reads).await;
    // It can only end in the slot of the run that waits.
    let other = request(json!({"prompt": "other", "shell": false}));
    let other = create(&engine, org, other).await;
    assert_eq!(ended(&engine, org, &other).await.status, RunStatus::Succeeded);
    let waiting = engine.store().get_run(org, run.id).await.unwrap();
    assert_eq!(waiting.status, RunStatus::Starting);
    blocked.unblock();
    let run = ended(&engine, org, &run).await;
    has_its_file(&engine, org, &run).await;
    engine.shutdown().await;
}
