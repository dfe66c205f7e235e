//! Tables without borders, so that people can read them and `awk` can cut them.

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, Width, presets};

use super::{Cell, Field, Look, Record};
use crate::terminal::harmless;

/// Width that a column which may be cut keeps while there are further columns to fit.
const CUT_WIDTH: u16 = 30;

/// Blanks between two columns.
const GAP: u16 = 2;

/// Returns a table of records with a heading for each column. At a terminal it has as many of the further columns as fit.
pub(crate) fn table<T: Record>(records: &[T], look: &Look) -> String {
    let mut columns: Vec<&Field<T>> = T::COLUMNS.iter().chain(T::MORE).collect();
    if let Some(width) = look.fits() {
        columns.truncate(fitting(records, &columns, look, width));
    }
    let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
    let rows = records
        .iter()
        .map(|record| columns.iter().map(|(_, cell)| cell(record)).collect());
    let mut table = filled(headings.iter().map(|heading| (*heading).to_owned()), rows, look);
    if let Some(width) = look.fits() {
        // One more, because the blank before the first column is removed.
        table.set_width(width.saturating_add(1));
        table.set_content_arrangement(ContentArrangement::Dynamic);
        let constraints = headings.iter().map(|heading| {
            if T::CUT.contains(heading) {
                ColumnConstraint::LowerBoundary(Width::Fixed(GAP + 8))
            } else {
                ColumnConstraint::ContentWidth
            }
        });
        table.set_constraints(constraints.collect::<Vec<_>>());
    }
    lines(&table)
}

/// Returns the number of columns that fit the width: at least those that each table of these records has.
fn fitting<T: Record>(records: &[T], columns: &[&Field<T>], look: &Look, width: u16) -> usize {
    let mut used = 0_u16;
    let mut count = 0;
    for (heading, cell) in columns {
        let rows = records.iter().map(|record| vec![cell(record)]);
        let one = filled([(*heading).to_owned()], rows, look);
        let content = one
            .column_max_content_widths()
            .first()
            .copied()
            .unwrap_or_default();
        let kept = if T::CUT.contains(heading) {
            content.min(CUT_WIDTH)
        } else {
            content
        };
        used = used.saturating_add(kept).saturating_add(GAP);
        if count >= T::COLUMNS.len() && used > width {
            break;
        }
        count += 1;
    }
    count
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
