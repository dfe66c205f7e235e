//! Sessions: the look-up of each request's token, the list of a person, and revocation.
//!
//! The store caches a look-up for five seconds ([`Lookup`](sortie_store::access::Lookup)). A session that is revoked on this node
//! stops at once; other nodes accept it for at most five seconds. The expiry of a session is part of its look-up, so it applies
//! on every node immediately.

use std::{net::IpAddr, time::Duration};

use sortie_api::{
    Mode, OrgId, SessionId, UserId,
    secret::{Presented, SESSION_TOKEN, Secret},
};
use sortie_base::{network, random};
use sortie_store::{
    access::Caller,
    people::{MemberSession, NewSession, SessionKind, SessionRow, SignedIn},
};

use crate::{Accounts, Options, Parts, Result};

/// Lifetime of a session on a hosted deployment. Nothing extends it.
const SESSION_LENGTH: Duration = Duration::from_hours(30 * 24);

/// Lifetime of a session at a self-hosted engine. Only the identity provider knows who has left, so the person has to sign in
/// there again.
const OWN_SESSION_LENGTH: Duration = Duration::from_hours(12);

/// Maximum number of sessions in a list.
pub const MOST_LISTED: u32 = 100;

/// Minimum time between two recorded uses of a session.
const NOTED: Duration = Duration::from_hours(1);

/// Maximum length of the stored client name, in bytes.
const LONGEST_AGENT: usize = 200;

/// Client that signs in.
#[derive(Clone, Debug)]
pub struct Client {
    /// Kind of its session.
    pub kind: SessionKind,
    /// Network address of the client.
    pub address: IpAddr,
    /// Name that the client sends (`User-Agent`).
    pub agent: Option<String>,
}

impl Client {
    /// Network that attempts are counted for.
    pub(crate) fn network(&self) -> IpAddr {
        network(self.address)
    }
}

impl Accounts {
    /// Finds the person with a session token. Returns `None` if the token is malformed, unknown, revoked or expired, or if the
    /// operator has disabled the person.
    pub async fn session(&self, token: impl Into<Presented<'_>>) -> Result<Option<SignedIn>> {
        self.0.session(token.into()).await
    }

    /// Like [`Accounts::session`], with the SHA-256 of the token.
    pub async fn session_by_hash(&self, hash: [u8; 32]) -> Result<Option<SignedIn>> {
        self.0.session_by_hash(hash).await
    }

    /// Lists the sessions of a person, newest first, at most [`MOST_LISTED`].
    pub async fn sessions(&self, user: UserId) -> Result<Vec<SessionRow>> {
        let now = self.0.options.clock.now();
        Ok(self.0.store.list_sessions(user, now, MOST_LISTED).await?)
    }

    /// Ends a session of a person, including that of the request. Returns `NotFound` if the person has no such session.
    pub async fn end_session(&self, user: UserId, session: SessionId) -> Result<()> {
        Ok(self.0.store.end_session(user, session).await?)
    }

    /// Lists the sessions of the members of an organization, newest first.
    pub async fn member_sessions(&self, org: OrgId) -> Result<Vec<MemberSession>> {
        let now = self.0.options.clock.now();
        Ok(self.0.store.list_member_sessions(org, now).await?)
    }

    /// Ends the session of a member of an organization. Returns `NotFound` if no member has such a session.
    pub async fn end_member_session(&self, caller: &Caller, session: SessionId) -> Result<()> {
        let audit = self.0.audit(&caller.actor, caller.org, "session.end", session)?;
        let store = &self.0.store;
        Ok(store.end_member_session(caller.org, session, audit).await?)
    }
}

impl Options {
    /// Lifetime of a session.
    pub const fn session_length(&self) -> Duration {
        match self.mode {
            Mode::Hosted => SESSION_LENGTH,
            Mode::SelfHosted => OWN_SESSION_LENGTH,
        }
    }
}

impl Parts {
    /// Finds the person who is signed in with a token; see [`Accounts::session`].
    pub(crate) async fn session(&self, token: Presented<'_>) -> Result<Option<SignedIn>> {
        if !token.is(SESSION_TOKEN) {
            return Ok(None);
        }
        self.session_by_hash(token.hash()).await
    }

    /// Finds the person who is signed in with a token; see [`Accounts::session_by_hash`].
    async fn session_by_hash(&self, hash: [u8; 32]) -> Result<Option<SignedIn>> {
        let mut was_read = false;
        let find = async {
            was_read = true;
            self.store.find_session(hash).await
        };
        let (fresh, now) = (self.options.credential_lookup, || self.options.clock.now());
        let found = self.store.look_up(hash, fresh, now, find).await?;
        if let Some(of) = found.filter(|of| was_read && of.seen_at + NOTED <= now()) {
            self.note(of.session).await;
        }
        Ok(found)
    }

