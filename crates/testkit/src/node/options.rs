//! Options of a node.

use std::{net::SocketAddr, path::PathBuf};

/// Options of a node, beyond the defaults of a test.
#[derive(Clone, Debug, Default)]
pub struct NodeOptions {
    /// Further arguments of `sortie serve`.
    pub arguments: Vec<String>,
    /// Further environment; overrides the defaults of a test.
    pub environment: Vec<(String, String)>,
    /// Model of runs that name none.
    pub default_model: DefaultModel,
    /// Treatment of the log on drop.
    pub log: LogOnDrop,
    /// The parent of the data folder, instead of the system's temporary folder.
    pub data_parent: Option<PathBuf>,
    /// Address of the shared database for this node, if there is a proxy in front of it.
    pub database_url: Option<String>,
    /// Address of the API; any free port if unset.
    pub listen: Option<SocketAddr>,
}

/// Model of runs that name none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultModel {
    /// The name of the offline model, so that it answers every prompt. A file in `SORTIE_CONFIG` overrides it.
    #[default]
    Runbook,
    /// The default of a fresh installation.
    Unset,
}

/// Treatment of a node's log on drop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogOnDrop {
    /// Prints the end of the log; the test runner shows it for a failed test.
    #[default]
    Print,
    /// The log is dropped.
    Forget,
}

impl NodeOptions {
    /// Adds a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives the node two connections to its database. Opening one costs the server as much processor time as a small
    /// test.
    #[must_use]
    pub fn with_few_connections(self) -> Self {
        self.env("SORTIE_DATABASE_CONNECTIONS", "2")
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }
}
