//! People: their accounts, sessions, passwords, pictures and second factors.

pub(crate) mod hashing;
pub(crate) mod metrics;
pub(crate) mod sessions;
