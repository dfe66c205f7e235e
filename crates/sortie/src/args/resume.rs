//! The arguments of `sortie runs resume`.

use clap::Args;

use super::{NodeArgs, RunRef};

#[derive(Debug, Args)]
#[command(after_help = "\
Without a server, `sortie run` works on its run in its own process. If that is
killed, this command continues the run after the last stored step. `sortie
serve` continues such runs at its start.

Ctrl-C leaves the runs unfinished. Exit codes as in `sortie run`; with several
runs, that of the first failure.

Examples:
  sortie runs resume
  sortie runs resume run_01kafs6w1cefkstv6qr1ptb0mp")]
pub(crate) struct ResumeArgs {
    /// Only these runs [default: all unfinished runs without an engine]
    pub(crate) runs: Vec<RunRef>,
    /// Print the event objects one a line, and each finished run after its events
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}
