//! Results of lists that look at a bounded number of entries.

/// Entries of a list that one command has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T, P> {
    /// Entries in the order of the list, at most as many as were asked for.
    pub items: Vec<T>,
    /// Position that the command has come to, where it has looked at as many entries as it may and has found too few. The
    /// list goes on behind it. `None` if the list has no more entries than these, or as many as were asked for were found.
    pub stopped_at: Option<P>,
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
