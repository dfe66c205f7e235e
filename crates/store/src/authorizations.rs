//! OAuth of connections: what waits for a person, and the tokens, which one node at a time may renew.
//!
//! An authorization server may give a refresh token for one use only, so two nodes must never use the same one. Who wants
//! to renew takes the lease of the tokens it has seen; what it then writes counts only if they are still the same. The lease
//! is counted on the database's clock, and names its holder: a holder whose request was answered by nobody asks again.

use std::time::Duration;

use sortie_api::{ConnectionId, ConnectionStatus, OrgId, Timestamp};

use crate::{
    Audit, Store,
    audit::record,
    connections::CHANGED,
    db::{Row, Stmt, Tx, vals},
    types::{Error, Result, unless},
};

/// An authorization that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthFlow {
    /// SHA-256 of the state that the browser brings back.
    pub state_hash: [u8; 32],
    /// Whose connection it is.
    pub org: OrgId,
    /// The connection.
    pub connection: ConnectionId,
    /// The revision of the connection when it began.
    pub revision: i64,
    /// What is needed to end it, sealed.
    pub pending: Vec<u8>,
    /// Until when it can be ended.
    pub expires_at: Timestamp,
}

/// Tokens of a connection as somebody has seen them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenTokens {
    /// Whose connection it is.
    pub org: OrgId,
    /// The connection.
    pub connection: ConnectionId,
    /// `tokens_version` of what was seen.
    pub version: i64,
}

/// An attempt to refresh tokens: a random number, the same in every request of the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshHolder(pub i64);

impl Store {
    /// Begins an authorization, and forgets those that nobody ended in time. `NotFound` where the connection has changed.
    pub async fn begin_authorization(&self, flow: OauthFlow, now: Timestamp, audit: Audit) -> Result<()> {
        self.db.write(move |tx| begin(tx, &flow, now, &audit)).await
    }

