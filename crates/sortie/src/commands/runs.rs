//! `sortie runs`: what was run, and what came of it.

use sortie_api::{Run, RunId, RunStatus, RunUsage};

use super::{Context, artifacts, deliveries, export, print_json, replay, resume, table};
use crate::{
    args::{EngineArgs, ListArgs, RunsCommand, WhichRuns},
    connect::Connection,
    failure::{Exit, Failure, Result},
    follow::{self, Format, OnInterrupt, View},
    interruption::interruption,
    terminal,
};

pub(super) async fn execute(context: &Context, command: RunsCommand) -> Result<Exit> {
    match command {
        RunsCommand::List { which, list } => list_runs(context, &which, &list).await,
        RunsCommand::Get { run, list } => get_run(context, run, &list).await,
        RunsCommand::Cancel { run, list } => cancel_run(context, run, &list).await,
        RunsCommand::Resume(args) => resume::resume(context, &args).await,
        RunsCommand::Events { run, after, list } => events(context, run, after, &list).await,
        RunsCommand::Replay(args) => replay::replay(context, *args).await,
        RunsCommand::Export(args) => export::export(context, &args).await,
        RunsCommand::Deliveries { run, list } => deliveries::list(context, run, &list).await,
        RunsCommand::Redeliver { run, list } => deliveries::redeliver(context, run, &list).await,
        RunsCommand::Artifacts(args) => artifacts::artifacts(context, &args).await,
        RunsCommand::Definition { run, engine } => definition(context, run, &engine).await,
    }
}

async fn list_runs(context: &Context, which: &WhichRuns, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let done = list_on(&connection, which, args).await;
    connection.close().await;
    done
}

async fn list_on(connection: &Connection, which: &WhichRuns, args: &ListArgs) -> Result<Exit> {
    let runs = connection.client.list_runs(which).await?;
    let exit = if args.json {
        print_json(&runs)?
    } else {
        terminal::print(&rows(&runs))?;
        Exit::Success
    };
    resume::print_unattended(connection, &runs).await?;
    Ok(exit)
}

fn rows(runs: &[Run]) -> String {
    let mut rows = table::new(["RUN", "STATUS", "CREATED", "SECONDS", "COST"]);
    for run in runs {
        rows.add_row([
            run.id.to_string(),
            run.status.to_string(),
            run.created_at.to_string(),
            seconds(run).unwrap_or_else(|| "-".to_owned()),
            run.cost_micros.to_string(),
        ]);
    }
    table::text(&rows)
}

fn seconds(run: &Run) -> Option<String> {
    let took = run.finished_at?.since(run.started_at?);
    Some(format!("{}.{:03}", took.as_secs(), took.subsec_millis()))
}

async fn get_run(context: &Context, id: RunId, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let done = get_on(&connection, id, args).await;
    connection.close().await;
    done
}

async fn get_on(connection: &Connection, id: RunId, args: &ListArgs) -> Result<Exit> {
    let run = connection.client.get_run(id).await?;
    let exit = if args.json {
        print_json(&run)?
    } else {
        terminal::print(&details(&run))?;
        if let Some(output) = &run.output {
            terminal::print_line("")?;
            follow::print_answer(output)?;
        }
        Exit::Success
    };
    resume::print_unattended(connection, std::slice::from_ref(&run)).await?;
    Ok(exit)
}

