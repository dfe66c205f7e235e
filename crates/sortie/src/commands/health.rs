//! `sortie health`: whether an engine takes runs now, for container runtimes and scripts that have no HTTP client. It needs
//! no key, and never starts an engine.

use super::Context;
use crate::{
    args::EngineArgs,
    client::Client,
    data_dir::{DataDir, Purpose},
    failure::{Exit, Failure, Result},
    terminal,
};

pub(super) async fn health(context: &Context, args: &EngineArgs) -> Result<Exit> {
    let config = context.client_config(&context.flags)?;
    let told = match (&args.url, context.environment.get("SORTIE_URL")) {
        (Some(url), _) => Some((url.clone(), "--url")),
        (None, Some(url)) => Some((url.to_owned(), "SORTIE_URL")),
        (None, None) => None,
    };
    let (url, from) = match told {
        Some(told) => told,
        None => DataDir::new(&config.data_dir)
            .running_engine()
            .filter(|engine| engine.purpose == Purpose::Serve)
            .map(|engine| (engine.url, "engine.json"))
            .ok_or_else(|| {
                Failure::unavailable(format!(
                    "no engine serves from {}; name one by --url",
                    config.data_dir.display()
                ))
            })?,
    };
    Client::new(&url, from, None)?.ready().await?;
    terminal::print_line(&format!("{url} takes runs"))?;
    Ok(Exit::Success)
}
