//! The table: a row per measurement, a column per database, the machine's own limits above it.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use sortie_testkit::Database;

/// What was measured so far.
pub(crate) struct Report {
    only: Option<String>,
    machine: Vec<(String, String)>,
    columns: Vec<(Database, Vec<(String, String)>)>,
}

impl Report {
    /// An empty report. `only` limits it to measurements whose name contains it.
    pub(crate) fn new(only: Option<String>) -> Self {
        Self {
            only,
            machine: Vec::new(),
            columns: Vec::new(),
        }
    }

    /// What follows is measured on this database.
    pub(crate) fn begin(&mut self, database: Database) {
        eprintln!("== {}", database.as_str());
        self.columns.push((database, Vec::new()));
    }

    /// Whether this measurement is asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// A figure of the database at hand, or of the machine before the first one.
    pub(crate) fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        eprintln!("{name}: {value}");
        match self.columns.last_mut() {
            Some((_, rows)) => rows.push((name, value)),
            None => self.machine.push((name, value)),
        }
    }

    fn table(&self) -> Result<String> {
        let mut text = String::from(
            "# Results\n\nWritten by `make bench`; README.md beside this file says how to read it.\n\n",
        );
        text.push_str("| The machine | |\n|---|---|\n");
        for (name, value) in &self.machine {
            writeln!(text, "| {name} | {value} |")?;
        }
        text.push_str("\n| The engine |");
        for (database, _) in &self.columns {
            write!(text, " {} |", database.as_str())?;
        }
        text.push_str("\n|---|");
        text.push_str(&"---|".repeat(self.columns.len()));
        text.push('\n');
        for (name, _) in self
            .columns
            .first()
            .map(|(_, rows)| rows.as_slice())
            .unwrap_or_default()
        {
            write!(text, "| {name} |")?;
            for (_, rows) in &self.columns {
                let value = rows
                    .iter()
                    .find(|(row, _)| row == name)
                    .map_or("", |(_, value)| value);
                write!(text, " {value} |")?;
            }
            text.push('\n');
        }
        Ok(text)
    }

    /// Writes the table to a file, or to standard output.
    #[expect(clippy::print_stdout, reason = "the table is this program's output")]
    pub(crate) fn write(&self, path: Option<&Path>) -> Result<()> {
        let table = self.table()?;
        if let Some(path) = path {
            fs::write(path, table).with_context(|| format!("cannot write {}", path.display()))
        } else {
            println!("{table}");
            Ok(())
        }
    }
}
