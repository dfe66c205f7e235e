//! Automatic purchases: the saved card of an organization is charged when its credits run low.
//!
//! The settings are a row. The row of the credits repeats the threshold, because movements of credits compare the balance
//! with it. Each consent has a separate row that outlives the settings, and a purchase names the consent that it was made
//! under. A unique index of the orders allows one pending purchase per organization. Rows are locked in the order
//! organization, order, saved card, settings, credits.

use std::time::Duration;

use sortie_api::{ConsentId, OrgId, Timestamp, TopupId, TopupKind, TopupState, UserId};

use super::{
    accounts::SavedCard,
    topups::{TopupMove, TopupRow, lock_order, move_to},
};
use crate::{
    Error, Result, Store,
    access::audit::{Audit, record},
    db::{
        Row, Stmt, Tx, batch, filled, insert, row, select,
        tail::{CreditChange, Tail},
        vals,
    },
    money::credit,
    organizations::lock,
    outbox::mail::{self, NewMail},
};

/// Error if the settings have changed between the read and the end of a purchase.
pub const SETTINGS_CHANGED: Error = Error::Conflict("the automatic purchases were changed at the same time");

/// Reason of a purchase that was not sent to Stripe.
const NOT_AGREED: &str = "the automatic purchases were disabled or changed, or the organization was suspended, before the card was charged";

/// Time in which the limits count.
const DAY: Duration = Duration::from_hours(24);

/// Settings to save, with the consent to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAutoTopup {
    /// The organization.
    pub org: OrgId,
    /// Credits are bought when fewer than this are available, in cents.
    pub threshold_cents: i64,
    /// Amount of a purchase in cents.
    pub amount_cents: i64,
    /// Card that was saved then.
    pub card: SavedCard,
    /// ID of the consent.
    pub consent: ConsentId,
    /// Person who has agreed.
    pub consent_by: UserId,
    /// Time of the consent.
    pub consent_at: Timestamp,
    /// Text that the person has agreed to.
    pub consent_text: String,
}

row! {
    /// Settings as they are recorded.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AutoTopupRow {
        /// Credits are bought when fewer than this are available, in cents.
        pub threshold_cents: i64 = "threshold_cents",
        /// Amount of a purchase in cents.
        pub amount_cents: i64 = "amount_cents",
        /// Person who has agreed.
        pub consent_by: UserId = "consent_by",
        /// Time of the consent.
        pub consent_at: Timestamp = "consent_at",
        /// Text that the person has agreed to.
        pub consent_text: String = "consent_text",
        /// Purchases that were declined in a row.
        pub failures: i64 = "failures",
        /// Time before which nothing is bought.
        pub paused_until: Option<Timestamp> = "paused_until",
    }
}

/// Purchase to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeginAutoTopup {
    /// ID of the order.
    pub id: TopupId,
    /// The organization.
    pub org: OrgId,
    /// Time of the order.
    pub at: Timestamp,
    /// Time of the first check of the order by any node.
    pub check_at: Timestamp,
    /// Purchases of an organization in 24 hours.
    pub per_day: u32,
    /// Amount in cents that an organization may buy in 24 hours.
    pub cents_per_day: i64,
}

/// Result of the mark on an automatic purchase that is about to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentAutoTopup {
    /// The purchase is marked, and can be sent.
    Now,
    /// The purchase was marked before, or has ended.
    Before,
    /// The automatic purchases were disabled or changed, or the organization was suspended. The purchase has failed.
    Never,
}

/// State of the automatic purchases after one that was not paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAutoTopup {
    /// Buys nothing before this time. The purchase does not count as declined, because the cause of the failure is unknown.
    PausedUntil(Timestamp),
    /// Nothing is bought before this time, and the purchase counts as declined.
    RetryAt(Timestamp),
    /// The automatic purchases are disabled.
    Disabled,
    /// Nothing is bought until a person has paid or has agreed again.
    Paused,
}

