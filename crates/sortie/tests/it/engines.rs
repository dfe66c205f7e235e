//! The choice of an engine, and the commands around it: `init`, `login`, `contexts`, `api`, `models`, completion
//! (`docs/ENGINES.md`).

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use axum::{
    Router,
    http::{HeaderMap, StatusCode},
    routing::get,
};
use sortie_testkit::{node::binary_command, serve::Serving};
use tempfile::TempDir;

use crate::{prelude::*, terminal::at_a_terminal};

/// A user with folders for settings and state, in a working folder.
struct User {
    root: TempDir,
}

impl User {
    fn new() -> Result<Self> {
        let root = tempfile::tempdir()?;
        fs::create_dir(root.path().join("project"))?;
        Ok(Self { root })
    }

    /// The working folder.
    fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// A path below the folder of the user.
    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    /// A command of the user with an empty standard input.
    fn sortie(&self, arguments: &[&str]) -> Command {
        let mut command = binary_command(Path::new(env!("CARGO_BIN_EXE_sortie")));
        command
            .args(arguments)
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_STATE_HOME", self.path("state"))
            .current_dir(self.project())
            .stdin(Stdio::null());
        command
    }

    /// Saves a context for a node.
    fn logs_in(&self, name: &str, url: &str, key: &str, code: i32) -> Result<String> {
        let (reader, mut writer) = std::io::pipe()?;
        writer.write_all(key.as_bytes())?;
        drop(writer);
        let mut command = self.sortie(&["login", "--name", name, url]);
        command.stdin(reader);
        Ok(text(&exits(command, code)?.stderr))
    }
}

fn mode(path: &Path) -> Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

/// A command in any folder leaves nothing there, unless the folder is a project.
#[test]
fn a_run_outside_a_project_uses_the_state_folder_of_the_user() -> Checked {
    let user = User::new()?;
    let run = ["run", "--model", "runbook", "hello", "--no-shell"];
    let told = text(&exits(user.sortie(&run), 0)?.stderr);
    assert_contains!(told, "made the data folder", "state/sortie");
    assert_eq!(fs::read_dir(user.project())?.count(), 0);
    ensure!(user.path("state/sortie/sortie.db").exists());
    assert_eq!(mode(&user.path("state/sortie"))?, 0o700);
    // A folder `data` of the project itself is not touched.
    fs::create_dir(user.project().join("data"))?;
    fs::write(user.project().join("data/orders.csv"), "id\n")?;
    exits(user.sortie(&run), 0)?;
    assert_eq!(fs::read_dir(user.project().join("data"))?.count(), 1);
    let listed = text(&exits(user.sortie(&["runs", "list"]), 0)?.stdout);
    assert_eq!(listed.matches("succeeded").count(), 2, "{listed}");
    Ok(())
}

#[test]
fn a_project_has_its_own_data_folder() -> Checked {
    let run = ["run", "--model", "runbook", "hello", "--no-shell"];
    let with_file = User::new()?;
    fs::write(with_file.project().join("sortie.toml"), "concurrency = 3\n")?;
    exits(with_file.sortie(&run), 0)?;
    ensure!(with_file.project().join("data/sortie.db").exists());
    ensure!(!with_file.path("state").exists());

    let used = User::new()?;
    let mut first = used.sortie(&run);
    first.args(["--data-dir", "data"]);
    exits(first, 0)?;
    exits(used.sortie(&run), 0)?;
    ensure!(!used.path("state").exists());

    let elsewhere = User::new()?;
    let mut command = elsewhere.sortie(&run);
    command.env("SORTIE_DATA_DIR", elsewhere.path("mine"));
    exits(command, 0)?;
    ensure!(elsewhere.path("mine/sortie.db").exists() && !elsewhere.path("state").exists());
    Ok(())
}

