//! Metadata and instructions of runs (`docs/RUNS.md#instructions-and-metadata`).

use crate::prelude::*;

both_databases![metadata_is_returned_merged_filtered_by_and_kept_for_a_replay];

async fn metadata_is_returned_merged_filtered_by_and_kept_for_a_replay(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let workflow = json!({
        "prompt": "```answer\nyes\n```", "model": "runbook", "instructions": "You are a clerk.",
        "metadata": {"team": "sales", "customer": "none"},
    });
    client.put("/v1/workflows/daily", &workflow).expect(201).await?;
    let (_, first) = client
        .complete(&json!({"workflow": "daily", "metadata": {"customer": "c & 1"}}))
        .await?;
    let merged = json!({"team": "sales", "customer": "c & 1"});
    assert_eq!(serde_json::to_value(&first.metadata)?, merged);
    let plain = client.create(&json!({"prompt": "x", "model": "runbook"})).await?;
    assert!(plain.metadata.is_empty());

    let listed = async |query: &str| -> Result<Vec<_>> {
        Ok(client.list(query).await?.iter().map(|run| run.id).collect())
    };
    assert_eq!(listed("metadata.customer=c+%26+1").await?, [first.id]);
    assert_eq!(
        listed("metadata.customer=c%20%26%201&metadata.team=sales&status=succeeded").await?,
        [first.id]
    );
    assert_eq!(listed("metadata.customer=none").await?, []);
    assert_eq!(
        listed("metadata.customer=c+%26+1&metadata.team=support").await?,
        []
    );

    // A replay sends the definition that the run used.
    let path = format!("/v1/runs/{}/definition", first.id);
    let mut used = client.get(&path).json(200).await?["request"].clone();
    assert_eq!(used["instructions"], "You are a clerk.");
    assert_eq!(used["metadata"], merged);
    used["replay_of"] = json!(first.id);
    let again = client.create(&used).await?;
    assert_eq!(again.metadata, first.metadata);
    assert_eq!(listed("metadata.customer=c+%26+1").await?, [again.id, first.id]);
    Ok(())
}
