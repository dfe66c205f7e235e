//! Arguments of `sortie runs`.

use clap::{Args, Subcommand};
use sortie_api::{Micros, RunStatus, ScheduleId};

use super::{
    Label, Moment, Paging, ReplayArgs, RunRef, amount::cost, artifacts, export, number::not_negative, resume,
};
use crate::{client::Parameter, render::Render};

/// Filters of a list of runs.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WhichRuns {
    /// Only runs with this status, or one of several with commas between them
    #[arg(long, value_delimiter = ',')]
    pub(crate) status: Vec<RunStatus>,
    /// Only runs with this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// Only runs with this pair of metadata; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) metadata: Vec<Label>,
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
    /// Only runs with this text in their error
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// Only runs that cost at least this, such as $0.50
    #[arg(long, value_name = "AMOUNT", value_parser = cost)]
    pub(crate) min_cost: Option<Micros>,
    /// Only runs created from this time on: a time, a day, or a time before now such as 2h or 7d
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Moment>,
    /// Only runs created before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Moment>,
    #[command(flatten)]
    pub(crate) paging: Paging,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first
    #[command(after_help = "\
Examples:
  sortie runs list --status failed --since 2d
  sortie runs list --workflow daily-report --fields id,status,cost_micros
  sortie runs list --watch")]
    List {
        #[command(flatten)]
        which: WhichRuns,
        /// Keep the list up to date until you leave; with --json, print each run that changes on a line
        #[arg(long)]
        watch: bool,
        #[command(flatten)]
        render: Render,
    },
    /// Show runs
    #[command(after_help = "\
Examples:
  sortie runs get @last
  sortie runs get 01kafs6w1cef --json")]
    Get {
        /// ID of a run, its beginning, or @last for the newest run
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<RunRef>,
        #[command(flatten)]
        render: Render,
    },
    /// Cancel runs; those that have ended stay as they are
    #[command(after_help = "\
Examples:
  sortie runs cancel 01kafs6w1cef
  sortie runs cancel $(sortie runs list --tag nightly --status queued -q)")]
    Cancel {
        /// ID of a run, its beginning, or @last for the newest run
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<RunRef>,
        #[command(flatten)]
        render: Render,
    },
    /// Resume runs after their command was killed, and follow them to their end
    Resume(resume::ResumeArgs),
    /// Follow a run to its end like `sortie run`; Ctrl-C leaves it running
    #[command(after_help = "\
Examples:
  sortie runs watch @last

The answer goes to standard output, everything else to standard error. The exit
code is that of `sortie run`.")]
    Watch {
        /// ID of a run, its beginning, or @last for the newest run
        run: RunRef,
        /// Print the event objects one a line, and the finished run last
        #[arg(long)]
        json: bool,
    },
    /// Print what the commands of a run printed
    #[command(after_help = "\
Examples:
  sortie runs logs @last
  sortie runs logs -f @last | grep -i error")]
    Logs {
        /// ID of a run, its beginning, or @last for the newest run
        run: RunRef,
        /// Also print output as it comes, until the run ends
        #[arg(long, short)]
        follow: bool,
    },
    /// Explain the status of a run: why it failed, waits or still runs, and what to do next
    #[command(after_help = "\
Examples:
  sortie runs why @last")]
    Why {
        /// ID of a run, its beginning, or @last for the newest run
        run: RunRef,
        #[command(flatten)]
        render: Render,
    },
    /// Print a run's transcript to standard output, and follow it to its end
    #[command(after_help = "\
Examples:
  sortie runs events @last >transcript.txt
  sortie runs events @last --json --after 12")]
    Events {
        /// ID of a run, its beginning, or @last for the newest run
        run: RunRef,
        /// Only events after this one
        #[arg(long, value_name = "ID", default_value_t = 0, value_parser = not_negative)]
        after: i64,
        /// Print the event objects one a line, and the finished run last
        #[arg(long)]
        json: bool,
    },
    /// Start a run again with the definition that it used
    Replay(Box<ReplayArgs>),
    /// Write a run that has ended as a cassette: JSON lines that replay it offline
    Export(export::ExportArgs),
    /// List the attempts to deliver a run's callback
    #[command(after_help = "\
Examples:
  sortie runs deliveries 01kafs6w1cef")]
    Deliveries {
        /// ID of a run, its beginning, or @last for the newest run
        run: RunRef,
        #[command(flatten)]
        render: Render,
    },
    /// Send a finished run's callback again
    #[command(after_help = "\
Examples:
  sortie runs redeliver 01kafs6w1cef")]
    Redeliver {
        /// ID of a run, its beginning, or @last for the newest run
        run: RunRef,
        #[command(flatten)]
        render: Render,
    },
    /// List, print or save the files that a run left under outputs/
    Artifacts(artifacts::ArtifactsArgs),
    /// Print the definition that a run used, as JSON
    #[command(after_help = "\
Examples:
  sortie runs definition @last")]
    Definition {
        /// ID of a run, its beginning, or @last for the newest run
        run: RunRef,
    },
}

impl WhichRuns {
    /// Returns the filters that a run matches at all times or never.
    pub(crate) fn lasting_filters(&self) -> Vec<Parameter> {
        let mut filters = self.filters();
        filters.retain(|(name, _)| *name != "status");
        filters
    }

    /// The filters as the API takes them.
    pub(crate) fn filters(&self) -> Vec<Parameter> {
        let statuses: Vec<&str> = self.status.iter().map(|status| status.as_str()).collect();
        let metadata = self.metadata.iter();
        let metadata = metadata.map(|pair| (format!("metadata.{}", pair.key).into(), pair.value.clone()));
        let mut filters = given([
            ("status", (!statuses.is_empty()).then(|| statuses.join(","))),
            ("tag", self.tag.clone()),
            ("schedule", self.schedule.map(|id| id.to_string())),
            ("workflow", self.workflow.clone()),
            ("model", self.model.clone()),
            ("q", self.search.clone()),
            ("error", self.error.clone()),
            (
                "min_cost_micros",
                self.min_cost.map(|cost| cost.get().to_string()),
            ),
            ("since", self.since.map(|at| at.to_string())),
            ("until", self.until.map(|at| at.to_string())),
        ]);
        filters.extend(metadata);
        filters
    }
}

/// Returns the parameters that have a value.
pub(super) fn given<const N: usize>(pairs: [(&'static str, Option<String>); N]) -> Vec<Parameter> {
    pairs
        .into_iter()
        .filter_map(|(name, value)| Some((name.into(), value?)))
        .collect()
}