/// End of an automatic purchase that was not paid.
#[derive(Clone, Debug)]
pub struct UnpaidAutoTopup {
    /// The order.
    pub id: TopupId,
    /// Payment intent, if Stripe has one.
    pub intent: Option<String>,
    /// Reason, for people.
    pub error: String,
    /// Number of declined purchases that the caller has read. `None` if the settings were deleted.
    pub failures: Option<i64>,
    /// State of the automatic purchases from now on.
    pub after: AfterAutoTopup,
    /// Mail to the owner.
    pub mail: Option<NewMail>,
    /// Audit entry, if the automatic purchases are disabled. It has the organization.
    pub audit: Audit,
}

/// Condition on a row `a` of `auto_topup`: the credits are below the threshold, and the pause has ended. `@at` is the time.
const IS_DUE: &str = "COALESCE(a.paused_until, 0) <= @at AND (SELECT c.org_id FROM credit c WHERE c.org_id = a.org_id \
    AND c.suspended = 0 AND c.balance_micros - c.reserved_micros < c.topup_below_micros) IS NOT NULL";

/// Consent to the settings of a row `a` of `auto_topup`.
const CONSENT_IN_FORCE: &str = "(SELECT c.id FROM auto_topup_consent c WHERE c.org_id = a.org_id AND c.at = a.consent_at \
    AND c.consent_by = a.consent_by AND c.consent_text = a.consent_text ORDER BY c.id LIMIT 1)";

impl Store {
    /// Saves the settings of the automatic purchases, replacing earlier ones. Resets failures and pauses. Adds the consent
    /// and keeps earlier ones. `NotFound` for a deleted organization.
    pub async fn put_auto_topup(&self, new: NewAutoTopup, audit: Audit) -> Result<()> {
        let threshold = super::micros(new.threshold_cents)?;
        self.db
            .write(move |tx| {
                tx.batch(&[
                    lock(new.org),
                    save(&new),
                    keep_consent(&new),
                    record(&audit),
                    credit::begin(new.org),
                    Stmt::new(
                        "UPDATE credit SET topup_below_micros = $2 WHERE org_id = $1",
                        vals![new.org, threshold],
                    ),
                ])?;
                // The credits may be low already: this compares them.
                tx.tail(Tail::Credit(new.org, CreditChange::default()));
                Ok(())
            })
            .await
    }

    /// Disables the automatic purchases. Returns whether they were enabled. A purchase that was already sent to Stripe is
    /// not stopped.
    pub async fn disable_auto_topup(&self, org: OrgId, audit: Audit) -> Result<bool> {
        self.db
            .write(move |tx| {
                let [deleted] = batch(tx, &[delete(org)])?;
                if deleted.affected == 1 {
                    tx.batch(&[record(&audit), forget_threshold(org)])?;
                }
                Ok(deleted.affected == 1)
            })
            .await
    }

    /// Reads the settings of the automatic purchases, and the state of the last one. No settings while they are disabled.
    pub async fn auto_topup(&self, org: OrgId) -> Result<(Option<AutoTopupRow>, Option<TopupState>)> {
        self.db
            .read(move |tx| {
                let [settings, last] = batch(
                    tx,
                    &[
                        Stmt::new(
                            select!(AutoTopupRow, " FROM auto_topup WHERE org_id = $1"),
                            vals![org],
                        ),
                        Stmt::new(
                            "SELECT state FROM topup WHERE org_id = $1 AND kind = $2 ORDER BY created_at DESC \
                             LIMIT 1",
                            vals![org, TopupKind::Auto],
                        ),
                    ],
                )?;
                let settings = settings.first::<AutoTopupRow>()?;
                let last = last.opt_value()?;
                Ok((settings, last))
            })
            .await
    }

