//! The arguments of `sortie runs resume`.

use clap::Args;

use super::{NodeArgs, RunRef};

#[derive(Debug, Args)]
#[command(after_help = "\
A `sortie run` without a server works on its run itself. Where it is killed, its
run stays as it is: this command goes on after the last step that was stored.
An engine that serves goes on with such runs by itself.

Ctrl-C leaves the runs as they are then. The exit code is that of `sortie run`,
with several runs that of the first which did not succeed.")]
pub(crate) struct ResumeArgs {
    /// Only these runs [default: all that nobody works on]
    pub(crate) runs: Vec<RunRef>,
    /// Print the event objects one a line, and each finished run after its events
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}
