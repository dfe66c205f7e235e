//! The flags of `sortie runs export`.

use std::path::PathBuf;

use clap::Args;

use super::RunRef;

#[derive(Debug, Args)]
#[command(after_help = "\
A cassette holds the task, the answers of the model, the results of the tools
(the first 16 KiB of each) and the costs, one JSON object a line. Credentials of
the run are redacted. Look for other secrets before you share a cassette.

Examples:
  sortie runs export run_01k… -o report.jsonl
  sortie runs export run_01k… --no-content | head -1")]
pub(crate) struct ExportArgs {
    /// ID of a run, its beginning, or @last for the newest run
    pub(crate) run: RunRef,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace every character of the task, the answers and the results with x
    #[arg(long)]
    pub(crate) no_content: bool,
}
