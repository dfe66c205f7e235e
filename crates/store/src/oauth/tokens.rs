//! Tokens: an authorization code is exchanged for the first pair, and each refresh token for the next pair. Each of them
//! works once. A second use ends the grant with all its tokens, because one of the two users must have stolen it.

use sortie_api::{GrantId, OrgId, Role, Timestamp, UserId};

use super::grants::{EndedGrant, GrantAudit, audit_end};
use crate::{
    Result, Store,
    access::{By, lookups::Ended},
    db::{ReadRow, Stmt, Tx, batch, insert, row, select, vals},
};

/// Pair of tokens to issue.
#[derive(Clone, Debug)]
pub struct NewTokens {
    /// SHA-256 of the access token.
    pub access_hash: [u8; 32],
    /// End of the access token.
    pub access_until: Timestamp,
    /// SHA-256 of the refresh token.
    pub refresh_hash: [u8; 32],
    /// End of the refresh token.
    pub refresh_until: Timestamp,
}

/// Redemption of an authorization code.
#[derive(Clone, Debug)]
pub struct CodeRedemption {
    /// SHA-256 of the code.
    pub code_hash: [u8; 32],
    /// Client that redeems the code.
    pub client_id: String,
    /// PKCE challenge computed from the client's verifier.
    pub challenge: String,
    /// Redirect URI that the client repeats, if it does.
    pub redirect_uri: Option<String>,
    /// Time of the redemption.
    pub at: Timestamp,
    /// End of the grant from now on.
    pub grant_until: Timestamp,
    /// Time until which a registered client is remembered at least.
    pub client_until: Timestamp,
    /// Tokens that the client gets.
    pub tokens: NewTokens,
}

/// Use of a refresh token.
#[derive(Clone, Debug)]
pub struct TokenRefresh {
    /// SHA-256 of the refresh token.
    pub refresh_hash: [u8; 32],
    /// Client that uses the token.
    pub client_id: String,
    /// Scope that the client asks for. `None` for the scope of the grant.
    pub scope: Option<Role>,
    /// Time of the use.
    pub at: Timestamp,
    /// Tokens that the client gets.
    pub tokens: NewTokens,
}

row! {
    /// Grant that the tokens belong to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct IssuedTokens {
        /// ID of the grant.
        pub grant: GrantId = "oauth_grant.id",
        /// Organization of the grant.
        pub org: OrgId = "oauth_grant.org_id",
        /// Person of the grant.
        pub user: UserId = "oauth_grant.user_id",
        /// Scope of the tokens.
        pub scope: Role = "oauth_grant.scope",
    }
}

row! {
    struct RefreshRow {
        tokens: IssuedTokens,
        until: Timestamp = "t.expires_at",
    }
}

/// Result of the use of a code or a refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// The new tokens work.
    Issued(IssuedTokens),
    /// The code or token is unknown, has expired, or belongs to another client. Nothing has changed.
    Refused,
    /// The grant has another scope than the client asks for. Nothing has changed.
    OtherScope,
    /// The code or token was used before. The grant has ended.
    Reused(EndedGrant),
}

impl Exchange {
    /// Access that the exchange has ended.
    fn ended(&self) -> Option<Ended> {
        match self {
            Self::Reused(grant) => Some(Ended::Of(By::Grant(grant.id))),
            Self::Issued(_) | Self::Refused | Self::OtherScope => None,
        }
    }
}

impl Store {
    /// Redeems an authorization code. Nothing changes if the client, the challenge or the redirect URI differs, or if the
    /// code has expired. A second redemption with all of them correct ends the grant.
    pub async fn redeem_code(&self, redemption: CodeRedemption, audit: GrantAudit) -> Result<Exchange> {
        let done = self.db.write(move |tx| redeem(tx, &redemption, &audit)).await;
        self.ended(done, Exchange::ended)
    }

    /// Uses a refresh token. The token ends, and the client gets the next pair with the same scope. A second use of a token
    /// ends the grant.
    pub async fn refresh_tokens(&self, refresh: TokenRefresh, audit: GrantAudit) -> Result<Exchange> {
        let done = self.db.write(move |tx| next_pair(tx, &refresh, &audit)).await;
        self.ended(done, Exchange::ended)
    }

    /// Ends the grant of a token, an access or a refresh token of this client. `None` if the client has no such token.
    pub async fn revoke_token(
        &self,
        hash: [u8; 32],
        client_id: &str,
        audit: GrantAudit,
    ) -> Result<Option<EndedGrant>> {
        let client_id = client_id.to_owned();
        let done = self
            .db
            .write(move |tx| {
                let ended = tx.read_opt(
                    constcat::concat!(
                        "DELETE FROM oauth_grant WHERE client_id = $2 \
                         AND id = (SELECT grant_id FROM oauth_token WHERE hash = $1) RETURNING ",
                        EndedGrant::COLUMNS
                    ),
                    vals![&hash, client_id.as_str()],
                )?;
                ended
                    .map(|grant| audit_end(tx, grant, &audit, "grant.end"))
                    .transpose()
            })
            .await;
        self.ended(done, |grant| grant.map(|grant| Ended::Of(By::Grant(grant.id))))
    }
}

