//! Principal of a credential, and its look-up.

use std::{fmt, str::FromStr};

use sortie_api::{ActorKind, GrantId, KeyId, OrgId, Role, RunId, ScheduleId, SessionId, Timestamp, UserId};

use crate::{
    Result, Store,
    db::{Column, Val, parsed, row, select, vals},
    organizations::IS_SUSPENDED,
};

/// Owner of a valid credential, with the organization and the role that the credential gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Organization of the credential.
    pub org: OrgId,
    /// Role in that organization.
    pub role: Role,
    /// Scope of the grant, for an access token. The role is at most this one.
    pub scope: Option<Role>,
    /// Subject of the credential.
    pub by: By,
    /// Expiry of the credential. `None` if it never expires.
    pub until: Option<Timestamp>,
    /// Person of the credential. `None` for an API key.
    pub user: Option<UserId>,
    /// True while the operator has suspended the organization.
    pub suspended: bool,
    /// API key of a console session. `None` for every other credential.
    pub session_key: Option<KeyId>,
}

/// Subject of a credential or a change. Rate limits count its requests; the audit log and the signatures between nodes name
/// it.
///
/// Several credentials may have one subject. A key has two secrets during its rotation, and a grant gets a new access
/// token every hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// An API key.
    Key(KeyId),
    /// A person's permission for an OAuth client.
    Grant(GrantId),
    /// A sign-in of a person, or with an API key at the console.
    Session(SessionId),
    /// A token for this run.
    RunToken(RunId),
    /// A schedule that starts a run or is paused after failures.
    Schedule(ScheduleId),
    /// The operator of the installation.
    Operator,
}

/// Text of [`By::Operator`], which has no id.
const OPERATOR: &str = "operator";

impl By {
    /// Kind of the subject, as the audit log names it.
    pub const fn kind(self) -> ActorKind {
        match self {
            Self::Key(_) => ActorKind::Key,
            Self::Grant(_) => ActorKind::Grant,
            Self::Session(_) => ActorKind::Session,
            Self::RunToken(_) => ActorKind::RunToken,
            Self::Schedule(_) => ActorKind::Schedule,
            Self::Operator => ActorKind::Operator,
        }
    }

    /// ID of the subject. `None` for the operator.
    pub fn id(self) -> Option<String> {
        match self {
            Self::Key(id) => Some(id.to_string()),
            Self::Grant(id) => Some(id.to_string()),
            Self::Session(id) => Some(id.to_string()),
            Self::RunToken(run) => Some(run.to_string()),
            Self::Schedule(id) => Some(id.to_string()),
            Self::Operator => None,
        }
    }

    /// The API key. `None` for every other subject.
    pub const fn key(self) -> Option<KeyId> {
        match self {
            Self::Key(id) => Some(id),
            Self::Grant(_) | Self::Session(_) | Self::RunToken(_) | Self::Schedule(_) | Self::Operator => {
                None
            }
        }
    }
}

/// The id, or `operator`.
impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => id.fmt(f),
            Self::Grant(id) => id.fmt(f),
            Self::Session(id) => id.fmt(f),
            Self::RunToken(run) => run.fmt(f),
            Self::Schedule(id) => id.fmt(f),
            Self::Operator => f.write_str(OPERATOR),
        }
    }
}

impl FromStr for By {
    type Err = <ScheduleId as FromStr>::Err;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        if text == OPERATOR {
            return Ok(Self::Operator);
        }
        // Each kind of id has a distinct prefix, so at most one of them parses the text.
        let key = text.parse().map(Self::Key);
        key.or_else(|_| text.parse().map(Self::Grant))
            .or_else(|_| text.parse().map(Self::Session))
            .or_else(|_| text.parse().map(Self::RunToken))
            .or_else(|_| text.parse().map(Self::Schedule))
    }
}

/// The subject of a stored credential.
impl Column<'_> for By {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        parsed(value)
    }
}

row! {
    struct CredentialRow {
        by: By = "k.id",
        org: OrgId = "k.org_id",
        role: Role = "k.role",
        until: Option<Timestamp> = "k.expires_at",
        /// End of a previous secret, of the grant of an access token, or of the key of a console session.
        ends_at: Option<Timestamp> = "NULL",
        suspended: bool = IS_SUSPENDED,
        scope: Option<Role> = "NULL",
        user: Option<UserId> = "NULL",
        session_key: Option<KeyId> = "NULL",
    }
}

