//! Authorization of a connection: the request to the authorization server, and its answer through the browser.
//!
//! The `state` in the URL identifies the flow. Only a hash of it is stored. It is valid for one answer within ten minutes, and
//! belongs to one revision of one connection of one organization. Runs do not use the tokens of the answer before they are
//! confirmed (`confirm.rs`).

use std::time::Duration;

use sortie_api::{
    Credential, ErrorCode, OrgId, Refusal, connection::Authorization, limits, parameters::Parameters,
};
use sortie_connect::oauth;
use sortie_store::{
    access::{Actor, Caller},
    connections::{ConnectionRow, OauthFlow},
};
use url::Url;

use super::{
    Connections,
    addressed::Address,
    confirm::AwaitingConfirmation,
    definition_of,
    flow::{changed, issuer_at, pending_at, state_hash},
    resolve::target,
    secrets::{AuthSecret, OAuthClient},
};
use crate::kit::random::random;
use sortie_base::hex;

/// Path that the authorization server sends the browser back to.
const CALLBACK_PATH: &str = "/v1/oauth/callback";

/// Path of the client metadata documents. The document of a connection is below it, under the tag of the connection.
const CLIENT_DOCUMENTS_PATH: &str = "/v1/oauth/client-metadata";

/// Makes the engine's OAuth addresses from the base URL that clients use.
pub(super) fn home(base_url: &str) -> Option<oauth::Home> {
    let at = |path: &str| Url::parse(&format!("{}{path}", base_url.trim_end_matches('/'))).ok();
    Some(oauth::Home {
        redirect_uri: at(CALLBACK_PATH)?,
        // Authorization servers fetch the document, and trust it only over https.
        client_document: at(CLIENT_DOCUMENTS_PATH).filter(|url| url.scheme() == "https"),
    })
}

impl Connections {
    /// Begins an authorization. `Conflict` if the connection does not use OAuth, or its server breaks a rule of OAuth.
    pub async fn authorize(&self, caller: &Caller, name: &str) -> Result<Authorization, Refusal> {
        let org = caller.org;
        let row = self.row(org, name).await?;
        let secrets = self.secrets_of(org, &row)?;
        let AuthSecret::OAuth(client) = &secrets.auth else {
            return Err(
                ErrorCode::Conflict.because("the connection does not use oauth: its auth has another type")
            );
        };
        let home = self.0.home.as_ref().ok_or_else(|| {
            ErrorCode::Conflict.because("this node does not know its address: set advertise_url")
        })?;
        let settings = self.settings(org, &row, client)?;
        let target = target(&definition_of(&row)?, &secrets).map_err(Refusal::internal)?;
        let started = self
            .0
            .oauth
            .start(&target, &settings, home)
            .await
            .map_err(failure)?;
        let state_hash = state_hash(started.pending.state.expose());
        let now = self.0.clock.now();
        let expires_at = now + Duration::from_secs(limits::AUTHORIZATION_SECONDS);
        let pending = self
            .seal_for(
                pending_at(&hex(&state_hash), org),
                &Address::of_authorization(row.id, &Address::of_row(&row)?),
                &started.pending,
            )
            .await?;
        let flow = OauthFlow {
            state_hash,
            org,
            connection: row.id,
            revision: row.revision,
            pending,
            expires_at,
        };
        let audit = caller.audit((self.0.clock.now(), random()?), "connection.authorize", row.name);
        self.0.store.begin_authorization(flow, now, audit).await?;
        Ok(Authorization {
            authorization_url: started.authorization_url.into(),
            expires_at,
        })
    }

    /// Returns the settings of a flow.
    fn settings(
        &self,
        org: OrgId,
        row: &ConnectionRow,
        client: &OAuthClient,
    ) -> Result<oauth::Settings, Refusal> {
        let parsed = |text: &str| {
            Url::parse(text)
                .map_err(|error| Refusal::internal(format!("a stored url cannot be read: {error}")))
        };
        let endpoints = match &client.endpoints {
            Some((authorization_url, token_url)) => Some(oauth::Endpoints {
                authorization_url: parsed(authorization_url)?,
                token_url: parsed(token_url)?,
            }),
            None => None,
        };
        let issuer = match (&client.issuer, &endpoints) {
            (Some(named), _) => Some(named.clone()),
            // The given endpoints bind the client to their server: no issuer is needed.
            (None, Some(_)) => None,
            (None, None) => self.first_issuer(org, row)?,
        };
        Ok(oauth::Settings {
            client_id: client.client_id.clone(),
            client_secret: client.client_secret.as_deref().map(Credential::new),
            endpoints,
            scopes: client.scopes.clone(),
            issuer,
            challenge: self.challenge_of(org, row),
            granted: self.granted_scope(org, row),
            context: format!("{org}/{}", row.id),
        })
    }

