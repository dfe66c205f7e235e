//! API keys: made, revoked, and looked up for every request.
//!
//! A look-up is kept for five seconds, so that a busy client costs one query in that time; a key revoked on this
//! node stops at once, one revoked on another node within those five seconds.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sortie_api::{
    KeyId, OrgId, Role,
    key::{CreateKey, CreatedKey},
    limits,
    secret::{HOSTED_KEY, SELF_HOSTED_KEY, Secret},
};
use sortie_store::{KeyRecord, NewKey, Store};
use tokio::time::Instant;

use crate::{Clock, Error, clock::random};

/// How long a look-up is believed.
const FRESH: Duration = Duration::from_secs(5);

/// Look-ups kept at most; beyond it the kept ones are forgotten all at once.
const KEPT: usize = 10_000;

#[derive(Default)]
struct Looked {
    /// A credential's SHA-256, who stood behind it, and when that was looked up.
    by_hash: HashMap<[u8; 32], (KeyRecord, Instant)>,
    /// Raised by each revocation: a look-up that began before one is not kept.
    revocations: u64,
}

#[derive(Clone)]
pub(crate) struct Keys {
    store: Store,
    clock: Clock,
    prefix: &'static str,
    looked: Arc<Mutex<Looked>>,
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
        let revocations = match self.fresh(&hash) {
            Ok(record) => return Ok(Some(record)),
            Err(revocations) => revocations,
        };
        let found = self.store.find_key(hash).await?;
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

    pub(crate) fn new_key(
        &self,
        org: OrgId,
        name: String,
        role: Role,
        secret: &Secret,
    ) -> Result<NewKey, Error> {
        let now = self.clock.now();
        let id = KeyId::new(now, random()?);
        Ok(NewKey {
            id,
            org,
            name,
            role,
            hash: secret.hash(),
            created_at: now,
        })
    }

    pub(crate) async fn create(&self, org: OrgId, request: CreateKey) -> Result<CreatedKey, Error> {
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
        let secret = Secret::new(self.prefix, random()?);
        let key = self.new_key(org, name.to_owned(), role, &secret)?;
        let created = CreatedKey {
            id: key.id,
            name: key.name.clone(),
            role,
            key: secret.expose().to_owned(),
        };
        self.store.create_key(key).await?;
        Ok(created)
    }

    pub(crate) async fn delete(&self, org: OrgId, id: KeyId) -> Result<(), Error> {
        self.store.delete_key(org, id).await?;
        let mut looked = self.looked();
        looked.revocations += 1;
        looked.by_hash.retain(|_, (record, _)| record.id != id);
        drop(looked);
        Ok(())
    }
}