/// Query of a credential. The parts after the first one list the columns of [`CredentialRow`] in its order.
const BY_HASH: &str = select!(
    CredentialRow,
    " FROM api_key k JOIN organization o ON o.id = k.org_id WHERE k.hash = $1 \
     UNION ALL \
     SELECT k.id, k.org_id, k.role, k.expires_at, k.previous_until, ",
    IS_SUSPENDED,
    ", NULL, NULL, NULL FROM api_key k JOIN organization o ON o.id = k.org_id WHERE k.previous_hash = $1 \
     UNION ALL \
     SELECT g.id, g.org_id, m.role, t.expires_at, g.expires_at, ",
    IS_SUSPENDED,
    ", g.scope, g.user_id, NULL \
     FROM oauth_token t JOIN oauth_grant g ON g.id = t.grant_id \
     JOIN membership m ON m.org_id = g.org_id AND m.user_id = g.user_id \
     JOIN organization o ON o.id = g.org_id JOIN person p ON p.id = g.user_id \
     WHERE t.hash = $1 AND t.kind = 'access' AND p.disabled_at IS NULL \
     UNION ALL \
     SELECT s.id, k.org_id, k.role, s.expires_at, CASE WHEN k.hash = s.key_hash THEN k.expires_at \
     WHEN k.expires_at IS NULL OR k.previous_until < k.expires_at THEN k.previous_until ELSE k.expires_at END, ",
    IS_SUSPENDED,
    ", NULL, NULL, k.id FROM console_session s JOIN api_key k ON k.id = s.key_id \
     JOIN organization o ON o.id = k.org_id \
     WHERE s.hash = $1 AND (k.hash = s.key_hash OR k.previous_hash = s.key_hash)",
);

const KEY_BY_ID: &str = select!(
    CredentialRow,
    " FROM api_key k JOIN organization o ON o.id = k.org_id WHERE k.id = $1",
);

impl Store {
    /// System: finds the principal of an API key by its ID, for the tokens that were made with the key. The key may have
    /// expired: the caller compares [`Principal::until`] with its clock.
    pub async fn find_key_principal(&self, key: KeyId) -> Result<Option<Principal>> {
        self.db
            .read(move |tx| {
                let found: Option<CredentialRow> = tx.read_opt(KEY_BY_ID, vals![key])?;
                Ok(found.map(Principal::from))
            })
            .await
    }

    /// System: finds the principal of the credential with this SHA-256: an API key, an access token, or the token of a console
    /// session. The credential may have expired: the caller compares [`Principal::until`] with its clock.
    ///
    /// An access token has the person's current role in the organization, limited by the token's scope. Returns `None` if
    /// the person has left the organization or is disabled, or if the grant has ended.
    pub async fn find_principal(&self, hash: [u8; 32]) -> Result<Option<Principal>> {
        self.db
            .read(move |tx| {
                let found: Option<CredentialRow> = tx.read_opt(BY_HASH, vals![&hash])?;
                Ok(found.map(Principal::from))
            })
            .await
    }
}

impl From<CredentialRow> for Principal {
    fn from(row: CredentialRow) -> Self {
        Self {
            org: row.org,
            role: row.scope.map_or(row.role, |scope| row.role.min(scope)),
            scope: row.scope,
            by: row.by,
            until: [row.until, row.ends_at].into_iter().flatten().min(),
            user: row.user,
            suspended: row.suspended,
            session_key: row.session_key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_read_from_its_text() {
        let at = Timestamp::from_micros(1_700_000_000_000_000);
        let subjects = [
            By::Key(KeyId::new(at, [1; 10])),
            By::Grant(GrantId::new(at, [1; 10])),
            By::Session(SessionId::new(at, [1; 10])),
            By::RunToken(RunId::new(at, [1; 10])),
            By::Schedule(ScheduleId::new(at, [1; 10])),
            By::Operator,
        ];
        for by in subjects {
            assert_eq!(by.to_string().parse(), Ok(by));
            assert_eq!(by.id(), (by != By::Operator).then(|| by.to_string()));
            let same = subjects.iter().filter(|other| other.kind() == by.kind());
            assert_eq!(same.count(), 1, "{by}");
        }
        let key = KeyId::new(at, [1; 10]);
        assert_eq!(By::Key(key).to_string(), key.to_string());
        for other in ["", "Operator", "user_01kafs6w1cefkstv6qr1ptb0mp", "key_", "org_x"] {
            assert!(other.parse::<By>().is_err(), "{other}");
        }
    }
}
