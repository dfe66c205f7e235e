//! A long history of a node: copies of one finished run with everything that belongs to it, put into the database at once.
//!
//! The copies mislead a planner that samples a few of them: nearly every property is common, and a rare one is on old
//! runs only, or on runs that lack another common property. Run number `i`:
//!
//! | property | runs |
//! |---|---|
//! | status `failed` | each 100,000th, from 7 on |
//! | status `cancelled` | each fourth, from 1 on |
//! | status `succeeded` | all others |
//! | first schedule, tag `even` | the even ones |
//! | second schedule | each 1,000th, from 1 on |
//! | tag `nightly` | all |
//! | tag `rare` | each 100,000th, from 3 on |
//!
//! A tenth as many entries of the audit log are copies of one entry. Each 1,000th of them has the action `test.rare`.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result, ensure};
use sortie_api::{RunId, ScheduleId, Timestamp};

use super::{Node, Records, SQLITE_FILE};
use crate::{
    postgres_statements::execute,
    sqlite_file::{file_bulk, file_to_disk},
};

/// Runs that are copied in one transaction.
const STRETCH: u64 = 50_000;

/// A history to be made.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// The finished run that is copied.
    pub template: RunId,
    /// Number of copies.
    pub runs: u64,
    /// Time of the first copy.
    pub first: Timestamp,
    /// Time from the first copy to the last.
    pub lasts: Duration,
    /// Schedules that the copies belong to.
    pub schedules: [ScheduleId; 2],
}

/// Table, and the columns that differ from the template.
type Copied = (&'static str, Vec<(&'static str, String)>);

impl Node {
    /// Adds a history to the organization of its template. Its usage is not counted yet. The node must be down.
    pub async fn add_history(&self, history: &History) -> Result<()> {
        ensure!(self.process.is_none(), "the node is up");
        let mut statements = vec![history.usage()];
        for (table, changed) in history.tables() {
            let columns = self.columns(table).await?;
            statements.push(history.copies(table, &columns, &changed));
        }
        statements.push(history.tags());
        let audit = self.columns("audit").await?;
        statements.push(history.audit(&audit));
        for from in (0..history.runs).step_by(usize::try_from(STRETCH)?) {
            let to = history.runs.min(from + STRETCH);
            let filled = statements.iter().map(|sql| {
                sql.replace("{FROM}", &from.to_string())
                    .replace("{TO}", &to.to_string())
            });
            let sql = format!("BEGIN;\n{};\nCOMMIT", filled.collect::<Vec<_>>().join(";\n"));
            match &self.records {
                Records::InDataFolder { .. } => file_bulk(&self.data_dir().join(SQLITE_FILE), &sql)?,
                Records::Shared(database) => execute(database.url(), sql).await?,
            }
        }
        // A real database of this size has grown slowly: its statistics are up to date, and its pages are on disk.
        match &self.records {
            Records::InDataFolder { .. } => file_to_disk(&self.data_dir().join(SQLITE_FILE))?,
            Records::Shared(database) => execute(database.url(), "VACUUM ANALYZE".to_owned()).await?,
        }
        Ok(())
    }

    /// Whether the usage of a history is counted.
    pub async fn has_counted_history(&self) -> Result<bool> {
        let due = format!(
            "SELECT o.id FROM organization o WHERE EXISTS (SELECT 1 FROM run r WHERE r.org_id = o.id \
             AND r.created_at >= o.usage_until AND r.created_at >= 0 AND r.id LIKE '{PREFIX}%')"
        );
        Ok(self.rows(&due).await?.is_empty())
    }

    /// Whether the first run of a history still exists. Retention deletes it among the first.
    pub async fn has_first_of_history(&self) -> Result<bool> {
        let first = format!("SELECT r.id FROM run r WHERE r.id = '{PREFIX}{FIRST}'");
        Ok(!self.rows(&first).await?.is_empty())
    }

    /// Names of the columns of a table that has a row.
    async fn columns(&self, table: &str) -> Result<BTreeSet<String>> {
        let rows = self.rows(&format!("SELECT * FROM {table} LIMIT 1")).await?;
        let row = rows.first().with_context(|| format!("{table} is empty"))?;
        let row = row.as_object().context("a row is no object")?;
        Ok(row.keys().cloned().collect())
    }
}

/// Numbers of the copies of one transaction, in order.
const NUMBERS: &str = "WITH RECURSIVE n (i) AS (SELECT CAST({FROM} AS BIGINT) UNION ALL SELECT n.i + 1 FROM n WHERE n.i + 1 < {TO}) ";

/// Start of the id of each copy. The rest is the sum of [`FIRST`] and the number of the copy.
const PREFIX: &str = "run_01hf7yat00e0080000";

