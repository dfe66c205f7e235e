//! The flags of `sortie runs export`.

use std::path::PathBuf;

use clap::Args;
use sortie_api::RunId;

use super::EngineArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
A cassette holds the task, what the model said, what the tools answered (the
first 16 KiB of each) and what it cost, one JSON object a line. Credentials of
the run are not in it; look through it for others before you pass it on.

  sortie runs export run_01k… -o report.jsonl
  sortie runs export run_01k… --no-content | head -1")]
pub(crate) struct ExportArgs {
    pub(crate) run: RunId,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Leave lengths alone of the task, the answers and the results
    #[arg(long)]
    pub(crate) no_content: bool,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}
