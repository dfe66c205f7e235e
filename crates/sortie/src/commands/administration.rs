//! `sortie audit`, `sortie usage`: what administrators look at.

use sortie_api::{
    AuditEntry,
    usage::{Usage, UsageDimension, UsageFigures, UsageRow},
};

use super::{Context, print_json, table};
use crate::{
    args::{AuditArgs, UsageArgs},
    failure::{Exit, Result},
    terminal,
};

pub(super) async fn audit(context: &Context, args: &AuditArgs) -> Result<Exit> {
    let connection = context.records(&args.list.engine).await?;
    let entries = connection.client.list_audit(&args.filters(), args.limit).await;
    connection.close().await;
    let entries = entries?;
    if args.list.json {
        return print_json(&entries);
    }
    terminal::print(&entry_rows(&entries))?;
    Ok(Exit::Success)
}

fn entry_rows(entries: &[AuditEntry]) -> String {
    let mut rows = table::new(["AT", "ACTION", "TARGET", "AUTHOR", "ADDRESS"]);
    for entry in entries {
        rows.add_row([
            entry.at.to_string(),
            entry.action.clone(),
            terminal::harmless(&entry.target).into_owned(),
            author(entry),
            shown(entry.address.as_ref()),
        ]);
    }
    table::text(&rows)
}

/// Shows the id of an author, or its kind where it has no id.
fn author(entry: &AuditEntry) -> String {
    let id = entry
        .actor_id
        .as_deref()
        .map(|id| terminal::harmless(id).into_owned());
    let kind = || entry.actor_kind.map(|kind| kind.as_str().to_owned());
    shown(id.or_else(kind).as_ref())
}

pub(super) async fn usage(context: &Context, args: &UsageArgs) -> Result<Exit> {
    let connection = context.records(&args.list.engine).await?;
    let usage = connection.client.usage(&args.query()).await;
    connection.close().await;
    let usage = usage?;
    if args.list.json {
        return print_json(&usage);
    }
    terminal::print(&usage_rows(&usage))?;
    Ok(Exit::Success)
}

fn usage_rows(usage: &Usage) -> String {
    let figures = |figures: &UsageFigures| {
        let used = &figures.usage;
        [
            figures.runs.to_string(),
            figures.succeeded.to_string(),
            figures.cost_micros.to_string(),
            used.input_tokens.to_string(),
            used.output_tokens.to_string(),
            used.cache_read_tokens.to_string(),
            used.cache_write_tokens.to_string(),
            used.model_calls.to_string(),
            used.tool_calls.to_string(),
        ]
    };
    let mut headings: Vec<String> = usage.by.iter().map(|by| by.as_str().to_uppercase()).collect();
    headings.extend(
        [
            "RUNS",
            "SUCCEEDED",
            "COST",
            "INPUT",
            "OUTPUT",
            "CACHE-READ",
            "CACHE-WRITE",
            "CALLS",
            "TOOLS",
        ]
        .map(str::to_owned),
    );
    let mut rows = table::new([""; 0]);
    rows.set_header(headings);
    for row in &usage.rows {
        let mut cells: Vec<String> = usage.by.iter().map(|by| dimension(row, *by)).collect();
        cells.extend(figures(&row.figures()));
        rows.add_row(cells);
    }
    let mut totals: Vec<String> = usage.by.iter().map(|_| "-".to_owned()).collect();
    if let Some(first) = totals.first_mut() {
        "total".clone_into(first);
    }
    totals.extend(figures(&usage.totals));
    rows.add_row(totals);
    table::text(&rows)
}

fn dimension(row: &UsageRow, by: UsageDimension) -> String {
    match by {
        UsageDimension::Day => shown(row.day.as_ref()),
        UsageDimension::Workflow => shown(row.workflow.as_ref()),
        UsageDimension::Model => row
            .model
            .as_deref()
            .map_or_else(|| "-".to_owned(), |model| terminal::harmless(model).into_owned()),
        UsageDimension::Key => shown(row.key_id.as_ref()),
    }
}

fn shown(value: Option<&impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_a_table_that_ends_with_its_sums() {
        let usage: Usage = serde_json::from_value(serde_json::json!({
            "from": "2026-11-01", "to": "2026-11-30", "by": ["day", "workflow"],
            "rows": [{"day": "2026-11-20", "runs": 3, "succeeded": 2, "cost_micros": 1_250, "usage": {
                "input_tokens": 1_200, "output_tokens": 340, "cache_read_tokens": 1, "cache_write_tokens": 2,
                "model_calls": 4, "tool_calls": 7}}],
            "totals": {"runs": 3, "succeeded": 2, "cost_micros": 1_250, "usage": {
                "input_tokens": 1_200, "output_tokens": 340, "cache_read_tokens": 1, "cache_write_tokens": 2,
                "model_calls": 4, "tool_calls": 7}}
        }))
        .unwrap();
        let text = usage_rows(&usage);
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(words[0][..4], ["DAY", "WORKFLOW", "RUNS", "SUCCEEDED"]);
        assert_eq!(words[1][..4], ["2026-11-20", "-", "3", "2"]);
        assert_eq!(words[2][..4], ["total", "-", "3", "2"]);
        assert!(words.iter().all(|line| line.len() == 11), "{text}");
    }

    #[test]
    fn an_entry_of_the_engine_itself_has_no_key() {
        let entry = serde_json::json!([{"id": "aud_01kafs6w1cefkstv6qr1ptb0mp", "at": "2026-11-20T21:30:00.000Z",
            "action": "key.create", "target": "x\u{1b}[2J"}]);
        let text = entry_rows(&serde_json::from_value::<Vec<AuditEntry>>(entry).unwrap());
        let line: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!((line[1], line[3], line[4]), ("key.create", "-", "-"));
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn an_entry_shows_its_author_by_id_or_kind_without_control_characters() {
        let shown = |author: &str| {
            let entry = format!(
                r#"[{{"id":"aud_01kafs6w1cefkstv6qr1ptb0mp","at":"2026-11-20T21:30:00.000Z","action":"a.b","target":"x",{author}}}]"#
            );
            let text = entry_rows(&serde_json::from_str::<Vec<AuditEntry>>(&entry).unwrap());
            assert!(!text.contains('\u{1b}'));
            let line = text.lines().nth(1).unwrap();
            line.split_whitespace().nth(3).unwrap().to_owned()
        };
        let id = "sched_01kafs6w1cefkstv6qr1ptb0mp";
        assert_eq!(
            shown(&format!(r#""actor_kind":"schedule","actor_id":"{id}""#)),
            id
        );
        assert_eq!(shown(r#""actor_kind":"operator""#), "operator");
        assert!(shown(r#""actor_kind":"key","actor_id":"a\u001b[2J""#).starts_with('a'));
    }
}
