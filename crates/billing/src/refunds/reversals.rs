//! Refunds and disputes: amounts that return to the cardholder are deducted from the credits.

use sortie_api::RefundOrderId;
use sortie_store::{
    access::Actor,
    money::{PaymentRow, TakeBack, TakeBackKind, TakeBackState, TookBack},
    outbox::PaymentNotice,
};

use crate::{
    Dispute, Refund, checkout::purchase::SyncOutcome, error::Result, refunds::order_of, service::Parts,
};

/// Refund or dispute from an answer of Stripe.
struct Report<'a> {
    kind: TakeBackKind,
    id: &'a str,
    amount_cents: i64,
    state: TakeBackState,
    order: Option<RefundOrderId>,
}

impl Parts {
    /// Reads a refund, and records it.
    pub(crate) async fn sync_refund(&self, id: &str) -> Result<SyncOutcome> {
        let refund = self.ask("read_refund", self.stripe.read_refund(id)).await?;
        self.apply_refund(&refund, &Actor::default()).await
    }

    /// Reads the refunds of a charge, and records them.
    pub(crate) async fn sync_charge(&self, id: &str) -> Result<SyncOutcome> {
        let refunds = self.refunds_of(id).await?;
        let mut seen = SyncOutcome::NotOurs;
        for refund in &refunds {
            if self.apply_refund(refund, &Actor::default()).await? == SyncOutcome::Recorded {
                seen = SyncOutcome::Recorded;
            }
        }
        Ok(seen)
    }

    /// Reads a dispute, and records it.
    pub(crate) async fn sync_dispute(&self, id: &str) -> Result<SyncOutcome> {
        let dispute = self.ask("read_dispute", self.stripe.dispute(id)).await?;
        self.apply_dispute(&dispute).await
    }

    /// Reads all refunds of a charge, the newest first.
    pub(crate) async fn refunds_of(&self, charge: &str) -> Result<Vec<Refund>> {
        let page = |after: Option<String>| async move { self.stripe.refunds(charge, after.as_deref()).await };
        self.read_all("list_refunds", page, |refund| &refund.id).await
    }

    /// Returns the charge of a payment, and reads it at Stripe if it is unknown.
    pub(crate) async fn charge_of(&self, payment: &PaymentRow) -> Result<Option<String>> {
        if let Some(charge) = &payment.charge {
            return Ok(Some(charge.clone()));
        }
        let intent = self.ask("read_intent", self.stripe.intent(&payment.intent));
        Ok(intent.await?.latest_charge)
    }

    async fn apply_refund(&self, refund: &Refund, actor: &Actor) -> Result<SyncOutcome> {
        let recorded = self.record_refund(refund, actor).await?;
        Ok(recorded.map_or(SyncOutcome::NotOurs, |_| SyncOutcome::Recorded))
    }

    /// Records a refund. Returns `None` if its payment is not from this deployment.
    pub(crate) async fn record_refund(&self, refund: &Refund, actor: &Actor) -> Result<Option<TookBack>> {
        let state = match refund.status.as_deref() {
            Some("failed" | "canceled") => TakeBackState::Returned,
            Some(_) | None => TakeBackState::Taken,
        };
        let found = self.payment_of(refund.payment_intent.as_deref(), refund.charge.as_deref());
        let Some(payment) = found.await? else {
            return Ok(None);
        };
        let report = Report {
            kind: TakeBackKind::Refund,
            id: &refund.id,
            amount_cents: refund.amount,
            state,
            order: order_of(refund),
        };
        self.record_reversal(&payment, report, actor).await.map(Some)
    }

    /// Records a dispute. An inquiry of a bank moves no money.
    pub(crate) async fn apply_dispute(&self, dispute: &Dispute) -> Result<SyncOutcome> {
        let state = if dispute.is_withdrawn() {
            TakeBackState::Taken
        } else {
            TakeBackState::Returned
        };
        let found = self.payment_of(dispute.payment_intent.as_deref(), Some(&dispute.charge));
        let Some(payment) = found.await? else {
            return Ok(SyncOutcome::NotOurs);
        };
        if dispute.balance_transactions.is_empty() {
            return Ok(SyncOutcome::Recorded);
        }
        let report = Report {
            kind: TakeBackKind::Dispute,
            id: &dispute.id,
            amount_cents: dispute.amount,
            state,
            order: None,
        };
        self.record_reversal(&payment, report, &Actor::default()).await?;
        Ok(SyncOutcome::Recorded)
    }

    async fn record_reversal(
        &self,
        payment: &PaymentRow,
        report: Report<'_>,
        actor: &Actor,
    ) -> Result<TookBack> {
        let Report {
            kind,
            id,
            amount_cents,
            state,
            order,
        } = report;
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
            order,
            mail,
            audit: self.audit(payment.org, actor, action, payment.id.to_string())?,
        };
        let took = self.store.take_back(report).await?;
        if took.is_new {
            tracing::info!(payment = %payment.id, organization = %payment.org, action, %state, cents = amount_cents,
                moved_micros = took.moved_micros, "recorded a refund or dispute of Stripe");
            if let Some(notices) = self.options.notices.as_ref().filter(|_| has_mail) {
                notices.queued();
            }
        }
        Ok(took)
    }

    /// Finds the payment of an intent or a charge. The refund event may arrive before the payment event: the payment is credited
    /// first then.
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
        if self.sync_intent(&intent).await? == SyncOutcome::NotOurs {
            return Ok(None);
        }
        Ok(self.store.payment_of(Some(&intent), None).await?)
    }

    /// Compares a payment with Stripe, and records changes without an event.
    pub(crate) async fn compare(&self, payment: &PaymentRow) -> Result<()> {
        let Some(charge) = self.charge_of(payment).await? else {
            return Ok(());
        };
        let found = self.ask("read_charge", self.stripe.charge(&charge)).await?;
        if found.amount_refunded != payment.refunded_cents {
            self.sync_charge(&charge).await?;
        }
        let mut disputed_cents = 0_i64;
        if found.disputed {
            let charge = charge.as_str();
            let page =
                |after: Option<String>| async move { self.stripe.disputes(charge, after.as_deref()).await };
            let disputes = self.read_all("list_disputes", page, |dispute| &dispute.id);
            for dispute in &disputes.await? {
                if dispute.is_withdrawn() {
                    disputed_cents = disputed_cents.saturating_add(dispute.amount);
                }
                self.apply_dispute(dispute).await?;
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
