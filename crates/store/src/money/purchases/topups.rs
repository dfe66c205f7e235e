//! Orders of credits. Their states move by the one table of [`TopupState`].

use std::time::Duration;

use sortie_api::{OrgId, Timestamp, TopupId, TopupKind, TopupState, UserId};

use crate::{
    Error, Result, Store,
    access::audit::{Audit, record},
    db::{ReadRow, Stmt, Tx, batch, insert, readable, row, select, vals},
    organizations::lock,
};

/// Error of an order that exceeds the limit of unpaid orders.
pub const TOO_MANY_OPEN: Error =
    Error::Conflict("the organization has too many checkouts that are not paid: they end after an hour");

/// Order to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopup {
    /// ID of the order.
    pub id: TopupId,
    /// Organization that buys.
    pub org: OrgId,
    /// Kind of the order.
    pub kind: TopupKind,
    /// Amount in cents.
    pub amount_cents: i64,
    /// Whether the card is saved.
    pub save_card: bool,
    /// Card that an automatic purchase charges.
    pub payment_method: Option<String>,
    /// Person who buys.
    pub created_by: Option<UserId>,
    /// Time of the order.
    pub created_at: Timestamp,
    /// Time of the first check at Stripe.
    pub check_at: Timestamp,
}

row! {
    /// Order as it is recorded.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TopupRow {
        /// ID of the order.
        pub id: TopupId = "id",
        /// Organization that buys.
        pub org: OrgId = "org_id",
        /// Kind of the order.
        pub kind: TopupKind = "kind",
        /// Amount in cents.
        pub amount_cents: i64 = "amount_cents",
        /// State of the order.
        pub state: TopupState = "state",
        /// Checkout session.
        pub session: Option<String> = "session_id",
        /// Payment intent.
        pub intent: Option<String> = "intent_id",
        /// Whether the card is saved.
        pub save_card: bool = "save_card",
        /// Card that an automatic purchase charges.
        pub payment_method: Option<String> = "payment_method",
        /// Person who buys.
        pub created_by: Option<UserId> = "created_by",
        /// Time of the order.
        pub created_at: Timestamp = "created_at",
        /// Number of checks at Stripe. The record of a check must carry it.
        pub checks: i64 = "checks",
        /// Customer of Stripe that the organization is.
        pub customer: Option<String> = "(SELECT b.customer FROM billing_account b WHERE b.org_id = topup.org_id)",
    }
}

/// Move of an order to another state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopupMove {
    /// The order.
    pub id: TopupId,
    /// State that it gets.
    pub to: TopupState,
    /// Checkout session, if it is new.
    pub session: Option<String>,
    /// Payment intent, if it is new.
    pub intent: Option<String>,
    /// Reason, for people.
    pub error: Option<String>,
}

impl Store {
    /// Records an order of a person. [`TOO_MANY_OPEN`] if the organization has `most` checkouts that are not paid.
    pub async fn create_topup(&self, new: NewTopup, most: u32, audit: Audit) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[
                    // The lock makes the limit exact.
                    lock(new.org),
                    insert(&new, most).exactly(1, TOO_MANY_OPEN),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }

    /// System: moves an order to another state, if the table of states allows it. Returns whether it has moved.
    pub async fn move_topup(&self, change: TopupMove) -> Result<bool> {
        self.db.write(move |tx| move_to(tx, &change)).await
    }

    /// System: reads an order.
    pub async fn topup(&self, id: TopupId) -> Result<TopupRow> {
        self.db
            .read(move |tx| tx.read_one(select!(TopupRow, " FROM topup WHERE id = $1"), vals![id]))
            .await
    }

    /// System: finds the order of a checkout session.
    pub async fn topup_of_session(&self, session: &str) -> Result<Option<TopupRow>> {
        let session = session.to_owned();
        self.db
            .read(move |tx| {
                tx.read_opt(
                    select!(TopupRow, " FROM topup WHERE session_id = $1"),
                    vals![session.as_str()],
                )
            })
            .await
    }

    /// System: claims for the time `lease` at most `limit` orders with a due check at Stripe.
    pub async fn claim_topups(&self, at: Timestamp, lease: Duration, limit: u32) -> Result<Vec<TopupRow>> {
        self.db
            .write(move |tx| {
                let due = tx.query_all(
                    // The condition on `check_at` appears a second time, to be checked again if another node was faster.
                    constcat::concat!(
                        "UPDATE topup SET check_at = $2, checks = checks + 1 \
                         WHERE id {IN}SELECT t.id FROM topup t WHERE t.check_at >= 0 AND t.check_at <= $1 \
                         ORDER BY t.check_at, t.id LIMIT $3{END} AND check_at <= $1 RETURNING ",
                        TopupRow::COLUMNS
                    ),
                    vals![at, at + lease, limit],
                )?;
                Ok(readable(&due, "purchase", TopupRow::read))
            })
            .await
    }

    /// System: sets the time of the next check of a pending order. `checks` comes from the claim; a node that lost its
    /// claim changes nothing.
    pub async fn check_topup_at(&self, id: TopupId, checks: i64, at: Timestamp) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE topup SET check_at = $3 WHERE id = $1 AND checks = $2 AND check_at IS NOT NULL",
                    vals![id, checks, at],
                )
                .map(drop)
            })
            .await
    }
}

fn insert(new: &NewTopup, most: u32) -> Stmt<'_> {
    insert!("topup", {
        "id": new.id,
        "org_id" = "id",
        "kind": new.kind,
        "amount_cents" = "CAST(@ AS BIGINT)": new.amount_cents,
        "state": TopupState::Created,
        "save_card" = "CAST(@ AS BIGINT)": new.save_card,
        "payment_method": new.payment_method.as_deref(),
        "created_by": new.created_by,
        "created_at" = "CAST(@ AS BIGINT)": new.created_at,
        "check_at" = "CAST(@ AS BIGINT)": new.check_at,
        "checks" = "0",
    }, select " FROM organization WHERE id = $10 \
        AND (SELECT COUNT(*) FROM (SELECT 1 FROM topup t WHERE t.org_id = $10 \
          AND t.state IN ('created', 'open', 'processing') LIMIT $11) AS counted) < $11", new.org, most)
}

/// Locks an order until the end of the transaction.
pub(super) fn lock_order(id: TopupId) -> Stmt<'static> {
    Stmt::new("UPDATE topup SET checks = checks WHERE id = $1", vals![id])
}

pub(super) fn move_to(tx: &mut dyn Tx, change: &TopupMove) -> Result<bool> {
    let from: Vec<&str> = change.to.from_where().map(TopupState::as_str).collect();
    let from = serde_json::to_string(&from).map_err(|error| Error::Corrupt(error.to_string()))?;
    let [moved] = batch(
        tx,
        &[Stmt::new(
            "UPDATE topup SET state = $2, session_id = COALESCE($3, session_id), intent_id = COALESCE($4, intent_id), \
             error = $5, check_at = CASE WHEN CAST($6 AS BIGINT) = 1 THEN check_at ELSE NULL END \
             WHERE id = $1 AND state {IN}SELECT value FROM {JSON_EACH}($7){END}",
            vals![
                change.id,
                change.to,
                change.session.as_deref(),
                change.intent.as_deref(),
                change.error.as_deref(),
                change.to.is_waiting(),
                from
            ],
        )],
    )?;
    Ok(moved.affected == 1)
}