    /// Scopes of the last authorization, if its tokens are stored and can be opened.
    fn granted_scope(&self, org: OrgId, row: &ConnectionRow) -> Option<String> {
        let sealed = row.tokens.as_deref()?;
        self.tokens_of(org, row, sealed).ok()?.grant.scope
    }

    /// Issuer that authorized the current definition of the connection. `None` before its first authorization.
    fn first_issuer(&self, org: OrgId, row: &ConnectionRow) -> Result<Option<String>, Refusal> {
        let id = row.id.to_string();
        let sealed = row.issuer.as_ref();
        sealed
            .map(|sealed| self.open(issuer_at(&id, org), sealed))
            .transpose()
    }

    /// Processes the answer that the browser brings, and stores its tokens until they are confirmed. Returns the facts for the
    /// person at the browser. `InvalidRequest` if no flow has the state. `Conflict` with the reason if the person or the server
    /// refused. `actor` is the browser, which has no credential.
    pub async fn finish_authorization(
        &self,
        actor: Actor,
        callback: oauth::Callback<'_>,
    ) -> Result<AwaitingConfirmation, Refusal> {
        let state = Parameters::of(callback.query.as_bytes()).one("state");
        let state = state.ok().flatten();
        let state = state.ok_or_else(|| ErrorCode::InvalidRequest.because("state: required, once"))?;
        let state_hash = state_hash(&state);
        let taken = self
            .0
            .store
            .take_authorization(state_hash, self.0.clock.now())
            .await?;
        let flow = taken.ok_or_else(|| {
            ErrorCode::InvalidRequest.because(
                "state: unknown, used before, or older than ten minutes: start the authorization again",
            )
        })?;
        let browser = Caller { org: flow.org, actor };
        let row = match self.0.store.connection_by_id(flow.org, flow.connection).await {
            Err(sortie_store::Error::NotFound) => return Err(changed()),
            row => row?,
        };
        if row.revision != flow.revision {
            return Err(changed());
        }
        let pending: oauth::Pending = self.open_for(
            pending_at(&hex(&state_hash), flow.org),
            &Address::of_authorization(flow.connection, &Address::of_row(&row)?),
            &flow.pending,
        )?;
        let server = pending.server.clone();
        match self.0.oauth.finish(pending, callback).await {
            Ok(grant) => {
                self.await_confirmation(&browser, &flow, &row, (&state, server, grant))
                    .await
            }
            Err(error) => {
                let audit = browser.audit(
                    (self.0.clock.now(), random()?),
                    "connection.not_authorized",
                    row.name,
                );
                let at = (flow.connection, flow.revision);
                self.0
                    .store
                    .record_failed_authorization(flow.org, at, error.to_string(), audit)
                    .await?;
                Err(failure(error))
            }
        }
    }

    /// Client metadata of a connection for its authorization server. `None` if the server could not fetch it. `tag` identifies
    /// the connection's own redirect URI.
    pub fn client_document(&self, tag: &str) -> Option<serde_json::Value> {
        let home = self.0.home.as_ref()?;
        let documents = home.client_document.as_ref()?;
        oauth::is_tag(tag).then(|| {
            oauth::client_document(
                &oauth::below(documents, tag),
                &oauth::below(&home.redirect_uri, tag),
            )
        })
    }
}

fn failure(error: oauth::Error) -> Refusal {
    match error {
        oauth::Error::Refused(why) | oauth::Error::NeedsAuthorization(why) => {
            ErrorCode::Conflict.because(why)
        }
        oauth::Error::Unavailable(why) => ErrorCode::Unavailable.because(why),
    }
}
