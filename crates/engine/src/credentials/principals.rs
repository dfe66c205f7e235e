//! Principals: the look-up of each request's credential.
//!
//! The store caches a look-up for five seconds ([`Lookup`](sortie_store::access::Lookup)). A credential that is revoked or
//! rotated on this node stops working at once; other nodes accept it for five seconds at most. The expiry of a credential is part
//! of its look-up, so every node stops accepting it at that moment.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use sortie_api::{
    Features, KeyId, Mode, OrgId, OrganizationInfo, Refusal, Role, Timestamp,
    secret::{ACCESS_TOKEN, HOSTED_KEY, Presented, SELF_HOSTED_KEY, SESSION_TOKEN, Secret},
};
use sortie_store::{
    Store,
    access::{By, Principal},
    people::SignedIn,
};

use crate::{Engine, kit::random::random};
use sortie_base::{Clock, spawn_short};
use tokio_util::task::TaskTracker;

/// Look-ups of principals by their credentials.
#[derive(Clone)]
pub(crate) struct Principals {
    store: Store,
    clock: Clock,
    /// Time for which a look-up is reused.
    fresh: Duration,
    /// Prefix of the API keys of this deployment mode.
    prefix: &'static str,
    /// Prefix of the other credentials: access tokens of a hosted deployment, console sessions of a self-hosted engine.
    token_prefix: &'static str,
    /// Hour of the last use of each key and console session that this node has noted.
    noted: Arc<Mutex<HashMap<By, Timestamp>>>,
    tasks: TaskTracker,
}

/// Maximum number of credentials to remember; the memory is cleared when it is reached.
const NOTED: usize = 20_000;

const HOUR_MICROS: i64 = 3_600_000_000;

impl Engine {
    /// Finds the principal of a bearer credential. `None` if the credential is malformed, unknown, expired or revoked.
    pub async fn authenticate(
        &self,
        credential: impl Into<Presented<'_>>,
    ) -> Result<Option<Principal>, Refusal> {
        self.0.stores.principals.authenticate(credential.into()).await
    }

    /// Finds the principal of a credential by its SHA-256, as [`Engine::authenticate`] does.
    pub async fn authenticate_hash(&self, hash: [u8; 32]) -> Result<Option<Principal>, Refusal> {
        self.0.stores.principals.authenticate_hash(hash).await
    }

    /// Finds the principal of a person's session in an organization. `None` if the person is not a member.
    pub async fn authenticate_session(
        &self,
        org: OrgId,
        person: &SignedIn,
    ) -> Result<Option<Principal>, Refusal> {
        self.0.stores.principals.authenticate_session(org, person).await
    }

    /// Deployment mode: self-hosted or hosted.
    pub fn mode(&self) -> Mode {
        self.0.options.mode
    }

    /// Returns the facts that a caller sees about its credential, its organization, and the `features` of the server.
    pub async fn organization_info(
        &self,
        org: OrgId,
        role: Role,
        key: Option<KeyId>,
        features: Features,
    ) -> Result<OrganizationInfo, Refusal> {
        let (organization_name, key_name) = self.store().names_of_credential(org, key).await?;
        Ok(OrganizationInfo {
            organization_id: org,
            organization_name,
            role,
            key_id: key,
            key_name,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: self.0.options.mode,
            compute_micros_per_second: self.0.options.compute_micros_per_second,
            default_max_cost_micros: self.0.options.default_max_cost,
            features,
        })
    }
}

impl Principals {
    pub(crate) fn new(
        store: Store,
        (clock, fresh): (Clock, Duration),
        mode: Mode,
        tasks: TaskTracker,
    ) -> Self {
        let (prefix, token_prefix) = match mode {
            Mode::Hosted => (HOSTED_KEY, ACCESS_TOKEN),
            Mode::SelfHosted => (SELF_HOSTED_KEY, SESSION_TOKEN),
        };
        Self {
            store,
            clock,
            fresh,
            prefix,
            token_prefix,
            noted: Arc::default(),
            tasks,
        }
    }

