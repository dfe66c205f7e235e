//! Money: budgets, and what runs hold of them until they are settled.

pub(crate) mod holds;
pub(crate) mod refusals;
pub(crate) mod windows;
