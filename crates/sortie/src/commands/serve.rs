//! `sortie serve`: runs a node until it receives a signal to stop.

use sortie_api::{check::Verdict, plain};
use sortie_engine::{Providers, refuses_prompt};
use sortie_sandbox::{Capabilities, Level};

use super::{
    Context,
    models::{NO_LANGUAGE_MODEL, is_offline},
};
use crate::{
    archive,
    args::ServeArgs,
    config::{Config, LogFormat, SandboxPolicy},
    data_dir::{DataDir, NodeKey, Purpose},
    failure::{Exit, Failure, Result},
    interruption::interruption,
    logging,
    node::{FirstKey, Node},
    telemetry::Telemetry,
    terminal, user_folders,
};

pub(super) async fn serve(context: &Context, args: &ServeArgs) -> Result<Exit> {
    let mut flags = context.flags.clone();
    args.add_to(&mut flags);
    let config = Config::load(&flags, &context.environment, SandboxPolicy::Required)?;
    let telemetry = logging::start_with_traces(&config, context.terminal)?;
    let mut told_to_stop = interruption();
    let data_dir = DataDir::new(&config.data_dir);
    let is_watched = config.log.format == LogFormat::Text && context.terminal.stderr_is_terminal();
    let owner = data_dir.own()?;
    let is_new_folder = owner.is_new_folder();
    if is_new_folder && !is_watched {
        tell(&config, &data_dir.made());
    }
    let node = tokio::select! {
        node = Node::start(&config, owner, config.listen, Purpose::Serve, telemetry.traces()) => node,
        () = &mut told_to_stop => return Ok(Exit::Success),
    };
    if node.is_err() && is_new_folder && is_watched {
        tell(&config, &data_dir.made());
    }
    let node = node?;
    if let Some(other) = other_runs(context, &config).filter(|_| is_new_folder) {
        tell(&config, &other);
    }
    log_start(&node, &config, is_watched);
    tokio::select! {
        greeted = greet(&node, &config, is_watched) => greeted?,
        () = &mut told_to_stop => {
            stopped(node, telemetry).await;
            return Ok(Exit::Success);
        }
    }
    let server_ended = node.server_ended();
    let outcome = tokio::select! {
        () = &mut told_to_stop => Ok(Exit::Success),
        () = server_ended => Err(Failure::internal("the server ended by itself; the log says why")),
    };
    told_to_stop = interruption();
    tracing::info!(
        drain_seconds = config.drain.as_secs(),
        grace_seconds = config.shutdown_grace.as_secs(),
        "stopping; a second signal stops at once"
    );
    tokio::select! {
        () = stopped(node, telemetry) => {
            tracing::info!("stopped");
            outcome
        }
        () = &mut told_to_stop => Err(Failure::left()),
    }
}

/// Returns a note about the runs of commands without a server, which have another folder.
fn other_runs(context: &Context, config: &Config) -> Option<String> {
    let state = user_folders::state(&context.environment)?;
    let has_runs = state != config.data_dir && state.join(archive::DATABASE).is_file();
    has_runs.then(|| {
        let state = state.display();
        format!(
            "earlier runs without a server are in {state}; `sortie serve --data-dir {state}` serves those"
        )
    })
}

/// Logs the start for those who read the log. A person at a terminal gets the lines of [`greet`] instead.
fn log_start(node: &Node, config: &Config, is_watched: bool) {
    log_sandbox(node.sandbox(), is_watched);
    if is_watched {
        return;
    }
    if let Some(rule) = refuses_prompt(&config.models, "") {
        tracing::warn!("{rule}; until then only prompts with blocks for `runbook` run");
    }
    tracing::info!(database = %config.database_url, data_dir = %config.data_dir.display(), "listening on {}", node.url());
    if let Some(console) = node.console(config) {
        tracing::info!("the console is at {console}");
    }
}

/// Prints four lines at the first start, and at later ones a single line on a terminal.
async fn greet(node: &Node, config: &Config, is_watched: bool) -> Result<()> {
    if let Some(key) = node.first_key() {
        for line in greeting(node, config, key).await? {
            tell(config, &line);
        }
    } else if is_watched {
        let models = refuses_prompt(&config.models, "").map(|_| format!("; {NO_LANGUAGE_MODEL}"));
        let line = format!(
            "{}{}; Ctrl-C stops it",
            address(node, config),
            models.unwrap_or_default()
        );
        tell(config, &line);
    }
    Ok(())
}

