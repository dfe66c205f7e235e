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
mod low_credits;
mod metrics;
mod payment;
pub(crate) mod purchases;
pub(crate) mod refusals;
pub(crate) mod settle;
pub(crate) mod shared_rows;
pub(crate) mod usage;
pub(crate) mod usage_counts;
mod windows;

pub use crate::error::{InsufficientCredit, OverBudget};
pub use check::{LedgerChecked, LedgerDifference, LedgerRule};
pub use credit::{Credit, CreditSums};
pub use ledger::{Appended, LedgerPosition, NewLedgerEntry, OTHER_ENTRY};
pub use payment::Payment;
pub use purchases::{
    accounts::{BillingAccount, ClosingAccount, NewCustomer, RemovedCard, ReplacedCustomer, SavedCard},
    auto::{
        AfterAutoTopup, AutoTopupRow, BeginAutoTopup, NewAutoTopup, SETTINGS_CHANGED, SentAutoTopup,
        UnpaidAutoTopup,
    },
    events::{AfterEvent, ClaimedEvent, NewStripeEvent},
    payments::{OTHER_AMOUNT, PAID_TWICE, PaidTopup, PaymentRow},
    refund_orders::{
        NewRefundOrder, OTHER_REFUND, OrderedRefund, RefundOrderRow, RefundOrderState,
        UnknownRefundOrderState,
    },
    take_backs::{TakeBack, TakeBackKind, TakeBackState, TookBack, UnknownTakeBackState},
    topups::{NewTopup, TOO_MANY_OPEN, TopupMove, TopupRow},
};
pub use usage::{UsagePosition, UsageQuery};
pub use usage_counts::{CountedPart, Unsettled, UsageDue, UsagePart};
