//! Output of a command: JSON, YAML, TOML and names for programs, tables and records for people.
//!
//! A type of the API says once, as a [`Record`], how people see it. [`Render`] holds the flags for the form of the output,
//! and is the only one that prints an answer of the API.

mod cell;
mod table;

use std::{io::IsTerminal as _, slice};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;
use sortie_api::json;

pub(crate) use self::{
    cell::{Cell, Look, id, maybe, maybe_time, some, time},
    table::{grid, table},
};
use crate::{
    client::Listed,
    failure::{Exit, Failure, Result},
    terminal::{self, harmless},
};

/// Column of a table or line of a record: its heading, and its content. Without content a table shows `-`, a record
/// leaves the line out.
pub(crate) type Field<T> = (&'static str, fn(&T) -> Option<Cell>);

/// Minimum width of the headings of records.
const HEADING_WIDTH: usize = 9;

/// A type of the API that commands print.
pub(crate) trait Record: Serialize + Sized + 'static {
    /// Columns of a list of these. The first one names the record.
    const COLUMNS: &'static [Field<Self>] = &[];
    /// Further columns, which a table has as far as the terminal has room for them.
    const MORE: &'static [Field<Self>] = &[];
    /// Columns that may be cut so that others fit.
    const CUT: &'static [&'static str] = &[];
    /// Lines of a single one. One without lines is printed as a list with one row.
    const LINES: &'static [Field<Self>] = &[];

    /// Returns the text on standard output for a single one.
    fn text(&self, look: &Look) -> String {
        if Self::LINES.is_empty() {
            table(slice::from_ref(self), look)
        } else {
            lines(self, look)
        }
    }

    /// Returns the note on standard error that follows the text of a single one.
    fn note(&self) -> Option<String> {
        None
    }
}

/// Form of the answer on standard output.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Render {
    /// Form of the output
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        value_name = "FORM",
        default_value_t
    )]
    form: Form,
    /// Print JSON, as `-o json` does
    #[arg(long, conflicts_with = "form")]
    json: bool,
    /// Print only names or IDs, as `-o name` does
    #[arg(short, long, conflicts_with_all = ["form", "json"])]
    quiet: bool,
    /// Print these fields of the JSON, with tabs between them: `--fields id,status,usage.tool_calls`
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', conflicts_with_all = ["form", "json", "quiet"])]
    fields: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A table or a record; at a terminal it fits the window
    #[default]
    Table,
    /// A table with all columns, whole IDs and times
    Wide,
    /// JSON, as the API has it
    Json,
    /// YAML with the fields of the JSON
    Yaml,
    /// TOML with the fields of the JSON, for a single record
    Toml,
    /// Names or IDs, one on a line
    Name,
}

impl Render {
    pub(crate) fn list<T: Record>(&self, records: &[T]) -> Result<Exit> {
        if !self.fields.is_empty() {
            let rows = records.iter().map(|record| self.fields_of(record));
            terminal::print(&rows.collect::<Result<String>>()?)?;
            return Ok(Exit::Success);
        }
        if self.form() == Form::Name {
            let names = records.iter().filter_map(name);
            terminal::print(&names.map(|name| name + "\n").collect::<String>())?;
            return Ok(Exit::Success);
        }
        self.answer(records, |records| {
            Ok(terminal::print(&table(records, &self.look()))?)
        })
    }

    /// Prints a list, and notes at a terminal that it has more records.
    pub(crate) fn listed<T: Record>(&self, listed: &Listed<T>) -> Result<Exit> {
        let exit = self.list(&listed.items)?;
        if listed.has_more && self.is_for_people() {
            terminal::note(&format!("{} shown; --all lists every one", listed.items.len()));
        }
        Ok(exit)
    }

    /// Prints a list with its times in a zone, where a person reads it.
    pub(crate) fn list_in<T: Record>(&self, zone: &str, records: &[T]) -> Result<Exit> {
        if !self.is_for_people() {
            return self.list(records);
        }
        terminal::print(&table(records, &self.look().wide().in_zone(zone)))?;
        Ok(Exit::Success)
    }

    pub(crate) fn one<T: Record>(&self, record: &T) -> Result<Exit> {
        if !self.fields.is_empty() || self.form() == Form::Name {
            return self.list(slice::from_ref(record));
        }
        self.answer(record, |record| {
            terminal::print(&record.text(&self.look()))?;
            if let Some(note) = record.note() {
                terminal::note(&note);
            }
            Ok(())
        })
    }

    /// Prints the records that a command was given the names of: one as itself, several as a list of them.
    pub(crate) fn several<T: Record>(&self, records: &[T]) -> Result<Exit> {
        match records {
            [record] => self.one(record),
            _ if self.is_for_programs() => self.list(records),
            _ => {
                for (at, record) in records.iter().enumerate() {
                    if at > 0 {
                        terminal::print_line("")?;
                    }
                    self.one(record)?;
                }
                Ok(Exit::Success)
            }
        }
    }