    /// System: lists at most `limit` organizations after `after`, in the order of their ids, that have credits below the
    /// threshold of their automatic purchases and may buy some at `at`.
    pub async fn due_auto_topups(
        &self,
        after: Option<OrgId>,
        at: Timestamp,
        limit: u32,
    ) -> Result<Vec<OrgId>> {
        let after = after.map(|org| org.to_string()).unwrap_or_default();
        self.db
            .read(move |tx| {
                tx.query_all(
                    constcat::concat!(
                        "SELECT a.org_id FROM auto_topup a WHERE a.org_id > $1 AND ",
                        filled!(IS_DUE, "@at" = "$2"),
                        " ORDER BY a.org_id LIMIT $3"
                    ),
                    vals![after.as_str(), at, limit],
                )?
                .iter()
                .map(Row::only)
                .collect()
            })
            .await
    }

    /// System: returns the start time of the oldest pending automatic purchase. `None` without one.
    pub async fn oldest_auto_topup(&self) -> Result<Option<Timestamp>> {
        self.db
            .read(|tx| {
                // The condition on the organization lets the planner use the index of these purchases.
                let row = tx.query_one(
                    "SELECT MIN(t.created_at) FROM topup t WHERE t.org_id > '' AND t.kind = 'auto' \
                     AND t.state IN ('created', 'processing')",
                    vals![],
                )?;
                row.only()
            })
            .await
    }

    /// System: whether the credits of an organization are below the threshold of its automatic purchases and it may buy some.
    pub async fn is_auto_topup_due(&self, org: OrgId, at: Timestamp) -> Result<bool> {
        self.db
            .read(move |tx| {
                let sql = constcat::concat!(
                    "SELECT 1 FROM auto_topup a WHERE a.org_id = $1 AND ",
                    filled!(IS_DUE, "@at" = "$2")
                );
                Ok(tx.query_opt(sql, vals![org, at])?.is_some())
            })
            .await
    }

    /// System: records an automatic purchase, if one is due, none is pending, and the limits allow it. It charges the card
    /// that was saved last.
    pub async fn begin_auto_topup(&self, begin: BeginAutoTopup) -> Result<Option<TopupRow>> {
        self.db
            .write(move |tx| {
                let [_, _, _, row] = batch(
                    tx,
                    &[
                        // The lock makes the limits exact.
                        lock(begin.org),
                        wait_for_end(begin.org),
                        insert(&begin),
                        Stmt::new(select!(TopupRow, " FROM topup WHERE id = $1"), vals![begin.id]),
                    ],
                )?;
                row.first::<TopupRow>()
            })
            .await
    }

    /// System: marks an automatic purchase as sent, before the request to Stripe. Fails the purchase instead if its consent
    /// has been replaced or withdrawn, or if the organization is suspended.
    pub async fn send_auto_topup(&self, id: TopupId) -> Result<SentAutoTopup> {
        self.db
            .write(move |tx| {
                let [_, _, sent, failed] = batch(
                    tx,
                    &[
                        // The condition on the settings is evaluated after both locks. A command that disables or changes
                        // the settings commits either before, so nothing is sent, or after.
                        lock_order(id),
                        Stmt::new(
                            "UPDATE auto_topup SET failures = failures \
                             WHERE org_id = (SELECT t.org_id FROM topup t WHERE t.id = $1)",
                            vals![id],
                        ),
                        Stmt::new(
                            constcat::concat!(
                                "UPDATE topup SET state = $2 WHERE id = $1 AND state = $3 AND (SELECT a.org_id FROM auto_topup a \
                                 WHERE a.org_id = topup.org_id AND (topup.consent_id IS NULL OR topup.consent_id = ",
                                CONSENT_IN_FORCE,
                                ")) IS NOT NULL AND (SELECT c.suspended FROM credit c WHERE c.org_id = topup.org_id) = 0"
                            ),
                            vals![id, TopupState::Processing, TopupState::Created],
                        ),
                        Stmt::new(
                            "UPDATE topup SET state = $2, error = $4, check_at = NULL WHERE id = $1 AND state = $3",
                            vals![id, TopupState::Failed, TopupState::Created, NOT_AGREED],
                        ),
                    ],
                )?;
                Ok(match (sent.affected, failed.affected) {
                    (1, _) => SentAutoTopup::Now,
                    (_, 1) => SentAutoTopup::Never,
                    _ => SentAutoTopup::Before,
                })
            })
            .await
    }

