//! Organizations as customers of Stripe, and the last known state of their saved cards.

use std::time::Duration;

use sortie_api::{OrgId, Timestamp};

use super::auto;
use crate::{
    Result, Store,
    access::audit::{Audit, record},
    db::{ReadRow, Stmt, Tx, batch, insert, readable, row, select, vals},
    outbox::mail::{self, NewMail},
};

row! {
    /// Organization as a customer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BillingAccount {
        /// ID of the customer at Stripe.
        pub customer: String = "customer",
        /// Saved card.
        pub card: Option<SavedCard>,
        /// Time of the last attempt to read the card.
        pub asked_at: Option<Timestamp> = "asked_at",
        /// Time at which the card was last read.
        pub seen_at: Option<Timestamp> = "seen_at",
    }
}

/// Customer that replaces one that is missing at Stripe.
#[derive(Clone, Debug)]
pub struct NewCustomer {
    /// ID of the missing customer.
    pub missing: String,
    /// ID of the new customer.
    pub customer: String,
    /// Mail to the owner, if the automatic purchases are disabled.
    pub mail: Option<NewMail>,
    /// Audit entry, if the automatic purchases are disabled. It has the organization.
    pub audit: Audit,
}

/// Card that has been removed at Stripe.
#[derive(Clone, Debug)]
pub struct RemovedCard {
    /// ID of its payment method.
    pub payment_method: String,
    /// Mail to the owner, if the automatic purchases are disabled.
    pub mail: Option<NewMail>,
    /// Audit entry, if the automatic purchases are disabled. It has the organization and the time.
    pub audit: Audit,
}

/// Result of the replacement of a customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedCustomer {
    /// ID of the customer in the store.
    pub customer: String,
    /// Whether the automatic purchases were disabled.
    pub disabled_auto_topup: bool,
}

row! {
    /// Saved card.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SavedCard {
        /// ID of the payment method at Stripe.
        pub payment_method: String = "payment_method",
        /// Brand of the card.
        pub brand: String = "brand",
        /// Last four digits of its number.
        pub last4: String = "last4",
        /// Month of its end.
        pub exp_month: i64 = "exp_month",
        /// Year of its end.
        pub exp_year: i64 = "exp_year",
        /// Page on which it was saved: `checkout` or `portal`.
        pub source: String = "source",
    }
}

row! {
    /// Customer of a deleted organization, with checkout pages that must be expired.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClosingAccount {
        /// The organization.
        pub org: OrgId = "org_id",
        /// ID of the customer at Stripe.
        pub customer: String = "customer",
        /// Time of the deletion.
        pub deleted_at: Timestamp = "COALESCE((SELECT o.deleted_at FROM organization o WHERE o.id = billing_account.org_id), 0)",
    }
}

impl Store {
    /// System: claims for the time `lease` at most `limit` customers with checkout pages to expire.
    pub async fn claim_closing_accounts(
        &self,
        at: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<ClosingAccount>> {
        self.db
            .write(move |tx| {
                let due = tx.query_all(
                    // The condition on `close_at` appears a second time, to be checked again if another node was faster.
                    constcat::concat!(
                        "UPDATE billing_account SET close_at = $2 WHERE org_id {IN}SELECT b.org_id FROM billing_account b \
                         WHERE b.close_at >= 0 AND b.close_at <= $1 ORDER BY b.close_at, b.org_id LIMIT $3{END} \
                         AND close_at <= $1 RETURNING ",
                        ClosingAccount::COLUMNS
                    ),
                    vals![at, at + lease, limit],
                )?;
                Ok(readable(
                    &due,
                    "customer of a deleted organization",
                    ClosingAccount::read,
                ))
            })
            .await
    }

    /// System: sets the time at which the pages of a customer are expired once more. `None` if there can be no others.
    pub async fn close_account_at(&self, org: OrgId, next: Option<Timestamp>) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE billing_account SET close_at = $2 WHERE org_id = $1 AND close_at IS NOT NULL",
                    vals![org, next],
                )
                .map(drop)
            })
            .await
    }

    /// Reads an organization as a customer. `None` before its first purchase.
    pub async fn billing_account(&self, org: OrgId) -> Result<Option<BillingAccount>> {
        self.db
            .read(move |tx| {
                tx.read_opt(
                    select!(BillingAccount, " FROM billing_account WHERE org_id = $1"),
                    vals![org],
                )
            })
            .await
    }

    /// Stores the customer that was created at Stripe for an organization, unless one is stored already. Returns the stored
    /// one.
    pub async fn keep_customer(&self, org: OrgId, customer: &str) -> Result<String> {
        let customer = customer.to_owned();
        self.db
            .write(move |tx| {
                let [_, kept] = batch(
                    tx,
                    &[
                        insert!("billing_account", {
                            "org_id": org,
                            "customer": customer.as_str(),
                        }, " ON CONFLICT (org_id) DO NOTHING"),
                        Stmt::new(
                            "SELECT customer FROM billing_account WHERE org_id = $1",
                            vals![org],
                        ),
                    ],
                )?;
                kept.value()
            })
            .await
    }

    /// Replaces the customer of an organization, unless another one has been stored since. Forgets the card of the missing
    /// one, and disables the automatic purchases, which would charge it.
    pub async fn replace_customer(&self, new: NewCustomer) -> Result<ReplacedCustomer> {
        self.db.write(move |tx| replace(tx, &new)).await
    }

    /// System: returns the organization that a customer of Stripe is.
    pub async fn org_of_customer(&self, customer: &str) -> Result<Option<OrgId>> {
        let customer = customer.to_owned();
        self.db
            .read(move |tx| {
                tx.query_opt(
                    "SELECT org_id FROM billing_account WHERE customer = $1",
                    vals![customer.as_str()],
                )?
                .map(|row| row.only())
                .transpose()
            })
            .await
    }

    /// System: returns the organization with a saved card.
    pub async fn org_of_card(&self, payment_method: &str) -> Result<Option<OrgId>> {
        let payment_method = payment_method.to_owned();
        self.db
            .read(move |tx| {
                tx.query_opt(
                    "SELECT org_id FROM billing_account WHERE payment_method = $1",
                    vals![payment_method.as_str()],
                )?
                .map(|row| row.only())
                .transpose()
            })
            .await
    }

    /// Forgets a card that has been removed at Stripe, unless another one is saved by now, and disables the automatic
    /// purchases, which would charge it. Returns whether they were enabled.
    pub async fn forget_card(&self, removed: RemovedCard) -> Result<bool> {
        self.db
            .write(move |tx| {
                let (org, at) = (removed.audit.org, removed.audit.at);
                let forgotten = tx.exec(
                    "UPDATE billing_account SET payment_method = NULL, brand = NULL, last4 = NULL, exp_month = NULL, \
                     exp_year = NULL, source = NULL, seen_at = $3 WHERE org_id = $1 AND payment_method = $2",
                    vals![org, removed.payment_method.as_str(), at],
                )?;
                if forgotten == 0 {
                    return Ok(false);
                }
                disable_auto_topup(tx, &removed.audit, removed.mail.as_ref())
            })
            .await
    }

    /// Claims a check of an organization's card, unless one was claimed after `since`. Returns whether it was claimed.
    pub async fn ask_for_card(&self, org: OrgId, at: Timestamp, since: Timestamp) -> Result<bool> {
        self.db
            .write(move |tx| {
                let asked = tx.exec(
                    "UPDATE billing_account SET asked_at = $2 WHERE org_id = $1 AND COALESCE(asked_at, 0) <= $3",
                    vals![org, at, since],
                )?;
                Ok(asked == 1)
            })
            .await
    }

    /// Stores the card that Stripe has for an organization. For a known card, the page on which it was saved stays.
    pub async fn keep_card(&self, org: OrgId, card: Option<SavedCard>, at: Timestamp) -> Result<()> {
        self.db
            .write(move |tx| tx.batch(&self::keep_card(org, card.as_ref(), at)).map(drop))
            .await
    }
}

