//! Refunds ordered by the operator, and by the engine for the payments of a deleted organization.
//!
//! An order is recorded before the first request to Stripe, and its ID is the idempotency key. A repetition first searches for
//! the refund at Stripe, and repeats the request only if there is none. As with charges, no second key is used after an
//! inconclusive answer: Stripe may still finish the first request.

mod reversals;

use std::time::Duration;

use futures_util::future::join_all;
use sortie_api::{ErrorCode, PaymentId, RefundOrderId, billing::RefundPayment, limits};
use sortie_base::random;
use sortie_store::{
    access::Actor,
    money::{NewRefundOrder, OrderedRefund, PaymentRow, RefundOrderRow, RefundOrderState, TakeBackState},
};

use crate::{
    Billing, Refund, RefundOrder, StripeError,
    auto::off_session::{KEY_LIFETIME, NO_ANSWER_TIMEOUT},
    error::{Error, Result, conflict},
    service::{LEASE, Parts},
};

/// Error of a refund that Stripe refuses.
const REFUSED: &str = "Stripe refuses the refund: it was refunded, or is disputed; see the payment at Stripe";

/// Error of a refund that has failed.
const FAILED: &str = "the refund has failed at Stripe, and the credits are back: see the payment at Stripe, or refund it again \
     under another reference";

/// Error of a refund that was abandoned because Stripe never made it.
const ABANDONED: &str = "Stripe has failed on the refund and has made none: see the payment at Stripe, and refund it under another \
     reference if nothing went back";

/// Error of a refund that another command has ended.
const CHANGED: &str = "the refund was changed at the same time: repeat the command";

/// Number of orders that a node carries out concurrently.
const SLOTS: u32 = 8;

/// Pause after the first failed attempt of the engine. It doubles with each attempt, up to an hour.
const FIRST_PAUSE: Duration = Duration::from_secs(30);

const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// Returns the trimmed reference of a request.
fn reference_of(request: &RefundPayment) -> Result<Option<String>> {
    let most = limits::MOVEMENT_REFERENCE_CHARS;
    let Some(reference) = request.reference.as_deref().map(str::trim) else {
        if request.amount_cents.is_some() {
            let rule = "reference: must be set together with amount_cents: it names the refund, so that a repetition is \
                        the same one";
            return Err(ErrorCode::InvalidRequest.because(rule).into());
        }
        return Ok(None);
    };
    if reference.is_empty() || reference.chars().count() > most || reference.chars().any(char::is_control) {
        return Err(ErrorCode::InvalidRequest
            .because(format!(
                "reference: must be 1 to {most} characters, without control characters"
            ))
            .into());
    }
    Ok(Some(reference.to_owned()))
}

fn pause_after(tries: i64) -> Duration {
    let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(0).min(16);
    FIRST_PAUSE
        .saturating_mul(2_u32.saturating_pow(doublings))
        .min(LONGEST_PAUSE)
}

impl Billing {
    /// Operator: refunds a payment or a part of it, and deducts the credits. Returns the payment. Commands with the same
    /// reference make one refund. Returns `Conflict` for a refund that Stripe refuses, or that has failed.
    pub async fn refund(
        &self,
        payment: PaymentId,
        request: &RefundPayment,
        actor: &Actor,
    ) -> Result<PaymentRow> {
        let parts = &self.0;
        let at = parts.now();
        let new = NewRefundOrder {
            id: RefundOrderId::new(at, random()?),
            payment,
            reference: reference_of(request)?,
            amount_cents: request.amount_cents,
            at,
        };
        match parts.store.order_refund(new).await? {
            OrderedRefund::Beyond(left) if left <= 0 => {
                return Err(conflict("the payment was refunded before"));
            }
            OrderedRefund::Beyond(left) => {
                let rule = format!("amount_cents: must be from 1 to {left}, which is left of the payment");
                return Err(ErrorCode::InvalidRequest.because(rule).into());
            }
            OrderedRefund::New(order) => parts.send_refund(&order, actor).await?,
            OrderedRefund::Before(order) => parts.repeat_refund(&order, actor).await?,
        }
        Ok(parts.store.operated_payment(payment).await?)
    }
}

impl Parts {
    /// Carries out due refunds for deleted organizations. Returns their number.
    pub(crate) async fn carry_out_refunds(&self) -> Result<usize> {
        let orders = self.store.claim_refunds(self.now(), LEASE, SLOTS).await?;
        join_all(orders.iter().map(|order| self.carry_out(order))).await;
        Ok(orders.len())
    }

    /// Refunds a payment of a deleted organization, and reports it until it is refunded.
    async fn carry_out(&self, order: &RefundOrderRow) {
        let next = match self.refund_deleted(order).await {
            Ok(()) => {
                tracing::info!(payment = %order.payment, "refunded what a deleted organization has paid");
                None
            }
            Err(error) => {
                tracing::error!(payment = %order.payment, cents = order.amount_cents, %error,
                    "a deleted organization has paid, and the refund failed; it is tried again");
                self.metrics.differs();
                Some(self.now() + pause_after(order.tries))
            }
        };
        if let Err(error) = self.store.refund_due_at(order.id, order.tries, next).await {
            tracing::warn!(payment = %order.payment, %error, "recording a refund failed; it is retried");
        }
    }

