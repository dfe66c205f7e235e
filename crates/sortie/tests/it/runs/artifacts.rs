//! `/v1/runs/{id}/artifacts`, and the files of a run's directory that are kept there.

use std::fs;

use sortie_api::{Event, Run};

use crate::prelude::*;

both_databases![
    what_a_run_leaves_under_outputs_is_there_when_it_is_done,
    an_artifact_becomes_a_file_without_being_copied,
    a_run_whose_time_is_over_goes_with_its_artifacts,
];

const REPORT: &str = "mkdir -p outputs/charts && printf 'the report' > outputs/report.md && \
                      printf '<svg/>' > outputs/charts/north.svg && printf no > elsewhere.txt";

fn paths(run: &Run) -> Vec<&str> {
    run.artifacts
        .iter()
        .map(|artifact| artifact.path.as_str())
        .collect()
}

/// Path and reason of each skipped file.
fn skipped(events: &[Event]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    of_kind(events, "artifact_skipped")
        .into_iter()
        .map(data)
        .map(|data| (text(&data["path"]), text(&data["reason"])))
        .collect()
}

#[tokio::test]
async fn a_file_is_kept_though_the_database_fails_for_a_moment() -> Checked {
    let node = node(Database::Postgres).await?;
    // Out of resources, for two inserts: values of a sequence are not rolled back.
    node.meddle(
        "CREATE SEQUENCE tries; \
         CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF nextval('tries') <= 2 THEN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END IF; \
         RETURN NEW; END $$; \
         CREATE TRIGGER refuse BEFORE INSERT ON blob FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    .await?;
    let (events, run) = node.client()?.complete(&commands(&[REPORT])).await?;
    assert_eq!((run.status, run.error.as_deref()), (RunStatus::Succeeded, None));
    assert_eq!(paths(&run), ["charts/north.svg", "report.md"]);
    assert!(skipped(&events).is_empty());
    let tries = node.rows("SELECT last_value FROM tries").await?;
    assert_eq!(tries, [json!({"last_value": 4})]);
    Ok(())
}

async fn what_a_run_leaves_under_outputs_is_there_when_it_is_done(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let (events, run) = client.complete(&commands(&[REPORT])).await?;
    assert_eq!((run.status, run.error.as_deref()), (RunStatus::Succeeded, None));
    assert_eq!(paths(&run), ["charts/north.svg", "report.md"]);
    let kinds = kinds(&events);
    ensure!(
        kinds.ends_with(&["artifact", "artifact", "result", "status"]),
        "{kinds:?}"
    );
    let told = of_kind(&events, "artifact");
    let report = serde_json::to_value(&run.artifacts[1])?;
    assert_eq!(data(told[1]), report);
    assert_has!(report, {"size": 10, "content_type": "text/markdown"});

    let id = run.id.to_string();
    assert_eq!(client.run(&id).await?, run);
    assert_eq!(client.list("").await?, std::slice::from_ref(&run));
    let listed = client
        .get(&format!("/v1/runs/{id}/artifacts"))
        .expect(200)
        .await?;
    assert_eq!(listed.json()?, serde_json::to_value(&run.artifacts)?);

    let address = format!("/v1/runs/{id}/artifacts/report.md");
    let whole = client.get(&address).expect(200).await?;
    assert_eq!(whole.text(), "the report");
    assert_eq!(whole.header("content-type")?, "text/markdown");
    assert_eq!(
        whole.header("etag")?,
        format!("{:?}", run.artifacts[1].sha256.to_string())
    );
    assert_eq!(whole.header("x-content-type-options")?, "nosniff");
    ensure!(whole.header("content-disposition")?.starts_with("attachment"));
    let range = client.with_header("range", "bytes=4-");
    assert_eq!(range.get(&address).expect(206).await?.text(), "report");
    for below in ["charts/north.svg", "charts%2Fnorth.svg"] {
        let answer = client.get(&format!("/v1/runs/{id}/artifacts/{below}")).await?;
        assert_eq!(answer.expect(200)?.text(), "<svg/>");
    }
    for wrong in [
        "elsewhere.txt",
        "charts",
        "charts/",
        "report.md/",
        "%00",
        "x/%2e%2e/report.md",
        "%ff",
    ] {
        let answer = client.get(&format!("/v1/runs/{id}/artifacts/{wrong}")).await?;
        answer.refused("not_found").with_context(|| wrong.to_owned())?;
    }
    Ok(())
}

async fn an_artifact_becomes_a_file_without_being_copied(database: Database) -> Checked {
    let (node, client) = started(database).await?;
    let (_, run) = client.complete(&commands(&[REPORT])).await?;
    let keep = |path: &str, name: &str| json!({"run": run.id, "path": path, "name": name});
    let contents = || count_files(&node.data_dir().join("blobs"));
    let before = contents()?;
    let file = client
        .post("/v1/files", &keep("report.md", "kept.md"))
        .json(201)
        .await?;
    assert_eq!((&file["name"], &file["size"]), (&json!("kept.md"), &json!(10)));
    assert_eq!(file["sha256"], json!(run.artifacts[1].sha256));
    assert_eq!(contents()?, before);
    let content = client.get("/v1/files/kept.md/content").expect(200).await?;
    assert_eq!(content.text(), "the report");
    client
        .post("/v1/files", &keep("report.md", "kept.md"))
        .refused("conflict")
        .await?;
    for (path, name) in [("nothing.md", "a"), ("report.md", "a/b"), ("report.md", "")] {
        client
            .post("/v1/files", &keep(path, name))
            .refused("invalid_request")
            .await?;
    }
    let more = json!({"run": run.id, "path": "report.md", "name": "b", "more": 1});
    client.post("/v1/files", &more).refused("invalid_request").await?;
    // A run reads it like any other file.
    let reads = json!({"prompt": "```sh\ncat in.md\n```\n", "files": [{"file": "kept.md", "path": "in.md"}]});
    let (_, reader) = client.complete(&reads).await?;
    assert_eq!(reader.output.as_deref().map(str::trim), Some("the report"));
    Ok(())
}

fn count_files(folder: &std::path::Path) -> anyhow::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        count += if entry.file_type()?.is_dir() {
            count_files(&entry.path())?
        } else {
            1
        };
    }
    Ok(count)
}

