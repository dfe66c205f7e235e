//! `sortie schedules`: workflows that are started on a timetable.

use sortie_api::{
    Fire, Schedule, ScheduleId, Timestamp,
    request::Callback,
    schedule::{CreateSchedule, FireTrigger, UpdateSchedule},
};

use super::{Context, connections::variable, print_json, run::json, table};
use crate::{
    args::{Clearable, CreateScheduleArgs, ListArgs, ScheduleFields, SchedulesCommand, UpdateScheduleArgs},
    config::Environment,
    failure::{Exit, Result},
    terminal::{self, harmless},
};

pub(super) async fn execute(context: &Context, command: SchedulesCommand) -> Result<Exit> {
    match command {
        SchedulesCommand::List(args) => list(context, &args).await,
        SchedulesCommand::Get { schedule, list } => get(context, schedule, &list).await,
        SchedulesCommand::Create(args) => create(context, &args).await,
        SchedulesCommand::Update(args) => {
            let patch = patch(&args, &context.environment)?;
            update(context, args.schedule, &patch, &args.list).await
        }
        SchedulesCommand::Delete { schedule, engine } => {
            let connection = context.records(&engine).await?;
            let deleted = connection.client.delete_schedule(schedule).await;
            connection.close().await;
            deleted?;
            terminal::note(&format!("schedule {schedule} is deleted"));
            Ok(Exit::Success)
        }
        SchedulesCommand::Trigger { schedule, list } => trigger(context, schedule, &list).await,
        SchedulesCommand::Next {
            schedule,
            count,
            list,
        } => next(context, (schedule, count), &list).await,
        SchedulesCommand::Fires {
            schedule,
            limit,
            list,
        } => fires(context, (schedule, limit), &list).await,
        SchedulesCommand::Pause {
            schedule,
            until,
            list,
        } => update(context, schedule, &pause(until), &list).await,
        SchedulesCommand::Resume { schedule, list } => update(context, schedule, &resume(), &list).await,
    }
}

async fn list(context: &Context, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let all = connection.client.list_schedules().await;
    connection.close().await;
    let all = all?;
    if args.json {
        return print_json(&all);
    }
    terminal::print(&rows(&all))?;
    Ok(Exit::Success)
}

fn rows(all: &[Schedule]) -> String {
    let mut rows = table::new(["SCHEDULE", "WORKFLOW", "NEXT RUN", "CRON", "ZONE", "NAME"]);
    for one in all {
        rows.add_row([
            one.id.to_string(),
            one.workflow.clone(),
            one.next_run_at
                .map_or_else(|| "off".to_owned(), |at| at.to_string()),
            harmless(&one.cron).into_owned(),
            one.timezone.clone(),
            harmless(one.name.as_deref().unwrap_or("-")).into_owned(),
        ]);
    }
    table::text(&rows)
}

async fn get(context: &Context, id: ScheduleId, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let schedule = connection.client.get_schedule(id).await;
    connection.close().await;
    shown(&schedule?, args)
}

fn shown(schedule: &Schedule, args: &ListArgs) -> Result<Exit> {
    if args.json {
        return print_json(schedule);
    }
    terminal::print(&details(schedule))?;
    Ok(Exit::Success)
}

fn details(schedule: &Schedule) -> String {
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let lines = [
        ("schedule", Some(schedule.id.to_string())),
        ("name", schedule.name.clone()),
        ("workflow", Some(schedule.workflow.clone())),
        ("cron", Some(schedule.cron.clone())),
        ("timezone", Some(schedule.timezone.clone())),
        ("enabled", Some(schedule.enabled.to_string())),
        ("overlap", Some(schedule.overlap.to_string())),
        (
            "catch-up",
            Some(format!("{} s", schedule.catch_up_window_seconds)),
        ),
        (
            "jitter",
            Some(schedule.jitter_seconds)
                .filter(|seconds| *seconds > 0)
                .map(|seconds| format!("{seconds} s")),
        ),
        ("paused", time(schedule.paused_until)),
        (
            "failures",
            schedule
                .max_consecutive_failures
                .map(|most| format!("off after {most} in a row")),
        ),
        ("budget", schedule.max_cost_micros.map(|cost| cost.to_string())),
        (
            "callback",
            schedule.callback.as_ref().map(|callback| callback.url.clone()),
        ),
        (
            "input",
            schedule.input.as_ref().map(|input| input.get().to_owned()),
        ),
        ("next run", time(schedule.next_run_at)),
        ("last run", time(schedule.last_run_at)),
        ("run", schedule.last_run_id.map(|run| run.to_string())),
        ("error", schedule.last_error.clone()),
    ];
    lines
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:<9} {}\n", harmless(&value?))))
        .collect()
}

