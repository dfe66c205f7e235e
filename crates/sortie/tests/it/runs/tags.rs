//! Tags (`docs/API.md#tags`): set at creation, shown, and filtered by.

use crate::prelude::*;

both_databases![runs_are_found_by_their_tags];

async fn runs_are_found_by_their_tags(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let tagged = async |tags: &[&str]| client.create(&json!({"prompt": "x", "tags": tags})).await;
    let first = tagged(&["nightly", "a&b c"]).await?;
    let plain = client.create(&json!({"prompt": "x"})).await?;
    let second = tagged(&["nightly"]).await?;
    let third = tagged(&["nightly", "ä"]).await?;
    assert_eq!((first.tags.len(), plain.tags.len()), (2, 0));
    let listed = async |query: &str| -> anyhow::Result<Vec<_>> {
        Ok(client.list(query).await?.iter().map(|run| run.id).collect())
    };
    assert_eq!(listed("tag=nightly").await?, [third.id, second.id, first.id]);
    assert_eq!(listed("tag=a%26b+c").await?, [first.id]);
    assert_eq!(listed("tag=%C3%A4").await?, [third.id]);
    assert_eq!(listed("tag=nightl").await?, []);
    for run in [&first, &second, &third] {
        client.finished(&run.id.to_string()).await?;
    }
    let path = "tag=nightly&status=succeeded";
    assert_eq!(listed(path).await?, [third.id, second.id, first.id]);
    assert_eq!(listed("tag=nightly&status=failed").await?, []);

    let page = client.get("/v1/runs?tag=nightly&limit=2").json(200).await?;
    let cursor = page["next_cursor"].as_str().unwrap_or_default();
    let rest = client
        .get(&format!("/v1/runs?tag=nightly&limit=2&cursor={cursor}"))
        .json(200)
        .await?;
    assert_eq!(rest["items"][0]["id"], json!(first.id));
    assert_eq!(
        (rest["items"].as_array().map(Vec::len), &rest["next_cursor"]),
        (Some(1), &json!(""))
    );
    for other in ["?limit=2", "?tag=other&limit=2"] {
        let path = format!("/v1/runs{other}&cursor={cursor}");
        client.get(&path).refused("invalid_request").await?;
    }
    assert_eq!(
        client.run(&first.id.to_string()).await?.tags,
        ["nightly", "a&b c"]
    );
    let definition = client
        .get(&format!("/v1/runs/{}/definition", first.id))
        .await?
        .json()?;
    assert_eq!(definition["request"]["tags"], json!(["nightly", "a&b c"]));
    Ok(())
}

#[tokio::test]
async fn tags_have_their_rules() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let many: Vec<String> = (0..17).map(|tag| tag.to_string()).collect();
    for (tags, field) in [
        (json!(many), "tags"),
        (json!([""]), "tags[0]"),
        (json!(["x", "y".repeat(65)]), "tags[1]"),
        (json!(["a\nb"]), "tags[0]"),
        (json!(["x", "y", "x"]), "tags[2]"),
    ] {
        let answer = client
            .post("/v1/runs", &json!({"prompt": "x", "tags": tags}))
            .await?;
        let failure = answer.refused("invalid_request")?;
        assert!(
            failure.error.starts_with(&format!("{field}: ")),
            "{}",
            failure.error
        );
    }
    let most: Vec<String> = (0..16).map(|tag| format!("{tag:0>64}")).collect();
    let run = client.create(&json!({"prompt": "x", "tags": most})).await?;
    assert_eq!(run.tags, most);
    let too_long = format!("/v1/runs?tag={}", "x".repeat(65));
    for path in ["/v1/runs?tag=", too_long.as_str()] {
        client.get(path).refused("invalid_request").await?;
    }
    Ok(())
}
