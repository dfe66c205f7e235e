//! The command line: its output and its exit codes.

mod batches;
mod console;
mod following;
mod interrupts;
mod lists;
mod pseudo_terminal;
mod watch;

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use sortie_testkit::node::binary_command;

use crate::prelude::*;

both_databases![run_prints_the_answer_on_standard_output_and_the_transcript_beside_it];

/// The command line in a separate folder, without an engine.
pub(crate) fn alone(data: &Path, arguments: &[&str]) -> Command {
    let mut command = binary_command(Path::new(env!("CARGO_BIN_EXE_sortie")));
    command
        .args(arguments)
        .arg("--data-dir")
        .arg(data)
        .current_dir(data)
        .stdin(Stdio::null());
    command
}

async fn run_prints_the_answer_on_standard_output_and_the_transcript_beside_it(
    database: Database,
) -> Checked {
    let node = node(database).await?;
    let output = exits(node.sortie(&["run", "```sh\necho the answer\n```\n"]), 0)?;
    assert_eq!(text(&output.stdout), "the answer\n");
    let transcript = text(&output.stderr);
    for part in ["run_", "shell", "echo the answer", "the answer"] {
        ensure!(transcript.contains(part), "{part:?} is missing in:\n{transcript}");
    }
    ensure!(
        !transcript.contains('\u{1b}'),
        "colours without a terminal: {transcript:?}"
    );
    // The run went to the node that runs in the folder.
    assert_eq!(node.client()?.list("status=succeeded").await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn run_starts_an_engine_itself_where_none_runs() -> Checked {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("numbers.txt"), "1\n2\n39\n")?;
    let prompt = "```sh\nawk '{ s += $1 } END { print s }' numbers.txt\n```\n";
    let data = folder.path().join("data");
    let mut command = alone(&data, &["run", prompt, "--file", "numbers.txt"]);
    command.current_dir(folder.path());
    assert_eq!(text(&exits(command, 0)?.stdout), "42\n");
    // Again on what the first one left.
    let output = exits(alone(&data, &["run", "second"]), 0)?;
    assert_eq!(text(&output.stdout).trim_end(), "second");
    Ok(())
}

#[tokio::test]
async fn an_engine_of_one_command_leaves_the_runs_of_others_where_they_are() -> Checked {
    let options = NodeOptions::default().env("SORTIE_CONCURRENCY", "1");
    let (mut node, client) = started_with(Database::Sqlite, options).await?;
    let lost = at_work(&client).await?.id.to_string();
    let queued = client.create_id(&plain("later")).await?;
    node.kill()?;

    let output = exits(alone(node.data_dir(), &["run", "mine"]), 0)?;
    assert_eq!(text(&output.stdout).trim_end(), "mine");
    for (run, status) in [(&queued, "queued"), (&lost, "running")] {
        let output = exits(alone(node.data_dir(), &["runs", "get", run, "--json"]), 0)?;
        let run: Value = serde_json::from_slice(&output.stdout)?;
        assert_eq!(run["status"], status);
    }

    node.restart().await?;
    let mut stream = node.client()?.follow(&lost, None).await?;
    stream.until(|event| event.kind == "resumed").await?;
    // It has the only place again.
    node.client()?.cancel(&lost).await?;
    let (_, run) = node.client()?.finished(&queued).await?;
    assert_eq!(run.status, RunStatus::Succeeded);
    Ok(())
}

#[tokio::test]
async fn the_exit_code_tells_how_the_run_ended() -> Checked {
    let node = node(Database::Sqlite).await?;
    exits(node.sortie(&["run", "```sh\nexit 7\n```\n"]), 1)?;
    exits(node.sortie(&["run", "```wait 60000\n```\n", "--timeout", "1"]), 4)?;

    let mut command = node.sortie(&["run", "```wait 60000\n```\n"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let client = node.client()?;
    let id = loop {
        if let Some(run) = client.list("status=running").await?.first() {
            break run.id.to_string();
        }
    };
    client.cancel(&id).await?;
    let output = child.wait_with_output()?;
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a signal from outside, as a terminal sends it"
)]
pub(crate) fn kill(pid: i32, signal: &str) -> Command {
    let mut command = Command::new("kill");
    command.args([signal, &pid.to_string()]);
    command
}

#[tokio::test]
async fn a_wrong_request_or_engine_or_key_has_an_exit_code_of_its_own() -> Checked {
    let node = node(Database::Sqlite).await?;
    for (arguments, code, told) in [
        (&["run"][..], 64, "PROMPT"),
        (&["run", "x", "--colour"], 64, "--colour"),
        (&["run", "x", "--timeout", "0"], 64, "timeout_seconds"),
        (&["run", "x", "--model", "nothing"], 64, "model"),
        (&["run", "x", "--url", "http://127.0.0.1:1"], 69, "127.0.0.1:1"),
        (&["runs", "get", "run_01hf7yat31e4ar9bcdefghjkmn"], 64, "has no"),
    ] {
        let output = node.sortie(arguments).output()?;
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(told), "{arguments:?}: {error}");
        assert!(
            !error.contains("panicked") && text(&output.stdout).is_empty(),
            "{arguments:?}: {error}"
        );
    }
    fs::write(
        node.data_dir().join("admin.key"),
        sortie_api::secret::Secret::new("sts_", [3; 32]).expose(),
    )?;
    exits(node.sortie(&["run", "x"]), 77)?;
    Ok(())
}

/// `--json`: the event objects one a line, and the finished run last.
#[tokio::test]
async fn json_output_is_the_events_and_the_run() -> Checked {
    let node = node(Database::Sqlite).await?;
    let said = said(&node, &["run", "hello", "--json"])?;
    let lines: Vec<Value> = said.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let (run, events) = lines.split_last().context("nothing was printed")?;
    assert_has!(run, {"status": "succeeded", "output": "hello"});
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event["id"], n + 1);
    }
    assert_eq!(
        node.client()?
            .get(&format!("/v1/runs/{}", run["id"].as_str().unwrap_or_default()))
            .await?
            .json()?,
        *run
    );
    Ok(())
}

