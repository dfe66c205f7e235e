//! Payments of a hosted deployment, through Stripe. No SQL, no HTTP server.
//!
//! [`Billing`] is the handle that the server and the node hold. Requests to Stripe are made outside of transactions, each with
//! the key of a row as its idempotency key, so every node can repeat them.
//!
//! The content of a webhook is not trusted: a webhook is a hint to read an object at Stripe. Secrets have types that hide them in
//! `Debug`, and errors contain no text from Stripe except codes.

mod auto;
mod checkout;
mod error;
mod metrics;
mod refunds;
mod service;
mod stripe;
mod webhooks;
mod worker;

pub use auto::{AutoTopupLimits, shown_auto_topup};
pub use checkout::{PAID_PAGE, Plan, SUBSCRIBED_PAGE, UNPAID_PAGE};
pub use error::Error;
pub use service::{Billing, Options};
pub use stripe::{
    Account, Card, Charge, Checkout, CheckoutOrder, Customer, Dispute, Event, EventFilter, FundsMovement,
    InvalidSignature, Page, Part, PaymentFailure, PaymentIntent, PaymentMethod, PortalSession, Refund,
    RefundOrder, SavedCardPayment, Stripe, StripeError, StripeRefusal, StripeSettings, Subscription,
    SubscriptionItem, SubscriptionOrder, verify_signature,
};