const FIRST: u64 = 10_000_000;

/// Id of a copy.
const ID: &str = "'run_01hf7yat00e0080000' || CAST(10000000 + n.i AS TEXT)";

impl History {
    /// Time of a copy.
    fn at(&self) -> String {
        let step = self.lasts.as_micros() / u128::from(self.runs.max(1));
        format!("{} + n.i * {step}", self.first.as_micros())
    }

    fn tables(&self) -> [Copied; 4] {
        let [first, second] = self.schedules;
        let status =
            "CASE WHEN n.i % 100000 = 7 THEN 'failed' WHEN n.i % 4 = 1 THEN 'cancelled' ELSE 'succeeded' END";
        let run = [
            ("id", ID.to_owned()),
            ("status", status.to_owned()),
            ("outcome", status.to_owned()),
            ("created_at", self.at()),
            ("started_at", self.at()),
            ("finished_at", self.at()),
            ("idempotency_key", "NULL".to_owned()),
            (
                "schedule_id",
                format!("CASE WHEN n.i % 2 = 0 THEN '{first}' WHEN n.i % 1000 = 1 THEN '{second}' END"),
            ),
            (
                "tags",
                "CASE WHEN n.i % 2 = 0 THEN '[\"nightly\",\"even\"]' WHEN n.i % 100000 = 3 THEN '[\"nightly\",\"rare\"]' \
                 ELSE '[\"nightly\"]' END"
                    .to_owned(),
            ),
        ];
        let belonging = || vec![("run_id", ID.to_owned())];
        let mut event = belonging();
        event.push(("created_at", self.at()));
        [
            ("run", run.to_vec()),
            ("run_definition", belonging()),
            ("run_output", belonging()),
            ("event", event),
        ]
    }

    /// Statement that copies the rows of the template in a table.
    fn copies(&self, table: &str, columns: &BTreeSet<String>, changed: &[(&'static str, String)]) -> String {
        let values = values(columns, changed);
        let key = if table == "run" { "id" } else { "run_id" };
        let names = names(columns);
        let template = self.template;
        // The numbers come first, so that rows are added in the order of their keys.
        format!(
            "INSERT INTO {table} ({names}) {NUMBERS}SELECT {values} FROM n CROSS JOIN {table} t WHERE t.{key} = '{template}'"
        )
    }

    fn tags(&self) -> String {
        let (at, template) = (self.at(), self.template);
        format!(
            "INSERT INTO run_label (org_id, label, created_at, run_id) {NUMBERS}\
             SELECT t.org_id, 'nightly', {at}, {ID} FROM n CROSS JOIN run t WHERE t.id = '{template}' \
             UNION ALL SELECT t.org_id, 'even', {at}, {ID} FROM n CROSS JOIN run t WHERE t.id = '{template}' AND n.i % 2 = 0 \
             UNION ALL SELECT t.org_id, 'rare', {at}, {ID} FROM n CROSS JOIN run t WHERE t.id = '{template}' AND n.i % 100000 = 3"
        )
    }

    fn audit(&self, columns: &BTreeSet<String>) -> String {
        let changed = [
            (
                "id",
                "'aud_01hf7yat00e0080000' || CAST(10000000 + n.i AS TEXT)".to_owned(),
            ),
            ("at", self.at()),
            ("target", "'w' || CAST(n.i % 1000 AS TEXT)".to_owned()),
            (
                "action",
                "CASE WHEN n.i % 10000 = 0 THEN 'test.rare' ELSE t.action END".to_owned(),
            ),
        ];
        let (names, values) = (names(columns), values(columns, &changed));
        // The newest entry that is not a copy.
        format!(
            "INSERT INTO audit ({names}) {NUMBERS}SELECT {values} FROM n CROSS JOIN (SELECT * FROM audit \
             ORDER BY at DESC, id DESC LIMIT 1) t WHERE n.i % 10 = 0"
        )
    }

    /// Statement that begins the count of usage at the first copy.
    fn usage(&self) -> String {
        format!(
            "UPDATE organization SET usage_until = {} WHERE id = (SELECT t.org_id FROM run t WHERE t.id = '{}')",
            self.first.as_micros(),
            self.template
        )
    }
}

fn names(columns: &BTreeSet<String>) -> String {
    columns.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Values of the columns of a copy: those of the template, except the changed ones.
fn values(columns: &BTreeSet<String>, changed: &[(&'static str, String)]) -> String {
    let values = columns.iter().map(|column| {
        let change = changed.iter().find(|(name, _)| name == column);
        change.map_or_else(|| format!("t.{column}"), |(_, value)| value.clone())
    });
    values.collect::<Vec<_>>().join(", ")
}
