//! Saved connections. Secrets are sealed by the caller: this crate cannot read them.
//!
//! `revision` counts the changes of a definition, `tokens_version` those of the tokens. A caller replaces either only if
//! it has read the newest version. A late command changes nothing and reports it.

mod authorizations;

pub use authorizations::{AWAITING, Confirmed, OauthFlow, RefreshHolder, SeenTokens};

use sortie_api::{ConnectionId, ConnectionStatus, OrgId, Timestamp};

use crate::{
    Error, Result, Store,
    access::{Audit, audit::record},
    db::{Json, Stmt, Tx, filled, row, select, vals},
    error::unless,
    organizations::lock,
    workflows::{USERS, first_users},
};

row! {
    /// Saved connection as it is stored.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ConnectionRow {
        /// Id of the connection.
        pub id: ConnectionId = "id",
        /// Name, unique in the organization.
        pub name: String = "name",
        /// JSON of a `ConnectionDefinition` without secrets.
        pub definition: String = "definition",
        /// Sealed credentials.
        pub credentials: Vec<u8> = "credentials",
        /// Sealed OAuth tokens.
        pub tokens: Option<Vec<u8>> = "tokens",
        /// Number of changes of `tokens`.
        pub tokens_version: i64 = "tokens_version",
        /// Sealed issuer of the authorization server that authorized the connection last.
        pub issuer: Option<Vec<u8>> = "issuer",
        /// Sealed challenge of the server since the last authorization.
        pub challenge: Option<Vec<u8>> = "challenge",
        /// Status of the connection.
        pub status: ConnectionStatus = "status",
        /// Reason why the connection cannot be used.
        pub error: Option<String> = "error",
        /// Number of changes of the definition.
        pub revision: i64 = "revision",
        /// Creation time.
        pub created_at: Timestamp = "created_at",
        /// Time of the last change of the definition.
        pub updated_at: Timestamp = "updated_at",
    }
}

row! {
    struct ListedConnectionRow {
        connection: ConnectionRow,
        users: Option<Json<Vec<String>>> = filled!(
            USERS,
            "@org" = "connection.org_id",
            "@kind" = "connection",
            "@name" = "connection.name"
        ),
    }
}

/// Saved connection with the workflows that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedConnection {
    /// The connection.
    pub connection: ConnectionRow,
    /// Names of workflows that use the connection, in order: the first [`USED_BY`](sortie_api::limits::USED_BY).
    pub used_by: Vec<String>,
}

impl From<ListedConnectionRow> for ListedConnection {
    fn from(row: ListedConnectionRow) -> Self {
        Self {
            connection: row.connection,
            used_by: first_users([row.users]),
        }
    }
}

impl ConnectionRow {
    /// Returns the version of the tokens, for a change of the connection that depends on them.
    pub const fn seen(&self, org: OrgId) -> SeenTokens {
        SeenTokens {
            org,
            connection: self.id,
            version: self.tokens_version,
        }
    }
}

/// Connection to save: a new one, or a new version of an existing one.
#[derive(Clone, Debug)]
pub struct SaveConnection {
    /// Id of the connection.
    pub id: ConnectionId,
    /// Organization that owns the connection.
    pub org: OrgId,
    /// Name, unique in the organization.
    pub name: String,
    /// JSON of a `ConnectionDefinition` without secrets.
    pub definition: String,
    /// Sealed credentials.
    pub credentials: Vec<u8>,
    /// Status of the connection.
    pub status: ConnectionStatus,
    /// Time of the change.
    pub at: Timestamp,
}

/// Treatment of the tokens of a connection when its definition is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldTokens {
    /// The tokens stay, with the status and the error: they are for the same address and the same client.
    Keep,
    /// The tokens are deleted: they are for another address or another client.
    Drop,
}

/// Error if the name is taken.
const TAKEN: Error = Error::Conflict("the name is taken");

/// Error if the connection was changed or deleted.
pub(crate) const CHANGED: Error = Error::Conflict("the connection was changed");

impl Store {
    /// Saves a new connection. Returns false if the name is taken; `Conflict` if the organization has `most`
    /// connections already.
    pub async fn create_connection(
        &self,
        connection: SaveConnection,
        most: u32,
        audit: Audit,
    ) -> Result<bool> {
        let made = self.db.write(move |tx| create(tx, &connection, most, &audit));
        unless(&TAKEN, made.await)
    }

