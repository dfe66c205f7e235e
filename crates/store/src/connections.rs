//! Saved connections. What is secret comes in and goes out sealed: this crate cannot read it.
//!
//! A definition is replaced and its tokens are written only by who has seen the newest of them: `revision` counts the
//! changes of the one, `tokens_version` those of the other. A command that came too late changes nothing and says so.

use sortie_api::{ConnectionId, ConnectionStatus, OrgId, Timestamp};

use crate::{
    Audit, Store,
    audit::record,
    db::{Row, Stmt, Tx, vals},
    types::{Error, Result, unless},
};

/// A saved connection as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionRow {
    /// Its id.
    pub id: ConnectionId,
    /// Its name.
    pub name: String,
    /// The JSON of a `ConnectionDefinition` without secrets.
    pub definition: String,
    /// Its credentials, sealed.
    pub credentials: Vec<u8>,
    /// What OAuth gave, sealed.
    pub tokens: Option<Vec<u8>>,
    /// How often `tokens` was changed.
    pub tokens_version: i64,
    /// Issuer of the authorization server that authorized it last, sealed.
    pub issuer: Option<Vec<u8>>,
    /// Whether it can be used.
    pub status: ConnectionStatus,
    /// Why not.
    pub error: Option<String>,
    /// How often the definition was changed.
    pub revision: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its definition was last changed.
    pub updated_at: Timestamp,
}

/// A connection to save: a new one, or what replaces an old one.
#[derive(Clone, Debug)]
pub struct SaveConnection {
    /// Its id.
    pub id: ConnectionId,
    /// Whose it is.
    pub org: OrgId,
    /// Its name.
    pub name: String,
    /// The JSON of a `ConnectionDefinition` without secrets.
    pub definition: String,
    /// Its credentials, sealed.
    pub credentials: Vec<u8>,
    /// Whether it can be used.
    pub status: ConnectionStatus,
    /// When.
    pub at: Timestamp,
}

/// What becomes of the tokens of a connection whose definition is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldTokens {
    /// They stay: they are for the same place and the same client. So do status and error.
    Keep,
    /// They go: they are for another.
    Drop,
}

/// Why a connection is not made.
const TAKEN: Error = Error::Conflict("the name is taken");

/// Why nothing is done to a connection.
pub(crate) const CHANGED: Error = Error::Conflict("the connection was changed");

/// The columns that [`connection_from`] reads, in its order.
macro_rules! connection_columns {
    () => {
        "id, name, definition, credentials, tokens, tokens_version, status, error, revision, created_at, updated_at, issuer"
    };
}

impl Store {
    /// Saves a new connection. False where the name is taken; `Conflict` where the organization has `most` of them.
    pub async fn create_connection(
        &self,
        connection: SaveConnection,
        most: u32,
        audit: Audit,
    ) -> Result<bool> {
        let made = self.db.write(move |tx| create(tx, &connection, most, &audit));
        unless(&TAKEN, made.await)
    }

    /// Replaces the definition of a connection that is still at `revision`. False where it is not, or not there.
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

    /// A connection by its name.
    pub async fn get_connection(&self, org: OrgId, name: &str) -> Result<ConnectionRow> {
        let name = name.to_owned();
        self.db
            .read(move |tx| {
                let row = tx.query_one(
                    concat!(
                        "SELECT ",
                        connection_columns!(),
                        " FROM connection WHERE org_id = $1 AND name = $2"
                    ),
                    vals![org, name.as_str()],
                )?;
                connection_from(&row)
            })
            .await
    }

    /// A connection by its id.
    pub async fn connection_by_id(&self, org: OrgId, id: ConnectionId) -> Result<ConnectionRow> {
        self.db
            .read(move |tx| {
                let row = tx.query_one(
                    concat!(
                        "SELECT ",
                        connection_columns!(),
                        " FROM connection WHERE id = $2 AND org_id = $1"
                    ),
                    vals![org, id],
                )?;
                connection_from(&row)
            })
            .await
    }

    /// The organization's connections, by name.
    pub async fn list_connections(&self, org: OrgId) -> Result<Vec<ConnectionRow>> {
        self.db
            .read(move |tx| {
                tx.query_all(
                    concat!(
                        "SELECT ",
                        connection_columns!(),
                        " FROM connection WHERE org_id = $1 ORDER BY name"
                    ),
                    vals![org],
                )?
                .iter()
                .map(connection_from)
                .collect()
            })
            .await
    }

    /// Those of the named connections that there are, in no order.
    pub async fn connections_named(&self, org: OrgId, names: Vec<String>) -> Result<Vec<ConnectionRow>> {
        let names = serde_json::to_string(&names).map_err(|error| Error::Corrupt(error.to_string()))?;
        self.db
            .read(move |tx| {
                tx.query_all(
                    concat!(
                        "SELECT ",
                        connection_columns!(),
                        " FROM connection WHERE org_id = $1 AND name {IN}SELECT value FROM {JSON_EACH}($2){END}"
                    ),
                    vals![org, names.as_str()],
                )?
                .iter()
                .map(connection_from)
                .collect()
            })
            .await
    }

    /// Deletes a connection with its tokens and with what was under way to authorize it.
    pub async fn delete_connection(&self, org: OrgId, name: &str, audit: Audit) -> Result<()> {
        let name = name.to_owned();
        self.db.write(move |tx| delete(tx, org, &name, &audit)).await
    }

    /// Records what became of a connection that is still at `revision`. False where it is not, or not there.
    pub async fn set_connection_status(
        &self,
        org: OrgId,
        (id, revision): (ConnectionId, i64),
        status: ConnectionStatus,
        error: Option<String>,
    ) -> Result<bool> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE connection SET status = $4, error = $5 WHERE id = $1 AND org_id = $2 AND revision = $3",
                    vals![id, org, revision, status, error.as_deref()],
                )
                .map(|changed| changed == 1)
            })
            .await
    }
}

fn create(tx: &mut dyn Tx, new: &SaveConnection, most: u32, audit: &Audit) -> Result<()> {
    tx.batch(&[
        // A lock on the organization, so that the limit is exact and nobody else makes one of the name.
        Stmt::new(
            "UPDATE organization SET name = name WHERE id = $1",
            vals![new.org],
        )
        .exactly(1, Error::NotFound),
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
            Error::Conflict("the organization has as many connections as it may"),
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
             tokens = NULL, tokens_version = tokens_version + 1, refresh_until = 0, issuer = NULL, status = $7, error = NULL \
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

fn connection_from(row: &Row) -> Result<ConnectionRow> {
    Ok(ConnectionRow {
        id: row.parse(0)?,
        name: row.text(1)?.to_owned(),
        definition: row.text(2)?.to_owned(),
        credentials: row.blob(3)?.to_vec(),
        tokens: row.opt_blob(4)?.map(<[u8]>::to_vec),
        tokens_version: row.int(5)?,
        status: row.parse(6)?,
        error: row.opt_text(7)?.map(str::to_owned),
        revision: row.int(8)?,
        created_at: row.time(9)?,
        updated_at: row.time(10)?,
        issuer: row.opt_blob(11)?.map(<[u8]>::to_vec),
    })
}
