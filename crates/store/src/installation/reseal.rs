//! System: sealed values, page by page, and their replacement by values that are sealed with another key.
//!
//! A value is replaced only if it has not changed since it was read. A newer value stays, and a page may be
//! repeated. Only the value and the `revision` of a schedule change: a caller that was about to write back
//! the whole row then has to read it again.

use sortie_api::{OrgId, Timestamp};

use crate::{
    Error, Result, Store,
    access::{Audit, audit::record},
    db::{Column, ReadRow, Stmt, Val, row, select, vals},
    nodes::key_ids,
};

/// Column of sealed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedColumn {
    /// Text by which a node finds out whether it has the keys of this database.
    SealCheck,
    /// Credentials of saved connections.
    ConnectionCredentials,
    /// OAuth tokens of saved connections.
    ConnectionTokens,
    /// Authorizations that wait for a person.
    OauthFlow,
    /// Key that signs the callbacks of a schedule.
    ScheduleSecret,
    /// Inline credentials of runs.
    RunSecret,
    /// Receivers of callbacks, and the keys that sign them.
    Delivery,
    /// Authorization servers that have authorized saved connections.
    ConnectionIssuer,
    /// Recipients and arguments of mails.
    Mail,
    /// Keys of the authenticators of people.
    PersonTotp,
    /// Challenges of the servers of saved connections.
    ConnectionChallenge,
}

impl SealedColumn {
    /// Every column. A cursor identifies a column by its number here, so append new columns at the end.
    pub const ALL: [Self; 11] = [
        Self::SealCheck,
        Self::ConnectionCredentials,
        Self::ConnectionTokens,
        Self::OauthFlow,
        Self::ScheduleSecret,
        Self::RunSecret,
        Self::Delivery,
        Self::ConnectionIssuer,
        Self::Mail,
        Self::PersonTotp,
        Self::ConnectionChallenge,
    ];

    /// Table of the column.
    pub const fn table(self) -> &'static str {
        match self {
            Self::SealCheck => "seal_check",
            Self::ConnectionCredentials
            | Self::ConnectionTokens
            | Self::ConnectionIssuer
            | Self::ConnectionChallenge => "connection",
            Self::OauthFlow => "oauth_flow",
            Self::ScheduleSecret => "schedule",
            Self::RunSecret => "run_secret",
            Self::Delivery => "delivery",
            Self::Mail => "mail",
            Self::PersonTotp => "person",
        }
    }

    /// Name of the column in its table.
    pub const fn column(self) -> &'static str {
        match self {
            Self::SealCheck => "sealed",
            Self::ConnectionCredentials | Self::RunSecret => "credentials",
            Self::ConnectionTokens => "tokens",
            Self::OauthFlow => "pending",
            Self::ScheduleSecret => "callback_secret",
            Self::Delivery => "target",
            Self::ConnectionIssuer => "issuer",
            Self::Mail => "content",
            Self::PersonTotp => "totp",
            Self::ConnectionChallenge => "challenge",
        }
    }

    /// Query for [`SealedRow`], of at most $2 rows after $1.
    const fn page(self) -> &'static str {
        match self {
            Self::SealCheck => "SELECT '1', NULL, sealed FROM seal_check WHERE id = 1 AND $1 = '' LIMIT $2",
            Self::ConnectionCredentials => {
                "SELECT id, org_id, credentials FROM connection WHERE id > $1 ORDER BY id LIMIT $2"
            }
            Self::ConnectionTokens => {
                "SELECT id, org_id, tokens FROM connection WHERE id > $1 AND tokens IS NOT NULL ORDER BY id LIMIT $2"
            }
            Self::OauthFlow => {
                "SELECT state_hash, org_id, pending FROM oauth_flow WHERE state_hash > $1 \
                 ORDER BY state_hash LIMIT $2"
            }
            Self::ScheduleSecret => {
                "SELECT id, org_id, callback_secret FROM schedule WHERE id > $1 AND callback_secret IS NOT NULL \
                 ORDER BY id LIMIT $2"
            }
            Self::RunSecret => {
                "SELECT s.run_id, (SELECT r.org_id FROM run r WHERE r.id = s.run_id), s.credentials \
                 FROM run_secret s WHERE s.run_id > $1 ORDER BY s.run_id LIMIT $2"
            }
            Self::Delivery => {
                "SELECT run_id, org_id, target FROM delivery WHERE run_id > $1 ORDER BY run_id LIMIT $2"
            }
            Self::ConnectionIssuer => {
                "SELECT id, org_id, issuer FROM connection WHERE id > $1 AND issuer IS NOT NULL ORDER BY id LIMIT $2"
            }
            Self::ConnectionChallenge => {
                "SELECT id, org_id, challenge FROM connection WHERE id > $1 AND challenge IS NOT NULL ORDER BY id LIMIT $2"
            }
            Self::PersonTotp => {
                "SELECT id, NULL, totp FROM person WHERE id > $1 AND totp IS NOT NULL ORDER BY id LIMIT $2"
            }
            Self::Mail => {
                "SELECT id, NULL, content FROM mail WHERE id > $1 AND due_at IS NOT NULL ORDER BY id LIMIT $2"
            }
        }
    }

    /// Statement that replaces the value $2 by $3 in the row $1.
    const fn replace(self) -> &'static str {
        match self {
            Self::SealCheck => {
                "UPDATE seal_check SET sealed = $3 WHERE id = CAST(CAST($1 AS TEXT) AS BIGINT) AND sealed = $2"
            }
            Self::ConnectionCredentials => {
                "UPDATE connection SET credentials = $3 WHERE id = $1 AND credentials = $2"
            }
            Self::ConnectionTokens => "UPDATE connection SET tokens = $3 WHERE id = $1 AND tokens = $2",
            Self::OauthFlow => "UPDATE oauth_flow SET pending = $3 WHERE state_hash = $1 AND pending = $2",
            Self::ScheduleSecret => {
                "UPDATE schedule SET callback_secret = $3, revision = revision + 1 \
                 WHERE id = $1 AND callback_secret = $2"
            }
            Self::RunSecret => {
                "UPDATE run_secret SET credentials = $3 WHERE run_id = $1 AND credentials = $2"
            }
            Self::Delivery => "UPDATE delivery SET target = $3 WHERE run_id = $1 AND target = $2",
            Self::ConnectionIssuer => "UPDATE connection SET issuer = $3 WHERE id = $1 AND issuer = $2",
            Self::ConnectionChallenge => {
                "UPDATE connection SET challenge = $3 WHERE id = $1 AND challenge = $2"
            }
            Self::PersonTotp => "UPDATE person SET totp = $3 WHERE id = $1 AND totp = $2",
            Self::Mail => "UPDATE mail SET content = $3 WHERE id = $1 AND content = $2",
        }
    }

    /// Id of a row as the database has it.
    fn key(self, row: &RowKey) -> Result<Val<'_>> {
        match (self, row) {
            (Self::OauthFlow, RowKey::Hash(hash)) => Ok(Val::from(hash.as_slice())),
            (Self::OauthFlow, RowKey::Text(text)) if text.is_empty() => Ok(Val::from(&[][..])),
            (Self::OauthFlow, RowKey::Text(_)) | (_, RowKey::Hash(_)) => {
                Err(Error::Corrupt("a row of another table".to_owned()))
            }
            (_, RowKey::Text(text)) => Ok(Val::from(text.as_str())),
        }
    }
}

