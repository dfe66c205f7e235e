//! The commands of `sortie budgets` and their flags.

use clap::{Subcommand, ValueEnum};
use sortie_api::{BudgetPeriod, BudgetScope};

use super::{EngineArgs, ListArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum BudgetsCommand {
    /// List the budgets: what is spent, held and left of each
    List(ListArgs),
    /// Set a budget, or change it
    #[command(after_help = "\
Examples:
  sortie budgets set organization 50000000 --period month
  sortie budgets set workflow:nightly-report 5000000 --period day")]
    Set {
        /// Which runs it is about: organization, workflow:NAME, schedule:ID or key:ID
        scope: BudgetScope,
        /// What they may cost together in one period, in millionths of a dollar
        #[arg(value_name = "MICROS")]
        limit: u64,
        /// Days and months are those of UTC; another period than before begins to count anew
        #[arg(long, value_enum)]
        period: Period,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Delete a budget
    Delete {
        scope: BudgetScope,
        #[command(flatten)]
        engine: EngineArgs,
    },
}

/// How long a window of a budget is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Period {
    /// A day
    Day,
    /// A calendar month
    Month,
}

impl From<Period> for BudgetPeriod {
    fn from(period: Period) -> Self {
        match period {
            Period::Day => Self::Day,
            Period::Month => Self::Month,
        }
    }
}
