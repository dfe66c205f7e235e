//! Automatic purchases of credits: the settings, the purchases, and the charges of the saved card.

pub(crate) mod off_session;
#[cfg(test)]
mod tests;
mod topup;

pub use topup::{AutoTopupLimits, shown_auto_topup};