#[tokio::test]
async fn what_is_not_a_plain_file_with_a_plain_name_is_skipped_with_the_reason() -> Checked {
    let node = node(Database::Sqlite).await?;
    let hostile = "mkdir -p outputs/in && cd outputs && echo fine > in/fine.txt && ln -s /etc/passwd link && \
                   ln -s .. up && mkfifo pipe && printf x > $'new\\nline' && printf x > $'not\\xffutf8' && \
                   printf x > $'photo\\xe2\\x80\\xaegpj.exe' && \
                   truncate -s 200M sparse && mkdir -p $(printf 'd/%.0s' $(seq 60)) && ln in/fine.txt twice.txt && \
                   printf x > $(printf 'd/%.0s' $(seq 60))deep.txt; ls -a | wc -l";
    let (events, run) = node.client()?.complete(&commands(&[hostile])).await?;
    assert_eq!((run.status, run.error.as_deref()), (RunStatus::Succeeded, None));
    assert_eq!(paths(&run), ["in/fine.txt", "twice.txt"]);
    assert_eq!(run.artifacts[0].sha256, run.artifacts[1].sha256);
    let skipped = skipped(&events);
    let reason = |path: &str| {
        let found = skipped.iter().find(|(shown, _)| shown == path);
        found
            .map(|(_, reason)| reason.as_str())
            .with_context(|| format!("{path}: {skipped:?}"))
    };
    assert_eq!(reason("link")?, "a link, which is not followed");
    assert_eq!(reason("up")?, "a link, which is not followed");
    assert_eq!(reason("pipe")?, "not a regular file");
    assert_eq!(
        reason("new\\nline")?,
        "its path must not contain control characters"
    );
    assert_eq!(
        reason("photo\\u{202e}gpj.exe")?,
        "its path must not contain invisible characters or such that change the direction of text"
    );
    assert_eq!(reason("not\u{fffd}utf8")?, "its path is not UTF-8");
    ensure!(
        reason("sparse")?.contains("more than is left of 104857600"),
        "{skipped:?}"
    );
    ensure!(reason(".")?.contains("32 levels"), "{skipped:?}");
    assert_eq!(skipped.len(), 8, "{skipped:?}");
    Ok(())
}

#[tokio::test]
async fn a_folder_that_is_a_link_or_a_file_gives_nothing() -> Checked {
    let node = node(Database::Sqlite).await?;
    for (made, word) in [
        ("ln -s /etc outputs", "a link"),
        ("echo > outputs", "not a folder"),
    ] {
        let (events, run) = node.client()?.complete(&commands(&[made])).await?;
        assert_eq!((run.status, paths(&run).len()), (RunStatus::Succeeded, 0));
        let skipped = skipped(&events);
        ensure!(
            skipped.len() == 1 && skipped[0].0 == "." && skipped[0].1.contains(word),
            "{skipped:?}"
        );
    }
    Ok(())
}

