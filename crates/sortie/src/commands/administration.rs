//! `sortie audit`, `sortie usage`: changes and costs, for administrators.

use sortie_api::{
    AuditEntry,
    usage::{Usage, UsageDimension, UsageFigures, UsageRow},
};

use super::Context;
use crate::{
    args::{AuditArgs, UsageArgs},
    client::{get, path_of},
    failure::{Exit, Result},
    render::{Cell, Field, Look, Record, grid, maybe, some, time},
};

impl Record for AuditEntry {
    const COLUMNS: &'static [Field<Self>] = &[
        ("AT", |entry| time(entry.at)),
        ("ACTION", |entry| some(&entry.action)),
        ("TARGET", |entry| some(&entry.target)),
    ];
    const MORE: &'static [Field<Self>] = &[
        ("AUTHOR", author),
        ("ADDRESS", |entry| maybe(entry.address.as_ref())),
    ];
    const CUT: &'static [&'static str] = &["TARGET"];
}

/// Returns the id of an author, or its kind if it has no id.
fn author(entry: &AuditEntry) -> Option<Cell> {
    let kind = || entry.actor_kind.map(|kind| kind.as_str().to_owned());
    maybe(entry.actor_id.clone().or_else(kind))
}

pub(super) async fn audit(context: &Context, args: &AuditArgs) -> Result<Exit> {
    let (path, filters) = ("v1/admin/audit", args.filters());
    context
        .pages::<AuditEntry>(&args.render, path, &filters, args.paging.most())
        .await
}

impl Record for Usage {
    fn text(&self, look: &Look) -> String {
        let figures = [
            "RUNS",
            "SUCCEEDED",
            "COST",
            "INPUT",
            "OUTPUT",
            "CACHE-READ",
            "CACHE-WRITE",
            "CALLS",
            "TOOLS",
        ];
        let dimensions = self.by.iter().map(|by| by.as_str().to_uppercase());
        let headings = dimensions.chain(figures.map(str::to_owned));
        let row = |row: &UsageRow| {
            let dimensions = self.by.iter().map(|by| dimension(row, *by));
            dimensions.chain(figures_of(&row.figures())).collect()
        };
        let first = self.by.first().map(|_| some("total"));
        let blank = self.by.iter().skip(1).map(|_| None);
        let totals: Vec<_> = first
            .into_iter()
            .chain(blank)
            .chain(figures_of(&self.totals))
            .collect();
        grid(headings, self.rows.iter().map(row).chain([totals]), look)
    }
}

fn figures_of(figures: &UsageFigures) -> [Option<Cell>; 9] {
    let used = &figures.usage;
    [
        some(figures.runs),
        some(figures.succeeded),
        some(figures.cost_micros),
        some(used.input_tokens),
        some(used.output_tokens),
        some(used.cache_read_tokens),
        some(used.cache_write_tokens),
        some(used.model_calls),
        some(used.tool_calls),
    ]
}

fn dimension(row: &UsageRow, by: UsageDimension) -> Option<Cell> {
    match by {
        UsageDimension::Day => maybe(row.day),
        UsageDimension::Workflow => maybe(row.workflow.as_ref()),
        UsageDimension::Model => maybe(row.model.as_ref()),
        UsageDimension::Key => maybe(row.key_id),
    }
}

pub(super) async fn usage(context: &Context, args: &UsageArgs) -> Result<Exit> {
    let path = path_of("v1/admin/usage", &args.query());
    context.one::<Usage>(&args.render, get(path)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{Look, table};

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
        let text = usage.text(&Look::plain());
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
        let text = table(
            &serde_json::from_value::<Vec<AuditEntry>>(entry).unwrap(),
            &Look::plain(),
        );
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
            let text = table(
                &serde_json::from_str::<Vec<AuditEntry>>(&entry).unwrap(),
                &Look::plain(),
            );
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
