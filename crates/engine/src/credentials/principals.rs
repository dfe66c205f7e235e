//! Principals: the look-up of each request's credential.
//!
//! A node keeps a look-up for five seconds, so that a busy client costs one query in that time. A credential that is
//! revoked or rotated on this node stops at once; other nodes accept it for five seconds at most. The end of a credential
//! is part of its look-up and holds on every node at that moment.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sortie_api::{
    KeyId, Mode, OrgId, OrganizationInfo, Role,
    secret::{ACCESS_TOKEN, HOSTED_KEY, SELF_HOSTED_KEY, Secret},
};
use sortie_store::{By, Principal, Store};
use tokio::time::Instant;

use crate::{Engine, error::Error, kit::random::random};
use sortie_base::Clock;

/// Time for which a look-up is used again.
const FRESH: Duration = Duration::from_secs(5);

/// Number of look-ups kept; when it is reached, all of them are dropped at once.
const KEPT: usize = 10_000;

/// Look-ups of principals by their credentials.
#[derive(Clone)]
pub(crate) struct Principals {
    store: Store,
    clock: Clock,
    /// Prefix of the API keys of this deployment mode.
    prefix: &'static str,
    /// Prefix of access tokens, which a hosted deployment has.
    token_prefix: Option<&'static str>,
    kept: Arc<Mutex<Kept>>,
}

/// Look-ups of the last seconds.
#[derive(Default)]
struct Kept {
    /// Principals and times of the look-ups, by the SHA-256 of the credential.
    by_hash: HashMap<[u8; 32], (Principal, Instant)>,
    /// Number of calls of [`Principals::forget`]. A look-up that began before the last of them is not kept.
    forgotten: u64,
}

impl Engine {
    /// Finds the principal of a bearer credential. None where the credential is malformed, unknown, expired or revoked.
    pub async fn authenticate(&self, credential: &str) -> Result<Option<Principal>, Error> {
        self.0.stores.principals.authenticate(credential).await
    }

    /// Drops the look-ups of a subject whose credentials were revoked or changed on this node.
    pub fn forget_credentials(&self, by: By) {
        self.0.stores.principals.forget(by);
    }

    /// Drops the look-ups of an organization, such as at its suspension: its credentials are looked up again at their next
    /// use. Other nodes use their look-ups for five seconds at most.
    pub fn forget_organization(&self, org: OrgId) {
        self.0
            .stores
            .principals
            .forget_where(|principal| principal.org == org);
    }

    /// Deployment mode: self-hosted or hosted.
    pub fn mode(&self) -> Mode {
        self.0.options.mode
    }

    /// Facts that a caller gets about its credential and its organization.
    pub fn organization_info(&self, org: OrgId, role: Role, key: Option<KeyId>) -> OrganizationInfo {
        OrganizationInfo {
            organization_id: org,
            role,
            key_id: key,
            mode: self.0.options.mode,
            compute_micros_per_second: self.0.options.compute_micros_per_second,
            default_max_cost_micros: self.0.options.default_max_cost,
        }
    }
}

impl Principals {
    pub(crate) fn new(store: Store, clock: Clock, mode: Mode) -> Self {
        let (prefix, token_prefix) = match mode {
            Mode::Hosted => (HOSTED_KEY, Some(ACCESS_TOKEN)),
            Mode::SelfHosted => (SELF_HOSTED_KEY, None),
        };
        Self {
            store,
            clock,
            prefix,
            token_prefix,
            kept: Arc::default(),
        }
    }

    /// Makes the secret of a new API key.
    pub(crate) fn new_key(&self) -> Result<Secret, Error> {
        Ok(Secret::new(self.prefix, random()?))
    }

    /// Finds the principal of a credential; see [`Engine::authenticate`].
    pub(crate) async fn authenticate(&self, credential: &str) -> Result<Option<Principal>, Error> {
        let prefixes = [Some(self.prefix), self.token_prefix];
        let Some(secret) = prefixes
            .into_iter()
            .flatten()
            .find_map(|prefix| Secret::parse(prefix, credential).ok())
        else {
            return Ok(None);
        };
        let hash = secret.hash();
        let works = |principal: &Principal| principal.until.is_none_or(|until| self.clock.now() < until);
        let forgotten = match self.fresh(&hash) {
            Ok(principal) => return Ok(Some(principal).filter(works)),
            Err(forgotten) => forgotten,
        };
        // Before the read: a revocation on another node holds five seconds after the read, however slow that is.
        let began = Instant::now();
        let found = self.store.find_principal(hash).await?.filter(works);
        if let Some(principal) = found {
            let mut kept = self.kept();
            if kept.by_hash.len() >= KEPT {
                kept.by_hash.clear();
            }
            if kept.forgotten == forgotten {
                kept.by_hash.insert(hash, (principal, began));
            }
        }
        Ok(found)
    }

    /// Drops the look-ups of a subject: its credentials are looked up again at their next use.
    pub(crate) fn forget(&self, by: By) {
        self.forget_where(|principal| principal.by == by);
    }

    fn forget_where(&self, is_forgotten: impl Fn(&Principal) -> bool) {
        let mut kept = self.kept();
        kept.forgotten += 1;
        kept.by_hash.retain(|_, (principal, _)| !is_forgotten(principal));
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the kept principal of a credential, or else [`Kept::forgotten`] of this moment.
    fn fresh(&self, hash: &[u8; 32]) -> Result<Principal, u64> {
        let kept = self.kept();
        let found = kept.by_hash.get(hash).filter(|(_, at)| at.elapsed() < FRESH);
        found.map(|(principal, _)| *principal).ok_or(kept.forgotten)
    }
}
