//! Disputes, which the test makes and decides as a bank does.

use serde_json::{Value, json};

use super::{
    failure::Failure,
    form::Parameters,
    records::{Dispute, Movement, Record, with_nulls},
    state::{PageRequest, State, new_id},
};

/// Beginning of a dispute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisputeStage {
    /// An inquiry: the bank takes no money yet.
    Inquiry,
    /// The bank takes the money back at once.
    Chargeback,
}

/// Decision of a dispute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The money comes back.
    Won,
    /// The money is gone.
    Lost,
}

impl State {
    /// Disputes a part of a payment. Returns the dispute.
    pub(super) fn dispute(
        &mut self,
        intent: &str,
        amount: i64,
        stage: DisputeStage,
    ) -> Result<String, Failure> {
        let charge = self.paid_charge(intent)?;
        let (id, created) = (new_id("du_"), self.now());
        let status = match stage {
            DisputeStage::Inquiry => "warning_needs_response",
            DisputeStage::Chargeback => "needs_response",
        };
        self.disputes.push(Dispute {
            id: id.clone(),
            created,
            amount,
            currency: charge.currency.clone(),
            charge: charge.id.clone(),
            intent: intent.to_owned(),
            status,
            is_withdrawn: false,
            movements: Vec::new(),
        });
        self.charges.change(&charge.id, |charge| charge.disputed = true);
        self.tell_of_dispute("charge.dispute.created", &id);
        if stage == DisputeStage::Chargeback {
            self.move_disputed_money(&id, -amount);
            self.tell_of_dispute("charge.dispute.funds_withdrawn", &id);
        }
        Ok(id)
    }

    pub(super) fn list_disputes(&self, mut parameters: Parameters) -> Result<Value, Failure> {
        let asked = PageRequest::read(&mut parameters)?;
        let (charge, intent) = (parameters.text("charge")?, parameters.text("payment_intent")?);
        parameters.finish()?;
        let of = |dispute: &Dispute| {
            charge.as_ref().is_none_or(|id| *id == dispute.charge)
                && intent.as_ref().is_none_or(|id| *id == dispute.intent)
        };
        self.disputes.page("/v1/disputes", &asked, of)
    }

    /// Decides a dispute.
    pub(super) fn decide(&mut self, id: &str, verdict: Verdict) -> Result<(), Failure> {
        let dispute = self.disputes.named(id, "dispute")?.clone();
        let status = match (verdict, dispute.is_withdrawn) {
            (_, false) => "warning_closed",
            (Verdict::Won, true) => "won",
            (Verdict::Lost, true) => "lost",
        };
        self.disputes.change(id, |dispute| dispute.status = status);
        self.tell_of_dispute("charge.dispute.closed", id);
        if status == "won" {
            self.move_disputed_money(id, dispute.amount);
            self.tell_of_dispute("charge.dispute.funds_reinstated", id);
        }
        Ok(())
    }

    fn move_disputed_money(&mut self, id: &str, amount: i64) {
        let movement = Movement {
            id: new_id("txn_"),
            created: self.now(),
            amount,
        };
        self.disputes.change(id, |dispute| {
            dispute.is_withdrawn = amount < 0;
            dispute.movements.push(movement);
        });
    }

    fn tell_of_dispute(&mut self, kind: &'static str, id: &str) {
        if let Some(object) = self.disputes.get(id).map(Record::render) {
            self.tell(kind, object);
        }
    }
}

impl Movement {
    fn render(&self, source: &str, currency: &str) -> Value {
        let (category, description) = if self.amount < 0 {
            ("dispute", "Chargeback withdrawal")
        } else {
            ("dispute_reversal", "Chargeback reversal")
        };
        json!({
            "id": self.id,
            "object": "balance_transaction",
            "amount": self.amount,
            "available_on": self.created,
            "balance_type": "payments",
            "created": self.created,
            "currency": currency,
            "description": description,
            "exchange_rate": null,
            "fee": 0,
            "fee_details": [],
            "net": self.amount,
            "reporting_category": category,
            "source": source,
            "status": "available",
            "type": "adjustment",
        })
    }
}

impl Record for Dispute {
    const KIND: &'static str = "dispute";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let evidence = "access_activity_log billing_address cancellation_policy cancellation_policy_disclosure \
            cancellation_rebuttal customer_communication customer_email_address customer_name customer_purchase_ip \
            customer_signature duplicate_charge_documentation duplicate_charge_explanation duplicate_charge_id \
            product_description receipt refund_policy refund_policy_disclosure refund_refusal_explanation service_date \
            service_documentation shipping_address shipping_carrier shipping_date shipping_documentation \
            shipping_tracking_number uncategorized_file uncategorized_text";
        let details = json!({
            "due_by": self.created + 7 * 86_400, "enhanced_eligibility": {}, "has_evidence": false, "past_due": false,
            "submission_count": 0, "submission_method": "not_submitted",
        });
        let movements: Vec<_> = self
            .movements
            .iter()
            .map(|movement| movement.render(&self.id, &self.currency))
            .collect();
        json!({
            "id": self.id,
            "object": "dispute",
            "amount": self.amount,
            "balance_transactions": movements,
            "charge": self.charge,
            "created": self.created,
            "currency": self.currency,
            "enhanced_eligibility_types": [],
            "evidence": with_nulls(evidence, json!({"enhanced_evidence": {}})),
            "evidence_details": details,
            "intended_submission_method": null,
            "is_charge_refundable": self.status.starts_with("warning_"),
            "livemode": false,
            "metadata": {},
            "payment_intent": self.intent,
            "reason": "fraudulent",
            "status": self.status,
        })
    }
}
