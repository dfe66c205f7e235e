//! OAuth of connections: flows that wait for a person, tokens that wait for their confirmation, and the
//! refresh of tokens.
//!
//! A flow has two rows, one after the other. The first is found by its state, once. The second has the tokens that the
//! callback in the browser has delivered, and is found by its connection. Only an administrator who presents its code
//! can remove it.
//!
//! An authorization server may issue a refresh token for one use only, so two nodes must never use the same one. A node
//! that wants to refresh tokens takes a lease on the tokens it has read. The new tokens are stored only if the old ones
//! have not changed. The lease runs on the database's clock and names its holder, so a holder can repeat a request that
//! got no answer.

use std::{collections::BTreeSet, time::Duration};

use sortie_api::{ConnectionId, ConnectionStatus, OrgId, Timestamp};

use crate::{
    Error, Result, Store,
    access::{Audit, audit::record},
    connections::CHANGED,
    db::{ReadRow, Row, Stmt, Tx, row, vals},
    error::unless,
};

row! {
    /// Authorization that waits for a person, or for its confirmation.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OauthFlow {
        /// Hash of the state that the browser brings back. The second row has another one than the first.
        pub state_hash: [u8; 32] = "state_hash",
        /// Organization that owns the connection.
        pub org: OrgId = "org_id",
        /// Id of the connection.
        pub connection: ConnectionId = "connection_id",
        /// Revision of the connection when the flow began.
        pub revision: i64 = "revision",
        /// Sealed data for the completion of the flow.
        pub pending: Vec<u8> = "pending",
        /// Time until which the flow can be completed.
        pub expires_at: Timestamp = "expires_at",
    }
}

/// Flow for which the client has presented the code, with the tokens for its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// Hash by which the waiting row is found.
    pub state_hash: [u8; 32],
    /// Organization that owns the connection.
    pub org: OrgId,
    /// Id of the connection.
    pub connection: ConnectionId,
    /// Revision of the connection when the flow began.
    pub revision: i64,
    /// Sealed tokens.
    pub tokens: Vec<u8>,
    /// Sealed issuer of the authorization server that issued the tokens. `None` if it is unknown.
    pub issuer: Option<Vec<u8>>,
}

/// Maximum number of codes that are tried on one flow.
const TRIES: i64 = 5;

/// Start of the note on a connection without tokens while one of its flows waits for confirmation. A reason replaces the
/// note after the last flow has ended.
pub const AWAITING: &str = "an authorization waits for its confirmation";

/// Reason that replaces the note after a flow has expired.
const NOT_IN_TIME: &str = "the authorization expired without a confirmation: start it again";
/// Reason that replaces the note after too many wrong codes.
const TRIED_TOO_OFTEN: &str = "the authorization ended after five wrong codes: start it again";

/// Tokens of a connection as the caller has read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenTokens {
    /// Organization that owns the connection.
    pub org: OrgId,
    /// Id of the connection.
    pub connection: ConnectionId,
    /// `tokens_version` of the tokens that the caller has read.
    pub version: i64,
}

/// Attempt to refresh tokens: a random number, the same in every request of the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshHolder(pub i64);

impl Store {
    /// Begins an authorization, and deletes expired ones. `NotFound` if the connection has changed.
    pub async fn begin_authorization(&self, flow: OauthFlow, now: Timestamp, audit: Audit) -> Result<()> {
        self.db.write(move |tx| begin(tx, &flow, now, &audit)).await
    }

    /// System: deletes expired flows, with their unconfirmed tokens.
    pub async fn forget_flows(&self, now: Timestamp) -> Result<u64> {
        self.db.write(move |tx| forget(tx, now)).await
    }

