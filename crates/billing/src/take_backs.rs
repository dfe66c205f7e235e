//! Refunds and disputes: what goes back to the cardholder is taken from the credits.

use sortie_api::PaymentId;
use sortie_base::{hex, random};
use sortie_store::{Actor, PaymentNotice, PaymentRow, TakeBack, TakeBackKind, TakeBackState, TookBack};

use crate::{
    Billing, Dispute, Refund, RefundOrder,
    error::{Error, Result},
    purchase::Seen,
    service::Parts,
};

/// Error of a refund that Stripe refuses.
const REFUSED: Error =
    Error::Conflict("Stripe refuses the refund: it was refunded, or is disputed; see the payment at Stripe");

/// Error of a refund that has failed.
const FAILED: Error = Error::Conflict(
    "the refund has failed at Stripe, and the credits are back: see the payment at Stripe, or refund it again",
);

impl Billing {
    /// Operator: refunds a payment, or a part of it, and takes the credits back. Returns the payment. A repetition before the
    /// refund is known is the same refund. `Conflict` for a refund that has failed meanwhile.
    pub async fn refund(
        &self,
        payment: PaymentId,
        amount_cents: Option<i64>,
        actor: &Actor,
    ) -> Result<PaymentRow> {
        let parts = &self.0;
        let before = parts.store.operated_payment(payment).await?;
        let left = before.amount_cents.saturating_sub(before.refunded_cents);
        if left <= 0 {
            return Err(Error::Conflict("the payment was refunded before"));
        }
        if amount_cents.is_some_and(|cents| !(1..=left).contains(&cents)) {
            let rule = format!("amount_cents: must be from 1 to {left}, which is left of the payment");
            return Err(Error::Invalid(rule));
        }
        let cents = amount_cents.unwrap_or(left);
        // A failed refund leaves the amounts as they were. The number of refunds tells the next one from its repetition.
        let name = format!(
            "refund_{payment}-{}-{cents}",
            parts.store.known_refunds(payment).await?
        );
        let order = RefundOrder {
            intent: &before.intent,
            amount_cents: Some(cents),
            name: &name,
        };
        let refund = match parts.make_refund(&before, &order).await {
            Ok(refund) => refund,
            Err(Error::Stripe(error)) if error.is_final() => {
                tracing::warn!(%payment, %error, "a refund was refused");
                return Err(REFUSED);
            }
            Err(error) => return Err(error),
        };
        let recorded = parts.record_refund(&refund, actor).await?;
        if recorded.is_some_and(|took| took.state == TakeBackState::Returned) {
            tracing::warn!(%payment, refund = refund.id, "a refund has failed");
            return Err(FAILED);
        }
        Ok(parts.store.operated_payment(payment).await?)
    }
}

impl Parts {
    /// Reads a refund, and records it.
    pub(crate) async fn look_at_refund(&self, id: &str) -> Result<Seen> {
        let refund = self.ask("read_refund", self.stripe.read_refund(id)).await?;
        self.take_refund(&refund, &Actor::default()).await
    }

    /// Reads the refunds of a charge, and records them.
    pub(crate) async fn look_at_charge(&self, id: &str) -> Result<Seen> {
        let refunds = self.ask("list_refunds", self.stripe.refunds(id)).await?;
        if refunds.has_more {
            tracing::warn!("a charge has more than 100 refunds: only the newest are read");
        }
        let mut seen = Seen::NotOurs;
        for refund in &refunds.data {
            if self.take_refund(refund, &Actor::default()).await? == Seen::Recorded {
                seen = Seen::Recorded;
            }
        }
        Ok(seen)
    }

    /// Reads a dispute, and records it.
    pub(crate) async fn look_at_dispute(&self, id: &str) -> Result<Seen> {
        let dispute = self.ask("read_dispute", self.stripe.dispute(id)).await?;
        self.take_dispute(&dispute).await
    }

    /// Makes a refund, or gets the one that was made before. A refusal and an answer of 500 are repeated by Stripe for a day,
    /// also where the dispute that was the reason is won meanwhile. So what has become of the request is looked up, and where
    /// nothing has, it is sent once more under another key.
    async fn make_refund(&self, payment: &PaymentRow, order: &RefundOrder<'_>) -> Result<Refund> {
        let made = async |key: &str| self.ask("create_refund", self.stripe.refund(key, order)).await;
        match made(order.name).await {
            Err(Error::Stripe(error))
                if error.is_indefinite() || matches!(error, crate::StripeError::Refused(_)) => {}
            answered => return answered,
        }
        if let Some(refund) = self.find_refund(payment, order.name).await? {
            return Ok(refund);
        }
        made(&format!("{}-{}", order.name, hex(&random::<16>()?))).await
    }

    async fn find_refund(&self, payment: &PaymentRow, name: &str) -> Result<Option<Refund>> {
        let Some(charge) = self.charge_of(payment).await? else {
            return Ok(None);
        };
        let refunds = self.ask("list_refunds", self.stripe.refunds(&charge)).await?;
        let is_named = |refund: &Refund| {
            let metadata = refund.metadata.as_ref();
            metadata.is_some_and(|metadata| metadata.get("refund").is_some_and(|found| found == name))
        };
        Ok(refunds.data.into_iter().find(is_named))
    }

    /// Returns the charge of a payment, which is read where it is not known.
    pub(crate) async fn charge_of(&self, payment: &PaymentRow) -> Result<Option<String>> {
        if let Some(charge) = &payment.charge {
            return Ok(Some(charge.clone()));
        }
        let intent = self.ask("read_intent", self.stripe.intent(&payment.intent));
        Ok(intent.await?.latest_charge)
    }

