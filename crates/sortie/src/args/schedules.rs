//! The commands of `sortie schedules` and their flags.

use clap::{Args, Subcommand, ValueEnum};
use sortie_api::{ScheduleId, Timestamp, schedule::Overlap};

use super::{Document, EngineArgs, ListArgs, Name};

#[derive(Debug, Subcommand)]
pub(crate) enum SchedulesCommand {
    /// List the schedules, newest first
    List(ListArgs),
    /// Show a schedule
    Get {
        schedule: ScheduleId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Start a workflow on a timetable
    Create(Box<CreateScheduleArgs>),
    /// Change a schedule: what is not given stays
    Update(Box<UpdateScheduleArgs>),
    /// Delete a schedule with its history; its runs stay
    Delete {
        schedule: ScheduleId,
        #[command(flatten)]
        engine: EngineArgs,
    },
    /// Start a run of a schedule now
    Trigger {
        schedule: ScheduleId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Print the instants that come next
    Next {
        schedule: ScheduleId,
        /// How many
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
        count: u32,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Print what became of a schedule's instants, the latest first
    Fires {
        schedule: ScheduleId,
        /// How many at most
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Switch a schedule off, or skip its instants until a time
    Pause {
        schedule: ScheduleId,
        /// Skip the instants before this time, as 2026-12-24T18:00:00Z
        #[arg(long, value_name = "TIME", value_parser = time)]
        until: Option<Timestamp>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Switch a schedule on again, from its next instant
    Resume {
        schedule: ScheduleId,
        #[command(flatten)]
        list: ListArgs,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
CRON has five fields: minute, hour, day of month, month and day of week; or it is
one of @hourly, @daily, @weekly, @monthly, @yearly.

  sortie schedules create daily-report '30 7 * * MON-FRI' --timezone Europe/Berlin
  sortie schedules create backup @hourly --overlap skip --input '{\"full\": false}'")]
pub(crate) struct CreateScheduleArgs {
    /// The saved workflow that is started
    pub(crate) workflow: Name,
    /// When
    pub(crate) cron: String,
    /// Make it switched off
    #[arg(long)]
    pub(crate) disabled: bool,
    #[command(flatten)]
    pub(crate) fields: ScheduleFields,
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

#[derive(Debug, Args)]
pub(crate) struct UpdateScheduleArgs {
    pub(crate) schedule: ScheduleId,
    /// The saved workflow that is started
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<Name>,
    /// When
    #[arg(long)]
    pub(crate) cron: Option<String>,
    #[command(flatten)]
    pub(crate) fields: ScheduleFields,
    /// Put this back to its default; may be given several times
    #[arg(long = "clear", value_enum, value_name = "FIELD")]
    pub(crate) clear: Vec<Clearable>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

/// What a schedule may have.
#[derive(Debug, Args)]
pub(crate) struct ScheduleFields {
    /// What it is called, for people
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The IANA time zone of CRON [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,
    /// Task data of every run: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) input: Option<Document>,
    /// What happens while an earlier run is not final: allow, skip, `queue_one` or `cancel_other` [default: allow]
    #[arg(long, value_name = "POLICY")]
    pub(crate) overlap: Option<Overlap>,
    /// How late an instant may still start a run, in seconds; 0 is never [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) catch_up: Option<i64>,
    /// Start every run later by a fixed part of this, in seconds [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) jitter: Option<i64>,
    /// Skip the instants before this time, as 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) paused_until: Option<Timestamp>,
    /// Switch it off when so many runs in a row did not succeed
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_failures: Option<i64>,
    /// Budget of each run in millionths of a dollar
    #[arg(long, value_name = "MICROS")]
    pub(crate) max_cost: Option<i64>,
    /// Send a signed request here when a run is final
    #[arg(long, value_name = "URL", requires = "callback_secret_env")]
    pub(crate) callback: Option<String>,
    /// Read the key of the callbacks' signature from this variable
    #[arg(long, value_name = "VARIABLE", requires = "callback")]
    pub(crate) callback_secret_env: Option<String>,
}

/// What can be put back to its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clearable {
    Name,
    Timezone,
    Input,
    Overlap,
    CatchUp,
    Jitter,
    PausedUntil,
    MaxFailures,
    MaxCost,
    Callback,
}

/// A point in time as the API writes it.
fn time(text: &str) -> Result<Timestamp, String> {
    serde_json::from_value(text.into()).map_err(|_| "a time is written as 2026-12-24T18:00:00Z".to_owned())
}
