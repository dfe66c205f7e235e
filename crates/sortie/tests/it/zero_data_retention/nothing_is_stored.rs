//! Markers planted in all content: the test searches everything that could keep them: the database and its log, the
//! files of the data folder and of the temporary folder, the log at its most verbose, and all files that the process
//! has open. It searches after the run, and after a kill in the middle of it.

use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::swept;
use crate::{connections::calls, prelude::*};

both_databases![
    nothing_of_a_run_is_anywhere_after_it,
    nothing_of_a_run_is_anywhere_after_a_kill_in_the_middle_of_it,
];

/// Prompt, input, file, tool output, answer, credential, path of a call, instructions.
const MARKERS: [&str; 8] = [
    "mark-prompt-5a1f",
    "mark-input-77c3",
    "mark-file-e09b",
    "mark-output-41d8",
    "mark-answer-b6e2",
    "mark-token-3c90af",
    "mark-call-9d44",
    "mark-instructions-2b7c",
];

/// A run with a marker in everything, which then continues as `rest` says.
fn marked(service: &Service, rest: &str) -> Value {
    let [prompt, input, file, output, answer, token, call, instructions] = MARKERS;
    // The output is put together by the command, so that the prompt does not hold it.
    let (head, tail) = output.split_at(6);
    let connections = json!({"crm": {
        "type": "http", "url": format!("{}/echo", service.url()), "auth": {"type": "bearer", "token": token},
    }});
    let request = calls(
        &[(
            "crm__request",
            json!({"method": "GET", "path": format!("/{call}")}),
        )],
        &connections,
    );
    let calls = request["prompt"].as_str().unwrap_or_default().to_owned();
    let mut request = request;
    request["prompt"] = json!(format!(
        "{prompt}\n```sh\ncat notes.txt; printf '%s%s\\n' {head} {tail} | tee kept.txt\n```\n{calls}\n{rest}\n```answer\n{answer}\n```\n"
    ));
    request["instructions"] = json!(instructions);
    request["input"] = json!({"secret": input, "padding": "x".repeat(10_000)});
    request["files"] = json!([{"path": "notes.txt", "content": format!("{file}\n")}]);
    request["timeout_seconds"] = json!(900);
    request["shell"] = json!(true);
    request["zero_data_retention"] = json!(true);
    request
}

struct Planted {
    node: Node,
    service: Service,
    temporary: TempDir,
}

impl Planted {
    async fn start(database: Database) -> Result<Self> {
        let temporary = tempfile::tempdir()?;
        let options = NodeOptions::default()
            .env("SORTIE_LOG_FILTER", "trace")
            .env("TMPDIR", &temporary.path().display().to_string());
        Ok(Self {
            node: node_with(database, options).await?,
            service: Service::start().await?,
            temporary,
        })
    }

    /// Checks that no marker is in anything that the process writes or that outlives it.
    async fn look(&self) -> Checked {
        let mut looked = Vec::new();
        files(self.node.data_dir(), &mut looked)?;
        ensure!(!looked.is_empty(), "the data folder is empty");
        files(self.temporary.path(), &mut looked)?;
        open_files(self.node.pid().ok(), &mut looked)?;
        looked.extend(self.node.dump().await?);
        let log = self.node.log();
        ensure!(log.contains("TRACE"), "the log is at its most talkative");
        looked.push(("the log".to_owned(), log.into_bytes()));
        for marker in MARKERS {
            for (place, bytes) in &looked {
                let is_there = bytes.windows(marker.len()).any(|part| part == marker.as_bytes());
                ensure!(!is_there, "{marker} is in {place}");
            }
        }
        Ok(())
    }

    /// Returns the folder in which the node's runs work in memory.
    fn memory(&self) -> Result<PathBuf> {
        self.node.memory_dir().context("the node has a name")
    }
}

/// Returns the value that was read; empty for a file that is gone by then.
fn unless_gone<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Collects the files below a folder, with their bytes. The node makes and deletes some during the walk.
fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    for entry in unless_gone(std::fs::read_dir(folder))?.into_iter().flatten() {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, found)?;
        } else if path.is_file()
            && let Some(bytes) = unless_gone(std::fs::read(&path))?
        {
            found.push((path.display().to_string(), bytes));
        }
    }
    Ok(())
}

