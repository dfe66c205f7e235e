//! Types of Stripe events that are processed.

/// Kind of the object that an event names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Checkout,
    Intent,
    Charge,
    Refund,
    Dispute,
    Subscription,
    Card,
}

/// Types of events that are processed, each with the kind of its object.
const TYPES: [(&str, Subject); 19] = [
    ("checkout.session.completed", Subject::Checkout),
    ("checkout.session.async_payment_succeeded", Subject::Checkout),
    ("checkout.session.async_payment_failed", Subject::Checkout),
    ("checkout.session.expired", Subject::Checkout),
    ("payment_intent.succeeded", Subject::Intent),
    ("payment_intent.payment_failed", Subject::Intent),
    ("payment_intent.canceled", Subject::Intent),
    ("charge.refunded", Subject::Charge),
    ("refund.created", Subject::Refund),
    ("refund.updated", Subject::Refund),
    ("refund.failed", Subject::Refund),
    ("charge.dispute.created", Subject::Dispute),
    ("charge.dispute.funds_withdrawn", Subject::Dispute),
    ("charge.dispute.funds_reinstated", Subject::Dispute),
    ("charge.dispute.closed", Subject::Dispute),
    ("customer.subscription.created", Subject::Subscription),
    ("customer.subscription.updated", Subject::Subscription),
    ("customer.subscription.deleted", Subject::Subscription),
    ("payment_method.detached", Subject::Card),
];

/// Name of every other type in metrics.
pub(crate) const OTHER: &str = "other";

/// Types that are handled.
pub(crate) fn kinds() -> impl Iterator<Item = &'static str> {
    TYPES.iter().map(|(kind, _)| *kind)
}

/// Returns the kind of object of a type, if the type is processed.
pub(crate) fn subject(kind: &str) -> Option<Subject> {
    TYPES
        .iter()
        .find(|(known, _)| *known == kind)
        .map(|(_, subject)| *subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_fit_in_one_search_and_are_listed_once() {
        let mut all: Vec<&str> = kinds().collect();
        assert!(all.len() <= 20, "Stripe takes 20 types in a list");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), TYPES.len());
    }
}
