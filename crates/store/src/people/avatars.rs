//! Pictures of people.

use sortie_api::{Timestamp, UserId};

use super::persons;
use crate::{
    Result, Store,
    db::{Stmt, insert, row, select, vals},
};

row! {
    /// Picture of a person.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Avatar {
        /// Media type of the bytes.
        pub content_type: String = "a.content_type",
        /// The picture.
        pub bytes: Vec<u8> = "a.bytes",
        /// SHA-256 of the bytes.
        pub sha256: [u8; 32] = "a.sha256",
        /// Time of the upload.
        pub updated_at: Timestamp = "a.updated_at",
    }
}

impl Store {
    /// Sets a person's picture and replaces any earlier one. `NotFound` if the account was deleted.
    pub async fn put_avatar(&self, user: UserId, avatar: Avatar) -> Result<()> {
        self.db
            .write(move |tx| tx.batch(&[persons::lock(user), put(user, &avatar)]).map(drop))
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

    /// Reads the picture of `user` for `viewer`. `None` if `user` has no picture, or if the two are different people
    /// without a common organization.
    pub async fn avatar(&self, viewer: UserId, user: UserId) -> Result<Option<Avatar>> {
        self.db
            .read(move |tx| {
                tx.read_opt(
                    select!(
                        Avatar,
                        " FROM avatar a WHERE a.user_id = $2 \
                         AND ($1 = $2 OR EXISTS (SELECT 1 FROM membership m WHERE m.user_id = $2 AND \
                         (SELECT v.user_id FROM membership v WHERE v.org_id = m.org_id AND v.user_id = $1) IS NOT NULL))"
                    ),
                    vals![viewer, user],
                )
            })
            .await
    }
}

fn put(user: UserId, avatar: &Avatar) -> Stmt<'_> {
    insert!("avatar", {
        "user_id": user,
        "content_type": avatar.content_type.as_str(),
        "bytes": avatar.bytes.as_slice(),
        "sha256": &avatar.sha256,
        "updated_at": avatar.updated_at,
    }, " ON CONFLICT (user_id) DO UPDATE SET content_type = excluded.content_type, bytes = excluded.bytes, sha256 = \
        excluded.sha256, updated_at = excluded.updated_at")
}
