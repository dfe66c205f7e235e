//! The flags of `sortie runs replay`.

use std::{path::PathBuf, str::FromStr};

use clap::Args;
use sortie_api::Micros;

use super::{Attendance, NodeArgs, RunRef, amount::cost};

#[derive(Debug, Args)]
#[command(after_help = "\
Credentials of inline connections are not kept with a run. Those that are not
given by a flag are asked for on the terminal, where they are not shown. A file
or variable holds the missing text, or a JSON object whose fields replace those
of the connection, such as {\"auth\": {\"username\": \"…\", \"password\": \"…\"}}.

Examples:
  sortie runs replay run_01k… --credential crm=@token.txt
  sortie runs replay run_01k… --credential-env crm=CRM_TOKEN --max-cost '$0.50'")]
pub(crate) struct ReplayArgs {
    /// ID of a run, its beginning, or @last for the newest run
    pub(crate) run: RunRef,
    /// Budget, such as $0.50 or 0.5usd [default: that of the run]
    #[arg(long, value_name = "AMOUNT", value_parser = cost)]
    pub(crate) max_cost: Option<Micros>,
    /// Read a connection's credential from a file
    #[arg(long = "credential", value_name = "CONNECTION=@FILE")]
    pub(crate) credentials: Vec<Source<PathBuf>>,
    /// Read a connection's credential from a variable
    #[arg(long = "credential-env", value_name = "CONNECTION=VARIABLE")]
    pub(crate) credentials_env: Vec<Source<String>>,
    /// Print the event objects one a line, and the finished run last
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) attendance: Attendance,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// A connection, and where its credential comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source<T> {
    pub(crate) connection: String,
    pub(crate) from: T,
}

impl FromStr for Source<PathBuf> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once("=@") {
            Some((connection, path)) if !connection.is_empty() && !path.is_empty() => Ok(Self {
                connection: connection.to_owned(),
                from: PathBuf::from(path),
            }),
            _ => Err(
                "give CONNECTION=@FILE: a credential is no argument, which others on this machine could read",
            ),
        }
    }
}

impl FromStr for Source<String> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((connection, variable)) if !connection.is_empty() && !variable.is_empty() => Ok(Self {
                connection: connection.to_owned(),
                from: variable.to_owned(),
            }),
            _ => Err("give CONNECTION=VARIABLE"),
        }
    }
}
