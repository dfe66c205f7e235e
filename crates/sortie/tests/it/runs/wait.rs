//! `GET /v1/runs/{id}?wait=SECONDS` (`docs/API.md#waiting`): long polling.

use std::time::Instant;

use crate::prelude::*;

both_databases![
    a_read_that_waits_is_answered_when_the_run_ends,
    a_read_that_waits_sees_an_end_that_came_through_another_node,
];

async fn a_read_that_waits_is_answered_when_the_run_ends(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let run = client
        .create(&json!({"prompt": "```wait 300\n```\n```answer\ndone\n```\n"}))
        .await?;
    let began = Instant::now();
    let waited = client
        .get(&format!("/v1/runs/{}?wait=60", run.id))
        .expect(200)
        .await?;
    let waited: sortie_api::Run = waited.read()?;
    assert_ended!(waited, Succeeded, "done");
    assert!(began.elapsed() < Duration::from_secs(30));
    // A run that is final is answered at once.
    let again = client
        .get(&format!("/v1/runs/{}?wait=60", run.id))
        .expect(200)
        .await?;
    assert_eq!(again.read::<sortie_api::Run>()?, waited);
    Ok(())
}

async fn a_read_that_waits_sees_an_end_that_came_through_another_node(database: Database) -> Checked {
    let node = node(database).await?;
    // A file of SQLite belongs to one node, so other connections of that node take the role of other nodes.
    let beside = match database {
        Database::Sqlite => None,
        Database::Postgres => Some(node.beside().await?),
    };
    let client = node.client()?;
    let run = at_work(&client).await?;
    let other = beside.as_ref().unwrap_or(&node).client()?;
    let path = format!("/v1/runs/{}?wait=60", run.id);
    let (waited, cancelled) = tokio::join!(other.get(&path), async {
        // The answer does not depend on which comes first.
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
    let (_node, client) = started(Database::Sqlite).await?;
    let run = at_work(&client).await?;
    // A busy machine is sometimes late. A read that waits for something else is late each time.
    let mut times: Vec<Duration> = Vec::new();
    while !times.iter().any(|took| *took < Duration::from_millis(1_500)) {
        ensure!(times.len() < 5, "{times:?}");
        let began = Instant::now();
        let answer = client
            .get(&format!("/v1/runs/{}?wait=1", run.id))
            .expect(200)
            .await?;
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
    let (_node, client) = started(Database::Sqlite).await?;
    let run = client.create(&plain("x")).await?;
    for wait in ["-1", "61", "1.5", "x", ""] {
        let path = format!("/v1/runs/{}?wait={wait}", run.id);
        client.get(&path).refused("invalid_request").await?;
    }
    client
        .get(&format!("/v1/runs/{}?wait=0", run.id))
        .expect(200)
        .await?;
    let unknown = "/v1/runs/run_01hf7yat31e4ar9bcdefghjkmn?wait=60";
    client.get(unknown).refused("not_found").await?;
    Ok(())
}