#[tokio::test]
async fn a_saved_context_is_the_engine_of_later_commands() -> Checked {
    let node = node(Database::Sqlite).await?;
    let (user, url) = (User::new()?, node.url()?);
    let told = user.logs_in("local", &url, node.key(), 0)?;
    assert_contains!(told, "accepts the key", "role admin");
    let file = user.path("config/sortie/contexts.toml");
    assert_eq!(mode(&file)?, 0o600);
    ensure!(fs::read_to_string(&file)?.contains(node.key()));

    node.client()?.complete(&plain("kept")).await?;
    let list = ["runs", "list"];
    ensure!(text(&exits(user.sortie(&list), 0)?.stdout).contains("kept"));
    let listed = text(&exits(user.sortie(&["contexts", "list"]), 0)?.stdout);
    assert_contains!(listed, "*", "local", &url);
    assert_lacks!(listed, node.key());

    // Its key is not replaced by that of another engine.
    let mut command = user.sortie(&list);
    command.env("SORTIE_API_KEY", "sts_other");
    exits(command, 0)?;
    exits(user.sortie(&["contexts", "use", "--none"]), 0)?;
    let without = text(&exits(user.sortie(&list), 69)?.stderr);
    assert_contains!(without, "no engine is running");
    ensure!(text(&exits(user.sortie(&["runs", "list", "--context", "local"]), 0)?.stdout).contains("kept"));
    let mut command = user.sortie(&list);
    command.env("SORTIE_CONTEXT", "local");
    exits(command, 0)?;
    let wrong = text(&exits(user.sortie(&["runs", "list", "--context", "locla"]), 64)?.stderr);
    assert_contains!(wrong, "did you mean local?");
    exits(user.sortie(&["contexts", "delete", "local"]), 0)?;
    exits(user.sortie(&["runs", "list", "--context", "local"]), 64)?;
    Ok(())
}

#[tokio::test]
async fn a_refused_key_is_not_saved_and_its_source_is_named() -> Checked {
    let mut node = node(Database::Sqlite).await?;
    let (user, url) = (User::new()?, node.url()?);
    let wrong = sortie_api::secret::Secret::new("sts_", [3; 32])
        .expose()
        .to_owned();
    let told = user.logs_in("local", &url, &wrong, 77)?;
    assert_contains!(told, "refuses the API key from your input");
    ensure!(!user.path("config/sortie/contexts.toml").exists());

    let mut command = user.sortie(&["runs", "list", "--url", &url]);
    command.env("SORTIE_API_KEY", &wrong);
    let told = text(&exits(command, 77)?.stderr);
    assert_contains!(told, &url, "from SORTIE_API_KEY", "sortie keys create");

    user.logs_in("local", &url, node.key(), 0)?;
    let keys: Value = serde_json::from_slice(&exits(node.sortie(&["keys", "list", "--json"]), 0)?.stdout)?;
    let id = keys[0]["id"].as_str().context("no key")?.to_owned();
    exits(node.sortie(&["keys", "create", "other", "--role", "admin"]), 0)?;
    exits(node.sortie(&["keys", "revoke", &id]), 0)?;
    let told = text(&exits(user.sortie(&["runs", "list"]), 77)?.stderr);
    assert_contains!(told, "from the context local", "sortie login --name local");

    node.kill()?;
    let told = text(&exits(user.sortie(&["runs", "list"]), 69)?.stderr);
    assert_contains!(told, "cannot reach the engine", &url, "from the context local");
    Ok(())
}

