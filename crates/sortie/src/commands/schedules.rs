//! `sortie schedules`: workflows that are started on a timetable.

use sortie_api::{
    Fire, Micros, Run, Schedule, ScheduleId, Timestamp,
    request::Callback,
    schedule::{CreateSchedule, FireTrigger, NextFire, UpdateSchedule},
};

use super::{Context, connections::variable, run::json};
use crate::{
    args::{
        CallbackArgs, Clearable, CreateScheduleArgs, ScheduleFields, SchedulesCommand, UpdateScheduleArgs,
    },
    client::{delete, get, patch, post, post_json},
    config::Environment,
    failure::{Exit, Result},
    render::{Field, Record, Render, maybe, some},
    terminal,
};

const SCHEDULES: &str = "v1/schedules";

fn path(schedule: ScheduleId, rest: &str) -> String {
    format!("{SCHEDULES}/{schedule}{rest}")
}

impl Record for Schedule {
    const COLUMNS: &'static [Field<Self>] = &[
        ("SCHEDULE", |schedule| some(schedule.id)),
        ("WORKFLOW", |schedule| some(&schedule.workflow)),
        ("NEXT RUN", |schedule| {
            Some(
                schedule
                    .next_run_at
                    .map_or_else(|| "off".to_owned(), |at| at.to_string()),
            )
        }),
        ("CRON", |schedule| some(&schedule.cron)),
        ("ZONE", |schedule| some(&schedule.timezone)),
        ("NAME", |schedule| schedule.name.clone()),
    ];
    const LINES: &'static [Field<Self>] = &[
        ("schedule", |schedule| some(schedule.id)),
        ("name", |schedule| schedule.name.clone()),
        ("workflow", |schedule| some(&schedule.workflow)),
        ("cron", |schedule| some(&schedule.cron)),
        ("timezone", |schedule| some(&schedule.timezone)),
        ("enabled", |schedule| some(schedule.enabled)),
        ("overlap", |schedule| some(schedule.overlap)),
        ("catch-up", |schedule| {
            some(format!("{} s", schedule.catch_up_window_seconds))
        }),
        ("jitter", |schedule| {
            let seconds = schedule.jitter_seconds;
            (seconds > 0).then(|| format!("{seconds} s"))
        }),
        ("paused", |schedule| maybe(schedule.paused_until)),
        ("failures", |schedule| {
            let most = schedule.max_consecutive_failures?;
            some(format!("off after {most} in a row"))
        }),
        ("budget", |schedule| maybe(schedule.max_cost_micros)),
        ("callback", |schedule| some(&schedule.callback.as_ref()?.url)),
        ("input", |schedule| some(schedule.input.as_ref()?.get())),
        ("next run", |schedule| maybe(schedule.next_run_at)),
        ("last run", |schedule| maybe(schedule.last_run_at)),
        ("run", |schedule| maybe(schedule.last_run_id)),
        ("error", |schedule| schedule.last_error.clone()),
    ];
}

impl Record for NextFire {
    const COLUMNS: &'static [Field<Self>] = &[
        ("INSTANT", |next| some(next.instant)),
        ("RUN AT", |next| some(next.run_at)),
    ];
}

impl Record for Fire {
    const COLUMNS: &'static [Field<Self>] = &[
        ("INSTANT", |fire| some(fire.instant)),
        ("BY", |fire| {
            some(match fire.trigger {
                FireTrigger::Timetable => "timetable",
                FireTrigger::Manual => "hand",
            })
        }),
        ("OUTCOME", |fire| some(fire.outcome.as_str())),
        ("RUN", |fire| maybe(fire.run_id)),
        ("WHY", |fire| {
            match (&fire.reason, fire.instants, fire.last_instant) {
                (Some(reason), Some(instants), Some(last)) => {
                    some(format!("{reason} ({instants} occurrences to {last})"))
                }
                (reason, _, _) => reason.clone(),
            }
        }),
    ];
}

