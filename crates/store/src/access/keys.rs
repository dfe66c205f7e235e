//! Organizations and their API keys. Only the SHA-256 of a key's secret is stored.
//!
//! The last admin key without an expiry cannot be deleted if no person owns the organization, because that would lock
//! everyone out. A rotated key keeps its id. Its previous secret works for a grace period; every older secret stops working
//! at once.

use sortie_api::{KeyId, OrgId, Role, Timestamp, key::ApiKey};

use crate::{
    Error, Result, Store,
    access::{Audit, By, audit::record, lookups::Ended},
    db::{ReadRow, Stmt, Tx, batch, insert, row, select, vals},
    error::unless,
    organizations::lock,
};

/// A key to add.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// ID of the key. It stays when the key is rotated.
    pub id: KeyId,
    /// Organization that owns the key.
    pub org: OrgId,
    /// Name for people.
    pub name: String,
    /// Role of the key's requests.
    pub role: Role,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
    /// Creation time.
    pub created_at: Timestamp,
    /// End of the key's validity. `None` for a key that does not expire.
    pub expires_at: Option<Timestamp>,
}

/// A new secret for a key.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// The key.
    pub id: KeyId,
    /// SHA-256 of the new secret.
    pub hash: [u8; 32],
    /// Time of the rotation. A key that has expired by then is refused.
    pub at: Timestamp,
    /// End of the previous secret's validity.
    pub previous_until: Timestamp,
}

/// Error of a bootstrap if an organization exists already.
const NOT_THE_FIRST: Error = Error::Conflict("there is an organization already");

row! {
    struct KeyRow(ApiKey) {
        id = "id",
        name = "name",
        role = "role",
        created_at = "created_at",
        expires_at = "expires_at",
        previous_until = "previous_until",
        last_used_at = "last_used_at",
    }
}

row! {
    struct NamesRow {
        organization: String = "o.name",
        key: Option<String> = "(SELECT k.name FROM api_key k WHERE k.id = $2 AND k.org_id = o.id)",
    }
}

impl Store {
    /// Creates the first organization with its first key. Returns false if an organization exists already.
    pub async fn bootstrap(&self, organization_name: &str, key: NewKey, audit: Audit) -> Result<bool> {
        let name = organization_name.to_owned();
        let made = self.db.write(move |tx| first(tx, &name, &key, &audit));
        unless(&NOT_THE_FIRST, made.await)
    }

    /// Returns the name of an organization.
    pub async fn organization_name(&self, org: OrgId) -> Result<String> {
        self.db
            .read(move |tx| {
                tx.query_one("SELECT name FROM organization WHERE id = $1", vals![org])?
                    .only()
            })
            .await
    }

    /// Returns the name of an organization and of one of its keys. The key may be deleted by now.
    pub async fn names_of_credential(
        &self,
        org: OrgId,
        key: Option<KeyId>,
    ) -> Result<(String, Option<String>)> {
        let sql = select!(NamesRow, " FROM organization o WHERE o.id = $1");
        let names: NamesRow = self.db.read(move |tx| tx.read_one(sql, vals![org, key])).await?;
        Ok((names.organization, names.key))
    }

    /// Adds an API key. `NotFound` if the organization does not exist.
    pub async fn create_key(&self, key: NewKey, audit: Audit) -> Result<()> {
        self.db.write(move |tx| create(tx, &key, &audit)).await
    }

    /// Returns at most `limit` of the organization's keys after a position, oldest first.
    pub async fn list_keys(
        &self,
        org: OrgId,
        after: Option<(Timestamp, KeyId)>,
        limit: u32,
    ) -> Result<Vec<ApiKey>> {
        let (at, id) = after.map_or((Timestamp::from_micros(i64::MIN), String::new()), |(at, id)| {
            (at, id.to_string())
        });
        self.db
            .read(move |tx| {
                let keys: Vec<KeyRow> = tx.read_all(
                    select!(
                        KeyRow,
                        " FROM api_key WHERE org_id = $1 AND (created_at, id) > ($2, $3) \
                         ORDER BY org_id, created_at, id LIMIT $4"
                    ),
                    vals![org, at, id.as_str(), limit],
                )?;
                Ok(keys.into_iter().map(|row| row.0).collect())
            })
            .await
    }

    /// System: notes the hour in which a key is used, unless a later one is noted.
    pub async fn note_key_use(&self, id: KeyId, hour: Timestamp) -> Result<()> {
        self.db
            .write(move |tx| tx.batch(&[note_use(id, hour)]).map(drop))
            .await
    }

