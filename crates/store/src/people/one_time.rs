//! Tokens that work once: to verify an address, to reset a password, and to stand in for an authenticator. Only their
//! SHA-256 is stored.

use std::str::FromStr;

use sortie_api::{Timestamp, UserId};

use super::{
    persons::{self, Account},
    second_factor, sessions,
};
use crate::{
    Error, Result, Store,
    access::lookups::Ended,
    db::{Stmt, Tx, insert, text_columns, vals},
    oauth::grants::revoke_of,
    outbox::{NewMail, mail},
};

/// Error of a token that was used, has expired or never existed. The caller cannot distinguish the three.
const SPENT: Error = Error::Conflict("the token is unknown, used or expired");

/// Use of a one-time token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Proof that an email address belongs to the person.
    VerifyEmail,
    /// A new password without the old one.
    ResetPassword,
    /// A sign-in without the authenticator.
    Recovery,
}

/// A text that is no purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be verify, reset or recovery")]
pub struct UnknownPurpose;

impl Purpose {
    /// The name in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::VerifyEmail => "verify",
            Self::ResetPassword => "reset",
            Self::Recovery => "recovery",
        }
    }
}

text_columns!(Purpose);

impl FromStr for Purpose {
    type Err = UnknownPurpose;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownPurpose> {
        [Self::VerifyEmail, Self::ResetPassword, Self::Recovery]
            .into_iter()
            .find(|purpose| purpose.as_str() == text)
            .ok_or(UnknownPurpose)
    }
}

/// Token to store, with the mail that delivers it.
#[derive(Clone, Debug)]
pub struct OneTimeMail {
    /// The token.
    pub token: NewOneTime,
    /// Mail that has the token. `None` if the caller delivers the token.
    pub mail: Option<NewMail>,
}

/// Token to store, which works once.
#[derive(Clone, Debug)]
pub struct NewOneTime {
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    /// Use of the token.
    pub purpose: Purpose,
    /// The person.
    pub user: UserId,
    /// End of the token.
    pub expires_at: Timestamp,
}

impl Store {
    /// Stores a one-time token and queues its mail. Earlier tokens of the person for the same purpose end. `NotFound` if the
    /// account was deleted.
    pub async fn keep_one_time(&self, sent: OneTimeMail) -> Result<()> {
        self.db.write(move |tx| tx.batch(&keep(&sent)).map(drop)).await
    }

    /// System: finds the account that a token belongs to. `None` if the token is not valid at `at`.
    pub async fn account_of_token(
        &self,
        hash: [u8; 32],
        purpose: Purpose,
        at: Timestamp,
    ) -> Result<Option<Account>> {
        self.db
            .read(move |tx| {
                let owner = tx.query_opt(
                    "SELECT user_id FROM one_time WHERE hash = $1 AND purpose = $2 AND expires_at > $3",
                    vals![hash.as_slice(), purpose, at],
                )?;
                let Some(owner) = owner else {
                    return Ok(None);
                };
                tx.read_opt(persons::BY_ID, vals![owner.only::<UserId>()?])
            })
            .await
    }

    /// Uses a token to verify an address. The token ends. Returns the person. `Conflict` if the token is not valid at `at`.
    pub async fn verify_by_token(&self, hash: [u8; 32], at: Timestamp) -> Result<UserId> {
        let done = self
            .db
            .write(move |tx| {
                let user = take(tx, &hash, Purpose::VerifyEmail, at)?;
                tx.batch(&[persons::verify(user, at)])?;
                Ok(user)
            })
            .await;
        self.ended(done, |user| Some(Ended::Person(*user)))
    }

    /// Uses a token to set a password, ends every session and every grant of the person, and queues a mail about it. The
    /// person has read the mail with the token, so this also verifies the address. If the address was not verified before,
    /// the second factor is removed, because a stranger may have set it up. Returns the person. `Conflict` if the token is
    /// not valid at `at`.
    pub async fn reset_password(
        &self,
        (hash, at): ([u8; 32], Timestamp),
        password: String,
        mail: Option<NewMail>,
    ) -> Result<UserId> {
        let done = self
            .db
            .write(move |tx| {
                let user = take(tx, &hash, Purpose::ResetPassword, at)?;
                let mut statements = vec![
                    Stmt::new(
                        "UPDATE person SET password = $2 WHERE id = $1",
                        vals![user, password.as_str()],
                    )
                    .exactly(1, Error::NotFound),
                ];
                // Before the address becomes a verified one.
                statements.extend(second_factor::remove_of_unverified(user));
                statements.extend([
                    persons::verify(user, at),
                    sessions::delete_all(user),
                    revoke_of(user),
                ]);
                statements.extend(mail.as_ref().map(mail::insert));
                tx.batch(&statements)?;
                Ok(user)
            })
            .await;
        self.ended(done, |user| Some(Ended::Person(*user)))
    }

    /// System: deletes up to `limit` tokens that ended before `at`, the earliest first. Returns their number.
    pub async fn delete_ended_one_times(&self, at: Timestamp, limit: u32) -> Result<u64> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "DELETE FROM one_time WHERE hash {IN}SELECT o.hash FROM one_time o WHERE o.expires_at < $1 \
                     ORDER BY o.expires_at LIMIT $2{END}",
                    vals![at, limit],
                )
            })
            .await
    }
}

pub(crate) fn insert(token: &NewOneTime) -> Stmt<'_> {
    insert!("one_time", {
        "hash": &token.hash,
        "purpose": token.purpose,
        "user_id": token.user,
        "expires_at": token.expires_at,
    })
}

/// Ends a token and returns its person, who is locked.
fn take(tx: &mut dyn Tx, hash: &[u8; 32], purpose: Purpose, at: Timestamp) -> Result<UserId> {
    let works = || vals![hash.as_slice(), purpose, at];
    let owner = tx.query_opt(
        "SELECT user_id FROM one_time WHERE hash = $1 AND purpose = $2 AND expires_at > $3",
        works(),
    )?;
    let user = owner.ok_or(SPENT)?.only()?;
    tx.batch(&[
        persons::lock(user).exactly(1, SPENT),
        Stmt::new(
            "DELETE FROM one_time WHERE hash = $1 AND purpose = $2 AND expires_at > $3",
            works(),
        )
        .exactly(1, SPENT),
    ])?;
    Ok(user)
}

/// Stores a token, which replaces earlier ones, and queues its mail. Of two concurrent calls the second one replaces the
/// token of the first.
pub(super) fn keep(sent: &OneTimeMail) -> Vec<Stmt<'_>> {
    let mut statements = vec![
        persons::lock(sent.token.user),
        delete_all(sent.token.user, sent.token.purpose),
        insert(&sent.token),
    ];
    statements.extend(sent.mail.as_ref().map(mail::insert));
    statements
}

/// Ends the tokens of a person for a purpose.
pub(super) fn delete_all(user: UserId, purpose: Purpose) -> Stmt<'static> {
    Stmt::new(
        "DELETE FROM one_time WHERE user_id = $1 AND purpose = $2",
        vals![user, purpose],
    )
}
