//! Requests to an identity provider, and the cached responses.
//!
//! The operator configures the provider, so its address may be private or on this machine. Requests follow no redirect, and
//! both the size of a response and the time to read it are bounded.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use parking_lot::Mutex;
use reqwest::{
    Method, RequestBuilder, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
};
use serde::Deserialize;
use sortie_api::Credential;
use sortie_base::Clock;
use sortie_net::{Client, Network, Outbound, Reach, Timeouts, read_body};
use url::{Url, form_urlencoded};

use super::{
    IdentityProvider,
    document::KeptDocument,
    failure::{Failure, Fetched},
    keys::Keys,
    metadata::{ClientAuth, Metadata, metadata_url},
    signature::{self, Checked},
    token::{Claims, SignedToken},
};

/// Maximum size of a response, in bytes.
const LARGEST: usize = 256 * 1_024;
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which metadata and keys are cached.
const KEPT: Duration = Duration::from_hours(1);
/// Minimum time between two fetches of the keys because of an unknown key.
const KEYS_AGAIN: Duration = Duration::from_mins(1);

/// Identity provider with its cached documents.
pub(crate) struct Provider {
    pub(super) settings: IdentityProvider,
    outbound: Outbound,
    client: Mutex<Option<Client>>,
    metadata: KeptDocument<Metadata>,
    keys: KeptDocument<Arc<Keys>>,
}

/// Answer of a token endpoint.
#[derive(Deserialize)]
struct TokenAnswer {
    id_token: Credential,
    access_token: Option<Credential>,
}

/// Error of a token endpoint.
#[derive(Deserialize)]
struct TokenError {
    error: String,
}

/// Tokens for an authorization code.
pub(super) struct Tokens {
    /// ID token, not yet checked.
    pub(super) id_token: Credential,
    /// Access token, for the userinfo endpoint.
    pub(super) access_token: Option<Credential>,
}

/// Authorization code with the other parameters of its exchange.
#[derive(Clone, Copy)]
pub(super) struct Code<'a> {
    pub(super) text: &'a str,
    pub(super) verifier: &'a str,
    pub(super) redirect_uri: &'a str,
}

impl Provider {
    pub(crate) fn new(settings: IdentityProvider, outbound: Outbound) -> Self {
        Self {
            settings,
            outbound,
            client: Mutex::default(),
            metadata: KeptDocument::default(),
            keys: KeptDocument::default(),
        }
    }

    /// Returns the metadata of the provider.
    pub(super) async fn metadata(&self, clock: &Clock) -> Fetched<Metadata> {
        self.metadata.get(clock, KEPT, self.fetch_metadata()).await
    }

    async fn fetch_metadata(&self) -> Fetched<Metadata> {
        let issuer = &self.settings.issuer;
        let unreadable = Failure::away("the metadata cannot be read");
        let url = metadata_url(issuer).ok_or_else(|| unreadable("the issuer has a wrong form".to_owned()))?;
        let body = get(&self.client()?, &url, None).await.map_err(unreadable)?;
        Metadata::parse(&body, issuer).map_err(|rule| Failure::Away(format!("the document at {url} {rule}")))
    }

    async fn fetch_keys(&self, clock: &Clock) -> Fetched<Arc<Keys>> {
        let url = self.metadata(clock).await?.jwks_uri;
        let body = get(&self.client()?, &url, None)
            .await
            .map_err(Failure::away("the keys cannot be read"))?;
        let keys = Keys::parse(&body);
        keys.map(Arc::new)
            .map_err(|rule| Failure::Away(format!("the document at {url} {rule}")))
    }

    fn client(&self) -> Fetched<Client> {
        let mut known = self.client.lock();
        if let Some(client) = &*known {
            return Ok(client.clone());
        }
        let timeouts = Timeouts {
            connect: TIMEOUT,
            read: TIMEOUT,
            total: Some(TIMEOUT),
        };
        let network = Network::new(Reach::Private, Vec::new()).with_outbound(self.outbound.clone());
        let client =
            Client::on(Arc::new(network), timeouts).map_err(|error| Failure::Away(error.to_string()))?;
        *known = Some(client.clone());
        Ok(client)
    }

