//! Two organizations on one engine see nothing of each other (`docs/API.md#organizations`).

use crate::prelude::*;

/// `docs/API.md#organizations`: a run of another organization is `not_found`.
#[tokio::test]
async fn a_run_of_another_organization_is_not_found() -> Checked {
    let (node, owner) = started(Database::Postgres).await?;
    let foreign = node.foreign_client(1).await?;
    let run = at_work(&owner).await?;
    for (method, rest) in [
        (Method::GET, ""),
        (Method::GET, "/events"),
        (Method::GET, "/definition"),
        (Method::POST, "/cancel"),
    ] {
        let path = format!("/v1/runs/{}{rest}", run.id);
        let answer = foreign.send(method, &path, Bytes::new()).await?;
        answer.refused("not_found").context(path)?;
    }
    assert_eq!(owner.run(&run.id.to_string()).await?.status, RunStatus::Running);
    ensure!(foreign.list("").await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn lists_keys_cursors_and_idempotency_keys_are_an_organizations_own() -> Checked {
    let node = node(Database::Postgres).await?;
    let (owner, foreign) = (node.client()?, node.foreign_client(2).await?);
    let me = foreign.get("/v1/me").json(200).await?;
    assert_ne!(
        me["organization_id"],
        owner.get("/v1/me").await?.json()?["organization_id"]
    );

    let keyed = |client: &sortie_testkit::Client| client.with_header("idempotency-key", "same");
    keyed(&owner).post("/v1/runs", &plain("mine")).expect(202).await?;
    keyed(&foreign)
        .post("/v1/runs", &plain("theirs"))
        .expect(202)
        .await?;
    owner.create(&plain("second")).await?;
    assert_eq!(
        (owner.list("").await?.len(), foreign.list("").await?.len()),
        (2, 1)
    );

    let cursor = owner.get("/v1/runs?limit=1").await?.json()?["next_cursor"].clone();
    let path = format!("/v1/runs?cursor={}", cursor.as_str().unwrap_or_default());
    owner.get(&path).expect(200).await?;
    foreign.get(&path).refused("invalid_request").await?;

    let created = owner
        .post("/v1/admin/keys", &json!({"name": "x"}))
        .json(201)
        .await?;
    let path = format!("/v1/admin/keys/{}", created["id"].as_str().unwrap_or_default());
    foreign.delete(&path).refused("not_found").await?;
    let listed = foreign.get("/v1/admin/keys").json(200).await?;
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    Ok(())
}

/// A run that takes some milliseconds: times have a resolution of one millisecond, and those of neighbours must differ.
fn unhurried(n: u32) -> serde_json::Value {
    plain(&format!("```wait 5\n```\n\n```answer\n{n}\n```\n"))
}

/// `docs/BUDGETS.md#how-many-at-once`: organizations take turns. An organization that floods the queue does not delay
/// another.
#[tokio::test]
async fn an_organization_that_floods_the_queue_does_not_hold_up_another() -> Checked {
    let options = sortie_testkit::NodeOptions::default().env("SORTIE_CONCURRENCY", "1");
    let node = crate::node_with(Database::Postgres, options).await?;
    let (owner, foreign) = (node.client()?, node.foreign_client(3).await?);
    let first = at_work(&owner).await?;
    let mut flood = Vec::new();
    for n in 0..20 {
        flood.push(owner.create_id(&unhurried(n)).await?);
    }
    let theirs = foreign.create_id(&unhurried(20)).await?;
    owner.cancel(&first.id.to_string()).await?;
    let (_, theirs) = foreign.finished(&theirs).await?;
    let (_, last) = owner.finished(flood.last().map_or("", String::as_str)).await?;
    let (_, second) = owner.finished(&flood[1]).await?;
    ensure!(
        theirs.started_at < second.started_at,
        "it waited behind the flood: {theirs:?} {second:?}"
    );
    ensure!(
        second.started_at < last.started_at,
        "first in, first out within one organization"
    );
    Ok(())
}
