//! `/v1/files` of a whole node: the files of a run, restarts, and `sortie files`.

use std::fs;

use sortie_api::File;

use crate::prelude::*;

both_databases![
    a_run_reads_saved_files_as_they_were_when_it_was_made,
    a_run_whose_file_is_gone_before_it_starts_fails,
    files_outlive_a_kill
];

fn content(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| u8::try_from(at * 7 % 251).unwrap_or(0))
        .collect()
}

async fn a_run_reads_saved_files_as_they_were_when_it_was_made(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let file = client.upload("data.bin", content(3_000_000)).await?;
    let mut request = commands(&[
        "sha256sum < in/data.bin; sha256sum < again.bin; cat note.txt",
        "echo changed > in/data.bin && cat in/data.bin",
        "test \"$(sha256sum < again.bin)\" != \"$(sha256sum < in/data.bin)\" && sha256sum < again.bin",
    ]);
    request["files"] = json!([
        {"file": "data.bin", "path": "in/data.bin"},
        {"file": file.id, "path": "again.bin"},
        {"path": "note.txt", "content": "inline\n"}
    ]);
    let (_, run) = client.complete(&request).await?;
    let sum = format!("{}  -\n", file.sha256);
    assert_eq!(run.output.as_deref(), Some(sum.as_str()), "{:?}", run.error);
    let definition = client.get(&format!("/v1/runs/{}/definition", run.id)).await?;
    let files = definition.json()?["request"]["files"].clone();
    assert_eq!(
        (&files[0]["file"], &files[1]["file"]),
        (&json!(file.id), &json!(file.id))
    );

    // A run writes to a copy: the file is unchanged, also for a run that uses its new name.
    let body = Bytes::from(json!({"name": "other.bin"}).to_string());
    client
        .send(Method::PATCH, "/v1/files/data.bin", body)
        .expect(200)
        .await?;
    let mut request = commands(&["sha256sum < x"]);
    request["files"] = json!([{"file": "other.bin", "path": "x"}]);
    assert_eq!(client.complete(&request).await?.1.output, Some(sum));

    request["files"] = json!([{"file": "data.bin", "path": "x"}]);
    let refused = client.post("/v1/runs", &request).await?;
    let refusal = refused.refused("invalid_request")?;
    assert_eq!(refusal.error, "files[0].file: no file \"data.bin\"");
    Ok(())
}

#[tokio::test]
async fn a_run_is_given_no_file_of_another_organization() -> Checked {
    let node = node(Database::Postgres).await?;
    let file = node.client()?.upload("ours", "ours").await?;
    let foreign = node.foreign_client(1).await?;
    for name in [file.id.to_string(), "ours".to_owned()] {
        let request = json!({"prompt": "x", "files": [{"file": name, "path": "x"}]});
        foreign
            .post("/v1/runs", &request)
            .refused("invalid_request")
            .await?;
    }
    Ok(())
}

async fn a_run_whose_file_is_gone_before_it_starts_fails(database: Database) -> Checked {
    let options = NodeOptions::default().env("SORTIE_CONCURRENCY", "1");
    let (_node, client) = started_with(database, options).await?;
    let first = at_work(&client).await?;
    let file = client.upload("passing", "x").await?;
    let mut request = commands(&["cat x"]);
    request["files"] = json!([{"file": "passing", "path": "x"}]);
    let run = client.create(&request).await?;
    client.delete("/v1/files/passing").expect(204).await?;
    client.cancel(&first.id.to_string()).await?;
    let (_, run) = client.finished(&run.id.to_string()).await?;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(run.error, Some(format!("the file {} is gone", file.id)));
    Ok(())
}

async fn files_outlive_a_kill(database: Database) -> Checked {
    let mut node = node(database).await?;
    let content = content(700_000);
    let file = node.client()?.upload("kept", &content).await?;
    // The next process removes the files that the killed one was staging.
    fs::write(node.data_dir().join("blobs/staging/left"), "half an upload")?;
    node.kill()?;
    node.restart().await?;
    let client = node.client()?;
    let found: File = client.get("/v1/files/kept").read(200).await?;
    assert_eq!(found, file);
    let answer = client.get("/v1/files/kept/content").expect(200).await?;
    ensure!(answer.body == content, "the content is another one");
    assert_eq!(fs::read_dir(node.data_dir().join("blobs/staging"))?.count(), 0);
    Ok(())
}

