//! Sessions: each sign-in creates one. Only the SHA-256 of a session's token is stored.

use std::{cmp::Reverse, fmt, net::IpAddr, str::FromStr};

use sortie_api::{OrgId, SessionId, Timestamp, UserId};

use super::{
    attempts::{self, Attempt},
    identities::{self, ProvenIdentity},
    memberships::{self, GivenRole},
    persons::{self, PasswordChange},
    second_factor::{self, Factor},
};
use crate::{
    Error, Result, Store,
    access::{Audit, By, audit::record, lookups::Ended},
    db::{Stmt, Val, insert, row, select, text_columns, vals},
};

/// Client of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionKind {
    /// A program that sends the token as a bearer token.
    Api,
    /// A browser that sends the token as a cookie.
    Web,
}

/// A text that is no kind of session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be api or web")]
pub struct UnknownSessionKind;

impl SessionKind {
    /// The name in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Web => "web",
        }
    }
}

text_columns!(SessionKind);

impl FromStr for SessionKind {
    type Err = UnknownSessionKind;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownSessionKind> {
        [Self::Api, Self::Web]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or(UnknownSessionKind)
    }
}

impl fmt::Display for SessionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Session to begin.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// ID of the session.
    pub id: SessionId,
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    /// The person who signs in.
    pub user: UserId,
    /// Client of the session.
    pub kind: SessionKind,
    /// Time of the sign-in.
    pub created_at: Timestamp,
    /// End of the session.
    pub expires_at: Timestamp,
    /// Address that the person signed in from.
    pub address: Option<IpAddr>,
    /// Name that the client gave itself (`User-Agent`).
    pub agent: Option<String>,
}

/// Proofs of a sign-in, and the attempts that it refunds.
#[derive(Clone, Debug, Default)]
pub struct SignIn {
    /// Hash that the password was compared with, and the hash to store from now on.
    pub password: Option<PasswordChange>,
    /// Identity at a provider, instead of a password.
    pub identity: Option<ProvenIdentity>,
    /// New role from the identity provider, if it differs from the current one.
    pub role: Option<GivenRole>,
    /// Second factor, which works once.
    pub factor: Option<Factor>,
    /// Subject that loses all of its counted attempts.
    pub forgotten: Option<Attempt>,
    /// Subjects that get one attempt refunded, in their order.
    pub refunded: Vec<Attempt>,
}

row! {
    /// Session as its person sees it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SessionRow {
        /// ID of the session.
        pub id: SessionId = "s.id",
        /// Client of the session.
        pub kind: SessionKind = "s.kind",
        /// Time of the sign-in.
        pub created_at: Timestamp = "s.created_at",
        /// End of the session.
        pub expires_at: Timestamp = "s.expires_at",
        /// Time of a late use; the last one may be an hour later.
        pub seen_at: Timestamp = "s.seen_at",
        /// Address that the person signed in from.
        pub address: Option<IpAddr> = "s.address",
        /// Name that the client gave itself (`User-Agent`).
        pub agent: Option<String> = "s.agent",
    }
}

row! {
    /// Session of a member of an organization, as its admins see it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct MemberSession {
        /// The session.
        pub session: SessionRow,
        /// The person.
        pub user: UserId = "p.id",
        /// Email address of the person.
        pub email: String = "p.email",
    }
}

row! {
    /// Person that the token of a session belongs to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SignedIn {
        /// The person.
        pub user: UserId = "s.user_id",
        /// The session.
        pub session: SessionId = "s.id",
        /// Client of the session.
        pub kind: SessionKind = "s.kind",
        /// End of the session.
        pub until: Timestamp = "s.expires_at",
        /// Time of a recent use; see [`Store::session_seen`].
        pub seen_at: Timestamp = "s.seen_at",
        /// True if the person has proved that the email address is theirs.
        pub email_verified: bool = "CASE WHEN p.email_verified_at IS NULL THEN 0 ELSE 1 END",
    }
}

impl Store {
    /// Begins a session. `Conflict` if the password has changed or the person was disabled since the password was
    /// compared, if the second factor was used before, or if the identity was unlinked from the person.
    pub async fn sign_in(&self, session: NewSession, with: SignIn) -> Result<()> {
        let changes_access = with.role.is_some() || with.identity.is_some();
        let _ending = changes_access.then(|| self.ending(Ended::Person(session.user)));
        self.db
            .write(move |tx| {
                let mut statements = Vec::with_capacity(6);
                if let Some(given) = &with.role {
                    statements.extend(memberships::give(given, session.user, session.created_at));
                }
                statements.extend(with.password.as_ref().map(persons::set_password));
                if let Some(proven) = &with.identity {
                    statements.extend(identities::prove(session.user, proven, session.created_at));
                }
                statements.extend(
                    with.factor
                        .as_ref()
                        .map(|factor| second_factor::use_up(session.user, factor)),
                );
                statements.push(insert(&session));
                statements.extend(with.forgotten.as_ref().map(attempts::forget));
                statements.extend(with.refunded.iter().map(attempts::refund));
                tx.batch(&statements).map(drop)
            })
            .await
    }

