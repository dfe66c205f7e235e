//! OAuth clients: those that registered themselves, and those that publish a metadata document.

use std::{fmt, str::FromStr};

use sortie_api::Timestamp;

use crate::{
    Error, Result, Store,
    db::{insert, row, select, text_columns, vals},
};

/// Origin of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OauthClientKind {
    /// The client registered itself.
    Registered,
    /// The client publishes a metadata document and uses its URL as the id.
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

text_columns!(OauthClientKind);

impl FromStr for OauthClientKind {
    type Err = UnknownOauthClientKind;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownOauthClientKind> {
        [Self::Registered, Self::Document]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or(UnknownOauthClientKind)
    }
}

row! {
    /// OAuth client with its metadata.
    #[derive(Clone, PartialEq, Eq)]
    pub struct OauthClientRow {
        /// ID that the client sends as `client_id`.
        pub id: String = "id",
        /// Origin of the client.
        pub kind: OauthClientKind = "kind",
        /// Metadata as JSON.
        pub metadata: String = "metadata",
        /// SHA-256 of the client's secret. `None` for a public client.
        pub secret_hash: Option<[u8; 32]> = "secret_hash",
        /// Time of the registration, or of the first fetch of the document.
        pub created_at: Timestamp = "created_at",
        /// Time after which the client is forgotten. A grant moves the time of a registered client. A document is fetched again
        /// after this time.
        pub expires_at: Timestamp = "expires_at",
    }
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

/// Error of a registration with an id that another client has.
const TAKEN: Error = Error::Conflict("there is a client with this id already");

impl Store {
    /// System: adds a registered client, or adds or refreshes the document of one. `Conflict` if the id belongs to a
    /// registered client.
    pub async fn keep_oauth_client(&self, client: OauthClientRow) -> Result<()> {
        self.db
            .write(move |tx| {
                let keep = insert!("oauth_client", {
                    "id": client.id.as_str(),
                    "kind": client.kind,
                    "metadata": client.metadata.as_str(),
                    "secret_hash": client.secret_hash.as_ref(),
                    "created_at": client.created_at,
                    "expires_at": client.expires_at,
                }, " ON CONFLICT (id) DO UPDATE SET metadata = excluded.metadata, expires_at = excluded.expires_at \
                    WHERE oauth_client.kind = 'document' AND excluded.kind = 'document'");
                tx.batch(&[keep.exactly(1, TAKEN)]).map(drop)
            })
            .await
    }

    /// System: reads a client. The client may have expired: the caller compares [`OauthClientRow::expires_at`] with its
    /// clock.
    pub async fn oauth_client(&self, id: &str) -> Result<Option<OauthClientRow>> {
        let id = id.to_owned();
        self.db
            .read(move |tx| {
                tx.read_opt(
                    select!(OauthClientRow, " FROM oauth_client WHERE id = $1"),
                    vals![id.as_str()],
                )
            })
            .await
    }
}
