//! Refunds that are ordered here. Each is recorded before the request to Stripe, which has its ID as the key, so a repetition is
//! the same refund.
//!
//! The operator identifies a refund by a reference, or refunds the whole remaining amount. The engine orders a refund of the
//! payments of a deleted organization, and nodes execute it until the money is returned.

use std::{fmt, str::FromStr, time::Duration};

use sortie_api::{PaymentId, RefundOrderId, Timestamp};

use super::take_backs::TakeBackState;
use crate::{
    Error, Result, Store,
    access::Audit,
    db::{ReadRow, Stmt, Tx, batch, insert, readable, row, select, text_columns, vals},
};

/// Error of a reference that names a refund of another amount.
pub const OTHER_REFUND: Error =
    Error::Conflict("the reference was used before, for a refund of another amount of the payment");

/// State of a refund that was ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefundOrderState {
    /// No request was sent to Stripe.
    Created,
    /// A request was sent to Stripe, or is about to be.
    Sent,
    /// Stripe has made the refund.
    Made,
    /// Stripe has made no refund, and no further request is sent.
    Abandoned,
}

/// A text that is no state of a refund that was ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of created, sent, made, abandoned")]
pub struct UnknownRefundOrderState;

impl RefundOrderState {
    const ALL: [Self; 4] = [Self::Created, Self::Sent, Self::Made, Self::Abandoned];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Sent => "sent",
            Self::Made => "made",
            Self::Abandoned => "abandoned",
        }
    }
}

text_columns!(RefundOrderState);

impl fmt::Display for RefundOrderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for RefundOrderState {
    type Err = UnknownRefundOrderState;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownRefundOrderState> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(UnknownRefundOrderState)
    }
}

/// Refund to order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRefundOrder {
    /// ID of the order, if it is new.
    pub id: RefundOrderId,
    /// Payment that is refunded.
    pub payment: PaymentId,
    /// Operator's name for the refund. `None`: the refund of the whole remaining amount.
    pub reference: Option<String>,
    /// Amount in cents. `None`: the whole remaining amount.
    pub amount_cents: Option<i64>,
    /// Time of the order.
    pub at: Timestamp,
}

row! {
    /// Refund that was ordered, as it is recorded.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RefundOrderRow {
        /// ID of the order. It is the key of the request to Stripe.
        pub id: RefundOrderId = "id",
        /// Payment that is refunded.
        pub payment: PaymentId = "payment_id",
        /// Amount in cents.
        pub amount_cents: i64 = "amount_cents",
        /// State of the order.
        pub state: RefundOrderState = "state",
        /// Time of the order.
        pub created_at: Timestamp = "created_at",
        /// Whether a node carries it out, and not the operator.
        pub is_due: bool = "CASE WHEN due_at IS NULL THEN 0 ELSE 1 END",
        /// Number of requests to Stripe; of an order that nodes carry out, the number of nodes that had it. The record of their
        /// attempt must carry it.
        pub tries: i64 = "tries",
        /// State of the refund at Stripe, once it is known.
        pub refund: Option<TakeBackState> = "(SELECT r.state FROM refund r WHERE r.id = refund_order.refund_id)",
    }
}

/// Result of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderedRefund {
    /// The order is new.
    New(RefundOrderRow),
    /// The order was there.
    Before(RefundOrderRow),
    /// The payment has only this many cents left.
    Beyond(i64),
}

impl Store {
    /// Operator: orders a refund, or finds the earlier order: the one with the reference, or the one of the whole remaining
    /// amount until its refund is known. [`OTHER_REFUND`] for a reference with another amount.
    pub async fn order_refund(&self, new: NewRefundOrder) -> Result<OrderedRefund> {
        self.db.write(move |tx| order(tx, &new)).await
    }

    /// System: marks an order as sent, before each request to Stripe. Returns [`RefundOrderRow::tries`]. `None` for an order
    /// that has ended: nothing is to be sent.
    pub async fn send_refund(&self, id: RefundOrderId) -> Result<Option<i64>> {
        self.db
            .write(move |tx| {
                tx.query_opt(
                    "UPDATE refund_order SET state = 'sent', tries = CASE WHEN due_at IS NULL THEN tries + 1 ELSE tries END \
                     WHERE id = $1 AND state IN ('created', 'sent') RETURNING tries",
                    vals![id],
                )?
                .map(|row| row.only())
                .transpose()
            })
            .await
    }

