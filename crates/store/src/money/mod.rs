//! Money: budgets, credits and their ledger, purchases, settlement, usage, and the allowance of a license.
//!
//! A create holds money in budgets ([`holds`]) and reserves credits ([`credit`]). [`settle`] gives both back and books the
//! cost. They reach the shared rows through [`shared_rows`].

pub(crate) mod allowance;
pub(crate) mod budgets;
pub(crate) mod check;
pub(crate) mod credit;
pub(crate) mod holds;
pub(crate) mod ledger;
mod ledger_sums;
pub(crate) mod low_credits;
pub(crate) mod purchases;
pub(crate) mod refusals;
pub(crate) mod settle;
pub(crate) mod shared_rows;
pub(crate) mod usage;
pub(crate) mod usage_counts;
mod windows;
