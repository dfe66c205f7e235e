//! Accounts of people.

use std::net::IpAddr;

use sortie_api::{Timestamp, UserId};

use super::{
    one_time::{self, OneTimeMail},
    sessions::{self, NewSession},
};
use crate::{
    Error, Result, Store,
    access::lookups::Ended,
    db::{ReadRow, Row, Stmt, batch, insert, row, select, vals},
};

/// Error of a sign-up with an address that already has an account.
pub(crate) const TAKEN: Error = Error::Conflict("this email address has an account");

/// Error of a change that was computed from another password.
const CHANGED: Error = Error::Conflict("the password was changed at the same time");

/// Account to create.
#[derive(Clone, Debug)]
pub struct NewPerson {
    /// ID of the person.
    pub id: UserId,
    /// Email address as the person typed it.
    pub email: String,
    /// Email address in the form that is compared.
    pub email_key: String,
    /// Name that others see.
    pub name: String,
    /// Hash of the password, as a PHC string.
    pub password: String,
    /// Time of the sign-up.
    pub created_at: Timestamp,
}

row! {
    /// Account of a person, without the password.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PersonRow {
        /// ID of the person.
        pub id: UserId = "id",
        /// Email address as the person typed it.
        pub email: String = "email",
        /// Name that others see.
        pub name: String = "name",
        /// Time of the sign-up.
        pub created_at: Timestamp = "created_at",
        /// Time at which the person proved that the address is theirs.
        pub email_verified_at: Option<Timestamp> = "email_verified_at",
        /// Time since which a sign-in needs a second factor.
        pub second_factor_since: Option<Timestamp> = "totp_since",
        /// SHA-256 of the person's picture.
        pub avatar: Option<Vec<u8>> = "(SELECT a.sha256 FROM avatar a WHERE a.user_id = person.id)",
    }
}

row! {
    /// Account that a sign-in names, with its password.
    #[derive(Clone, PartialEq, Eq)]
    pub struct Account {
        /// The person.
        pub person: PersonRow,
        /// Hash of the password, as a PHC string.
        pub password: String = "password",
        /// Time at which the operator disabled this person.
        pub disabled_at: Option<Timestamp> = "disabled_at",
        /// Sealed key of the authenticator. Without [`PersonRow::second_factor_since`] it waits for its confirmation.
        pub totp: Option<Vec<u8>> = "totp",
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account")
            .field("person", &self.person)
            .field("disabled_at", &self.disabled_at)
            .finish_non_exhaustive()
    }
}

/// New password of a person.
#[derive(Clone)]
pub struct PasswordChange {
    /// The person.
    pub user: UserId,
    /// Current hash of the account. The change is refused if the account has another one.
    pub old: String,
    /// Hash of the new password, as a PHC string.
    pub new: String,
}

impl std::fmt::Debug for PasswordChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PasswordChange")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Query of the account of an address.
const BY_ADDRESS: &str = select!(Account, " FROM person WHERE email_key = $1");

/// Query of the account of a person.
pub(super) const BY_ID: &str = select!(Account, " FROM person WHERE id = $1");

impl Store {
    /// Creates an account, with its first session and with a mail that verifies the address. `Conflict` if the address has
    /// an account.
    pub async fn sign_up(
        &self,
        person: NewPerson,
        session: Option<NewSession>,
        verification: Option<OneTimeMail>,
    ) -> Result<()> {
        self.db
            .write(move |tx| {
                let mut statements = vec![insert(&person).exactly(1, TAKEN)];
                statements.extend(session.as_ref().map(sessions::insert));
                statements.extend(verification.iter().flat_map(one_time::keep));
                tx.batch(&statements).map(drop)
            })
            .await
    }

    /// System: finds the account of an email address, given in the form that is compared.
    pub async fn find_account(&self, email_key: &str) -> Result<Option<Account>> {
        let email_key = email_key.to_owned();
        self.db
            .read(move |tx| tx.read_opt(BY_ADDRESS, vals![email_key.as_str()]))
            .await
    }