    /// Takes an authorization out, by the SHA-256 of its state: once, and in time.
    pub async fn take_authorization(
        &self,
        state_hash: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<OauthFlow>> {
        self.db
            .write(move |tx| {
                let taken = tx.query_opt(
                    "DELETE FROM oauth_flow WHERE state_hash = $1 \
                     RETURNING org_id, connection_id, revision, pending, expires_at",
                    vals![state_hash.as_slice()],
                )?;
                let flow = taken.map(|row| flow_from(state_hash, &row)).transpose()?;
                Ok(flow.filter(|flow| now < flow.expires_at))
            })
            .await
    }

    /// Stores the first tokens of a connection that is still at `revision`: it is ready. False where it is not there.
    pub async fn save_authorization(
        &self,
        org: OrgId,
        (id, revision): (ConnectionId, i64),
        tokens: Vec<u8>,
        audit: Audit,
    ) -> Result<bool> {
        let saved = self.db.write(move |tx| {
            tx.batch(&[
                Stmt::new(
                    "UPDATE connection SET tokens = $4, tokens_version = tokens_version + 1, refresh_until = 0, \
                     status = $5, error = NULL WHERE id = $1 AND org_id = $2 AND revision = $3",
                    vals![id, org, revision, tokens.as_slice(), ConnectionStatus::Ready],
                )
                .exactly(1, CHANGED),
                record(&audit),
            ])
            .map(drop)
        });
        unless(&CHANGED, saved.await)
    }

    /// Records why an authorization of a connection that is still at `revision` came to nothing. It needs one where it has
    /// no tokens; older ones stay good. False where it is not there.
    pub async fn record_failed_authorization(
        &self,
        org: OrgId,
        (id, revision): (ConnectionId, i64),
        error: String,
    ) -> Result<bool> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE connection SET error = $4, status = CASE WHEN tokens IS NULL THEN $5 ELSE status END \
                     WHERE id = $1 AND org_id = $2 AND revision = $3",
                    vals![
                        id,
                        org,
                        revision,
                        error.as_str(),
                        ConnectionStatus::NeedsAuthorization
                    ],
                )
                .map(|changed| changed == 1)
            })
            .await
    }

    /// Takes the lease to renew tokens for `length`, or extends that of the same holder. `now` counts where the database has
    /// no clock. False where somebody else has the lease, or has renewed the tokens.
    pub async fn lease_refresh(
        &self,
        seen: SeenTokens,
        holder: RefreshHolder,
        now: Timestamp,
        length: Duration,
    ) -> Result<bool> {
        let length = i64::try_from(length.as_micros()).map_err(|error| Error::Corrupt(error.to_string()))?;
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE connection SET refresh_until = COALESCE({NOW}, $5) + $6, refresh_holder = $4 \
                     WHERE id = $1 AND org_id = $2 AND tokens_version = $3 AND tokens IS NOT NULL \
                     AND (refresh_until <= COALESCE({NOW}, $5) OR refresh_holder = $4)",
                    vals![seen.connection, seen.org, seen.version, holder.0, now, length],
                )
                .map(|changed| changed == 1)
            })
            .await
    }

    /// Gives the lease back without new tokens: the next one may try at once. A lease of another holder stays.
    pub async fn release_refresh(&self, seen: SeenTokens, holder: RefreshHolder) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE connection SET refresh_until = 0 \
                     WHERE id = $1 AND org_id = $2 AND tokens_version = $3 AND refresh_holder = $4",
                    vals![seen.connection, seen.org, seen.version, holder.0],
                )
                .map(drop)
            })
            .await
    }

    /// Stores renewed tokens in the place of those that were seen. False where they are not there any more.
    pub async fn save_refreshed(&self, seen: SeenTokens, tokens: Vec<u8>) -> Result<bool> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE connection SET tokens = $4, tokens_version = tokens_version + 1, refresh_until = 0, \
                     status = $5, error = NULL WHERE id = $1 AND org_id = $2 AND tokens_version = $3",
                    vals![
                        seen.connection,
                        seen.org,
                        seen.version,
                        tokens.as_slice(),
                        ConnectionStatus::Ready
                    ],
                )
                .map(|changed| changed == 1)
            })
            .await
    }

    /// Forgets tokens that the authorization server refuses: a person has to authorize the connection again. False where
    /// they were renewed meanwhile.
    pub async fn drop_refused(&self, seen: SeenTokens, error: String) -> Result<bool> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE connection SET tokens = NULL, tokens_version = tokens_version + 1, refresh_until = 0, \
                     status = $4, error = $5 WHERE id = $1 AND org_id = $2 AND tokens_version = $3",
                    vals![
                        seen.connection,
                        seen.org,
                        seen.version,
                        ConnectionStatus::NeedsAuthorization,
                        error.as_str()
                    ],
                )
                .map(|changed| changed == 1)
            })
            .await
    }
}

fn begin(tx: &mut dyn Tx, flow: &OauthFlow, now: Timestamp, audit: &Audit) -> Result<()> {
    tx.batch(
        &[
            Stmt::new("DELETE FROM oauth_flow WHERE expires_at < $1", vals![now]),
            Stmt::new(
                "INSERT INTO oauth_flow (state_hash, org_id, connection_id, revision, pending, expires_at) \
                 SELECT CAST($1 AS {BLOB}), org_id, id, revision, CAST($5 AS {BLOB}), CAST($6 AS BIGINT) FROM connection \
                 WHERE id = $3 AND org_id = $2 AND revision = $4",
                vals![
                    flow.state_hash.as_slice(),
                    flow.org,
                    flow.connection,
                    flow.revision,
                    flow.pending.as_slice(),
                    flow.expires_at
                ],
            )
            .exactly(1, Error::NotFound),
            record(audit),
        ],
    )
    .map(drop)
}

fn flow_from(state_hash: [u8; 32], row: &Row) -> Result<OauthFlow> {
    Ok(OauthFlow {
        state_hash,
        org: row.parse(0)?,
        connection: row.parse(1)?,
        revision: row.int(2)?,
        pending: row.blob(3)?.to_vec(),
        expires_at: row.time(4)?,
    })
}
