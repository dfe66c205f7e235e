//! Tables without lines, so that they can be read by people and cut by `awk`.

use comfy_table::{ContentArrangement, Table, presets};

/// A table with these headings.
pub(super) fn new<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headings);
    table
}

/// The text of a table, without the blanks at the ends of its lines.
pub(super) fn text(table: &Table) -> String {
    table
        .lines()
        .map(|line| {
            line.trim_end()
                .strip_prefix(' ')
                .unwrap_or(&line)
                .trim_end()
                .to_owned()
                + "\n"
        })
        .collect()
}