    /// Replaces the definition of a connection that is still at `revision`. Returns false if it is not, or
    /// was deleted.
    pub async fn replace_connection(
        &self,
        connection: SaveConnection,
        revision: i64,
        old_tokens: OldTokens,
        audit: Audit,
    ) -> Result<bool> {
        let replaced = self
            .db
            .write(move |tx| replace(tx, &connection, revision, old_tokens, &audit));
        unless(&CHANGED, replaced.await)
    }

    /// Returns a connection by its name.
    pub async fn get_connection(&self, org: OrgId, name: &str) -> Result<ConnectionRow> {
        let name = name.to_owned();
        self.db
            .read(move |tx| {
                tx.read_one(
                    select!(ConnectionRow, " FROM connection WHERE org_id = $1 AND name = $2"),
                    vals![org, name.as_str()],
                )
            })
            .await
    }

    /// Returns a connection by its name, with the workflows that use it.
    pub async fn listed_connection(&self, org: OrgId, name: &str) -> Result<ListedConnection> {
        let name = name.to_owned();
        self.db
            .read(move |tx| {
                tx.read_one::<ListedConnectionRow>(
                    select!(
                        ListedConnectionRow,
                        " FROM connection WHERE org_id = $1 AND name = $2"
                    ),
                    vals![org, name.as_str()],
                )
            })
            .await
            .map(Into::into)
    }

    /// Returns a connection by its id.
    pub async fn connection_by_id(&self, org: OrgId, id: ConnectionId) -> Result<ConnectionRow> {
        self.db
            .read(move |tx| {
                tx.read_one(
                    select!(ConnectionRow, " FROM connection WHERE id = $2 AND org_id = $1"),
                    vals![org, id],
                )
            })
            .await
    }

    /// Returns at most `limit` of the organization's connections with names after `after` (an empty text: all), ordered
    /// by name, each with the workflows that use it.
    pub async fn list_connections(
        &self,
        org: OrgId,
        after: String,
        limit: u32,
    ) -> Result<Vec<ListedConnection>> {
        let rows = self.db.read(move |tx| {
            tx.read_all::<ListedConnectionRow>(
                select!(
                    ListedConnectionRow,
                    " FROM connection WHERE org_id = $1 AND name > $2 ORDER BY org_id, name LIMIT $3"
                ),
                vals![org, after.as_str(), limit],
            )
        });
        Ok(rows.await?.into_iter().map(Into::into).collect())
    }

    /// Returns the named connections that exist, in no particular order.
    pub async fn connections_named(&self, org: OrgId, names: Vec<String>) -> Result<Vec<ConnectionRow>> {
        let names = serde_json::to_string(&names).map_err(|error| Error::Corrupt(error.to_string()))?;
        self.db
            .read(move |tx| {
                tx.read_all(
                    select!(ConnectionRow, " FROM connection WHERE org_id = $1 AND name {IN}SELECT value FROM {JSON_EACH}($2){END}"),
                    vals![org, names.as_str()],
                )
            })
            .await
    }

    /// Deletes a connection with its tokens and its unfinished authorizations.
    pub async fn delete_connection(&self, org: OrgId, name: &str, audit: Audit) -> Result<()> {
        let name = name.to_owned();
        self.db.write(move |tx| delete(tx, org, &name, &audit)).await
    }

