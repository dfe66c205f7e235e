//! The commands of `sortie budgets` and their flags.

use clap::{Subcommand, ValueEnum};
use sortie_api::{BudgetPeriod, BudgetScope, Micros};

use super::amount::cost;
use crate::render::Render;

#[derive(Debug, Subcommand)]
pub(crate) enum BudgetsCommand {
    /// List the budgets with the amounts spent, held and available
    List(Render),
    /// Set a budget, or change it
    #[command(after_help = "\
Examples:
  sortie budgets set organization '$50' --period month
  sortie budgets set workflow:nightly-report '$5' --period day")]
    Set {
        /// Runs that the budget covers: organization, workflow:NAME, schedule:ID or key:ID
        scope: BudgetScope,
        /// Maximum cost of these runs in one period, such as $50 or 50usd
        #[arg(value_name = "AMOUNT", value_parser = cost)]
        limit: Micros,
        /// Days and months are those of UTC; a changed period starts a new count
        #[arg(long, value_enum)]
        period: Period,
        #[command(flatten)]
        render: Render,
    },
    /// Delete a budget
    Delete { scope: BudgetScope },
}

/// Period of a budget.
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
