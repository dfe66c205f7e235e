//! `sortie runs`: lists runs and their results.

use std::iter::once;

use sortie_api::{Run, RunDefinition, RunId, RunStatus, RunUsage};

use super::{Context, artifacts, deliveries, export, logs, replay, resume, watch, why};
use crate::{
    args::{RunRef, RunsCommand, WhichRuns},
    client::{Client, get},
    connect::Connection,
    failure::{Exit, Failure, Result},
    follow::{self, Format, OnInterrupt, View},
    interruption::interruption,
    render::{Cell, Field, Look, Record, Render, id, lines, maybe, maybe_time, print_json, some, time},
    terminal::harmless,
};

pub(super) async fn execute(context: &Context, command: RunsCommand) -> Result<Exit> {
    match command {
        RunsCommand::List {
            which,
            watch: true,
            render,
        } => watch::watch(context, &which, &render).await,
        RunsCommand::List { which, render, .. } => list(context, &which, &render).await,
        RunsCommand::Get { runs, render } => show(context, &runs, &render).await,
        RunsCommand::Cancel { runs, render } => cancel(context, &runs, &render).await,
        RunsCommand::Resume(args) => resume::resume(context, &args).await,
        RunsCommand::Watch { run, json } => watch_run(context, &run, json).await,
        RunsCommand::Logs { run, follow } => logs::logs(context, &run, follow).await,
        RunsCommand::Why { run, render } => why::why(context, &run, &render).await,
        RunsCommand::Events { run, after, json } => events(context, &run, after, json).await,
        RunsCommand::Replay(args) => replay::replay(context, *args).await,
        RunsCommand::Export(args) => export::export(context, &args).await,
        RunsCommand::Deliveries { run, render } => deliveries::list(context, &run, &render).await,
        RunsCommand::Redeliver { run, render } => deliveries::redeliver(context, &run, &render).await,
        RunsCommand::Artifacts(args) => artifacts::artifacts(context, &args).await,
        RunsCommand::Definition { run } => definition(context, &run).await,
    }
}

impl Record for Run {
    const COLUMNS: &'static [Field<Self>] = &[
        ("RUN", |run| id(run.id)),
        ("STATUS", |run| some(run.status)),
        ("CREATED", |run| time(run.created_at)),
        ("TITLE", |run| maybe(run.title.as_ref())),
    ];
    const MORE: &'static [Field<Self>] = &[
        ("COST", |run| some(run.cost_micros)),
        ("SECONDS", seconds),
        ("WHY", |run| maybe(run.error.as_ref()?.lines().next())),
        ("WORKFLOW", |run| maybe(run.workflow.as_ref())),
        ("MODEL", |run| maybe(run.model.as_ref())),
        ("TAGS", tags),
    ];
    const CUT: &'static [&'static str] = &["TITLE", "WHY", "TAGS"];
    const LINES: &'static [Field<Self>] = &[
        ("run", |run| some(run.id)),
        ("status", |run| some(run.status)),
        ("title", |run| maybe(run.title.as_ref())),
        ("error", |run| maybe(run.error.as_ref())),
        ("created", |run| time(run.created_at)),
        ("started", |run| maybe_time(run.started_at)),
        ("finished", |run| maybe_time(run.finished_at)),
        ("cost", |run| {
            some(format!("{} of {}", run.cost_micros, run.max_cost_micros))
        }),
        ("usage", |run| maybe(run.usage.as_ref().map(usage))),
        ("model", |run| maybe(run.model.as_ref())),
        ("workflow", |run| maybe(run.workflow.as_ref())),
        ("schedule", |run| maybe(run.schedule_id)),
        ("replay of", |run| maybe(run.replay_of)),
        ("tags", tags),
        ("metadata", metadata),
        ("output", |run| maybe(unretained_output(run))),
    ];

    /// Returns the lines, the artifacts and the answer.
    fn text(&self, look: &Look) -> String {
        let artifacts = self.artifacts.iter().map(|artifact| {
            let path = harmless(&artifact.path);
            format!("{:<9} {path} ({} bytes)\n", "artifact", artifact.size)
        });
        let answer = self
            .output
            .iter()
            .map(|output| format!("\n{}", follow::answer(output)));
        once(lines(self, look)).chain(artifacts).chain(answer).collect()
    }
}

async fn list(context: &Context, which: &WhichRuns, render: &Render) -> Result<Exit> {
    let show = async |connection: &mut Connection| {
        let runs = resume::list_runs(&connection.client, which).await?;
        render.listed(&runs)?;
        resume::print_unattended(connection, &runs.items).await?;
        Ok(Exit::Success)
    };
    context.with(render, show).await
}

/// Shows runs. If a run has zero data retention, this also uses up its output, which can be read once.
async fn show(context: &Context, named: &[RunRef], render: &Render) -> Result<Exit> {
    let show = async |connection: &mut Connection| {
        let client = &connection.client;
        let mut runs: Vec<Run> = Vec::with_capacity(named.len());
        for id in client.find_runs(named).await? {
            runs.push(client.ask(get(format!("v1/runs/{id}"))).await?);
        }
        render.several(&runs)?;
        resume::print_unattended(connection, &runs).await?;
        Ok(Exit::Success)
    };
    context.with(render, show).await
}

fn metadata(run: &Run) -> Option<Cell> {
    let pairs = run.metadata.iter().map(|(key, value)| format!("{key}={value}"));
    (!run.metadata.is_empty()).then(|| Cell::Text(pairs.collect::<Vec<_>>().join(", ")))
}

