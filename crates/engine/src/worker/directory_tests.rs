//! Tests of the moment at which an attempt deletes the working directory of its run.

use std::{path::PathBuf, sync::Arc};

use sortie_api::{Micros, RunStatus};
use sortie_store::runs::Claim;

use super::Worker;
use crate::testing::{Held, held};
use sortie_base::Clock;

/// A node with a claimed run. The run has an input file, so it needs its directory from the start.
async fn with_directory() -> (Held, Arc<Worker>, PathBuf) {
    let mut held = held().await;
    let files = r#"[{"path":"a.txt","content":"a"}]"#;
    let definition = format!(r#"{{"prompt":"x","shell":false,"files":{files}}}"#);
    held.sql(&format!("UPDATE run_definition SET definition = '{definition}'"));
    held.claim.definition = Some(definition);
    let worker = held.worker().await;
    let directory = held
        .dir
        .path()
        .join("work")
        .join(held.claim.fence.run.to_string());
    (held, worker, directory)
}

async fn work(worker: &Arc<Worker>, claim: &Claim) {
    let active_run = worker.active.enter(claim.fence.run);
    Arc::clone(worker).run(claim.clone(), active_run).await;
}

#[tokio::test]
async fn an_attempt_that_ends_its_run_deletes_the_directory() {
    let (held, worker, directory) = with_directory().await;
    work(&worker, &held.claim).await;
    let run = held.store.get_run(held.claim.org, held.claim.fence.run).await;
    assert_eq!(run.unwrap().status, RunStatus::Succeeded);
    assert!(!directory.exists());
}

#[tokio::test]
async fn an_attempt_that_is_fenced_by_the_next_one_on_this_node_leaves_the_directory_to_it() {
    let (held, worker, directory) = with_directory().await;
    let (run, now) = (held.claim.fence.run, Clock::system().now());
    let taken = held
        .store
        .retake_held(held.node, vec![run], now, Micros::ZERO)
        .await
        .unwrap();
    assert_eq!(taken.taken.len(), 1);
    // The next attempt is not in the registry yet when this one is fenced.
    work(&worker, &held.claim).await;
    assert!(directory.join("a.txt").exists());
}

#[tokio::test]
async fn an_attempt_deletes_the_directory_of_a_run_that_was_cancelled_under_it() {
    let (held, worker, directory) = with_directory().await;
    let (run, now) = (held.claim.fence.run, Clock::system().now());
    held.store.cancel_run(held.claim.org, run, now).await.unwrap();
    work(&worker, &held.claim).await;
    assert!(held.store.unsettled(vec![run]).await.unwrap().is_empty());
    assert!(!directory.exists());
}