/// Id of a row with a sealed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowKey {
    /// Text. The empty text sorts before all others.
    Text(String),
    /// Hash of a state.
    Hash(Vec<u8>),
}

row! {
    /// Sealed value with its organization.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SealedRow {
        /// Id of the row.
        pub row: RowKey = "row",
        /// Organization that owns the value; `None` for a value of the installation.
        pub org: Option<OrgId> = "org_id",
        /// Sealed value.
        pub sealed: Vec<u8> = "sealed",
    }
}

/// Value that is sealed anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resealed {
    /// Id of the row.
    pub row: RowKey,
    /// Value as it was read.
    pub old: Vec<u8>,
    /// New value, with the same content.
    pub new: Vec<u8>,
}

/// Master keys that a node has announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMasterKeys {
    /// Name of the node.
    pub name: String,
    /// Ids of the keys, the one it seals with first.
    pub ids: Vec<String>,
}

row! {
    struct MasterKeysRow {
        name: String = "name",
        ids: String = "master_keys",
    }
}

impl Column<'_> for RowKey {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        match value {
            Val::Text(id) => Some(Self::Text(id.clone().into_owned())),
            Val::Blob(hash) => Some(Self::Hash(hash.to_vec())),
            Val::Null | Val::Int(_) => None,
        }
    }
}

impl Store {
    /// System: returns at most `limit` values of a column after a row, in the order of the rows.
    pub async fn sealed_rows(
        &self,
        column: SealedColumn,
        after: RowKey,
        limit: u32,
    ) -> Result<Vec<SealedRow>> {
        self.db
            .read(move |tx| tx.read_all(column.page(), vec![column.key(&after)?, Val::from(limit)]))
            .await
    }

    /// System: replaces the values that are still the ones that were read. Returns their number.
    pub async fn reseal(
        &self,
        column: SealedColumn,
        values: Vec<Resealed>,
        audit: Option<Audit>,
    ) -> Result<u64> {
        let bytes = values.iter().map(|value| value.new.len()).sum();
        self.db
            .write_of(bytes, move |tx| {
                let mut statements = Vec::with_capacity(values.len() + 1);
                for value in &values {
                    let row = column.key(&value.row)?;
                    let mut params = vec![row];
                    params.extend(vals![value.old.as_slice(), value.new.as_slice()]);
                    statements.push(Stmt::new(column.replace(), params));
                }
                statements.extend(audit.as_ref().map(record));
                let answers = tx.batch(&statements)?;
                Ok(answers
                    .iter()
                    .take(values.len())
                    .map(|answer| answer.affected)
                    .sum())
            })
            .await
    }

    /// System: returns the master keys of the nodes with a valid lease.
    pub async fn node_master_keys(&self, now: Timestamp) -> Result<Vec<NodeMasterKeys>> {
        self.db
            .read(move |tx| {
                tx.query_all(
                    select!(
                        MasterKeysRow,
                        " FROM node WHERE ended_at IS NULL AND lease_until > $1"
                    ),
                    vals![now],
                )?
                .iter()
                .map(|row| {
                    let node = MasterKeysRow::read(row)?;
                    Ok(NodeMasterKeys {
                        name: node.name,
                        ids: key_ids(&node.ids),
                    })
                })
                .collect()
            })
            .await
    }
}
