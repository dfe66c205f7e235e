//! Refunds and disputes: amounts that Stripe withdraws from a payment, and returns.
//!
//! Reports of Stripe arrive in any order. Each object therefore has a state that only advances, and an older report changes
//! nothing. All refunds and disputes of a payment take their sum from the credits, and never more than the payment. An entry
//! of the ledger has the change that one report makes to that amount.

use std::{fmt, str::FromStr};

use sortie_api::{LedgerKind, OrgId, PaymentId, RefundOrderId};

use super::{auto, micros, refund_orders};
use crate::{
    Error, Result, Store,
    access::audit::{Audit, record},
    db::{Stmt, Tx, batch, filled, row, select, text_columns, vals},
    money::ledger::{Appended, NewLedgerEntry, append},
    outbox::mail::{self, NewMail},
};

/// Way in which money of a payment is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeBackKind {
    /// The operator refunds the payment.
    Refund,
    /// The cardholder disputes the payment.
    Dispute,
}

/// State of a refund or a dispute. It only advances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TakeBackState {
    /// The money was taken.
    Taken,
    /// The refund has failed, or the dispute was won: the money is there again.
    Returned,
}

/// A text that is no state of a refund or a dispute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of taken, returned")]
pub struct UnknownTakeBackState;

impl TakeBackState {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Returned => "returned",
        }
    }
}

text_columns!(TakeBackState);

impl fmt::Display for TakeBackState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TakeBackState {
    type Err = UnknownTakeBackState;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownTakeBackState> {
        [Self::Taken, Self::Returned]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(UnknownTakeBackState)
    }
}

/// Refund or dispute as Stripe tells it.
#[derive(Clone, Debug)]
pub struct TakeBack {
    /// Kind of the report.
    pub kind: TakeBackKind,
    /// ID at Stripe. It is the cause in the ledger.
    pub id: String,
    /// The payment.
    pub payment: PaymentId,
    /// Amount in cents.
    pub amount_cents: i64,
    /// State at Stripe.
    pub state: TakeBackState,
    /// Order of the refund, if it was ordered here.
    pub order: Option<RefundOrderId>,
    /// Mail to the owner, if the report is a new dispute.
    pub mail: Option<NewMail>,
    /// Audit entry, if the report is new. It has the organization and the time.
    pub audit: Audit,
}

/// Result of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TookBack {
    /// Whether the report is new.
    pub is_new: bool,
    /// Micros added to the balance; negative for a withdrawal.
    pub moved_micros: i64,
    /// State that is recorded now. It is newer than that of a late report.
    pub state: TakeBackState,
}

/// Statements on the table of one kind. They differ only in its name.
struct Table {
    find: &'static str,
    put: &'static str,
    sum: &'static str,
}

const FIND: &str = "SELECT state FROM @table WHERE id = $1";

const PUT: &str = "INSERT INTO @table (id, payment_id, amount_cents, state, updated_at) VALUES ($1, $2, $3, $4, $5) \
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at";

/// The sum of a payment is in its column `@sum`.
const SUM: &str = "UPDATE payment SET @sum = (SELECT CAST(COALESCE(SUM(t.amount_cents), 0) AS BIGINT) FROM @table t \
    WHERE t.payment_id = $1 AND t.state = 'taken') WHERE id = $1";

const REFUNDS: Table = Table {
    find: filled!(FIND, "@table" = "refund"),
    put: filled!(PUT, "@table" = "refund"),
    sum: filled!(SUM, "@table" = "refund", "@sum" = "refunded_cents"),
};
const DISPUTES: Table = Table {
    find: filled!(FIND, "@table" = "dispute"),
    put: filled!(PUT, "@table" = "dispute"),
    sum: filled!(SUM, "@table" = "dispute", "@sum" = "disputed_cents"),
};

row! {
    struct PaidRow {
        org: OrgId = "org_id",
        topup: String = "topup_id",
        amount: i64 = "amount_cents",
        refunded: i64 = "refunded_cents",
        disputed: i64 = "disputed_cents",
    }
}

