//! Completion in shells: commands and flags from the command line itself, names and IDs from the engine.
//!
//! The script of `sortie completions` runs this program for each completion, with a variable set. The engine is only asked,
//! never started, and only for a moment. A failure completes nothing and prints nothing.

use std::time::Duration;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::{
    CompletionCandidate, Shell,
    engine::ArgValueCandidates,
    env::{CompleteEnv, Shells},
};
use serde_json::Value;

use crate::{
    args::{Cli, Global},
    client::{Client, get},
    config::{Config, Environment},
    contexts,
    data_dir::DataDir,
    failure::{Failure, Result},
    named_engine::NamedEngine,
    terminal::harmless,
    user_folders,
};

/// Variable that makes this program complete a command line.
const VARIABLE: &str = "SORTIE_COMPLETE";

/// Time after which a completion goes without the engine.
const PATIENCE: Duration = Duration::from_secs(1);

/// Kind of names and IDs that an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    Runs,
    Workflows,
    Schedules,
    Connections,
    Files,
    Keys,
    Models,
    Contexts,
}

/// Completes a command line and exits, if a shell asks for it.
pub(crate) fn answer() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Returns the script for a shell.
pub(crate) fn script(shell: Shell) -> Result<String> {
    let failed = |error: std::io::Error| Failure::internal(format!("cannot make the script: {error}"));
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string());
    let completer = completer.ok_or_else(|| Failure::usage(format!("there is no completion for {shell}")))?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, "sortie", "sortie", "sortie", &mut script)
        .map_err(failed)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// The command line, with candidates for its arguments.
fn command() -> Command {
    with_candidates(Cli::command(), &[])
}

/// Adds the candidates to the arguments of a command and its subcommands. `path` has the names of the commands above.
fn with_candidates(command: Command, path: &[String]) -> Command {
    let path: Vec<_> = path
        .iter()
        .cloned()
        .chain([command.get_name().to_owned()])
        .collect();
    let complete = |arg: Arg| match resource(&path, &arg) {
        Some(resource) => arg.add(ArgValueCandidates::new(move || candidates(resource))),
        None => arg,
    };
    command
        .mut_args(complete)
        .mut_subcommands(|command| with_candidates(command, &path))
}

/// Returns the resource that an argument names.
fn resource(path: &[String], arg: &Arg) -> Option<Resource> {
    let path: Vec<_> = path.iter().skip(1).map(String::as_str).collect();
    let id = arg.get_id().as_str();
    if !arg.is_positional() {
        return match id {
            "model" | "fallback_model" => Some(Resource::Models),
            "workflow" => Some(Resource::Workflows),
            "schedule" => Some(Resource::Schedules),
            "context" => Some(Resource::Contexts),
            _ => None,
        };
    }
    match (path.as_slice(), id) {
        // These name something new.
        (["schedules", "create"] | ["connections", "put"], "name") => None,
        (["runs", ..] | ["open"], "run" | "runs") => Some(Resource::Runs),
        (["workflows", "get" | "delete" | "edit", ..], "name") | (["schedules", ..], "workflow") => {
            Some(Resource::Workflows)
        }
        (["schedules", ..], "schedule" | "schedules") => Some(Resource::Schedules),
        (["connections", ..], "name" | "names") => Some(Resource::Connections),
        (["files", ..], "file" | "files") => Some(Resource::Files),
        (["keys", ..], "key" | "keys") => Some(Resource::Keys),
        (["contexts", ..], "name") => Some(Resource::Contexts),
        _ => None,
    }
}