fn details(run: &Run) -> String {
    let time = |at: Option<sortie_api::Timestamp>| at.map(|at| at.to_string());
    let lines = [
        ("run", Some(run.id.to_string())),
        ("status", Some(run.status.to_string())),
        (
            "error",
            run.error
                .as_deref()
                .map(|error| terminal::harmless(error).into_owned()),
        ),
        ("created", Some(run.created_at.to_string())),
        ("started", time(run.started_at)),
        ("finished", time(run.finished_at)),
        (
            "cost",
            Some(format!("{} of {}", run.cost_micros, run.max_cost_micros)),
        ),
        ("usage", run.usage.as_ref().map(usage)),
        ("workflow", run.workflow.clone()),
        ("schedule", run.schedule_id.map(|id| id.to_string())),
        (
            "tags",
            (!run.tags.is_empty()).then(|| terminal::harmless(&run.tags.join(", ")).into_owned()),
        ),
        ("output", unretained_output(run)),
    ];
    let lines = lines
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:<9} {}\n", value?)));
    let artifacts = run.artifacts.iter().map(|artifact| {
        let path = terminal::harmless(&artifact.path);
        format!("{:<9} {path} ({} bytes)\n", "artifact", artifact.size)
    });
    lines.chain(artifacts).collect()
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

async fn cancel_run(context: &Context, id: RunId, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let run = connection.client.cancel_run(id).await;
    connection.close().await;
    let run = run?;
    if args.json {
        return print_json(&run);
    }
    terminal::note(&if run.status == RunStatus::Cancelled {
        format!("{id} is cancelled")
    } else {
        format!("{id} had ended already: {}", run.status)
    });
    Ok(Exit::Success)
}

async fn events(context: &Context, id: RunId, after: i64, args: &ListArgs) -> Result<Exit> {
    let mut connection = context.records(&args.engine).await?;
    let done = events_on(&mut connection, context, (id, after), args).await;
    connection.close().await;
    done
}

async fn events_on(
    connection: &mut Connection,
    context: &Context,
    (id, after): (RunId, i64),
    args: &ListArgs,
) -> Result<Exit> {
    let run = connection.client.look_at_run(id).await?;
    if !connection.works_on_nothing() {
        resume::print_unattended(connection, &[run]).await?;
    }
    let format = if args.json {
        Format::JsonLines
    } else {
        Format::Text
    };
    let view = View::new(format, context.terminal);
    let on_interrupt = (OnInterrupt::Leave, interruption());
    let run = follow::follow(connection, id, after, view, on_interrupt).await?;
    if run.status.is_final() {
        Ok(Exit::Success)
    } else {
        Err(Failure::unavailable(resume::nobody_works_on(&[id])))
    }
}

async fn definition(context: &Context, id: RunId, engine: &EngineArgs) -> Result<Exit> {
    let connection = context.records(engine).await?;
    let definition = connection.client.run_definition(id).await;
    connection.close().await;
    print_json(&definition?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs() -> Vec<Run> {
        serde_json::from_value(serde_json::json!([
            {"id": "run_01kafs6w1cefkstv6qr1ptb0mp", "status": "running", "created_at": "2026-11-20T21:30:05.000Z",
             "started_at": "2026-11-20T21:30:05.004Z", "max_cost_micros": 1_000_000, "billing_pending": true,
             "zero_data_retention": false},
            {"id": "run_01kafs6w1cefkstv6qr1ptb0mn", "status": "timed_out", "created_at": "2026-11-20T21:30:00.000Z",
             "started_at": "2026-11-20T21:30:00.004Z", "finished_at": "2026-11-20T21:30:01.254Z",
             "artifacts": [{"path": "report.md", "size": 12, "content_type": "text/markdown", "sha256": "0".repeat(64)}],
             "error": "the run took longer than 1 s\u{1b}[2J", "max_cost_micros": 1_000_000, "cost_micros": 1_250,
             "billing_pending": false, "zero_data_retention": false}
        ]))
        .unwrap()
    }

    #[test]
    fn the_list_is_a_plain_table() {
        insta::assert_snapshot!(rows(&runs()));
    }

    #[test]
    fn an_empty_list_has_its_headings() {
        assert_eq!(rows(&[]).split_whitespace().next(), Some("RUN"));
    }

    #[test]
    fn a_run_shows_what_it_has() {
        insta::assert_snapshot!(runs().iter().map(details).collect::<Vec<_>>().join("\n"));
    }
}
