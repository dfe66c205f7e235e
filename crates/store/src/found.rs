//! Results of lists that read a bounded number of entries.

use crate::{
    Result,
    db::{Row, readable},
};

/// Entries of a list that one command has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T, P> {
    /// Entries in the order of the list, at most as many as the caller asked for.
    pub items: Vec<T>,
    /// Position of the last examined entry, if the command has examined the maximum number of entries and found fewer than
    /// the caller asked for. The next page continues after it. `None` if the list has ended, or if the page is full. Lists
    /// for background tasks set it for every full page, including pages with unreadable entries.
    pub stopped_at: Option<P>,
}

/// Reads a page for a background task: at most `limit` rows that begin with an id and are in the order of the ids.
/// Unreadable rows are logged and left out, and the next page continues after them.
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
        // An id that is not a text sorts after every text.
        stopped_at: last.and_then(|row| row.only().ok()),
    }
}

impl<T, P> Found<T, P> {
    /// Entries of a list that has ended or has filled the page.
    pub const fn all(items: Vec<T>) -> Self {
        Self {
            items,
            stopped_at: None,
        }
    }
}
