//! `/v1/schedules`, and `sortie schedules`.

use crate::prelude::*;

both_databases![
    a_schedule_is_made_previewed_started_by_hand_changed_and_deleted,
    a_schedule_starts_its_workflow_when_its_minute_has_come,
    the_history_of_all_schedules_comes_page_by_page,
];

fn send(client: &Client, method: Method, path: &str, body: &Value) -> Pending {
    client.send(method, path, Bytes::from(body.to_string()))
}

/// A schedule of a workflow that answers with its prompt.
async fn schedule(client: &Client, fields: &Value) -> Result<Value> {
    let definition = json!({"prompt": "done", "shell": false});
    send(client, Method::PUT, "/v1/workflows/report", &definition).await?;
    let mut whole = json!({"workflow": "report", "cron": "30 7 * * MON-FRI", "timezone": "Europe/Berlin"});
    for (name, value) in fields.as_object().into_iter().flatten() {
        whole[name] = value.clone();
    }
    client.post("/v1/schedules", &whole).json(201).await
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

async fn a_schedule_is_made_previewed_started_by_hand_changed_and_deleted(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let made = schedule(&client, &json!({"name": "Report", "input": {"n": 1}})).await?;
    let id = text(&made["id"]).to_owned();
    let path = format!("/v1/schedules/{id}");
    assert_eq!(
        made,
        json!({
            "id": id, "name": "Report", "workflow": "report", "cron": "30 7 * * MON-FRI", "timezone": "Europe/Berlin",
            "input": {"n": 1}, "enabled": true, "overlap": "allow", "catch_up_window_seconds": 3_600, "jitter_seconds": 0,
            "next_run_at": made["next_run_at"], "created_at": made["created_at"], "updated_at": made["updated_at"],
        })
    );
    let next = client.get(&format!("{path}/next?count=3")).json(200).await?;
    assert_eq!(next.as_array().map(Vec::len), Some(3));
    assert_eq!(next[0]["run_at"], made["next_run_at"]);

    let run = client.post_empty(&format!("{path}/trigger")).await?;
    let (_, run) = client.finished(text(&run.expect(202)?.json()?["id"])).await?;
    assert_eq!(
        (run.schedule_id.map(|id| id.to_string()), run.output),
        (Some(id.clone()), Some("done".to_owned()))
    );
    let of = client.get(&format!("/v1/runs?schedule={id}")).json(200).await?;
    assert_eq!(of.as_array().map(Vec::len), Some(1));
    let fires = client.get(&format!("{path}/fires?limit=1")).json(200).await?;
    assert_has!(fires["items"][0], {"trigger": "manual", "run_id": run.id});
    assert_eq!(fires["next_cursor"], "");

    let change =
        json!({"cron": "@daily", "timezone": null, "name": null, "paused_until": "2099-01-01T00:00:00Z"});
    let changed = send(&client, Method::PATCH, &path, &change).json(200).await?;
    assert_has!(changed, {"cron": "@daily", "timezone": "UTC"});
    ensure!(changed.get("name").is_none(), "{changed}");
    assert_eq!(changed["last_run_id"], json!(run.id));
    let off = send(&client, Method::PATCH, &path, &json!({"enabled": false}))
        .json(200)
        .await?;
    ensure!(off.get("next_run_at").is_none(), "{off}");

    client.delete("/v1/workflows/report").refused("conflict").await?;
    client.delete(&path).expect(204).await?;
    for gone in [path.clone(), format!("{path}/fires"), format!("{path}/next")] {
        client.get(&gone).refused("not_found").await?;
    }
    let run = client.run(&run.id.to_string()).await?;
    assert_eq!(run.schedule_id.map(|id| id.to_string()), Some(id));
    Ok(())
}

/// Timetables have a resolution of one minute. The test does not wait for one: it moves the next occurrence into the
/// past. The tests of the engine move its clock.
async fn a_schedule_starts_its_workflow_when_its_minute_has_come(database: Database) -> Checked {
    let (mut node, client) = started(database).await?;
    let made = schedule(&client, &json!({"cron": "* * * * *", "timezone": "UTC"})).await?;
    let path = format!("/v1/schedules/{}/fires", text(&made["id"]));
    node.stop().await?;
    let columns = ["next_instant", "due_at", "handled_instant"];
    let earlier = columns.map(|column| format!("{column} = {column} - 60000000"));
    node.meddle(&format!("UPDATE schedule SET {}", earlier.join(", ")))
        .await?;
    node.restart().await?;
    let client = node.client()?;
    let look = async || client.get(&path).json(200).await;
    // If another minute has passed, the earlier occurrence is reported as coalesced.
    let started = |fires: &Value| {
        let mut items = fires["items"].as_array()?.iter();
        items.find(|fire| fire["outcome"] == "started").cloned()
    };
    let fires = until("an occurrence", look, |fires| started(fires).is_some()).await?;
    let fire = started(&fires).context("none has started")?;
    assert_eq!(fire["trigger"], json!("timetable"));
    ensure!(
        fire["instant"].as_str() < made["next_run_at"].as_str() || fire["instant"] == made["next_run_at"],
        "{fire} {made}"
    );
    let (_, run) = client.finished(text(&fire["run_id"])).await?;
    assert_eq!(run.output.as_deref(), Some("done"));
    Ok(())
}

#[tokio::test]
async fn lists_come_page_by_page_and_a_cursor_is_of_its_list() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let mut made = Vec::new();
    // More than one read returns, on the first page and in all.
    for _ in 0..25 {
        made.push(schedule(&client, &json!({"enabled": false})).await?["id"].clone());
    }
    let first = client.get("/v1/schedules?limit=22").json(200).await?;
    let cursor = text(&first["next_cursor"]).to_owned();
    let second = client
        .get(&format!("/v1/schedules?cursor={cursor}"))
        .json(200)
        .await?;
    let ids = |page: &Value| -> Vec<Value> {
        let items = page["items"].as_array().into_iter().flatten();
        items.map(|item| item["id"].clone()).collect()
    };
    made.reverse();
    assert_eq!(ids(&first).len(), 22);
    assert_eq!([ids(&first), ids(&second)].concat(), made);
    assert_eq!(second["next_cursor"], "");
    let id = text(&made[0]);
    for _ in 0..3 {
        client
            .post_empty(&format!("/v1/schedules/{id}/trigger"))
            .expect(202)
            .await?;
    }
    let fires = client
        .get(&format!("/v1/schedules/{id}/fires?limit=2"))
        .json(200)
        .await?;
    let of_fires = text(&fires["next_cursor"]).to_owned();
    let rest = client
        .get(&format!("/v1/schedules/{id}/fires?cursor={of_fires}"))
        .json(200)
        .await?;
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(1));
    for wrong in [
        format!("/v1/schedules?cursor={of_fires}"),
        format!("/v1/schedules/{id}/fires?cursor={cursor}"),
        format!("/v1/schedules/{}/fires?cursor={of_fires}", text(&made[1])),
        "/v1/schedules?limit=0".to_owned(),
        format!("/v1/schedules/{id}/next?count=101"),
    ] {
        client.get(&wrong).refused("invalid_request").await?;
    }
    Ok(())
}