    /// System: ends an order if Stripe has made no refund and will make none.
    pub async fn abandon_refund(&self, id: RefundOrderId) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE refund_order SET state = 'abandoned' WHERE id = $1 AND state IN ('created', 'sent')",
                    vals![id],
                )
                .map(drop)
            })
            .await
    }

    /// System: deletes an order if its only request was refused, so that its reference can be used again. An order that was
    /// sent a second time stays: Stripe may have accepted that request.
    pub async fn withdraw_refund(&self, id: RefundOrderId) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "DELETE FROM refund_order WHERE id = $1 AND state = 'sent' AND tries = 1",
                    vals![id],
                )
                .map(drop)
            })
            .await
    }

    /// System: claims at most `limit` orders that are due, for the time `lease`.
    pub async fn claim_refunds(
        &self,
        at: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<RefundOrderRow>> {
        self.db
            .write(move |tx| {
                let due = tx.query_all(
                    // The condition on `due_at` appears a second time, to be checked again if another node was faster.
                    constcat::concat!(
                        "UPDATE refund_order SET due_at = $2, tries = tries + 1 \
                         WHERE id {IN}SELECT o.id FROM refund_order o WHERE o.due_at >= 0 AND o.due_at <= $1 \
                         ORDER BY o.due_at, o.id LIMIT $3{END} AND due_at <= $1 RETURNING ",
                        RefundOrderRow::COLUMNS
                    ),
                    vals![at, at + lease, limit],
                )?;
                Ok(readable(&due, "refund", RefundOrderRow::read))
            })
            .await
    }

    /// System: sets the time of the next attempt at an order. `None` if it needs none. `tries` is that of the claim; a node that
    /// lost its claim changes nothing.
    pub async fn refund_due_at(&self, id: RefundOrderId, tries: i64, next: Option<Timestamp>) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE refund_order SET due_at = $3 WHERE id = $1 AND tries = $2 AND due_at IS NOT NULL",
                    vals![id, tries, next],
                )
                .map(drop)
            })
            .await
    }
}

/// Locks a payment until the end of the transaction. The lock serializes its refunds and disputes.
pub(super) fn lock_payment(payment: PaymentId) -> Stmt<'static> {
    Stmt::new(
        "UPDATE payment SET amount_cents = amount_cents WHERE id = $1",
        vals![payment],
    )
    .exactly(1, Error::NotFound)
}

/// Records the refund that Stripe has made for an order.
pub(super) fn made(order: RefundOrderId, payment: PaymentId, refund: &str) -> Stmt<'_> {
    Stmt::new(
        "UPDATE refund_order SET state = 'made', refund_id = $3 WHERE id = $1 AND payment_id = $2 AND refund_id IS NULL",
        vals![order, payment, refund],
    )
}

/// Lets nodes check the refund of a deleted organization again, after the bank has returned it: they report it until the
/// operator has sent the money back.
pub(super) fn failed_after_deletion(order: RefundOrderId, audit: &Audit) -> Stmt<'static> {
    Stmt::new(
        "UPDATE refund_order SET due_at = $2 WHERE id = $1 AND reference IS NULL AND due_at IS NULL \
         AND EXISTS (SELECT 1 FROM organization WHERE id = $3 AND deleted_at IS NOT NULL)",
        vals![order, audit.at, audit.org],
    )
}

/// Orders the refund of a whole payment, which nodes carry out from now on.
pub(super) fn order_whole(
    id: RefundOrderId,
    (payment, amount_cents): (PaymentId, i64),
    at: Timestamp,
) -> Stmt<'static> {
    insert(id, (payment, amount_cents), None, (at, Some(at)))
}

fn insert(
    id: RefundOrderId,
    (payment, amount_cents): (PaymentId, i64),
    reference: Option<&str>,
    (at, due_at): (Timestamp, Option<Timestamp>),
) -> Stmt<'_> {
    insert!("refund_order", {
        "id": id,
        "payment_id": payment,
        "reference": reference,
        "amount_cents": amount_cents,
        "state": RefundOrderState::Created,
        "created_at": at,
        "due_at": due_at,
        "tries" = "0",
    })
}

fn order(tx: &mut dyn Tx, new: &NewRefundOrder) -> Result<OrderedRefund> {
    let reference = new.reference.as_deref();
    let [_, known, left] = batch(
        tx,
        &[
            lock_payment(new.payment),
            Stmt::new(
                select!(
                    RefundOrderRow,
                    // At most one matches: the lock prevents two orders of the whole remaining amount.
                    " FROM refund_order WHERE payment_id = $1 AND (reference = $2 \
                     OR (CAST($2 AS TEXT) IS NULL AND reference IS NULL AND state IN ('created', 'sent')))"
                ),
                vals![new.payment, reference],
            ),
            Stmt::new(
                "SELECT amount_cents - refunded_cents FROM payment WHERE id = $1",
                vals![new.payment],
            ),
        ],
    )?;
    if let Some(row) = known.rows.first() {
        let known = RefundOrderRow::read(row)?;
        let is_same = new.amount_cents.is_none_or(|cents| cents == known.amount_cents);
        return if is_same {
            Ok(OrderedRefund::Before(known))
        } else {
            Err(OTHER_REFUND)
        };
    }
    let left: i64 = left.value()?;
    let amount_cents = new.amount_cents.unwrap_or(left);
    if left <= 0 || !(1..=left).contains(&amount_cents) {
        return Ok(OrderedRefund::Beyond(left));
    }
    tx.batch(&[insert(
        new.id,
        (new.payment, amount_cents),
        reference,
        (new.at, None),
    )])?;
    Ok(OrderedRefund::New(RefundOrderRow {
        id: new.id,
        payment: new.payment,
        amount_cents,
        state: RefundOrderState::Created,
        created_at: new.at,
        is_due: false,
        tries: 0,
        refund: None,
    }))
}
