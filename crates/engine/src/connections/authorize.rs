//! The way of a person who authorizes a connection: out to the authorization server, and back with its answer.
//!
//! The `state` in the URL is the only thing that finds the way back. Its SHA-256 is stored, it is good for one answer
//! within ten minutes, and it belongs to one revision of one connection of one organization.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use sortie_api::{Credential, OrgId, connection::Authorization, limits};
use sortie_connect::oauth;
use sortie_store::{Actor, OauthFlow};
use url::Url;

use super::{
    Connections,
    addressed::Address,
    definition_of,
    resolve::target,
    secrets::AuthSecret,
    tokens::{Held, tokens_at},
};
use crate::{
    Caller, Error,
    sealing::{Place, hex},
};

/// Where the authorization server sends a person back to.
pub const CALLBACK_PATH: &str = "/v1/oauth/callback";

/// Where the engine says who it is to authorization servers.
pub const CLIENT_DOCUMENT_PATH: &str = "/v1/oauth/client-metadata.json";

/// The engine's addresses under the one that clients use.
pub(super) fn home(base_url: &str) -> Option<oauth::Home> {
    let at = |path: &str| Url::parse(&format!("{}{path}", base_url.trim_end_matches('/'))).ok();
    Some(oauth::Home {
        redirect_uri: at(CALLBACK_PATH)?,
        // Authorization servers fetch it: only over https is it worth anything.
        client_document: at(CLIENT_DOCUMENT_PATH).filter(|url| url.scheme() == "https"),
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
        let settings = oauth::Settings {
            client_id: client.client_id.clone(),
            client_secret: client.client_secret.as_deref().map(Credential::new),
            endpoints,
            scopes: client.scopes.clone(),
        };
        let target = target(&definition_of(&row)?, &secrets).map_err(Error::Internal)?;
        let started = self.0.oauth.start(&target, &settings, home).await.map_err(told)?;
        let state_hash: [u8; 32] = Sha256::digest(started.pending.state.expose()).into();
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

    /// Ends an authorization with the query that the browser brought back. The name of the connection, which is ready now.
    /// `Invalid` where the state is nobody's, `Conflict` with a sentence where the person or the server said no.
    /// `actor` is who brings it: a browser, without a key.
    pub async fn finish_authorization(&self, actor: Actor, query: &str) -> Result<String, Error> {
        let states: Vec<_> = url::form_urlencoded::parse(query.as_bytes())
            .filter(|(name, _)| name == "state")
            .collect();
        let [(_, state)] = states.as_slice() else {
            return Err(Error::Invalid("state: required, once".to_owned()));
        };
        let state_hash: [u8; 32] = Sha256::digest(state.as_bytes()).into();
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
        let changed = || {
            Error::Conflict("the connection was changed meanwhile: start the authorization again".to_owned())
        };
        let connection = match self.0.store.connection_by_id(flow.org, flow.connection).await {
            Err(sortie_store::Error::NotFound) => return Err(changed()),
            row => row?,
        };
        if connection.revision != flow.revision {
            return Err(changed());
        }
        let address = Address::of_row(&connection)?;
        let pending: oauth::Pending = self.open_for(
            pending_at(&hex(&state_hash), flow.org),
            &Address::of_authorization(flow.connection, &address),
            &flow.pending,
        )?;
        let at = (flow.connection, flow.revision);
        let grant = match self.0.oauth.finish(pending, query).await {
            Ok(grant) => grant,
            Err(error) => {
                self.0
                    .store
                    .record_failed_authorization(flow.org, at, error.to_string())
                    .await?;
                return Err(told(error));
            }
        };
        let held = Held {
            grant,
            given_at: self.0.clock.now(),
        };
        let row = flow.connection.to_string();
        let sealed = self.seal_for(tokens_at(&row, flow.org), &address, &held).await?;
        let name = connection.name;
        let browser = Caller {
            org: flow.org,
            actor,
            schedule: None,
        };
        let audit = browser.audit(&self.0.clock, "connection.authorized", &*name)?;
        if !self
            .0
            .store
            .save_authorization(flow.org, at, sealed, audit)
            .await?
        {
            return Err(changed());
        }
        Ok(name)
    }

    /// What the engine says of itself to authorization servers; none where they could not reach it.
    pub fn client_document(&self) -> Option<serde_json::Value> {
        let home = self.0.home.as_ref()?;
        let document = home.client_document.as_ref()?;
        Some(oauth::client_document(document, &home.redirect_uri))
    }
}

fn told(error: oauth::Error) -> Error {
    match error {
        oauth::Error::Refused(why) | oauth::Error::NeedsAuthorization(why) => Error::Conflict(why),
        oauth::Error::Unavailable(why) => Error::Unavailable(why),
    }
}

fn pending_at(row: &str, org: OrgId) -> Place<'_> {
    Place {
        table: "oauth_flow",
        column: "pending",
        row,
        org: Some(org),
    }
}