fn tags(run: &Run) -> Option<Cell> {
    (!run.tags.is_empty()).then(|| Cell::Text(run.tags.join(", ")))
}

fn seconds(run: &Run) -> Option<Cell> {
    let took = run.finished_at?.since(run.started_at?);
    some(format!("{}.{:03}", took.as_secs(), took.subsec_millis()))
}

/// Returns the state of the output of a run with zero data retention, which can be read once.
fn unretained_output(run: &Run) -> Option<String> {
    if !run.zero_data_retention || !run.status.is_final() {
        return None;
    }
    Some(match (&run.output, run.output_read_at, run.output_expires_at) {
        (Some(_), _, _) => "read now and deleted; this is the only time that it is shown".to_owned(),
        (None, Some(at), _) => format!("was read at {at}, and deleted"),
        (None, None, Some(at)) => format!("is held for the callback until {at}"),
        (None, None, None) if run.status == RunStatus::Succeeded => "was deleted unread".to_owned(),
        (None, None, None) => return None,
    })
}

fn usage(used: &RunUsage) -> String {
    let read = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens;
    format!(
        "{} model calls, {read} tokens in, {} out, {} tool calls",
        used.model_calls, used.output_tokens, used.tool_calls
    )
}

async fn cancel(context: &Context, named: &[RunRef], render: &Render) -> Result<Exit> {
    let cancel = async |client: &Client| {
        for id in client.find_runs(named).await? {
            render.done(&client.cancel_run(id).await?, |run| {
                if run.status == RunStatus::Cancelled {
                    format!("{id} is cancelled")
                } else {
                    format!("{id} had ended already: {}", run.status)
                }
            })?;
        }
        Ok(Exit::Success)
    };
    context.call(render, cancel).await
}

async fn events(context: &Context, run: &RunRef, after: i64, is_json: bool) -> Result<Exit> {
    let format = if is_json {
        Format::JsonLines
    } else {
        Format::Transcript
    };
    let show = async |connection: &mut Connection| {
        let id = connection.client.find_run(run).await?;
        follow_to_end(connection, context, (id, after), format).await?;
        Ok(Exit::Success)
    };
    context.with(&Render::default(), show).await
}

/// Follows a run like the command that started it. Leaving the command does not cancel the run.
async fn watch_run(context: &Context, run: &RunRef, is_json: bool) -> Result<Exit> {
    let format = Format::of(is_json);
    let show = async |connection: &mut Connection| {
        let id = connection.client.find_run(run).await?;
        let run = follow_to_end(connection, context, (id, 0), format).await?;
        Ok(run.status.into())
    };
    context.with(&Render::default(), show).await
}

/// Follows a run from after an event to its end. Fails if the run is abandoned.
pub(super) async fn follow_to_end(
    connection: &mut Connection,
    context: &Context,
    (id, after): (RunId, i64),
    format: Format,
) -> Result<Run> {
    let run = connection.client.look_at_run(id).await?;
    if !connection.works_on_nothing() {
        resume::print_unattended(connection, std::slice::from_ref(&run)).await?;
    }
    let view = View::new(format, context.terminal);
    let on_interrupt = (OnInterrupt::Leave, interruption());
    let run = follow::follow(connection, &run, after, view, on_interrupt).await?;
    if run.status.is_final() {
        Ok(run)
    } else {
        Err(Failure::unavailable(resume::nobody_works_on(&[id])))
    }
}

async fn definition(context: &Context, run: &RunRef) -> Result<Exit> {
    let read = async |client: &Client| {
        let id = client.find_run(run).await?;
        client.ask(get(format!("v1/runs/{id}/definition"))).await
    };
    let definition: RunDefinition = context.call(&Render::default(), read).await?;
    print_json(&definition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{Look, table};

    fn runs() -> Vec<Run> {
        serde_json::from_value(serde_json::json!([
            {"id": "run_01kafs6w1cefkstv6qr1ptb0mp", "status": "running", "created_at": "2026-11-20T21:30:05.000Z",
             "started_at": "2026-11-20T21:30:05.004Z", "max_cost_micros": 1_000_000, "billing_pending": true,
             "zero_data_retention": false, "timeout_seconds": 300, "last_event_id": 1},
            {"id": "run_01kafs6w1cefkstv6qr1ptb0mn", "status": "timed_out", "created_at": "2026-11-20T21:30:00.000Z",
             "started_at": "2026-11-20T21:30:00.004Z", "finished_at": "2026-11-20T21:30:01.254Z",
             "artifacts": [{"path": "report.md", "size": 12, "content_type": "text/markdown", "sha256": "0".repeat(64)}],
             "title": "Count\u{1b}[2J the words", "model": "runbook", "error": "the run took longer than 1 s\u{1b}[2J", "max_cost_micros": 1_000_000, "cost_micros": 1_250,
             "billing_pending": false, "zero_data_retention": false, "timeout_seconds": 300, "last_event_id": 1}
        ]))
        .unwrap()
    }

    #[test]
    fn the_list_is_a_plain_table() {
        insta::assert_snapshot!(table(&runs(), &Look::plain()));
    }

    #[test]
    fn an_empty_list_has_its_headings() {
        assert_eq!(
            table::<Run>(&[], &Look::plain()).split_whitespace().next(),
            Some("RUN")
        );
    }

    #[test]
    fn a_run_shows_what_it_has() {
        insta::assert_snapshot!(
            runs()
                .iter()
                .map(|run| run.text(&Look::plain()))
                .collect::<Vec<_>>()
                .join("\n")
        );
    }
}
