//! `Idempotency-Key` of `POST /v1/runs` (`docs/API.md#idempotency`).

use futures_util::future::try_join_all;

use crate::prelude::*;

both_databases![
    the_same_key_returns_the_same_run_and_creates_nothing,
    twenty_creates_at_once_with_one_key_make_one_run,
];

fn keyed(client: &Client, key: &str) -> Client {
    client.with_header("idempotency-key", key)
}

async fn the_same_key_returns_the_same_run_and_creates_nothing(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let once = keyed(&client, "order 7");
    let first = once.post("/v1/runs", &plain("one")).json(202).await?;
    let id = first["id"].as_str().unwrap_or_default().to_owned();
    let (_, finished) = client.finished(&id).await?;
    // Only the key is compared, not the body.
    for body in [plain("one"), plain("two"), waiting()] {
        let again: sortie_api::Run = once.post("/v1/runs", &body).read(200).await?;
        assert_eq!(again, finished, "the run is returned as it stands now");
    }
    keyed(&client, "order 8")
        .post("/v1/runs", &plain("one"))
        .expect(202)
        .await?;
    assert_eq!(client.list("").await?.len(), 2);
    Ok(())
}

async fn twenty_creates_at_once_with_one_key_make_one_run(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let once = keyed(&client, "4f0d9f2e-0a43-4f5e-9a52-6f2b3c1d7e80");
    let answers = (0..20).map(|n| {
        let once = once.clone();
        async move { once.post("/v1/runs", &plain(&format!("try {n}"))).await }
    });
    let answers = try_join_all(answers).await?;
    let created = answers.iter().filter(|answer| answer.status == 202).count();
    let found = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((created, found), (1, 19));
    let mut ids = Vec::new();
    for answer in &answers {
        ids.push(answer.json()?["id"].clone());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(client.list("").await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_key_has_1_to_200_characters() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    for key in ["", &"k".repeat(201)] {
        let refusal = keyed(&client, key)
            .post("/v1/runs", &plain("x"))
            .refused("invalid_request")
            .await?;
        assert_contains!(refusal.error.to_lowercase(), "idempotency-key");
    }
    assert!(client.list("").await?.is_empty());
    keyed(&client, &"k".repeat(200))
        .post("/v1/runs", &plain("x"))
        .expect(202)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_refused_request_does_not_use_its_key_up() -> Checked {
    let node = node(Database::Sqlite).await?;
    let once = keyed(&node.client()?, "again");
    once.post("/v1/runs", &serde_json::json!({}))
        .refused("invalid_request")
        .await?;
    once.post("/v1/runs", &plain("x")).expect(202).await?;
    Ok(())
}
