//! The real binary over HTTP, on a real port and on both databases. The modules mirror the paths of the API; tests of a
//! whole node (the command line, shutdown, recovery) have separate modules.
//!
//! A test that checks the API document names its section. Where the store matters, a test takes the [`Database`]
//! and is listed in `both_databases!`: it then runs once on each.
#![cfg(test)]

mod administration;
mod backup;
mod budgets;
mod cli;
mod cluster;
mod commits;
mod configuration;
mod connections;
mod doctor;
mod documentation;
mod engines;
mod enumeration;
mod errors;
mod examples;
mod export;
mod files;
mod hosted;
mod keys;
mod kit;
mod license;
mod logs;
mod mail;
mod master_key;
mod mcp;
mod me;
mod metrics;
mod models;
mod network;
mod openapi;
mod operator_faults;
mod operators;
mod organizations;
mod payments;
mod prelude;
mod rate_limit;
mod recovery;
mod replay;
mod runs;
mod schedules;
mod sharing;
mod shutdown;
mod terminal;
mod traces;
mod troubleshooting;
mod unread;
mod upgrade;
mod versions;
mod workflows;
mod zero_data_retention;

use crate::prelude::*;

/// A node on an empty database.
async fn node(database: Database) -> anyhow::Result<Node> {
    node_with(database, NodeOptions::default()).await
}

/// A node on an empty database, started in its own way.
async fn node_with(database: Database, options: NodeOptions) -> anyhow::Result<Node> {
    Node::start_with(
        env!("CARGO_BIN_EXE_sortie"),
        database,
        options.with_few_connections(),
    )
    .await
}

/// A node on an empty database, and a client with its admin key.
async fn started(database: Database) -> anyhow::Result<(Node, Client)> {
    started_with(database, NodeOptions::default()).await
}

/// A node on an empty database, started in its own way, and a client with its admin key.
async fn started_with(database: Database, options: NodeOptions) -> anyhow::Result<(Node, Client)> {
    let node = node_with(database, options).await?;
    let client = node.client()?;
    Ok((node, client))
}

/// A node of a hosted deployment on an empty database.
async fn hosted_with(database: Database, options: NodeOptions) -> anyhow::Result<HostedNode> {
    HostedNode::start_with(
        env!("CARGO_BIN_EXE_sortie"),
        database,
        options.with_few_connections(),
    )
    .await
}

/// A node on an empty database, with as many connections to it as by default.
async fn node_under_load(database: Database) -> anyhow::Result<Node> {
    Node::start(env!("CARGO_BIN_EXE_sortie"), database).await
}
