//! Saved connections: stored, listed without secrets, tested, authorized, and opened for the runs that name them.
//!
//! Credentials are sealed before they reach the store and opened only for the call that needs them. Responses to
//! clients are made from the half of a definition that holds no secrets.

mod addressed;
mod auth;
mod authorize;
mod catalog;
mod challenges;
mod confirm;
pub(crate) mod fields;
mod flow;
pub(crate) mod form;
mod programs;
mod resolve;
pub(crate) mod secrets;
mod tokens;

pub(crate) use resolve::InlineSecrets;

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Weak},
    time::Instant,
};

use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use sortie_api::{
    Connection, ConnectionId, ConnectionStatus, ErrorCode, Mode, OrgId, Refusal,
    connection::{AuthType, ConnectionDefinition, ConnectionTest, ConnectionType, KnownService, ShownAuth},
    limits,
};
use sortie_connect::{Connector, Status, StdioLauncher, oauth};
use sortie_net::Reach;
use sortie_sandbox::Backend;
use sortie_store::{
    Store,
    access::Caller,
    connections::{ConnectionRow, ListedConnection, OldTokens, SaveConnection},
};
use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;
use zeroize::Zeroizing;

use self::{
    addressed::Address,
    fields::At,
    form::{Checked, Rules, Use},
    programs::Programs,
    secrets::{AuthSecret, Secrets},
};
use crate::{
    credentials::master_keys::SEAL_CHECK,
    kit::{options::Options, random::random},
};
use sortie_base::{Clock, SealContext, SealError, Sealer};

/// Text that the first node seals, so that the others can check their keys with it.
const KEY_CHECK_TEXT: &[u8] = b"sortie";

/// Maximum number of attempts to save a connection that others change at the same time.
const PUT_TRIES: u32 = 5;

/// Access of one node to the connections of every organization. Cheap to clone.
#[derive(Clone)]
pub struct Connections(Arc<Inner>);

struct Inner {
    store: Store,
    clock: Clock,
    sealer: Sealer,
    /// Set once this node was found to have the keys of the database.
    sealer_fits: OnceCell<()>,
    reach: Reach,
    /// `Ok` if a connection may be a program, otherwise the rule that forbids it.
    programs: Result<(), String>,
    connector: Connector,
    oauth: oauth::Client,
    home: Option<oauth::Home>,
    /// Locks that allow one token refresh at a time for each connection on this node.
    refreshes: Mutex<HashMap<ConnectionId, Weak<tokio::sync::Mutex<()>>>>,
    tracker: TaskTracker,
}

pub use confirm::AwaitingConfirmation;

/// Effect of a `PUT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// No connection had the name.
    Created,
    /// A connection had the name.
    Replaced,
}

impl Connections {
    /// Creates the access of a node. Programs run in `sandbox`, or fail with its reason.
    pub(crate) fn new(
        options: &Options,
        store: Store,
        tracker: TaskTracker,
        sandbox: &Result<Arc<dyn Backend>, String>,
    ) -> Result<Self, Refusal> {
        let failed =
            |error: sortie_net::Error| Refusal::internal(format!("connections cannot be made: {error}"));
        let reach = options.connections_reach;
        let network = crate::kit::web::network(reach, options)?;
        let programs = match (options.mode, sandbox) {
            (Mode::Hosted, _) => Err("is for self-hosted engines".to_owned()),
            (Mode::SelfHosted, Err(reason)) => {
                Err(format!("programs cannot be run on this engine: {reason}"))
            }
            (Mode::SelfHosted, Ok(backend)) => Ok(Arc::clone(backend)),
        };
        let launcher = programs.as_ref().ok().map(|backend| {
            let root = options.data_dir.join("programs");
            let programs = Programs::new(Arc::clone(backend), options.sandbox_limits, root, tracker.clone());
            Arc::new(programs) as Arc<dyn StdioLauncher>
        });
        let programs = programs.map(drop);
        Ok(Self(Arc::new(Inner {
            store,
            clock: options.clock.clone(),
            sealer: Sealer::new(options.master_keys.clone()),
            sealer_fits: OnceCell::new(),
            reach,
            connector: Connector::new(&network, launcher).map_err(failed)?,
            programs,
            oauth: oauth::Client::new(&network).map_err(failed)?,
            home: options.base_url.as_deref().and_then(authorize::home),
            refreshes: Mutex::default(),
            tracker,
        })))
    }

