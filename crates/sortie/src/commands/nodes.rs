//! `sortie nodes`: the nodes of the engine.

use super::{Context, print_json, table};
use crate::{
    args::{InstallationArgs, NodesCommand},
    failure::{Exit, Result},
    terminal,
};

pub(super) async fn execute(context: &Context, command: NodesCommand) -> Result<Exit> {
    match command {
        NodesCommand::List(args) => list(context, &args).await,
    }
}

async fn list(context: &Context, args: &InstallationArgs) -> Result<Exit> {
    let (connection, api) = context.installation(args).await?;
    let nodes = connection.client.list_nodes(api).await;
    connection.close().await;
    let nodes = nodes?;
    if args.json {
        return print_json(&nodes);
    }
    let mut rows = table::new([
        "NODE",
        "STATE",
        "RUNS",
        "VERSION",
        "STARTED",
        "LEASE UNTIL",
        "ADDRESS",
    ]);
    for node in nodes {
        rows.add_row([
            terminal::harmless(&node.name).into_owned(),
            node.state.as_str().to_owned(),
            node.runs_at_work.to_string(),
            node.version.unwrap_or_else(|| "-".to_owned()),
            node.started_at.to_string(),
            node.lease_until.to_string(),
            node.address.map_or_else(
                || "-".to_owned(),
                |address| terminal::harmless(&address).into_owned(),
            ),
        ]);
    }
    terminal::print(&table::text(&rows))?;
    Ok(Exit::Success)
}
