//! Automatic purchases: their settings, the consent, and the task that begins them.
//!
//! A credit movement that takes the available credits of an organization below its threshold notifies the task of its node, which
//! then buys. A scan of all organizations every minute finds missed ones.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use sortie_api::{
    ConsentId, ErrorCode, OrgId, TopupId, TopupState, UserId,
    auto_topup::{PutAutoTopup, last_topup_status},
    billing::AutoTopup,
    limits,
};
use sortie_base::random;
use sortie_store::{
    access::{Actor, Caller},
    money::{AutoTopupRow, BeginAutoTopup, NewAutoTopup, SavedCard},
};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{
    Billing,
    error::{Result, conflict},
    service::Parts,
};

/// Time after which any node may check a new purchase.
const FIRST_LOOK: Duration = Duration::from_secs(30);

/// Pause after a failed attempt on the node that began the purchase.
const AGAIN: Duration = Duration::from_secs(10);

/// Interval between two scans of all organizations.
const LOOK: Duration = Duration::from_mins(1);

/// Time for which notifications are batched.
const GATHERED: Duration = Duration::from_millis(200);

/// Number of organizations on a page of the scan.
const PAGE: u32 = 500;

/// Number of organizations that a node buys for concurrently.
const SLOTS: usize = 8;

/// Error of settings without a card.
const NO_CARD: &str = "no card is saved: buy credits with save_payment_method, or add a card in the customer portal, and try \
                       again";

/// Limits of automatic purchases of one organization in 24 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoTopupLimits {
    /// Number of purchases with any outcome.
    pub per_day: u32,
    /// Sum of the purchases in cents, without failed ones. `None`: no limit.
    pub cents_per_day: Option<i64>,
}

impl Default for AutoTopupLimits {
    fn default() -> Self {
        Self {
            per_day: 5,
            cents_per_day: None,
        }
    }
}

/// Settings that passed all checks.
struct Checked {
    threshold_cents: i64,
    amount_cents: i64,
}

