//! API keys: made, rotated, revoked, and looked up for every request.
//!
//! A look-up is kept for five seconds, so that a busy client costs one query in that time; a secret that is revoked or
//! rotated out on this node stops at once, on another node within those five seconds. One that expires, or whose grace
//! ends, stops on every node at that moment: a kept look-up knows it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sortie_api::{
    KeyId, OrgId, Role, Timestamp,
    key::{ApiKey, CreateKey, CreatedKey, RotateKey},
    limits,
    secret::{HOSTED_KEY, SELF_HOSTED_KEY, Secret},
};
use sortie_store::{Actor, KeyRecord, NewKey, Rotation, Store};
use tokio::time::Instant;

use crate::{
    Engine,
    error::Error,
    kit::{
        caller::Caller,
        clock::{Clock, random},
    },
};

/// How long a look-up is believed.
const FRESH: Duration = Duration::from_secs(5);

/// Look-ups kept at most; beyond it the kept ones are forgotten all at once.
const KEPT: usize = 10_000;

#[derive(Default)]
struct Looked {
    /// A credential's SHA-256, who stood behind it, and when that was looked up.
    by_hash: HashMap<[u8; 32], (KeyRecord, Instant)>,
    /// Raised by each revocation and rotation: a look-up that began before one is not kept.
    revocations: u64,
}

#[derive(Clone)]
pub(crate) struct Keys {
    store: Store,
    clock: Clock,
    prefix: &'static str,
    looked: Arc<Mutex<Looked>>,
}

impl Engine {
    /// Makes the first organization, with `secret` as its first admin key, where the store is empty. False when it was
    /// not. The caller makes the secret and puts it where it cannot be lost before it becomes valid.
    pub async fn bootstrap(&self, secret: &Secret) -> Result<bool, Error> {
        let org = OrgId::new(self.0.options.clock.now(), random()?);
        let key = self.0.stores.keys.new_key(org, CheckedKey::first(), secret)?;
        let nobody = Caller {
            org,
            actor: Actor::default(),
            schedule: None,
        };
        let audit = nobody.audit(&self.0.options.clock, "key.create", key.id)?;
        Ok(self.store().bootstrap("default", key, audit).await?)
    }

    /// Who stands behind a bearer credential; `None` when it is invalid, unknown, expired or revoked.
    pub async fn authenticate(&self, credential: &str) -> Result<Option<KeyRecord>, Error> {
        self.0.stores.keys.authenticate(credential).await
    }

    /// Makes an API key.
    pub async fn create_key(&self, caller: &Caller, request: CreateKey) -> Result<CreatedKey, Error> {
        self.0.stores.keys.create(caller, request).await
    }

    /// Gives an API key a new secret; the one before it works for the grace. `Conflict` where the key has expired.
    pub async fn rotate_key(
        &self,
        caller: &Caller,
        id: KeyId,
        request: &RotateKey,
    ) -> Result<CreatedKey, Error> {
        self.0.stores.keys.rotate(caller, id, request).await
    }

    /// Revokes an API key. `Conflict` for the last admin key that does not expire.
    pub async fn delete_key(&self, caller: &Caller, id: KeyId) -> Result<(), Error> {
        self.0.stores.keys.delete(caller, id).await
    }
}

impl Keys {
    pub(crate) fn new(store: Store, clock: Clock, mode: sortie_api::Mode) -> Self {
        let prefix = match mode {
            sortie_api::Mode::Hosted => HOSTED_KEY,
            sortie_api::Mode::SelfHosted => SELF_HOSTED_KEY,
        };
        Self {
            store,
            clock,
            prefix,
            looked: Arc::default(),
        }
    }

    pub(crate) async fn authenticate(&self, credential: &str) -> Result<Option<KeyRecord>, Error> {
        let Ok(secret) = Secret::parse(self.prefix, credential) else {
            return Ok(None);
        };
        let hash = secret.hash();
        let works = |record: &KeyRecord| record.until.is_none_or(|until| self.clock.now() < until);
        let revocations = match self.fresh(&hash) {
            Ok(record) => return Ok(Some(record).filter(works)),
            Err(revocations) => revocations,
        };
        let found = self.store.find_key(hash).await?.filter(works);
        if let Some(record) = found {
            let mut looked = self.looked();
            if looked.by_hash.len() >= KEPT {
                looked.by_hash.clear();
            }
            if looked.revocations == revocations {
                looked.by_hash.insert(hash, (record, Instant::now()));
            }
        }
        Ok(found)
    }