    /// Exchanges an authorization code for tokens.
    pub(super) async fn exchange(&self, metadata: &Metadata, code: Code<'_>) -> Fetched<Tokens> {
        let client = self.client()?;
        let settings = &self.settings;
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code.text),
            ("redirect_uri", code.redirect_uri),
            ("code_verifier", code.verifier),
        ];
        let unusable = Failure::away("the token endpoint cannot be used");
        let mut request = begin(&client, Method::POST, &metadata.token_endpoint)
            .map_err(&unusable)?
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        match metadata.client_auth {
            ClientAuth::Basic => request = request.header(AUTHORIZATION, basic(settings)),
            ClientAuth::Post => {
                fields.push(("client_id", &settings.client_id));
                fields.push(("client_secret", settings.client_secret.expose()));
            }
        }
        let form = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        let (status, body) = answer(&client, request.body(form)).await.map_err(unusable)?;
        if status != StatusCode::OK {
            let named = serde_json::from_slice::<TokenError>(&body).map(|error| error.error);
            let named = named.ok().filter(|name| is_error_name(name));
            let named = named.as_deref().unwrap_or("without a reason");
            let cause = format!("the token endpoint answered {} ({named})", status.as_u16());
            // Both errors concern the code, which comes from the browser.
            return Err(if matches!(named, "invalid_grant" | "invalid_request") {
                Failure::Refused(cause)
            } else {
                Failure::Away(cause)
            });
        }
        let tokens: TokenAnswer = serde_json::from_slice(&body)
            .map_err(|_| Failure::Away("the answer of the token endpoint has no ID token".to_owned()))?;
        Ok(Tokens {
            id_token: tokens.id_token,
            access_token: tokens.access_token,
        })
    }

    /// Checks the signature of an ID token. For an unknown key, the keys are fetched again at most once a minute.
    pub(super) async fn verified(&self, token: &SignedToken<'_>, clock: &Clock) -> Fetched<Claims> {
        for lifetime in [KEPT, KEYS_AGAIN] {
            let keys = self.keys.get(clock, lifetime, self.fetch_keys(clock)).await?;
            if let Checked::Claims(claims) = signature::check(token, &keys).map_err(Failure::refused)? {
                return Ok(claims);
            }
        }
        Err(Failure::refused("the ID token is signed with an unknown key"))
    }

    /// Reads the claims of the person at the userinfo endpoint.
    pub(super) async fn userinfo(
        &self,
        endpoint: &Url,
        access_token: &Credential,
        subject: &str,
    ) -> Fetched<Claims> {
        let client = self.client()?;
        let body = get(&client, endpoint, Some(access_token))
            .await
            .map_err(Failure::away("the userinfo endpoint cannot be used"))?;
        Claims::of_userinfo(&body, subject).map_err(Failure::refused)
    }
}

fn begin(client: &Client, method: Method, url: &Url) -> Result<RequestBuilder, String> {
    let request = client.request(method, url).map_err(|error| error.to_string())?;
    Ok(request.header(ACCEPT, "application/json"))
}

async fn answer(client: &Client, request: RequestBuilder) -> Result<(StatusCode, Bytes), String> {
    let text = |error: sortie_net::Error| error.to_string();
    let response = client.send(request).await.map_err(text)?;
    let status = response.status();
    Ok((status, read_body(response, LARGEST).await.map_err(text)?))
}

async fn get(client: &Client, url: &Url, token: Option<&Credential>) -> Result<Bytes, String> {
    let mut request = begin(client, Method::GET, url)?;
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose()));
    }
    let (status, body) = answer(client, request).await?;
    if status == StatusCode::OK {
        Ok(body)
    } else {
        Err(format!("the server answered {}", status.as_u16()))
    }
}

/// Client credentials in a header (RFC 6749, section 2.3.1): both are form-encoded first.
fn basic(settings: &IdentityProvider) -> String {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!(
        "{}:{}",
        encoded(&settings.client_id),
        encoded(settings.client_secret.expose())
    );
    format!("Basic {}", BASE64_STANDARD.encode(pair))
}

/// Whether a text is the name of an error that may appear in the log.
pub(super) fn is_error_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}
