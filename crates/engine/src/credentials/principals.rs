//! Principals: the look-up of each request's credential.
//!
//! A node keeps a look-up for five seconds, so that a busy client costs one query in that time. A credential that is
//! revoked or rotated on this node stops at once; other nodes accept it for five seconds at most. The end of a credential
//! is part of its look-up and holds on every node at that moment.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest as _, Sha256};
use sortie_api::{
    KeyId, Mode, OrgId, OrganizationInfo, Role,
    secret::{ACCESS_TOKEN, HOSTED_KEY, Presented, SELF_HOSTED_KEY, Secret},
};
use sortie_store::{
    Store,
    access::{By, Principal},
    people::SignedIn,
};
use tokio::time::Instant;

use crate::{Engine, error::Error, kit::random::random};
use sortie_base::Clock;

/// Number of look-ups kept; when it is reached, all of them are dropped at once.
const KEPT: usize = 10_000;

/// Look-ups of principals by their credentials.
#[derive(Clone)]
pub(crate) struct Principals {
    store: Store,
    clock: Clock,
    /// Time for which a look-up is used again.
    fresh: Duration,
    /// Prefix of the API keys of this deployment mode.
    prefix: &'static str,
    /// Prefix of access tokens, which a hosted deployment has.
    token_prefix: Option<&'static str>,
    kept: Arc<Mutex<Kept>>,
}

/// Look-ups of the last seconds.
#[derive(Default)]
struct Kept {
    /// Principals and times of the look-ups, by the SHA-256 of the credential, or of the session and the organization.
    by_hash: HashMap<[u8; 32], (Principal, Instant)>,
    /// Number of calls of [`Principals::forget`]. A look-up that began before the last of them is not kept.
    forgotten: u64,
}

impl Engine {
    /// Finds the principal of a bearer credential. None where the credential is malformed, unknown, expired or revoked.
    pub async fn authenticate(
        &self,
        credential: impl Into<Presented<'_>>,
    ) -> Result<Option<Principal>, Error> {
        self.0.stores.principals.authenticate(credential.into()).await
    }

    /// Finds the principal of a credential by its SHA-256, as [`Engine::authenticate`] does.
    pub async fn authenticate_hash(&self, hash: [u8; 32]) -> Result<Option<Principal>, Error> {
        self.0.stores.principals.authenticate_hash(hash).await
    }

