//! Credentials of open streams: a stream ends with its credential.
//!
//! A loop of the server checks the credential of each open stream once a second. Without open streams it checks nothing. It uses
//! the look-ups of requests, which a node caches for five seconds, and streams of one credential share them. A credential
//! that is revoked on this node thus ends its streams within about a second, and one revoked on another node within about six.
//! A failed look-up is retried every second, and the streams stay open until it succeeds.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::extract::FromRequestParts;
use futures_util::{StreamExt as _, stream};
use http::request::Parts;
use parking_lot::{Mutex, MutexGuard};
use sortie_accounts::Accounts;
use sortie_api::{OrgId, Refusal};
use sortie_engine::{Engine, RunGrant};
use sortie_store::access::By;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{Credential, Token};

/// Interval between two checks of the credentials.
const PERIOD: Duration = Duration::from_secs(1);

/// Number of concurrent look-ups.
const AT_ONCE: usize = 16;

/// Credential that opens a stream. `None` for a request of another node, which watches the credential itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opener(Option<Asked>);

/// Credential with the data that the watch needs to check it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    /// API key, access token or session of the console.
    Engine(Token),
    /// Session of a person, with the organization in which the person uses it.
    SessionIn(Token, OrgId),
    /// Token for one run.
    RunToken(RunGrant),
}

impl<S: Send + Sync> FromRequestParts<S> for Opener {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let token = parts.extensions.get::<Token>().copied();
        Ok(Self(match (parts.extensions.get(), token) {
            (Some(Credential::Principal(principal)), Some(token)) => {
                if matches!(principal.by, By::Session(_)) && principal.session_key.is_none() {
                    Some(Asked::SessionIn(token, principal.org))
                } else {
                    Some(Asked::Engine(token))
                }
            }
            (Some(Credential::RunToken(grant, _)), _) => Some(Asked::RunToken(*grant)),
            _ => None,
        }))
    }
}

/// Credential of an open stream. The watch checks it until the last stream of the credential is dropped.
#[derive(Debug)]
pub(crate) struct Watched(Arc<Streams>);

/// Open streams of a credential.
#[derive(Debug)]
struct Streams {
    is_revoked: AtomicBool,
    /// Cancelled when the credential has ended, and when the node stops.
    over: CancellationToken,
}

impl Watched {
    /// Returns true once the credential has ended.
    pub(crate) fn is_revoked(&self) -> bool {
        self.0.is_revoked.load(Ordering::Acquire)
    }

    /// Returns the future that completes when the credential has ended or the node stops.
    pub(crate) fn over(&self) -> WaitForCancellationFutureOwned {
        self.0.over.clone().cancelled_owned()
    }
}

/// Completes when the credential of a stream has ended or the node stops. Another node watches over a stream without one.
pub(crate) async fn over(credential: Option<&Watched>, stop: &CancellationToken) {
    match credential {
        Some(credential) => credential.over().await,
        None => stop.cancelled().await,
    }
}

/// Credentials of the open streams of a server.
pub(crate) struct CredentialWatch {
    engine: Engine,
    /// Accounts of the people who sign in at this server; absent if it has no sign-in.
    accounts: Option<Accounts>,
    open: Mutex<HashMap<Asked, Weak<Streams>>>,
    opened: Notify,
    stop: CancellationToken,
}

impl CredentialWatch {
    /// Creates the watch. All streams end at `stop`.
    pub(crate) fn new(engine: Engine, accounts: Option<Accounts>, stop: CancellationToken) -> Self {
        Self {
            engine,
            accounts,
            open: Mutex::default(),
            opened: Notify::new(),
            stop,
        }
    }

    /// Watches the credential of a stream.
    pub(crate) fn watch(&self, opener: Opener) -> Option<Watched> {
        let asked = opener.0?;
        let mut open = self.open();
        let known = open.get(&asked).and_then(Weak::upgrade);
        let streams = known.unwrap_or_else(|| {
            let streams = Arc::new(Streams {
                is_revoked: AtomicBool::new(false),
                over: self.stop.child_token(),
            });
            open.insert(asked, Arc::downgrade(&streams));
            streams
        });
        drop(open);
        self.opened.notify_one();
        Some(Watched(streams))
    }

    /// Ends streams with their credentials, until the future is dropped.
    pub(crate) async fn run(&self) {
        loop {
            self.opened.notified().await;
            loop {
                tokio::time::sleep(PERIOD).await;
                let open = self.still_open();
                if open.is_empty() {
                    break;
                }
                stream::iter(open)
                    .for_each_concurrent(AT_ONCE, |asked| self.check(asked))
                    .await;
            }
        }
    }

    /// Returns the credentials of open streams, and drops the others.
    fn still_open(&self) -> Vec<Asked> {
        let mut open = self.open();
        open.retain(|_, streams| streams.strong_count() > 0);
        open.keys().copied().collect()
    }

    /// Ends the streams of a credential that has become invalid.
    async fn check(&self, asked: Asked) {
        match self.is_valid(asked).await {
            Ok(true) => {}
            Ok(false) => {
                let streams = self.open().remove(&asked);
                if let Some(streams) = streams.as_ref().and_then(Weak::upgrade) {
                    streams.is_revoked.store(true, Ordering::Release);
                    streams.over.cancel();
                }
            }
            Err(cause) => {
                tracing::warn!(%cause, "looking up the credential of an event stream failed");
            }
        }
    }

    /// Returns true if a request with the credential would succeed: it is valid, and the organization is not suspended.
    async fn is_valid(&self, asked: Asked) -> Result<bool, Refusal> {
        let principal = match (asked, &self.accounts) {
            (Asked::Engine(token), _) => self.engine.authenticate_hash(token.hash()).await?,
            (Asked::RunToken(grant), _) => self.engine.run_token_principal(grant).await?,
            (Asked::SessionIn(token, org), Some(accounts)) => {
                match accounts.session_by_hash(token.hash()).await? {
                    Some(person) => self.engine.authenticate_session(org, &person).await?,
                    None => None,
                }
            }
            (Asked::SessionIn(..), None) => None,
        };
        Ok(principal.is_some_and(|principal| !principal.suspended))
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Asked, Weak<Streams>>> {
        self.open.lock()
    }
}
