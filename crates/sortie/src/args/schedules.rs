//! The commands of `sortie schedules` and their flags.

use clap::{Args, Subcommand, ValueEnum};
use sortie_api::{Micros, Timestamp, schedule::Overlap};

use super::{
    CallbackArgs, Document, Name, Paging, Reference,
    amount::cost,
    number::{up_to_a_hundred, whole},
};
use crate::render::Render;

#[derive(Debug, Subcommand)]
pub(crate) enum SchedulesCommand {
    /// List the schedules, newest first
    #[command(after_help = "\
Examples:
  sortie schedules list")]
    List(Render),
    /// Show a schedule
    #[command(after_help = "\
Examples:
  sortie schedules get 'Morning report'")]
    Get {
        /// Name or ID of the schedule, or the beginning of its ID
        schedule: Reference,
        #[command(flatten)]
        render: Render,
    },
    /// Start a workflow on a timetable
    Create(Box<CreateScheduleArgs>),
    /// Change a schedule; fields that are not given stay
    Update(Box<UpdateScheduleArgs>),
    /// Delete schedules with their history; their runs stay
    #[command(after_help = "\
Examples:
  sortie schedules delete 'Morning report'")]
    Delete {
        /// Name or ID of a schedule, or the beginning of its ID
        #[arg(required = true, value_name = "SCHEDULE")]
        schedules: Vec<Reference>,
    },
    /// Start a run of a schedule now
    #[command(after_help = "\
Examples:
  sortie schedules trigger 'Morning report'")]
    Trigger {
        /// Name or ID of the schedule, or the beginning of its ID
        schedule: Reference,
        #[command(flatten)]
        render: Render,
    },
    /// Print the next occurrences
    #[command(after_help = "\
Examples:
  sortie schedules next 'Morning report' --count 3")]
    Next {
        /// Name or ID of the schedule, or the beginning of its ID
        schedule: Reference,
        /// Number of occurrences
        #[arg(long, default_value_t = 10, value_parser = up_to_a_hundred)]
        count: u32,
        #[command(flatten)]
        render: Render,
    },
    /// Print the history of a schedule, the latest occurrence first
    #[command(after_help = "\
Examples:
  sortie schedules fires 'Morning report' --limit 50")]
    Fires {
        /// Name or ID of the schedule, or the beginning of its ID
        schedule: Reference,
        #[command(flatten)]
        paging: Paging,
        #[command(flatten)]
        render: Render,
    },
    /// Disable a schedule, or skip its occurrences until a time
    #[command(after_help = "\
Examples:
  sortie schedules pause 'Morning report' --until 2026-12-24T18:00:00Z")]
    Pause {
        /// Name or ID of the schedule, or the beginning of its ID
        schedule: Reference,
        /// Skip the occurrences before this time, as 2026-12-24T18:00:00Z
        #[arg(long, value_name = "TIME", value_parser = time)]
        until: Option<Timestamp>,
        #[command(flatten)]
        render: Render,
    },
    /// Enable a schedule again, from its next occurrence
    #[command(after_help = "\
Examples:
  sortie schedules resume 'Morning report'")]
    Resume {
        /// Name or ID of the schedule, or the beginning of its ID
        schedule: Reference,
        #[command(flatten)]
        render: Render,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
CRON has five fields: minute, hour, day of month, month and day of week; or it is
one of @hourly, @daily, @weekly, @monthly, @yearly.

Examples:
  sortie schedules create daily-report '30 7 * * MON-FRI' --timezone Europe/Berlin
  sortie schedules create backup @hourly --overlap skip --input '{\"full\": false}'")]
pub(crate) struct CreateScheduleArgs {
    /// The saved workflow that is started
    pub(crate) workflow: Name,
    /// Cron expression
    pub(crate) cron: String,
    /// Create the schedule disabled
    #[arg(long)]
    pub(crate) disabled: bool,
    #[command(flatten)]
    pub(crate) fields: ScheduleFields,
    #[command(flatten)]
    pub(crate) render: Render,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sortie schedules update 'Morning report' --cron '0 8 * * MON-FRI' --clear callback")]
pub(crate) struct UpdateScheduleArgs {
    /// Name or ID of the schedule, or the beginning of its ID
    pub(crate) schedule: Reference,
    /// The saved workflow that is started
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<Name>,
    /// Cron expression
    #[arg(long)]
    pub(crate) cron: Option<String>,
    #[command(flatten)]
    pub(crate) fields: ScheduleFields,
    /// Put this back to its default; may be given several times
    #[arg(long = "clear", value_enum, value_name = "FIELD")]
    pub(crate) clear: Vec<Clearable>,
    #[command(flatten)]
    pub(crate) render: Render,
}

/// Optional fields of a schedule.
#[derive(Debug, Args)]
pub(crate) struct ScheduleFields {
    /// Name of the schedule, for people
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The IANA time zone of CRON [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,
    /// Task data of every run: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) input: Option<Document>,
    /// Rule while an earlier run is not final: allow, skip, `queue_one` or `cancel_other` [default: allow]
    #[arg(long, value_name = "POLICY")]
    pub(crate) overlap: Option<Overlap>,
    /// Maximum delay of an occurrence that still starts a run, in seconds; 0 is never [default: 3600]
    #[arg(long, value_name = "SECONDS", value_parser = whole::<i64>)]
    pub(crate) catch_up: Option<i64>,
    /// Maximum jitter in seconds; each schedule uses a fixed offset within it [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = whole::<i64>)]
    pub(crate) jitter: Option<i64>,
    /// Skip the occurrences before this time, as 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) paused_until: Option<Timestamp>,
    /// Disable the schedule after so many consecutive runs without success
    #[arg(long, value_name = "COUNT", value_parser = whole::<i64>)]
    pub(crate) max_failures: Option<i64>,
    /// Budget of each run, such as $0.50 or 0.5usd
    #[arg(long, value_name = "AMOUNT", value_parser = cost)]
    pub(crate) max_cost: Option<Micros>,
    #[command(flatten)]
    pub(crate) callback: CallbackArgs,
}

/// Fields that can be put back to their default.
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
