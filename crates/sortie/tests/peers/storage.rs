//! The real binary with its content in a store that speaks S3, which `scripts/peers` installs.

use anyhow::{Result, ensure};
use serde_json::json;
use sortie_api::RunStatus;
use sortie_testkit::{
    Bytes, Database, Node, NodeOptions,
    http::{HeaderValue, Method},
    s3::{BUCKET, S3},
};

pub(crate) fn options(store: &S3) -> NodeOptions {
    let url = format!("s3://{BUCKET}/files");
    store.variables().iter().fold(
        NodeOptions::default().env("SORTIE_BLOB_URL", &url),
        |options, (name, value)| options.env(name, value),
    )
}

#[tokio::test]
async fn nodes_share_files_in_a_store_that_speaks_s3() -> Result<()> {
    let store = S3::start().await?;
    let binary = env!("CARGO_BIN_EXE_sortie");
    let node = Node::start_with(binary, Database::Postgres, options(&store)).await?;
    let content: Vec<u8> = (0..9_000_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    let file = node.client()?.upload("large.bin", &content).await?;
    let small = node.client()?.upload("small.txt", "small\n").await?;
    let keys = store.keys().await?;
    ensure!(
        keys.len() == 2 && keys.iter().all(|key| key.starts_with("files/org_")),
        "{keys:?}"
    );

    let other = node.beside().await?;
    let client = other.client()?;
    let whole = client.get("/v1/files/large.bin/content").await?.expect(200)?;
    ensure!(whole.body == content, "another content");
    let ranged = client
        .clone()
        .with_header("range", HeaderValue::from_static("bytes=8388600-8388619"));
    let part = ranged.get("/v1/files/large.bin/content").await?.expect(206)?;
    ensure!(part.body == content[8_388_600..8_388_620], "other bytes");

    let request = json!({
        "prompt": "```sh\nsha256sum < a; cat b\n```",
        "files": [{"path": "a", "file": file.id}, {"path": "b", "file": "small.txt"}],
    });
    let (_, run) = client.complete(&request).await?;
    assert_eq!(run.status, RunStatus::Succeeded, "{:?}", run.error);
    assert_eq!(run.output, Some(format!("{}  -\nsmall\n", file.sha256)));
    let path = format!("/v1/files/{}", small.id);
    client
        .send(Method::DELETE, &path, Bytes::new())
        .await?
        .expect(204)?;
    Ok(())
}

#[tokio::test]
async fn a_store_that_is_away_is_a_503_and_leaves_no_file() -> Result<()> {
    let store = S3::start().await?;
    let binary = env!("CARGO_BIN_EXE_sortie");
    let node = Node::start_with(binary, Database::Sqlite, options(&store)).await?;
    let client = node.client()?;
    client.upload("kept", "kept").await?;
    drop(store);
    let form = [("form-data; name=\"file\"; filename=\"lost\"", &b"lost"[..])];
    client.send_form(&form).await?.failure(503, "unavailable")?;
    client
        .get("/v1/files/kept/content")
        .await?
        .failure(503, "unavailable")?;
    let files = client.get("/v1/files").await?.json()?;
    assert_eq!(files.as_array().map(Vec::len), Some(1), "{files}");
    Ok(())
}