/// Returns the names and IDs there are; empty on a failure.
fn candidates(resource: Resource) -> Vec<CompletionCandidate> {
    let environment = Environment::of_process();
    if resource == Resource::Contexts {
        let names = contexts::names(&environment).unwrap_or_default();
        return names
            .into_iter()
            .map(|(name, url)| candidate(&name, Some(&url)))
            .collect();
    }
    let Ok(client) = client(&environment) else {
        return Vec::new();
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let asked = async { tokio::time::timeout(PATIENCE, ask(&client, resource)).await };
    match runtime.block_on(asked) {
        Ok(Ok(answer)) => entries(resource, &answer),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// Connects with the engine that the completed command would ask, if it runs.
fn client(environment: &Environment) -> Result<Client> {
    let words: Vec<_> = std::env::args().skip_while(|word| word != "--").skip(1).collect();
    let global = global(&words);
    let mut flags = global.flags();
    flags.outside_project = user_folders::state(environment);
    let data_dir = DataDir::new(&Config::data_dir(&flags, environment)?);
    let named = NamedEngine::find(global.url.as_deref(), global.context.as_deref(), environment)?;
    let named = match named {
        Some(named) => named,
        None => data_dir
            .running_engine()?
            .map(|engine| NamedEngine::of_data_folder(&engine.url))
            .ok_or_else(|| Failure::unavailable("no engine is running"))?,
    };
    let key = named.key(environment, &data_dir)?;
    Client::new(&named.url, &named.from, key)
}

/// Returns the flags that name an engine. The command line is incomplete, so its parser would refuse it.
fn global(words: &[String]) -> Global {
    let value = |flag: &str| {
        words
            .iter()
            .zip(words.iter().skip(1).map(Some).chain([None]))
            .find_map(|(word, next)| match word.strip_prefix(flag)? {
                "" => next.cloned(),
                rest => rest.strip_prefix('=').map(str::to_owned),
            })
    };
    Global {
        config: value("--config").map(Into::into),
        data_dir: value("--data-dir"),
        url: value("--url"),
        context: value("--context"),
    }
}

/// Asks the engine for the entries.
async fn ask(client: &Client, resource: Resource) -> Result<Value> {
    let path = match resource {
        Resource::Runs => "v1/runs?limit=100",
        Resource::Workflows => "v1/workflows",
        Resource::Schedules => "v1/schedules",
        Resource::Connections => "v1/connections",
        Resource::Files => "v1/files?limit=100",
        Resource::Keys => "v1/admin/keys",
        Resource::Models => "v1/models",
        Resource::Contexts => return Ok(Value::Null),
    };
    client.ask(get(path)).await
}

/// Reads the entries of a list, of a page or of the catalog.
fn entries(resource: Resource, answer: &Value) -> Vec<CompletionCandidate> {
    let page = answer.get("items").or_else(|| answer.get("models"));
    let list = page.unwrap_or(answer).as_array();
    let (name, helps): (&str, &[&str]) = match resource {
        Resource::Runs => ("id", &["title", "description", "status"]),
        Resource::Workflows => ("name", &["description"]),
        Resource::Schedules => ("id", &["name", "description", "workflow"]),
        Resource::Connections => ("name", &["description", "url", "type"]),
        Resource::Files | Resource::Keys | Resource::Models => ("id", &["name"]),
        Resource::Contexts => ("name", &[]),
    };

    list.into_iter()
        .flatten()
        .filter_map(|entry| {
            let help = helps
                .iter()
                .find_map(|field| text(entry, field).filter(|help| !help.is_empty()));
            Some(candidate(text(entry, name)?, help))
        })
        .collect()
}

/// Returns a text field of an entry.
fn text<'a>(entry: &'a Value, field: &str) -> Option<&'a str> {
    entry.get(field)?.as_str()
}

/// Returns a candidate with the first line of its help. The text comes from users.
fn candidate(name: &str, help: Option<&str>) -> CompletionCandidate {
    let help = help.map(|help| harmless(help.lines().next().unwrap_or_default()).into_owned());
    CompletionCandidate::new(harmless(name).into_owned()).help(help.map(Into::into))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_flags_of_an_unfinished_command_line_name_the_engine() {
        let found = global(&words("sortie runs get --url http://a --data-dir=/b --context"));
        assert_eq!(found.url.as_deref(), Some("http://a"));
        assert_eq!(found.data_dir.as_deref(), Some("/b"));
        assert_eq!((found.context, found.config), (None, None));
    }

    #[test]
    fn entries_have_their_title_as_help() {
        let page = json!({"items": [{"id": "run_1", "title": "", "status": "failed"}, {"id": "run_2", "title": "A\nB"}, {}]});
        let found = entries(Resource::Runs, &page);
        let shown: Vec<_> = found
            .iter()
            .map(|one| {
                (
                    one.get_value().to_str().unwrap(),
                    one.get_help().map(ToString::to_string),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("run_1", Some("failed".to_owned())),
                ("run_2", Some("A".to_owned()))
            ]
        );
        let models = json!({"models": [{"id": "runbook", "name": "Runbook"}]});
        assert_eq!(entries(Resource::Models, &models).len(), 1);
    }

    /// Returns the resource of an argument.
    fn resource_of(line: &str, id: &str) -> Option<Resource> {
        let path = words(line);
        let names = path.iter().skip(1);
        let mut command = Cli::command();
        for name in names {
            command = command.find_subcommand(name).unwrap().clone();
        }
        let arg = command.get_arguments().find(|arg| arg.get_id() == id).unwrap();
        resource(&path, arg)
    }

    #[test]
    fn arguments_that_name_something_are_completed() {
        for (line, id, found) in [
            ("sortie runs get", "runs", Some(Resource::Runs)),
            ("sortie open", "run", Some(Resource::Runs)),
            ("sortie run", "model", Some(Resource::Models)),
            ("sortie run", "workflow", Some(Resource::Workflows)),
            ("sortie run", "prompt", None),
            ("sortie workflows get", "name", Some(Resource::Workflows)),
            ("sortie connections get", "name", Some(Resource::Connections)),
            ("sortie connections put", "name", None),
            ("sortie keys revoke", "keys", Some(Resource::Keys)),
            ("sortie contexts use", "name", Some(Resource::Contexts)),
        ] {
            assert_eq!(resource_of(line, id), found, "{line} {id}");
        }
    }
}
