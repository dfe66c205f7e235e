//! Artifacts and their content over the life of a run, on a SQLite file and with a clock that is moved. What a run brings
//! below `outputs/` lies there at its end as well, so that none of this needs a sandbox.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    path::Path,
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use serde_json::json;
use sortie_api::{
    OrgId, Run, Timestamp,
    file::KeepArtifact,
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_engine::{Caller, Clock, Deltas, Engine, Error, Hop, Options};
use sortie_store::{Actor, Created, Store};
use tempfile::TempDir;

const START: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);
const DAY: Duration = Duration::from_hours(24);

async fn engine(dir: &TempDir, clock: Clock) -> Engine {
    let url = format!("sqlite:{}", dir.path().join("sortie.db").display());
    let options = Options {
        data_dir: dir.path().to_owned(),
        clock,
        retention: Some(DAY * 30),
        ..Options::default()
    };
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
    let created = engine.create_run(&caller(org), request, None).await.unwrap();
    let (Created::New(run) | Created::Existing(run)) = created;
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

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so().await {
        assert!(Instant::now() < deadline, "it does not come");
        tokio::task::yield_now().await;
    }
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
    first.shutdown().await;
    drop(first);

    // The run goes at the next start; its content belongs to the file as well.
    clock.set(START + DAY * 31);
    let second = engine(&dir, clock.clone()).await;
    until(async || second.store().get_run(org, run.id).await.is_err()).await;
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