#[tokio::test]
async fn api_calls_an_operation_and_prints_its_answer() -> Checked {
    let (node, client) = started(Database::Sqlite).await?;
    let created = json_said(
        &node,
        &[
            "api",
            "POST",
            "/v1/runs",
            "--field",
            "prompt=hello",
            "--field",
            "max_steps=3",
        ],
    )?;
    assert_has!(created, {"status": "queued", "title": "hello"});
    let id = created["id"].as_str().context("no id")?;
    client.finished(id).await?;
    let page = json_said(&node, &["api", "get", "v1/runs", "--field", "limit=1"])?;
    assert_eq!(page["items"][0]["id"], id);
    let events = said(&node, &["api", "GET", &format!("/v1/runs/{id}/events")])?;
    assert_contains!(events, "event: done", "data: {");

    let body = node.data_dir().join("daily.json");
    fs::write(&body, r#"{"prompt": "daily"}"#)?;
    let from_file = format!("@{}", body.display());
    let saved = json_said(
        &node,
        &["api", "PUT", "/v1/workflows/daily", "--data", &from_file],
    )?;
    assert_eq!(saved["name"], "daily");
    let mut command = node.sortie(&["api", "PUT", "/v1/workflows/other", "--data", "-"]);
    command.stdin(fs::File::open(&body)?);
    exits(command, 0)?;

    let missing = exits(node.sortie(&["api", "GET", "/v1/workflows/none"]), 64)?;
    let refusal: Value = serde_json::from_slice(&missing.stdout)?;
    assert_eq!(refusal["code"], "not_found");
    ensure!(text(&missing.stderr).contains("has no workflows/none"));
    exits(node.sortie(&["api", "PUT", "/v1/workflows/x", "--data", "{"]), 64)?;
    exits(node.sortie(&["api", "FETCH", "/v1/runs"]), 64)?;
    Ok(())
}

/// A provider that accepts the key `sk-good`.
async fn provider() -> Result<Serving> {
    let answer = async |headers: HeaderMap| {
        let is_good = headers.get("x-api-key").is_some_and(|key| key == "sk-good");
        if is_good {
            (StatusCode::OK, r#"{"data":[{"id":"claude"}]}"#)
        } else {
            (
                StatusCode::UNAUTHORIZED,
                r#"{"error":{"message":"invalid x-api-key"}}"#,
            )
        }
    };
    Ok(Serving::start(Router::new().route("/v1/models", get(answer))).await?)
}

#[tokio::test]
async fn init_asks_for_a_key_checks_it_and_writes_the_configuration() -> Checked {
    let (user, provider) = (User::new()?, provider().await?);
    let url = provider.base_url();
    let init = |arguments: &[&str]| {
        let mut command = user.sortie(arguments);
        command.env("ANTHROPIC_BASE_URL", &url);
        command
    };
    let dialogue = [
        ("Number: ", "1"),
        ("API key of Anthropic (Claude): ", "sk-wrong"),
        ("Save this anyway? [y/N] ", "n"),
        ("API key of Anthropic (Claude): ", "sk-good"),
    ];
    let command = at_a_terminal(&init(&["init"]), &dialogue);
    let shown = tokio::task::spawn_blocking(move || exits(command, 0)).await??;
    let shown = text(&shown.stdout);
    assert_contains!(
        shown,
        "401",
        &url,
        "accepts the key",
        "sortie run '",
        "the default is claude-"
    );
    assert_lacks!(shown, "sk-good");
    let (file, key) = (
        user.path("config/sortie/sortie.toml"),
        user.path("config/sortie/anthropic.key"),
    );
    assert_eq!((mode(&file)?, mode(&key)?), (0o600, 0o600));
    assert_eq!(fs::read_to_string(&key)?, "sk-good\n");
    ensure!(!fs::read_to_string(&file)?.contains("sk-good"));
    assert_eq!(fs::read_to_string(key.with_file_name(".gitignore"))?, "*\n");

    // Every command reads it, and none needs an engine for the models.
    let mut models = user.sortie(&["models"]);
    models.env_remove("SORTIE_DEFAULT_MODEL");
    let models = text(&exits(models, 0)?.stdout);
    assert_contains!(models, "claude-", "(default)", "anthropic");
    assert_eq!(fs::read_dir(user.project())?.count(), 0);

    let again = at_a_terminal(&init(&["init"]), &[("Replace it? [y/N] ", "n")]);
    exits(again, 64)?;
    let mut found = init(&["init", "--config", "sortie.toml"]);
    found.env("ANTHROPIC_API_KEY", "sk-good");
    let found = at_a_terminal(&found, &[("ANTHROPIC_API_KEY is set. Use this key? [Y/n] ", "")]);
    tokio::task::spawn_blocking(move || exits(found, 0)).await??;
    let of_project = fs::read_to_string(user.project().join("sortie.toml"))?;
    assert_contains!(of_project, "api_key_file", "anthropic.key");
    ensure!(!user.project().join(".gitignore").exists());
    Ok(())
}

#[test]
fn init_without_a_terminal_prints_the_steps() -> Checked {
    let user = User::new()?;
    let told = text(&exits(user.sortie(&["init"]), 64)?.stderr);
    assert_contains!(
        told,
        "ANTHROPIC_API_KEY",
        "sortie doctor --providers",
        "sortie run"
    );
    ensure!(!user.path("config").exists());
    Ok(())
}

#[test]
fn models_without_an_engine_or_a_provider_say_how_to_get_one() -> Checked {
    let user = User::new()?;
    let output = exits(user.sortie(&["models"]), 0)?;
    ensure!(text(&output.stdout).contains("runbook"));
    ensure!(text(&output.stderr).contains("`sortie init`"));
    ensure!(!user.path("state").exists());
    Ok(())
}

/// The four lines are on standard error; the key is on standard output.
#[tokio::test]
async fn the_first_start_says_where_everything_is_and_later_ones_do_not() -> Checked {
    let mut node = node(Database::Sqlite).await?;
    let first = node.log();
    assert_contains!(
        first,
        "the engine is ready; its console is at",
        "sortie console",
        "the admin key",
        "sortie doctor"
    );
    node.stop().await?;
    node.restart().await?;
    let later = node.log();
    assert_eq!(later.matches("the engine is ready").count(), 1, "{later}");
    Ok(())
}

/// At a terminal nothing else is printed before the engine stops.
#[test]
fn a_start_at_a_terminal_prints_four_lines_and_later_a_single_one() -> Checked {
    let user = User::new()?;
    let serve = |last: &str| {
        let mut serve = user.sortie(&["serve", "--listen", "127.0.0.1:0"]);
        serve.env_remove("SORTIE_DEFAULT_MODEL");
        let output = exits(at_a_terminal(&serve, &[(last, "\u{3}")]), 0)?;
        let shown = text(&output.stdout);
        let lines = shown.lines().take_while(|line| !line.contains("stopping"));
        anyhow::Ok(lines.map(str::to_owned).collect::<Vec<_>>())
    };
    let first = serve("`sortie doctor` finds")?;
    let [key, console, saved, models, doctor, ..] = first.as_slice() else {
        anyhow::bail!("{first:?}");
    };
    ensure!(key.starts_with("sts_"), "{first:?}");
    assert_contains!(console, "/console/", "sortie console");
    assert_contains!(saved, "the admin key", "data/admin.key");
    assert_contains!(models, "`sortie init`");
    assert_contains!(doctor, "sortie doctor");
    let later = serve("Ctrl-C stops it")?;
    assert_contains!(later[0], "the engine is ready", "/console/");
    ensure!(later.len() <= 2, "{later:?}");
    Ok(())
}

#[tokio::test]
async fn a_misspelt_model_is_refused_with_the_nearest_one() -> Checked {
    let node = node(Database::Sqlite).await?;
    let told = text(&exits(node.sortie(&["run", "x", "--model", "runbok"]), 64)?.stderr);
    assert_contains!(told, "no model \"runbok\"; did you mean \"runbook\"?");
    Ok(())
}

#[tokio::test]
async fn names_and_ids_are_completed_from_the_engine() -> Checked {
    let (mut node, client) = started(Database::Sqlite).await?;
    let (_, run) = client.complete(&plain("a finished run")).await?;
    client.put("/v1/workflows/daily", &plain("x")).expect(201).await?;
    let complete = |node: &Node, words: &[&str]| -> Result<String> {
        let data = node.data_dir().display().to_string();
        let begin = ["--", "sortie", "--data-dir", &data];
        let mut command = binary_command(Path::new(env!("CARGO_BIN_EXE_sortie")));
        command
            .args(begin)
            .args(words)
            .env("SORTIE_COMPLETE", "fish")
            .current_dir(node.data_dir())
            .stdin(Stdio::null());
        let output = exits(command, 0)?;
        assert_eq!(text(&output.stderr), "");
        Ok(text(&output.stdout))
    };
    assert_contains!(complete(&node, &["runs", "get", ""])?, &run.id.to_string());
    assert_contains!(complete(&node, &["run", "--workflow", "d"])?, "daily");
    assert_contains!(complete(&node, &["run", "--model", "r"])?, "runbook");
    assert_contains!(complete(&node, &["sched"])?, "schedules");
    node.kill()?;
    assert_lacks!(complete(&node, &["run", "--workflow", "d"])?, "daily");
    Ok(())
}

#[test]
fn manual_pages_are_written_for_every_command() -> Checked {
    let user = User::new()?;
    exits(user.sortie(&["man", "pages"]), 0)?;
    let page = fs::read_to_string(user.project().join("pages/sortie-runs-get.1"))?;
    ensure!(page.contains(".TH"), "{page}");
    ensure!(user.project().join("pages/sortie.1").exists());
    Ok(())
}
