//! Access tokens of OAuth connections: the stored token, or a refreshed one.
//!
//! A refresh token may be valid for one use, so it is used once: under a lock on this node and under a lease across nodes. A
//! background task of the node takes the lease and refreshes, so a run that ends during a refresh neither loses the new tokens
//! nor leaves an unused lease. Each use reads the store, so a token that another node has refreshed is used at once.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use sortie_api::{ConnectionId, ConnectionStatus, Credential, ErrorCode, OrgId, Refusal, Timestamp};
use sortie_connect::{TokenError, Tokens, oauth};
use sortie_store::{
    Error as StoreError,
    connections::{ConnectionRow, RefreshHolder, SeenTokens},
};
use tokio::time::Instant;

use super::{
    Connections,
    addressed::{Address, Addressed},
};
use crate::kit::random::random;
use sortie_base::{SealContext, spawn_short};

/// Duration of the lease under which a node refreshes tokens. Afterwards another node may try.
const LEASE: Duration = Duration::from_mins(2);

/// Time that a call waits for a refresh by another node, and the pause between its checks.
const PATIENCE: Duration = Duration::from_secs(45);
const POLL: Duration = Duration::from_millis(200);

/// Time limit for storing refreshed tokens. If they are not stored, the connection must be authorized again.
const STORING: Duration = Duration::from_mins(1);

/// Time before its expiry at which a token is refreshed, in seconds. A short-lived token is refreshed at half its life.
const MARGIN_SECONDS: u64 = 60;

/// Time after a token was issued during which it is not refreshed because a server refuses it. A server that refuses one request
/// permanently must not use up one refresh token after another.
const REST: Duration = Duration::from_mins(1);

/// Reason not to use tokens that can be opened.
const UNFIT: &str =
    "the tokens were stored for another address than the connection has in the database: authorize it again";

/// A grant in the form that is sealed.
#[derive(Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) grant: oauth::Grant,
    /// Time at which the authorization server issued the grant.
    pub(super) given_at: Timestamp,
}

/// Next step for a requested token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The access token is valid.
    Use,
    /// The access token was refused or is about to expire, and can be refreshed.
    Refresh,
    /// The access token was refused, but is so new that another would be refused as well.
    Rest,
    /// The access token was refused and cannot be refreshed. It has not expired: other requests may still be answered.
    Fail,
    /// The access token has expired and cannot be refreshed.
    GiveUp,
}

impl Held {
    fn step(&self, now: Timestamp, refused: Option<&Credential>) -> Step {
        let is_refused = refused == Some(&self.grant.access_token);
        match (self.is_fresh(now), self.grant.is_refreshable()) {
            (true, _) if !is_refused => Step::Use,
            (true, true) if now < self.given_at + REST => Step::Rest,
            (_, true) => Step::Refresh,
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

/// Source of the access tokens of one connection.
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

    fn challenged<'a>(&'a self, refused: &'a Credential, challenge: oauth::Challenge) -> BoxFuture<'a, ()> {
        let at = (self.org, self.id);
        let kept = self.connections.challenged(at, &self.address, refused, challenge);
        Box::pin(kept)
    }
}

fn unavailable(error: impl std::fmt::Display) -> TokenError {
    TokenError::Unavailable(error.to_string())
}

pub(super) fn tokens_at(row: &str, org: OrgId) -> SealContext<'_> {
    SealContext {
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
                Step::Refresh => {}
                Step::Rest => return Err(TokenError::JustGiven),
                Step::Fail => {
                    let why = "the server refuses the access token and issued no refresh token";
                    return Err(TokenError::NeedsAuthorization(why.to_owned()));
                }
                Step::GiveUp => {
                    let why = "the access token has expired and the server issued no refresh token";
                    self.give_up_grant(seen, why).await?;
                    return Err(TokenError::NeedsAuthorization(why.to_owned()));
                }
            }
            // Tokens that cannot be sealed are not requested: the refresh token may be valid for one use.
            self.fits().await.map_err(unavailable)?;
            let connections = self.clone();
            let held = Addressed {
                value: held,
                address: address.clone(),
            };
            let refresh = async move { connections.refresh(seen, held, give_up).await };
            let refresh = spawn_short(&self.0.tracker, refresh);
            let refreshed = refresh
                .await
                .map_err(|_| unavailable("the refresh of the access token failed within the engine"))?;
            if let Some(token) = refreshed? {
                return Ok(token);
            }
            if Instant::now() > give_up {
                return Err(unavailable(
                    "another node has been refreshing the access token for too long",
                ));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn lock_of(&self, id: ConnectionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.0.refreshes.lock();
        if let Some(lock) = all.get(&id).and_then(Weak::upgrade) {
            return lock;
        }
        forget_unused(&mut all);
        let lock = Arc::default();
        all.insert(id, Arc::downgrade(&lock));
        lock
    }

    /// Opens the tokens of a saved connection.
    pub(super) fn tokens_of(&self, org: OrgId, row: &ConnectionRow, sealed: &[u8]) -> Result<Held, Refusal> {
        let address = Address::of_row(row)?;
        self.open_for(tokens_at(&row.id.to_string(), org), &address, sealed)
    }

    /// Returns the stored grant of a connection, and its version.
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
            Err(error) => return Err(unavailable(Refusal::from(error))),
        };
        let Some(sealed) = &row.tokens else {
            let why = row
                .error
                .unwrap_or_else(|| "nobody has authorized it yet".to_owned());
            return Err(TokenError::NeedsAuthorization(why));
        };
        let held = match self.open_for(tokens_at(&id.to_string(), org), address, sealed) {
            Ok(held) => held,
            Err(error) if error.code == ErrorCode::Conflict => {
                let (seen, status) = (row.seen(org), ConnectionStatus::NeedsAuthorization);
                let why = Some(UNFIT.to_owned());
                let recorded = self
                    .0
                    .store
                    .set_connection_status(seen, row.revision, status, why);
                recorded
                    .await
                    .map_err(|error| unavailable(Refusal::from(error)))?;
                return Err(TokenError::NeedsAuthorization(UNFIT.to_owned()));
            }
            Err(error) => return Err(unavailable(error)),
        };
        Ok((held, row.seen(org)))
    }

