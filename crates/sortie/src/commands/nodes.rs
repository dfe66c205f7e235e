//! `sortie nodes`: the nodes of the engine.

use sortie_api::node::Node;

use super::Context;
use crate::{
    args::NodesCommand,
    client::{Client, get},
    failure::{Exit, Result},
    render::{Field, Record, maybe, some, time},
};

impl Record for Node {
    const COLUMNS: &'static [Field<Self>] = &[
        ("NODE", |node| some(&node.name)),
        ("STATE", |node| some(node.state.as_str())),
        ("RUNS", |node| some(node.runs_at_work)),
        ("VERSION", |node| maybe(node.version.as_ref())),
    ];
    const MORE: &'static [Field<Self>] = &[
        ("STARTED", |node| time(node.started_at)),
        ("LEASE UNTIL", |node| time(node.lease_until)),
        ("ADDRESS", |node| maybe(node.address.as_ref())),
    ];
    const CUT: &'static [&'static str] = &["NODE", "ADDRESS"];
}

pub(super) async fn execute(context: &Context, command: NodesCommand) -> Result<Exit> {
    let NodesCommand::List(args) = command;
    let list = async |client: &Client| client.ask(get(client.on_all_nodes("nodes"))).await;
    let nodes: Vec<Node> = context.call(&args, list).await?;
    args.render.list(&nodes)
}