/// The regular files that a process has open, including unlinked ones, except those in memory.
fn open_files(pid: Option<u32>, found: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let Some(pid) = pid else { return Ok(()) };
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        let path = entry?.path();
        let Ok(target) = std::fs::read_link(&path) else {
            continue;
        };
        let is_in_memory =
            target.starts_with("/dev") || target.starts_with("/proc") || target.starts_with("/sys");
        if is_in_memory || !path.is_file() {
            continue;
        }
        match std::fs::read(&path) {
            Ok(bytes) => found.push((format!("open: {}", target.display()), bytes)),
            // The descriptor was closed, and its number may be in use for another file by now.
            Err(_) if std::fs::read_link(&path).ok().as_ref() != Some(&target) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Checks that every marker was really used: in the stream, or sent to the service.
async fn told(client: &Client, service: &Service, id: &str) -> Result<String> {
    let (events, run) = client.finished(id).await?;
    ensure!(run.status == RunStatus::Succeeded, "{run:?}");
    let mut text = serde_json::to_string(&events)?;
    write!(text, "{:?}", service.received())?;
    Ok(text)
}

async fn nothing_of_a_run_is_anywhere_after_it(database: Database) -> Checked {
    let mut planted = Planted::start(database).await?;
    let client = planted.node.client()?;
    let id = client.create_id(&marked(&planted.service, "")).await?;
    let text = told(&client, &planted.service, &id).await?;
    for marker in MARKERS[2..7].iter() {
        ensure!(text.contains(marker), "{marker} was never used");
    }
    // While the output is held, after it was read, and after a kill.
    planted.look().await?;
    let run = client.run(&id).await?;
    ensure!(run.output.is_some_and(|output| output.contains(MARKERS[4])));
    planted.look().await?;
    // A failure may quote its cause.
    let mut failing = marked(&planted.service, "");
    failing["output_schema"] = json!({"type": "object", "required": [MARKERS[1]]});
    let (_, failed) = client.complete(&failing).await?;
    assert_eq!(failed.status, RunStatus::Failed);
    ensure!(
        failed
            .error
            .as_deref()
            .is_some_and(|error| !error.contains("is not stored")),
        "{failed:?}"
    );
    planted.look().await?;
    planted.node.kill()?;
    planted.look().await?;
    planted.node.restart().await?;
    let failed = planted.node.client()?.run(&failed.id.to_string()).await?;
    ensure!(failed.error.is_some_and(|error| error.contains("is not stored")));
    planted.node.stop().await?;
    ensure!(
        !planted.memory()?.exists(),
        "the folder in memory goes with the node"
    );
    Ok(())
}

async fn nothing_of_a_run_is_anywhere_after_a_kill_in_the_middle_of_it(database: Database) -> Checked {
    let mut planted = Planted::start(database).await?;
    let client = planted.node.client()?;
    let id = client
        .create_id(&marked(&planted.service, "```wait 600000\n```\n"))
        .await?;
    let mut stream = client.follow(&id, None).await?;
    stream
        .until(|event| event.kind == "tool_end" && data(event)["tool"] == "crm__request")
        .await?;
    planted.look().await?;
    // It works in memory.
    let mut in_memory = Vec::new();
    files(&planted.memory()?, &mut in_memory)?;
    let is_marked = |bytes: &Vec<u8>| {
        bytes
            .windows(MARKERS[3].len())
            .any(|part| part == MARKERS[3].as_bytes())
    };
    ensure!(
        in_memory.iter().any(|(_, bytes)| is_marked(bytes)),
        "nothing was written in memory"
    );
    planted.node.kill()?;
    planted.look().await?;
    planted.node.restart().await?;
    let run = swept(&planted.node.client()?, &id).await?;
    assert_eq!(run.status, RunStatus::Interrupted);
    planted.look().await?;
    let mut left = Vec::new();
    files(&planted.memory()?, &mut left)?;
    ensure!(left.is_empty(), "{left:?}");
    planted.node.stop().await
}
