//! OAuth of connections: flows that wait for a person, tokens that wait for their confirmation, and the refresh of tokens.
//!
//! A flow has two rows, one after the other. The first is found by its state, once. The second has the tokens that the
//! browser brought and is found by its connection. Only an administrator who presents its code takes it out.
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

/// An authorization that waits for a person, or for its confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthFlow {
    /// Hash of the state that the browser brings back, other for the second row than for the first.
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

/// A flow whose code was presented, and what it gives its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// Hash that the waiting row is known by.
    pub state_hash: [u8; 32],
    /// Whose connection it is.
    pub org: OrgId,
    /// The connection.
    pub connection: ConnectionId,
    /// The revision of the connection when the flow began.
    pub revision: i64,
    /// Tokens, sealed.
    pub tokens: Vec<u8>,
    /// Issuer of the authorization server that gave them, sealed. None where it is not known.
    pub issuer: Option<Vec<u8>>,
}

/// Most codes that are tried on one flow.
const TRIES: i64 = 5;

/// Begins the note beside a connection without tokens while a flow of it waits for its confirmation. The note is replaced by
/// the reason once no flow waits any more.
pub const AWAITING: &str = "an authorization waits for its confirmation";

/// Reasons that replace such a note.
const NOT_IN_TIME: &str = "nobody has confirmed the authorization in time: start it again";
const TRIED_TOO_OFTEN: &str = "the authorization ended after five wrong codes: start it again";

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

    /// System: forgets the flows that nobody has ended in time, with the tokens that nobody has confirmed.
    pub async fn forget_flows(&self, now: Timestamp) -> Result<u64> {
        self.db.write(move |tx| forget(tx, now)).await
    }

    /// Takes an authorization out, by the hash of its state: once, and in time.
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

    /// Keeps the tokens of a flow until they are confirmed. `note`, which begins with [`AWAITING`], becomes the error of a
    /// connection without tokens. False where the connection is not at the revision of the flow any more.
    pub async fn await_confirmation(&self, flow: OauthFlow, note: String, audit: Audit) -> Result<bool> {
        let kept = self
            .db
            .write(move |tx| await_confirmation(tx, &flow, &note, &audit));
        unless(&CHANGED, kept.await)
    }

    /// Returns the flows of a connection that wait for their code, and counts a try against each: it is counted before the
    /// codes are compared, so that guesses at the same time count as well.
    pub async fn try_confirmation(
        &self,
        org: OrgId,
        id: ConnectionId,
        now: Timestamp,
    ) -> Result<Vec<OauthFlow>> {
        self.db
            .write(move |tx| {
                tx.query_all(
                    "UPDATE oauth_flow SET tries = tries + 1 \
                     WHERE connection_id = $1 AND org_id = $2 AND tries < $3 AND expires_at > $4 \
                     RETURNING org_id, connection_id, revision, pending, expires_at, state_hash",
                    vals![id, org, TRIES, now],
                )?
                .iter()
                .map(|row| {
                    let hash = row.blob(5)?.try_into();
                    let hash = hash.map_err(|_| Error::Corrupt("a state_hash is not 32 bytes".to_owned()))?;
                    flow_from(hash, row)
                })
                .collect()
            })
            .await
    }

    /// Records a wrong code, and forgets the flows of the connection that were tried too often.
    pub async fn refuse_confirmation(&self, org: OrgId, id: ConnectionId, audit: Audit) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[
                    Stmt::new(
                        "DELETE FROM oauth_flow WHERE connection_id = $1 AND org_id = $2 AND tries >= $3",
                        vals![id, org, TRIES],
                    ),
                    note_end(id, TRIED_TOO_OFTEN),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }

    /// Takes out a confirmed flow and stores its tokens: the connection is ready. False where the flow was taken before, or
    /// the connection is not at its revision any more.
    pub async fn save_authorization(&self, confirmed: Confirmed, audit: Audit) -> Result<bool> {
        let saved = self.db.write(move |tx| save(tx, &confirmed, &audit));
        unless(&CHANGED, saved.await)
    }

    /// Records why an authorization of a connection that is still at `revision` came to nothing. It needs one where it has
    /// no tokens; older ones stay good. False where it is not there.
    pub async fn record_failed_authorization(
        &self,
        org: OrgId,
        (id, revision): (ConnectionId, i64),
        error: String,
        audit: Audit,
    ) -> Result<bool> {
        let recorded = self.db.write(move |tx| {
            tx.batch(&[
                Stmt::new(
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
                .exactly(1, CHANGED),
                record(&audit),
            ])
            .map(drop)
        });
        unless(&CHANGED, recorded.await)
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
    forget(tx, now)?;
    tx.batch(
        &[
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

/// Replaces the note of a connection of which no flow waits for its confirmation any more.
fn note_end(connection: ConnectionId, reason: &'static str) -> Stmt<'static> {
    Stmt::new(
        "UPDATE connection SET error = $3 WHERE id = $1 AND tokens IS NULL AND error LIKE $2 \
         AND NOT EXISTS (SELECT 1 FROM oauth_flow WHERE connection_id = $1 AND tries IS NOT NULL)",
        vals![connection, format!("{AWAITING}%"), reason],
    )
}

/// Deletes the flows that nobody has ended in time. Returns how many.
fn forget(tx: &mut dyn Tx, now: Timestamp) -> Result<u64> {
    let forgotten = tx.query_all(
        "DELETE FROM oauth_flow WHERE expires_at < $1 RETURNING connection_id",
        vals![now],
    )?;
    let mut flows = 0;
    for row in &forgotten {
        tx.batch(&[note_end(row.parse(0)?, NOT_IN_TIME)])?;
        flows += 1;
    }
    Ok(flows)
}

fn await_confirmation(tx: &mut dyn Tx, flow: &OauthFlow, note: &str, audit: &Audit) -> Result<()> {
    tx.batch(&[
        Stmt::new(
            "INSERT INTO oauth_flow (state_hash, org_id, connection_id, revision, pending, expires_at, tries) \
             SELECT CAST($1 AS {BLOB}), org_id, id, revision, CAST($5 AS {BLOB}), CAST($6 AS BIGINT), 0 FROM connection \
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
        .exactly(1, CHANGED),
        Stmt::new(
            "UPDATE connection SET error = $3 WHERE id = $1 AND org_id = $2 AND tokens IS NULL",
            vals![flow.connection, flow.org, note],
        ),
        record(audit),
    ])
    .map(drop)
}

fn save(tx: &mut dyn Tx, confirmed: &Confirmed, audit: &Audit) -> Result<()> {
    tx.batch(&[
        Stmt::new(
            "DELETE FROM oauth_flow WHERE state_hash = $1 AND tries IS NOT NULL",
            vals![confirmed.state_hash.as_slice()],
        )
        .exactly(1, CHANGED),
        Stmt::new(
            "UPDATE connection SET tokens = $4, tokens_version = tokens_version + 1, refresh_until = 0, \
             issuer = $6, status = $5, error = NULL WHERE id = $1 AND org_id = $2 AND revision = $3",
            vals![
                confirmed.connection,
                confirmed.org,
                confirmed.revision,
                confirmed.tokens.as_slice(),
                ConnectionStatus::Ready,
                confirmed.issuer.as_deref()
            ],
        )
        .exactly(1, CHANGED),
        record(audit),
    ])
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
