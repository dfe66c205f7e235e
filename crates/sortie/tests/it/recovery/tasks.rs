//! kill -9 while an MCP server works on a call as a task: the next worker waits for the task and does not repeat the call
//! (`docs/CONNECTIONS.md#tasks`).

use sortie_testkit::task_server::{TASK_RESULT, TaskServer};

use crate::{kit::assert_resumed, prelude::*};

both_databases![
    a_run_outlives_its_node_in_the_middle_of_a_task,
    a_run_whose_task_is_gone_after_the_kill_ends_in_doubt,
];

/// A node that was killed during the task of a run and is back, with the run's id.
async fn killed_in_task(
    database: Database,
    server: &TaskServer,
    then: fn(&TaskServer),
) -> Result<(Node, String)> {
    let mut node = node(database).await?;
    let request = json!({
        "prompt": "```tool tasks__work\n{}\n```\n",
        "shell": false,
        "connections": {"tasks": {"type": "mcp", "url": server.url()}},
    });
    let id = node.client()?.create_id(&request).await?;
    // The ID of the task is durable before the first query.
    server.asked("tasks/get", 1).await?;
    node.kill()?;
    then(server);
    node.restart().await?;
    Ok((node, id))
}

async fn a_run_outlives_its_node_in_the_middle_of_a_task(database: Database) -> Checked {
    let server = TaskServer::start().await?;
    let (node, id) = killed_in_task(database, &server, TaskServer::finish).await?;
    let (events, run) = node.client()?.finished(&id).await?;
    assert_ended!(run, Succeeded, TASK_RESULT);
    assert_resumed(&events, 1);
    assert_eq!(
        (
            of_kind(&events, "tool_start").len(),
            of_kind(&events, "tool_end").len()
        ),
        (1, 1)
    );
    assert_eq!((server.count("tools/call"), server.count("tasks/cancel")), (1, 0));
    Ok(())
}

async fn a_run_whose_task_is_gone_after_the_kill_ends_in_doubt(database: Database) -> Checked {
    let server = TaskServer::start().await?;
    let (node, id) = killed_in_task(database, &server, TaskServer::forget).await?;
    let (events, run) = node.client()?.finished(&id).await?;
    assert_eq!(run.status, RunStatus::Interrupted, "{run:?}");
    let told = data(of_kind(&events, "interrupted")[0]);
    assert_has!(told, {"reason": "uncertain_call", "tool": "tasks__work"});
    assert_eq!(server.count("tools/call"), 1);
    Ok(())
}
