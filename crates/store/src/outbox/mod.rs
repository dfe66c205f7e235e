//! Callbacks and mails that wait for their delivery.

pub(crate) mod deliveries;
mod delivery_list;
pub(crate) mod mail;
mod notices;

pub use deliveries::{
    AfterAttempt, ClaimedDeliveries, ClaimedDelivery, DueHost, MadeAttempt, Order, SCANNED,
};
pub use delivery_list::DeliveryFilter;
pub use mail::{AfterSending, ClaimedMail, NewMail, OwnerRow};
pub use notices::{NoticeWriter, PaymentNotice};