pub(super) async fn execute(context: &Context, command: SchedulesCommand) -> Result<Exit> {
    match command {
        SchedulesCommand::List(render) => context.pages::<Schedule>(render, SCHEDULES, &[], None).await,
        SchedulesCommand::Get { schedule, render } => {
            context.one::<Schedule>(render, get(path(schedule, ""))).await
        }
        SchedulesCommand::Create(args) => {
            let request = new(&args, &context.environment)?;
            let create = post_json(SCHEDULES, &request);
            context.one::<Schedule>(args.render, create).await
        }
        SchedulesCommand::Update(args) => {
            let changes = changes(&args, &context.environment)?;
            update(context, args.schedule, &changes, args.render).await
        }
        SchedulesCommand::Delete { schedule } => {
            let note = |(): &()| format!("schedule {schedule} is deleted");
            context
                .done(Render::default(), delete(path(schedule, "")), note)
                .await
        }
        SchedulesCommand::Trigger { schedule, render } => {
            let trigger = post(path(schedule, "/trigger"));
            let run: Run = context.ask(render, trigger).await?;
            render.answer(&run, |run| Ok(terminal::print_line(&run.id.to_string())?))
        }
        SchedulesCommand::Next {
            schedule,
            count,
            render,
        } => {
            let next = get(path(schedule, &format!("/next?count={count}")));
            context.list::<NextFire>(render, next).await
        }
        SchedulesCommand::Fires {
            schedule,
            limit,
            render,
        } => {
            let fires = path(schedule, "/fires");
            context.pages::<Fire>(render, &fires, &[], Some(limit)).await
        }
        SchedulesCommand::Pause {
            schedule,
            until,
            render,
        } => update(context, schedule, &pause(until), render).await,
        SchedulesCommand::Resume { schedule, render } => update(context, schedule, &resume(), render).await,
    }
}

async fn update(
    context: &Context,
    schedule: ScheduleId,
    changes: &UpdateSchedule,
    render: Render,
) -> Result<Exit> {
    let update = patch(path(schedule, ""), changes);
    context.one::<Schedule>(render, update).await
}

fn new(args: &CreateScheduleArgs, environment: &Environment) -> Result<CreateSchedule> {
    let fields = &args.fields;
    Ok(CreateSchedule {
        name: fields.name.clone(),
        workflow: args.workflow.to_string(),
        cron: args.cron.clone(),
        timezone: fields.timezone.clone(),
        input: input(fields)?,
        enabled: args.disabled.then_some(false),
        overlap: fields.overlap,
        catch_up_window_seconds: fields.catch_up,
        jitter_seconds: fields.jitter,
        paused_until: fields.paused_until,
        max_consecutive_failures: fields.max_failures,
        max_cost_micros: fields.max_cost.map(Micros::get),
        callback: callback(&fields.callback, environment)?,
    })
}

fn input(fields: &ScheduleFields) -> Result<Option<Box<serde_json::value::RawValue>>> {
    let input = fields.input.as_ref();
    input.map(|document| json("--input", document)).transpose()
}

/// Returns the receiver of callbacks, with its key from the environment.
pub(super) fn callback(args: &CallbackArgs, environment: &Environment) -> Result<Option<Callback>> {
    let (Some(url), Some(name)) = (&args.callback_url, &args.callback_secret_env) else {
        return Ok(None);
    };
    Ok(Some(Callback {
        url: url.clone(),
        secret: variable(environment, name)?,
    }))
}

/// Returns the changes: given fields are set, cleared ones are `null`, all others stay.
fn changes(args: &UpdateScheduleArgs, environment: &Environment) -> Result<UpdateSchedule> {
    let fields = &args.fields;
    let clears = |field: Clearable| args.clear.contains(&field);
    macro_rules! set {
        ($value:expr, $field:ident) => {
            $value
                .map(Some)
                .or_else(|| clears(Clearable::$field).then_some(None))
        };
    }
    Ok(UpdateSchedule {
        name: set!(fields.name.clone(), Name),
        workflow: args.workflow.as_ref().map(ToString::to_string),
        cron: args.cron.clone(),
        timezone: set!(fields.timezone.clone(), Timezone),
        input: set!(input(fields)?, Input),
        enabled: None,
        overlap: set!(fields.overlap, Overlap),
        catch_up_window_seconds: set!(fields.catch_up, CatchUp),
        jitter_seconds: set!(fields.jitter, Jitter),
        paused_until: set!(fields.paused_until, PausedUntil),
        max_consecutive_failures: set!(fields.max_failures, MaxFailures),
        max_cost_micros: set!(fields.max_cost.map(Micros::get), MaxCost),
        callback: set!(callback(&fields.callback, environment)?, Callback),
    })
}

fn pause(until: Option<Timestamp>) -> UpdateSchedule {
    UpdateSchedule {
        enabled: until.is_none().then_some(Some(false)),
        paused_until: until.map(Some),
        ..UpdateSchedule::default()
    }
}

