//! Output of a command: JSON for programs, tables and records for people.
//!
//! A type of the API says once, as a [`Record`], how people see it. [`Render`] holds the flags for the form of the output,
//! and is the only one that prints an answer of the API.

use std::{io::IsTerminal as _, slice};

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use sortie_api::json;

use crate::{
    failure::{Exit, Failure, Result},
    terminal::{self, harmless},
};

/// Column of a table or line of a record: its heading, and its text. A table shows `-` where there is no text, a record
/// leaves the line out.
pub(crate) type Field<T> = (&'static str, fn(&T) -> Option<String>);

/// Width of the headings of records whose longest heading is not longer than this.
const HEADING_WIDTH: usize = 9;

/// A type of the API that commands print.
pub(crate) trait Record: Serialize + Sized + 'static {
    /// Columns of a list of these.
    const COLUMNS: &'static [Field<Self>] = &[];
    /// Lines of a single one. One without lines is printed as a list with one row.
    const LINES: &'static [Field<Self>] = &[];

    /// Returns the text on standard output for a single one.
    fn text(&self) -> String {
        if Self::LINES.is_empty() {
            table(slice::from_ref(self))
        } else {
            lines(self)
        }
    }

    /// Returns the note on standard error that follows the text of a single one.
    fn note(&self) -> Option<String> {
        None
    }
}

/// Form of the answer on standard output.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Render {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Render {
    pub(crate) fn list<T: Record>(self, records: &[T]) -> Result<Exit> {
        self.answer(records, |records| Ok(terminal::print(&table(records))?))
    }

    pub(crate) fn one<T: Record>(self, record: &T) -> Result<Exit> {
        self.answer(record, |record| {
            terminal::print(&record.text())?;
            if let Some(note) = record.note() {
                terminal::note(&note);
            }
            Ok(())
        })
    }

    /// Says on standard error what was done.
    pub(crate) fn done<T: Serialize>(self, answer: &T, note: impl FnOnce(&T) -> String) -> Result<Exit> {
        self.answer(answer, |answer| {
            terminal::note(&note(answer));
            Ok(())
        })
    }

    /// Prints the answer as JSON, or lets `for_people` print it.
    pub(crate) fn answer<T: Serialize + ?Sized>(
        self,
        answer: &T,
        for_people: impl FnOnce(&T) -> Result<()>,
    ) -> Result<Exit> {
        if self.json {
            return print_json(answer);
        }
        for_people(answer)?;
        Ok(Exit::Success)
    }

    /// Whether the output is JSON.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }
}

/// Prints a value as JSON, indented at a terminal.
pub(crate) fn print_json<T: Serialize + ?Sized>(value: &T) -> Result<Exit> {
    let text = if std::io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        json::to_line(value)
    };
    let text = text.map_err(|error| Failure::internal(error.to_string()))?;
    terminal::print_line(&text)?;
    Ok(Exit::Success)
}

/// Returns the text of a value for a [`Field`].
pub(crate) fn some(value: impl ToString) -> Option<String> {
    maybe(Some(value))
}

/// Returns the text of an optional value for a [`Field`].
pub(crate) fn maybe(value: Option<impl ToString>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// Returns a table of records with a heading for each column.
pub(crate) fn table<T: Record>(records: &[T]) -> String {
    let headings = T::COLUMNS.iter().map(|(heading, _)| *heading);
    let row = |record| T::COLUMNS.iter().map(move |(_, text)| text(record));
    grid(headings, records.iter().map(row))
}

/// Returns the lines of a record, each with its heading.
pub(crate) fn lines<T: Record>(record: &T) -> String {
    lines_but(record, |_| None)
}

/// Returns the lines of a record, with the text from `other` under the headings that it knows.
pub(crate) fn lines_but<T: Record>(record: &T, other: impl Fn(&str) -> Option<String>) -> String {
    let longest = T::LINES.iter().map(|(heading, _)| heading.len()).max();
    let width = longest.unwrap_or_default().max(HEADING_WIDTH);
    let line = |(heading, text): &Field<T>| {
        let text = other(heading).or_else(|| text(record))?;
        Some(format!("{heading:<width$} {}\n", harmless(&text)))
    };
    T::LINES.iter().filter_map(line).collect()
}

/// Returns a table without borders, so that people can read it and `awk` can cut it. Its lines have no blanks at their ends.
pub(crate) fn grid(
    headings: impl IntoIterator<Item: ToString>,
    rows: impl IntoIterator<Item: IntoIterator<Item = Option<String>>>,
) -> String {
    let cell =
        |text: Option<String>| text.map_or_else(|| "-".to_owned(), |text| harmless(&text).into_owned());
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headings.into_iter().map(|heading| heading.to_string()))
        .add_rows(rows.into_iter().map(|row| row.into_iter().map(cell)));
    table
        .lines()
        .map(|line| {
            let trimmed = line.trim_end();
            trimmed.strip_prefix(' ').unwrap_or(trimmed).to_owned() + "\n"
        })
        .collect()
}
