//! Creation, rotation and deletion of an organization's API keys.

use std::time::Duration;

use sortie_api::{
    ErrorCode, KeyId, Mode, OrgId, Refusal, Role, Timestamp,
    file::is_seen_whole,
    key::{ApiKey, CreateKey, CreatedKey, RotateKey},
    limits,
    secret::Secret,
};
use sortie_store::{
    Store,
    access::{Actor, By, Caller, NewKey, Rotation},
};

use crate::{Engine, credentials::principals::Principals, kit::random::random};
use sortie_base::{CREDENTIAL_LOOKUP, Clock};
use tokio_util::task::TaskTracker;

/// Commands on the API keys of this node's store.
#[derive(Clone)]
pub(crate) struct Keys {
    store: Store,
    clock: Clock,
    principals: Principals,
}

impl Engine {
    /// Creates the first organization with `secret` as its first admin key. Returns false if an organization exists already.
    ///
    /// The caller makes the secret, and stores it in a safe place before the key becomes valid.
    pub async fn bootstrap(&self, secret: &Secret) -> Result<bool, Refusal> {
        let org = OrgId::new(self.0.options.clock.now(), random()?);
        let key = self.0.stores.keys.new_key(org, CheckedKey::first(), secret)?;
        let nobody = Caller {
            org,
            actor: Actor::default(),
        };
        let audit = nobody.audit((self.0.options.clock.now(), random()?), "key.create", key.id);
        Ok(self.store().bootstrap("default", key, audit).await?)
    }

    /// Creates an API key.
    pub async fn create_key(&self, caller: &Caller, request: CreateKey) -> Result<CreatedKey, Refusal> {
        self.0.stores.keys.create(caller, request).await
    }

    /// Gives an API key a new secret. The previous secret works until the end of the grace period. `Conflict` if the key has
    /// expired.
    pub async fn rotate_key(
        &self,
        caller: &Caller,
        id: KeyId,
        request: &RotateKey,
    ) -> Result<CreatedKey, Refusal> {
        self.0.stores.keys.rotate(caller, id, request).await
    }

    /// Deletes an API key. `Conflict` for the last admin key that does not expire.
    pub async fn delete_key(&self, caller: &Caller, id: KeyId) -> Result<(), Refusal> {
        self.0.stores.keys.delete(caller, id).await
    }
}

/// Creates an API key in the database of a self-hosted engine that is stopped. Access to the database is the only authorization.
/// `Unavailable` if no engine has started on the database yet.
pub async fn create_key_offline(
    store: &Store,
    clock: &Clock,
    request: CreateKey,
) -> Result<CreatedKey, Refusal> {
    let org = store.own_organization().await?.ok_or_else(|| {
        ErrorCode::Unavailable
            .because("no engine has started on this database yet; its first start makes an admin key")
    })?;
    let operator = Caller {
        org,
        actor: Actor {
            by: Some(By::Operator),
            ..Actor::default()
        },
    };
    let principals = Principals::new(
        store.clone(),
        (clock.clone(), CREDENTIAL_LOOKUP),
        Mode::SelfHosted,
        TaskTracker::new(),
    );
    Keys::new(store.clone(), clock.clone(), principals)
        .create(&operator, request)
        .await
}

impl Keys {
    pub(crate) fn new(store: Store, clock: Clock, principals: Principals) -> Self {
        Self {
            store,
            clock,
            principals,
        }
    }

    /// Returns a new key with this secret, which is not stored yet.
    pub(crate) fn new_key(
        &self,
        org: OrgId,
        request: CheckedKey,
        secret: &Secret,
    ) -> Result<NewKey, Refusal> {
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

    pub(crate) async fn create(&self, caller: &Caller, request: CreateKey) -> Result<CreatedKey, Refusal> {
        let request = CheckedKey::of(&request, self.clock.now())?;
        let secret = self.principals.new_key()?;
        let key = self.new_key(caller.org, request, &secret)?;
        let created = CreatedKey {
            id: key.id,
            name: key.name.clone(),
            role: key.role,
            key: secret.expose().to_owned(),
            expires_at: key.expires_at,
            previous_until: None,
        };
        let audit = caller.audit((self.clock.now(), random()?), "key.create", key.id);
        self.store.create_key(key, audit).await?;
        Ok(created)
    }

    pub(crate) async fn rotate(
        &self,
        caller: &Caller,
        id: KeyId,
        request: &RotateKey,
    ) -> Result<CreatedKey, Refusal> {
        let grace = request.grace_seconds.unwrap_or(limits::GRACE_SECONDS_DEFAULT);
        let grace = u64::try_from(grace)
            .ok()
            .filter(|_| grace <= limits::GRACE_SECONDS_MAX)
            .map(Duration::from_secs)
            .ok_or_else(|| {
                let most = limits::GRACE_SECONDS_MAX;
                ErrorCode::InvalidRequest.because(format!("grace_seconds: must be from 0 to {most}"))
            })?;
        let secret = self.principals.new_key()?;
        let at = self.clock.now();
        let rotation = Rotation {
            id,
            hash: secret.hash(),
            at,
            previous_until: at + grace,
        };
        let audit = caller.audit((self.clock.now(), random()?), "key.rotate", id);
        let rotated = self.store.rotate_key(caller.org, rotation, audit).await?;
        let ApiKey {
            name,
            role,
            expires_at,
            previous_until,
            ..
        } = rotated;
        Ok(CreatedKey {
            id,
            name,
            role,
            key: secret.expose().to_owned(),
            expires_at,
            previous_until,
        })
    }

    pub(crate) async fn delete(&self, caller: &Caller, id: KeyId) -> Result<(), Refusal> {
        let audit = caller.audit((self.clock.now(), random()?), "key.delete", id);
        Ok(self.store.delete_key(caller.org, id, audit).await?)
    }
}

/// Request for a key that satisfies every rule.
pub(crate) struct CheckedKey {
    name: String,
    role: Role,
    expires_at: Option<Timestamp>,
}

impl CheckedKey {
    /// Returns the request for the first key of an organization.
    pub(crate) fn first() -> Self {
        Self {
            name: "first admin key".to_owned(),
            role: Role::Admin,
            expires_at: None,
        }
    }

    /// Checks a request; `InvalidRequest` names the field and the rule.
    fn of(request: &CreateKey, now: Timestamp) -> Result<Self, Refusal> {
        let name = request.name.trim();
        let length = name.chars().count();
        if length == 0 || length > limits::KEY_NAME_CHARS || !is_seen_whole(name) {
            return Err(ErrorCode::InvalidRequest.because(format!(
                "name: must be 1 to {} characters, without control and invisible characters",
                limits::KEY_NAME_CHARS
            )));
        }
        let role = request.role.unwrap_or(Role::Member);
        if role == Role::Owner {
            return Err(ErrorCode::InvalidRequest.because("role: must be member or admin"));
        }
        if request.expires_at.is_some_and(|at| at <= now) {
            return Err(ErrorCode::InvalidRequest.because("expires_at: must be in the future"));
        }
        Ok(Self {
            name: name.to_owned(),
            role,
            expires_at: request.expires_at,
        })
    }
}