    /// Records a use of a session. A failure does not fail the request.
    async fn note(&self, session: SessionId) {
        let now = self.options.clock.now();
        if let Err(error) = self.store.session_seen(session, now).await {
            tracing::warn!(%error, "noting the use of a session failed");
        }
    }

    /// Creates a session that begins now, and its token.
    pub(crate) fn new_session(&self, user: UserId, client: &Client) -> Result<(NewSession, Secret)> {
        let now = self.options.clock.now();
        let token = Secret::new(SESSION_TOKEN, random()?);
        let session = NewSession {
            id: SessionId::new(now, random()?),
            hash: token.hash(),
            user,
            kind: client.kind,
            created_at: now,
            expires_at: now + self.options.session_length(),
            address: Some(client.address),
            agent: client.agent.as_deref().map(shortened),
        };
        Ok((session, token))
    }
}

/// The first bytes of a client's name, without control characters.
fn shortened(agent: &str) -> String {
    let mut short = String::new();
    for character in agent.chars().filter(|character| !character.is_control()) {
        if short.len() + character.len_utf8() > LONGEST_AGENT {
            break;
        }
        short.push(character);
    }
    short
}

#[cfg(test)]
mod tests {
    use sortie_api::ErrorCode;
    use sortie_base::CREDENTIAL_LOOKUP;

    use super::*;
    use crate::rig::Rig;

    #[tokio::test]
    async fn a_look_up_is_used_for_five_seconds_and_an_end_on_this_node_holds_at_once() {
        let rig = Rig::new().await;
        let (ann, token) = rig.signed_in("ann").await;
        tokio::time::pause();
        let found = rig.accounts.session(&token).await.unwrap().unwrap();
        assert_eq!(found.user, ann);
        // Another node ends it.
        rig.database().execute("DELETE FROM session", ()).unwrap();
        tokio::time::advance(CREDENTIAL_LOOKUP.saturating_sub(Duration::from_millis(1))).await;
        assert_eq!(rig.accounts.session(&token).await.unwrap(), Some(found));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(rig.accounts.session(&token).await.unwrap(), None);

        let token = rig.sign_in(ann).await;
        let found = rig.accounts.session(&token).await.unwrap().unwrap();
        rig.accounts.end_session(ann, found.session).await.unwrap();
        assert_eq!(rig.accounts.session(&token).await.unwrap(), None);
        let again = rig.accounts.end_session(ann, found.session).await;
        assert_eq!(again.unwrap_err().code, ErrorCode::NotFound);
    }

    #[tokio::test]
    async fn a_kept_look_up_ends_with_its_session() {
        let rig = Rig::new().await;
        let (_, token) = rig.signed_in("ann").await;
        rig.pass(SESSION_LENGTH.saturating_sub(Duration::from_secs(1)));
        assert!(rig.accounts.session(&token).await.unwrap().is_some());
        rig.pass(Duration::from_secs(1));
        assert_eq!(rig.accounts.session(&token).await.unwrap(), None);
        for other in ["", "stu_", "stu_x", &token.replace("stu_", "sth_")] {
            assert_eq!(rig.accounts.session(other).await.unwrap(), None, "{other}");
        }
    }

    #[tokio::test]
    async fn a_use_is_noted_once_an_hour() {
        let rig = Rig::new().await;
        let (ann, token) = rig.signed_in("ann").await;
        let seen = async || rig.accounts.sessions(ann).await.unwrap()[0].seen_at;
        let began = seen().await;
        tokio::time::pause();
        for (minutes, noted) in [(59, false), (2, true), (58, false)] {
            rig.pass(Duration::from_mins(minutes));
            tokio::time::advance(CREDENTIAL_LOOKUP).await;
            let before = seen().await;
            rig.accounts.session(&token).await.unwrap().unwrap();
            assert_eq!(seen().await > before, noted, "after {minutes} minutes");
        }
        assert_eq!(seen().await, began + Duration::from_mins(61));
    }

    #[test]
    fn the_name_of_a_client_is_cut() {
        assert_eq!(shortened("curl/8\r\nx\0"), "curl/8x");
        let long = shortened(&"ü".repeat(LONGEST_AGENT));
        assert_eq!(long.len(), LONGEST_AGENT);
    }
}