#[tokio::test]
async fn the_prompt_is_read_from_standard_input_and_a_run_can_be_left_to_the_engine() -> Checked {
    let node = node(Database::Sqlite).await?;
    let prompt = node.data_dir().join("prompt.md");
    fs::write(&prompt, "from a file\n")?;
    let mut command = node.sortie(&["run", "-"]);
    command.stdin(fs::File::open(&prompt)?);
    assert_eq!(text(&exits(command, 0)?.stdout).trim_end(), "from a file");

    let id = said(&node, &["run", "left alone", "--detach"])?.trim().to_owned();
    let (_, run) = node.client()?.finished(&id).await?;
    assert_eq!(run.output.as_deref(), Some("left alone"));
    Ok(())
}

/// `docs/RUNS.md#create`: text from another program or a file is the input of the run, and is never dropped.
#[tokio::test]
async fn text_on_standard_input_is_the_input_of_the_run() -> Checked {
    let node = node(Database::Sqlite).await?;
    let list = node.data_dir().join("list");
    fs::write(&list, "one\ntwo\n")?;
    let prints = "```sh\ncat input.json\n```\n";
    let mut command = node.sortie(&["run", prints]);
    command.stdin(fs::File::open(&list)?);
    let output = exits(command, 0)?;
    assert_eq!(text(&output.stdout).trim_end(), "\"one\\ntwo\\n\"");
    ensure!(text(&output.stderr).contains("the input of the run is standard input (8 bytes)"));

    let (reader, mut writer) = std::io::pipe()?;
    writer.write_all(b"piped")?;
    drop(writer);
    let mut command = node.sortie(&["run", prints]);
    command.stdin(reader);
    assert_eq!(text(&exits(command, 0)?.stdout).trim_end(), "\"piped\"");

    let mut command = node.sortie(&["run", "x", "--input", "1"]);
    command.stdin(fs::File::open(&list)?);
    ensure!(text(&exits(command, 64)?.stderr).contains("a run has one input"));
    Ok(())
}