impl TakeBack {
    const fn table(&self) -> &'static Table {
        match self.kind {
            TakeBackKind::Refund => &REFUNDS,
            TakeBackKind::Dispute => &DISPUTES,
        }
    }

    /// Kind, cause and text of the entry in the ledger.
    fn entry(&self) -> (LedgerKind, String, &'static str) {
        let id = &self.id;
        match (self.kind, self.state) {
            (TakeBackKind::Refund, TakeBackState::Taken) => (LedgerKind::Refund, id.clone(), "refund"),
            (TakeBackKind::Refund, TakeBackState::Returned) => (
                LedgerKind::RefundFailed,
                format!("{id}:failed"),
                "refund that failed",
            ),
            (TakeBackKind::Dispute, TakeBackState::Taken) => {
                (LedgerKind::Dispute, id.clone(), "disputed payment")
            }
            (TakeBackKind::Dispute, TakeBackState::Returned) => (
                LedgerKind::DisputeWon,
                format!("{id}:won"),
                "dispute that was won",
            ),
        }
    }
}

impl Store {
    /// System: records a refund or a dispute as Stripe tells it, and moves the credits. A repetition and an older report change
    /// nothing. A dispute disables the automatic purchases.
    pub async fn take_back(&self, report: TakeBack) -> Result<TookBack> {
        let kind = report.entry().0;
        let took = self.db.write(move |tx| record_report(tx, &report)).await?;
        if took.moved_micros != 0 {
            self.count_entry(Appended::New, kind, took.moved_micros);
        }
        Ok(took)
    }
}

/// Amount of a payment that is taken back, in cents: the sum of refunds and disputes, and never more than the payment. Also
/// returns the order of the payment.
fn taken(tx: &mut dyn Tx, report: &TakeBack) -> Result<(i64, String)> {
    let paid: PaidRow = tx.read_one(
        select!(PaidRow, " FROM payment WHERE id = $1"),
        vals![report.payment],
    )?;
    if paid.org != report.audit.org {
        return Err(Error::NotFound);
    }
    let sum = paid.refunded.saturating_add(paid.disputed);
    Ok((sum.min(paid.amount), paid.topup))
}

fn record_report(tx: &mut dyn Tx, report: &TakeBack) -> Result<TookBack> {
    let table = report.table();
    let [_, known] = batch(
        tx,
        &[
            refund_orders::lock_payment(report.payment),
            Stmt::new(table.find, vals![report.id.as_str()]),
        ],
    )?;
    let known: Option<TakeBackState> = known.opt_value()?;
    let (before, topup) = taken(tx, report)?;
    if let Some(order) = report.order {
        tx.batch(&[refund_orders::made(order, report.payment, &report.id)])?;
    }
    if let Some(state) = known.filter(|known| *known >= report.state) {
        return Ok(TookBack {
            is_new: false,
            moved_micros: 0,
            state,
        });
    }
    tx.batch(&[
        Stmt::new(
            table.put,
            vals![
                report.id.as_str(),
                report.payment,
                report.amount_cents,
                report.state,
                report.audit.at
            ],
        ),
        Stmt::new(table.sum, vals![report.payment]),
        record(&report.audit),
    ])?;
    if let (Some(order), TakeBackKind::Refund, TakeBackState::Returned) =
        (report.order, report.kind, report.state)
    {
        tx.batch(&[refund_orders::failed_after_deletion(order, &report.audit)])?;
    }
    let (after, _) = taken(tx, report)?;
    let moved_micros = micros(before.saturating_sub(after))?;
    if (report.kind, report.state) == (TakeBackKind::Dispute, TakeBackState::Taken) {
        let mail = report.mail.as_ref().map(mail::insert);
        let statements: Vec<_> = mail.into_iter().chain(auto::disable(report.audit.org)).collect();
        tx.batch(&statements)?;
    }
    if moved_micros != 0 {
        let (kind, cause, description) = report.entry();
        let entry = NewLedgerEntry {
            cause,
            org: report.audit.org,
            kind,
            amount_micros: moved_micros,
            description: description.to_owned(),
            payment: Some(report.payment.to_string()),
            topup: Some(topup),
            user: None,
            at: report.audit.at,
        };
        append(tx, &entry)?;
    }
    Ok(TookBack {
        is_new: true,
        moved_micros,
        state: report.state,
    })
}
