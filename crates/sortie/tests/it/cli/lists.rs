//! Lists and records on the command line: names of records, forms of the output and filters.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::prelude::*;

/// Runs a command that is refused, and returns the reason.
fn refused(node: &Node, arguments: &[&str]) -> Result<String> {
    Ok(text(&exits(node.sortie(arguments), 64)?.stderr))
}

/// Starts a run and returns its ID.
fn detached(node: &Node, arguments: &[&str]) -> Result<String> {
    let all = [&["run", "```answer\nhello\n```", "--detach"], arguments].concat();
    Ok(said(node, &all)?.trim().to_owned())
}

both_databases![a_run_is_named_by_a_beginning_of_its_id_or_as_the_last];

async fn a_run_is_named_by_a_beginning_of_its_id_or_as_the_last(database: Database) -> Checked {
    let node = node(database).await?;
    ensure!(
        refused(&node, &["runs", "get", "@last"])?.contains("has no run yet"),
        "no run"
    );
    let first = detached(&node, &[])?;
    let last = detached(&node, &[])?;
    let name = |arguments: &[&str]| said(&node, &[&["runs", "get", "-q"], arguments].concat());
    assert_eq!(name(&["@last"])?, format!("{last}\n"));
    for run in [&first, &last] {
        let short = run.get(4..24).unwrap_or_default();
        assert_eq!(name(&[short])?, format!("{run}\n"));
        assert_eq!(name(&[&format!("run_{short}")])?, format!("{run}\n"));
    }
    assert_eq!(name(&[&last, &first])?, format!("{last}\n{first}\n"));
    // IDs of one quarter of an hour begin with the same six characters; two runs can be of two of these.
    let shared = first
        .bytes()
        .zip(last.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    if let Some(beginning) = first.get(4..shared).filter(|beginning| beginning.len() >= 6) {
        let reason = refused(&node, &["runs", "get", beginning])?;
        assert_contains!(reason, "2 runs match", &first);
    }
    let reason = refused(&node, &["runs", "get", "00000000"])?;
    ensure!(reason.contains("no run has an ID that begins so"), "{reason}");
    // Nothing is done if one of the names has no run.
    refused(&node, &["runs", "cancel", &first, "00000000"])?;
    Ok(())
}

#[tokio::test]
async fn a_list_has_the_form_that_is_asked_for() -> Checked {
    let node = node(Database::Sqlite).await?;
    let run = detached(&node, &["--tag", "nightly", "--metadata", "team=sales"])?;
    exits(node.sortie(&["runs", "events", &run]), 0)?;
    let list = |arguments: &[&str]| said(&node, &[&["runs", "list"], arguments].concat());
    // A file has the whole ID, the time in UTC and every column.
    let table = list(&[])?;
    let (headings, row) = table.split_once('\n').unwrap_or_default();
    for heading in [
        "RUN", "STATUS", "CREATED", "TITLE", "COST", "WORKFLOW", "WHY", "MODEL", "TAGS",
    ] {
        ensure!(headings.contains(heading), "{table}");
    }
    ensure!(
        row.starts_with(&run) && row.contains('Z') && row.contains("nightly"),
        "{table}"
    );
    assert_eq!(
        list(&["--fields", "id,status,usage.tool_calls"])?,
        format!("{run}\tsucceeded\t0\n")
    );
    assert_eq!(list(&["--metadata", "team=sales", "-q"])?, format!("{run}\n"));
    assert_eq!(list(&["--metadata", "team=shop", "-q"])?, "");
    ensure!(
        refused(&node, &["runs", "list", "--watch", "-q"])?.contains("only a table"),
        "names of a list that changes"
    );
    assert_eq!(list(&["-o", "name"])?, format!("{run}\n"));
    let json: Value = serde_json::from_str(&list(&["--json"])?)?;
    assert_eq!(json[0]["id"], run.as_str());
    ensure!(list(&["-o", "yaml"])?.contains(&format!("id: {run}")), "YAML");
    ensure!(
        refused(&node, &["runs", "list", "-o", "toml"])?.contains("use -o json"),
        "TOML of a list"
    );
    ensure!(
        said(&node, &["runs", "get", &run, "-o", "toml"])?.contains("status = \"succeeded\""),
        "TOML"
    );
    Ok(())
}

#[tokio::test]
async fn runs_are_filtered_by_time_error_and_status() -> Checked {
    let node = node(Database::Sqlite).await?;
    let good = detached(&node, &[])?;
    exits(node.sortie(&["runs", "events", &good]), 0)?;
    let bad = exits(node.sortie(&["run", "```sh\nexit 3\n```"]), 1);
    ensure!(bad.is_ok(), "the run did not fail");
    let names = |arguments: &[&str]| said(&node, &[&["runs", "list", "-q"], arguments].concat());
    assert_eq!(names(&["--status", "succeeded"])?, format!("{good}\n"));
    assert_eq!(
        names(&["--status", "succeeded,failed", "--all"])?.lines().count(),
        2
    );
    assert_eq!(names(&["--error", "exited with status 3"])?.lines().count(), 1);
    assert_eq!(names(&["--since", "1h"])?.lines().count(), 2);
    assert_eq!(names(&["--until", "1h"])?, "");
    assert_eq!(names(&["--min-cost", "$5"])?, "");
    Ok(())
}

#[tokio::test]
async fn keys_and_schedules_are_named_by_their_names() -> Checked {
    let node = node(Database::Sqlite).await?;
    said(&node, &["keys", "create", "ci", "--budget", "$2/month"])?;
    let id = said(&node, &["keys", "list", "--fields", "name,id"])?;
    let id = id
        .lines()
        .find_map(|line| line.strip_prefix("ci\t"))
        .context("no key")?
        .to_owned();
    let budget = said(&node, &["budgets", "get", &format!("key:{id}")])?;
    ensure!(budget.contains("$2.00") && budget.contains("month"), "{budget}");
    said(&node, &["keys", "create", "ci"])?;
    ensure!(
        refused(&node, &["keys", "revoke", "ci"])?.contains("2 keys match"),
        "two of a name"
    );
    exits(node.sortie(&["keys", "revoke", &id]), 0)?;
    exits(node.sortie(&["keys", "revoke", "ci"]), 0)?;
    let file = node.data_dir().join("daily.json");
    fs::write(&file, r#"{"name": "daily", "prompt": "```answer\nhello\n```"}"#)?;
    said(&node, &["workflows", "put", &file.display().to_string()])?;
    said(
        &node,
        &[
            "schedules",
            "create",
            "daily",
            "@daily",
            "--name",
            "Morning report",
        ],
    )?;
    let named = said(
        &node,
        &["schedules", "get", "Morning report", "--fields", "workflow"],
    )?;
    assert_eq!(named, "daily\n");
    ensure!(
        refused(&node, &["schedules", "get", "Evening"])?.contains("no schedule has this"),
        "another name"
    );
    exits(node.sortie(&["schedules", "delete", "Morning report"]), 0)?;
    Ok(())
}

#[tokio::test]
async fn a_workflow_is_changed_in_an_editor() -> Checked {
    let node = node(Database::Sqlite).await?;
    let file = node.data_dir().join("daily.json");
    fs::write(
        &file,
        r#"{"name": "daily", "prompt": "Look at the orders.", "tags": ["a"]}"#,
    )?;
    said(&node, &["workflows", "put", &file.display().to_string()])?;
    let edit = |script: &str| -> Result<std::process::Command> {
        let editor = node.data_dir().join("editor");
        fs::write(&editor, format!("#!/bin/sh\n{script}\n"))?;
        fs::set_permissions(&editor, fs::Permissions::from_mode(0o700))?;
        let mut command = node.sortie(&["workflows", "edit", "daily"]);
        command.env("VISUAL", &editor);
        Ok(command)
    };
    let saved = exits(edit("sed -i 's/orders/invoices/' \"$1\"")?, 0)?;
    ensure!(
        text(&saved.stderr).contains("revision 2"),
        "{}",
        text(&saved.stderr)
    );
    let toml = said(&node, &["workflows", "get", "daily", "-o", "toml"])?;
    ensure!(toml.contains("prompt = \"Look at the invoices.\""), "{toml}");
    ensure!(
        text(&exits(edit("true")?, 64)?.stderr).contains("is unchanged"),
        "unchanged"
    );
    let refused = exits(edit("echo 'promt = 1' >>\"$1\"")?, 64)?;
    ensure!(
        text(&refused.stderr).contains("promt"),
        "{}",
        text(&refused.stderr)
    );
    Ok(())
}
