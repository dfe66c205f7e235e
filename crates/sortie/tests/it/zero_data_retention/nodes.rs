//! Runs without retention through another node than the one that has their content.

use anyhow::ensure;
use sortie_api::RunStatus;
use sortie_testkit::{Database, Node, NodeOptions, client::kinds, http::HeaderValue};

use super::{at_work, held, unretained};
use crate::{
    Checked,
    kit::{finals, settled},
    node_with,
};

/// Two nodes that share a database and a master key.
pub(super) async fn two() -> anyhow::Result<(Node, Node)> {
    let key = "7".repeat(64);
    let first = node_with(
        Database::Postgres,
        NodeOptions::default().env("SORTIE_MASTER_KEY", &key),
    )
    .await?;
    let second = first.beside().await?;
    Ok((first, second))
}

#[tokio::test]
async fn another_node_shows_the_stream_and_hands_the_output_out_once() -> Checked {
    let (first, second) = two().await?;
    let (here, there) = (first.client()?, second.client()?);
    let id = here
        .create(&unretained("```sh\necho deep\n```\n"))
        .await?
        .id
        .to_string();
    let (events, done) = there.finished(&id).await?;
    assert_eq!(done.status, RunStatus::Succeeded);
    assert_eq!(held(&done), (None, Some(true), true));
    let (own, _) = here.finished(&id).await?;
    assert_eq!(kinds(&events), kinds(&own));
    let (rest, _) = there.follow(&id, Some(4)).await?.to_done().await?;
    assert_eq!(rest.first().map(|event| event.id), Some(5));
    let as_json = there
        .clone()
        .with_header("accept", HeaderValue::from_static("application/json"));
    let rest = as_json
        .get(&format!("/v1/runs/{id}/events?after=4"))
        .await?
        .expect(200)?
        .json()?;
    assert_eq!(rest.as_array().map(Vec::len), Some(own.len() - 4));
    there
        .get(&format!("/v1/runs/{id}/definition"))
        .await?
        .failure(410, "gone")?;

    let reads = (0..8).flat_map(|_| [here.run(&id), there.run(&id)]);
    let mut outputs = Vec::new();
    for run in futures_util::future::join_all(reads).await {
        outputs.extend(run?.output);
    }
    assert_eq!(outputs, ["deep\n"]);
    // A read that waits, and one that is passed on as well.
    let id = here
        .create(&unretained("```wait 300\n```\n```answer\nlate\n```\n"))
        .await?
        .id;
    let run: sortie_api::Run = there
        .get(&format!("/v1/runs/{id}?wait=30"))
        .await?
        .expect(200)?
        .read()?;
    assert_eq!(held(&run), (Some("late"), Some(false), false));
    assert_eq!(
        held(&here.run(&id.to_string()).await?),
        (None, Some(false), false)
    );
    // What another organization asks for is not there on either.
    let foreign = second.foreign_client(7).await?;
    foreign
        .get(&format!("/v1/runs/{id}"))
        .await?
        .failure(404, "not_found")?;
    foreign
        .get(&format!("/v1/runs/{id}/events"))
        .await?
        .failure(404, "not_found")?;
    Ok(())
}

#[tokio::test]
async fn a_cancel_on_another_node_ends_it_where_it_works() -> Checked {
    let (first, second) = two().await?;
    let (here, there) = (first.client()?, second.client()?);
    let id = at_work(&here).await?;
    let cancelled = there.cancel(&id).await?;
    assert_eq!(cancelled.status, RunStatus::Cancelled);
    let (events, done) = here.finished(&id).await?;
    assert_eq!((done.status, finals(&events)), (RunStatus::Cancelled, 1));
    ensure!(!settled(&there, &id).await?.billing_pending);
    Ok(())
}

#[tokio::test]
async fn without_its_node_it_is_interrupted_and_asking_another_node_never_hangs() -> Checked {
    let (mut first, second) = two().await?;
    let (here, there) = (first.client()?, second.client()?);
    let id = at_work(&here).await?;
    let mut stream = there.follow(&id, None).await?;
    stream.until_status(RunStatus::Running).await?;
    first.kill()?;
    ensure!(stream.to_done().await.is_err(), "the stream breaks off");
    // Until the node is declared lost, it cannot be asked; then the store says what became of the run.
    let begun = std::time::Instant::now();
    let run = loop {
        let answer = there.get(&format!("/v1/runs/{id}")).await?;
        if answer.status == 200 {
            break answer.read::<sortie_api::Run>()?;
        }
        answer.failure(503, "unavailable")?;
        ensure!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
        // Nothing tells of the sweep.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert_eq!(run.status, RunStatus::Interrupted);
    there
        .get(&format!("/v1/runs/{id}/events"))
        .await?
        .failure(410, "gone")?;
    // What the killed node left in memory goes with its next start.
    first.restart().await?;
    first.stop().await
}

/// Only the nodes of one engine speak for clients.
#[tokio::test]
async fn a_signature_of_somebody_else_is_worth_nothing() -> Checked {
    let (first, _second) = two().await?;
    let client = first.client()?;
    let run = client.create(&unretained("x")).await?;
    let path = format!("/v1/runs/{}", run.id);
    for header in ["", "1", "1 0 org key 00", "2 x"] {
        let forged = client
            .anonymous()
            .with_header("x-sortie-peer", HeaderValue::from_static(header));
        forged.get(&path).await?.failure(401, "unauthorized")?;
    }
    Ok(())
}
