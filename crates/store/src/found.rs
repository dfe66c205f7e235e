//! Results of lists that look at a bounded number of entries.

use crate::{
    Result,
    db::{Row, readable},
};

/// Entries of a list that one command has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T, P> {
    /// Entries in the order of the list, at most as many as were asked for.
    pub items: Vec<T>,
    /// Position that the command has come to, where it has looked at as many entries as it may and has found too few. The
    /// list goes on behind it. `None` if the list has no more entries than these, or as many as were asked for were found.
    /// A list of a background task has one for each full page, also where entries of it cannot be read.
    pub stopped_at: Option<P>,
}

/// Reads a page of a background task, of at most `limit` rows that begin with an id and are in the order of the ids. Rows
/// that cannot be read are left out and logged, and the next page goes on behind them.
pub(crate) fn page_by_id<T>(
    rows: &[Row],
    limit: u32,
    what: &'static str,
    read: impl Fn(&Row) -> Result<T>,
) -> Found<T, String> {
    let is_full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let last = rows.last().filter(|_| is_full);
    Found {
        items: readable(rows, what, read),
        // An id that is no text sorts behind every text.
        stopped_at: last.and_then(|row| row.only().ok()),
    }
}

impl<T, P> Found<T, P> {
    /// Entries of a list that has no more of them, or as many as were asked for.
    pub const fn all(items: Vec<T>) -> Self {
        Self {
            items,
            stopped_at: None,
        }
    }
}