async fn the_history_of_all_schedules_comes_page_by_page(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let mut schedules = Vec::new();
    for _ in 0..2 {
        schedules.push(text(&schedule(&client, &json!({"enabled": false})).await?["id"]).to_owned());
    }
    let mut started = Vec::new();
    for number in 0..5 {
        let id = &schedules[number % 2];
        let run = client.post_empty(&format!("/v1/schedules/{id}/trigger")).await?;
        started.push((json!(id), run.expect(202)?.json()?["id"].clone()));
    }
    started.reverse();
    let (mut found, mut instants, mut cursor) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = client
            .get(&format!("/v1/fires?limit=2{cursor}"))
            .json(200)
            .await?;
        for fire in page["items"].as_array().into_iter().flatten() {
            found.push((fire["schedule_id"].clone(), fire["run_id"].clone()));
            instants.push(text(&fire["instant"]).to_owned());
        }
        let next = text(&page["next_cursor"]);
        if next.is_empty() {
            break;
        }
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found, started);
    // `since` takes its instant in, `until` leaves it out.
    let (newest, oldest) = (&instants[0], &instants[4]);
    let between = client
        .get(&format!("/v1/fires?since={oldest}&until={newest}"))
        .json(200)
        .await?;
    let expected = instants.iter().filter(|instant| *instant < newest).count();
    assert_eq!(between["items"].as_array().map(Vec::len), Some(expected));
    let other_times = format!("/v1/fires?since={oldest}{cursor}");
    client.get(&other_times).refused("invalid_request").await?;
    Ok(())
}

