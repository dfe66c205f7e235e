//! Money: budgets, the holds of runs, settlement, usage, and the allowance of a license.
//!
//! A create holds money in budgets ([`holds`]), [`settle`] gives it back and books the cost, and both reach the shared rows
//! through [`shared_rows`].

pub(crate) mod allowance;
mod budgets;
pub(crate) mod holds;
pub(crate) mod refusals;
pub(crate) mod settle;
pub(crate) mod shared_rows;
pub(crate) mod usage;
mod windows;