    /// Prints a note on standard error instead of the record.
    pub(crate) fn done<T: Serialize>(&self, answer: &T, note: impl FnOnce(&T) -> String) -> Result<Exit> {
        self.answer(answer, |answer| {
            terminal::note(&note(answer));
            Ok(())
        })
    }

    /// Prints the answer for programs, or lets `for_people` print it.
    pub(crate) fn answer<T: Serialize + ?Sized>(
        &self,
        answer: &T,
        for_people: impl FnOnce(&T) -> Result<()>,
    ) -> Result<Exit> {
        match self.form() {
            Form::Json => print_json(answer),
            Form::Yaml => print(serde_saphyr::to_string(&value(answer)?)),
            Form::Toml => {
                terminal::print(&toml(value(answer)?)?)?;
                Ok(Exit::Success)
            }
            Form::Table | Form::Wide | Form::Name => {
                for_people(answer)?;
                Ok(Exit::Success)
            }
        }
    }

    /// Whether the output is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.form() == Form::Json
    }

    /// Whether people read the output at a terminal.
    pub(crate) fn is_for_people(&self) -> bool {
        !self.is_for_programs() && std::io::stdout().is_terminal()
    }

    /// Refuses forms that a command does not have: it prints a table that changes, or JSON.
    pub(crate) fn check_is_table_or_json(&self, command: &str) -> Result<()> {
        if matches!(self.form(), Form::Table | Form::Wide | Form::Json) && self.fields.is_empty() {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{command} has only a table, or JSON with --json"
        )))
    }

    fn is_for_programs(&self) -> bool {
        !self.fields.is_empty() || !matches!(self.form(), Form::Table | Form::Wide)
    }

    fn form(&self) -> Form {
        match (self.json, self.quiet) {
            (true, _) => Form::Json,
            (false, true) => Form::Name,
            (false, false) => self.form,
        }
    }

    /// The look of a table or record.
    pub(crate) fn look(&self) -> Look {
        let look = Look::of_process();
        if self.form() == Form::Wide {
            look.wide()
        } else {
            look
        }
    }

    /// Returns the line with the chosen fields of a record.
    fn fields_of<T: Serialize>(&self, record: &T) -> Result<String> {
        let record = value(record)?;
        let fields = self.fields.iter().map(|path| {
            let field = path.split('.').try_fold(&record, |value, name| value.get(name));
            match field {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.replace(['\t', '\n'], " "),
                Some(other) => other.to_string(),
            }
        });
        let line = fields.collect::<Vec<_>>().join("\t") + "\n";
        Ok(harmless(&line).into_owned())
    }
}

/// Returns the name of a record: the content of its first column.
fn name<T: Record>(record: &T) -> Option<String> {
    let (_, cell) = T::COLUMNS.first()?;
    Some(harmless(&cell(record)?.plain()).into_owned())
}

fn value<T: Serialize + ?Sized>(answer: &T) -> Result<Value> {
    serde_json::to_value(answer).map_err(|error| Failure::internal(error.to_string()))
}

/// Returns an object as TOML, without the fields that are null.
pub(crate) fn toml(value: Value) -> Result<String> {
    let Value::Object(mut fields) = value else {
        return Err(Failure::usage(
            "-o toml: TOML has no lists without a name; use -o json or -o yaml",
        ));
    };
    fields.retain(|_, value| !value.is_null());
    ::toml::to_string(&fields)
        .map_err(|_| Failure::usage("TOML has no null, and a field has one; use -o json or -o yaml"))
}

fn print<E: std::fmt::Display>(text: std::result::Result<String, E>) -> Result<Exit> {
    let text = text.map_err(|error| Failure::internal(error.to_string()))?;
    let text = text.trim_end();
    // JSON escapes only some of the characters that control a terminal.
    if std::io::stdout().is_terminal() {
        terminal::print_line(&harmless(text))?;
    } else {
        terminal::print_line(text)?;
    }
    Ok(Exit::Success)
}

/// Prints a value as JSON, indented at a terminal.
pub(crate) fn print_json<T: Serialize + ?Sized>(value: &T) -> Result<Exit> {
    print(if std::io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        json::to_line(value)
    })
}

/// Returns the lines of a record, each with its heading.
pub(crate) fn lines<T: Record>(record: &T, look: &Look) -> String {
    lines_but(record, look, |_| None)
}

/// Returns the lines of a record, with the text from `other` under the headings that it knows.
pub(crate) fn lines_but<T: Record>(
    record: &T,
    look: &Look,
    other: impl Fn(&str) -> Option<String>,
) -> String {
    let longest = T::LINES.iter().map(|(heading, _)| heading.len()).max();
    let width = longest.unwrap_or_default().max(HEADING_WIDTH);
    let line = |(heading, cell): &Field<T>| {
        let text = other(heading).or_else(|| Some(cell(record)?.in_record(look)))?;
        Some(format!("{heading:<width$} {}\n", harmless(&text)))
    };
    T::LINES.iter().filter_map(line).collect()
}