    /// Removes and returns an authorization by the hash of its state. This succeeds once, and only before the flow
    /// expires.
    pub async fn take_authorization(
        &self,
        state_hash: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<OauthFlow>> {
        self.db
            .write(move |tx| {
                let taken: Option<OauthFlow> = tx.read_opt(
                    constcat::concat!(
                        "DELETE FROM oauth_flow WHERE state_hash = $1 RETURNING ",
                        OauthFlow::COLUMNS
                    ),
                    vals![state_hash.as_slice()],
                )?;
                Ok(taken.filter(|flow| now < flow.expires_at))
            })
            .await
    }

    /// Stores the tokens of a flow until they are confirmed. `note`, which begins with [`AWAITING`], becomes the error
    /// of a connection without tokens. Returns false if the revision of the connection differs from that of the flow.
    pub async fn await_confirmation(&self, flow: OauthFlow, note: String, audit: Audit) -> Result<bool> {
        let kept = self
            .db
            .write(move |tx| await_confirmation(tx, &flow, &note, &audit));
        unless(&CHANGED, kept.await)
    }

    /// Returns the flows of a connection that wait for their code, and counts a try against each. Tries are
    /// counted before the codes are compared, so that guesses at the same time count as well.
    pub async fn try_confirmation(
        &self,
        org: OrgId,
        id: ConnectionId,
        now: Timestamp,
    ) -> Result<Vec<OauthFlow>> {
        self.db
            .write(move |tx| {
                tx.read_all(
                    constcat::concat!(
                        "UPDATE oauth_flow SET tries = tries + 1 \
                         WHERE connection_id = $1 AND org_id = $2 AND tries < $3 AND expires_at > $4 RETURNING ",
                        OauthFlow::COLUMNS
                    ),
                    vals![id, org, TRIES, now],
                )
            })
            .await
    }

    /// Records a wrong code, and deletes the flows of the connection that were tried too often.
    pub async fn refuse_confirmation(&self, org: OrgId, id: ConnectionId, audit: Audit) -> Result<()> {
        self.db
            .write(move |tx| {
                let mut statements = vec![Stmt::new(
                    "DELETE FROM oauth_flow WHERE connection_id = $1 AND org_id = $2 AND tries >= $3",
                    vals![id, org, TRIES],
                )];
                statements.extend(note_end(id, TRIED_TOO_OFTEN));
                statements.push(record(&audit));
                tx.batch(&statements).map(drop)
            })
            .await
    }

    /// Removes a confirmed flow and stores its tokens, which makes the connection ready. Returns false if the flow was
    /// removed before, or if the revision of the connection differs from that of the flow.
    pub async fn save_authorization(&self, confirmed: Confirmed, audit: Audit) -> Result<bool> {
        let saved = self.db.write(move |tx| save(tx, &confirmed, &audit));
        unless(&CHANGED, saved.await)
    }

    /// Records the reason why an authorization failed, if the connection is still at `revision`. A connection
    /// without tokens needs an authorization then; existing tokens stay valid. Returns false if the
    /// connection was changed or deleted.
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

    /// Takes the lease to refresh tokens for `length`, or extends the lease of the same holder. `now` is the time if the
    /// database has no clock. Returns false if another holder has the lease, or if the tokens were refreshed.
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

    /// Releases the lease without new tokens, so that the next attempt may begin immediately. A lease of another holder
    /// stays.
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

    /// Replaces the tokens that the caller has read by refreshed ones. The connection becomes ready, unless its server
    /// has asked for another authorization. Returns false if another command has changed the tokens.
    pub async fn save_refreshed(&self, seen: SeenTokens, tokens: Vec<u8>) -> Result<bool> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE connection SET tokens = $4, tokens_version = tokens_version + 1, refresh_until = 0, \
                     status = CASE WHEN challenge IS NULL THEN $5 ELSE status END, \
                     error = CASE WHEN challenge IS NULL THEN NULL ELSE error END \
                     WHERE id = $1 AND org_id = $2 AND tokens_version = $3",
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

    /// Deletes tokens that the authorization server refuses. A person has to authorize the connection again. Returns
    /// false if another node has refreshed the tokens.
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

/// Statements that replace the note of a connection after the last flow that waits for confirmation has ended. The lock
/// comes first: a statement that waits for the connection would not see a flow that another transaction adds during the
/// wait.
fn note_end(connection: ConnectionId, reason: &'static str) -> [Stmt<'static>; 2] {
    let lock = Stmt::new(
        "UPDATE connection SET name = name WHERE id = $1",
        vals![connection],
    );
    let note = Stmt::new(
        "UPDATE connection SET error = $3 WHERE id = $1 AND tokens IS NULL AND error LIKE $2 \
         AND NOT EXISTS (SELECT 1 FROM oauth_flow WHERE connection_id = $1 AND tries IS NOT NULL)",
        vals![connection, format!("{AWAITING}%"), reason],
    );
    [lock, note]
}

/// Deletes expired flows. Returns their number.
fn forget(tx: &mut dyn Tx, now: Timestamp) -> Result<u64> {
    let forgotten = tx.query_all(
        "DELETE FROM oauth_flow WHERE expires_at < $1 RETURNING connection_id",
        vals![now],
    )?;
    // In the order of the ids, like every command that locks several.
    let connections: BTreeSet<ConnectionId> = forgotten.iter().map(Row::only).collect::<Result<_>>()?;
    for connection in connections {
        tx.batch(&note_end(connection, NOT_IN_TIME))?;
    }
    Ok(u64::try_from(forgotten.len()).unwrap_or(u64::MAX))
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
             issuer = $6, challenge = NULL, status = $5, error = NULL WHERE id = $1 AND org_id = $2 AND revision = $3",
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
