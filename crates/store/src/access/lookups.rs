//! Cache of credential look-ups. A node keeps each for some seconds, so a busy client costs one query in that time.
//!
//! A command that ends access drops the affected look-ups on this node, even if it fails: it may have been committed
//! although its answer was lost. The next use of a credential then reads the database. Other nodes use their look-ups until
//! these are too old. So does this node if the caller of the command disconnects before its commit.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use sortie_api::{OrgId, Timestamp, UserId};
use tokio::time::Instant;

use crate::{
    Error, Result, Store,
    access::{By, Principal},
    people::SignedIn,
};

/// Maximum number of cached look-ups; a full cache is dropped as a whole.
const KEPT: usize = 20_000;

/// Look-ups of a node. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Lookups(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// Look-ups and the times at which they began, by the SHA-256 of the credential, or of a session and an organization.
    by_hash: HashMap<[u8; 32], (Lookup, Instant)>,
    /// Number of times that look-ups were dropped. A look-up that began before the last drop is not cached.
    dropped: u64,
}

/// Result of a look-up: a credential of the engine, or the session of a person.
#[derive(Clone, Copy, Debug)]
pub enum Lookup {
    /// Owner of an API key, of an access token, of a console session, or of a session in an organization.
    Principal(Principal),
    /// Person with a session.
    SignedIn(SignedIn),
}

impl From<Principal> for Lookup {
    fn from(principal: Principal) -> Self {
        Self::Principal(principal)
    }
}

impl From<SignedIn> for Lookup {
    fn from(person: SignedIn) -> Self {
        Self::SignedIn(person)
    }
}

impl From<Lookup> for Option<Principal> {
    fn from(lookup: Lookup) -> Self {
        match lookup {
            Lookup::Principal(principal) => Some(principal),
            Lookup::SignedIn(_) => None,
        }
    }
}

impl From<Lookup> for Option<SignedIn> {
    fn from(lookup: Lookup) -> Self {
        match lookup {
            Lookup::Principal(_) => None,
            Lookup::SignedIn(person) => Some(person),
        }
    }
}

impl Lookup {
    /// Expiry of the credential. `None` if it never expires.
    const fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Principal(principal) => principal.until,
            Self::SignedIn(person) => Some(person.until),
        }
    }
}

/// Access that a command ends or changes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended {
    /// Credentials of a subject, and the console sessions of a key.
    Of(By),
    /// Every credential of an organization.
    Organization(OrgId),
    /// Sessions and grants of a person.
    Person(UserId),
    /// Access of unknown subjects.
    Any,
}

impl Ended {
    fn includes(self, lookup: &Lookup) -> bool {
        match (self, lookup) {
            (Self::Any, _) => true,
            (Self::Of(by), Lookup::Principal(principal)) => {
                principal.by == by || principal.session_key.is_some_and(|key| by == By::Key(key))
            }
            (Self::Of(by), Lookup::SignedIn(person)) => by == By::Session(person.session),
            (Self::Organization(org), Lookup::Principal(principal)) => principal.org == org,
            (Self::Organization(_), Lookup::SignedIn(_)) => false,
            (Self::Person(user), Lookup::Principal(principal)) => principal.user == Some(user),
            (Self::Person(user), Lookup::SignedIn(person)) => person.user == user,
        }
    }
}

/// Guard of a command that ends access. When it is dropped, the look-ups are dropped, also after an error.
#[must_use]
pub(crate) struct Ending<'a> {
    lookups: &'a Lookups,
    ended: Ended,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.lookups.forget(self.ended);
    }
}

impl Store {
    /// Returns the look-up of a credential by its SHA-256, or of a session and an organization by another hash. A cached
    /// look-up is used for the time `fresh`, unless a command of this node has ended the access since; otherwise `find`
    /// makes a new one. `None` if the credential has expired by the clock `now`.
    pub async fn look_up<T>(
        &self,
        hash: [u8; 32],
        fresh: Duration,
        now: impl Fn() -> Timestamp,
        find: impl Future<Output = Result<Option<T>>>,
    ) -> Result<Option<T>>
    where
        T: Copy + Into<Lookup>,
        Option<T>: From<Lookup>,
    {
        let works = move |found: &T| {
            let lookup: Lookup = (*found).into();
            lookup.until().is_none_or(|until| now() < until)
        };
        let dropped = match self.lookups.fresh(&hash, fresh) {
            Ok(kept) => return Ok(Option::from(kept).filter(works)),
            Err(dropped) => dropped,
        };
        // Measured from before the read: if another node ends the access, this node notices at most `fresh` after the read
        // began.
        let began = Instant::now();
        let found = find.await?.filter(works);
        if let Some(found) = found {
            self.lookups.keep(hash, (found.into(), began), dropped);
        }
        Ok(found)
    }

    /// Guards a command that ends access: drops the affected look-ups at the end of the command.
    pub(crate) fn ending(&self, ended: Ended) -> Ending<'_> {
        Ending {
            lookups: &self.lookups,
            ended,
        }
    }

    /// Drops the look-ups of the access that a command has ended, according to its result. Drops all look-ups if the command
    /// failed but may have been committed.
    pub(crate) fn ended<T>(&self, done: Result<T>, ended: impl FnOnce(&T) -> Option<Ended>) -> Result<T> {
        let ended = match &done {
            Ok(done) => ended(done),
            Err(error) if matches!(error, Error::Unavailable(_)) || error.is_of_data() => Some(Ended::Any),
            Err(_) => None,
        };
        if let Some(ended) = ended {
            self.lookups.forget(ended);
        }
        done
    }
}

impl Lookups {
    fn forget(&self, ended: Ended) {
        let mut kept = self.0.lock();
        kept.dropped += 1;
        kept.by_hash.retain(|_, (lookup, _)| !ended.includes(lookup));
    }

    /// Caches a look-up, unless look-ups were dropped since it began.
    fn keep(&self, hash: [u8; 32], lookup: (Lookup, Instant), dropped: u64) {
        let mut kept = self.0.lock();
        if kept.dropped != dropped {
            return;
        }
        if kept.by_hash.len() >= KEPT {
            kept.by_hash.clear();
        }
        kept.by_hash.insert(hash, lookup);
    }

    /// Returns the cached look-up of a credential, or else the current [`Kept::dropped`].
    fn fresh(&self, hash: &[u8; 32], fresh: Duration) -> std::result::Result<Lookup, u64> {
        let kept = self.0.lock();
        let found = kept.by_hash.get(hash).filter(|(_, at)| at.elapsed() < fresh);
        found.map(|(lookup, _)| *lookup).ok_or(kept.dropped)
    }
}