    /// System: finds the account of an email address, and the addresses of at most 200 of its active sessions at `at`. The
    /// statements are the same for an unknown address.
    pub async fn account_to_sign_in(
        &self,
        email_key: &str,
        at: Timestamp,
    ) -> Result<(Option<Account>, Vec<IpAddr>)> {
        let email_key = email_key.to_owned();
        self.db
            .read(move |tx| {
                let [account, sessions] = batch(
                    tx,
                    &[
                        Stmt::new(BY_ADDRESS, vals![email_key.as_str()]),
                        Stmt::new(
                            "SELECT address FROM session WHERE user_id = (SELECT id FROM person WHERE email_key = $1) \
                             AND expires_at > $2 AND address IS NOT NULL ORDER BY created_at DESC, id DESC LIMIT 200",
                            vals![email_key.as_str(), at],
                        ),
                    ],
                )?;
                let account = account.first::<Account>()?;
                let addresses: Result<_> = sessions.rows.iter().map(Row::only).collect();
                Ok((account, addresses?))
            })
            .await
    }

    /// Reads the account of a person, with its password.
    pub async fn account(&self, user: UserId) -> Result<Account> {
        self.db.read(move |tx| tx.read_one(BY_ID, vals![user])).await
    }

    /// Changes the name of a person.
    pub async fn rename_person(&self, user: UserId, name: &str) -> Result<PersonRow> {
        let name = name.to_owned();
        self.db
            .write(move |tx| {
                tx.read_one(
                    constcat::concat!(
                        "UPDATE person SET name = $2 WHERE id = $1 AND deleted_at IS NULL RETURNING ",
                        PersonRow::COLUMNS
                    ),
                    vals![user, name.as_str()],
                )
            })
            .await
    }

    /// Marks the address of a person as verified. The time of the first proof stays.
    pub async fn verify_email(&self, user: UserId, at: Timestamp) -> Result<()> {
        let _ending = self.ending(Ended::Person(user));
        self.db
            .write(move |tx| tx.batch(&[verify(user, at)]).map(drop))
            .await
    }

    /// Changes a password and ends every session of the person but the one that asks.
    pub async fn change_password(&self, change: PasswordChange, keep: sortie_api::SessionId) -> Result<()> {
        let _ending = self.ending(Ended::Person(change.user));
        self.db
            .write(move |tx| {
                tx.batch(&[set_password(&change), sessions::delete_others(change.user, keep)])
                    .map(drop)
            })
            .await
    }
}

pub(crate) fn insert(person: &NewPerson) -> Stmt<'_> {
    insert!("person", {
        "id": person.id,
        "email": person.email.as_str(),
        "email_key": person.email_key.as_str(),
        "name": person.name.as_str(),
        "password": person.password.as_str(),
        "created_at": person.created_at,
    }, " ON CONFLICT (email_key) DO NOTHING")
}

/// Locks a person until the end of the transaction: after the organizations of the command, and before the person's
/// tokens, sessions and other rows. `NotFound` if the account was deleted: nothing is added to it afterwards.
pub(crate) fn lock(user: UserId) -> Stmt<'static> {
    Stmt::new(
        "UPDATE person SET name = name WHERE id = $1 AND deleted_at IS NULL",
        vals![user],
    )
    .exactly(1, Error::NotFound)
}

pub(super) fn verify(user: UserId, at: Timestamp) -> Stmt<'static> {
    Stmt::new(
        "UPDATE person SET email_verified_at = COALESCE(email_verified_at, $2) WHERE id = $1",
        vals![user, at],
    )
    .exactly(1, Error::NotFound)
}

/// Replaces the hash of a password if it is still the old one and the person may sign in. Of two concurrent changes one is
/// refused. A deleted account has no password, and neither have some others.
pub(super) fn set_password(change: &PasswordChange) -> Stmt<'_> {
    Stmt::new(
        "UPDATE person SET password = $3 WHERE id = $1 AND password = $2 AND disabled_at IS NULL \
         AND deleted_at IS NULL",
        vals![change.user, change.old.as_str(), change.new.as_str()],
    )
    .exactly(1, CHANGED)
}
