//! The commands of `sortie workflows` and their flags.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Name;
use crate::render::Render;

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowsCommand {
    /// List the saved workflows
    #[command(after_help = "\
Examples:
  sortie workflows list")]
    List(Render),
    /// Show a workflow
    #[command(after_help = "\
Examples:
  sortie workflows get daily-report
  sortie workflows get daily-report -o toml >daily-report.toml")]
    Get {
        /// Name of the workflow
        name: Name,
        #[command(flatten)]
        render: Render,
    },
    /// Change a workflow in an editor: that of VISUAL or EDITOR
    #[command(after_help = "\
Examples:
  sortie workflows edit daily-report")]
    Edit {
        /// Name of the workflow
        name: Name,
    },
    /// Save workflows from files, each in place of the one of its name
    Put(PutWorkflows),
    /// Delete a workflow that no schedule uses
    #[command(after_help = "\
Examples:
  sortie workflows delete daily-report weekly-report")]
    Delete {
        /// Name of a workflow
        #[arg(required = true, value_name = "NAME")]
        names: Vec<Name>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
A file has the fields of a run request, as TOML, YAML or JSON by its ending. The
workflow is named by --name, else by `name` in the file, else as the file. What
`get -o toml` prints can be put again.

Examples:
  sortie workflows put daily-report.toml
  sortie workflows put workflows/*.yaml
  sortie workflows put - --name daily-report < definition.json")]
pub(crate) struct PutWorkflows {
    /// Files in TOML, YAML or JSON, or `-` for JSON on standard input
    #[arg(required = true, value_name = "FILE|-")]
    pub(crate) files: Vec<PathBuf>,
    /// The workflow's name, where there is one file
    #[arg(long)]
    pub(crate) name: Option<Name>,
    #[command(flatten)]
    pub(crate) render: Render,
}
