//! `output_schema` (`docs/RUNS.md#schemas`).

use crate::prelude::*;

both_databases![an_output_that_does_not_match_fails_the_run_after_two_corrections];

fn report() -> Value {
    json!({
        "type": "object",
        "required": ["total", "items"],
        "properties": {
            "total": {"type": "integer"},
            "items": {"type": "array", "items": {"type": "object", "properties": {"price": {"type": "number"}}}},
        },
    })
}

async fn an_output_that_does_not_match_fails_the_run_after_two_corrections(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let answers = rows! {
        r#"{"items": []}"#, "output.total: required";
        r#"{"total": 1, "items": [{"price": 1}, {"price": "2"}]}"#, "output.items[1].price: not of type \"number\"";
    };
    for (answer, reason) in answers {
        let request = json!({"prompt": format!("```answer\n{answer}\n```\n"), "output_schema": report()});
        let (events, run) = client.complete(&request).await?;
        assert_eq!(run.status, RunStatus::Failed, "{run:?}");
        assert_eq!(
            run.error,
            Some(format!("output does not match output_schema: {reason}"))
        );
        let rejected: Vec<Value> = of_kind(&events, "output_rejected")
            .into_iter()
            .map(data)
            .collect();
        let attempts: Vec<_> = rejected.iter().map(|event| event["attempt"].as_u64()).collect();
        assert_eq!(attempts, [Some(1), Some(2), Some(3)]);
        ensure!(
            rejected.iter().all(|event| event["errors"] == json!([reason])),
            "{rejected:?}"
        );
        assert_eq!(of_kind(&events, "model_call").len(), 3);
    }
    Ok(())
}

#[tokio::test]
async fn an_output_that_matches_is_the_answer_also_in_a_fenced_block() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let wanted = json!({"total": 3, "items": [{"price": 1.5}]});
    let plain = format!("```sh\necho '{wanted}'\n```\n");
    let fenced =
        format!("```sh\nprintf 'Here it is:\\n~~~json\\n%s\\n~~~\\n' '{wanted}' | tr '~' '`'\n```\n");
    for prompt in [plain, fenced] {
        let (events, run) = client
            .complete(&json!({"prompt": prompt, "output_schema": report()}))
            .await?;
        assert_eq!((run.status, run.error), (RunStatus::Succeeded, None));
        let output = run.output.unwrap_or_default();
        ensure!(output.contains(&wanted.to_string()), "{output}");
        ensure!(of_kind(&events, "output_rejected").is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn an_output_that_is_not_json_does_not_match() -> Checked {
    let node = node(Database::Sqlite).await?;
    let request = json!({"prompt": "just words", "output_schema": {"type": "object"}});
    let (_, run) = node.client()?.complete(&request).await?;
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.error.unwrap_or_default();
    ensure!(
        error.starts_with("output does not match output_schema: output"),
        "{error}"
    );
    Ok(())
}
