//! Runs without retention, requested through another node than the one with their content.

use sortie_api::Run;
use sortie_testkit::Signal;

use super::{at_work, held, swept, unretained};
use crate::{
    prelude::*,
    runs::ui_messages::{path, read},
};

/// Two nodes that share a database and a master key.
pub(crate) async fn two() -> anyhow::Result<(Node, Node)> {
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
    let id = here.create_id(&unretained("```sh\necho deep\n```\n")).await?;
    let (events, done) = there.finished(&id).await?;
    assert_eq!(done.status, RunStatus::Succeeded);
    assert_eq!(held(&done), (None, Some(true), true));
    let (own, _) = here.finished(&id).await?;
    assert_eq!(kinds(&events), kinds(&own));
    let (rest, _) = there.follow(&id, Some(4)).await?.to_done().await?;
    assert_eq!(rest.first().map(|event| event.id), Some(5));
    let as_json = there.with_header("accept", "application/json");
    let rest = as_json
        .get(&format!("/v1/runs/{id}/events?after=4"))
        .json(200)
        .await?;
    assert_eq!(rest.as_array().map(Vec::len), Some(own.len() - 4));
    there
        .get(&format!("/v1/runs/{id}/definition"))
        .refused("gone")
        .await?;

    let reads = (0..8).flat_map(|_| [here.run(&id), there.run(&id)]);
    let mut outputs = Vec::new();
    for run in futures_util::future::join_all(reads).await {
        outputs.extend(run?.output);
    }
    assert_eq!(outputs, ["deep\n"]);
    // A read that waits, and one that is forwarded as well.
    let id = here
        .create(&unretained("```wait 300\n```\n```answer\nlate\n```\n"))
        .await?
        .id;
    let run: sortie_api::Run = there.get(&format!("/v1/runs/{id}?wait=30")).read(200).await?;
    assert_eq!(held(&run), (Some("late"), Some(false), false));
    assert_eq!(
        held(&here.run(&id.to_string()).await?),
        (None, Some(false), false)
    );
    // Requests of another organization find it on neither node.
    let foreign = second.foreign_client(7).await?;
    foreign
        .get(&format!("/v1/runs/{id}"))
        .refused("not_found")
        .await?;
    foreign
        .get(&format!("/v1/runs/{id}/events"))
        .refused("not_found")
        .await?;
    Ok(())
}

#[tokio::test]
async fn another_node_passes_the_ui_messages_on_from_any_chunk() -> Checked {
    let (first, second) = two().await?;
    let (here, there) = (first.client()?, second.client()?);
    let large = "x".repeat(100_000);
    let prompt = format!("```sh\necho deep\n```\n```answer\n{large}\n```\n");
    let id = here.create_id(&unretained(&prompt)).await?;
    let (_, done) = here.finished(&id).await?;
    assert_eq!(done.status, RunStatus::Succeeded);
    let whole = read(&here, &id, None).await?;
    ensure!(whole.iter().any(|message| message.data.contains(&large)));
    assert_eq!(whole.last().map(|last| last.data.as_str()), Some("[DONE]"));
    assert_eq!(read(&there, &id, None).await?, whole);
    for cut in [2, whole.len() / 2, whole.len() - 2] {
        let after = whole[cut].id.as_deref();
        ensure!(after.is_some());
        assert_eq!(
            read(&there, &id, after).await?,
            whole[cut + 1..],
            "after {after:?}"
        );
    }
    let foreign = second.foreign_client(7).await?;
    foreign.get(&path(&id)).refused("not_found").await?;
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
    // Until the node is declared lost, it cannot be asked; then the store has the outcome of the run.
    let path = format!("/v1/runs/{id}");
    there.get(&path).refused("unavailable").await?;
    first.declare_lost().await?;
    assert_eq!(swept(&there, &id).await?.status, RunStatus::Interrupted);
    there
        .get(&format!("/v1/runs/{id}/events"))
        .refused("gone")
        .await?;
    // The next start of the killed node removes its files in memory.
    first.restart().await?;
    first.stop().await
}

/// The process of a node that was declared lost may still run, so its content is not necessarily gone.
#[tokio::test]
async fn an_output_outlives_that_its_node_is_declared_lost() -> Checked {
    let (first, second) = two().await?;
    let (here, there) = (first.client()?, second.client()?);
    let (_, done) = here.complete(&unretained("still here")).await?;
    let id = done.id.to_string();
    first.signal(Signal::STOP)?;
    first.declare_lost().await?;
    for _ in 0..2 {
        there
            .get(&format!("/v1/runs/{id}"))
            .refused("unavailable")
            .await?;
    }
    let listed = there.list("").await?.remove(0);
    assert_eq!(held(&listed), (None, Some(true), true));
    first.signal(Signal::CONT)?;
    let look = async || {
        let answer = there.get(&format!("/v1/runs/{id}")).await?;
        if answer.status != 200 {
            answer.refused("unavailable")?;
        }
        Ok(answer)
    };
    let answer = until("the node to come back", look, |answer| answer.status == 200).await?;
    assert_eq!(held(&answer.read()?), (Some("still here"), Some(false), false));
    assert_eq!(held(&here.run(&id).await?), (None, Some(false), false));
    Ok(())
}

#[tokio::test]
async fn a_run_whose_client_goes_away_before_its_commit_goes_on() -> Checked {
    let (first, _second) = two().await?;
    let client = first.client()?;
    // Longer than the node needs to forget a run that the database does not know.
    let locked = first.lock_table("unretained", Duration::from_secs(3));
    let creating = async {
        let locks = "SELECT pid FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted \
                     AND relation = 'unretained'::regclass";
        until(
            "the lock",
            async || first.rows(locks).await,
            |rows| !rows.is_empty(),
        )
        .await?;
        let request = unretained("goes on");
        let created = tokio::time::timeout(Duration::from_millis(400), client.create(&request)).await;
        ensure!(created.is_err(), "the database is locked: {created:?}");
        Ok(())
    };
    let (locked, given_up) = futures_util::join!(locked, creating);
    locked?;
    given_up?;
    // The client never got the id of the run, so the test cannot follow it.
    let ended = |listed: &Vec<Run>| listed.first().is_some_and(|run| run.status.is_final());
    let listed = until("the end of the run", async || client.list("").await, ended).await?;
    let run = &listed[0];
    assert_eq!(run.status, RunStatus::Succeeded);
    assert_eq!(
        client.run(&run.id.to_string()).await?.output.as_deref(),
        Some("goes on")
    );
    Ok(())
}

/// Only nodes of the same engine may act for clients.
#[tokio::test]
async fn a_signature_of_somebody_else_is_worth_nothing() -> Checked {
    let (first, _second) = two().await?;
    let client = first.client()?;
    let run = client.create(&unretained("x")).await?;
    let path = format!("/v1/runs/{}", run.id);
    for header in ["", "1", "1 0 org key 00", "2 x"] {
        let forged = client.anonymous().with_header("x-sortie-peer", header);
        forged.get(&path).refused("unauthorized").await?;
    }
    Ok(())
}
