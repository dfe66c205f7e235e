//! People: their accounts, sessions, passwords, pictures and second factors.

pub(crate) mod account;
pub(crate) mod applicant;
mod avatar;
mod cleanup;
mod hashing;
pub(crate) mod jobs;
pub(crate) mod login;
mod metrics;
pub(crate) mod passwords;
pub(crate) mod picture;
pub(crate) mod rules;
pub(crate) mod second_factor;
pub(crate) mod sessions;
pub(crate) mod sign_up;
#[cfg(test)]
mod tests;

pub(crate) use hashing::Slots;
pub(crate) use metrics::{Method, Metrics, SignInOutcome};
