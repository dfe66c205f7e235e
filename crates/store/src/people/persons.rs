//! Accounts of people.

use sortie_api::{Timestamp, UserId};

use super::sessions::{self, NewSession};
use crate::{
    Store,
    db::{Row, Stmt, vals},
    types::{Error, Result},
};

/// Error of a sign-up whose address has an account.
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

/// Account of a person, without the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonRow {
    /// ID of the person.
    pub id: UserId,
    /// Email address as the person typed it.
    pub email: String,
    /// Name that others see.
    pub name: String,
    /// Time of the sign-up.
    pub created_at: Timestamp,
    /// Time at which the person proved that the address is theirs.
    pub email_verified_at: Option<Timestamp>,
}

/// Account that a sign-in names, with its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// The person.
    pub person: PersonRow,
    /// Hash of the password, as a PHC string.
    pub password: String,
    /// Time since which the operator lets this person sign in no more.
    pub disabled_at: Option<Timestamp>,
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
    /// Hash that the account has now. The change is refused where it has another one.
    pub old: String,
    /// Hash of the new password, as a PHC string.
    pub new: String,
}

/// Columns that [`person_from`] reads, in its order.
macro_rules! columns {
    () => {
        "id, email, name, created_at, email_verified_at"
    };
}

impl Store {
    /// Creates an account with its first session. `Conflict` where the address has an account.
    pub async fn sign_up(&self, person: NewPerson, session: NewSession) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[insert(&person).exactly(1, TAKEN), sessions::insert(&session)])
                    .map(drop)
            })
            .await
    }

    /// System: finds the account of an email address, given in the form that is compared.
    pub async fn find_account(&self, email_key: &str) -> Result<Option<Account>> {
        let email_key = email_key.to_owned();
        self.db
            .read(move |tx| {
                tx.query_opt(
                    concat!(
                        "SELECT ",
                        columns!(),
                        ", password, disabled_at FROM person WHERE email_key = $1"
                    ),
                    vals![email_key.as_str()],
                )?
                .as_ref()
                .map(account_from)
                .transpose()
            })
            .await
    }

    /// Reads the account of a person, with its password.
    pub async fn account(&self, user: UserId) -> Result<Account> {
        self.db
            .read(move |tx| {
                account_from(&tx.query_one(
                    concat!(
                        "SELECT ",
                        columns!(),
                        ", password, disabled_at FROM person WHERE id = $1"
                    ),
                    vals![user],
                )?)
            })
            .await
    }

    /// Changes the name of a person.
    pub async fn rename_person(&self, user: UserId, name: &str) -> Result<PersonRow> {
        let name = name.to_owned();
        self.db
            .write(move |tx| {
                person_from(&tx.query_one(
                    concat!("UPDATE person SET name = $2 WHERE id = $1 RETURNING ", columns!()),
                    vals![user, name.as_str()],
                )?)
            })
            .await
    }

    /// Marks the address of a person as verified. The time of the first proof stays.
    pub async fn verify_email(&self, user: UserId, at: Timestamp) -> Result<()> {
        self.db
            .write(move |tx| tx.batch(&[verify(user, at)]).map(drop))
            .await
    }

    /// Changes a password and ends every session of the person but the one that asks.
    pub async fn change_password(&self, change: PasswordChange, keep: sortie_api::SessionId) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[set_password(&change), sessions::delete_others(change.user, keep)])
                    .map(drop)
            })
            .await
    }
}

pub(crate) fn insert(person: &NewPerson) -> Stmt<'_> {
    Stmt::new(
        "INSERT INTO person (id, email, email_key, name, password, created_at) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (email_key) DO NOTHING",
        vals![
            person.id,
            person.email.as_str(),
            person.email_key.as_str(),
            person.name.as_str(),
            person.password.as_str(),
            person.created_at
        ],
    )
}

pub(super) fn verify(user: UserId, at: Timestamp) -> Stmt<'static> {
    Stmt::new(
        "UPDATE person SET email_verified_at = COALESCE(email_verified_at, $2) WHERE id = $1",
        vals![user, at],
    )
    .exactly(1, Error::NotFound)
}

/// Replaces the hash of a password where it is still the old one: of two changes at once one is refused.
pub(super) fn set_password(change: &PasswordChange) -> Stmt<'_> {
    Stmt::new(
        "UPDATE person SET password = $3 WHERE id = $1 AND password = $2",
        vals![change.user, change.old.as_str(), change.new.as_str()],
    )
    .exactly(1, CHANGED)
}

pub(super) fn person_from(row: &Row) -> Result<PersonRow> {
    Ok(PersonRow {
        id: row.parse(0)?,
        email: row.text(1)?.to_owned(),
        name: row.text(2)?.to_owned(),
        created_at: row.time(3)?,
        email_verified_at: row.opt_time(4)?,
    })
}

fn account_from(row: &Row) -> Result<Account> {
    Ok(Account {
        person: person_from(row)?,
        password: row.text(5)?.to_owned(),
        disabled_at: row.opt_time(6)?,
    })
}
