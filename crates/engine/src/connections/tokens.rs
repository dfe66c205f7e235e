//! Access tokens of OAuth connections: the one that is stored, or a fresh one.
//!
//! A refresh token may be good for one use, so it is used once: under a lock on this node and under a lease across nodes.
//! The lease and the renewal are one task of the node's own, so that no run which ends in its midst takes the new tokens
//! with it, or leaves a lease that nobody uses. Each use reads the store: what another node has renewed is seen at once.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, Weak},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use sortie_api::{ConnectionId, Credential, OrgId, Timestamp};
use sortie_connect::{TokenError, Tokens, oauth};
use sortie_store::{ConnectionRow, Error as StoreError, RefreshHolder, SeenTokens};
use tokio::time::Instant;

use super::{
    Connections,
    addressed::{Address, Addressed},
};
use crate::{credentials::sealing::Place, error::Error, kit::clock::random};

/// How long a node has to renew tokens before another may try.
const LEASE: Duration = Duration::from_mins(2);

/// How long a call waits for somebody else's renewal, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(45);
const LOOK: Duration = Duration::from_millis(200);

/// How long renewed tokens are tried to be stored: without them the connection would be lost.
const STORING: Duration = Duration::from_mins(1);

/// How long before its end a token is renewed, in seconds; a short-lived one at half its life.
const MARGIN_SECONDS: u64 = 60;

/// How long a grant is not renewed because a server refuses its token: a server that refuses one request for good must
/// not make the engine use up one refresh token after another.
const REST: Duration = Duration::from_mins(1);

/// Reason for which tokens that open are not used.
const UNFIT: &str = "the tokens were stored for another address than the connection has in the database, or by an earlier \
                     version after the upgrade was complete: authorize it again";

/// A grant as it is sealed.
#[derive(Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) grant: oauth::Grant,
    /// When the authorization server gave it.
    pub(super) given_at: Timestamp,
}

/// What is to be done where a token is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The access token is good.
    Use,
    /// It is refused or nearly over, and can be renewed.
    Renew,
    /// It is refused, but so new that another would be refused as well.
    Rest,
    /// It is refused and cannot be renewed. It is not over: other requests may still be answered.
    Fail,
    /// It is over, and cannot be renewed.
    GiveUp,
}

impl Held {
    fn step(&self, now: Timestamp, refused: Option<&Credential>) -> Step {
        let is_refused = refused == Some(&self.grant.access_token);
        match (self.is_fresh(now), self.grant.is_refreshable()) {
            (true, _) if !is_refused => Step::Use,
            (true, true) if now < self.given_at + REST => Step::Rest,
            (_, true) => Step::Renew,
            (true, false) => Step::Fail,
            (false, false) => Step::GiveUp,
        }
    }

    fn is_fresh(&self, now: Timestamp) -> bool {
        let Some(seconds) = self.grant.expires_in_seconds else {
            return true;
        };
        let margin = MARGIN_SECONDS.min(seconds.div_ceil(2));
        now < self.given_at + Duration::from_secs((seconds - margin).min(u64::from(u32::MAX)))
    }
}

/// Where the tokens of one connection come from.
pub(super) struct ConnectionTokens {
    connections: Connections,
    org: OrgId,
    id: ConnectionId,
    /// Address that the tokens are sent to: tokens that were given for another one are not used.
    address: Address,
}

impl ConnectionTokens {
    pub(super) const fn new(
        connections: Connections,
        (org, id): (OrgId, ConnectionId),
        address: Address,
    ) -> Self {
        Self {
            connections,
            org,
            id,
            address,
        }
    }
}

impl Tokens for ConnectionTokens {
    fn token<'a>(&'a self, refused: Option<&'a Credential>) -> BoxFuture<'a, Result<Credential, TokenError>> {
        let at = (self.org, self.id);
        Box::pin(self.connections.token(at, &self.address, refused))
    }
}

fn unavailable(error: impl std::fmt::Display) -> TokenError {
    TokenError::Unavailable(error.to_string())
}

pub(super) fn tokens_at(row: &str, org: OrgId) -> Place<'_> {
    Place {
        table: "connection",
        column: "tokens",
        row,
        org: Some(org),
    }
}