fn replace(tx: &mut dyn Tx, new: &NewCustomer) -> Result<ReplacedCustomer> {
    let org = new.audit.org;
    let [replaced, kept] = batch(
        tx,
        &[
            Stmt::new(
                "UPDATE billing_account SET customer = $3, payment_method = NULL, brand = NULL, last4 = NULL, \
                 exp_month = NULL, exp_year = NULL, source = NULL, asked_at = NULL, seen_at = NULL \
                 WHERE org_id = $1 AND customer = $2",
                vals![org, new.missing.as_str(), new.customer.as_str()],
            ),
            Stmt::new(
                "SELECT customer FROM billing_account WHERE org_id = $1",
                vals![org],
            ),
        ],
    )?;
    let customer = kept.value()?;
    let disabled_auto_topup =
        replaced.affected == 1 && disable_auto_topup(tx, &new.audit, new.mail.as_ref())?;
    Ok(ReplacedCustomer {
        customer,
        disabled_auto_topup,
    })
}

/// Disables the automatic purchases of an organization after its card was removed, and queues the mail about it. Returns
/// whether they were enabled.
fn disable_auto_topup(tx: &mut dyn Tx, audit: &Audit, told: Option<&NewMail>) -> Result<bool> {
    let [delete, forget_threshold] = auto::disable(audit.org);
    let [deleted] = batch(tx, &[delete])?;
    if deleted.affected == 1 {
        let mut statements = vec![record(audit)];
        statements.extend(told.map(mail::insert));
        statements.push(forget_threshold);
        tx.batch(&statements)?;
    }
    Ok(deleted.affected == 1)
}

/// Statements that store the card of an organization that is a customer already. The deletion of an organization forgets its
/// card, and a later payment must not restore it. The lock comes first: a statement that waits for the deletion would not
/// see it.
pub(super) fn keep_card(org: OrgId, card: Option<&SavedCard>, at: Timestamp) -> [Stmt<'_>; 2] {
    let lock = Stmt::new(
        "UPDATE billing_account SET seen_at = seen_at WHERE org_id = $1",
        vals![org],
    );
    let keep = Stmt::new(
        "UPDATE billing_account SET source = CASE WHEN payment_method = $2 THEN source ELSE $7 END, payment_method = $2, \
         brand = $3, last4 = $4, exp_month = $5, exp_year = $6, seen_at = $8 WHERE org_id = $1 \
         AND (SELECT o.deleted_at FROM organization o WHERE o.id = $1) IS NULL",
        vals![
            org,
            card.map(|card| card.payment_method.as_str()),
            card.map(|card| card.brand.as_str()),
            card.map(|card| card.last4.as_str()),
            card.map(|card| card.exp_month),
            card.map(|card| card.exp_year),
            card.map(|card| card.source.as_str()),
            at
        ],
    );
    [lock, keep]
}
