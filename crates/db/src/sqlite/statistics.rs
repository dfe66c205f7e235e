//! Statistics for the planner: constant rows of `sqlite_stat1`.
//!
//! Without them `SQLite` considers every index of a table equally good, and scans all runs of an organization to find
//! those of a rare status. Measured statistics would be no better: they mislead if the database was small, or had runs
//! of one outcome only, when `ANALYZE` ran. The rows of the schema describe a large database. They are set whenever the
//! database is opened, so they replace those of an earlier `ANALYZE`.

use super::Connection;
use crate::{ReadRow, Result, Stmt, Tx, row, select, vals};

/// Rows of the table of statistics, as the [schema](crate::Schema) has them.
type Rows = [(&'static str, &'static str, &'static str)];

/// Reads the statistics that the database has.
const READ: &str = select!(Statistic, " FROM sqlite_stat1 ORDER BY tbl, idx");

row! {
    struct Statistic {
        table: String = "tbl",
        index: Option<String> = "idx",
        stat: String = "stat",
    }
}

/// Creates the tables of the statistics if they are missing, and makes this connection reload them. Measures nothing.
const LOAD: &str = "ANALYZE sqlite_schema";

/// Sets the statistics, unless the database has them already. Connections that are opened later read them with the
/// schema.
pub(super) fn set(connection: &mut Connection, rows: &Rows) -> Result<()> {
    if are_set(connection, rows)? {
        return Ok(());
    }
    connection.script("BEGIN IMMEDIATE")?;
    let outcome = connection
        .script(LOAD)
        .and_then(|()| write(connection, rows))
        .and_then(|()| connection.script(LOAD))
        .and_then(|()| connection.script("COMMIT"));
    if outcome.is_err() && !connection.is_idle() {
        connection.script("ROLLBACK")?;
    }
    outcome
}

fn are_set(connection: &mut Connection, rows: &Rows) -> Result<bool> {
    let tables = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'sqlite_stat1'";
    if connection.query_one(tables, vals![])?.only::<i64>()? == 0 || samples(connection)? {
        return Ok(false);
    }
    let found = connection.query_all(READ, vals![])?;
    let found: Vec<Statistic> = found.iter().map(Statistic::read).collect::<Result<_>>()?;
    let found = found.iter().map(|of| {
        (
            of.table.as_str(),
            of.index.as_deref().unwrap_or_default(),
            of.stat.as_str(),
        )
    });
    Ok(found.eq(rows.iter().copied()))
}

/// Whether the database has samples of rows, from an `ANALYZE` that another program ran.
fn samples(connection: &mut Connection) -> Result<bool> {
    let tables = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'sqlite_stat4'";
    if connection.query_one(tables, vals![])?.only::<i64>()? == 0 {
        return Ok(false);
    }
    let first = connection.query_opt("SELECT 1 FROM sqlite_stat4 LIMIT 1", vals![])?;
    Ok(first.is_some())
}

fn write(connection: &mut Connection, rows: &Rows) -> Result<()> {
    if samples(connection)? {
        connection.exec("DELETE FROM sqlite_stat4", vals![])?;
    }
    let mut statements = vec![Stmt::new("DELETE FROM sqlite_stat1", vals![])];
    statements.extend(rows.iter().map(|(table, index, stat)| {
        Stmt::new(
            "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ($1, $2, $3)",
            vals![*table, *index, *stat],
        )
    }));
    connection.batch(&statements).map(drop)
}