/// `docs/FILES.md#artifacts`: at most 64 files and 100 MiB together.
#[tokio::test]
async fn what_is_over_the_limits_is_not_kept_and_an_event_says_so() -> Checked {
    let node = node(Database::Sqlite).await?;
    let many = "mkdir outputs && cd outputs && for n in $(seq 101 200); do echo $n > $n.txt; done && \
                for n in $(seq 300 330); do ln -s x $n; done";
    let (events, run) = node.client()?.complete(&commands(&[many])).await?;
    assert_eq!(run.artifacts.len(), 64);
    assert_eq!(
        (run.artifacts[0].path.as_str(), run.artifacts[63].path.as_str()),
        ("101.txt", "164.txt")
    );
    let all = skipped(&events);
    assert_eq!(all.len(), 65);
    assert_eq!(all[0], ("165.txt".to_owned(), "more than 64 files".to_owned()));
    assert_eq!(all[64], (".".to_owned(), "3 more were not kept".to_owned()));

    let large = "mkdir outputs && cd outputs && truncate -s 60M a && truncate -s 60M b && truncate -s 40M c && echo > d";
    let (events, run) = node.client()?.complete(&commands(&[large])).await?;
    assert_eq!(paths(&run), ["a", "c"]);
    let all = skipped(&events);
    assert_eq!(
        all.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
        ["b", "d"]
    );
    Ok(())
}

#[tokio::test]
async fn a_run_that_fails_or_times_out_keeps_them_and_a_cancelled_one_does_not() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let (_, failed) = client.complete(&commands(&[REPORT, "exit 3"])).await?;
    assert_eq!((failed.status, failed.artifacts.len()), (RunStatus::Failed, 2));
    let mut slow = commands(&[REPORT, "sleep 600"]);
    // By then the report exists, even on a busy host.
    slow["timeout_seconds"] = json!(10);
    let (_, late) = client.complete(&slow).await?;
    assert_eq!((late.status, late.artifacts.len()), (RunStatus::TimedOut, 2));
    let running = client.create(&commands(&[REPORT, "sleep 600"])).await?;
    let id = running.id.to_string();
    let mut stream = client.follow(&id, None).await?;
    stream.until(|event| event.kind == "tool_end").await?;
    client.cancel(&id).await?;
    assert_eq!(settled(&client, &id).await?.artifacts, []);
    Ok(())
}

#[tokio::test]
async fn a_run_that_is_not_final_has_none_yet() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let run = at_work(&client).await?;
    let listed = client
        .get(&format!("/v1/runs/{}/artifacts", run.id))
        .expect(200)
        .await?;
    assert_eq!(listed.json()?, json!([]));
    client
        .get(&format!("/v1/runs/{}/artifacts/a", run.id))
        .refused("not_found")
        .await?;
    Ok(())
}

/// `docs/FILES.md#while-the-storage-is-away`: a run waits in `running` while the storage is away, and loses none of its
/// files.
#[tokio::test]
async fn what_a_run_made_is_stored_once_the_storage_is_back() -> Checked {
    let node = node(Database::Sqlite).await?;
    let (blobs, elsewhere) = (node.data_dir().join("blobs"), node.data_dir().join("elsewhere"));
    fs::rename(&blobs, &elsewhere)?;
    fs::write(&blobs, "in the way")?;
    let client = node.client()?;
    let id = client.create_id(&commands(&[REPORT])).await?;
    let look = async || client.get("/readyz").json(200).await;
    let is_away = |state: &Value| state["degraded"] == json!(["storage"]);
    until("the storage to be away", look, is_away).await?;
    assert_eq!(client.run(&id).await?.status, RunStatus::Running);
    fs::remove_file(&blobs)?;
    fs::rename(&elsewhere, &blobs)?;
    let (events, run) = client.finished(&id).await?;
    assert_eq!((run.status, run.artifacts.len()), (RunStatus::Succeeded, 2));
    assert!(skipped(&events).is_empty());
    Ok(())
}

async fn a_run_whose_time_is_over_goes_with_its_artifacts(database: Database) -> Checked {
    let mut node = node(database).await?;
    let (_, old) = node.client()?.complete(&commands(&[REPORT])).await?;
    let (_, young) = node.client()?.complete(&commands(&[REPORT])).await?;
    node.stop().await?;
    node.age(&old.id, Duration::from_hours(31 * 24)).await?;
    node.restart().await?;
    let client = node.client()?;
    gone(&client, &format!("/v1/runs/{}", old.id)).await?;
    for below in ["events", "definition", "artifacts", "artifacts/report.md"] {
        let answer = client.get(&format!("/v1/runs/{}/{below}", old.id)).await?;
        answer.refused("not_found").context(below)?;
    }
    assert_eq!(client.list("").await?, [young]);
    Ok(())
}

/// Waits until the retention job has processed it.
async fn gone(client: &Client, path: &str) -> Checked {
    let look = async || client.get(path).await;
    until("the deletion", look, |answer| answer.status != 200).await?;
    Ok(())
}