    /// System: stores the payment intent of a pending automatic purchase.
    pub async fn keep_intent(&self, id: TopupId, intent: &str) -> Result<()> {
        let intent = intent.to_owned();
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE topup SET intent_id = $2 WHERE id = $1 AND intent_id IS NULL",
                    vals![id, intent.as_str()],
                )
                .map(drop)
            })
            .await
    }

    /// System: ends an automatic purchase that was not paid. Returns false if it has ended before. [`SETTINGS_CHANGED`] if
    /// the number of failures is another one than the caller has read: nothing is recorded then.
    pub async fn end_unpaid_auto_topup(&self, unpaid: UnpaidAutoTopup) -> Result<bool> {
        self.db.write(move |tx| end_unpaid(tx, &unpaid)).await
    }
}

fn save(new: &NewAutoTopup) -> Stmt<'_> {
    insert!("auto_topup", {
        "org_id": new.org,
        "threshold_cents": new.threshold_cents,
        "amount_cents": new.amount_cents,
        "payment_method": new.card.payment_method.as_str(),
        "consent_by": new.consent_by,
        "consent_at": new.consent_at,
        "consent_text": new.consent_text.as_str(),
        "failures" = "0",
    }, " ON CONFLICT (org_id) DO UPDATE SET threshold_cents = excluded.threshold_cents, \
        amount_cents = excluded.amount_cents, payment_method = excluded.payment_method, \
        consent_by = excluded.consent_by, consent_at = excluded.consent_at, consent_text = excluded.consent_text, \
        failures = 0, paused_until = NULL")
}

fn keep_consent(new: &NewAutoTopup) -> Stmt<'_> {
    insert!("auto_topup_consent", {
        "id": new.consent,
        "org_id": new.org,
        "consent_by": new.consent_by,
        "at": new.consent_at,
        "threshold_cents": new.threshold_cents,
        "amount_cents": new.amount_cents,
        "payment_method": new.card.payment_method.as_str(),
        "card_brand": new.card.brand.as_str(),
        "card_last4": new.card.last4.as_str(),
        "consent_text": new.consent_text.as_str(),
    })
}

/// Waits for a transaction that ends the pending purchase. A PostgreSQL insertion would wait for it too, but then insert
/// according to the old credits and the old pause: that would be one purchase too many.
fn wait_for_end(org: OrgId) -> Stmt<'static> {
    Stmt::new(
        "UPDATE topup SET checks = checks WHERE org_id = $1 AND kind = 'auto' AND state IN ('created', 'processing')",
        vals![org],
    )
}

fn insert(begin: &BeginAutoTopup) -> Stmt<'static> {
    let day = i64::try_from(DAY.as_micros()).unwrap_or(i64::MAX);
    let since = begin.at.as_micros().saturating_sub(day);
    insert!("topup", {
        "id": begin.id,
        "org_id" = "a.org_id",
        "kind": TopupKind::Auto,
        "amount_cents" = "a.amount_cents",
        "state": TopupState::Created,
        "save_card" = "0",
        "payment_method" = "COALESCE((SELECT b.payment_method FROM billing_account b WHERE b.org_id = a.org_id), \
            a.payment_method)",
        "created_by" = "a.consent_by",
        "consent_id" = CONSENT_IN_FORCE,
        "created_at" = "CAST(@ AS BIGINT)": begin.at,
        "check_at" = "CAST(@ AS BIGINT)": begin.check_at,
        "checks" = "0",
    }, select constcat::concat!(
        " FROM auto_topup a WHERE a.org_id = $6 AND ",
        filled!(IS_DUE, "@at" = "$4"),
        " AND (SELECT COUNT(*) FROM topup t WHERE t.org_id = $6 AND t.created_at > $7 AND t.kind = $2) < $8 \
         AND a.amount_cents + (SELECT CAST(COALESCE(SUM(t.amount_cents), 0) AS BIGINT) FROM topup t \
           WHERE t.org_id = $6 AND t.created_at > $7 AND t.kind = $2 AND t.state NOT IN ($9, $10)) <= $11 \
         ON CONFLICT DO NOTHING"
    ), begin.org, since, begin.per_day, TopupState::Failed, TopupState::RequiresAction, begin.cents_per_day)
}