    /// Records the status of a connection that is still at `revision`. `NeedsAuthorization` also requires that the tokens
    /// which the caller has read are the latest: another authorization may have stored newer ones. A connection that
    /// already needs an authorization keeps the reason. Returns false if the connection has changed or was deleted.
    pub async fn set_connection_status(
        &self,
        seen: SeenTokens,
        revision: i64,
        status: ConnectionStatus,
        error: Option<String>,
    ) -> Result<bool> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE connection SET status = $4, \
                     error = CASE WHEN $4 = $7 AND status = $7 THEN COALESCE(error, $5) ELSE $5 END \
                     WHERE id = $1 AND org_id = $2 AND revision = $3 AND (tokens_version = $6 OR $4 <> $7)",
                    vals![
                        seen.connection,
                        seen.org,
                        revision,
                        status,
                        error.as_deref(),
                        seen.version,
                        ConnectionStatus::NeedsAuthorization
                    ],
                )
                .map(|changed| changed == 1)
            })
            .await
    }

    /// Stores the challenge of the connection's server if the tokens and the definition have not changed since the caller
    /// read them. With a `reason` the connection then needs an authorization; its tokens stay. Returns false if the
    /// connection was changed, authorized or deleted.
    pub async fn keep_challenge(
        &self,
        seen: SeenTokens,
        revision: i64,
        challenge: Vec<u8>,
        reason: Option<String>,
    ) -> Result<bool> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE connection SET challenge = $4, error = COALESCE($5, error), \
                     status = CASE WHEN CAST($5 AS TEXT) IS NULL THEN status ELSE $6 END \
                     WHERE id = $1 AND org_id = $2 AND revision = $3 AND tokens_version = $7",
                    vals![
                        seen.connection,
                        seen.org,
                        revision,
                        challenge.as_slice(),
                        reason.as_deref(),
                        ConnectionStatus::NeedsAuthorization,
                        seen.version
                    ],
                )
                .map(|changed| changed == 1)
            })
            .await
    }
}

fn create(tx: &mut dyn Tx, new: &SaveConnection, most: u32, audit: &Audit) -> Result<()> {
    tx.batch(&[
        // The lock makes the limit exact, and excludes other commands that create a connection of this name.
        lock(new.org),
        Stmt::new(
            "SELECT 1 FROM connection WHERE org_id = $1 AND name = $2",
            vals![new.org, new.name.as_str()],
        )
        .exactly(0, TAKEN),
        Stmt::new(
            "INSERT INTO connection (id, org_id, name, definition, credentials, tokens_version, refresh_until, \
             status, revision, created_at, updated_at) \
             SELECT $1, id, $3, $4, CAST($5 AS {BLOB}), 0, 0, $6, 1, CAST($7 AS BIGINT), CAST($7 AS BIGINT) \
             FROM organization WHERE id = $2 AND (SELECT COUNT(*) FROM \
             (SELECT 1 FROM connection c WHERE c.org_id = $2 LIMIT $8) AS counted) < $8",
            vals![
                new.id,
                new.org,
                new.name.as_str(),
                new.definition.as_str(),
                new.credentials.as_slice(),
                new.status,
                new.at,
                most
            ],
        )
        .exactly(
            1,
            Error::Conflict("the organization has reached its limit of connections"),
        ),
        record(audit),
    ])
    .map(drop)
}

fn replace(
    tx: &mut dyn Tx,
    new: &SaveConnection,
    revision: i64,
    old_tokens: OldTokens,
    audit: &Audit,
) -> Result<()> {
    let sql = match old_tokens {
        OldTokens::Keep => {
            "UPDATE connection SET definition = $4, credentials = $5, updated_at = $6, revision = revision + 1 \
             WHERE id = $1 AND org_id = $2 AND revision = $3"
        }
        OldTokens::Drop => {
            "UPDATE connection SET definition = $4, credentials = $5, updated_at = $6, revision = revision + 1, \
             tokens = NULL, tokens_version = tokens_version + 1, refresh_until = 0, issuer = NULL, challenge = NULL, \
             status = $7, error = NULL \
             WHERE id = $1 AND org_id = $2 AND revision = $3"
        }
    };
    let mut params = vals![
        new.id,
        new.org,
        revision,
        new.definition.as_str(),
        new.credentials.as_slice(),
        new.at
    ];
    if old_tokens == OldTokens::Drop {
        params.extend(vals![new.status]);
    }
    tx.batch(&[Stmt::new(sql, params).exactly(1, CHANGED), record(audit)])
        .map(drop)
}

fn delete(tx: &mut dyn Tx, org: OrgId, name: &str, audit: &Audit) -> Result<()> {
    tx.batch(&[
        Stmt::new(
            "DELETE FROM oauth_flow WHERE connection_id {IN}\
             SELECT c.id FROM connection c WHERE c.org_id = $1 AND c.name = $2{END}",
            vals![org, name],
        ),
        Stmt::new(
            "DELETE FROM connection WHERE org_id = $1 AND name = $2",
            vals![org, name],
        )
        .exactly(1, Error::NotFound),
        record(audit),
    ])
    .map(drop)
}
