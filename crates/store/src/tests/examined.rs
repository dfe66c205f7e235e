//! Number of rows that a command examines. `SQLite` counts the steps of its machine. `PostgreSQL` has no such counter:
//! the test runs the statements of the command once more, under `EXPLAIN ANALYZE`.

use std::fmt::Write as _;

use super::prelude::*;
use crate::db::fault::Ran;

/// Largest cost of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// Number of steps on `SQLite`.
    pub(super) steps: u64,
    /// Number of rows on `PostgreSQL`, over all scans.
    pub(super) rows: u64,
    /// Number of rows on `PostgreSQL` of any one scan.
    pub(super) of_a_scan: u64,
}

/// Runs a command that reads, and checks its cost.
pub(super) async fn within<T>(
    fixture: &Fixture,
    bound: Bound,
    command: impl Future<Output = crate::Result<T>>,
) -> T {
    let faults = fixture.store.db.faults();
    faults.steps();
    faults.watch();
    let found = command.await.unwrap();
    let (steps, ran) = (faults.steps(), faults.watched());
    assert!(!ran.is_empty(), "the command runs statements");
    match fixture.dialect() {
        Dialect::Sqlite => assert!(
            (1..bound.steps).contains(&steps),
            "{steps} steps: {bound:?} {ran:#?}"
        ),
        Dialect::Postgres => {
            let mut scans = Vec::new();
            for one in &ran {
                scans.extend(scanned(fixture, one).await);
            }
            assert!(!scans.is_empty(), "no scan was found: {ran:#?}");
            let (all, most) = (scans.iter().sum::<u64>(), scans.iter().max().copied());
            assert!(
                all <= bound.rows && most <= Some(bound.of_a_scan),
                "{all} rows in {scans:?}: {bound:?} {ran:#?}"
            );
        }
    }
    found
}

/// Returns the number of rows that each scan of a statement reads.
async fn scanned(fixture: &Fixture, (sql, params): &Ran) -> Vec<u64> {
    assert!(sql.starts_with("SELECT"), "it would change rows once more: {sql}");
    let name = format!("examined_{}", fixture.number());
    let arguments = params.iter().map(literal).collect::<Vec<_>>().join(", ");
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let prepare = leak(format!("PREPARE {name} AS {}", Dialect::Postgres.translate(sql)));
    let explain = leak(format!(
        "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, BUFFERS OFF, SUMMARY OFF) EXECUTE {name}({arguments})"
    ));
    let plan = fixture.store.db.write(move |tx: &mut dyn Tx| {
        tx.exec(prepare, vals![])?;
        tx.query_all(explain, vals![])
    });
    let plan = plan.await.unwrap();
    let lines: Vec<&str> = plan.iter().map(|row| row.text(0).unwrap()).collect();
    rows_of_scans(&lines)
}

/// A parameter as SQL text.
fn literal(value: &Val<'static>) -> String {
    match value {
        Val::Null => "NULL".to_owned(),
        Val::Int(number) => number.to_string(),
        Val::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Val::Blob(bytes) => {
            bytes.iter().fold("'\\x".to_owned(), |mut text, byte| {
                write!(text, "{byte:02x}").unwrap();
                text
            }) + "'"
        }
    }
}

/// Reads the number of rows of each scan from the text of a plan: those that it returns, and those that its conditions
/// reject, over all of its loops.
fn rows_of_scans(plan: &[&str]) -> Vec<u64> {
    let mut scans: Vec<u64> = Vec::new();
    // Loops of the scan that the lines below describe.
    let mut loops = None;
    for line in plan {
        let step = line.trim().trim_start_matches("->").trim();
        if step.contains("(actual ") || step.contains("(never executed)") {
            let is_scan = step.split('(').next().unwrap_or_default().contains("Scan");
            loops = figure(step, "loops=").filter(|_| is_scan);
            let rows = figure(step, "rows=").unwrap_or_default();
            scans.extend(loops.map(|loops| total(rows, loops)));
        } else if let (Some(rejected), Some(loops)) = (rejected(step), loops) {
            *scans.last_mut().unwrap() += total(rejected, loops);
        }
    }
    scans
}

fn rejected(step: &str) -> Option<f64> {
    step.starts_with("Rows Removed by").then_some(())?;
    step.rsplit(": ").next()?.parse().ok()
}

fn figure(step: &str, name: &str) -> Option<f64> {
    let (_, rest) = step.split_once("(actual ")?;
    let (_, rest) = rest.split_once(name)?;
    rest.split([' ', ')']).next()?.parse().ok()
}

/// Rounds the average of a loop times the loops.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a plan has no negative figures, and a test few rows"
)]
fn total(rows: f64, loops: f64) -> u64 {
    (rows * loops).round() as u64
}

#[test]
fn the_rows_of_each_scan_are_read_from_a_plan() {
    let plan = [
        "Limit (actual rows=2 loops=1)",
        "  ->  Nested Loop (actual rows=2 loops=1)",
        "        ->  Index Only Scan using run_label_pkey on run_label t (actual rows=5.00 loops=1)",
        "              Index Cond: (org_id = $1)",
        "              Rows Removed by Filter: 7",
        "        ->  Index Scan using run_pkey on run r (actual rows=0.40 loops=5)",
        "        ->  Index Scan using run_list on run s (never executed)",
        "  Rows Removed by Filter: 1",
    ];
    assert_eq!(rows_of_scans(&plan), [12, 2]);
}