impl Connections {
    async fn token(
        &self,
        (org, id): (OrgId, ConnectionId),
        address: &Address,
        refused: Option<&Credential>,
    ) -> Result<Credential, TokenError> {
        let lock = self.lock_of(id);
        let _one_at_a_time = lock.lock().await;
        let give_up = Instant::now() + PATIENCE;
        loop {
            let (held, seen) = self.held((org, id), address).await?;
            let now = self.0.clock.now();
            match held.step(now, refused) {
                Step::Use => return Ok(held.grant.access_token),
                Step::Renew => {}
                Step::Rest => return Err(TokenError::JustGiven),
                Step::Fail => {
                    let why = "the server refuses the access token, and gave none to renew it with";
                    return Err(TokenError::NeedsAuthorization(why.to_owned()));
                }
                Step::GiveUp => {
                    let why = "the access token is over, and the server gave none to renew it with";
                    self.give_up_grant(seen, why).await?;
                    return Err(TokenError::NeedsAuthorization(why.to_owned()));
                }
            }
            // What cannot be sealed afterwards is not asked for: the refresh token may be good for one use.
            self.fits().await.map_err(unavailable)?;
            let connections = self.clone();
            let held = Addressed {
                value: held,
                address: Some(address.clone()),
            };
            let renewal = self
                .0
                .tracker
                .spawn(async move { connections.renew(seen, held, give_up).await });
            let renewed = renewal
                .await
                .map_err(|_| unavailable("the renewal did not end"))?;
            if let Some(token) = renewed? {
                return Ok(token);
            }
            if Instant::now() > give_up {
                return Err(unavailable("another node has been renewing it for too long"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn lock_of(&self, id: ConnectionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.0.refreshes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = all.get(&id).and_then(Weak::upgrade) {
            return lock;
        }
        forget_unused(&mut all);
        let lock = Arc::default();
        all.insert(id, Arc::downgrade(&lock));
        lock
    }

    /// The tokens beside a saved connection.
    pub(super) fn tokens_of(&self, org: OrgId, row: &ConnectionRow, sealed: &[u8]) -> Result<Held, Error> {
        let address = Address::of_row(row)?;
        self.open_for(tokens_at(&row.id.to_string(), org), &address, sealed)
    }

    /// The stored grant of a connection, and which one it is.
    async fn held(
        &self,
        (org, id): (OrgId, ConnectionId),
        address: &Address,
    ) -> Result<(Held, SeenTokens), TokenError> {
        let row: ConnectionRow = match self.0.store.connection_by_id(org, id).await {
            Ok(row) => row,
            Err(sortie_store::Error::NotFound) => {
                return Err(TokenError::NeedsAuthorization(
                    "the connection was deleted".to_owned(),
                ));
            }
            Err(error) => return Err(unavailable(Error::from(error))),
        };
        let Some(sealed) = &row.tokens else {
            let why = row
                .error
                .unwrap_or_else(|| "nobody has authorized it yet".to_owned());
            return Err(TokenError::NeedsAuthorization(why));
        };
        let held = match self.open_for(tokens_at(&id.to_string(), org), address, sealed) {
            Ok(held) => held,
            Err(Error::Conflict(_)) => return Err(TokenError::NeedsAuthorization(UNFIT.to_owned())),
            Err(error) => return Err(unavailable(error)),
        };
        let seen = SeenTokens {
            org,
            connection: id,
            version: row.tokens_version,
        };
        Ok((held, seen))
    }

    /// Takes the lease of a grant and renews it. `None` where somebody else has the lease, or has renewed the grant.
    async fn renew(
        &self,
        seen: SeenTokens,
        held: Addressed<Held>,
        give_up: Instant,
    ) -> Result<Option<Credential>, TokenError> {
        // The same in each request: the answer to one that took the lease may have been lost.
        let holder = RefreshHolder(i64::from_be_bytes(random().map_err(unavailable)?));
        let leased = until_answered(give_up, || {
            let now = self.0.clock.now();
            self.0.store.lease_refresh(seen, holder, now, LEASE)
        });
        if leased.await.map_err(|error| unavailable(Error::from(error)))? {
            self.renew_leased(seen, holder, held).await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Renews a grant under its lease, and stores what came of it.
    async fn renew_leased(
        &self,
        seen: SeenTokens,
        holder: RefreshHolder,
        held: Addressed<Held>,
    ) -> Result<Credential, TokenError> {
        match self.0.oauth.refresh(&held.value.grant).await {
            Ok(grant) => {
                let token = grant.access_token.clone();
                let value = Held {
                    grant,
                    given_at: self.0.clock.now(),
                };
                self.keep(seen, &Addressed { value, ..held }).await?;
                Ok(token)
            }
            Err(oauth::Error::NeedsAuthorization(why)) => {
                self.give_up_grant(seen, &why).await?;
                Err(TokenError::NeedsAuthorization(why))
            }
            Err(error @ (oauth::Error::Refused(_) | oauth::Error::Unavailable(_))) => {
                if let Err(error) = self.0.store.release_refresh(seen, holder).await {
                    tracing::warn!(connection = %seen.connection, %error, "a lease could not be given back: it ends by itself");
                }
                Err(unavailable(error))
            }
        }
    }

    /// Stores a renewed grant. Where that fails it is tried for a while: the old one may be worth nothing now.
    async fn keep(&self, seen: SeenTokens, held: &Addressed<Held>) -> Result<(), TokenError> {
        let row = seen.connection.to_string();
        let give_up = Instant::now() + STORING;
        let mut pause = LOOK;
        loop {
            let saved = match self.seal(tokens_at(&row, seen.org), held).await {
                Ok(sealed) => {
                    let saved = self.0.store.save_refreshed(seen, sealed).await;
                    saved.map_err(Error::from)
                }
                Err(error) => Err(error),
            };
            match saved {
                // False: authorized anew or deleted meanwhile, so that these are not needed, or stored by a try whose
                // answer was lost.
                Ok(_) => return Ok(()),
                Err(_) if Instant::now() < give_up => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(error) => {
                    tracing::error!(connection = %seen.connection, %error, "renewed tokens could not be stored");
                    return Err(unavailable(error));
                }
            }
        }
    }

    async fn give_up_grant(&self, seen: SeenTokens, why: &str) -> Result<(), TokenError> {
        let dropped = self.0.store.drop_refused(seen, why.to_owned()).await;
        dropped.map(drop).map_err(|error| unavailable(Error::from(error)))
    }
}

/// Asks for a lease, again for as long as the database does not say whether it was taken.
async fn until_answered<F>(give_up: Instant, ask: impl Fn() -> F) -> Result<bool, StoreError>
where
    F: Future<Output = Result<bool, StoreError>>,
{
    loop {
        match ask().await {
            Err(StoreError::Unavailable(_)) if Instant::now() < give_up => tokio::time::sleep(LOOK).await,
            answer => return answer,
        }
    }
}

fn forget_unused(locks: &mut HashMap<ConnectionId, Weak<tokio::sync::Mutex<()>>>) {
    locks.retain(|_, lock| lock.strong_count() > 0);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    /// Given at second 1000, good for `seconds`.
    fn held(seconds: Option<u64>, refresh_token: Option<&str>) -> Held {
        let grant = json!({
            "access_token": "at", "expires_in_seconds": seconds, "refresh_token": refresh_token, "scope": null,
            "issuer": null, "token_url": "https://login.example/token", "resource": null,
            "identity": {"client_id": "c", "client_secret": null, "method": "none"},
        });
        Held {
            grant: serde_json::from_value(grant).unwrap(),
            given_at: at(1000),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_whose_answer_was_lost_is_asked_for_again_within_the_patience() {
        let asked = Cell::new(0);
        let lost = || async { Err(StoreError::Unavailable("the answer was lost".to_owned())) };
        let at_first_lost = || async {
            asked.set(asked.get() + 1);
            if asked.get() == 1 { lost().await } else { Ok(true) }
        };
        let give_up = Instant::now() + PATIENCE;
        assert_eq!(until_answered(give_up, at_first_lost).await, Ok(true));
        assert!(until_answered(give_up, lost).await.is_err());
        assert!(Instant::now() >= give_up);
    }

    #[test]
    fn a_refused_token_is_renewed_once_a_minute_at_most() {
        let (this, other) = (Credential::new("at"), Credential::new("older"));
        for seconds in [None, Some(3600)] {
            let held = held(seconds, Some("rt"));
            assert_eq!(held.step(at(1001), None), Step::Use);
            assert_eq!(held.step(at(1001), Some(&other)), Step::Use);
            assert_eq!(held.step(at(1059), Some(&this)), Step::Rest);
            assert_eq!(held.step(at(1060), Some(&this)), Step::Renew);
        }
        let nearly_over = held(Some(100), Some("rt"));
        assert_eq!(nearly_over.step(at(1051), None), Step::Renew);
    }

    #[test]
    fn a_grant_that_cannot_be_renewed_is_given_up_when_it_is_over_and_no_sooner() {
        let this = Credential::new("at");
        let held = held(Some(3600), None);
        assert_eq!(held.step(at(1001), None), Step::Use);
        for second in [1001, 2000] {
            assert_eq!(held.step(at(second), Some(&this)), Step::Fail);
        }
        assert_eq!(held.step(at(4600), None), Step::GiveUp);
        assert_eq!(held.step(at(4600), Some(&this)), Step::GiveUp);
    }
}
