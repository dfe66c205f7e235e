//! Commands that work on runs in one data folder without a server: they share the engine of the first of them, and the
//! runs of a killed command are resumed (`docs/RUNS.md#without-a-server`).

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStderr, Command, Stdio},
    thread,
};

use sortie_testkit::{ScriptedModel, model::Turn};
use tempfile::TempDir;

use crate::{
    cli::{alone, kill},
    prelude::*,
};

/// A folder, and commands in it that use a scripted model.
pub(crate) struct Rig {
    folder: TempDir,
    model: ScriptedModel,
}

impl Rig {
    pub(crate) async fn start(script: impl IntoIterator<Item = Turn>) -> Result<Self> {
        let model = ScriptedModel::start(script).await?;
        let folder = folder_for(&model.base_url())?;
        Ok(Self { folder, model })
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = alone(self.folder.path(), arguments);
        command.env_remove("SORTIE_DEFAULT_MODEL");
        command
    }

    /// Starts a run. Returns once the run is stored and the model has received this many requests in all.
    async fn run(&self, asked: usize) -> Result<Running> {
        let mut running = Running::start(self.command(&["run", "Go.", "--no-shell"]))?;
        running.until("without commands")?;
        self.model.asked(asked).await?;
        Ok(running)
    }
}

/// Makes a folder with a configuration for the model server at this address.
pub(crate) fn folder_for(base_url: &str) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    fs::write(
        folder.path().join("sortie.toml"),
        format!(
            "default_model = \"scripted\"\n[providers.test]\napi = \"openai-chat\"\nbase_url = \"{base_url}\"\n\
             [models.scripted]\nprovider = \"test\"\ncontext_window = 100000\nmax_output_tokens = 4096\n\
             free = true\n"
        ),
    )?;
    Ok(folder)
}

/// A running `sortie run`, killed on drop.
struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    id: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already gone is as good.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Running {
    fn start(command: Command) -> Result<Self> {
        let mut running = Self::follow(command, "")?;
        let line = running.until(" started")?;
        line.split_whitespace()
            .next()
            .unwrap_or_default()
            .clone_into(&mut running.id);
        Ok(running)
    }

    /// Starts a command for this run.
    fn follow(mut command: Command, id: &str) -> Result<Self> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().context("no standard error")?;
        Ok(Self {
            child,
            stderr: BufReader::new(stderr),
            id: id.to_owned(),
        })
    }

    /// Waits for the line with this text.
    fn until(&mut self, wanted: &str) -> Result<String> {
        let mut before = String::new();
        loop {
            let mut line = String::new();
            ensure!(self.stderr.read_line(&mut line)? > 0, "it ended:\n{before}");
            if line.contains(wanted) {
                return Ok(line);
            }
            before.push_str(&line);
        }
    }

    fn signal(&self, signal: &str) -> Checked {
        exits(kill(i32::try_from(self.child.id())?, signal), 0)?;
        Ok(())
    }

    /// Waits for the end. Returns the exit code, the answer, and the notes printed since.
    fn end(mut self) -> Result<(Option<i32>, String, String)> {
        let (mut answer, mut beside) = (String::new(), String::new());
        let mut stdout = self.child.stdout.take().context("no standard output")?;
        let reading = thread::spawn(move || stdout.read_to_string(&mut answer).map(|_| answer));
        self.stderr.read_to_string(&mut beside)?;
        let answer = reading.join().map_err(|_| anyhow::anyhow!("a panic"))??;
        Ok((self.child.wait()?.code(), answer, beside))
    }
}