    /// Finds the principal of a person's session in an organization. None where the person is no member.
    pub async fn authenticate_session(
        &self,
        org: OrgId,
        person: &SignedIn,
    ) -> Result<Option<Principal>, Error> {
        self.0.stores.principals.authenticate_session(org, person).await
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

    /// Drops the look-ups of all access tokens, after a change to a person that ends those of that person: a look-up names the
    /// grant and not the person.
    pub fn forget_grants(&self) {
        self.0
            .stores
            .principals
            .forget_where(|principal| matches!(principal.by, By::Grant(_)));
    }

    /// Drops all look-ups, after a change that ends credentials of several organizations.
    pub fn forget_all_credentials(&self) {
        self.0.stores.principals.forget_where(|_| true);
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
    pub(crate) fn new(store: Store, (clock, fresh): (Clock, Duration), mode: Mode) -> Self {
        let (prefix, token_prefix) = match mode {
            Mode::Hosted => (HOSTED_KEY, Some(ACCESS_TOKEN)),
            Mode::SelfHosted => (SELF_HOSTED_KEY, None),
        };
        Self {
            store,
            clock,
            fresh,
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
    pub(crate) async fn authenticate(&self, credential: Presented<'_>) -> Result<Option<Principal>, Error> {
        // Before the kept look-ups: that of a session is kept by the hash of a text that anybody can send.
        let mut prefixes = [Some(self.prefix), self.token_prefix].into_iter().flatten();
        if !prefixes.any(|prefix| credential.is(prefix)) {
            return Ok(None);
        }
        self.authenticate_hash(credential.hash()).await
    }

    /// Finds the principal of a credential by its SHA-256; see [`Engine::authenticate_hash`].
    pub(crate) async fn authenticate_hash(&self, hash: [u8; 32]) -> Result<Option<Principal>, Error> {
        self.look_up(hash, self.store.find_principal(hash)).await
    }

    /// Finds the principal of a person's session in an organization; see [`Engine::authenticate_session`].
    pub(crate) async fn authenticate_session(
        &self,
        org: OrgId,
        person: &SignedIn,
    ) -> Result<Option<Principal>, Error> {
        // No credential has the form of this text.
        let hash = Sha256::digest(format!("{} {org}", person.session)).into();
        let found = async {
            let membership = self.store.membership(org, person.user).await?;
            Ok(membership.map(|membership| Principal {
                org,
                role: membership.role,
                by: By::Session(person.session),
                until: Some(person.until),
                user: Some(person.user),
                suspended: membership.suspended,
                scope: None,
            }))
        };
        self.look_up(hash, found).await
    }

    /// Returns the kept principal of a credential, or looks it up by `find`.
    async fn look_up(
        &self,
        hash: [u8; 32],
        find: impl Future<Output = sortie_store::Result<Option<Principal>>>,
    ) -> Result<Option<Principal>, Error> {
        let works = |principal: &Principal| principal.until.is_none_or(|until| self.clock.now() < until);
        let forgotten = match self.fresh(&hash) {
            Ok(principal) => return Ok(Some(principal).filter(works)),
            Err(forgotten) => forgotten,
        };
        // Before the read: a revocation on another node holds five seconds after the read, however slow that is.
        let began = Instant::now();
        let found = find.await?.filter(works);
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
        self.kept.lock()
    }

    /// Returns the kept principal of a credential, or else [`Kept::forgotten`] of this moment.
    fn fresh(&self, hash: &[u8; 32]) -> Result<Principal, u64> {
        let kept = self.kept();
        let found = kept.by_hash.get(hash).filter(|(_, at)| at.elapsed() < self.fresh);
        found.map(|(principal, _)| *principal).ok_or(kept.forgotten)
    }
}

#[cfg(test)]
mod tests {
    use sortie_api::{SessionId, Timestamp, UserId};
    use sortie_base::{CREDENTIAL_LOOKUP, hex};
    use sortie_store::people::SessionKind;

    use super::*;

    const FIVE_SECONDS: Duration = CREDENTIAL_LOOKUP;
    const AT: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);

    /// A key, an access token and a session of one organization, in a database that another node writes to as well.
    struct Rig {
        principals: Principals,
        database: rusqlite::Connection,
        org: OrgId,
        person: SignedIn,
        key: Secret,
        token: Secret,
        _dir: tempfile::TempDir,
    }

    impl Rig {
        async fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = crate::testing::store_in(&dir).await;
            let (org, user) = (OrgId::new(AT, [1; 10]), UserId::new(AT, [2; 10]));
            let person = SignedIn {
                user,
                session: SessionId::new(AT, [3; 10]),
                kind: SessionKind::Web,
                until: AT + Duration::from_hours(1),
                seen_at: AT,
                email_verified: true,
            };
            let (key, token) = (
                Secret::new(HOSTED_KEY, [4; 32]),
                Secret::new(ACCESS_TOKEN, [5; 32]),
            );
            let database = rusqlite::Connection::open(dir.path().join("test.db")).unwrap();
            let rows = format!(
                "INSERT INTO organization (id, name, created_at) VALUES ('{org}', 'ours', 1); \
                 INSERT INTO person (id, email, email_key, name, password, created_at) \
                 VALUES ('{user}', 'a@example.com', 'a@example.com', 'Ann', '', 1); \
                 INSERT INTO membership (org_id, user_id, role, created_at) VALUES ('{org}', '{user}', 'admin', 1); \
                 INSERT INTO api_key (id, org_id, name, role, hash, created_at) \
                 VALUES ('{key_id}', '{org}', 'key', 'member', x'{key_hash}', 1); \
                 INSERT INTO oauth_grant (id, org_id, user_id, client_id, client_name, scope, created_at, used_at, \
                 expires_at) VALUES ('{grant}', '{org}', '{user}', 'client', 'App', 'admin', 1, 1, {end}); \
                 INSERT INTO oauth_token (hash, grant_id, kind, expires_at) \
                 VALUES (x'{token_hash}', '{grant}', 'access', {end})",
                key_id = KeyId::new(AT, [6; 10]),
                grant = sortie_api::GrantId::new(AT, [7; 10]),
                key_hash = hex(&key.hash()),
                token_hash = hex(&token.hash()),
                end = person.until.as_micros(),
            );
            database.execute_batch(&rows).unwrap();
            Self {
                principals: Principals::new(store, (Clock::manual(AT), FIVE_SECONDS), Mode::Hosted),
                database,
                org,
                person,
                key,
                token,
                _dir: dir,
            }
        }

        /// Roles of the key, of the token and of the session.
        async fn roles(&mut self) -> [Option<Role>; 3] {
            let role = |found: Option<Principal>| found.map(|principal| principal.role);
            let (key, token) = (self.key.expose().into(), self.token.expose().into());
            [
                role(self.principals.authenticate(key).await.unwrap()),
                role(self.principals.authenticate(token).await.unwrap()),
                role(
                    self.principals
                        .authenticate_session(self.org, &self.person)
                        .await
                        .unwrap(),
                ),
            ]
        }
    }

    const ROLES: [Option<Role>; 3] = [Some(Role::Member), Some(Role::Admin), Some(Role::Admin)];

    #[tokio::test]
    async fn a_key_a_token_and_a_session_are_each_read_once_in_five_seconds() {
        let mut rig = Rig::new().await;
        tokio::time::pause();
        assert_eq!(rig.roles().await, ROLES);
        // Another node ends them.
        let ended = "DELETE FROM api_key; DELETE FROM oauth_grant; DELETE FROM membership";
        rig.database.execute_batch(ended).unwrap();
        tokio::time::advance(FIVE_SECONDS.saturating_sub(Duration::from_millis(1))).await;
        assert_eq!(rig.roles().await, ROLES);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(rig.roles().await, [None; 3]);
    }

    #[tokio::test]
    async fn the_text_by_which_a_session_is_kept_is_no_credential() {
        let mut rig = Rig::new().await;
        assert_eq!(rig.roles().await, ROLES);
        let text = format!("{} {}", rig.person.session, rig.org);
        let found = rig.principals.authenticate((&text).into()).await.unwrap();
        assert!(found.is_none());
    }

    #[tokio::test]
    async fn a_key_ends_at_its_time_also_while_its_look_up_is_used_again() {
        let mut rig = Rig::new().await;
        tokio::time::pause();
        let end = AT + Duration::from_secs(1);
        let ends = format!("UPDATE api_key SET expires_at = {}", end.as_micros());
        rig.database.execute_batch(&ends).unwrap();
        assert_eq!(rig.roles().await, ROLES);
        let clock = rig.principals.clock.clone();
        clock.set(Timestamp::from_micros(end.as_micros() - 1));
        assert_eq!(rig.roles().await, ROLES);
        clock.set(end);
        assert_eq!(rig.roles().await, [None, ROLES[1], ROLES[2]]);
    }

    #[tokio::test]
    async fn a_change_of_the_organization_on_this_node_holds_at_once() {
        let mut rig = Rig::new().await;
        tokio::time::pause();
        assert_eq!(rig.roles().await, ROLES);
        let changed = "UPDATE membership SET role = 'member'; DELETE FROM api_key";
        rig.database.execute_batch(changed).unwrap();
        assert_eq!(rig.roles().await, ROLES);
        rig.principals.forget_where(|principal| principal.org == rig.org);
        assert_eq!(rig.roles().await, [None, Some(Role::Member), Some(Role::Member)]);
    }
}
