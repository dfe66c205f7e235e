//! Pictures of people.

use sortie_api::{Timestamp, UserId};

use crate::{
    Store,
    db::vals,
    types::{Error, Result},
};

/// Picture of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Avatar {
    /// Media type of the bytes.
    pub content_type: String,
    /// The picture.
    pub bytes: Vec<u8>,
    /// SHA-256 of the bytes.
    pub sha256: [u8; 32],
}

impl Store {
    /// Keeps the picture of a person in the place of an earlier one.
    pub async fn put_avatar(&self, user: UserId, avatar: Avatar, at: Timestamp) -> Result<()> {
        self.db
            .write_of(avatar.bytes.len(), move |tx| {
                tx.exec(
                    "INSERT INTO avatar (user_id, content_type, bytes, sha256, updated_at) VALUES ($1, $2, $3, $4, $5) \
                     ON CONFLICT (user_id) DO UPDATE SET content_type = excluded.content_type, bytes = excluded.bytes, \
                     sha256 = excluded.sha256, updated_at = excluded.updated_at",
                    vals![
                        user,
                        avatar.content_type.as_str(),
                        avatar.bytes.as_slice(),
                        avatar.sha256.as_slice(),
                        at
                    ],
                )
                .map(drop)
            })
            .await
    }

    /// Deletes the picture of a person, if there is one.
    pub async fn delete_avatar(&self, user: UserId) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.exec("DELETE FROM avatar WHERE user_id = $1", vals![user])
                    .map(drop)
            })
            .await
    }

    /// Reads the picture of a person for `viewer`: the person, or somebody who shares an organization. `NotFound` for
    /// everybody else, and where there is none.
    pub async fn avatar(&self, viewer: UserId, user: UserId) -> Result<Avatar> {
        self.db
            .read(move |tx| {
                let row = tx.query_one(
                    "SELECT a.content_type, a.bytes, a.sha256 FROM avatar a WHERE a.user_id = $2 AND ($1 = $2 OR EXISTS \
                     (SELECT 1 FROM membership m WHERE m.user_id = $1 \
                     AND m.org_id {IN}SELECT o.org_id FROM membership o WHERE o.user_id = $2{END}))",
                    vals![viewer, user],
                )?;
                Ok(Avatar {
                    content_type: row.text(0)?.to_owned(),
                    bytes: row.blob(1)?.to_vec(),
                    sha256: row
                        .blob(2)?
                        .try_into()
                        .map_err(|_| Error::Corrupt("the hash of a picture".to_owned()))?,
                })
            })
            .await
    }
}