#[tokio::test]
async fn the_limit_of_a_file_is_a_setting() -> Checked {
    let options = NodeOptions::default().env("SORTIE_MAX_FILE_BYTES", "1000");
    let (_node, client) = started_with(Database::Sqlite, options).await?;
    client.upload("fits", content(1_000)).await?;
    let head = "form-data; name=\"file\"; filename=\"more\"";
    client
        .send_form(&[(head, &content(1_001))])
        .refused("payload_too_large")
        .await?;
    Ok(())
}

#[tokio::test]
async fn the_command_line_saves_lists_fetches_renames_and_deletes_files() -> Checked {
    let node = node(Database::Sqlite).await?;
    let local = tempfile::tempdir()?;
    let (source, target) = (local.path().join("a b.bin"), local.path().join("copy"));
    let content = content(600_000);
    fs::write(&source, &content)?;
    let (source, copy) = (
        source.to_str().context("a path")?,
        target.to_str().context("a path")?,
    );
    let saved = json_said(&node, &["files", "upload", source, "--json"])?;
    assert_has!(saved, {"name": "a b.bin", "size": 600_000});
    exits(node.sortie(&["files", "upload", source]), 64)?;
    said(&node, &["files", "upload", source, "--name", "ü?.bin"])?;
    let listed = said(&node, &["files", "list"])?;
    assert_contains!(listed, "a b.bin", "ü?.bin");
    assert_eq!(json_said(&node, &["files", "get", "a b.bin", "--json"])?, saved);
    said(&node, &["files", "rename", "ü?.bin", "plain.bin"])?;
    exits(
        node.sortie(&["files", "download", "plain.bin", "--output", copy]),
        0,
    )?;
    ensure!(fs::read(&target)? == content, "another content");
    let shown = exits(node.sortie(&["files", "download", "a b.bin", "-o", "-"]), 0)?;
    ensure!(shown.stdout == content, "another content");
    said(&node, &["files", "delete", "plain.bin"])?;
    exits(node.sortie(&["files", "get", "plain.bin"]), 64)?;
    exits(node.sortie(&["files", "get", ".."]), 64)?;
    assert_eq!(json_said(&node, &["files", "list", "--json"])?, json!([saved]));
    Ok(())
}

#[tokio::test]
async fn a_run_of_the_command_line_takes_files_of_every_kind_and_leaves_none_behind() -> Checked {
    let node = node(Database::Sqlite).await?;
    let local = tempfile::tempdir()?;
    let binary = local.path().join("x.bin");
    fs::write(&binary, content(500_000))?;
    let file = format!("{}=in/x.bin", binary.display());
    let run = exits(
        node.sortie(&["run", "```sh\nwc -c < in/x.bin\n```\n", "--file", &file]),
        0,
    )?;
    assert_eq!(text(&run.stdout).trim(), "500000");
    assert_eq!(json_said(&node, &["files", "list", "--json"])?, json!([]));
    Ok(())
}

#[tokio::test]
async fn doctor_writes_reads_and_deletes_where_files_live() -> Checked {
    let mut node = node(Database::Sqlite).await?;
    node.stop().await?;
    let report = json_said(&node, &["doctor", "--json"]).or_else(|_| {
        let output = node.sortie(&["doctor", "--json"]).output()?;
        Ok::<_, anyhow::Error>(serde_json::from_slice(&output.stdout)?)
    })?;
    let checks = report["checks"].as_array().context("checks")?;
    let storage = checks
        .iter()
        .find(|check| check["name"] == "storage")
        .context("a check of the storage")?;
    assert_eq!(storage["verdict"], "ok", "{storage}");
    Ok(())
}
