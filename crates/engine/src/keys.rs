//! API keys: made, revoked, and looked up for every request.
//!
//! A look-up is kept for five seconds, so that a busy client costs one query in that time; a key revoked on this
//! node stops at once, one revoked on another node within those five seconds.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
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

/// A credential's SHA-256, who stood behind it, and when that was looked up.
type Looked = HashMap<[u8; 32], (KeyRecord, Instant)>;

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
        if let Some(record) = self.fresh(&hash) {
            return Ok(Some(record));
        }
        let found = self.store.find_key(hash).await?;
        if let Some(record) = found {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            if looked.len() >= KEPT {
                looked.clear();
            }
            looked.insert(hash, (record, Instant::now()));
        }
        Ok(found)
    }

    fn fresh(&self, hash: &[u8; 32]) -> Option<KeyRecord> {
        let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        looked
            .get(hash)
            .filter(|(_, at)| at.elapsed() < FRESH)
            .map(|(record, _)| *record)
    }

    pub(crate) fn new_key(&self, org: OrgId, name: String, role: Role) -> Result<(NewKey, Secret), Error> {
        let now = self.clock.now();
        let secret = Secret::new(self.prefix, random()?);
        let id = KeyId::new(now, random()?);
        Ok((
            NewKey {
                id,
                org,
                name,
                role,
                hash: secret.hash(),
                created_at: now,
            },
            secret,
        ))
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
        let (key, secret) = self.new_key(org, name.to_owned(), role)?;
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
        self.looked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, (record, _)| record.id != id);
        Ok(())
    }
}