/// Disables the automatic purchases of an organization. The consent to them is kept. The credits are locked last.
pub(super) fn disable(org: OrgId) -> [Stmt<'static>; 2] {
    [delete(org), forget_threshold(org)]
}

fn delete(org: OrgId) -> Stmt<'static> {
    Stmt::new("DELETE FROM auto_topup WHERE org_id = $1", vals![org])
}

/// Statement that ends the comparison of the credits. It comes last, in the order of locks.
fn forget_threshold(org: OrgId) -> Stmt<'static> {
    Stmt::new(
        "UPDATE credit SET topup_below_micros = NULL WHERE org_id = $1",
        vals![org],
    )
}

/// Statement that pauses the automatic purchases of an organization until a time, or until a later one that is already set.
pub(crate) fn pause_until(org: OrgId, until: Timestamp) -> Stmt<'static> {
    Stmt::new(
        "UPDATE auto_topup SET paused_until = {GREATEST}(COALESCE(paused_until, 0), CAST($2 AS BIGINT)) WHERE org_id = $1",
        vals![org, until],
    )
}

/// Statement that ends failures and pauses, once a person or the card has paid.
pub(super) fn resume(org: OrgId) -> Stmt<'static> {
    Stmt::new(
        "UPDATE auto_topup SET failures = 0, paused_until = NULL WHERE org_id = $1 \
         AND (failures > 0 OR paused_until IS NOT NULL)",
        vals![org],
    )
}

fn end_unpaid(tx: &mut dyn Tx, unpaid: &UnpaidAutoTopup) -> Result<bool> {
    let (org, after) = (unpaid.audit.org, unpaid.after);
    let moved = move_to(
        tx,
        &TopupMove {
            id: unpaid.id,
            to: match after {
                AfterAutoTopup::Paused => TopupState::RequiresAction,
                AfterAutoTopup::PausedUntil(_) | AfterAutoTopup::RetryAt(_) | AfterAutoTopup::Disabled => {
                    TopupState::Failed
                }
            },
            session: None,
            intent: unpaid.intent.clone(),
            error: Some(unpaid.error.clone()),
        },
    )?;
    if !moved {
        return Ok(false);
    }
    let mut statements = Vec::new();
    let settings = unpaid.failures.map(|failures| change(org, failures, after));
    statements.extend(settings.map(|change| change.exactly(1, SETTINGS_CHANGED)));
    statements.extend(unpaid.mail.as_ref().map(mail::insert));
    if unpaid.failures.is_some() && after == AfterAutoTopup::Disabled {
        statements.push(record(&unpaid.audit));
        statements.push(forget_threshold(org));
    }
    if !statements.is_empty() {
        tx.batch(&statements)?;
    }
    Ok(true)
}

/// Change of the settings after an unpaid purchase, if `failures` were declined before.
fn change(org: OrgId, failures: i64, after: AfterAutoTopup) -> Stmt<'static> {
    match after {
        AfterAutoTopup::PausedUntil(at) => pause(org, failures, at),
        AfterAutoTopup::RetryAt(at) => Stmt::new(
            "UPDATE auto_topup SET failures = failures + 1, paused_until = $3 WHERE org_id = $1 AND failures = $2",
            vals![org, failures, at],
        ),
        AfterAutoTopup::Disabled => Stmt::new(
            "DELETE FROM auto_topup WHERE org_id = $1 AND failures = $2",
            vals![org, failures],
        ),
        AfterAutoTopup::Paused => pause(org, failures, Timestamp::from_micros(i64::MAX)),
    }
}

fn pause(org: OrgId, failures: i64, until: Timestamp) -> Stmt<'static> {
    Stmt::new(
        "UPDATE auto_topup SET paused_until = $3 WHERE org_id = $1 AND failures = $2",
        vals![org, failures, until],
    )
}
