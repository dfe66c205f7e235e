//! Tables without borders, so that people can read them and `awk` can cut them.

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, Width, presets};

use super::{Cell, Field, Look, Record};
use crate::terminal::harmless;

/// Width that a column which may be cut keeps while there are further columns to fit.
const CUT_WIDTH: u16 = 30;

/// Width that such a column has at least.
const LEAST_WIDTH: u16 = 8;

/// Blanks between two columns.
const GAP: u16 = 2;

/// Returns a table of records with a heading for each column. At a terminal it has as many of the further columns as fit,
/// without those that are empty.
pub(crate) fn table<T: Record>(records: &[T], look: &Look) -> String {
    let columns: Vec<&Field<T>> = match look.fits() {
        Some(width) => fitting(records, look, width),
        None => T::COLUMNS.iter().chain(T::MORE).collect(),
    };
    let headings = columns.iter().map(|(heading, _)| (*heading).to_owned());
    let row = |record| columns.iter().map(|(_, cell)| cell(record)).collect();
    let mut table = filled(headings, records.iter().map(row), look);
    if let Some(width) = look.fits() {
        // One more, because the blank before the first column is removed.
        table.set_width(width.saturating_add(1));
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_constraints(columns.iter().map(|(heading, _)| {
            if T::CUT.contains(heading) {
                ColumnConstraint::LowerBoundary(Width::Fixed(GAP + LEAST_WIDTH))
            } else {
                ColumnConstraint::ContentWidth
            }
        }));
    }
    lines(&table)
}

/// Returns the columns that each table of these records has, and the first of the further ones that fit the width.
fn fitting<T: Record>(records: &[T], look: &Look, width: u16) -> Vec<&'static Field<T>> {
    let width_of = |(heading, cell): &Field<T>| {
        let rows = records.iter().map(|record| vec![cell(record)]);
        let one = filled([(*heading).to_owned()], rows, look);
        let content = one
            .column_max_content_widths()
            .first()
            .copied()
            .unwrap_or_default();
        let kept = if T::CUT.contains(heading) {
            content.clamp(LEAST_WIDTH, CUT_WIDTH)
        } else {
            content
        };
        kept.saturating_add(GAP)
    };
    let mut columns: Vec<&Field<T>> = T::COLUMNS.iter().collect();
    let mut used = T::COLUMNS.iter().map(width_of).fold(0, u16::saturating_add);
    let has_content = |(_, cell): &&Field<T>| records.iter().any(|record| cell(record).is_some());
    for column in T::MORE.iter().filter(has_content) {
        used = used.saturating_add(width_of(column));
        if used > width {
            break;
        }
        columns.push(column);
    }
    columns
}

/// Returns a table of figures, with all columns.
pub(crate) fn grid(
    headings: impl IntoIterator<Item: ToString>,
    rows: impl IntoIterator<Item: IntoIterator<Item = Option<Cell>>>,
    look: &Look,
) -> String {
    let headings = headings.into_iter().map(|heading| heading.to_string());
    let rows = rows.into_iter().map(|row| row.into_iter().collect());
    lines(&filled(headings, rows, look))
}

fn filled(
    headings: impl IntoIterator<Item = String>,
    rows: impl Iterator<Item = Vec<Option<Cell>>>,
    look: &Look,
) -> Table {
    let text = |cell: Option<Cell>| {
        let text = cell.map_or_else(|| "-".to_owned(), |cell| cell.in_table(look));
        let text = harmless(&text).into_owned();
        // At a terminal a record has one line.
        if look.fits().is_some() {
            text.replace(['\n', '\t'], " ")
        } else {
            text
        }
    };
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_truncation_indicator("…")
        .set_header(headings)
        .add_rows(rows.map(|row| {
            let mut row = Row::from(row.into_iter().map(text).collect::<Vec<_>>());
            if look.fits().is_some() {
                row.max_height(1);
            }
            row
        }));
    table
}

/// Returns the lines of a table without blanks at their ends.
fn lines(table: &Table) -> String {
    table
        .lines()
        .map(|line| {
            let trimmed = line.trim_end();
            trimmed.strip_prefix(' ').unwrap_or(trimmed).to_owned() + "\n"
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use proptest::prelude::*;
    use serde::Serialize;
    use sortie_api::Timestamp;

    use super::*;
    use crate::render::{id, maybe, some};

    #[derive(Clone, Debug, Serialize)]
    struct Thing {
        id: &'static str,
        title: String,
        note: Option<String>,
    }

    impl Record for Thing {
        const COLUMNS: &'static [Field<Self>] = &[
            ("THING", |thing| id(thing.id)),
            ("TITLE", |thing| some(&thing.title)),
        ];
        const MORE: &'static [Field<Self>] = &[
            ("NOTE", |thing| maybe(thing.note.as_ref())),
            ("ID", |thing| some(thing.id)),
        ];
        const CUT: &'static [&'static str] = &["TITLE"];
    }

    fn thing(title: &str, note: Option<&str>) -> Thing {
        Thing {
            id: "thing_01kafs6w1cefkstv6qr1ptb0mp",
            title: title.to_owned(),
            note: note.map(str::to_owned),
        }
    }

    fn at(width: u16) -> Look {
        Look::terminal(width, Timestamp::from_micros(0), TimeZone::UTC)
    }

    #[test]
    fn further_columns_are_shown_as_far_as_they_fit_and_have_content() {
        let headings = |things: &[Thing], width| {
            let text = table(things, &at(width));
            text.lines()
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let things = [thing("short", Some("a note"))];
        assert_eq!(headings(&things, 24), ["THING", "TITLE"]);
        assert_eq!(headings(&things, 40), ["THING", "TITLE", "NOTE"]);
        assert_eq!(headings(&things, 80), ["THING", "TITLE", "NOTE", "ID"]);
        assert_eq!(headings(&[thing("short", None)], 80), ["THING", "TITLE", "ID"]);
    }

    proptest! {
        #[test]
        fn a_record_has_one_line_within_the_width(title in "\\PC{0,80}|[a-z ]{0,120}", width in 30_u16..200) {
            let text = table(&[thing(&title, None)], &at(width));
            prop_assert_eq!(text.lines().count(), 2, "{}", text);
            for line in text.lines() {
                let cells = comfy_table::Table::new().set_header([line]).column_max_content_widths();
                prop_assert!(cells.first().is_none_or(|cells| *cells <= width), "{}", text);
            }
        }
    }
}
