//! `sortie health`: whether an engine accepts runs now, for container runtimes and scripts that have no HTTP client. It
//! needs no key, and never starts an engine.

use super::Context;
use crate::{
    client::Client,
    data_dir::{DataDir, Purpose},
    failure::{Exit, Failure, Result},
    named_engine::NamedEngine,
    terminal,
};

pub(super) async fn health(context: &Context) -> Result<Exit> {
    let config = context.client_config(&context.flags)?;
    let NamedEngine { url, from, .. } = match context.named_engine() {
        Some(named) => named.clone(),
        None => DataDir::new(&config.data_dir)
            .running_engine()?
            .filter(|engine| engine.purpose == Purpose::Serve)
            .map(|engine| NamedEngine::of_data_folder(&engine.url))
            .ok_or_else(|| {
                Failure::unavailable(format!(
                    "no engine serves from {}; name one by --url",
                    config.data_dir.display()
                ))
            })?,
    };
    let degraded = Client::new(&url, &from, None)?.ready().await?;
    terminal::print_line(&format!("{url} takes runs"))?;
    if !degraded.is_empty() {
        terminal::print_line(&format!("does not work now: {}", degraded.join(", ")))?;
    }
    Ok(Exit::Success)
}
