//! Credentials, the callers that authenticate with them, and the audit log of the callers' changes.

pub(crate) mod audit;
mod caller;
mod console;
mod keys;
pub(crate) mod lookups;
pub(crate) mod principal;

pub use audit::{Audit, AuditFilter};
pub use caller::{Actor, Caller};
pub use console::{CONSOLE_SESSION, KeySecret, NewConsoleCode, NewConsoleSession};
pub use keys::{NewKey, Rotation};
pub use lookups::Lookup;
pub use principal::{By, Principal};