    /// Deletes a key. `Conflict` for the last admin key that does not expire, unless a person owns the organization.
    pub async fn delete_key(&self, org: OrgId, id: KeyId, audit: Audit) -> Result<()> {
        let _ending = self.ending(Ended::Of(By::Key(id)));
        self.db.write(move |tx| delete(tx, org, id, &audit)).await
    }

    /// Gives a key a new secret. The current secret works until [`Rotation::previous_until`], and an older one stops now.
    /// `Conflict` if the key has expired.
    pub async fn rotate_key(&self, org: OrgId, rotation: Rotation, audit: Audit) -> Result<ApiKey> {
        let _ending = self.ending(Ended::Of(By::Key(rotation.id)));
        self.db.write(move |tx| rotate(tx, org, &rotation, &audit)).await
    }
}

fn first(tx: &mut dyn Tx, name: &str, key: &NewKey, audit: &Audit) -> Result<()> {
    tx.batch(&[
        // Lock: two nodes may start on an empty database at the same time.
        Stmt::new("UPDATE dispatch SET turn = turn + 1 WHERE id = 1", vals![]),
        insert!("organization", {
            "id": key.org,
            "name": name,
            "created_at" = "CAST(@ AS BIGINT)": key.created_at,
        }, select " FROM dispatch WHERE id = 1 AND NOT EXISTS (SELECT 1 FROM organization)")
        .exactly(1, NOT_THE_FIRST),
        insert(key),
        record(audit),
    ])
    .map(drop)
}

fn create(tx: &mut dyn Tx, key: &NewKey, audit: &Audit) -> Result<()> {
    tx.batch(&[
        lock(key.org),
        insert(key).exactly(1, Error::NotFound),
        record(audit),
    ])
    .map(drop)
}

fn insert(key: &NewKey) -> Stmt<'_> {
    insert!("api_key", {
        "id": key.id,
        "org_id" = "id",
        "name": key.name.as_str(),
        "role": key.role,
        "hash" = "CAST(@ AS {BLOB})": &key.hash,
        "created_at" = "CAST(@ AS BIGINT)": key.created_at,
        "expires_at" = "CAST(@ AS BIGINT)": key.expires_at,
    }, select " FROM organization WHERE id = @", key.org)
}

pub(super) fn note_use(id: KeyId, hour: Timestamp) -> Stmt<'static> {
    Stmt::new(
        "UPDATE api_key SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)",
        vals![id, hour],
    )
}

/// Returns a statement that refuses the command if the organization has no such key.
fn is_there(org: OrgId, id: KeyId) -> Stmt<'static> {
    Stmt::new(
        "SELECT 1 FROM api_key WHERE org_id = $1 AND id = $2",
        vals![org, id],
    )
    .exactly(1, Error::NotFound)
}

fn delete(tx: &mut dyn Tx, org: OrgId, id: KeyId, audit: &Audit) -> Result<()> {
    tx.batch(&[
        // Lock on the organization: otherwise two concurrent commands could delete the last two admin keys.
        lock(org),
        is_there(org, id),
        Stmt::new(
            "DELETE FROM api_key WHERE org_id = $1 AND id = $2 AND (role = $3 OR EXISTS \
             (SELECT 1 FROM api_key k WHERE k.org_id = $1 AND k.id <> $2 AND k.role <> $3 AND k.expires_at IS NULL) \
             OR EXISTS (SELECT 1 FROM membership m WHERE m.org_id = $1 AND m.role = $4))",
            vals![org, id, Role::Member, Role::Owner],
        )
        .exactly(
            1,
            Error::Conflict("the last admin key that does not expire cannot be deleted"),
        ),
        record(audit),
    ])
    .map(drop)
}

fn rotate(tx: &mut dyn Tx, org: OrgId, rotation: &Rotation, audit: &Audit) -> Result<ApiKey> {
    let statements = [
        is_there(org, rotation.id),
        Stmt::new(
            constcat::concat!(
                "UPDATE api_key SET previous_hash = hash, previous_until = $5, hash = $4 \
                 WHERE org_id = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3) RETURNING ",
                KeyRow::COLUMNS
            ),
            vals![
                org,
                rotation.id,
                rotation.at,
                rotation.hash.as_slice(),
                rotation.previous_until
            ],
        )
        .exactly(1, Error::Conflict("the key has expired: make a new one")),
        record(audit),
    ];
    let [_, rotated, _] = batch(tx, &statements)?;
    let KeyRow(key) = rotated.one()?;
    Ok(key)
}
