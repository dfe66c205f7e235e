//! `sortie runs export`: a run that has ended, as a cassette.

use std::{fs::File, io::Write as _};

use sortie_api::{Event, Run, RunDefinition, RunId, model::ModelCatalog, plain};

use super::Context;
use crate::{
    args::export::ExportArgs,
    cassette::{self, Texts},
    client::{Client, Followed, get},
    failure::{Exit, Failure, Result},
    render::Render,
    terminal,
};

pub(super) async fn export(context: &Context, args: &ExportArgs) -> Result<Exit> {
    let lines = context
        .call(&Render::default(), async |client| cassette(client, args).await)
        .await?;
    let Some(path) = &args.output else {
        terminal::print(&lines)?;
        return Ok(Exit::Success);
    };
    let written = File::create(path).and_then(|mut file| file.write_all(lines.as_bytes()));
    written.map_err(|error| {
        Failure::internal(format!("cannot write {}: {}", path.display(), plain::io(&error)))
    })?;
    Ok(Exit::Success)
}

async fn cassette(client: &Client, args: &ExportArgs) -> Result<String> {
    let run = client.look_at_run(client.find_run(&args.run).await?).await?;
    if !run.status.is_final() {
        return Err(Failure::usage(format!(
            "cannot export {}: the run has not ended: {}",
            run.id, run.status
        )));
    }
    if run.zero_data_retention {
        return Err(Failure::usage(format!(
            "cannot export {}: a run with zero data retention stores no content",
            run.id
        )));
    }
    let path = format!("v1/runs/{}/definition", run.id);
    let definition: RunDefinition = client.ask(get(path)).await?;
    let (events, run) = events(client, run.id).await?;
    let catalog: ModelCatalog = client.ask(get("v1/models")).await?;
    let texts = if args.no_content {
        Texts::Masked
    } else {
        Texts::Kept
    };
    cassette::lines(&definition, &catalog.models, &events, &run, texts)
}

async fn events(client: &Client, run: RunId) -> Result<(Vec<Event>, Run)> {
    let (mut events, mut following) = (Vec::new(), client.follow(run, 0));
    loop {
        match following.next().await? {
            Followed::Event(event) => events.push(event),
            Followed::Done(run) => return Ok((events, *run)),
            Followed::Away(cause) => {
                terminal::note(&format!("the events cannot be read, trying again: {cause}"));
            }
            Followed::Live(_) | Followed::Back => {}
        }
    }
}
