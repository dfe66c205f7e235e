//! Arguments of `sortie login` and `sortie contexts`.

use clap::{Args, Subcommand};

use crate::{contexts::context_name, render::Render};

#[derive(Debug, Args)]
#[command(after_help = "\
The key is asked for and not shown, or read from standard input. The engine
checks it before anything is saved. The file, contexts.toml in the user's
settings folder (~/.config/sortie), can be read by you alone.

Examples:
  sortie login https://sortie.example.com
  sortie login --name local http://127.0.0.1:8080 < data/admin.key")]
pub(crate) struct LoginArgs {
    /// Address of the engine
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,
    /// Name of the context [default: host and port of the address]
    #[arg(long, value_parser = context_name)]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ContextsCommand {
    /// List the saved engines; a star marks the current one
    #[command(after_help = "\
Examples:
  sortie contexts list
  sortie contexts list --json")]
    List(Render),
    /// Make a context the current one, which commands use if they name no engine
    #[command(after_help = "\
Examples:
  sortie contexts use sortie.example.com
  sortie contexts use --none    # commands use the engine of the data folder")]
    Use {
        /// Name of the context
        #[arg(required_unless_present = "none", value_parser = context_name)]
        name: Option<String>,
        /// Have no current context
        #[arg(long, conflicts_with = "name")]
        none: bool,
    },
    /// Delete a context with its key; the engine still accepts the key
    #[command(after_help = "\
Examples:
  sortie contexts delete sortie.example.com")]
    Delete {
        /// Name of the context
        #[arg(value_parser = context_name)]
        name: String,
    },
}
