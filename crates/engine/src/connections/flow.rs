//! Rows of a pending authorization.

use sha2::{Digest as _, Sha256};
use sortie_api::{ErrorCode, OrgId, Refusal};

use sortie_base::SealContext;

/// Returns the hash that finds the flow which waits for the browser with this state.
pub(super) fn state_hash(state: &str) -> [u8; 32] {
    Sha256::digest(state).into()
}

/// Returns the hash under which the tokens of a flow wait for their confirmation. A browser that presents the state again must
/// not find them.
pub(super) fn confirmation_hash(state: &str) -> [u8; 32] {
    Sha256::new()
        .chain_update(b"sortie oauth confirmation\0")
        .chain_update(state)
        .finalize()
        .into()
}

pub(super) fn changed() -> Refusal {
    ErrorCode::Conflict.because("the connection was changed during the authorization: start it again")
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