    /// System: finds the person by the SHA-256 of a session token. `None` if no session has it, or if the operator has
    /// disabled the person. The session may have ended: the caller compares [`SignedIn::until`] with its clock.
    pub async fn find_session(&self, hash: [u8; 32]) -> Result<Option<SignedIn>> {
        self.db
            .read(move |tx| {
                tx.read_opt(
                    select!(
                        SignedIn,
                        " FROM session s JOIN person p ON p.id = s.user_id \
                         WHERE s.hash = $1 AND p.disabled_at IS NULL"
                    ),
                    vals![&hash],
                )
            })
            .await
    }

    /// System: notes a use of a session. Callers note one use in an hour.
    pub async fn session_seen(&self, session: SessionId, at: Timestamp) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE session SET seen_at = $2 WHERE id = $1 AND seen_at < $2",
                    vals![session, at],
                )
                .map(drop)
            })
            .await
    }

    /// Lists at most `limit` active sessions of a person at `at`, newest first.
    pub async fn list_sessions(&self, user: UserId, at: Timestamp, limit: u32) -> Result<Vec<SessionRow>> {
        self.db
            .read(move |tx| {
                tx.read_all(
                    select!(
                        SessionRow,
                        " FROM session s WHERE s.user_id = $1 AND s.expires_at > $2 \
                         ORDER BY s.created_at DESC, s.id DESC LIMIT $3"
                    ),
                    vals![user, at, limit],
                )
            })
            .await
    }

    /// Ends one session of a person. `NotFound` if the person has no such session.
    pub async fn end_session(&self, user: UserId, session: SessionId) -> Result<()> {
        let _ending = self.ending(Ended::Of(By::Session(session)));
        self.db
            .write(move |tx| {
                let end = Stmt::new(
                    "DELETE FROM session WHERE id = $1 AND user_id = $2",
                    vals![session, user],
                );
                tx.batch(&[end.exactly(1, Error::NotFound)]).map(drop)
            })
            .await
    }

    /// Lists at most 1,000 active sessions of the members of an organization at `at`, newest first.
    pub async fn list_member_sessions(&self, org: OrgId, at: Timestamp) -> Result<Vec<MemberSession>> {
        self.db
            .read(move |tx| {
                let mut sessions: Vec<MemberSession> = tx.read_all(
                    select!(
                        MemberSession,
                        " FROM membership m JOIN person p ON p.id = m.user_id \
                         JOIN session s ON s.user_id = m.user_id WHERE m.org_id = $1 AND s.expires_at > $2 LIMIT 1000"
                    ),
                    vals![org, at],
                )?;
                sessions.sort_by_key(|of| Reverse((of.session.created_at, of.session.id)));
                Ok(sessions)
            })
            .await
    }

    /// Ends the session of a member of an organization. `NotFound` if no member has such a session.
    pub async fn end_member_session(&self, org: OrgId, session: SessionId, audit: Audit) -> Result<()> {
        let _ending = self.ending(Ended::Of(By::Session(session)));
        self.db
            .write(move |tx| {
                tx.batch(&[
                    Stmt::new(
                        "DELETE FROM session WHERE id = $1 AND (SELECT 1 FROM membership m WHERE m.org_id = $2 \
                         AND m.user_id = session.user_id) = 1",
                        vals![session, org],
                    )
                    .exactly(1, Error::NotFound),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }

    /// System: deletes up to `limit` sessions that ended before `at`, the earliest first. Returns their number.
    pub async fn delete_ended_sessions(&self, at: Timestamp, limit: u32) -> Result<u64> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "DELETE FROM session WHERE id {IN}SELECT s.id FROM session s WHERE s.expires_at < $1 \
                     ORDER BY s.expires_at LIMIT $2{END}",
                    vals![at, limit],
                )
            })
            .await
    }
}

pub(super) fn insert(session: &NewSession) -> Stmt<'_> {
    insert!("session", {
        "id": session.id,
        "hash": &session.hash,
        "user_id": session.user,
        "kind": session.kind,
        "created_at": session.created_at,
        "expires_at": session.expires_at,
        "seen_at": session.created_at,
        "address": session.address,
        "agent": session.agent.as_deref(),
    })
}

/// Ends every session of a person but one.
pub(super) fn delete_others(user: UserId, keep: SessionId) -> Stmt<'static> {
    Stmt::new(
        "DELETE FROM session WHERE user_id = $1 AND id <> $2",
        vals![user, keep],
    )
}

/// Ends every session of a person.
pub(crate) fn delete_all(user: UserId) -> Stmt<'static> {
    Stmt::new("DELETE FROM session WHERE user_id = $1", vec![Val::from(user)])
}
