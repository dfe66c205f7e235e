//! `GET /v1/runs/{id}?wait=SECONDS` (`docs/API.md#waiting`): long polling.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;
use sortie_api::RunStatus;
use sortie_testkit::Database;

use crate::{
    Checked, both_databases,
    kit::{at_work, plain},
    node,
};

both_databases![
    a_read_that_waits_is_answered_when_the_run_ends,
    a_read_that_waits_sees_an_end_that_came_through_another_node,
];

async fn a_read_that_waits_is_answered_when_the_run_ends(database: Database) -> Checked {
    let node = node(database).await?;
    let client = node.client()?;
    let run = client
        .create(&json!({"prompt": "```wait 300\n```\n```answer\ndone\n```\n"}))
        .await?;
    let began = Instant::now();
    let waited = client
        .get(&format!("/v1/runs/{}?wait=60", run.id))
        .await?
        .expect(200)?;
    let waited: sortie_api::Run = waited.read()?;
    assert_eq!(
        (waited.status, waited.output.as_deref()),
        (RunStatus::Succeeded, Some("done"))
    );
    assert!(began.elapsed() < Duration::from_secs(30));
    // One that is final is answered at once.
    let again = client
        .get(&format!("/v1/runs/{}?wait=60", run.id))
        .await?
        .expect(200)?;
    assert_eq!(again.read::<sortie_api::Run>()?, waited);
    Ok(())
}

async fn a_read_that_waits_sees_an_end_that_came_through_another_node(database: Database) -> Checked {
    let node = node(database).await?;
    // A file of SQLite is one node's: its own other connections stand for the others.
    let beside = match database {
        Database::Sqlite => None,
        Database::Postgres => Some(node.beside().await?),
    };
    let client = node.client()?;
    let run = at_work(&client).await?;
    let other = beside.as_ref().unwrap_or(&node).client()?;
    let path = format!("/v1/runs/{}?wait=60", run.id);
    let (waited, cancelled) = tokio::join!(other.get(&path), async {
        // Whichever comes first: the answer is the same.
        client.cancel(&run.id.to_string()).await
    });
    assert_eq!(cancelled?.status, RunStatus::Cancelled);
    assert_eq!(
        waited?.expect(200)?.read::<sortie_api::Run>()?.status,
        RunStatus::Cancelled
    );
    Ok(())
}

#[tokio::test]
async fn a_read_waits_no_longer_than_it_says() -> Checked {
    let node = node(Database::Sqlite).await?;
    let client = node.client()?;
    let run = at_work(&client).await?;
    // A busy machine is late now and then. A read that waits for something else is late each time.
    let mut times: Vec<Duration> = Vec::new();
    while !times.iter().any(|took| *took < Duration::from_millis(1_500)) {
        ensure!(times.len() < 5, "{times:?}");
        let began = Instant::now();
        let answer = client
            .get(&format!("/v1/runs/{}?wait=1", run.id))
            .await?
            .expect(200)?;
        times.push(began.elapsed());
        assert_eq!(answer.read::<sortie_api::Run>()?.status, RunStatus::Running);
        ensure!(
            times.iter().all(|took| *took >= Duration::from_secs(1)),
            "{times:?}"
        );
    }
    client.cancel(&run.id.to_string()).await?;
    Ok(())
}

#[tokio::test]
async fn a_wait_is_a_number_of_seconds_up_to_sixty() -> Checked {
    let node = node(Database::Sqlite).await?;
    let client = node.client()?;
    let run = client.create(&plain("x")).await?;
    for wait in ["-1", "61", "1.5", "x", ""] {
        let path = format!("/v1/runs/{}?wait={wait}", run.id);
        client.get(&path).await?.failure(400, "invalid_request")?;
    }
    client
        .get(&format!("/v1/runs/{}?wait=0", run.id))
        .await?
        .expect(200)?;
    let unknown = "/v1/runs/run_01hf7yat31e4ar9bcdefghjkmn?wait=60";
    client.get(unknown).await?.failure(404, "not_found")?;
    Ok(())
}
