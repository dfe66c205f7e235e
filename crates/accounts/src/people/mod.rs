//! People: their accounts, sessions, passwords, pictures and second factors.

mod avatar;
pub(crate) mod hashing;
pub(crate) mod metrics;
pub(crate) mod picture;
pub(crate) mod sessions;