fn redeem(tx: &mut dyn Tx, redemption: &CodeRedemption, audit: &GrantAudit) -> Result<Exchange> {
    let used = tx.query_opt(
        "UPDATE oauth_code SET used_at = $4 WHERE hash = $1 AND challenge = $3 \
         AND redirect_uri = COALESCE($5, redirect_uri) AND used_at IS NULL AND expires_at > $4 AND EXISTS (\
         SELECT 1 FROM oauth_grant g JOIN membership m ON m.org_id = g.org_id AND m.user_id = g.user_id \
         JOIN person p ON p.id = g.user_id \
         WHERE g.id = oauth_code.grant_id AND g.client_id = $2 AND p.disabled_at IS NULL) RETURNING grant_id",
        vals![
            redemption.code_hash.as_slice(),
            redemption.client_id.as_str(),
            redemption.challenge.as_str(),
            redemption.at,
            redemption.redirect_uri.as_deref()
        ],
    )?;
    let Some(used) = used else {
        return replayed(tx, redemption, audit);
    };
    let grant = used.only::<GrantId>()?;
    let tokens = tx.read_opt(
        constcat::concat!(
            "UPDATE oauth_grant SET used_at = $2, expires_at = $3 WHERE id = $1 RETURNING ",
            IssuedTokens::COLUMNS
        ),
        vals![grant, redemption.at, redemption.grant_until],
    )?;
    let Some(tokens) = tokens else {
        return Ok(Exchange::Refused);
    };
    let [access, refresh] = insert(grant, &redemption.tokens);
    tx.batch(&[
        access,
        refresh,
        Stmt::new(
            "UPDATE oauth_client SET expires_at = {GREATEST}(expires_at, $2) WHERE id = $1 AND kind = 'registered'",
            vals![redemption.client_id.as_str(), redemption.client_until],
        ),
    ])?;
    Ok(Exchange::Issued(tokens))
}

/// Ends the grant of a code that was redeemed before, if everything else about the redemption is right.
fn replayed(tx: &mut dyn Tx, redemption: &CodeRedemption, audit: &GrantAudit) -> Result<Exchange> {
    let ended = tx.read_opt(
        constcat::concat!(
            "DELETE FROM oauth_grant WHERE client_id = $2 AND id = (SELECT grant_id FROM oauth_code \
             WHERE hash = $1 AND challenge = $3 AND redirect_uri = COALESCE($4, redirect_uri) \
             AND used_at IS NOT NULL) RETURNING ",
            EndedGrant::COLUMNS
        ),
        vals![
            &redemption.code_hash,
            redemption.client_id.as_str(),
            redemption.challenge.as_str(),
            redemption.redirect_uri.as_deref()
        ],
    )?;
    reused(tx, ended, audit)
}

fn next_pair(tx: &mut dyn Tx, refresh: &TokenRefresh, audit: &GrantAudit) -> Result<Exchange> {
    // The person may have been removed or disabled since, and the grant revoked.
    let found: Option<RefreshRow> = tx.read_opt(
        select!(
            RefreshRow,
            " FROM oauth_token t JOIN oauth_grant ON oauth_grant.id = t.grant_id \
             JOIN membership m ON m.org_id = oauth_grant.org_id AND m.user_id = oauth_grant.user_id \
             JOIN person p ON p.id = oauth_grant.user_id \
             WHERE t.hash = $1 AND t.kind = 'refresh' AND oauth_grant.client_id = $2 AND p.disabled_at IS NULL"
        ),
        vals![&refresh.refresh_hash, refresh.client_id.as_str()],
    )?;
    let Some(RefreshRow { tokens, .. }) = found.filter(|found| found.until > refresh.at) else {
        return Ok(Exchange::Refused);
    };
    if refresh.scope.is_some_and(|scope| scope != tokens.scope) {
        return Ok(Exchange::OtherScope);
    }
    let used = tx.exec(
        "UPDATE oauth_token SET used_at = $2 WHERE hash = $1 AND used_at IS NULL",
        vals![refresh.refresh_hash.as_slice(), refresh.at],
    )?;
    let grant = tokens.grant;
    if used == 0 {
        let ended = tx.read_opt(
            constcat::concat!(
                "DELETE FROM oauth_grant WHERE id = $1 RETURNING ",
                EndedGrant::COLUMNS
            ),
            vals![grant],
        )?;
        return reused(tx, ended, audit);
    }
    let [access, next] = insert(grant, &refresh.tokens);
    let seen = Stmt::new(
        "UPDATE oauth_grant SET used_at = $2 WHERE id = $1",
        vals![grant, refresh.at],
    );
    let [seen, _, _] = batch(tx, &[seen, access, next])?;
    if seen.affected == 0 {
        // The grant was revoked since it was read.
        return Ok(Exchange::Refused);
    }
    Ok(Exchange::Issued(tokens))
}

/// Records that a second use has ended a grant. `None` if the grant had ended before.
fn reused(tx: &mut dyn Tx, ended: Option<EndedGrant>, audit: &GrantAudit) -> Result<Exchange> {
    match ended {
        None => Ok(Exchange::Refused),
        Some(grant) => audit_end(tx, grant, audit, "grant.end_reused").map(Exchange::Reused),
    }
}

/// Inserts a pair of tokens.
fn insert(grant: GrantId, tokens: &NewTokens) -> [Stmt<'_>; 2] {
    [
        token(grant, &tokens.access_hash, "access", tokens.access_until),
        token(grant, &tokens.refresh_hash, "refresh", tokens.refresh_until),
    ]
}

/// Inserts a token. No token outlives its grant.
fn token<'a>(grant: GrantId, hash: &'a [u8; 32], kind: &'static str, until: Timestamp) -> Stmt<'a> {
    insert!("oauth_token", {
        "hash" = "CAST(@ AS {BLOB})": hash,
        "grant_id" = "g.id",
        "kind": kind,
        "expires_at" = "{LEAST}(g.expires_at, CAST(@ AS BIGINT))": until,
    }, select " FROM oauth_grant g WHERE g.id = @", grant)
}
