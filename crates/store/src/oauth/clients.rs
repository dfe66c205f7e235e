//! OAuth clients: those that registered themselves, and those that publish a metadata document.

use std::{fmt, str::FromStr};

use sortie_api::Timestamp;

use crate::{
    Store,
    db::{Row, vals},
    types::{Error, Result},
};

/// Origin of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OauthClientKind {
    /// The client registered itself.
    Registered,
    /// The client publishes a metadata document, whose URL is its id.
    Document,
}

/// A text that is no kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be registered or document")]
pub struct UnknownOauthClientKind;

impl OauthClientKind {
    /// The name in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Document => "document",
        }
    }
}

impl FromStr for OauthClientKind {
    type Err = UnknownOauthClientKind;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownOauthClientKind> {
        [Self::Registered, Self::Document]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or(UnknownOauthClientKind)
    }
}

/// OAuth client with its metadata.
#[derive(Clone, PartialEq, Eq)]
pub struct OauthClientRow {
    /// ID that the client sends as `client_id`.
    pub id: String,
    /// Origin of the client.
    pub kind: OauthClientKind,
    /// Metadata as JSON.
    pub metadata: String,
    /// SHA-256 of the client's secret; none for a public client.
    pub secret_hash: Option<[u8; 32]>,
    /// Time of the registration, or of the first fetch of the document.
    pub created_at: Timestamp,
    /// Time after which the client is forgotten. A grant moves the time of a registered client. A document is fetched again
    /// after this time.
    pub expires_at: Timestamp,
}

impl fmt::Debug for OauthClientRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OauthClientRow")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// System: adds a registered client, or adds or refreshes the document of one. `Conflict` where the id belongs to a
    /// registered client.
    pub async fn keep_oauth_client(&self, client: OauthClientRow) -> Result<()> {
        self.db
            .write(move |tx| {
                let kept = tx.exec(
                    "INSERT INTO oauth_client (id, kind, metadata, secret_hash, created_at, expires_at) \
                     VALUES ($1, $2, $3, $4, $5, $6) \
                     ON CONFLICT (id) DO UPDATE SET metadata = excluded.metadata, expires_at = excluded.expires_at \
                     WHERE oauth_client.kind = 'document' AND excluded.kind = 'document'",
                    vals![
                        client.id.as_str(),
                        client.kind.as_str(),
                        client.metadata.as_str(),
                        client.secret_hash.as_ref().map(<[u8; 32]>::as_slice),
                        client.created_at,
                        client.expires_at
                    ],
                )?;
                if kept == 1 {
                    Ok(())
                } else {
                    Err(Error::Conflict("there is a client with this id already"))
                }
            })
            .await
    }

    /// System: reads a client. The client may have expired: the caller compares [`OauthClientRow::expires_at`] with its
    /// clock.
    pub async fn oauth_client(&self, id: &str) -> Result<Option<OauthClientRow>> {
        let id = id.to_owned();
        self.db
            .read(move |tx| {
                tx.query_opt(
                    "SELECT id, kind, metadata, secret_hash, created_at, expires_at FROM oauth_client WHERE id = $1",
                    vals![id.as_str()],
                )?
                .as_ref()
                .map(client_from)
                .transpose()
            })
            .await
    }
}

fn client_from(row: &Row) -> Result<OauthClientRow> {
    let secret_hash = row.opt_blob(3)?.map(<[u8; 32]>::try_from).transpose();
    Ok(OauthClientRow {
        id: row.text(0)?.to_owned(),
        kind: row.parse(1)?,
        metadata: row.text(2)?.to_owned(),
        secret_hash: secret_hash.map_err(|_| Error::Corrupt("a secret_hash is not 32 bytes".to_owned()))?,
        created_at: row.time(4)?,
        expires_at: row.time(5)?,
    })
}
