//! Payments of a hosted deployment, through Stripe. No SQL, no HTTP server.
//!
//! Nothing that a webhook says is believed: a webhook is a hint to read an object at Stripe. Secrets are in types whose
//! `Debug` hides them, and no error repeats what Stripe wrote, except for codes.

mod stripe;

pub use stripe::{
    Account, Card, Charge, Checkout, CheckoutOrder, Customer, Dispute, Event, EventFilter, FundsMovement,
    InvalidSignature, Page, PaymentIntent, PaymentMethod, PortalSession, Refund, RefundOrder, Refusal,
    SavedCardPayment, Stripe, StripeError, StripeSettings, Subscription, SubscriptionItem, verify_signature,
};