    /// Returns the rules for a definition.
    pub(crate) fn rules(&self, usage: Use) -> Rules<'_> {
        Rules {
            reach: self.0.reach,
            usage,
            programs: self.0.programs.as_ref().copied().map_err(String::as_str),
        }
    }

    /// Saves a connection under `name`, or replaces the one that has the name. Tokens stay if the new definition has
    /// the same address and the same client. `InvalidRequest` names the field and the rule.
    pub async fn put(
        &self,
        caller: &Caller,
        name: &str,
        definition: ConnectionDefinition,
    ) -> Result<(Connection, Put), Refusal> {
        check_name(name)?;
        let checked = form::check(At(""), self.rules(Use::Saved), definition)?;
        for _ in 0..PUT_TRIES {
            let (put, done) = match self.0.store.get_connection(caller.org, name).await {
                Ok(old) => (Put::Replaced, self.replace(caller, &old, &checked).await?),
                Err(sortie_store::Error::NotFound) => {
                    (Put::Created, self.create(caller, name, &checked).await?)
                }
                Err(error) => return Err(error.into()),
            };
            if done {
                return Ok((self.get(caller.org, name).await?, put));
            }
        }
        Err(ErrorCode::Conflict.because("the connection is being changed by others, try again"))
    }

    async fn create(&self, caller: &Caller, name: &str, checked: &Checked) -> Result<bool, Refusal> {
        let now = self.0.clock.now();
        let id = ConnectionId::new(now, random()?);
        let new = self.to_save(caller.org, (id, name), checked).await?;
        let audit = caller.audit((self.0.clock.now(), random()?), "connection.put", name);
        Ok(self
            .0
            .store
            .create_connection(new, limits::SAVED_CONNECTIONS, audit)
            .await?)
    }

    async fn replace(
        &self,
        caller: &Caller,
        old: &ConnectionRow,
        checked: &Checked,
    ) -> Result<bool, Refusal> {
        let org = caller.org;
        let old_tokens = if self.is_same_client(org, old, checked) {
            OldTokens::Keep
        } else {
            OldTokens::Drop
        };
        let new = self.to_save(org, (old.id, &old.name), checked).await?;
        let audit = caller.audit((self.0.clock.now(), random()?), "connection.put", &*old.name);
        Ok(self
            .0
            .store
            .replace_connection(new, old.revision, old_tokens, audit)
            .await?)
    }

    /// Whether tokens of the old definition are valid for the new one. Tokens that do not open are dropped.
    fn is_same_client(&self, org: OrgId, old: &ConnectionRow, new: &Checked) -> bool {
        let (Ok(definition), Ok(secrets)) = (definition_of(old), self.secrets_of(org, old)) else {
            return false;
        };
        let tokens_open = old
            .tokens
            .as_deref()
            .is_none_or(|sealed| self.tokens_of(org, old, sealed).is_ok());
        tokens_open
            && matches!(secrets.auth, AuthSecret::OAuth(_))
            && secrets.auth == new.secrets.auth
            && (definition.kind, &definition.url) == (new.definition.kind, &new.definition.url)
    }

    async fn to_save(
        &self,
        org: OrgId,
        (id, name): (ConnectionId, &str),
        checked: &Checked,
    ) -> Result<SaveConnection, Refusal> {
        let row = id.to_string();
        let status = match checked.secrets.auth {
            AuthSecret::OAuth(_) => ConnectionStatus::NeedsAuthorization,
            AuthSecret::None
            | AuthSecret::Bearer { .. }
            | AuthSecret::Basic { .. }
            | AuthSecret::Header { .. }
            | AuthSecret::Query { .. } => ConnectionStatus::Ready,
        };
        Ok(SaveConnection {
            id,
            org,
            name: name.to_owned(),
            definition: to_json(&checked.definition)?,
            credentials: self
                .seal_for(
                    credentials_at(&row, org),
                    &Address::of(&checked.definition),
                    &checked.secrets,
                )
                .await?,
            status,
            at: self.0.clock.now(),
        })
    }

    /// Returns a connection by its name.
    pub async fn get(&self, org: OrgId, name: &str) -> Result<Connection, Refusal> {
        // No connection can have an invalid name.
        check_name(name).map_err(|_| Refusal::not_found())?;
        shown(self.0.store.listed_connection(org, name).await?)
    }

    /// Returns the organization's connections with names after `after` (an empty text: all), sorted by name, at most `limit`.
    pub async fn list(&self, org: OrgId, after: String, limit: u32) -> Result<Vec<Connection>, Refusal> {
        self.0
            .store
            .list_connections(org, after, limit)
            .await?
            .into_iter()
            .map(shown)
            .collect()
    }

    /// Deletes a connection and its credentials. Runs that name it fail when they start.
    pub async fn delete(&self, caller: &Caller, name: &str) -> Result<(), Refusal> {
        check_name(name).map_err(|_| Refusal::not_found())?;
        let audit = caller.audit((self.0.clock.now(), random()?), "connection.delete", name);
        Ok(self.0.store.delete_connection(caller.org, name, audit).await?)
    }

    /// Returns the services that can be connected by name and credential alone.
    pub fn catalog(&self) -> Vec<KnownService> {
        catalog::services()
    }

    /// Calls the service as a run would at its start, and records the result.
    pub async fn test(&self, org: OrgId, name: &str) -> Result<ConnectionTest, Refusal> {
        let row = self.row(org, name).await?;
        let began = Instant::now();
        let found = match self.saved(org, &row.name, &row) {
            Ok(connection) => {
                let report = self.0.connector.test(&connection).await;
                ConnectionTest {
                    status: status_of(report.status, definition_of(&row)?.auth_type()),
                    detail: report.detail,
                    http_status: report.http_status,
                    protocol_version: report.protocol_version,
                    tools: report.tools,
                    duration_ms: report.duration_ms,
                }
            }
            Err(sentence) => ConnectionTest {
                status: ConnectionStatus::Error,
                detail: sentence,
                http_status: None,
                protocol_version: None,
                tools: None,
                duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            },
        };
        let error = (found.status != ConnectionStatus::Ready).then(|| found.detail.clone());
        let recorded = self
            .0
            .store
            .set_connection_status(row.seen(org), row.revision, found.status, error);
        recorded.await?;
        Ok(found)
    }

    /// Returns the types of the named connections that exist.
    pub(crate) async fn kinds(
        &self,
        org: OrgId,
        names: Vec<String>,
    ) -> Result<HashMap<String, ConnectionType>, Refusal> {
        let rows = self.0.store.connections_named(org, names).await?;
        rows.into_iter()
            .map(|row| Ok((definition_of(&row)?.kind, row.name)))
            .map(|found| found.map(|(kind, name)| (name, kind)))
            .collect()
    }

    async fn row(&self, org: OrgId, name: &str) -> Result<ConnectionRow, Refusal> {
        // No connection can have an invalid name.
        check_name(name).map_err(|_| Refusal::not_found())?;
        Ok(self.0.store.get_connection(org, name).await?)
    }

    /// Seals a value for its context. Checks first that this node has the keys of the database.
    pub(crate) async fn seal(
        &self,
        context: SealContext<'_>,
        value: &(impl Serialize + Sync),
    ) -> Result<Vec<u8>, Refusal> {
        let text = to_sealed_json(value)?;
        self.fits().await?;
        self.0
            .sealer
            .seal(context, &text, random()?)
            .map_err(sealing_failed)
    }

    /// Checks that this node has the keys of the database: once, by a write.
    pub(crate) async fn fits(&self) -> Result<(), Refusal> {
        self.0
            .sealer_fits
            .get_or_try_init(|| self.check_keys())
            .await
            .copied()
    }

    /// Checks the keys of this node. Two nodes with different keys could not read each other's sealed values.
    async fn check_keys(&self) -> Result<(), Refusal> {
        if !self.0.sealer.has_key() {
            return Err(sealing_failed(SealError::NoKey));
        }
        let mine = self
            .0
            .sealer
            .seal(SEAL_CHECK, KEY_CHECK_TEXT, random()?)
            .map_err(sealing_failed)?;
        let first = self.0.store.seal_check(mine).await?;
        self.0
            .sealer
            .open(SEAL_CHECK, &first)
            .map(drop)
            .map_err(sealing_failed)
    }

    pub(crate) fn sealer(&self) -> &Sealer {
        &self.0.sealer
    }

    /// Opens a value that was sealed for a context.
    pub(crate) fn open<T: DeserializeOwned>(
        &self,
        context: SealContext<'_>,
        sealed: &[u8],
    ) -> Result<T, Refusal> {
        let text = self.0.sealer.open(context, sealed).map_err(sealing_failed)?;
        // The error would repeat parts of the text.
        serde_json::from_slice(&text).map_err(|_| Refusal::internal("a sealed text is not of its form"))
    }

    fn secrets_of(&self, org: OrgId, row: &ConnectionRow) -> Result<Secrets, Refusal> {
        let address = Address::of_row(row)?;
        self.open_for(
            credentials_at(&row.id.to_string(), org),
            &address,
            &row.credentials,
        )
    }
}