    /// Makes the secret of a new API key.
    pub(crate) fn new_key(&self) -> Result<Secret, Refusal> {
        Ok(Secret::new(self.prefix, random()?))
    }

    /// Finds the principal of a credential; see [`Engine::authenticate`].
    pub(crate) async fn authenticate(&self, credential: Presented<'_>) -> Result<Option<Principal>, Refusal> {
        // Checked before the cached look-ups: the look-up of a session is cached by the hash of a text that anyone can send.
        if !credential.is(self.prefix) && !credential.is(self.token_prefix) {
            return Ok(None);
        }
        self.authenticate_hash(credential.hash()).await
    }

    /// Finds the principal of a credential by its SHA-256; see [`Engine::authenticate_hash`].
    pub(crate) async fn authenticate_hash(&self, hash: [u8; 32]) -> Result<Option<Principal>, Refusal> {
        self.look_up(hash, self.store.find_principal(hash)).await
    }

    /// Finds the principal of an API key by its ID, for the tokens that were made with it.
    pub(crate) async fn authenticate_key(&self, key: KeyId) -> Result<Option<Principal>, Refusal> {
        // No credential has the form of this text.
        let hash = Sha256::digest(key.to_string()).into();
        self.look_up(hash, self.store.find_key_principal(key)).await
    }

    /// Finds the principal of a person's session in an organization; see [`Engine::authenticate_session`].
    pub(crate) async fn authenticate_session(
        &self,
        org: OrgId,
        person: &SignedIn,
    ) -> Result<Option<Principal>, Refusal> {
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
                session_key: None,
            }))
        };
        self.look_up(hash, found).await
    }

    /// Returns the cached principal of a credential, or looks it up by `find`.
    async fn look_up(
        &self,
        hash: [u8; 32],
        find: impl Future<Output = sortie_store::Result<Option<Principal>>>,
    ) -> Result<Option<Principal>, Refusal> {
        let now = || self.clock.now();
        let found = self.store.look_up(hash, self.fresh, now, find).await?;
        if let Some(principal) = found {
            self.note_use(&principal);
        }
        Ok(found)
    }

    /// Notes the use of a key or of a console session, once an hour, in a task: the request does not wait for it.
    fn note_use(&self, principal: &Principal) {
        let (by, session_key) = (principal.by, principal.session_key);
        if by.key().or(session_key).is_none() {
            return;
        }
        let now = self.clock.now().as_micros();
        let hour = Timestamp::from_micros(now - now.rem_euclid(HOUR_MICROS));
        let mut noted = self.noted.lock();
        if noted.get(&by) == Some(&hour) {
            return;
        }
        if noted.len() >= NOTED {
            noted.clear();
        }
        noted.insert(by, hour);
        let store = self.store.clone();
        let note = async move {
            let noted = match (by, session_key) {
                (By::Key(key), _) => store.note_key_use(key, hour).await,
                (By::Session(session), Some(key)) => store.note_console_use((session, key), hour).await,
                _ => Ok(()),
            };
            if let Err(error) = noted {
                tracing::debug!(%by, %error, "cannot note the use of a credential");
            }
        };
        drop(spawn_short(&self.tasks, note));
    }
}

#[cfg(test)]
mod tests {
    use sortie_api::{SessionId, UserId};
    use sortie_base::{CREDENTIAL_LOOKUP, hex};
    use sortie_store::{access::Actor, people::SessionKind};

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
                principals: Principals::new(
                    store,
                    (Clock::manual(AT), FIVE_SECONDS),
                    Mode::Hosted,
                    TaskTracker::new(),
                ),
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
        // Another node revokes them.
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
        rig.database.execute_batch("DELETE FROM api_key").unwrap();
        assert_eq!(rig.roles().await, ROLES);
        let audit = Actor::default().audit((AT, [8; 10]), rig.org, "member.role", "x");
        let store = &rig.principals.store;
        store
            .set_role(rig.org, rig.person.user, Role::Member, audit)
            .await
            .unwrap();
        assert_eq!(rig.roles().await, [None, Some(Role::Member), Some(Role::Member)]);
    }
}
