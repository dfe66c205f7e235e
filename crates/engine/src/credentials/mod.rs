//! Secrets: API keys, the master keys, and what they seal.

pub(crate) mod keys;
pub(crate) mod master_keys;
pub(crate) mod principals;
