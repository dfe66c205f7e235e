//! `sortie health`: whether an engine accepts runs now, for container runtimes and scripts that have no HTTP client. It
//! needs no key, and never starts an engine.

use super::Context;
use crate::{
    client::Client,
    data_dir::{DataDir, Purpose},
    failure::{Exit, Failure, Result},
    terminal,
};

pub(super) async fn health(context: &Context) -> Result<Exit> {
    let config = context.client_config(&context.flags)?;
    let (url, from) = match context.named_engine() {
        Some((url, from)) => (url.to_owned(), from),
        None => DataDir::new(&config.data_dir)
            .running_engine()?
            .filter(|engine| engine.purpose == Purpose::Serve)
            .map(|engine| (engine.url, "engine.json"))
            .ok_or_else(|| {
                Failure::unavailable(format!(
                    "no engine serves from {}; name one by --url",
                    config.data_dir.display()
                ))
            })?,
    };
    let degraded = Client::new(&url, from, None)?.ready().await?;
    terminal::print_line(&format!("{url} takes runs"))?;
    if !degraded.is_empty() {
        terminal::print_line(&format!("does not work now: {}", degraded.join(", ")))?;
    }
    Ok(Exit::Success)
}
