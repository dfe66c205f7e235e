//! The commands of `sortie budgets` and their flags.

use std::str::FromStr;

use clap::{Subcommand, ValueEnum};
use sortie_api::{BudgetPeriod, BudgetScope, Micros};

use super::amount::cost;
use crate::render::Render;

#[derive(Debug, Subcommand)]
pub(crate) enum BudgetsCommand {
    /// List the budgets with the amounts spent, held and available
    #[command(after_help = "\
Examples:
  sortie budgets list")]
    List(Render),
    /// Show a budget
    #[command(after_help = "\
Examples:
  sortie budgets get organization")]
    Get {
        /// Runs that the budget covers: organization, workflow:NAME, schedule:ID or key:ID
        scope: BudgetScope,
        #[command(flatten)]
        render: Render,
    },
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
    #[command(after_help = "\
Examples:
  sortie budgets delete workflow:nightly-report")]
    Delete {
        /// Runs that the budget covers: organization, workflow:NAME, schedule:ID or key:ID
        scope: BudgetScope,
    },
}

/// Period of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Period {
    /// A day
    Day,
    /// A calendar month
    Month,
}

/// Budget of one period: `$2/month`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) limit: Micros,
    pub(crate) period: BudgetPeriod,
}

/// A text that is not an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an amount and its period, such as $2/month or 0.5usd/day")]
pub(crate) struct InvalidAllowance;

impl FromStr for Allowance {
    type Err = InvalidAllowance;

    fn from_str(text: &str) -> Result<Self, InvalidAllowance> {
        let (limit, period) = text.split_once('/').ok_or(InvalidAllowance)?;
        Ok(Self {
            limit: cost(limit).map_err(|_| InvalidAllowance)?,
            period: match period {
                "day" => BudgetPeriod::Day,
                "month" => BudgetPeriod::Month,
                _ => return Err(InvalidAllowance),
            },
        })
    }
}

impl From<Period> for BudgetPeriod {
    fn from(period: Period) -> Self {
        match period {
            Period::Day => Self::Day,
            Period::Month => Self::Month,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_has_an_amount_and_a_period() {
        let limit = Micros::new(2_000_000).unwrap();
        let period = BudgetPeriod::Month;
        assert_eq!("$2/month".parse(), Ok(Allowance { limit, period }));
        for wrong in ["$2", "2/month", "$2/year", "-$2/day", "", "/"] {
            assert_eq!(wrong.parse::<Allowance>(), Err(InvalidAllowance), "{wrong}");
        }
    }
}