async fn create(context: &Context, args: &CreateScheduleArgs) -> Result<Exit> {
    let request = new(args, &context.environment)?;
    let connection = context.records(&args.list.engine).await?;
    let made = connection.client.create_schedule(&request).await;
    connection.close().await;
    shown(&made?, &args.list)
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
        max_cost_micros: fields.max_cost,
        callback: callback(fields, environment)?,
    })
}

fn input(fields: &ScheduleFields) -> Result<Option<Box<serde_json::value::RawValue>>> {
    let input = fields.input.as_ref();
    input.map(|document| json("--input", document)).transpose()
}

fn callback(fields: &ScheduleFields, environment: &Environment) -> Result<Option<Callback>> {
    let (Some(url), Some(name)) = (&fields.callback, &fields.callback_secret_env) else {
        return Ok(None);
    };
    Ok(Some(Callback {
        url: url.clone(),
        secret: variable(environment, name)?,
    }))
}

/// Returns the changes: given fields are set, cleared ones are `null`, all others stay.
fn patch(args: &UpdateScheduleArgs, environment: &Environment) -> Result<UpdateSchedule> {
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
        max_cost_micros: set!(fields.max_cost, MaxCost),
        callback: set!(callback(fields, environment)?, Callback),
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

async fn update(context: &Context, id: ScheduleId, patch: &UpdateSchedule, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let changed = connection.client.update_schedule(id, patch).await;
    connection.close().await;
    shown(&changed?, args)
}

async fn trigger(context: &Context, id: ScheduleId, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let run = connection.client.trigger_schedule(id).await;
    connection.close().await;
    let run = run?;
    if args.json {
        return print_json(&run);
    }
    terminal::print_line(&run.id.to_string())?;
    Ok(Exit::Success)
}

async fn next(context: &Context, (id, count): (ScheduleId, u32), args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let next = connection.client.next_fires(id, count).await;
    connection.close().await;
    let next = next?;
    if args.json {
        return print_json(&next);
    }
    let mut rows = table::new(["INSTANT", "RUN AT"]);
    for one in next {
        rows.add_row([one.instant.to_string(), one.run_at.to_string()]);
    }
    terminal::print(&table::text(&rows))?;
    Ok(Exit::Success)
}

async fn fires(context: &Context, (id, limit): (ScheduleId, u32), args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let fires = connection.client.list_fires(id, limit).await;
    connection.close().await;
    let fires = fires?;
    if args.json {
        return print_json(&fires);
    }
    terminal::print(&history(&fires))?;
    Ok(Exit::Success)
}

fn history(fires: &[Fire]) -> String {
    let mut rows = table::new(["INSTANT", "BY", "OUTCOME", "RUN", "WHY"]);
    for fire in fires {
        let by = match fire.trigger {
            FireTrigger::Timetable => "timetable",
            FireTrigger::Manual => "hand",
        };
        let why = match (&fire.reason, fire.instants, fire.last_instant) {
            (Some(reason), Some(instants), Some(last)) => {
                format!("{reason} ({instants} occurrences to {last})")
            }
            (reason, _, _) => reason.clone().unwrap_or_else(|| "-".to_owned()),
        };
        rows.add_row([
            fire.instant.to_string(),
            by.to_owned(),
            fire.outcome.as_str().to_owned(),
            fire.run_id.map_or_else(|| "-".to_owned(), |run| run.to_string()),
            harmless(&why).into_owned(),
        ]);
    }
    table::text(&rows)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::args::{Cli, Command};

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
            SchedulesCommand::Update(args) => serde_json::to_value(patch(&args, &environment()).unwrap()),
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
                "9",
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
        insta::assert_snapshot!(history(&fires));
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
        insta::assert_snapshot!(format!("{}\n{}", details(&schedule), rows(&[schedule])));
    }
}
