//! Content and time: unreferenced content is deleted after an hour, and referenced content never.

use std::{path::Path, time::Duration};

use sortie_api::{ErrorCode, Refusal, Timestamp};
use sortie_engine::{Clock, Serves};
use sortie_testkit::until;

use crate::rig::Rig;

const START: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);
const HOUR: Duration = Duration::from_hours(1);

/// An engine that works on no run, with this clock.
async fn start() -> (Rig, Clock) {
    let clock = Clock::manual(START);
    let rig = Rig::start_with(|options| {
        options.clock = clock.clone();
        options.serves = Serves::Nothing;
    });
    (rig.await, clock)
}

impl Rig {
    async fn upload(&self, name: &str, content: &[u8]) -> Result<(), Refusal> {
        let mut upload = self.engine.begin_upload(&self.caller).await?;
        upload.write(content).await?;
        self.engine
            .create_file(&self.caller, upload, name.to_owned(), None)
            .await
            .map(drop)
    }

    fn contents(&self) -> usize {
        fn below(folder: &Path) -> usize {
            let entries = std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().path());
            entries
                .map(|path| if path.is_dir() { below(&path) } else { 1 })
                .sum()
        }
        below(&self.dir.path().join("blobs"))
    }
}

#[tokio::test]
async fn content_goes_an_hour_after_the_last_file_that_has_it() {
    let (rig, clock) = start().await;
    rig.upload("a", b"same").await.unwrap();
    rig.upload("b", b"same").await.unwrap();
    rig.upload("c", b"other").await.unwrap();
    assert_eq!(rig.contents(), 2);
    rig.engine.delete_file(&rig.caller, "a").await.unwrap();
    clock.set(START + HOUR * 2);
    assert_eq!(rig.engine.sweep_contents().await.unwrap(), 0);
    rig.engine.delete_file(&rig.caller, "b").await.unwrap();
    assert_eq!(rig.engine.sweep_contents().await.unwrap(), 0);
    assert_eq!(rig.contents(), 2);
    clock.set(START + HOUR * 3);
    assert_eq!(rig.engine.sweep_contents().await.unwrap(), 1);
    assert_eq!(rig.contents(), 1);
    assert_eq!(rig.engine.sweep_contents().await.unwrap(), 0);
    rig.upload("again", b"same").await.unwrap();
    assert_eq!(rig.contents(), 2);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn an_upload_whose_name_was_taken_meanwhile_leaves_content_that_is_swept() {
    let (rig, clock) = start().await;
    let mut upload = rig.engine.begin_upload(&rig.caller).await.unwrap();
    upload.write(b"late").await.unwrap();
    rig.upload("a", b"first").await.unwrap();
    let late = rig
        .engine
        .create_file(&rig.caller, upload, "a".to_owned(), None)
        .await;
    assert!(matches!(&late, Err(refused) if refused.code == ErrorCode::Conflict));
    clock.set(START + HOUR * 2);
    rig.engine.sweep_contents().await.unwrap();
    assert_eq!(rig.contents(), 1);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn storage_that_does_not_work_refuses_uploads_and_leaves_the_node_ready_for_runs() {
    let (rig, _) = start().await;
    assert!(rig.engine.degraded().is_empty());
    let staging = rig.dir.path().join("blobs/staging");
    // Renamed, not removed: the first check of the storage may still have a file in this folder.
    std::fs::rename(&staging, rig.dir.path().join("away")).unwrap();
    let refused = rig.upload("a", b"x").await;
    assert!(
        matches!(&refused, Err(refused) if refused.code == ErrorCode::Unavailable),
        "{refused:?}"
    );
    // The failure triggers a check of the storage at once.
    let degraded = async || Ok(rig.engine.degraded());
    until("a degraded storage", degraded, |parts| *parts == ["storage"])
        .await
        .unwrap();
    rig.engine.ready().await.unwrap();
    std::fs::create_dir(&staging).unwrap();
    until("the storage", degraded, Vec::is_empty).await.unwrap();
    rig.upload("a", b"x").await.unwrap();
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn one_caller_leaves_half_of_the_uploads_to_others() {
    let (rig, _) = start().await;
    let mut under_way = Vec::new();
    loop {
        match rig.engine.begin_upload(&rig.caller).await {
            Ok(upload) => under_way.push(upload),
            Err(error) => {
                assert_eq!(error.code, ErrorCode::Unavailable, "{error:?}");
                break;
            }
        }
    }
    assert_eq!(under_way.len(), 8);
    let mut other = rig.caller.clone();
    other.actor.by = Some(sortie_store::access::By::Operator);
    assert!(rig.engine.begin_upload(&other).await.is_ok());
    under_way.pop();
    assert!(rig.engine.begin_upload(&rig.caller).await.is_ok());
    rig.engine.shutdown().await;
}