/// Each rule once over HTTP; the unit tests cover the whole table of rules.
#[tokio::test]
async fn what_breaks_a_rule_is_refused_by_name() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let made = schedule(&client, &json!({})).await?;
    let path = format!("/v1/schedules/{}", text(&made["id"]));
    for (body, told) in rows! {
        json!({"workflow": "report", "cron": "0 0 30 2 *"}), "cron: no month";
        json!({"workflow": "report", "cron": "0 7 * * * *"}), "cron: must be five fields";
        json!({"workflow": "report"}), "cron: required";
        json!({"workflow": "gone", "cron": "@daily"}), "workflow: no workflow";
        json!({"workflow": "report", "cron": "@daily", "overlap": "never"}), "overlap: must be ";
        json!({"workflow": "report", "cron": "@daily", "name": null}), "name: must be a string, not null";
        json!({"workflow": "report", "cron": "@daily", "zone": "UTC"}), "zone: unknown field";
    } {
        let answer = client.post("/v1/schedules", &body).await?;
        let error = answer.refused("invalid_request")?.error;
        ensure!(error.starts_with(told), "{error}");
    }
    for (body, told) in [
        (json!({"cron": null}), "cron: must be a string, not null"),
        (json!({"timezone": "Nowhere"}), "timezone: no IANA time zone"),
        (json!({"id": "x"}), "id: unknown field"),
    ] {
        let answer = send(&client, Method::PATCH, &path, &body).await?;
        let error = answer.refused("invalid_request")?.error;
        ensure!(error.starts_with(told), "{error}");
    }
    assert_eq!(client.get(&path).json(200).await?, made);
    Ok(())
}

#[tokio::test]
async fn the_command_line_does_all_that_the_api_does() -> Checked {
    let (node, client) = started(Database::Sqlite).await?;
    let _other = schedule(&client, &json!({"enabled": false})).await?;
    let sortie = |line: &[&str]| -> Result<Value> {
        let words: Vec<&str> = ["schedules"].iter().chain(line).copied().collect();
        json_said(&node, &words)
    };
    let shown = |line: &[&str]| -> Result<String> {
        let words: Vec<&str> = ["schedules"].iter().chain(line).copied().collect();
        said(&node, &words)
    };
    // Its own scheduled time does not come during the test.
    let made = sortie(&["create", "report", "@yearly", "--overlap", "skip", "--json"])?;
    let id = text(&made["id"]);
    assert_eq!(made["overlap"], "skip");
    ensure!(shown(&["list"])?.contains(id), "the list has it");
    let paused = shown(&["pause", id])?;
    ensure!(paused.contains("enabled   false"), "{paused}");
    let resumed = sortie(&["resume", id, "--json"])?;
    assert_eq!(resumed["enabled"], true);
    let changed = sortie(&["update", id, "--name", "Yearly", "--clear", "overlap", "--json"])?;
    assert_has!(changed, {"name": "Yearly", "overlap": "allow"});
    let run = shown(&["trigger", id])?;
    client.finished(run.trim()).await?;
    let fires = shown(&["fires", id])?;
    ensure!(fires.contains(run.trim()) && fires.contains("hand"), "{fires}");
    let next = sortie(&["next", id, "--count", "2", "--json"])?;
    assert_eq!(next.as_array().map(Vec::len), Some(2));
    assert_eq!(sortie(&["get", id, "--json"])?["last_run_id"], run.trim());
    shown(&["delete", id])?;
    ensure!(!shown(&["list"])?.contains(id), "it is gone");
    Ok(())
}
