//! Pages of lists: the parameters `limit` and `cursor`, and the cursor of the next page.

use std::{fmt::Display, str::FromStr};

use sortie_api::{ErrorCode, Refusal, Timestamp, limits};

use super::{FromQuery, ListCursors, Pairs};

/// Parameters of a paginated list. `DEFAULT` is the number of entries on a page without `limit`.
#[derive(Clone, Debug)]
pub(crate) struct PageQuery<const DEFAULT: u32 = { limits::PAGE }> {
    limit: Option<u32>,
    cursor: Option<String>,
}

impl<const DEFAULT: u32> FromQuery for PageQuery<DEFAULT> {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        let limit = pairs.integer("limit", 1, i64::from(limits::PAGE))?;
        Ok(Self {
            limit: limit.and_then(|limit| u32::try_from(limit).ok()),
            cursor: pairs.text("cursor")?,
        })
    }
}

impl<const DEFAULT: u32> PageQuery<DEFAULT> {
    /// Whether the client sent a parameter. Some lists are plain arrays otherwise.
    pub(crate) const fn is_sent(&self) -> bool {
        self.limit.is_some() || self.cursor.is_some()
    }

    /// Maximum number of entries on the page.
    pub(crate) fn limit(&self) -> u32 {
        self.limit.unwrap_or(DEFAULT)
    }

    /// Number of entries to read: one more than fits on the page, which shows whether another page follows.
    pub(crate) fn rows(&self) -> u32 {
        self.limit() + 1
    }

    /// Position of the last entry before the page, for a list with sealed cursors.
    pub(crate) fn before<I: FromStr>(&self, list: &ListCursors) -> Result<Option<(Timestamp, I)>, Refusal> {
        self.read(|cursor| list.position(cursor))
    }

    /// Id of the last entry before the page, for a list that uses ids as cursors.
    pub(crate) fn after<I: FromStr<Err: Display>>(&self) -> Result<Option<I>, Refusal> {
        self.read(str::parse)
    }

    fn read<P, E: Display>(&self, read: impl Fn(&str) -> Result<P, E>) -> Result<Option<P>, Refusal> {
        let cursor = self.cursor.as_deref();
        cursor
            .map(read)
            .transpose()
            .map_err(|rule| ErrorCode::InvalidRequest.because(format!("cursor: {rule}")))
    }

    /// Truncates [`rows`](Self::rows) entries to the page. Returns the cursor of the next page, or an empty one on the last page.
    pub(crate) fn cut<T>(&self, items: &mut Vec<T>, cursor: impl Fn(&T) -> String) -> String {
        let limit = usize::try_from(self.limit()).unwrap_or(usize::MAX);
        if items.len() <= limit {
            return String::new();
        }
        items.truncate(limit);
        items.last().map(cursor).unwrap_or_default()
    }
}
