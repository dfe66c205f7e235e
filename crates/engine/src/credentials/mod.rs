//! Secrets: API keys, tokens for runs, sessions of the console, the master keys, and the values that the master keys seal.

pub(crate) mod console;
pub(crate) mod keys;
pub(crate) mod master_keys;
pub(crate) mod principals;
pub(crate) mod run_tokens;
