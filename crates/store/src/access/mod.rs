//! Credentials, those who ask with them, and the audit log of what they change.

pub(crate) mod audit;
mod caller;
mod keys;
pub(crate) mod lookups;
pub(crate) mod principal;

pub use audit::{Audit, AuditFilter};
pub use caller::{Actor, Caller};
pub use keys::{NewKey, Rotation};
pub use lookups::Lookup;
pub use principal::{By, Principal};