/// Returns the lines for the person who starts an engine for the first time: its address, its key, its models, and the worst
/// fault.
async fn greeting(node: &Node, config: &Config, key: &FirstKey) -> Result<[String; 4]> {
    // Before the checks: they wait for a storage that does not answer.
    let key = first_key(key, config)?;
    let catalog = node.engine().models();
    let models = catalog.models.iter().filter(|model| !is_offline(model)).count();
    let models = if models == 0 {
        NO_LANGUAGE_MODEL.to_owned()
    } else {
        format!(
            "{models} models; the default is {}; `sortie models` lists them",
            catalog.default_model
        )
    };
    let checks = node.engine().checks(None, Providers::Left).await.checks;
    let worst = checks
        .iter()
        // The line before has them.
        .filter(|check| check.name != "models")
        .max_by_key(|check| severity(check.verdict))
        .filter(|check| check.verdict != Verdict::Ok);
    let found = match worst {
        None => "`sortie doctor` finds no faults".to_owned(),
        Some(check) => format!(
            "`sortie doctor` finds a {}: {}: {}",
            word(check.verdict),
            check.name,
            check.found
        ),
    };
    Ok([
        format!("{}; `sortie console` signs you in", address(node, config)),
        key,
        models,
        found,
    ])
}

fn severity(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Ok => 0,
        Verdict::Warning => 1,
        Verdict::Fault => 2,
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok | Verdict::Warning => "warning",
        Verdict::Fault => "fault",
    }
}

/// Returns the sentence with the address of the console, or of the API if there is no console.
fn address(node: &Node, config: &Config) -> String {
    match node.console(config) {
        Some(console) => format!("the engine is ready; its console is at {console}"),
        None => format!("the engine is ready at {}", node.url()),
    }
}

/// Telemetry ends last, so that the spans of the last requests and runs are sent.
async fn stopped(node: Node, telemetry: Telemetry) {
    node.shutdown().await;
    telemetry.end().await;
}

/// Prints the first admin key, the only time it is shown, and returns the sentence about it. The operator's key is printed only if it could not be written
/// to its file, because hosted deployments collect the output.
fn first_key(key: &FirstKey, config: &Config) -> Result<String> {
    let (file, name) = (
        DataDir::new(&config.data_dir).key_file(key.which),
        key.which.name(),
    );
    let file = file.display();
    if key.which == NodeKey::Admin || key.kept.is_err() {
        terminal::print_line(&key.secret)?;
    }
    Ok(match (key.which, &key.kept) {
        (NodeKey::Admin, Ok(())) => format!(
            "the line above on standard output is the {name}; it is shown this once and kept in {file}"
        ),
        (NodeKey::Operator, Ok(())) => format!("the {name} is in {file}"),
        (NodeKey::Admin | NodeKey::Operator, Err(error)) => format!(
            "the line above on standard output is the {name}; SAVE IT NOW: it could not be written to {file}: {}",
            plain::io(error)
        ),
    })
}

/// Prints a message for the person who has started the node, in the format of its log.
fn tell(config: &Config, text: &str) {
    match config.log.format {
        LogFormat::Text => terminal::note(text),
        LogFormat::Json => tracing::warn!("{text}"),
    }
}

/// Logs the confinement of commands. A person at a terminal sees only warnings.
fn log_sandbox(sandbox: std::result::Result<&Capabilities, &str>, is_watched: bool) {
    match sandbox {
        Ok(found) if is_watched && found.level != Level::None => {}
        Ok(found) => {
            let level = found.level.as_str();
            if found.level == Level::None {
                tracing::warn!("commands of runs are NOT confined: they run as this user");
            } else {
                tracing::info!(
                    sandbox.memory = found.memory.as_str(),
                    sandbox.disk = found.disk.as_str(),
                    sandbox.tenancy = found.tenancy.as_str(),
                    "commands of runs are confined by {level}"
                );
            }
            for missing in &found.missing {
                tracing::info!("this host gives less: {missing}");
            }
        }
        Err(reason) => tracing::error!("runs with shell are refused: no sandbox: {reason}"),
    }
}