fn held() -> Turn {
    Turn::says(["never"]).held()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_command_was_killed_is_told_and_resumed() -> Checked {
    let rig = Rig::start([held(), Turn::says(["It went on."])]).await?;
    let left = rig.run(1).await?;
    let id = left.id.clone();
    left.signal("-KILL")?;
    drop(left);
    for arguments in [&["runs", "list"][..], &["runs", "get", &id]] {
        let listed = exits(rig.command(arguments), 0)?;
        let (list, told) = (text(&listed.stdout), text(&listed.stderr));
        ensure!(list.contains(&id) && list.contains("running"), "{list}");
        assert_contains!(told, &format!("nobody works on {id}"), "sortie runs resume");
    }
    let resumed = exits(rig.command(&["runs", "resume"]), 0)?;
    assert_eq!(text(&resumed.stdout), "It went on.\n");
    let told = text(&resumed.stderr);
    ensure!(told.contains(&format!("{id} resumes")), "{told}");
    ensure!(told.contains("the worker was lost"), "{told}");
    let listed = exits(rig.command(&["runs", "list"]), 0)?;
    ensure!(!text(&listed.stderr).contains("nobody works"), "{listed:?}");
    let again = text(&exits(rig.command(&["runs", "resume"]), 0)?.stderr);
    ensure!(again.contains("no run that nobody works on"), "{again}");
    let ended = text(&exits(rig.command(&["runs", "resume", &id]), 64)?.stderr);
    ensure!(ended.contains("has ended already: succeeded"), "{ended}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_run_can_be_left_and_resumed_again() -> Checked {
    let rig = Rig::start([held(), held(), Turn::says(["At last."])]).await?;
    let left = rig.run(1).await?;
    let id = left.id.clone();
    left.signal("-KILL")?;
    drop(left);
    let mut command = rig.command(&["runs", "resume", &id]);
    let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn()?;
    rig.model.asked(2).await?;
    exits(kill(i32::try_from(child.id())?, "-INT"), 0)?;
    assert_eq!(child.wait()?.code(), Some(130));
    let resumed = exits(rig.command(&["runs", "resume"]), 0)?;
    assert_eq!(text(&resumed.stdout), "At last.\n");
    Ok(())
}

#[tokio::test]
async fn nothing_has_to_be_resumed_where_an_engine_answers() -> Checked {
    let node = node(Database::Sqlite).await?;
    let run = at_work(&node.client()?).await?;
    let (id, url) = (run.id.to_string(), node.url()?);
    for arguments in [&["runs", "resume"][..], &["runs", "resume", &id, "--url", &url]] {
        let told = text(&exits(node.sortie(arguments), 0)?.stderr);
        ensure!(told.contains("nothing has to be resumed"), "{told}");
    }
    ensure!(!said(&node, &["runs", "list"])?.contains("nobody"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_run_in_a_folder_shares_the_engine_of_the_first() -> Checked {
    let rig = Rig::start([held(), Turn::says(["Second."])]).await?;
    let first = rig.run(1).await?;
    let second = exits(rig.command(&["run", "Go.", "--no-shell"]), 0)?;
    assert_eq!(text(&second.stdout), "Second.\n");
    // Other commands print the correct remedy.
    let served = text(&exits(rig.command(&["serve", "--listen", "127.0.0.1:0"]), 69)?.stderr);
    assert_contains!(served, "works in the data folder", "try again when it has ended");
    let resumed = text(&exits(rig.command(&["runs", "resume"]), 69)?.stderr);
    ensure!(resumed.contains("try again when it has ended"), "{resumed}");
    rig.model.release();
    assert_eq!(first.end()?.0, Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_run_keeps_its_engine_for_the_second_until_it_is_told_to_leave() -> Checked {
    let rig = Rig::start([held(), held(), Turn::says(["By myself."])]).await?;
    let mut first = rig.run(1).await?;
    let second = rig.run(2).await?;
    exits(rig.command(&["runs", "cancel", &first.id]), 0)?;
    first.until("this engine stays until the other commands")?;
    first.signal("-INT")?;
    assert_eq!(first.end()?.0, Some(3));
    let (code, answer, beside) = second.end()?;
    assert_eq!((code, answer.as_str()), (Some(0), "By myself.\n"), "{beside}");
    ensure!(beside.contains("this one continues the run"), "{beside}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_run_ends_once_the_second_has() -> Checked {
    let rig = Rig::start([held(), held()]).await?;
    let mut first = rig.run(1).await?;
    let second = rig.run(2).await?;
    exits(rig.command(&["runs", "cancel", &first.id]), 0)?;
    first.until("this engine stays until the other commands")?;
    rig.model.release();
    let (code, answer, beside) = second.end()?;
    assert_eq!((code, answer.as_str()), (Some(0), "never\n"), "{beside}");
    assert_eq!(first.end()?.0, Some(3));
    Ok(())
}

/// After the kill, one of the remaining commands starts the next engine, and the other shares it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_share_an_engine_outlive_it() -> Checked {
    let answers = [Turn::says(["Done."]), Turn::says(["Done."])];
    let rig = Rig::start([held(), held(), held()].into_iter().chain(answers)).await?;
    let first = rig.run(1).await?;
    let others = [rig.run(2).await?, rig.run(3).await?];
    first.signal("-KILL")?;
    for other in others {
        let id = other.id.clone();
        let (code, answer, beside) = other.end()?;
        assert_eq!((code, answer.as_str()), (Some(0), "Done.\n"), "{beside}");
        ensure!(beside.contains(&id), "{beside}");
    }
    let listed = exits(rig.command(&["runs", "list"]), 0)?;
    let told = text(&listed.stderr);
    ensure!(told.contains(&format!("nobody works on {}", first.id)), "{told}");
    Ok(())
}

/// The recorded events are printed, and the data folder is free again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_of_a_run_that_nobody_works_on_are_printed_and_not_waited_for() -> Checked {
    let rig = Rig::start([held()]).await?;
    let left = rig.run(1).await?;
    let id = left.id.clone();
    left.signal("-KILL")?;
    drop(left);
    for arguments in [&["runs", "events", &id][..], &["runs", "events", &id, "--json"]] {
        let printed = exits(rig.command(arguments), 69)?;
        let (events, told) = (text(&printed.stdout), text(&printed.stderr));
        assert_contains!(told, &format!("nobody works on {id}"), "sortie runs resume");
        if arguments.contains(&"--json") {
            let last: serde_json::Value = serde_json::from_str(events.lines().last().unwrap_or_default())?;
            assert_eq!(
                (&last["id"], &last["status"]),
                (&json!(id), &json!("running")),
                "{events}"
            );
            ensure!(events.contains("worker_started"), "{events}");
        } else {
            ensure!(events.contains("without commands"), "{events}");
        }
    }
    Ok(())
}

/// A key of a member may not list the nodes of the engine, and needs no note about them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_looks_at_runs_while_another_command_has_the_engine() -> Checked {
    let rig = Rig::start([held()]).await?;
    let first = rig.run(1).await?;
    let made = exits(rig.command(&["keys", "create", "ci", "--role", "member"]), 0)?;
    let key = text(&made.stdout).trim().to_owned();
    let member = |arguments: &[&str]| {
        let mut command = rig.command(arguments);
        command.env("SORTIE_API_KEY", &key);
        command
    };
    for arguments in [&["runs", "list"][..], &["runs", "get", &first.id]] {
        let listed = text(&exits(member(arguments), 0)?.stdout);
        ensure!(listed.contains(&first.id), "{listed}");
    }
    let mut events = Running::follow(member(&["runs", "watch", &first.id]), &first.id)?;
    events.until("without commands")?;
    rig.model.release();
    let (code, _, beside) = events.end()?;
    assert_eq!(code, Some(0), "{beside}");
    assert_eq!(first.end()?.0, Some(0));
    Ok(())
}

/// The engine of another command does not come back: the command that reads starts its own, which leaves the run alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_followed_to_the_end_of_the_engine_of_another_command() -> Checked {
    let rig = Rig::start([held()]).await?;
    let first = rig.run(1).await?;
    let id = first.id.clone();
    let mut events = Running::follow(rig.command(&["runs", "watch", &id]), &id)?;
    events.until("without commands")?;
    first.signal("-KILL")?;
    drop(first);
    let (code, _, beside) = events.end()?;
    assert_eq!(code, Some(69), "{beside}");
    assert_contains!(beside, &format!("nobody works on {id}"));
    assert_lacks!(beside, "continues the run");
    Ok(())
}

/// A command that follows a run of a server reconnects to the server at its new address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_is_followed_on() -> Checked {
    let mut node = node(Database::Sqlite).await?;
    let mut running = Running::start(node.sortie(&["run", "```wait 600000\n```\n", "--no-shell"]))?;
    node.kill()?;
    let away = running.until("the engine does not answer")?;
    ensure!(away.contains("the run continues without this command"), "{away}");
    node.restart().await?;
    running.until("the engine answers again")?;
    exits(node.sortie(&["runs", "cancel", &running.id]), 0)?;
    assert_eq!(running.end()?.0, Some(3));
    Ok(())
}
