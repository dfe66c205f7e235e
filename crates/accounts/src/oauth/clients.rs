//! OAuth clients: registration (RFC 7591), look-up, and proof of identity.

use std::time::Duration;

use sortie_api::{
    ErrorCode, OauthClientId, Refusal, Timestamp,
    file::is_deceptive,
    secret::{CLIENT_SECRET, Secret},
};
use sortie_base::random;
use sortie_store::oauth::{OauthClientKind, OauthClientRow};
use subtle::ConstantTimeEq as _;

use super::{
    OauthResult, documents,
    error::OauthErrorCode,
    metadata::{AuthMethod, ClientMetadata},
};
use crate::{Accounts, Result};

/// Time for which a registered client without a grant is remembered.
pub(super) const REMEMBERED: Duration = Duration::from_hours(24 * 30);
/// Maximum number of registrations, and of document fetches, of a network in an hour.
const REGISTRATIONS: u32 = 20;
const FETCHES: u32 = 60;
/// Maximum length of the name of a client, in characters.
const LONGEST_NAME: usize = 80;

/// Client as its registration returns it.
#[derive(Clone, Debug)]
pub struct RegisteredClient {
    /// ID that the client sends.
    pub id: OauthClientId,
    /// Secret of a confidential client. It is returned once.
    pub secret: Option<Secret>,
    /// Time of the registration.
    pub at: Timestamp,
    /// Metadata that was kept.
    pub metadata: ClientMetadata,
}

impl Accounts {
    /// Registers a client of `network` with metadata in JSON.
    pub async fn register_client(&self, body: &[u8], network: &str) -> OauthResult<RegisteredClient> {
        self.0.attempt("oauth-register", network, REGISTRATIONS).await?;
        let mut metadata = ClientMetadata::parse(body, None)?;
        metadata.client_name = metadata.client_name.as_deref().and_then(shown_name);
        let at = self.0.options.clock.now();
        let id = OauthClientId::new(at, random()?);
        let secret = match metadata.token_endpoint_auth_method {
            AuthMethod::None => None,
            AuthMethod::ClientSecretBasic | AuthMethod::ClientSecretPost => {
                Some(Secret::new(CLIENT_SECRET, random()?))
            }
        };
        let row = OauthClientRow {
            id: id.to_string(),
            kind: OauthClientKind::Registered,
            metadata: to_json(&metadata)?,
            secret_hash: secret.as_ref().map(Secret::hash),
            created_at: at,
            expires_at: at + REMEMBERED,
        };
        self.0.store.keep_oauth_client(row).await?;
        Ok(RegisteredClient {
            id,
            secret,
            at,
            metadata,
        })
    }

    /// Finds the metadata of a client. Returns `None` if no client has this id, and `InvalidRequest` if the document of the
    /// client is invalid.
    pub(super) async fn client(&self, id: &str, network: &str) -> Result<Option<ClientMetadata>> {
        let now = self.0.options.clock.now();
        let is_document = documents::is_document(id);
        if !is_document && id.parse::<OauthClientId>().is_err() {
            return Ok(None);
        }
        let known = self.0.store.oauth_client(id).await?;
        if let Some(row) = known.filter(|row| now < row.expires_at) {
            let metadata = serde_json::from_str(&row.metadata);
            return metadata.map(Some).map_err(Refusal::internal);
        }
        if !is_document {
            return Ok(None);
        }
        self.0.attempt("oauth-document", network, FETCHES).await?;
        let (mut metadata, lifetime) =
            documents::fetch(id, &self.0.options.outbound)
                .await
                .map_err(|reason| {
                    ErrorCode::InvalidRequest.because(format!(
                        "client_id: the document of the application cannot be used: {reason}"
                    ))
                })?;
        metadata.client_name = metadata.client_name.as_deref().and_then(shown_name);
        let row = OauthClientRow {
            id: id.to_owned(),
            kind: OauthClientKind::Document,
            metadata: to_json(&metadata)?,
            secret_hash: None,
            created_at: now,
            expires_at: now + lifetime,
        };
        self.0.store.keep_oauth_client(row).await?;
        Ok(Some(metadata))
    }

    /// Checks that a request at the token endpoint comes from this client. A client with a document is public, and its
    /// codes and tokens are bound to its id, so the document is not fetched again.
    pub(super) async fn authenticate_client(&self, id: &str, secret: Option<&str>) -> OauthResult<()> {
        let refused =
            || OauthErrorCode::InvalidClient.because("the client is unknown, or its secret is wrong");
        if documents::is_document(id) && secret.is_none() {
            return Ok(());
        }
        let row = match id.parse::<OauthClientId>() {
            Ok(_) => self.0.store.oauth_client(id).await?,
            Err(_) => None,
        };
        let now = self.0.options.clock.now();
        let row = row.filter(|row| now < row.expires_at).ok_or_else(refused)?;
        let proven = match (row.secret_hash, secret) {
            (None, None) => true,
            (Some(hash), Some(secret)) => Secret::parse(CLIENT_SECRET, secret)
                .is_ok_and(|secret| bool::from(secret.hash().ct_eq(&hash))),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if proven { Ok(()) } else { Err(refused().into()) }
    }
}

fn to_json(metadata: &ClientMetadata) -> Result<String> {
    serde_json::to_string(metadata).map_err(Refusal::internal)
}

/// Sanitizes a name for display: one line without characters that hide or reorder others. Returns `None` if
/// nothing remains.
fn shown_name(name: &str) -> Option<String> {
    let visible = |c: &char| !is_deceptive(*c) && (!c.is_control() || c.is_whitespace());
    let visible: String = name.chars().filter(visible).collect();
    let words = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = words.chars().take(LONGEST_NAME).collect();
    if shown.len() < words.len() {
        shown.push('…');
    }
    Some(shown).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_that_people_can_read() {
        for (name, shown) in [
            ("App", Some("App")),
            ("  two\r\n words\t", Some("two words")),
            ("<script>alert(1)</script>", Some("<script>alert(1)</script>")),
            ("\u{202e}txt.exe\u{200b}", Some("txt.exe")),
            ("\u{0}\u{1b}[0m", Some("[0m")),
            ("\u{200f} \u{feff}", None),
            ("", None),
        ] {
            assert_eq!(shown_name(name).as_deref(), shown, "{name:?}");
        }
        let long = shown_name(&"ä".repeat(1_000)).unwrap();
        assert_eq!(long, format!("{}…", "ä".repeat(80)));
    }
}
