//! Rows of a pending authorization.

use sha2::{Digest as _, Sha256};
use sortie_api::OrgId;

use crate::error::Error;
use sortie_base::SealContext;

/// Hash that finds a row of a flow; `prefix` says which of its two rows.
pub(super) fn hash_of(prefix: &[u8], state: &str) -> [u8; 32] {
    Sha256::new()
        .chain_update(prefix)
        .chain_update(state)
        .finalize()
        .into()
}

pub(super) fn changed() -> Error {
    Error::Conflict("the connection was changed meanwhile: start the authorization again".to_owned())
}

pub(super) fn issuer_at(row: &str, org: OrgId) -> SealContext<'_> {
    SealContext {
        table: "connection",
        column: "issuer",
        row,
        org: Some(org),
    }
}

pub(super) fn challenge_at(row: &str, org: OrgId) -> SealContext<'_> {
    SealContext {
        table: "connection",
        column: "challenge",
        row,
        org: Some(org),
    }
}

pub(super) fn pending_at(row: &str, org: OrgId) -> SealContext<'_> {
    SealContext {
        table: "oauth_flow",
        column: "pending",
        row,
        org: Some(org),
    }
}