    async fn refund_deleted(&self, order: &RefundOrderRow) -> Result<()> {
        let payment = self.store.operated_payment(order.payment).await?;
        if payment.refunded_cents.saturating_add(payment.disputed_cents) >= payment.amount_cents {
            return Ok(());
        }
        if order.tries == 1 {
            tracing::error!(payment = %payment.id, organization = %payment.org, cents = payment.amount_cents,
                "a deleted organization has paid; the payment is refunded");
            self.metrics.differs();
        }
        self.repeat_refund(order, &Self::system_actor()).await
    }

    /// Continues an existing refund order: its request may have been sent, and may have been answered.
    async fn repeat_refund(&self, order: &RefundOrderRow, actor: &Actor) -> Result<()> {
        match order.refund {
            Some(TakeBackState::Taken) => return Ok(()),
            Some(TakeBackState::Returned) => return Err(conflict(FAILED)),
            None => {}
        }
        if order.state != RefundOrderState::Created
            && let Some(refund) = self.find_refund(order).await?
        {
            return self.apply_made_refund(order, &refund, actor).await;
        }
        if order.state == RefundOrderState::Abandoned {
            return Err(conflict(ABANDONED));
        }
        self.send_refund(order, actor).await
    }

    /// Sends the request of an order, with the key of the order.
    async fn send_refund(&self, order: &RefundOrderRow, actor: &Actor) -> Result<()> {
        if order.state != RefundOrderState::Created && self.now() >= order.created_at + KEY_LIFETIME {
            // Stripe may have forgotten the key: the same request would be another refund.
            return self.abandon(order).await;
        }
        let payment = self.store.operated_payment(order.payment).await?;
        let is_first = match self.store.send_refund(order.id).await? {
            Some(requests) => requests == 1,
            None => return Err(conflict(CHANGED)),
        };
        let name = order.id.to_string();
        let request = RefundOrder {
            intent: &payment.intent,
            amount_cents: Some(order.amount_cents),
            name: &name,
        };
        let error = match self
            .ask("create_refund", self.stripe.refund(&name, &request))
            .await
        {
            Ok(refund) => return self.apply_made_refund(order, &refund, actor).await,
            Err(Error::Stripe(error)) => error,
            Err(error) => return Err(error),
        };
        if is_first && !order.is_due && error.is_undone() {
            self.store.withdraw_refund(order.id).await?;
        }
        if !error.is_final() && !error.is_indefinite() {
            return Err(Error::Stripe(error));
        }
        // Stripe may have made the refund despite the error, or may have finished an earlier request.
        if !(is_first && error.is_final())
            && let Some(refund) = self.find_refund(order).await?
        {
            return self.apply_made_refund(order, &refund, actor).await;
        }
        if error.is_final() {
            tracing::warn!(payment = %order.payment, %error, "a refund was refused");
            return Err(conflict(REFUSED));
        }
        let repeats = matches!(error, StripeError::FailedBefore(_));
        if repeats && self.now() >= order.created_at + NO_ANSWER_TIMEOUT {
            return self.abandon(order).await;
        }
        Err(Error::Stripe(error))
    }

    async fn abandon(&self, order: &RefundOrderRow) -> Result<()> {
        self.store.abandon_refund(order.id).await?;
        Err(conflict(ABANDONED))
    }

    /// Records the refund that Stripe has made for an order.
    async fn apply_made_refund(&self, order: &RefundOrderRow, refund: &Refund, actor: &Actor) -> Result<()> {
        let recorded = self.record_refund(refund, actor).await?;
        if recorded.is_some_and(|took| took.state == TakeBackState::Returned) {
            tracing::warn!(payment = %order.payment, refund = refund.id, "a refund has failed");
            return Err(conflict(FAILED));
        }
        Ok(())
    }

    /// Searches the refunds of a payment at Stripe for the one of an order.
    async fn find_refund(&self, order: &RefundOrderRow) -> Result<Option<Refund>> {
        let payment = self.store.operated_payment(order.payment).await?;
        let Some(charge) = self.charge_of(&payment).await? else {
            return Ok(None);
        };
        let refunds = self.refunds_of(&charge).await?;
        Ok(refunds
            .into_iter()
            .find(|refund| order_of(refund) == Some(order.id)))
    }
}

/// Returns the order of a refund, or `None` for a refund from the dashboard.
pub(crate) fn order_of(refund: &Refund) -> Option<RefundOrderId> {
    refund.metadata.as_ref()?.get("refund")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_payment_is_refunded_under_a_reference() {
        let of = |amount_cents, reference: Option<&str>| {
            let reference = reference.map(str::to_owned);
            reference_of(&RefundPayment {
                amount_cents,
                reference,
            })
        };
        assert!(matches!(of(None, None), Ok(None)));
        assert!(
            matches!(of(Some(5), None), Err(Error::Refused(refused)) if refused.code == ErrorCode::InvalidRequest && refused.text.starts_with("reference: must be set"))
        );
        for wrong in ["", " ", "a\nb", &"x".repeat(201)] {
            assert!(
                matches!(of(None, Some(wrong)), Err(Error::Refused(refused)) if refused.code == ErrorCode::InvalidRequest),
                "{wrong:?}"
            );
        }
        assert_eq!(
            of(Some(5), Some(" ticket-1 ")).unwrap().as_deref(),
            Some("ticket-1")
        );
    }
}