fn resume() -> UpdateSchedule {
    UpdateSchedule {
        enabled: Some(Some(true)),
        paused_until: Some(None),
        ..UpdateSchedule::default()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        args::{Cli, Command},
        render::table,
    };

    fn environment() -> Environment {
        [("HOOK".to_owned(), "hush".to_owned())].into_iter().collect()
    }

    /// Returns the body that a command line sends.
    fn sent(line: &[&str]) -> Value {
        let whole = ["sortie", "schedules"].iter().chain(line);
        let Command::Schedules(command) = Cli::try_parse_from(whole).unwrap().command else {
            panic!("another command")
        };
        match command {
            SchedulesCommand::Create(args) => serde_json::to_value(new(&args, &environment()).unwrap()),
            SchedulesCommand::Update(args) => serde_json::to_value(changes(&args, &environment()).unwrap()),
            SchedulesCommand::Pause { until, .. } => serde_json::to_value(pause(until)),
            SchedulesCommand::Resume { .. } => serde_json::to_value(resume()),
            other @ (SchedulesCommand::List(_)
            | SchedulesCommand::Get { .. }
            | SchedulesCommand::Delete { .. }
            | SchedulesCommand::Trigger { .. }
            | SchedulesCommand::Next { .. }
            | SchedulesCommand::Fires { .. }) => panic!("{other:?}"),
        }
        .unwrap()
    }

    const ID: &str = "sched_01kafs6w1cefkstv6qr1ptb0mp";

    #[test]
    fn flags_become_fields() {
        assert_eq!(
            sent(&["create", "w", "@daily"]),
            json!({"workflow": "w", "cron": "@daily"})
        );
        assert_eq!(
            sent(&[
                "create",
                "w",
                "0 7 * * *",
                "--name",
                "n",
                "--timezone",
                "UTC",
                "--input",
                r#"{"a": 1}"#,
                "--overlap",
                "cancel_other",
                "--catch-up",
                "0",
                "--jitter",
                "5",
                "--paused-until",
                "2026-12-24T18:00:00Z",
                "--max-failures",
                "3",
                "--max-cost",
                "$0.000009",
                "--callback",
                "https://e.com",
                "--callback-secret-env",
                "HOOK",
                "--disabled"
            ]),
            json!({
                "workflow": "w", "cron": "0 7 * * *", "name": "n", "timezone": "UTC", "input": {"a": 1},
                "overlap": "cancel_other", "catch_up_window_seconds": 0, "jitter_seconds": 5,
                "paused_until": "2026-12-24T18:00:00.000Z", "max_consecutive_failures": 3, "max_cost_micros": 9,
                "callback": {"url": "https://e.com", "secret": "hush"}, "enabled": false
            })
        );
    }

    #[test]
    fn a_change_sends_what_is_given_and_null_for_what_is_cleared() {
        assert_eq!(
            sent(&[
                "update", ID, "--cron", "@hourly", "--clear", "name", "--clear", "callback"
            ]),
            json!({"cron": "@hourly", "name": null, "callback": null})
        );
        assert_eq!(sent(&["pause", ID]), json!({"enabled": false}));
        assert_eq!(
            sent(&["pause", ID, "--until", "2026-12-24T18:00:00Z"]),
            json!({"paused_until": "2026-12-24T18:00:00.000Z"})
        );
        assert_eq!(
            sent(&["resume", ID]),
            json!({"enabled": true, "paused_until": null})
        );
    }

    #[test]
    fn a_history_reads_well() {
        let fires: Vec<Fire> = serde_json::from_value(json!([
            {"instant": "2026-11-20T09:12:41.504Z", "trigger": "manual", "outcome": "started",
             "run_id": "run_01kafs6w1cefkstv6qr1ptb0mq", "recorded_at": "2026-11-20T09:12:41.504Z"},
            {"instant": "2026-11-20T06:30:00.000Z", "trigger": "timetable", "outcome": "skipped",
             "reason": "missed", "instants": 120, "last_instant": "2026-11-20T08:29:00.000Z",
             "recorded_at": "2026-11-20T09:00:00.000Z"}
        ]))
        .unwrap();
        insta::assert_snapshot!(table(&fires));
    }

    #[test]
    fn a_schedule_shows_what_it_has() {
        let schedule: Schedule = serde_json::from_value(json!({
            "id": ID, "name": "Daily\u{1b}[2J", "workflow": "w", "cron": "@daily", "timezone": "UTC", "enabled": true,
            "overlap": "skip", "catch_up_window_seconds": 3_600, "jitter_seconds": 0,
            "next_run_at": "2026-11-23T00:00:00.000Z", "last_error": "it broke",
            "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-20T21:30:00.000Z"
        }))
        .unwrap();
        insta::assert_snapshot!(format!("{}\n{}", schedule.text(), table(&[schedule])));
    }
}