/// Amounts of a request with the names of their fields and their minimums.
fn amounts(request: &PutAutoTopup) -> [(&'static str, Option<i64>, i64); 2] {
    [
        (
            "threshold_cents",
            request.threshold_cents,
            limits::TOPUP_THRESHOLD_CENTS_MIN,
        ),
        ("amount_cents", request.amount_cents, limits::PURCHASE_CENTS_MIN),
    ]
}

fn within((field, value, least): (&str, Option<i64>, i64)) -> Result<i64> {
    let most = limits::PURCHASE_CENTS_MAX;
    value
        .filter(|value| (least..=most).contains(value))
        .ok_or_else(|| {
            let rule = format!("{field}: must be from {least} to {most}");
            ErrorCode::InvalidRequest.because(rule).into()
        })
}

fn checked(request: &PutAutoTopup, limits: AutoTopupLimits) -> Result<Checked> {
    let [threshold, amount] = amounts(request);
    let (threshold_cents, amount_cents) = (within(threshold)?, within(amount)?);
    if let Some(most) = limits.cents_per_day.filter(|most| *most < amount_cents) {
        return Err(ErrorCode::InvalidRequest
            .because(format!(
                "amount_cents: must be at most {most}, which is what this deployment charges in a day"
            ))
            .into());
    }
    if request.consent != Some(true) {
        return Err(ErrorCode::InvalidRequest
            .because("consent: must be true: without it no card is charged automatically")
            .into());
    }
    Ok(Checked {
        threshold_cents,
        amount_cents,
    })
}

/// Text of the consent of a person.
fn consent_text(settings: &Checked, card: &SavedCard) -> String {
    let dollars = |cents: i64| format!("${}.{:02}", cents / 100, cents % 100);
    format!(
        "Charge {} to the saved card of the organization (now {} ending in {}) whenever less than {} of credits is \
         available, without asking again, until automatic purchases are disabled.",
        dollars(settings.amount_cents),
        card.brand,
        card.last4,
        dollars(settings.threshold_cents)
    )
}

impl Billing {
    /// Enables or disables the automatic purchases of an organization. Enabling needs consent and a saved card, which is read at
    /// Stripe now. Returns `Conflict` without a card, and otherwise the stored settings.
    pub async fn put_auto_topup(
        &self,
        (caller, user): (&Caller, UserId),
        request: &PutAutoTopup,
    ) -> Result<AutoTopup> {
        let (store, org) = (&self.0.store, caller.org);
        self.0.set_auto_topup((caller, user), request).await?;
        let account = store.billing_account(org).await?;
        let is_saved = account.is_some_and(|account| account.card.is_some());
        Ok(shown_auto_topup(store.auto_topup(org).await?, is_saved))
    }
}

/// Describes the automatic purchases of an organization by their settings and the state of the last one.
pub fn shown_auto_topup(
    (settings, last): (Option<AutoTopupRow>, Option<TopupState>),
    payment_method_saved: bool,
) -> AutoTopup {
    AutoTopup {
        enabled: settings.is_some(),
        threshold_cents: settings.as_ref().map(|settings| settings.threshold_cents),
        amount_cents: settings.as_ref().map(|settings| settings.amount_cents),
        payment_method_saved,
        last_topup_status: last.map(|state| last_topup_status(state).to_owned()),
    }
}

impl Parts {
    async fn set_auto_topup(&self, (caller, user): (&Caller, UserId), request: &PutAutoTopup) -> Result<()> {
        let org = caller.org;
        if !request.enabled {
            // The amounts are optional here. Amounts in the request must be valid.
            for amount in amounts(request).into_iter().filter(|(_, sent, _)| sent.is_some()) {
                within(amount)?;
            }
            let audit = self.audit(org, &caller.actor, "billing.auto_topup.disable", org.to_string())?;
            self.store.disable_auto_topup(org, audit).await?;
            return Ok(());
        }
        let settings = checked(request, self.options.auto_topup)?;
        let Some(account) = self.store.billing_account(org).await? else {
            return Err(conflict(NO_CARD));
        };
        let card = self
            .refresh_card(org, &account)
            .await?
            .ok_or_else(|| conflict(NO_CARD))?;
        let audit = self.audit(org, &caller.actor, "billing.auto_topup.put", org.to_string())?;
        let new = NewAutoTopup {
            org,
            threshold_cents: settings.threshold_cents,
            amount_cents: settings.amount_cents,
            consent_text: consent_text(&settings, &card),
            card,
            consent: ConsentId::new(audit.at, random()?),
            consent_by: user,
            consent_at: audit.at,
        };
        Ok(self.store.put_auto_topup(new, audit).await?)
    }

    /// Buys credits for organizations below their threshold, until `stop` is cancelled.
    pub(crate) async fn run_auto_topups(&self, stop: &CancellationToken) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let work = async {
            loop {
                tokio::select! {
                    low = self.store.low_credits() => self.buy_for(low).await,
                    _ = look.tick() => {
                        if let Err(error) = self.buy_for_all().await {
                            tracing::warn!(%error, "looking for credits to buy failed");
                        }
                    }
                }
                // Concurrent runs notify for each of their organizations.
                tokio::time::sleep(GATHERED).await;
            }
        };
        // Stopping at any await is safe: the state is stored, and another node continues the purchase.
        stop.run_until_cancelled(work).await;
    }

    /// Begins the purchases of all organizations that are due.
    pub(crate) async fn buy_for_all(&self) -> Result<()> {
        let mut after = None;
        loop {
            let due = self.store.due_auto_topups(after, self.now(), PAGE).await?;
            after = due.last().copied();
            if after.is_none() {
                return Ok(());
            }
            self.buy_for(due).await;
        }
    }

    async fn buy_for(&self, organizations: impl IntoIterator<Item = OrgId>) {
        let buying = |org| async move {
            if let Err(error) = self.buy(org).await {
                tracing::warn!(organization = %org, %error, "an automatic purchase failed; it is tried again");
            }
        };
        stream::iter(organizations)
            .for_each_concurrent(SLOTS, buying)
            .await;
    }

    /// Begins a purchase for an organization, if one is due, and charges the card.
    async fn buy(&self, org: OrgId) -> Result<()> {
        let at = self.now();
        // The notification may be outdated, and a read is cheaper than a transaction.
        if !self.store.is_auto_topup_due(org, at).await? {
            return Ok(());
        }
        let limits = self.options.auto_topup;
        let begin = BeginAutoTopup {
            id: TopupId::new(at, random()?),
            org,
            at,
            check_at: at + FIRST_LOOK,
            per_day: limits.per_day,
            cents_per_day: limits.cents_per_day.unwrap_or(i64::MAX),
        };
        let Some(topup) = self.store.begin_auto_topup(begin).await? else {
            return Ok(());
        };
        tracing::info!(topup = %topup.id, organization = %org, cents = topup.amount_cents, "began an automatic purchase");
        let looked = self.sync_auto_topup(&topup).await;
        if looked.is_err() {
            self.store
                .check_topup_at(topup.id, topup.checks, self.now() + AGAIN)
                .await?;
        }
        looked.map(drop)
    }

    /// Reads the settings of an organization. Returns `None` while automatic purchases are disabled.
    pub(crate) async fn auto_topup(&self, org: OrgId) -> Result<Option<AutoTopupRow>> {
        Ok(self.store.auto_topup(org).await?.0)
    }

    /// Actor of automatic actions of the engine.
    pub(crate) fn system_actor() -> Actor {
        Actor::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: PutAutoTopup = PutAutoTopup {
        enabled: true,
        threshold_cents: Some(500),
        amount_cents: Some(5_000),
        consent: Some(true),
    };

    fn rule(request: PutAutoTopup, limits: AutoTopupLimits) -> String {
        checked(&request, limits)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn settings_have_both_amounts_and_consent() {
        let limits = AutoTopupLimits::default();
        assert_eq!(rule(REQUEST, limits), "");
        for threshold_cents in [None, Some(499), Some(1_000_001)] {
            let request = PutAutoTopup {
                threshold_cents,
                ..REQUEST
            };
            assert_eq!(
                rule(request, limits),
                "threshold_cents: must be from 500 to 1000000"
            );
        }
        for amount_cents in [None, Some(499), Some(1_000_001)] {
            let request = PutAutoTopup {
                amount_cents,
                ..REQUEST
            };
            assert_eq!(rule(request, limits), "amount_cents: must be from 500 to 1000000");
        }
        for consent in [None, Some(false)] {
            let request = PutAutoTopup { consent, ..REQUEST };
            assert!(rule(request, limits).starts_with("consent: must be true"));
        }
        let limits = AutoTopupLimits {
            cents_per_day: Some(4_999),
            ..limits
        };
        assert!(rule(REQUEST, limits).starts_with("amount_cents: must be at most 4999"));
    }

    #[test]
    fn the_consent_names_both_amounts_and_the_card() {
        let card = SavedCard {
            payment_method: "pm_1".to_owned(),
            brand: "visa".to_owned(),
            last4: "4242".to_owned(),
            exp_month: 1,
            exp_year: 2030,
            source: "checkout".to_owned(),
        };
        let settings = Checked {
            threshold_cents: 1_005,
            amount_cents: 5_000,
        };
        assert_eq!(
            consent_text(&settings, &card),
            "Charge $50.00 to the saved card of the organization (now visa ending in 4242) whenever less than $10.05 of \
             credits is available, without asking again, until automatic purchases are disabled."
        );
    }
}
