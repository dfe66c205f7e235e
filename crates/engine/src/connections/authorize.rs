//! Authorization of a connection: out to the authorization server, and back with its answer.
//!
//! The `state` in the URL is the only thing that finds the way back. A hash of it is stored, it is good for one answer within
//! ten minutes, and it belongs to one revision of one connection of one organization. The tokens that the answer brings serve
//! no run yet: they wait for their confirmation (`confirm.rs`).

use std::time::Duration;

use sortie_api::{Credential, OrgId, connection::Authorization, limits};
use sortie_connect::oauth;
use sortie_store::{Actor, ConnectionRow, OauthFlow};
use url::Url;

use super::{
    Connections,
    addressed::Address,
    confirm::AwaitingConfirmation,
    definition_of,
    flow::{changed, hash_of, issuer_at, pending_at},
    resolve::target,
    secrets::{AuthSecret, OAuthClient},
};
use crate::{credentials::sealing::hex, error::Error, kit::caller::Caller};

/// Where the authorization server sends a person back to.
const CALLBACK_PATH: &str = "/v1/oauth/callback";

/// Path of the client metadata documents of connections, each under its tag.
const CLIENT_DOCUMENTS_PATH: &str = "/v1/oauth/client-metadata";

/// Begins the hashed text of the state of a flow that waits for the browser. Nodes before this form look for the hash of
/// the state alone: they do not find such a flow, and refuse it instead of skipping its confirmation.
const STATE: &[u8] = b"sortie oauth state\0";

/// The engine's addresses under the one that clients use.
pub(super) fn home(base_url: &str) -> Option<oauth::Home> {
    let at = |path: &str| Url::parse(&format!("{}{path}", base_url.trim_end_matches('/'))).ok();
    Some(oauth::Home {
        redirect_uri: at(CALLBACK_PATH)?,
        // Authorization servers fetch it: only over https is it worth anything.
        client_document: at(CLIENT_DOCUMENTS_PATH).filter(|url| url.scheme() == "https"),
    })
}

impl Connections {
    /// Begins an authorization. `Conflict` where the connection does not use OAuth, or its server not as it should.
    pub async fn authorize(&self, caller: &Caller, name: &str) -> Result<Authorization, Error> {
        let org = caller.org;
        let row = self.row(org, name).await?;
        let secrets = self.secrets_of(org, &row)?;
        let AuthSecret::OAuth(client) = &secrets.auth else {
            return Err(Error::Conflict(
                "the connection does not use oauth: its auth has another type".to_owned(),
            ));
        };
        let home = self.0.home.as_ref().ok_or_else(|| {
            Error::Unavailable("this node knows no address of its own: set advertise_url".to_owned())
        })?;
        let settings = self.settings(org, &row, client)?;
        let target = target(&definition_of(&row)?, &secrets).map_err(Error::Internal)?;
        let started = self.0.oauth.start(&target, &settings, home).await.map_err(told)?;
        let state_hash = hash_of(STATE, started.pending.state.expose());
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
        let audit = caller.audit(&self.0.clock, "connection.authorize", row.name)?;
        self.0.store.begin_authorization(flow, now, audit).await?;
        Ok(Authorization {
            authorization_url: started.authorization_url.into(),
            expires_at,
        })
    }

    /// The settings of a flow.
    fn settings(
        &self,
        org: OrgId,
        row: &ConnectionRow,
        client: &OAuthClient,
    ) -> Result<oauth::Settings, Error> {
        let parsed = |text: &str| {
            Url::parse(text).map_err(|error| Error::Internal(format!("a stored url cannot be read: {error}")))
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
            // Given endpoints are where the client belongs.
            (None, Some(_)) => None,
            (None, None) => self.first_issuer(org, row)?,
        };
        Ok(oauth::Settings {
            client_id: client.client_id.clone(),
            client_secret: client.client_secret.as_deref().map(Credential::new),
            endpoints,
            scopes: client.scopes.clone(),
            issuer,
            context: format!("{org}/{}", row.id),
        })
    }

    /// The issuer that has authorized the connection as it is defined now.
    pub(super) fn first_issuer(&self, org: OrgId, row: &ConnectionRow) -> Result<Option<String>, Error> {
        let id = row.id.to_string();
        if let Some(sealed) = &row.issuer {
            return self.open(issuer_at(&id, org), sealed).map(Some);
        }
        // Tokens that an older node has stored.
        let Some(sealed) = &row.tokens else {
            return Ok(None);
        };
        match self.tokens_of(org, row, sealed) {
            Ok(held) => Ok(held.grant.issuer),
            // A new authorization is the remedy for tokens that do not open: they must not stand in its way.
            Err(error @ (Error::Conflict(_) | Error::Internal(_))) => {
                tracing::warn!(%error, connection = %row.id, "tokens do not open and are taken as absent");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes what the browser brought back, and keeps the tokens it leads to until they are confirmed. Returns what the person
    /// is told. `Invalid` where the state is nobody's, `Conflict` with a sentence where the person or the server said no.
    /// `actor` is who brings it: a browser, without a key.
    pub async fn finish_authorization(
        &self,
        actor: Actor,
        callback: oauth::Callback<'_>,
    ) -> Result<AwaitingConfirmation, Error> {
        let states: Vec<_> = url::form_urlencoded::parse(callback.query.as_bytes())
            .filter(|(name, _)| name == "state")
            .collect();
        let [(_, state)] = states.as_slice() else {
            return Err(Error::Invalid("state: required, once".to_owned()));
        };
        let state_hash = hash_of(STATE, state);
        let taken = self
            .0
            .store
            .take_authorization(state_hash, self.0.clock.now())
            .await?;
        let flow = taken.ok_or_else(|| {
            Error::Invalid(
                "state: unknown, used before, or older than ten minutes: start the authorization again"
                    .to_owned(),
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
                self.await_confirmation(&browser, &flow, &row, (state, server, grant))
                    .await
            }
            Err(error) => {
                let audit = browser.audit(&self.0.clock, "connection.not_authorized", row.name)?;
                let at = (flow.connection, flow.revision);
                self.0
                    .store
                    .record_failed_authorization(flow.org, at, error.to_string(), audit)
                    .await?;
                Err(told(error))
            }
        }
    }

    /// Client metadata of this engine for authorization servers; none where they could not reach it. `tag` is that of a
    /// connection's own redirect URI.
    pub fn client_document(&self, tag: Option<&str>) -> Option<serde_json::Value> {
        let home = self.0.home.as_ref()?;
        let documents = home.client_document.as_ref()?;
        match tag {
            Some(tag) if !oauth::is_tag(tag) => None,
            Some(tag) => Some(oauth::client_document(
                &oauth::below(documents, tag),
                &oauth::below(&home.redirect_uri, tag),
            )),
            None => {
                // Older grants are known by this one.
                let mut shared = documents.clone();
                shared.set_path(&format!("{}.json", documents.path()));
                Some(oauth::client_document(&shared, &home.redirect_uri))
            }
        }
    }
}

fn told(error: oauth::Error) -> Error {
    match error {
        oauth::Error::Refused(why) | oauth::Error::NeedsAuthorization(why) => Error::Conflict(why),
        oauth::Error::Unavailable(why) => Error::Unavailable(why),
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// A node of the version before looks for the hash of the state alone. It would store the tokens without a confirmation.
    #[test]
    fn a_node_that_asks_for_no_confirmation_does_not_find_a_flow() {
        let alone: [u8; 32] = Sha256::digest("state").into();
        assert_ne!(hash_of(STATE, "state"), alone);
        assert_ne!(hash_of(STATE, "state"), hash_of(b"another\0", "state"));
    }
}