    /// Takes the lease of a grant and refreshes it. `None` if another node has the lease or has refreshed the grant.
    async fn refresh(
        &self,
        seen: SeenTokens,
        held: Addressed<Held>,
        give_up: Instant,
    ) -> Result<Option<Credential>, TokenError> {
        // Each try has the same holder: the answer to a try that took the lease may have been lost.
        let holder = RefreshHolder(i64::from_be_bytes(random().map_err(unavailable)?));
        let leased = until_answered(give_up, || {
            let now = self.0.clock.now();
            self.0.store.lease_refresh(seen, holder, now, LEASE)
        });
        if leased.await.map_err(|error| unavailable(Refusal::from(error)))? {
            self.refresh_leased(seen, holder, held).await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Refreshes a grant under its lease, and stores the result.
    async fn refresh_leased(
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
                    tracing::warn!(
                    connection = %seen.connection, %error, "releasing the lease of a refresh failed; it will expire"
                    );
                }
                Err(unavailable(error))
            }
        }
    }

    /// Stores a refreshed grant. Retries failures for [`STORING`], because the refresh may have invalidated the old grant.
    async fn keep(&self, seen: SeenTokens, held: &Addressed<Held>) -> Result<(), TokenError> {
        let row = seen.connection.to_string();
        let give_up = Instant::now() + STORING;
        let mut pause = POLL;
        loop {
            let saved = match self.seal(tokens_at(&row, seen.org), held).await {
                Ok(sealed) => {
                    let saved = self.0.store.save_refreshed(seen, sealed).await;
                    saved.map_err(Refusal::from)
                }
                Err(error) => Err(error),
            };
            match saved {
                // False: the connection has been authorized anew or deleted, or an earlier try stored the grant and its answer
                // was lost.
                Ok(_) => return Ok(()),
                Err(_) if Instant::now() < give_up => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(error) => {
                    tracing::error!(connection = %seen.connection, %error, "storing refreshed tokens failed");
                    return Err(unavailable(error));
                }
            }
        }
    }

    async fn give_up_grant(&self, seen: SeenTokens, why: &str) -> Result<(), TokenError> {
        let dropped = self.0.store.drop_refused(seen, why.to_owned()).await;
        dropped
            .map(drop)
            .map_err(|error| unavailable(Refusal::from(error)))
    }
}

/// Asks for a lease, and retries until `give_up` while the database does not answer.
async fn until_answered<F>(give_up: Instant, ask: impl Fn() -> F) -> Result<bool, StoreError>
where
    F: Future<Output = Result<bool, StoreError>>,
{
    loop {
        match ask().await {
            Err(StoreError::Unavailable(_)) if Instant::now() < give_up => tokio::time::sleep(POLL).await,
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

    /// A grant that was issued at second 1000 and is valid for `seconds`.
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
    fn a_refused_token_is_refreshed_once_a_minute_at_most() {
        let (this, other) = (Credential::new("at"), Credential::new("older"));
        for seconds in [None, Some(3600)] {
            let held = held(seconds, Some("rt"));
            assert_eq!(held.step(at(1001), None), Step::Use);
            assert_eq!(held.step(at(1001), Some(&other)), Step::Use);
            assert_eq!(held.step(at(1059), Some(&this)), Step::Rest);
            assert_eq!(held.step(at(1060), Some(&this)), Step::Refresh);
        }
        let about_to_expire = held(Some(100), Some("rt"));
        assert_eq!(about_to_expire.step(at(1051), None), Step::Refresh);
    }

    #[test]
    fn a_grant_that_cannot_be_refreshed_is_dropped_when_it_has_expired_and_no_sooner() {
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
