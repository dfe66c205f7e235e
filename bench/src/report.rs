//! The tables: requirements and results, with the share of its limit that each main figure reaches; the machine and its limits; a
//! row per measurement and a column per database.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use sortie_testkit::Database;

use crate::bars::{BARS, Bar};

/// Kind of a limit of the machine, which this program measures without the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Requests per second that a bare server answers.
    Requests,
    /// Rows per second in durable commits of the database, for the better of large and small groups.
    Rows,
    /// Processes per second, each with a wait for its exit.
    Processes,
    /// Messages per second from a bare server to the readers of its event streams.
    Messages,
    /// Seconds of a disk flush.
    Flush,
    /// Seconds from the start of a node to its first response.
    Start,
    /// Seconds after which a silent node is considered lost.
    Lease,
}

impl Limit {
    const fn name(self) -> &'static str {
        match self {
            Self::Requests => "bare requests",
            Self::Rows => "durable rows",
            Self::Processes => "bare processes",
            Self::Messages => "bare stream messages",
            Self::Flush => "for a flush",
            Self::Start => "for a start",
            Self::Lease => "for the lease",
        }
    }

    /// Whether it is a minimum time and not a maximum rate.
    const fn is_time(self) -> bool {
        matches!(self, Self::Flush | Self::Start | Self::Lease)
    }
}

/// A main figure with its limit.
struct Ratio {
    name: String,
    database: Database,
    /// Figure in the limit's unit per second, or in seconds.
    reached: f64,
    limit: Limit,
}

/// Figures measured so far.
pub(crate) struct Report {
    only: Option<String>,
    machine: Vec<(String, String)>,
    columns: Vec<(Database, Vec<(String, String)>)>,
    /// Limits of the machine, or of the named database.
    limits: Vec<(Limit, Option<Database>, f64)>,
    ratios: Vec<Ratio>,
    /// Figures with a possible requirement, in the unit of that requirement.
    reached: Vec<(String, Database, f64)>,
}

impl Report {
    /// Creates an empty report. `only` selects the measurements whose name contains it.
    pub(crate) fn new(only: Option<String>) -> Self {
        Self {
            only,
            machine: Vec::new(),
            columns: Vec::new(),
            limits: Vec::new(),
            ratios: Vec::new(),
            reached: Vec::new(),
        }
    }

    /// Starts the figures of a database.
    pub(crate) fn begin(&mut self, database: Database) {
        eprintln!("== {}", database.as_str());
        self.columns.push((database, Vec::new()));
    }

