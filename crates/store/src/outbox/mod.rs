//! Callbacks and mails that wait for their delivery.

pub(crate) mod deliveries;
pub(crate) mod mail;
mod notices;

pub use deliveries::{
    AfterAttempt, ClaimedDeliveries, ClaimedDelivery, DueHost, MadeAttempt, Order, SCANNED,
};
pub use mail::{AfterSending, ClaimedMail, NewMail, OwnerRow};
pub use notices::{NoticeWriter, PaymentNotice};