    fn looked(&self) -> MutexGuard<'_, Looked> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who was found lately behind a credential; else how many revocations there were until now.
    fn fresh(&self, hash: &[u8; 32]) -> Result<KeyRecord, u64> {
        let looked = self.looked();
        let found = looked.by_hash.get(hash).filter(|(_, at)| at.elapsed() < FRESH);
        found.map(|(record, _)| *record).ok_or(looked.revocations)
    }

    /// A key to add, which has this secret.
    pub(crate) fn new_key(&self, org: OrgId, request: CheckedKey, secret: &Secret) -> Result<NewKey, Error> {
        let now = self.clock.now();
        Ok(NewKey {
            id: KeyId::new(now, random()?),
            org,
            name: request.name,
            role: request.role,
            hash: secret.hash(),
            created_at: now,
            expires_at: request.expires_at,
        })
    }

    pub(crate) async fn create(&self, caller: &Caller, request: CreateKey) -> Result<CreatedKey, Error> {
        let request = CheckedKey::of(&request, self.clock.now())?;
        let secret = Secret::new(self.prefix, random()?);
        let key = self.new_key(caller.org, request, &secret)?;
        let created = CreatedKey {
            id: key.id,
            name: key.name.clone(),
            role: key.role,
            key: secret.expose().to_owned(),
            expires_at: key.expires_at,
            previous_until: None,
        };
        let audit = caller.audit(&self.clock, "key.create", key.id)?;
        self.store.create_key(key, audit).await?;
        Ok(created)
    }

    pub(crate) async fn rotate(
        &self,
        caller: &Caller,
        id: KeyId,
        request: &RotateKey,
    ) -> Result<CreatedKey, Error> {
        let grace = request.grace_seconds.unwrap_or(limits::GRACE_SECONDS_DEFAULT);
        let grace = u64::try_from(grace)
            .ok()
            .filter(|_| grace <= limits::GRACE_SECONDS_MAX)
            .map(Duration::from_secs)
            .ok_or_else(|| {
                let most = limits::GRACE_SECONDS_MAX;
                Error::Invalid(format!("grace_seconds: must be from 0 to {most}"))
            })?;
        let secret = Secret::new(self.prefix, random()?);
        let at = self.clock.now();
        let rotation = Rotation {
            id,
            hash: secret.hash(),
            at,
            previous_until: at + grace,
        };
        let audit = caller.audit(&self.clock, "key.rotate", id)?;
        let rotated = self.store.rotate_key(caller.org, rotation, audit).await;
        // Also after an error: nobody knows then whether it was done.
        self.forget(id);
        let ApiKey {
            name,
            role,
            expires_at,
            previous_until,
            ..
        } = rotated?;
        Ok(CreatedKey {
            id,
            name,
            role,
            key: secret.expose().to_owned(),
            expires_at,
            previous_until,
        })
    }

    pub(crate) async fn delete(&self, caller: &Caller, id: KeyId) -> Result<(), Error> {
        let audit = caller.audit(&self.clock, "key.delete", id)?;
        let deleted = self.store.delete_key(caller.org, id, audit).await;
        self.forget(id);
        Ok(deleted?)
    }

    /// Looks a key up again at its next use.
    fn forget(&self, id: KeyId) {
        let mut looked = self.looked();
        looked.revocations += 1;
        looked.by_hash.retain(|_, (record, _)| record.id != id);
    }
}

/// What a key is asked for to be, within the rules.
pub(crate) struct CheckedKey {
    name: String,
    role: Role,
    expires_at: Option<Timestamp>,
}

impl CheckedKey {
    /// The first key of an organization.
    pub(crate) fn first() -> Self {
        Self {
            name: "first admin key".to_owned(),
            role: Role::Admin,
            expires_at: None,
        }
    }

    /// `Invalid` names the field and the rule.
    fn of(request: &CreateKey, now: Timestamp) -> Result<Self, Error> {
        let name = request.name.trim();
        let length = name.chars().count();
        if length == 0 || length > limits::KEY_NAME_CHARS || name.chars().any(char::is_control) {
            return Err(Error::Invalid(format!(
                "name: must be 1 to {} characters, without control characters",
                limits::KEY_NAME_CHARS
            )));
        }
        let role = request.role.unwrap_or(Role::Member);
        if role == Role::Owner {
            return Err(Error::Invalid("role: must be member or admin".to_owned()));
        }
        if request.expires_at.is_some_and(|at| at <= now) {
            return Err(Error::Invalid("expires_at: must be in the future".to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            role,
            expires_at: request.expires_at,
        })
    }
}
