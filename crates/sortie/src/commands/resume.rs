//! `sortie runs resume`: resumes runs that were abandoned because the command that ran their engine was killed.

use sortie_api::{
    Run, RunId, RunStatus,
    node::{Node, NodeState},
};

use super::{Context, run};
use crate::{
    args::{Paging, WhichRuns, resume::ResumeArgs},
    client::{Client, Listed, get},
    connect::{Connection, NAME_AN_ENGINE, Need, database_exists},
    data_dir::{DataDir, Occupancy, Purpose},
    failure::{Exit, Failure, Result},
    follow::{self, Format, OnInterrupt, View},
    interruption::interruption,
    terminal,
};

/// Statuses of runs that an engine should work on.
const UNFINISHED: [RunStatus; 3] = [RunStatus::Running, RunStatus::Starting, RunStatus::Queued];

pub(super) async fn resume(context: &Context, args: &ResumeArgs) -> Result<Exit> {
    let config = context.node_config(&args.node)?;
    let data_dir = DataDir::new(&config.data_dir);
    if context.named_engine().is_none() {
        match data_dir.occupancy()? {
            Occupancy::Engine(engine) if engine.purpose != Purpose::Serve => {
                return Err(data_dir.in_use(&Occupancy::Engine(engine)));
            }
            Occupancy::Free => database_exists(&config, NAME_AN_ENGINE)?,
            Occupancy::Starting | Occupancy::Engine(_) => {}
        }
    }
    let connection = context.open(&config, Need::Work).await?;
    connection
        .during(async |connection| on(connection, context, args).await)
        .await
}

async fn on(connection: &mut Connection, context: &Context, args: &ResumeArgs) -> Result<Exit> {
    let Some(engine) = connection.own_engine().cloned() else {
        connection.client.ready().await?;
        terminal::note(
            "nothing has to be resumed: an engine answers, which goes on with every run by itself",
        );
        return Ok(Exit::Success);
    };
    let named = connection.client.find_runs(&args.runs).await?;
    let runs = left(connection, &named).await?;
    if runs.is_empty() {
        terminal::note("there is no run that nobody works on");
        return Ok(Exit::Success);
    }
    if let Some(sandbox) = connection.own_sandbox() {
        run::check_sandbox(sandbox)?;
    }
    let mut interrupted = interruption();
    engine.resume(runs.iter().copied());
    let mut exit = Exit::Success;
    for id in runs {
        let format = Format::of(args.json);
        let view = View::new(format, context.terminal);
        if format == Format::Text {
            view.note(&format!("{id} resumes"));
        }
        let run = connection.client.look_at_run(id).await?;
        let run = follow::follow(connection, &run, 0, view, (OnInterrupt::Leave, interrupted)).await?;
        if exit == Exit::Success {
            exit = run.status.into();
        }
        interrupted = interruption();
    }
    Ok(exit)
}

/// Returns the abandoned runs, the oldest first: all of them, or those of `named`. Fails if a run of `named` is not
/// abandoned.
async fn left(connection: &Connection, named: &[RunId]) -> Result<Vec<RunId>> {
    let mut runs = Vec::new();
    for id in named {
        let run = connection.client.look_at_run(*id).await?;
        if run.status.is_final() {
            return Err(Failure::usage(format!("{id} has ended already: {}", run.status)));
        }
        runs.push(run.id);
    }
    if named.is_empty() {
        let which = WhichRuns {
            status: UNFINISHED.to_vec(),
            paging: Paging::ALL,
            ..WhichRuns::default()
        };
        let unfinished = list_runs(&connection.client, &which).await?;
        runs.extend(unfinished.items.into_iter().map(|run| run.id));
    }
    let mut left = connection.unattended(runs).await?;
    left.sort_unstable();
    match named.iter().find(|id| !left.contains(id)) {
        Some(id) => Err(Failure::usage(format!("{id}: an engine works on it"))),
        None => Ok(left),
    }
}

/// Returns the newest of these runs.
pub(super) async fn list_runs(client: &Client, which: &WhichRuns) -> Result<Listed<Run>> {
    client
        .pages("v1/runs", &which.filters(), which.paging.most())
        .await
}

/// Returns the sentence for abandoned runs.
pub(super) fn nobody_works_on(runs: &[RunId]) -> String {
    let ids: Vec<String> = runs.iter().map(ToString::to_string).collect();
    format!(
        "nobody works on {}: `sortie runs resume` goes on, and so does `sortie serve`",
        ids.join(", ")
    )
}

/// Prints which of `runs` are abandoned, and how to resume them. Only admins may ask the engine of another command for
/// that.
pub(super) async fn print_unattended(connection: &Connection, runs: &[Run]) -> Result<()> {
    let open: Vec<RunId> = runs
        .iter()
        .filter(|run| UNFINISHED.contains(&run.status))
        .map(|run| run.id)
        .collect();
    if open.is_empty() {
        return Ok(());
    }
    if connection.own_engine().is_some() {
        let left = connection.unattended(open).await?;
        if !left.is_empty() {
            terminal::note(&nobody_works_on(&left));
        }
    } else if connection.is_of_another_command() {
        let client = &connection.client;
        let nodes = match client.ask::<Vec<Node>>(get(client.on_all_nodes("nodes"))).await {
            Err(failure) if failure.exit == Exit::Forbidden => return Ok(()),
            nodes => nodes?,
        };
        let lost = nodes.iter().filter(|node| node.state == NodeState::Lost);
        let count: i64 = lost.map(|node| node.runs_at_work).sum();
        if count > 0 {
            terminal::note(&format!(
                "nobody works on {count} of the runs in progress: `sortie runs resume` goes on once the `sortie run` that has \
                 the engine has ended"
            ));
        }
    }
    Ok(())
}
