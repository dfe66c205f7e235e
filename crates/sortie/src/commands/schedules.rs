//! `sortie schedules`: workflows that are started on a timetable.

use sortie_api::{
    Fire, Micros, Run, Schedule, Timestamp,
    request::Callback,
    schedule::{CreateSchedule, FireTrigger, NextFire, UpdateSchedule},
};

use super::{Context, connections::variable, run::json};
use crate::{
    args::{
        CallbackArgs, Clearable, CreateScheduleArgs, Reference, ScheduleFields, SchedulesCommand,
        UpdateScheduleArgs,
    },
    client::{Client, Listed, delete, get, patch, post, post_json},
    config::Environment,
    failure::{Exit, Result},
    render::{Field, Record, Render, id, maybe, maybe_time, some, time},
    terminal,
};

const SCHEDULES: &str = "v1/schedules";

fn path(schedule: &str, rest: &str) -> String {
    format!("{SCHEDULES}/{schedule}{rest}")
}

impl Record for Schedule {
    const COLUMNS: &'static [Field<Self>] = &[
        ("SCHEDULE", |schedule| id(schedule.id)),
        ("WORKFLOW", |schedule| some(&schedule.workflow)),
        ("NEXT RUN", |schedule| {
            maybe_time(schedule.next_run_at).or_else(|| some("off"))
        }),
        ("NAME", |schedule| maybe(schedule.name.as_ref())),
    ];
    const MORE: &'static [Field<Self>] = &[
        ("CRON", |schedule| some(&schedule.cron)),
        ("ZONE", |schedule| some(&schedule.timezone)),
    ];
    const CUT: &'static [&'static str] = &["WORKFLOW", "NAME"];
    const LINES: &'static [Field<Self>] = &[
        ("schedule", |schedule| id(schedule.id)),
        ("name", |schedule| maybe(schedule.name.as_ref())),
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
            maybe((seconds > 0).then(|| format!("{seconds} s")))
        }),
        ("paused", |schedule| maybe_time(schedule.paused_until)),
        ("failures", |schedule| {
            let most = schedule.max_consecutive_failures?;
            some(format!("off after {most} in a row"))
        }),
        ("budget", |schedule| maybe(schedule.max_cost_micros)),
        ("callback", |schedule| some(&schedule.callback.as_ref()?.url)),
        ("input", |schedule| some(schedule.input.as_ref()?.get())),
        ("next run", |schedule| maybe_time(schedule.next_run_at)),
        ("last run", |schedule| maybe_time(schedule.last_run_at)),
        ("run", |schedule| maybe(schedule.last_run_id)),
        ("error", |schedule| maybe(schedule.last_error.as_ref())),
    ];
}

impl Record for NextFire {
    const COLUMNS: &'static [Field<Self>] = &[
        ("OCCURRENCE", |next| time(next.instant)),
        ("RUN AT", |next| time(next.run_at)),
    ];
}

impl Record for Fire {
    const COLUMNS: &'static [Field<Self>] = &[
        ("OCCURRENCE", |fire| time(fire.instant)),
        ("BY", |fire| {
            some(match fire.trigger {
                FireTrigger::Timetable => "timetable",
                FireTrigger::Manual => "hand",
            })
        }),
        ("OUTCOME", |fire| some(fire.outcome.as_str())),
        ("RUN", |fire| fire.run_id.and_then(id)),
    ];
    const MORE: &'static [Field<Self>] = &[("WHY", |fire| {
        match (&fire.reason, fire.instants, fire.last_instant) {
            (Some(reason), Some(instants), Some(last)) => {
                some(format!("{reason} ({instants} occurrences to {last})"))
            }
            (reason, _, _) => maybe(reason.as_ref()),
        }
    })];
    const CUT: &'static [&'static str] = &["WHY"];
}

pub(super) async fn execute(context: &Context, command: SchedulesCommand) -> Result<Exit> {
    match command {
        SchedulesCommand::List(render) => context.pages::<Schedule>(&render, SCHEDULES, &[], None).await,
        SchedulesCommand::Get { schedule, render } => {
            let one = async |client: &Client| client.ask(get(address(client, &schedule, "").await?)).await;
            let found: Schedule = context.call(&render, one).await?;
            render.one(&found)
        }
        SchedulesCommand::Create(args) => {
            let request = new(&args, &context.environment)?;
            let create = post_json(SCHEDULES, &request);
            context.one::<Schedule>(&args.render, create).await
        }
        SchedulesCommand::Update(args) => {
            let changes = changes(&args, &context.environment)?;
            update(context, &args.schedule, &changes, &args.render).await
        }
        SchedulesCommand::Delete { schedules } => {
            let delete = async |client: &Client| {
                for id in client.find_all::<Schedule>(&schedules).await? {
                    client.ask::<()>(delete(path(&id, ""))).await?;
                    terminal::note(&format!("schedule {id} is deleted"));
                }
                Ok(Exit::Success)
            };
            context.call(&Render::default(), delete).await
        }
        SchedulesCommand::Trigger { schedule, render } => {
            let trigger = async |client: &Client| {
                let trigger = address(client, &schedule, "/trigger").await?;
                client.ask(post(trigger)).await
            };
            let run: Run = context.call(&render, trigger).await?;
            render.answer(&run, |run| Ok(terminal::print_line(&run.id.to_string())?))
        }
        SchedulesCommand::Next {
            schedule,
            count,
            render,
        } => next(context, &schedule, count, &render).await,
        SchedulesCommand::Fires {
            schedule,
            paging,
            render,
        } => {
            let fires = async |client: &Client| {
                let fires = address(client, &schedule, "/fires").await?;
                client.pages(&fires, &[], paging.most()).await
            };
            let fires: Listed<Fire> = context.call(&render, fires).await?;
            render.listed(&fires)
        }
        SchedulesCommand::Pause {
            schedule,
            until,
            render,
        } => update(context, &schedule, &pause(until), &render).await,
        SchedulesCommand::Resume { schedule, render } => update(context, &schedule, &resume(), &render).await,
    }
}

/// Returns the path of a schedule that the command line names.
async fn address(client: &Client, schedule: &Reference, rest: &str) -> Result<String> {
    Ok(path(&client.find::<Schedule>(schedule).await?, rest))
}

async fn update(
    context: &Context,
    schedule: &Reference,
    changes: &UpdateSchedule,
    render: &Render,
) -> Result<Exit> {
    let update = async |client: &Client| {
        client
            .ask(patch(address(client, schedule, "").await?, changes))
            .await
    };
    let updated: Schedule = context.call(render, update).await?;
    render.one(&updated)
}

/// Prints the next occurrences, at a terminal in the time zone of the schedule.
async fn next(context: &Context, schedule: &Reference, count: u32, render: &Render) -> Result<Exit> {
    let ask = async |client: &Client| {
        let schedule: Schedule = client.ask(get(address(client, schedule, "").await?)).await?;
        let next = path(&schedule.id.to_string(), &format!("/next?count={count}"));
        Ok((schedule.timezone, client.ask(get(next)).await?))
    };
    let (zone, next): (String, Vec<NextFire>) = context.call(render, ask).await?;
    render.list_in(&zone, &next)
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
        render::{Look, table},
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
        insta::assert_snapshot!(table(&fires, &Look::plain()));
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
        insta::assert_snapshot!(format!(
            "{}\n{}",
            schedule.text(&Look::plain()),
            table(&[schedule], &Look::plain())
        ));
    }
}
