//! Arguments of `sortie runs`.

use clap::{Args, Subcommand};
use sortie_api::{RunId, RunStatus, ScheduleId};

use super::{
    ReplayArgs, artifacts, export,
    number::{at_least_one, not_negative},
    resume,
};
use crate::render::{Render, maybe};

/// Filters of a list of runs.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WhichRuns {
    /// Only runs with this status
    #[arg(long)]
    pub(crate) status: Option<RunStatus>,
    /// Only runs with this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// Only runs that this schedule has started
    #[arg(long, value_name = "ID")]
    pub(crate) schedule: Option<ScheduleId>,
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<String>,
    /// Only runs with this model
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Only runs with this text in the first 2,000 characters of description and prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,
    /// Maximum number of entries
    #[arg(long, default_value_t = 20, value_parser = at_least_one)]
    pub(crate) limit: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first
    List {
        #[command(flatten)]
        which: WhichRuns,
        /// Keep the list up to date until you leave; with --json, print each run that changes on a line
        #[arg(long)]
        watch: bool,
        #[command(flatten)]
        render: Render,
    },
    /// Show a run
    Get {
        run: RunId,
        #[command(flatten)]
        render: Render,
    },
    /// Cancel a run
    Cancel {
        run: RunId,
        #[command(flatten)]
        render: Render,
    },
    /// Resume runs whose command was killed, and follow them to their end
    Resume(resume::ResumeArgs),
    /// Follow a run to its end like `sortie run`; Ctrl-C leaves it running
    #[command(after_help = "\
Examples:
  sortie runs watch run_01k…

The answer goes to standard output, everything else to standard error. The exit
code is that of `sortie run`.")]
    Watch {
        /// ID of a run
        run: RunId,
        #[command(flatten)]
        render: Render,
    },
    /// Print what the commands of a run printed
    #[command(after_help = "\
Examples:
  sortie runs logs run_01k…
  sortie runs logs -f run_01k… | grep -i error")]
    Logs {
        /// ID of a run
        run: RunId,
        /// Also print output as it comes, until the run ends
        #[arg(long, short)]
        follow: bool,
    },
    /// Explain the status of a run: why it failed, waits or still runs, and what to do next
    #[command(after_help = "\
Examples:
  sortie runs why run_01k…")]
    Why {
        /// ID of a run
        run: RunId,
        #[command(flatten)]
        render: Render,
    },
    /// Print a run's transcript to standard output, and follow it to its end
    #[command(after_help = "\
Examples:
  sortie runs events run_01k… >transcript.txt
  sortie runs events run_01k… --json --after 12")]
    Events {
        /// ID of a run
        run: RunId,
        /// Only events after this one
        #[arg(long, value_name = "ID", default_value_t = 0, value_parser = not_negative)]
        after: i64,
        #[command(flatten)]
        render: Render,
    },
    /// Start a run again with the definition that it used
    Replay(Box<ReplayArgs>),
    /// Write a run that has ended as a cassette: JSON lines that replay it offline
    Export(export::ExportArgs),
    /// List the attempts to deliver a run's callback
    Deliveries {
        run: RunId,
        #[command(flatten)]
        render: Render,
    },
    /// Send a finished run's callback again
    Redeliver {
        run: RunId,
        #[command(flatten)]
        render: Render,
    },
    /// List, print or save the files that a run left under outputs/
    Artifacts(artifacts::ArtifactsArgs),
    /// Print the definition that a run used, as JSON
    Definition { run: RunId },
}

impl WhichRuns {
    /// Returns the filters that a run matches at all times or never.
    pub(crate) fn lasting_filters(&self) -> Vec<(&'static str, String)> {
        let mut filters = self.filters();
        filters.retain(|(name, _)| *name != "status");
        filters
    }

    /// The filters as the API takes them.
    pub(crate) fn filters(&self) -> Vec<(&'static str, String)> {
        given([
            ("status", maybe(self.status)),
            ("tag", self.tag.clone()),
            ("schedule", maybe(self.schedule)),
            ("workflow", self.workflow.clone()),
            ("model", self.model.clone()),
            ("q", self.search.clone()),
        ])
    }
}

/// Returns the parameters that have a value.
pub(super) fn given<const N: usize>(
    pairs: [(&'static str, Option<String>); N],
) -> Vec<(&'static str, String)> {
    pairs
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}