#[tokio::test]
async fn runs_are_listed_shown_followed_and_cancelled() -> Checked {
    let (node, client) = started(Database::Sqlite).await?;
    let (_, done) = client.complete(&plain("kept")).await?;
    let working = at_work(&client).await?;
    let (done_id, working_id) = (done.id.to_string(), working.id.to_string());

    let table = said(&node, &["runs", "list"])?;
    assert_contains!(table, &done_id, &working_id, "succeeded");
    let filtered = said(&node, &["runs", "list", "--status", "running"])?;
    assert_contains!(filtered, &working_id);
    assert_lacks!(filtered, &done_id);
    ensure!(said(&node, &["runs", "get", &done_id])?.contains("kept"));
    assert_eq!(
        json_said(&node, &["runs", "get", &done_id, "--json"])?["output"],
        "kept"
    );
    assert_eq!(
        json_said(&node, &["runs", "definition", &done_id])?["request"]["prompt"],
        "kept"
    );
    let events = said(&node, &["runs", "events", &done_id, "--json"])?;
    ensure!(events.lines().count() > 4, "{events}");
    let rest = said(&node, &["runs", "events", &done_id, "--json", "--after", "3"])?;
    assert_eq!(rest.lines().count(), events.lines().count() - 3);

    exits(node.sortie(&["runs", "cancel", &working_id]), 0)?;
    assert_eq!(client.run(&working_id).await?.status, RunStatus::Cancelled);
    Ok(())
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked() -> Checked {
    let node = node(Database::Sqlite).await?;
    let created = json_said(&node, &["keys", "create", "deploy", "--json"])?;
    let (id, key) = (
        created["id"].as_str().unwrap_or_default(),
        created["key"].as_str().unwrap_or_default(),
    );
    let member = node.client()?.with_key(key);
    member.get("/v1/me").expect(200).await?;
    let listed = said(&node, &["keys", "list"])?;
    assert_contains!(listed, "deploy", id);
    assert_lacks!(listed, key);
    exits(node.sortie(&["keys", "revoke", id]), 0)?;
    member.get("/v1/me").refused("unauthorized").await?;
    Ok(())
}

/// For container runtimes: needs no key, no HTTP client, and starts no engine.
#[tokio::test]
async fn health_says_whether_the_engine_takes_runs() -> Checked {
    let mut node = node(Database::Sqlite).await?;
    let url = node.url()?;
    fs::remove_file(node.data_dir().join("admin.key"))?;
    for arguments in [&["health"][..], &["health", "--url", &url]] {
        let output = exits(alone(node.data_dir(), arguments), 0)?;
        assert_eq!(text(&output.stdout), format!("{url} takes runs\n"));
    }
    node.kill()?;
    for (arguments, told) in [
        (&["health"][..], "no engine serves"),
        (&["health", "--url", &url], "cannot reach"),
    ] {
        let output = exits(alone(node.data_dir(), arguments), 69)?;
        assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
    }
    Ok(())
}

#[tokio::test]
async fn budgets_are_set_listed_and_deleted() -> Checked {
    let node = node(Database::Sqlite).await?;
    let set = json_said(
        &node,
        &[
            "budgets",
            "set",
            "workflow:report",
            "$5",
            "--period",
            "month",
            "--json",
        ],
    )?;
    assert_has!(set, {"period": "month", "available_micros": 5_000_000});
    exits(
        node.sortie(&["budgets", "set", "organization", "$0.00001", "--period", "day"]),
        0,
    )?;
    let listed = said(&node, &["budgets", "list"])?;
    assert_contains!(listed, "workflow:report  month", "$5.00", "organization");
    let refused = exits(node.sortie(&["run", "x", "--no-shell"]), 79)?;
    assert_contains!(refused.stderr, "budget organization: ");
    exits(node.sortie(&["budgets", "delete", "organization"]), 0)?;
    exits(node.sortie(&["run", "x", "--no-shell"]), 0)?;
    exits(node.sortie(&["budgets", "delete", "organization"]), 64)?;
    exits(
        node.sortie(&["budgets", "set", "team:x", "$1", "--period", "day"]),
        64,
    )?;
    Ok(())
}

/// On two threads, because the commands block the one that waits for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_saved_listed_tested_and_deleted_without_a_credential_in_an_argument() -> Checked {
    let service = sortie_testkit::Service::start().await?;
    let node = node(Database::Sqlite).await?;
    let echo = format!("{}/echo", service.url());
    let file = node.data_dir().join("secret");
    fs::write(&file, "hush-hush\n")?;
    let mut command = node.sortie(&[
        "connections",
        "put",
        "crm",
        &echo,
        "--auth",
        "bearer",
        "--allow",
        "GET",
    ]);
    command.stdin(fs::File::open(&file)?);
    let saved = text(&exits(command, 0)?.stdout);
    assert_contains!(
        saved,
        "saved, not tested: run `sortie connections test crm`",
        "bearer"
    );
    assert_lacks!(saved, "hush", "ready");
    fs::write(&file, "type = \"mcp\"\nurl = \"http://127.0.0.1:9/mcp\"\n")?;
    let path = file.display().to_string();
    exits(node.sortie(&["connections", "put", "tools", "--file", &path]), 0)?;

    let listed = said(&node, &["connections", "list"])?;
    assert_contains!(listed, "crm", "tools", &echo);
    assert_eq!(
        json_said(&node, &["connections", "get", "crm", "--json"])?["allowed_methods"],
        json!(["GET"])
    );
    ensure!(said(&node, &["connections", "test", "crm"])?.starts_with("ready: "));
    assert_eq!(service.received()[0].headers["authorization"], "Bearer hush-hush");
    ensure!(text(&exits(node.sortie(&["connections", "test", "tools"]), 1)?.stdout).starts_with("error: "));
    ensure!(said(&node, &["connections", "catalog"])?.contains("github"));
    exits(node.sortie(&["connections", "delete", "crm"]), 0)?;
    for (arguments, told) in rows! {
        &["connections", "get", "crm"][..], "has no";
        &["connections", "authorize", "tools"], "does not use oauth";
        &["connections", "put", "x", "ftp://a.example"], "url: must be http or https";
    } {
        let output = exits(node.sortie(arguments), 64)?;
        ensure!(
            text(&output.stderr).contains(told),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
    Ok(())
}

/// The browser of a person could not return to an engine that ends with its command.
#[tokio::test]
async fn an_authorization_needs_an_engine_that_stays() -> Checked {
    let folder = tempfile::tempdir()?;
    exits(alone(folder.path(), &["run", "x"]), 0)?;
    let url = "https://mcp.example.com/mcp";
    exits(
        alone(
            folder.path(),
            &["connections", "put", "tools", url, "--mcp", "--auth", "oauth"],
        ),
        0,
    )?;
    let output = exits(alone(folder.path(), &["connections", "authorize", "tools"]), 64)?;
    assert_contains!(output.stderr, "an engine that stays");
    Ok(())
}

#[tokio::test]
async fn models_and_the_description_are_printed() -> Checked {
    let node = node(Database::Sqlite).await?;
    ensure!(said(&node, &["models"])?.contains("runbook"));
    let printed: Value = serde_json::from_str(&said(&node, &["openapi"])?)?;
    let served = node.client()?.get("/openapi.json").await?.json()?;
    assert_eq!(printed["paths"], served["paths"]);
    assert_eq!(printed["components"], served["components"]);
    Ok(())
}

#[tokio::test]
async fn doctor_says_what_the_machine_gives() -> Checked {
    let folder = tempfile::tempdir()?;
    let output = alone(folder.path(), &["doctor", "--json"]).output()?;
    let report: Value = serde_json::from_slice(&output.stdout).with_context(|| text(&output.stderr))?;
    ensure!(report.is_object() || report.is_array(), "{report}");
    let told = text(&alone(folder.path(), &["doctor"]).output()?.stdout);
    for part in ["sandbox", "database"] {
        ensure!(
            told.to_lowercase().contains(part),
            "{part} is missing in:\n{told}"
        );
    }
    Ok(())
}

#[test]
fn completions_are_printed_for_every_shell() -> Checked {
    let folder = tempfile::tempdir()?;
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = text(&exits(alone(folder.path(), &["completions", shell]), 0)?.stdout);
        ensure!(
            script.contains("sortie") && script.contains("SORTIE_COMPLETE"),
            "{shell}: {script}"
        );
    }
    exits(alone(folder.path(), &["completions", "tcsh"]), 64)?;
    Ok(())
}

/// Two processes on one data folder would both own one database.
#[tokio::test]
async fn a_second_node_on_the_same_data_folder_is_refused() -> Checked {
    let node = node(Database::Sqlite).await?;
    let output = node.sortie(&["serve", "--listen", "127.0.0.1:0"]).output()?;
    ensure!(!output.status.success(), "it started");
    assert_contains!(output.stderr, &node.data_dir().display().to_string());
    node.client()?.create(&waiting()).await?;
    Ok(())
}

/// `docs/DEPLOYMENT.md#settings-and-secrets`: the first key is readable by its owner only, and a restart makes no
/// other.
#[tokio::test]
async fn the_first_key_is_in_a_file_that_only_its_owner_reads() -> Checked {
    use std::os::unix::fs::PermissionsExt as _;
    let mut node = node(Database::Sqlite).await?;
    let path = node.data_dir().join("admin.key");
    assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
    let key = fs::read_to_string(&path)?;
    node.stop().await?;
    node.restart().await?;
    assert_eq!(fs::read_to_string(&path)?, key);
    assert_eq!(
        node.client()?
            .get("/v1/admin/keys")
            .await?
            .json()?
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    // The key was shown once, at the first start.
    assert_eq!(node.log().matches(key.trim()).count(), 1);
    Ok(())
}

#[tokio::test]
async fn artifacts_are_listed_printed_and_saved_below_one_folder() -> Checked {
    let node = node(Database::Sqlite).await?;
    let prompt = "```sh\nmkdir -p outputs/a && printf 'the report' > outputs/a/report.md && ln -s x outputs/link\n```\n";
    let output = exits(node.sortie(&["run", prompt]), 0)?;
    let transcript = text(&output.stderr);
    for part in ["saved outputs/a/report.md", "not saved: outputs/link: a link"] {
        ensure!(transcript.contains(part), "{part:?} is missing in:\n{transcript}");
    }
    let runs = node.client()?.list("").await?;
    let id = runs[0].id.to_string();
    let listed = said(&node, &["runs", "artifacts", &id])?;
    ensure!(listed.contains("a/report.md  10"), "{listed}");
    let json = json_said(&node, &["runs", "artifacts", &id, "--json"])?;
    assert_eq!(json, serde_json::to_value(&runs[0].artifacts)?);
    ensure!(said(&node, &["runs", "get", &id])?.contains("a/report.md (10 bytes)"));
    assert_eq!(
        said(&node, &["runs", "artifacts", &id, "a/report.md"])?,
        "the report"
    );
    let folder = node.data_dir().join("saved");
    let save = || node.sortie(&["runs", "artifacts", &id, "--download", &folder.to_string_lossy()]);
    exits(save(), 0)?;
    assert_eq!(std::fs::read_to_string(folder.join("a/report.md"))?, "the report");
    let again = exits(save(), 70)?;
    assert_contains!(again.stderr, "a/report.md cannot be saved");
    assert_eq!(std::fs::read_to_string(folder.join("a/report.md"))?, "the report");
    exits(node.sortie(&["runs", "artifacts", &id, "nothing.md"]), 64)?;
    Ok(())
}
