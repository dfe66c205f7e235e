//! Stripe: requests to its API, and the signature of its webhooks.

mod client;
mod error;
mod form;
mod objects;
mod orders;
mod signature;
#[cfg(test)]
mod tests;

pub use client::{Stripe, StripeSettings};
pub use error::{StripeError, StripeRefusal};
pub use objects::{
    Account, Card, Charge, Checkout, Customer, Dispute, Event, FundsMovement, Page, PaymentFailure,
    PaymentIntent, PaymentMethod, PortalSession, Refund, Subscription, SubscriptionItem,
};
pub use orders::{CheckoutOrder, EventFilter, Part, RefundOrder, SavedCardPayment, SubscriptionOrder};
pub use signature::{InvalidSignature, verify_signature};
