//! Organizations and their API keys. Only the SHA-256 of a key's secret is stored.

use sortie_api::{OrgId, Role, id::KeyId, key::ApiKey};

use crate::{
    Store,
    db::{Row, Stmt, Tx, batch, vals},
    types::{Error, KeyRecord, NewKey, Result},
};

impl Store {
    /// Makes the first organization with its first key, where there is none yet. False when there was one.
    pub async fn bootstrap(&self, organization_name: &str, key: NewKey) -> Result<bool> {
        let name = organization_name.to_owned();
        self.db.write(move |tx| first(tx, &name, &key)).await
    }

    /// Adds an API key. `NotFound` where there is no such organization.
    pub async fn create_key(&self, key: NewKey) -> Result<()> {
        self.db.write(move |tx| create(tx, &key)).await
    }

    /// The organization's keys, oldest first.
    pub async fn list_keys(&self, org: OrgId) -> Result<Vec<ApiKey>> {
        self.db
            .read(move |tx| {
                tx.query_all(
                    "SELECT id, name, role, created_at FROM api_key WHERE org_id = $1 \
                     ORDER BY created_at, id",
                    vals![org],
                )?
                .iter()
                .map(key_from)
                .collect()
            })
            .await
    }

    /// Revokes a key; `Conflict` for the last admin key.
    pub async fn delete_key(&self, org: OrgId, id: KeyId) -> Result<()> {
        self.db.write(move |tx| delete(tx, org, id)).await
    }

    /// System: whose key has this SHA-256.
    pub async fn find_key(&self, hash: [u8; 32]) -> Result<Option<KeyRecord>> {
        self.db
            .read(move |tx| {
                tx.query_opt(
                    "SELECT id, org_id, role FROM api_key WHERE hash = $1",
                    vals![hash.as_slice()],
                )?
                .as_ref()
                .map(record_from)
                .transpose()
            })
            .await
    }
}

fn first(tx: &mut dyn Tx, name: &str, key: &NewKey) -> Result<bool> {
    let [_, made, _] = batch(
        tx,
        &[
            // Two nodes may start on an empty database at once.
            Stmt::new("UPDATE dispatch SET turn = turn + 1 WHERE id = 1", vals![]),
            Stmt::new(
                "INSERT INTO organization (id, name, created_at) \
                 SELECT $1, $2, CAST($3 AS BIGINT) FROM dispatch \
                 WHERE id = 1 AND NOT EXISTS (SELECT 1 FROM organization)",
                vals![key.org, name, key.created_at],
            ),
            // The organization's id is new: it exists exactly if it was made here.
            insert(key),
        ],
    )?;
    Ok(made.affected == 1)
}

fn create(tx: &mut dyn Tx, key: &NewKey) -> Result<()> {
    tx.batch(&[insert(key).exactly(1, Error::NotFound)]).map(drop)
}

fn insert(key: &NewKey) -> Stmt<'_> {
    Stmt::new(
        "INSERT INTO api_key (id, org_id, name, role, hash, created_at) \
         SELECT $1, id, $3, $4, CAST($5 AS {BLOB}), CAST($6 AS BIGINT) FROM organization WHERE id = $2",
        vals![
            key.id,
            key.org,
            key.name.as_str(),
            key.role,
            key.hash.as_slice(),
            key.created_at
        ],
    )
}

fn delete(tx: &mut dyn Tx, org: OrgId, id: KeyId) -> Result<()> {
    let [_, deleted, left] = batch(
        tx,
        &[
            // A lock on the organization: of two that each delete "the last but one", one comes second.
            Stmt::new("UPDATE organization SET name = name WHERE id = $1", vals![org])
                .exactly(1, Error::NotFound),
            Stmt::new(
                "DELETE FROM api_key WHERE org_id = $1 AND id = $2 AND (role = $3 OR EXISTS \
                 (SELECT 1 FROM api_key k WHERE k.org_id = $1 AND k.id <> $2 AND k.role <> $3))",
                vals![org, id, Role::Member],
            ),
            Stmt::new(
                "SELECT 1 FROM api_key WHERE org_id = $1 AND id = $2",
                vals![org, id],
            ),
        ],
    )?;
    match (deleted.affected, left.rows.is_empty()) {
        (0, true) => Err(Error::NotFound),
        (0, false) => Err(Error::Conflict("the last admin key cannot be deleted")),
        _ => Ok(()),
    }
}

fn key_from(row: &Row) -> Result<ApiKey> {
    Ok(ApiKey {
        id: row.parse(0)?,
        name: row.text(1)?.to_owned(),
        role: row.parse(2)?,
        created_at: row.time(3)?,
    })
}

fn record_from(row: &Row) -> Result<KeyRecord> {
    Ok(KeyRecord {
        id: row.parse(0)?,
        org: row.parse(1)?,
        role: row.parse(2)?,
    })
}
