//! `POST /v1/runs` (`docs/RUNS.md#create`): the accepted fields, and the run that results.

use crate::{node_under_load, prelude::*};

both_databases![
    a_new_run_is_answered_with_202_as_queued,
    a_prompt_without_blocks_is_answered_with_itself,
    everything_optional_at_its_limit_is_accepted,
];

/// `docs/RUNS.md#create`, `docs/RUNS.md#fields-of-a-run`.
async fn a_new_run_is_answered_with_202_as_queued(database: Database) -> Checked {
    let node = node(database).await?;
    let answer = node
        .client()?
        .post("/v1/runs", &plain("hello"))
        .expect(202)
        .await?;
    let run = answer.json()?;
    assert_eq!(run["status"], "queued");
    assert_eq!(run["max_cost_micros"], 1_000_000);
    assert_eq!(run["zero_data_retention"], false);
    assert!(
        run["id"]
            .as_str()
            .is_some_and(|id| id.starts_with("run_") && id.len() == 30),
        "{run}"
    );
    let created_at = run["created_at"].as_str().unwrap_or_default();
    assert!(
        created_at.ends_with('Z') && created_at.len() == 24,
        "{created_at}"
    );
    for absent in [
        "output",
        "error",
        "started_at",
        "finished_at",
        "cost_micros",
        "schedule_id",
    ] {
        assert!(run.get(absent).is_none(), "{absent} is there: {run}");
    }
    Ok(())
}

/// `docs/RUNS.md#fields-of-a-run`: the times are in order, and the cost of a free model is left out.
async fn a_prompt_without_blocks_is_answered_with_itself(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let text = "What is 2 × 3?\u{2028}\u{85}\u{2029} \"quoted\" \\ \u{1f600}";
    let (_, run) = client.complete(&plain(text)).await?;
    assert_eq!((run.status, run.error.as_deref()), (RunStatus::Succeeded, None));
    assert_eq!(run.output.as_deref(), Some(text));
    assert!(
        run.started_at >= Some(run.created_at) && run.finished_at >= run.started_at,
        "{run:?}"
    );
    assert!(!run.billing_pending && run.cost_micros.is_zero(), "{run:?}");
    assert_eq!(client.run(&run.id.to_string()).await?, run);
    Ok(())
}

/// `docs/API.md#limits`: a limit is inclusive.
async fn everything_optional_at_its_limit_is_accepted(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let files: Vec<_> = (0..32)
        .map(|n| json!({"path": format!("dir{n}/file"), "content": ""}))
        .collect();
    let request = json!({
        "prompt": "p".repeat(128 * 1024),
        "input": "i".repeat(1024 * 1024 - 2),
        "model": "runbook",
        "files": files,
        "connections": {},
        "description": "ä".repeat(500),
        "input_schema": {"type": "string"},
        "timeout_seconds": 3600,
        "shell": false,
        "web": false,
        "zero_data_retention": false,
        "max_cost_micros": 100_000_000,
    });
    let (_, run) = client.complete(&request).await?;
    assert_eq!((run.status, run.error), (RunStatus::Succeeded, None));
    assert_eq!(run.max_cost_micros.get(), 100_000_000);
    let least = json!({"prompt": "x", "timeout_seconds": 1, "max_cost_micros": 1, "input": null});
    // A busy host may take a second or more to begin, but not each time.
    for _ in 0..5 {
        let (_, run) = client.complete(&least).await?;
        if run.status == RunStatus::Succeeded {
            return Ok(());
        }
        assert_eq!(run.status, RunStatus::TimedOut, "{run:?}");
    }
    anyhow::bail!("no run succeeds in a second");
}

/// The output is the agent's answer, so it shows the working directory of the commands.
#[tokio::test]
async fn many_runs_at_once_keep_apart() -> Checked {
    let node = node_under_load(Database::Sqlite).await?;
    let client = node.client()?;
    let runs = (0..12).map(|n| {
        let client = client.clone();
        async move {
            let request = commands(&[&format!("echo {n} > mine"), "ls", "cat mine"]);
            let (_, run) = client.complete(&request).await?;
            assert_eq!(run.output.as_deref(), Some(format!("{n}\n").as_str()), "{run:?}");
            anyhow::Ok(())
        }
    });
    futures_util::future::try_join_all(runs).await?;
    Ok(())
}
