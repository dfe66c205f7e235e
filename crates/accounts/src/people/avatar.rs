//! Pictures of people: upload, removal, and visibility.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use sortie_api::{ErrorCode, Refusal, UserId};
use sortie_base::hex;
use sortie_store::people::{Avatar, PersonRow};

use super::picture::{NoPicture, picture};
use crate::{Accounts, Result};

/// Maximum number of uploads of a person in an hour.
const UPLOADS: u32 = 20;

/// Number of characters of the picture's hash in its URL.
const HASH_CHARS: usize = 12;

impl Accounts {
    /// Sets the picture of a person, without its metadata. Returns the person.
    ///
    /// # Errors
    /// `InvalidRequest` for a file that is not a picture of a known format; `PayloadTooLarge` and `RateLimited` above the limits.
    pub async fn put_avatar(&self, user: UserId, content_type: &str, file: Bytes) -> Result<PersonRow> {
        let parts = &self.0;
        parts.attempt("avatar", &user.to_string(), UPLOADS).await?;
        let picture = picture(content_type, file).map_err(|rule| match rule {
            NoPicture::TooLarge => ErrorCode::PayloadTooLarge.because(rule.to_string()),
            NoPicture::Type | NoPicture::Broken(_) | NoPicture::Sides => {
                ErrorCode::InvalidRequest.because(rule.to_string())
            }
        })?;
        let avatar = Avatar {
            content_type: picture.format.media_type().to_owned(),
            sha256: Sha256::digest(&picture.bytes).into(),
            bytes: picture.bytes.into(),
            updated_at: parts.options.clock.now(),
        };
        parts.store.put_avatar(user, avatar).await?;
        self.person(user).await
    }

    /// Removes the picture of a person, if there is one.
    pub async fn delete_avatar(&self, user: UserId) -> Result<()> {
        Ok(self.0.store.delete_avatar(user).await?)
    }

    /// Returns the picture of `user`. Returns `NotFound` if the user has no picture, or if `viewer` shares no organization with
    /// `user`.
    pub async fn avatar(&self, viewer: UserId, user: UserId) -> Result<Avatar> {
        self.0
            .store
            .avatar(viewer, user)
            .await?
            .ok_or(Refusal::not_found())
    }

    /// Returns the URL of a picture with this hash. The URL changes with the picture, so a cached copy is never
    /// stale.
    pub fn url_of_avatar(&self, user: UserId, sha256: &[u8; 32]) -> String {
        let hash: String = hex(sha256).chars().take(HASH_CHARS).collect();
        format!("{}/v1/users/{user}/avatar?v={hash}", self.0.options.org_url)
    }
}
