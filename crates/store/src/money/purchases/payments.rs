//! Payments, and the one way in which a purchase becomes credits.

use std::time::Duration;

use sortie_api::{LedgerKind, OrgId, PaymentId, RefundOrderId, Timestamp, TopupId, TopupState};

use super::{
    accounts::{SavedCard, keep_card},
    auto, micros, refund_orders,
    topups::lock_order,
};
use crate::{
    Error, Result, Store,
    access::audit::{Audit, record},
    db::{ReadRow, Stmt, Tx, batch, insert, readable, row, select, vals},
    money::ledger::{Appended, NewLedgerEntry, append},
};

/// Error of a payment for an order that another payment has paid.
pub const PAID_TWICE: Error = Error::Conflict("the order was paid by another payment before");

/// Error of a payment of another amount than was ordered.
pub const OTHER_AMOUNT: Error = Error::Conflict("the payment has another amount than the order");

/// Payment that has succeeded, for an order.
#[derive(Clone, Debug)]
pub struct PaidTopup {
    /// The order.
    pub topup: TopupId,
    /// ID of the payment, if it is new.
    pub payment: PaymentId,
    /// Payment intent. It is the cause in the ledger.
    pub intent: String,
    /// Charge of the intent.
    pub charge: Option<String>,
    /// Amount that was paid, in cents.
    pub amount_cents: i64,
    /// Card that was saved with it.
    pub card: Option<SavedCard>,
    /// Text of the entry in the ledger.
    pub description: String,
    /// Time of the next comparison of the payment with Stripe.
    pub compare_at: Timestamp,
    /// ID of the refund, if the organization was deleted.
    pub refund: RefundOrderId,
    /// Audit entry, if the payment is new. It has the organization and the time.
    pub audit: Audit,
}

row! {
    /// Payment as it is recorded.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PaymentRow {
        /// ID of the payment.
        pub id: PaymentId = "id",
        /// Organization that has paid.
        pub org: OrgId = "org_id",
        /// Order that was paid.
        pub topup: TopupId = "topup_id",
        /// Payment intent.
        pub intent: String = "intent_id",
        /// Charge of the intent.
        pub charge: Option<String> = "charge_id",
        /// Amount in cents.
        pub amount_cents: i64 = "amount_cents",
        /// Cents that were refunded.
        pub refunded_cents: i64 = "refunded_cents",
        /// Cents that are disputed.
        pub disputed_cents: i64 = "disputed_cents",
        /// Time of the payment.
        pub created_at: Timestamp = "created_at",
    }
}

row! {
    struct OrderRow {
        org: OrgId = "t.org_id",
        state: TopupState = "t.state",
        intent: Option<String> = "t.intent_id",
        amount_cents: i64 = "t.amount_cents",
        save_card: bool = "t.save_card",
        org_deleted_at: Option<Timestamp> = "(SELECT o.deleted_at FROM organization o WHERE o.id = $2)",
    }
}

impl Store {
    /// System: credits an order that was paid, of any kind and from any source of the report. A repetition changes nothing.
    /// [`PAID_TWICE`] for an order with another payment, and [`OTHER_AMOUNT`] if the amount differs from the ordered one. A
    /// payment of a deleted organization is credited as well, and its refund is ordered.
    pub async fn credit_purchase(&self, paid: PaidTopup) -> Result<Appended> {
        let amount = micros(paid.amount_cents)?;
        let appended = self.db.write(move |tx| credit(tx, &paid)).await?;
        self.count_entry(appended, LedgerKind::Purchase, amount);
        Ok(appended)
    }

    /// Reads a payment of an organization.
    pub async fn payment(&self, org: OrgId, id: PaymentId) -> Result<PaymentRow> {
        self.db
            .read(move |tx| {
                let payment = payment_with(tx, id)?;
                if payment.org == org {
                    Ok(payment)
                } else {
                    Err(Error::NotFound)
                }
            })
            .await
    }

    /// Operator: reads a payment.
    pub async fn operated_payment(&self, id: PaymentId) -> Result<PaymentRow> {
        self.db.read(move |tx| payment_with(tx, id)).await
    }

    /// System: reads the payment of an intent, or of a charge. `None` if it is not one of this deployment.
    pub async fn payment_of(&self, intent: Option<&str>, charge: Option<&str>) -> Result<Option<PaymentRow>> {
        let (intent, charge) = (intent.map(str::to_owned), charge.map(str::to_owned));
        self.db
            .read(move |tx| {
                let mut found = None;
                if let Some(intent) = &intent {
                    found = tx.read_opt(
                        select!(PaymentRow, " FROM payment WHERE intent_id = $1"),
                        vals![intent.as_str()],
                    )?;
                }
                if let (None, Some(charge)) = (&found, &charge) {
                    found = tx.read_opt(
                        select!(PaymentRow, " FROM payment WHERE charge_id = $1"),
                        vals![charge.as_str()],
                    )?;
                }
                Ok(found)
            })
            .await
    }

