//! Identities: accounts of people at identity providers. Issuer and subject name an identity, never an address.

use sortie_api::{SessionId, Timestamp, UserId};

use super::{
    memberships::{self, GivenRole},
    persons::{self, Account, NewPerson},
    sessions::{self, NewSession},
};
use crate::{
    Error, Result, Store,
    access::lookups::Ended,
    db::{Stmt, insert, row, select, vals},
};

/// Error of a sign-in if its identity or person has changed since the look-up. The caller looks it up again.
pub const IDENTITY_CHANGED: &str = "the account changed at the same time";

const CHANGED: Error = Error::Conflict(IDENTITY_CHANGED);

/// Text of the [`Error::Conflict`] of a link to an account that has another identity of the same issuer.
pub const OTHER_IDENTITY: &str =
    "this account is linked to another person's account at the identity provider: ask the operator";

/// Text of the [`Error::Conflict`] of a change that would leave a person without a way to sign in.
pub const ONLY_WAY: &str = "this is the only way in which you sign in: set a password first";

row! {
    /// Account at an identity provider.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Identity {
        /// Issuer of the provider.
        pub issuer: String = "issuer",
        /// Name of the account there.
        pub subject: String = "subject",
    }
}

/// Identity that a sign-in proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProvenIdentity {
    /// Identity of the person who signs in.
    Known(Identity),
    /// Identity that is linked to the person now, because the provider is trusted for the address of the account.
    Linked {
        /// The identity.
        identity: Identity,
        /// Address of the account, in the form that is compared.
        email_key: String,
    },
}

row! {
    /// Identity as its person sees it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct IdentityRow {
        /// The identity.
        pub identity: Identity,
        /// Time of the first sign-in with it.
        pub created_at: Timestamp = "created_at",
    }
}

impl Store {
    /// System: finds the account of the person with an identity.
    pub async fn find_identity(&self, identity: &Identity) -> Result<Option<Account>> {
        let identity = identity.clone();
        self.db
            .read(move |tx| {
                let owner = tx.query_opt(
                    "SELECT user_id FROM identity WHERE issuer = $1 AND subject = $2",
                    vals![identity.issuer.as_str(), identity.subject.as_str()],
                )?;
                let Some(owner) = owner else {
                    return Ok(None);
                };
                tx.read_opt(persons::BY_ID, vals![owner.only::<UserId>()?])
            })
            .await
    }

    /// Creates the account of an identity, with a verified address, the first session, and a role. `Conflict` if the address
    /// has an account or the identity has a person.
    pub async fn sign_up_with_identity(
        &self,
        person: NewPerson,
        identity: Identity,
        session: NewSession,
        role: Option<GivenRole>,
    ) -> Result<()> {
        self.db
            .write(move |tx| {
                let (user, at) = (person.id, person.created_at);
                let mut statements = Vec::with_capacity(7);
                statements.extend(role.iter().flat_map(|given| memberships::give(given, user, at)));
                statements.extend([
                    persons::insert(&person).exactly(1, persons::TAKEN),
                    persons::verify(user, at),
                    insert(&identity, user, at),
                    sessions::insert(&session),
                ]);
                tx.batch(&statements).map(drop)
            })
            .await
    }

    /// Lists the identities of a person, the earliest first, at most 100.
    pub async fn list_identities(&self, user: UserId) -> Result<Vec<IdentityRow>> {
        self.db
            .read(move |tx| {
                let mut identities: Vec<IdentityRow> = tx.read_all(
                    select!(IdentityRow, " FROM identity WHERE user_id = $1 LIMIT 100"),
                    vals![user],
                )?;
                identities.sort_by_key(|row| row.created_at);
                Ok(identities)
            })
            .await
    }

    /// Removes an identity of a person, and ends every session but `keep`. `NotFound` if the person has no such identity or
    /// the account was deleted, `Conflict` if the person would have no remaining way to sign in.
    pub async fn unlink_identity(&self, user: UserId, identity: &Identity, keep: SessionId) -> Result<()> {
        let _ending = self.ending(Ended::Person(user));
        let identity = identity.clone();
        self.db
            .write(move |tx| {
                tx.batch(&[
                    // Of two concurrent changes the second one sees the first.
                    persons::lock(user),
                    Stmt::new(
                        "DELETE FROM identity WHERE issuer = $1 AND subject = $2 AND user_id = $3",
                        vals![identity.issuer.as_str(), identity.subject.as_str(), user],
                    )
                    .exactly(1, Error::NotFound),
                    Stmt::new(
                        "SELECT 1 FROM person p WHERE p.id = $1 AND (p.password <> '' \
                         OR EXISTS (SELECT 1 FROM identity i WHERE i.user_id = $1))",
                        vals![user],
                    )
                    .exactly(1, Error::Conflict(ONLY_WAY)),
                    sessions::delete_others(user, keep),
                ])
                .map(drop)
            })
            .await
    }
}

/// Refuses the command unless the identity is the person's and the person may sign in. Links a new identity first, if the
/// account has a verified address or no password yet. Any other account may have been created by a stranger who does not own
/// the address. An account has one identity per issuer: the provider may have given the address to another person.
pub(super) fn prove(user: UserId, proven: &ProvenIdentity, at: Timestamp) -> Vec<Stmt<'_>> {
    match proven {
        ProvenIdentity::Known(identity) => vec![
            // Unlinking an identity ends the sessions of its person. With this lock, the sign-in sees a concurrent
            // unlinking, or the unlinking sees the new session.
            persons::lock(user).exactly(1, CHANGED),
            Stmt::new(
                "SELECT 1 FROM identity i JOIN person p ON p.id = i.user_id \
                 WHERE i.issuer = $1 AND i.subject = $2 AND i.user_id = $3 AND p.disabled_at IS NULL",
                vals![identity.issuer.as_str(), identity.subject.as_str(), user],
            )
            .exactly(1, CHANGED),
        ],
        ProvenIdentity::Linked { identity, email_key } => vec![
            Stmt::new(
                "UPDATE person SET email_verified_at = COALESCE(email_verified_at, $2) WHERE id = $1 AND email_key = $3 \
                 AND disabled_at IS NULL AND (email_verified_at IS NOT NULL OR password = '')",
                vals![user, at, email_key.as_str()],
            )
            .exactly(1, CHANGED),
            // The update has locked the person: of two concurrent links the second one sees the first.
            Stmt::new(
                "SELECT 1 FROM identity WHERE user_id = $1 AND issuer = $2 AND subject <> $3",
                vals![user, identity.issuer.as_str(), identity.subject.as_str()],
            )
            .exactly(0, Error::Conflict(OTHER_IDENTITY)),
            insert(identity, user, at),
        ],
    }
}

fn insert(identity: &Identity, user: UserId, at: Timestamp) -> Stmt<'_> {
    insert!("identity", {
        "issuer": identity.issuer.as_str(),
        "subject": identity.subject.as_str(),
        "user_id": user,
        "created_at": at,
    }, " ON CONFLICT (issuer, subject) DO NOTHING")
    .exactly(1, CHANGED)
}
