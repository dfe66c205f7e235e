//! Data of the OAuth server: clients, grants, authorization codes and tokens.
//!
//! A grant is the permission of a person for a client in one organization, and the family of its tokens. Codes and tokens
//! are worth nothing without their grant, since every command joins it. So a family is revoked by deleting one row, and a
//! code or token that was issued at that moment is dead as well. Only SHA-256 hashes of secrets are stored.

pub(crate) mod clients;
pub(crate) mod grants;
pub(crate) mod tokens;

pub use clients::{OauthClientKind, OauthClientRow, UnknownOauthClientKind};
pub use grants::{EndedGrant, GRANTS_OF_A_PERSON, GrantAudit, GrantRow, NewGrant};
pub use tokens::{CodeRedemption, Exchange, IssuedTokens, NewTokens, TokenRefresh};

use sortie_api::Timestamp;

use crate::{
    Result, Store,
    db::{Answer, Stmt, vals},
};

/// Time for which a used authorization code is kept, to detect a second use, in microseconds.
const CODE_KEPT: i64 = 3_600_000_000;

impl Store {
    /// System: deletes what ended before `at`, the earliest first: up to `limit` clients, grants, codes and tokens each.
    /// Returns the largest of the four numbers.
    pub async fn delete_ended_oauth(&self, at: Timestamp, limit: u32) -> Result<u64> {
        let codes = Timestamp::from_micros(at.as_micros().saturating_sub(CODE_KEPT));
        self.db
            .write(move |tx| {
                // The condition appears a second time because another transaction may have postponed the expiry in
                // between.
                let answers = tx.batch(&[
                    Stmt::new(
                        "DELETE FROM oauth_grant WHERE id {IN}SELECT g.id FROM oauth_grant g WHERE g.expires_at < $1 \
                         ORDER BY g.expires_at LIMIT $2{END} AND expires_at < $1",
                        vals![at, limit],
                    ),
                    Stmt::new(
                        "DELETE FROM oauth_token WHERE hash {IN}SELECT t.hash FROM oauth_token t WHERE t.expires_at < $1 \
                         ORDER BY t.expires_at LIMIT $2{END} AND expires_at < $1",
                        vals![at, limit],
                    ),
                    Stmt::new(
                        "DELETE FROM oauth_code WHERE hash {IN}SELECT c.hash FROM oauth_code c WHERE c.expires_at < $1 \
                         ORDER BY c.expires_at LIMIT $2{END} AND expires_at < $1",
                        vals![codes, limit],
                    ),
                    Stmt::new(
                        "DELETE FROM oauth_client WHERE id {IN}SELECT c.id FROM oauth_client c WHERE c.expires_at < $1 \
                         ORDER BY c.expires_at LIMIT $2{END} AND expires_at < $1",
                        vals![at, limit],
                    ),
                ])?;
                Ok(answers.iter().map(deleted).max().unwrap_or_default())
            })
            .await
    }
}

const fn deleted(answer: &Answer) -> u64 {
    answer.affected
}