    /// Returns at most `limit` payments of an organization after the position `before`, newest first.
    pub async fn list_payments(
        &self,
        org: OrgId,
        before: Option<(Timestamp, PaymentId)>,
        limit: u32,
    ) -> Result<Vec<PaymentRow>> {
        let (at, id) = before.map_or((Timestamp::from_micros(i64::MAX), String::new()), |(at, id)| {
            (at, id.to_string())
        });
        self.db
            .read(move |tx| {
                tx.read_all(
                    select!(
                        PaymentRow,
                        " FROM payment WHERE org_id = $1 AND (created_at, id) < ($2, $3) \
                         ORDER BY created_at DESC, id DESC LIMIT $4"
                    ),
                    vals![org, at, id.as_str(), limit],
                )
            })
            .await
    }

    /// System: claims for the time `lease` at most `limit` payments with a due comparison with Stripe.
    pub async fn claim_comparisons(
        &self,
        at: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<PaymentRow>> {
        self.db
            .write(move |tx| {
                let due = tx.query_all(
                    // The condition on `compare_at` appears a second time, to be checked again if another node was faster.
                    constcat::concat!(
                        "UPDATE payment SET compare_at = $2 WHERE id {IN}SELECT p.id FROM payment p \
                         WHERE p.compare_at >= 0 AND p.compare_at <= $1 ORDER BY p.compare_at, p.id LIMIT $3{END} \
                         AND compare_at <= $1 RETURNING ",
                        PaymentRow::COLUMNS
                    ),
                    vals![at, at + lease, limit],
                )?;
                Ok(readable(&due, "payment", PaymentRow::read))
            })
            .await
    }

    /// System: sets the time of the next comparison of a payment with Stripe. `None` if it was the last one.
    pub async fn compared(&self, id: PaymentId, next: Option<Timestamp>) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE payment SET compare_at = $2 WHERE id = $1 AND compare_at IS NOT NULL",
                    vals![id, next],
                )
                .map(drop)
            })
            .await
    }
}

fn payment_with(tx: &mut dyn Tx, id: PaymentId) -> Result<PaymentRow> {
    tx.read_one(select!(PaymentRow, " FROM payment WHERE id = $1"), vals![id])
}

fn credit(tx: &mut dyn Tx, paid: &PaidTopup) -> Result<Appended> {
    let (org, at) = (paid.audit.org, paid.audit.at);
    // The row of the order is locked, so that two reports of the payment are processed one after the other. The row of the
    // organization is locked first: a concurrent deletion is seen, or sees this payment.
    let [_, _, found] = batch(
        tx,
        &[
            Stmt::new("UPDATE organization SET name = name WHERE id = $1", vals![org])
                .exactly(1, Error::NotFound),
            lock_order(paid.topup).exactly(1, Error::NotFound),
            Stmt::new(
                select!(OrderRow, " FROM topup t WHERE t.id = $1"),
                vals![paid.topup, org],
            ),
        ],
    )?;
    let order = found.one::<OrderRow>()?;
    if order.org != org {
        return Err(Error::NotFound);
    }
    if order.state == TopupState::Paid {
        return if order.intent.as_ref() == Some(&paid.intent) {
            Ok(Appended::Before)
        } else {
            Err(PAID_TWICE)
        };
    }
    if order.amount_cents != paid.amount_cents {
        return Err(OTHER_AMOUNT);
    }
    let card = paid.card.as_ref().filter(|_| order.save_card);
    let mut statements = vec![
        Stmt::new(
            "UPDATE topup SET state = $2, intent_id = $3, error = NULL, check_at = NULL WHERE id = $1",
            vals![paid.topup, TopupState::Paid, paid.intent.as_str()],
        ),
        insert(paid),
        record(&paid.audit),
    ];
    statements.extend(card.into_iter().flat_map(|card| keep_card(org, Some(card), at)));
    statements.push(auto::resume(org));
    if order.org_deleted_at.is_some() {
        let whole = (paid.payment, paid.amount_cents);
        statements.push(refund_orders::order_whole(paid.refund, whole, at));
    }
    tx.batch(&statements)?;
    append(tx, &entry(paid)?)
}

fn insert(paid: &PaidTopup) -> Stmt<'_> {
    insert!("payment", {
        "id": paid.payment,
        "org_id": paid.audit.org,
        "topup_id": paid.topup,
        "intent_id": paid.intent.as_str(),
        "charge_id": paid.charge.as_deref(),
        "amount_cents": paid.amount_cents,
        "refunded_cents" = "0",
        "disputed_cents" = "0",
        "created_at": paid.audit.at,
        "compare_at": paid.compare_at,
    })
}

fn entry(paid: &PaidTopup) -> Result<NewLedgerEntry> {
    Ok(NewLedgerEntry {
        cause: paid.intent.clone(),
        org: paid.audit.org,
        kind: LedgerKind::Purchase,
        amount_micros: micros(paid.amount_cents)?,
        description: paid.description.clone(),
        payment: Some(paid.payment.to_string()),
        topup: Some(paid.topup.to_string()),
        user: None,
        at: paid.audit.at,
    })
}