/// Beginning and remedy of the errors of a missing master key.
const UNSEALED: &str = "credentials cannot be kept or read";
const GIVE_A_KEY: &str = "give every node of this database the same SORTIE_MASTER_KEY";

fn sealing_failed(error: SealError) -> Refusal {
    match error {
        SealError::NoKey => ErrorCode::Conflict.because(format!("{UNSEALED}: {error}; {GIVE_A_KEY}")),
        // Another node may have the key.
        SealError::UnknownKey => ErrorCode::Unavailable.because(format!("{UNSEALED}: {error}; {GIVE_A_KEY}")),
        SealError::Broken => Refusal::internal("cannot open a sealed text"),
    }
}

fn credentials_at(row: &str, org: OrgId) -> SealContext<'_> {
    SealContext {
        table: "connection",
        column: "credentials",
        row,
        org: Some(org),
    }
}

/// Checks the name of a saved connection.
fn check_name(name: &str) -> Result<(), Refusal> {
    crate::kit::rules::name("name", name)?;
    if name == "catalog" {
        return Err(ErrorCode::InvalidRequest.because("name: `catalog` is the name of a route"));
    }
    Ok(())
}

fn to_json(value: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string(value).map_err(|error| Refusal::internal(format!("cannot be serialized: {error}")))
}