    async fn take_refund(&self, refund: &Refund, actor: &Actor) -> Result<Seen> {
        let recorded = self.record_refund(refund, actor).await?;
        Ok(recorded.map_or(Seen::NotOurs, |_| Seen::Recorded))
    }

    /// Records a refund. None where it is of no payment of this deployment.
    async fn record_refund(&self, refund: &Refund, actor: &Actor) -> Result<Option<TookBack>> {
        let state = match refund.status.as_deref() {
            Some("failed" | "canceled") => TakeBackState::Returned,
            Some(_) | None => TakeBackState::Taken,
        };
        let found = self.payment_of(refund.payment_intent.as_deref(), refund.charge.as_deref());
        let Some(payment) = found.await? else {
            return Ok(None);
        };
        let id = (TakeBackKind::Refund, refund.id.as_str());
        let took = self.take_back(&payment, id, (refund.amount, state), actor);
        took.await.map(Some)
    }

    /// Records a dispute. The question of a bank takes no money.
    pub(crate) async fn take_dispute(&self, dispute: &Dispute) -> Result<Seen> {
        let state = if dispute.is_withdrawn() {
            TakeBackState::Taken
        } else {
            TakeBackState::Returned
        };
        let found = self.payment_of(dispute.payment_intent.as_deref(), Some(&dispute.charge));
        let Some(payment) = found.await? else {
            return Ok(Seen::NotOurs);
        };
        if dispute.balance_transactions.is_empty() {
            return Ok(Seen::Recorded);
        }
        let id = (TakeBackKind::Dispute, dispute.id.as_str());
        self.take_back(&payment, id, (dispute.amount, state), &Actor::default())
            .await?;
        Ok(Seen::Recorded)
    }

    async fn take_back(
        &self,
        payment: &PaymentRow,
        (kind, id): (TakeBackKind, &str),
        (amount_cents, state): (i64, TakeBackState),
        actor: &Actor,
    ) -> Result<TookBack> {
        let action = match kind {
            TakeBackKind::Refund => "billing.refund",
            TakeBackKind::Dispute => "billing.dispute",
        };
        let mail = match (kind, state) {
            (TakeBackKind::Dispute, TakeBackState::Taken) => {
                let notice = PaymentNotice::PaymentDisputed { amount_cents };
                self.notice(payment.org, &notice).await?
            }
            (TakeBackKind::Refund, _) | (TakeBackKind::Dispute, TakeBackState::Returned) => None,
        };
        let has_mail = mail.is_some();
        let report = TakeBack {
            kind,
            id: id.to_owned(),
            payment: payment.id,
            amount_cents,
            state,
            mail,
            audit: self.audit(payment.org, actor, action, payment.id.to_string())?,
        };
        let took = self.store.take_back(report).await?;
        if took.is_new {
            tracing::info!(payment = %payment.id, organization = %payment.org, action, %state, cents = amount_cents,
                moved_micros = took.moved_micros, "recorded what Stripe takes back");
            if let Some(notices) = self.options.notices.as_ref().filter(|_| has_mail) {
                notices.queued();
            }
        }
        Ok(took)
    }

    /// Finds the payment of an intent or a charge. A refund may be told before the payment: it is credited first then.
    async fn payment_of(&self, intent: Option<&str>, charge: Option<&str>) -> Result<Option<PaymentRow>> {
        if let Some(payment) = self.store.payment_of(intent, charge).await? {
            return Ok(Some(payment));
        }
        let read = match (intent, charge) {
            (Some(intent), _) => Some(intent.to_owned()),
            (None, Some(charge)) => {
                let charge = self.ask("read_charge", self.stripe.charge(charge)).await?;
                charge.payment_intent
            }
            (None, None) => None,
        };
        let Some(intent) = read else { return Ok(None) };
        if self.look_at_intent(&intent).await? == Seen::NotOurs {
            return Ok(None);
        }
        Ok(self.store.payment_of(Some(&intent), None).await?)
    }

    /// Compares a payment with Stripe, and records what no event has told.
    pub(crate) async fn compare(&self, payment: &PaymentRow) -> Result<()> {
        let Some(charge) = self.charge_of(payment).await? else {
            return Ok(());
        };
        let found = self.ask("read_charge", self.stripe.charge(&charge)).await?;
        if found.amount_refunded != payment.refunded_cents {
            self.look_at_charge(&charge).await?;
        }
        let mut disputed_cents = 0_i64;
        if found.disputed {
            let disputes = self.ask("list_disputes", self.stripe.disputes(&charge)).await?;
            for dispute in &disputes.data {
                if dispute.is_withdrawn() {
                    disputed_cents = disputed_cents.saturating_add(dispute.amount);
                }
                self.take_dispute(dispute).await?;
            }
        }
        let after = self.store.operated_payment(payment.id).await?;
        let ours = (after.amount_cents, after.refunded_cents, after.disputed_cents);
        if ours != (found.amount, found.amount_refunded, disputed_cents) {
            tracing::error!(payment = %payment.id, charge, refunded_cents = after.refunded_cents,
                refunded_at_stripe = found.amount_refunded, disputed_cents = after.disputed_cents,
                disputed_at_stripe = disputed_cents, "the figures of a payment are not those of Stripe");
            self.metrics.differs();
        }
        Ok(())
    }
}
