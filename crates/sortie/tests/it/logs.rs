//! The log in its machine-readable form: every line is one object, the lines of a request and of a run have its id, and
//! no line contains content.

use sortie_testkit::{CallbackReceiver, http::StatusCode};

use crate::prelude::*;

both_databases![
    every_line_is_an_object_and_says_whose_it_is,
    nothing_that_was_said_is_logged,
];

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Returns options for the most verbose log of Sortie's own modules.
pub(crate) fn talkative() -> NodeOptions {
    let modules = [
        "sortie", "api", "store", "blobs", "net", "sandbox", "agent", "models", "web", "connect", "engine",
        "server",
    ];
    let filter = modules.iter().fold("info".to_owned(), |filter, module| {
        let prefix = if *module == "sortie" { "" } else { "sortie_" };
        format!("{filter},{prefix}{module}=trace")
    });
    NodeOptions::default()
        .env("SORTIE_LOG_FORMAT", "json")
        .env("SORTIE_LOG_FILTER", &filter)
}

/// The lines of the log, without the key, which is on standard output.
fn lines(node: &Node) -> Result<Vec<Value>> {
    node.log()
        .lines()
        .filter(|line| !line.starts_with("sts_"))
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}

async fn every_line_is_an_object_and_says_whose_it_is(database: Database) -> Checked {
    let receiver = CallbackReceiver::start("shared").await?;
    receiver.answer_with([StatusCode::OK]);
    let mut node = node_with(database, talkative()).await?;
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let client = node
        .client()?
        .with_header("traceparent", &parent)
        .with_header("x-request-id", "req-of-the-test");
    let created = client.post("/v1/admin/keys", &json!({"name": "new"})).await?;
    created.expect(201)?;
    let request = json!({"prompt": "x", "callback": {"url": receiver.url(), "secret": "shared"}});
    let run = client.create_id(&request).await?;
    receiver.wait_for(&run, 1).await?;
    node.stop().await?;
    let lines = lines(&node)?;
    ensure!(lines.len() > 2, "{lines:?}");
    for line in &lines {
        for field in ["timestamp", "level", "target", "message"] {
            ensure!(line[field].is_string(), "{field} of {line}");
        }
        ensure!(
            line.as_object()
                .is_some_and(|line| line.values().all(|value| !value.is_object())),
            "{line}"
        );
    }
    let one = |message: &str| {
        let found = lines.iter().find(|line| line["message"] == message);
        found.with_context(|| format!("no line says {message}: {lines:#?}"))
    };
    let of_request = one("created an API key")?;
    assert_eq!(of_request["request_id"], "req-of-the-test");
    assert_eq!(of_request["trace_id"], TRACE);
    let of_run = one("the run has ended")?;
    assert_eq!(
        (&of_run["run.id"], &of_run["attempt"]),
        (&run.as_str().into(), &1.into())
    );
    ensure!(
        of_run["org.id"]
            .as_str()
            .is_some_and(|org| org.starts_with("org_")),
        "{of_run}"
    );
    assert_eq!(
        (&of_run["trace_id"], &of_run["run.status"]),
        (&TRACE.into(), &"succeeded".into())
    );
    let of_callback = one("callback")?;
    assert_eq!(
        (&of_callback["run.id"], &of_callback["trace_id"]),
        (&run.as_str().into(), &TRACE.into())
    );
    Ok(())
}

async fn nothing_that_was_said_is_logged(database: Database) -> Checked {
    const MARKS: [&str; 7] = [
        "mark-prompt-5a1f",
        "mark-input-77c3",
        "mark-file-e09b",
        "mark-output-41d8",
        "mark-answer-b6e2",
        "mark-secret-90af",
        "mark-name-3d74",
    ];
    let [prompt, input, file, output, answer, secret, name] = MARKS;
    let receiver = CallbackReceiver::start(secret).await?;
    receiver.answer_with([StatusCode::OK]);
    let (mut node, client) = started_with(database, talkative()).await?;
    let (head, tail) = output.split_at(6);
    let request = json!({
        "prompt": format!("{prompt}\n```sh\ncat n.txt; printf '%s%s\\n' {head} {tail}; mkdir -p outputs; echo x >outputs/{name}\n```\n```answer\n{answer}\n```\n"),
        "input": {"secret": input}, "files": [{"path": "n.txt", "content": file}],
        "callback": {"url": format!("{}?token={secret}", receiver.url()), "secret": secret},
    });
    let run = client.create_id(&request).await?;
    let (_, run) = client.finished(&run).await?;
    assert_ended!(run, Succeeded);
    receiver.wait_for(&run.id.to_string(), 1).await?;
    client.upload(name, name).await?;
    let paths = [
        format!("/v1/runs/{}/artifacts/{name}", run.id),
        format!("/v1/files/{name}/content"),
    ];
    for path in &paths {
        client.get(path).expect(200).await?;
    }
    // Requests that fail are logged with their path.
    let blobs = node.data_dir().join("blobs");
    std::fs::rename(&blobs, node.data_dir().join("elsewhere"))?;
    std::fs::write(&blobs, "in the way")?;
    for path in &paths {
        let status = client.get(path).await?.status;
        ensure!(status >= 500, "{path}: {status}");
    }
    // Refusals quote the request to its client only, never in the log.
    let refused = json!({"prompt": prompt, "model": answer});
    client
        .post("/v1/runs", &refused)
        .refused("invalid_request")
        .await?;
    let key = node.key().to_owned();
    node.stop().await?;
    let log: String = node
        .log()
        .lines()
        .filter(|line| !line.starts_with("sts_"))
        .collect();
    for told in ["the run has ended", "/artifacts/*", "/v1/files/*"] {
        ensure!(log.contains(told), "it is not talkative: no {told}");
    }
    for mark in MARKS.into_iter().chain([key.as_str()]) {
        ensure!(!log.contains(mark), "{mark} is in the log");
    }
    Ok(())
}
