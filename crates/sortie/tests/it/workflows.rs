//! `/v1/workflows` (`docs/WORKFLOWS.md`), runs that start from workflows, and the commands for them.

use std::{fs, process::Stdio};

use crate::prelude::*;

both_databases![
    a_workflow_is_saved_run_replaced_and_deleted,
    a_workflow_outlives_its_node_and_is_read_by_each_run,
    workflows_are_put_from_files_and_run_by_the_command_line,
];

/// Saves a workflow.
fn put(client: &Client, name: &str, definition: &Value) -> Pending {
    client.put(&format!("/v1/workflows/{name}"), definition)
}

async fn got(client: &Client, path: &str) -> Result<Value> {
    client.get(path).json(200).await
}

/// Greets the person that the input names.
fn greeting() -> Value {
    json!({
        "prompt": "```sh\ngrep -o '\"who\": *\"[^\"]*\"' input.json | cut -d'\"' -f4\n```\n```answer\nhello {{1}}\n```\n",
        "description": "Greets.", "input": {"who": "world"}, "tags": ["greetings"],
        "input_schema": {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]},
    })
}

async fn a_workflow_is_saved_run_replaced_and_deleted(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let record = put(&client, "greet", &greeting()).json(201).await?;
    assert_eq!(got(&client, "/v1/workflows/greet").await?, record);
    assert_eq!(got(&client, "/v1/workflows").await?, json!([{"name": "greet"}]));
    let mut summaries = got(&client, "/v1/workflows?detail=true").await?;
    let updated = summaries[0]["updated_at"].take();
    ensure!(updated.is_string(), "{updated}");
    let summary = json!([{
        "name": "greet", "description": "Greets.", "input_schema": greeting()["input_schema"], "revision": 1,
        "updated_at": null, "runs_30d": 0, "cost_30d_micros": 0,
    }]);
    assert_eq!(summaries, summary);

    for (request, answer) in rows! {
        json!({"workflow": "greet"}), "hello world\n";
        json!({"workflow": "greet", "input": {"who": "moon"}}), "hello moon\n";
        json!({"workflow": "greet", "prompt": "sent", "tags": []}), "sent";
    } {
        let (_, run) = client.complete(&request).await?;
        assert_eq!(
            (run.status, run.workflow.as_deref()),
            (RunStatus::Succeeded, Some("greet"))
        );
        assert_eq!(run.output.as_deref().map(str::trim_end), Some(answer.trim_end()));
    }
    let refused = client
        .post("/v1/runs", &json!({"workflow": "greet", "input": {}}))
        .refused("invalid_request")
        .await?;
    assert_eq!(refused.error, "input.who: required");
    assert_eq!(client.list("").await?.len(), 3, "nothing is created by a refusal");

    let changed = json!({"prompt": "changed"});
    assert_eq!(put(&client, "greet", &changed).json(200).await?["revision"], 2);
    let (_, run) = client.complete(&json!({"workflow": "greet"})).await?;
    assert_eq!(run.output.as_deref(), Some("changed"));
    client
        .send(Method::DELETE, "/v1/workflows/greet", "".into())
        .expect(204)
        .await?;
    let refused = client
        .post("/v1/runs", &json!({"workflow": "greet"}))
        .refused("invalid_request")
        .await?;
    assert_eq!(refused.error, "workflow: no workflow \"greet\"");
    Ok(())
}

async fn a_workflow_outlives_its_node_and_is_read_by_each_run(database: Database) -> Checked {
    let mut first = node(database).await?;
    put(&first.client()?, "greet", &greeting()).expect(201).await?;
    first.kill()?;
    first.restart().await?;
    let (client, other) = (
        first.client()?,
        match database {
            Database::Sqlite => None,
            Database::Postgres => Some(first.beside().await?),
        },
    );
    let (_, run) = client.complete(&json!({"workflow": "greet"})).await?;
    let definition = got(&client, &format!("/v1/runs/{}/definition", run.id)).await?;
    let mut expected = greeting();
    for (field, value) in [
        ("model", json!("runbook")),
        ("shell", json!(true)),
        ("timeout_seconds", json!(300)),
        ("max_cost_micros", json!(1_000_000)),
        ("max_steps", json!(200)),
    ] {
        expected[field] = value;
    }
    assert_eq!(
        definition,
        json!({"request": expected, "requires_credentials": []})
    );
    if let Some(other) = other {
        // Changes on one node apply at once to the runs that another node accepts.
        for number in 0..5 {
            let prompt = number.to_string();
            put(&client, "greet", &json!({"prompt": prompt}))
                .expect(200)
                .await?;
            let (_, run) = other.client()?.complete(&json!({"workflow": "greet"})).await?;
            assert_eq!(run.output, Some(prompt));
        }
    }
    Ok(())
}

async fn workflows_are_put_from_files_and_run_by_the_command_line(database: Database) -> Checked {
    let node = node(database).await?;
    let folder = tempfile::tempdir()?;
    let file = |name: &str, text: &str| -> Result<String> {
        let path = folder.path().join(name);
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let toml = file(
        "greet.toml",
        "description = 'Greets.'\nprompt = '''\n```answer\nhello\n```\n'''\nshell = false\n",
    )?;
    let yaml = file(
        "b.yaml",
        "name: part\nprompt: |\n  ```answer\n  good bye\n  ```\nshell: false\n",
    )?;
    let json = file("c.json", r#"{"prompt": "x", "shell": false}"#)?;
    exits(node.sortie(&["workflows", "put", &toml, &yaml, &json]), 0)?;
    let listed = said(&node, &["workflows", "list"])?;
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names, ["WORKFLOW", "c", "greet", "part"]);
    ensure!(listed.contains("Greets."), "{listed}");

    let output = exits(node.sortie(&["run", "--workflow", "greet"]), 0)?;
    assert_eq!(text(&output.stdout), "hello\n");
    let output = exits(node.sortie(&["run", "--workflow", "part", "sent", "--json"]), 0)?;
    let run: Value = serde_json::from_str(text(&output.stdout).lines().last().context("no run")?)?;
    assert_has!(run, {"output": "sent", "workflow": "part"});

    let record = json_said(&node, &["workflows", "get", "greet", "--json"])?;
    assert_eq!(record["revision"], 1);
    let again = file("again.json", &record.to_string())?;
    let saved = json_said(&node, &["workflows", "put", &again, "--json"])?;
    assert_eq!(
        saved, record,
        "what is printed can be put again, and changes nothing"
    );
    let shown = said(&node, &["workflows", "get", "greet"])?;
    assert_contains!(shown, "revision  1\n", "```answer\nhello\n```");

    let wrong = file("wrong.toml", "prompt = 'x'\ntimeout_seconds = 0\n")?;
    let output = exits(node.sortie(&["workflows", "put", &wrong]), 64)?;
    assert_contains!(output.stderr, "wrong.toml: timeout_seconds: must be from 1");
    exits(node.sortie(&["workflows", "delete", "greet"]), 0)?;
    exits(node.sortie(&["workflows", "get", "greet"]), 64)?;
    exits(node.sortie(&["run", "--workflow", "greet"]), 64)?;

    let mut command = node.sortie(&["workflows", "put", "-", "--name", "piped"]);
    command.stdin(Stdio::from(fs::File::open(&again)?));
    exits(command, 0)?;
    assert_eq!(
        json_said(&node, &["workflows", "get", "piped", "--json"])?["prompt"],
        record["prompt"]
    );
    Ok(())
}