/// Serializes a value that is to be sealed. The buffer has its final size from the start, because a growing one leaves
/// copies of the text in memory.
fn to_sealed_json(value: &impl Serialize) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let failed = |error: serde_json::Error| Refusal::internal(format!("cannot be serialized: {error}"));
    let mut length = Length(0);
    serde_json::to_writer(&mut length, value).map_err(failed)?;
    let mut text = Zeroizing::new(Vec::with_capacity(length.0));
    serde_json::to_writer(&mut *text, value).map_err(failed)?;
    Ok(text)
}

/// Counts the bytes that are written to it.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the stored half of a definition.
fn definition_of(row: &ConnectionRow) -> Result<ConnectionDefinition, Refusal> {
    serde_json::from_str(&row.definition)
        .map_err(|error| Refusal::internal(format!("a stored connection cannot be read: {error}")))
}

/// Converts a row into the connection that clients receive.
fn shown(
    ListedConnection {
        connection: row,
        used_by,
    }: ListedConnection,
) -> Result<Connection, Refusal> {
    let definition = definition_of(&row)?;
    let names = |values: Option<std::collections::BTreeMap<String, _>>| {
        values.into_iter().flatten().map(|(name, _)| name)
    };
    Ok(Connection {
        name: row.name,
        kind: definition.kind,
        auth: ShownAuth {
            kind: definition.auth_type(),
        },
        url: definition.url,
        command: definition.command,
        env: names(definition.env).collect(),
        headers: names(definition.headers).collect(),
        allowed_methods: definition.allowed_methods,
        allowed_tools: definition.allowed_tools,
        description: definition.description,
        status: row.status,
        error: row.error,
        created_at: row.created_at,
        updated_at: row.updated_at,
        used_by,
    })
}

/// Returns the status to store. Only a connection with OAuth waits for a person to authorize it.
fn status_of(found: Status, auth: AuthType) -> ConnectionStatus {
    match found {
        Status::Ready => ConnectionStatus::Ready,
        Status::NeedsAuthorization if auth == AuthType::OAuth => ConnectionStatus::NeedsAuthorization,
        Status::NeedsAuthorization | Status::Error => ConnectionStatus::Error,
    }
}
