//! Tables of the simulated server: `SQLite` in memory, emptied for each schedule.

use crate::{
    Dialect, Error, Result, Schema, Stmt, Tx, Val,
    sqlite::{self, Connection},
    tx::Answer,
    vals,
    value::Row,
};

/// Lists the tables of the schema. Their order does not matter: foreign keys are off.
const TABLES: &str = "SELECT name FROM main.sqlite_master WHERE type = 'table' \
    AND name NOT LIKE 'sqlite_%' AND name <> 'migration'";

/// Clock of the server, which `{CLOCK}` reads.
const CLOCK: &str =
    "CREATE TEMP TABLE simulated_clock (at BIGINT NOT NULL); INSERT INTO simulated_clock VALUES (0)";

const SETTINGS: &str = "PRAGMA foreign_keys = OFF; PRAGMA journal_mode = MEMORY; PRAGMA temp_store = MEMORY";

/// Translates `sql` for `SQLite`, with the clock of a server.
fn translate(sql: &str) -> String {
    Dialect::Sqlite.translate(&sql.replace("{CLOCK}", "(SELECT at FROM temp.simulated_clock)"))
}

/// Statement that was run, with its parameters and its answer.
pub(super) struct Done {
    pub(super) sql: &'static str,
    pub(super) params: Vec<Val<'static>>,
    pub(super) answer: Answer,
}

pub(super) struct Database {
    connection: Connection,
    /// SQL that restores the tables as they were after the migrations.
    clear: String,
}

impl Database {
    pub(super) fn new(schema: Schema) -> Result<Self> {
        let mut connection = Connection::in_memory(translate)?;
        connection.script(SETTINGS)?;
        sqlite::apply_migrations(&mut connection, schema.migrations)?;
        connection.script(CLOCK)?;
        connection.script("ATTACH ':memory:' AS fresh")?;
        let mut clear = String::from("BEGIN;");
        let names = connection.query_all(TABLES, vals![])?;
        for row in &names {
            let name: &str = row.only()?;
            connection.script(&format!("CREATE TABLE fresh.{name} AS SELECT * FROM main.{name}"))?;
            clear.push_str("DELETE FROM main.");
            clear.push_str(name);
            clear.push_str("; INSERT INTO main.");
            clear.push_str(name);
            clear.push_str(" SELECT * FROM fresh.");
            clear.push_str(name);
            clear.push(';');
        }
        clear.push_str("COMMIT");
        Ok(Self { connection, clear })
    }

    pub(super) fn clear(&mut self) -> Result<()> {
        if !self.connection.is_idle() {
            self.connection.control("ROLLBACK")?;
        }
        self.connection.script(&self.clear)
    }

    pub(super) fn begin(&mut self, clock: i64) -> Result<()> {
        self.connection.control("BEGIN")?;
        self.set_clock(clock)
    }

    pub(super) fn set_clock(&mut self, clock: i64) -> Result<()> {
        self.connection
            .exec("UPDATE temp.simulated_clock SET at = $1", vals![clock])
            .map(drop)
    }

    /// Runs COMMIT or ROLLBACK, if a transaction is open.
    pub(super) fn end(&mut self, sql: &'static str) -> Result<()> {
        if self.connection.is_idle() {
            return Ok(());
        }
        self.connection.control(sql)
    }

    /// Runs one statement and does not check the number of rows that it affects.
    pub(super) fn run(&mut self, statement: &Stmt<'_>) -> Result<Answer> {
        let bare = Stmt::new(statement.sql, statement.params.clone());
        let [answer] = crate::batch(&mut self.connection, &[bare])?;
        Ok(answer)
    }

    pub(super) fn query(&mut self, sql: &'static str) -> Result<Vec<Row>> {
        self.connection.query_all(sql, vals![])
    }

    /// Runs a transaction again. Commits it if every statement answers as it did before.
    pub(super) fn repeat(&mut self, transaction: &[Done], clock: i64) -> Result<bool> {
        self.begin(clock)?;
        let mut is_same = true;
        for done in transaction {
            let statement = Stmt::new(done.sql, done.params.clone());
            let answer = self.run(&statement);
            is_same = answer.is_ok_and(|answer| {
                answer.affected == done.answer.affected
                    && answer.rows.len() == done.answer.rows.len()
                    && answer.rows.iter().zip(&done.answer.rows).all(|(a, b)| a.0 == b.0)
            });
            if !is_same {
                break;
            }
        }
        self.end(if is_same { "COMMIT" } else { "ROLLBACK" })?;
        Ok(is_same)
    }
}

/// Code and text by which the server reports a failed statement.
pub(super) fn reported(error: &Error) -> (&'static str, String) {
    let text = error.to_string();
    let code = if text.contains("UNIQUE") || text.contains("PRIMARY KEY") {
        "23505"
    } else {
        "XX000"
    };
    (code, text)
}
