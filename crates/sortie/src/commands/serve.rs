//! `sortie serve`: runs a node until it receives a signal to stop.

use sortie_api::plain;
use sortie_sandbox::{Capabilities, Level};

use super::Context;
use crate::{
    args::ServeArgs,
    config::{Config, LogFormat, SandboxPolicy},
    data_dir::{DataDir, NodeKey, Purpose},
    failure::{Exit, Failure, Result},
    interruption::interruption,
    logging,
    node::{FirstKey, Node},
    telemetry::Telemetry,
    terminal,
};

pub(super) async fn serve(context: &Context, args: &ServeArgs) -> Result<Exit> {
    let mut flags = context.flags.clone();
    args.add_to(&mut flags);
    let config = Config::load(&flags, &context.environment, SandboxPolicy::Required)?;
    let telemetry = logging::start_with_traces(&config, context.terminal)?;
    let mut told_to_stop = interruption();
    let data_dir = DataDir::new(&config.data_dir);
    let owner = data_dir.own()?;
    if owner.is_new_folder() {
        tell(&config, &data_dir.made());
    }
    let node = tokio::select! {
        node = Node::start(&config, owner, config.listen, Purpose::Serve, telemetry.traces()) => node?,
        () = &mut told_to_stop => return Ok(Exit::Success),
    };
    if let Some(key) = node.first_key() {
        tell_first_key(key, &config)?;
    }
    log_sandbox(node.sandbox());
    tracing::info!(database = %config.database_url, data_dir = %config.data_dir.display(), "listening on {}", node.url());
    if let Some(console) = node.console(&config) {
        tracing::info!("the console is at {console}");
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

/// Telemetry ends last, so that the spans of the last requests and runs are sent.
async fn stopped(node: Node, telemetry: Telemetry) {
    node.shutdown().await;
    telemetry.end().await;
}

/// Prints the first admin key, the only time it is shown. The operator's key is printed only if it could not be written
/// to its file, because hosted deployments collect the output.
fn tell_first_key(key: &FirstKey, config: &Config) -> Result<()> {
    let (file, name) = (
        DataDir::new(&config.data_dir).key_file(key.which),
        key.which.name(),
    );
    let file = file.display();
    if key.which == NodeKey::Admin || key.kept.is_err() {
        terminal::print_line(&key.secret)?;
    }
    let text = match (key.which, &key.kept) {
        (NodeKey::Admin, Ok(())) => format!(
            "the line above on standard output is the {name}; it is shown this once and kept in {file}"
        ),
        (NodeKey::Operator, Ok(())) => format!("the {name} is in {file}"),
        (NodeKey::Admin | NodeKey::Operator, Err(error)) => format!(
            "the line above on standard output is the {name}; SAVE IT NOW: it could not be written to {file}: {}",
            plain::io(error)
        ),
    };
    tell(config, &text);
    Ok(())
}

/// Prints a message for the person who has started the node, in the format of its log.
fn tell(config: &Config, text: &str) {
    match config.log.format {
        LogFormat::Text => terminal::note(text),
        LogFormat::Json => tracing::warn!("{text}"),
    }
}

fn log_sandbox(sandbox: std::result::Result<&Capabilities, &str>) {
    match sandbox {
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
