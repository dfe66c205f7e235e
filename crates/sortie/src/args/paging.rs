//! Length of a list on the command line.

use clap::Args;

use super::number::at_least_one;

/// Length of a list.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Paging {
    /// Maximum number of entries
    #[arg(long, default_value_t = 20, value_parser = at_least_one)]
    pub(crate) limit: u32,
    /// List every entry
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}

impl Default for Paging {
    fn default() -> Self {
        Self {
            limit: 20,
            all: false,
        }
    }
}

impl Paging {
    pub(crate) const ALL: Self = Self { limit: 20, all: true };

    /// The maximum number of entries; `None` for all of them.
    pub(crate) fn most(self) -> Option<u32> {
        (!self.all).then_some(self.limit)
    }
}