    /// Whether this measurement is selected.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Adds a figure of the current database, or of the machine before the first one.
    pub(crate) fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        eprintln!("{name}: {value}");
        match self.columns.last_mut() {
            Some((_, rows)) => rows.push((name, value)),
            None => self.machine.push((name, value)),
        }
    }

    /// Adds a limit of the machine, or of the current database, in units per second or in seconds.
    pub(crate) fn limit(&mut self, limit: Limit, amount: f64) {
        let database = self.columns.last().map(|(database, _)| *database);
        self.limits.push((limit, database, amount));
    }

    /// Adds a figure with a limit: `reached` units of the limit per second, or seconds.
    pub(crate) fn against(&mut self, limit: Limit, name: impl Into<String>, reached: f64) {
        if let Some((database, _)) = self.columns.last() {
            self.ratios.push(Ratio {
                name: name.into(),
                database: *database,
                reached,
                limit,
            });
        }
    }

    /// Adds a figure that [`BARS`] may name: per second, seconds, KiB, or a ratio.
    pub(crate) fn reach(&mut self, figure: impl Into<String>, amount: f64) {
        if let Some((database, _)) = self.columns.last() {
            self.reached.push((figure.into(), *database, amount));
        }
    }

    fn table(&self) -> Result<String> {
        let mut text = String::from(
            "# Results\n\nWritten by `make bench`; [README.md](README.md) says how to read it.\n\n",
        );
        self.bars(&mut text)?;
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
        for name in self.names() {
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

    /// Returns the rows of all databases, in the order of their first occurrence.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.columns.iter().flat_map(|(_, rows)| rows) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// Writes the requirements. If everything was measured, also those without a figure.
    fn bars(&self, text: &mut String) -> Result<()> {
        let mut rows = String::new();
        for bar in &BARS {
            let databases = self.columns.iter().map(|(database, _)| *database);
            for database in databases.filter(|at| bar.database.is_none_or(|on| on == *at)) {
                self.bar(bar, database, &mut rows)?;
            }
        }
        if !rows.is_empty() {
            text.push_str("| Figure | Database | Required | Reached | Limit | Ratio | Met |\n");
            text.push_str("|---|---|---|---|---|---|---|\n");
            writeln!(text, "{rows}")?;
        }
        Ok(())
    }

    fn bar(&self, bar: &Bar, database: Database, rows: &mut String) -> Result<()> {
        let (figure, required) = (bar.figure, bar.required);
        let reached = self
            .reached
            .iter()
            .find(|(name, on, _)| name == figure && *on == database);
        let start = format!("| {figure} | {} | {} |", database.as_str(), required.text());
        let Some((_, _, reached)) = reached else {
            if self.only.is_none() {
                writeln!(rows, "{start} not measured | | | |")?;
            }
            return Ok(());
        };
        let nearest = self
            .ratios
            .iter()
            .filter(|ratio| ratio.name == figure && ratio.database == database)
            .filter_map(|ratio| Some((self.share(ratio)?, ratio.limit.name())))
            .max_by(|one, other| one.0.total_cmp(&other.0));
        let limit = nearest.and_then(|(share, name)| {
            let limit = required.amount(required.at_limit(*reached, share)?);
            Some(format!("{limit} ({name}) | {:.1} %", 100.0 * share))
        });
        writeln!(
            rows,
            "{start} {} | {} | {} |",
            required.amount(*reached),
            limit.unwrap_or_else(|| " | ".to_owned()),
            if required.is_met(*reached) {
                "yes"
            } else {
                "**no**"
            }
        )?;
        Ok(())
    }

    /// Returns the measured limit of a ratio.
    fn limit_of(&self, ratio: &Ratio) -> Option<f64> {
        let measured = self.limits.iter().find(|(limit, database, _)| {
            *limit == ratio.limit && database.is_none_or(|database| database == ratio.database)
        });
        measured.map(|(_, _, amount)| *amount)
    }

    /// Returns the share of the limit that a figure reaches: 1 at the limit, for rates and times.
    fn share(&self, ratio: &Ratio) -> Option<f64> {
        let limit = self.limit_of(ratio)?;
        Some(if ratio.limit.is_time() {
            limit / ratio.reached
        } else {
            ratio.reached / limit
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_stands_beside_what_was_reached_and_the_nearest_limit() {
        let mut report = Report::new(None);
        report.limit(Limit::Requests, 100_000.0);
        report.limit(Limit::Flush, 0.000_3);
        report.begin(Database::Sqlite);
        report.limit(Limit::Rows, 100_000.0);
        let runs = "complete tool-free runs, 64 at once";
        report.reach(runs, 5_000.0);
        report.against(Limit::Requests, runs, 10_000.0);
        report.against(Limit::Rows, runs, 85_000.0);
        let dispatch = "mixed work at half load: 202 to `starting`, p50";
        report.reach(dispatch, 0.003);
        report.against(Limit::Flush, dispatch, 0.003);
        report.reach("memory of a waiting run, 10,000 waiting", 14.84);
        let table = report.table().unwrap();
        for row in [
            "| complete tool-free runs, 64 at once | SQLite | ≥ 2500/s | 5000/s | 5882/s (durable rows) | 85.0 % | yes |\n",
            "`, p50 | SQLite | < 2.00 ms | 3.00 ms | 0.30 ms (for a flush) | 10.0 % | **no** |\n",
            "10,000 waiting | SQLite | < 32.0 KiB | 14.8 KiB |  |  | yes |\n",
            "| creates, 64 at once | SQLite | ≥ 8000/s | not measured | | | |\n",
        ] {
            assert!(table.contains(row), "{row} is not in\n{table}");
        }
        assert!(!table.contains("PostgreSQL"), "{table}");
        let mut report = Report::new(Some("shell".to_owned()));
        report.begin(Database::Postgres);
        let table = report.table().unwrap();
        assert!(!table.contains("Required"), "{table}");
    }

    #[test]
    fn a_figure_has_the_limit_of_its_database() {
        let mut report = Report::new(None);
        report.limit(Limit::Requests, 1_000_000.0);
        report.begin(Database::Sqlite);
        report.limit(Limit::Rows, 400_000.0);
        report.add("of both", "50/s");
        let creates = "creates, 64 at once";
        report.reach(creates, 10_000.0);
        report.against(Limit::Requests, creates, 10_000.0);
        report.against(Limit::Rows, creates, 40_000.0);
        report.begin(Database::Postgres);
        report.add("of this one alone", "1");
        let killed = "SIGKILL to all of 200 runs final or resumed, by another node";
        report.reach(killed, 12.0);
        report.limit(Limit::Lease, 10.0);
        report.against(Limit::Lease, killed, 12.0);
        let shell = "runs with one shell command, 16 at once";
        report.reach(shell, 200.0);
        report.against(Limit::Rows, shell, 200.0);
        let table = report.table().unwrap();
        for row in [
            "| of both | 50/s |  |\n",
            "| of this one alone |  | 1 |\n",
            "| creates, 64 at once | SQLite | ≥ 8000/s | 10000/s | 100000/s (durable rows) | 10.0 % | yes |\n",
            "by another node | PostgreSQL | < 15000 ms | 12000 ms | 10000 ms (for the lease) | 83.3 % | yes |\n",
            "16 at once | PostgreSQL | ≥ 300/s | 200/s |  |  | **no** |\n",
        ] {
            assert!(table.contains(row), "{row} is not in\n{table}");
        }
    }
}
