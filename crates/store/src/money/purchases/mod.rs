//! Purchases of credits: the orders, their payments, refunds and disputes.
//!
//! Stripe is called outside of transactions, so every command here can be repeated with the same result. [`topups`] has the
//! orders, [`auto`] those that the engine makes itself, [`payments`] the payments and the one function that credits them,
//! [`refund_orders`] the refunds that are ordered here, [`take_backs`] refunds and disputes. [`events`] is the queue of
//! Stripe's events, [`accounts`] has the organizations' customer records. Times come from the caller.

pub(crate) mod accounts;
pub(crate) mod auto;
pub(crate) mod events;
pub(crate) mod payments;
pub(crate) mod refund_orders;
pub(crate) mod take_backs;
pub(crate) mod topups;

use crate::{Error, Result};

/// Micros of a cent.
pub(super) const MICROS_OF_A_CENT: i64 = 10_000;

/// Returns an amount of cents in micros.
fn micros(cents: i64) -> Result<i64> {
    cents
        .checked_mul(MICROS_OF_A_CENT)
        .ok_or_else(|| Error::Corrupt(format!("{cents} cents")))
}
