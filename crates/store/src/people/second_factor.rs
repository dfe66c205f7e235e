//! Second factors: the sealed key of an authenticator, and recovery codes.
//!
//! A key waits for its confirmation: a sign-in needs the second factor from then on. A time step of the authenticator is
//! accepted once, in increasing order; a recovery code is accepted once.

use sortie_api::{Timestamp, UserId};

use super::{
    one_time::{self, NewOneTime, Purpose},
    persons,
};
use crate::{
    Error, Result, Store,
    db::{Stmt, vals},
};

/// Error of a new key if the account already has a confirmed one.
const ENROLLED: Error = Error::Conflict("the account has a second factor: remove it first");

/// Error of a confirmation without a key that waits for it.
const NOT_ENROLLED: Error = Error::Conflict("no second factor waits for its confirmation: enrol first");

/// Error of a factor that was used, or that belongs to another key.
const USED: Error = Error::Conflict(CODE_USED);

/// Text of the [`Error::Conflict`] of a code that was used before.
pub const CODE_USED: &str = "the code has been used";

/// Second factor of a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// Code of the authenticator for this time step.
    Step(i64),
    /// SHA-256 of a recovery code.
    Recovery([u8; 32]),
}

impl Store {
    /// Stores the sealed key of an authenticator until it is confirmed, and replaces an earlier unconfirmed one. `Conflict`
    /// if a key is confirmed, `NotFound` if the account was deleted.
    pub async fn enrol_totp(&self, user: UserId, sealed: Vec<u8>) -> Result<()> {
        self.db
            .write(move |tx| {
                let enrol = Stmt::new(
                    "UPDATE person SET totp = $2, totp_step = NULL WHERE id = $1 AND totp_since IS NULL",
                    vals![user, sealed.as_slice()],
                );
                tx.batch(&[persons::lock(user), enrol.exactly(1, ENROLLED)])
                    .map(drop)
            })
            .await
    }

    /// Confirms the key of an authenticator by its code for a time step, and stores the recovery codes. `Conflict` if no key
    /// waits for confirmation, or a key other than `sealed`.
    pub async fn confirm_totp(
        &self,
        (user, sealed): (UserId, Vec<u8>),
        (step, at): (i64, Timestamp),
        codes: Vec<NewOneTime>,
    ) -> Result<()> {
        self.db
            .write(move |tx| {
                let mut statements = vec![
                    Stmt::new(
                        "UPDATE person SET totp_since = $4, totp_step = $3 \
                         WHERE id = $1 AND totp = $2 AND totp_since IS NULL",
                        vals![user, sealed.as_slice(), step, at],
                    )
                    .exactly(1, NOT_ENROLLED),
                    one_time::delete_all(user, Purpose::Recovery),
                ];
                statements.extend(codes.iter().map(one_time::insert));
                tx.batch(&statements).map(drop)
            })
            .await
    }

    /// Removes the second factor of a person by one of its codes. `Conflict` if the code was used before, `NotFound` if the
    /// account was deleted.
    pub async fn remove_totp(&self, user: UserId, factor: Factor) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[
                    persons::lock(user),
                    use_up(user, &factor),
                    Stmt::new(
                        "UPDATE person SET totp = NULL, totp_since = NULL, totp_step = NULL WHERE id = $1",
                        vals![user],
                    )
                    .exactly(1, Error::NotFound),
                    one_time::delete_all(user, Purpose::Recovery),
                ])
                .map(drop)
            })
            .await
    }
}

/// Removes the second factor of a person with an unverified address. A stranger may have set it up.
pub(super) fn remove_of_unverified(user: UserId) -> [Stmt<'static>; 2] {
    [
        Stmt::new(
            "DELETE FROM one_time WHERE user_id = $1 AND purpose = $2 \
             AND EXISTS (SELECT 1 FROM person WHERE id = $1 AND email_verified_at IS NULL)",
            vals![user, Purpose::Recovery],
        ),
        Stmt::new(
            "UPDATE person SET totp = NULL, totp_since = NULL, totp_step = NULL \
             WHERE id = $1 AND email_verified_at IS NULL",
            vals![user],
        ),
    ]
}

/// Consumes a second factor. Refuses the command if it was used before.
pub(super) fn use_up(user: UserId, factor: &Factor) -> Stmt<'_> {
    let statement = match factor {
        Factor::Step(step) => Stmt::new(
            "UPDATE person SET totp_step = $2 \
             WHERE id = $1 AND totp_since IS NOT NULL AND COALESCE(totp_step, -1) < $2",
            vals![user, *step],
        ),
        Factor::Recovery(hash) => Stmt::new(
            "DELETE FROM one_time WHERE hash = $1 AND purpose = $2 AND user_id = $3",
            vals![hash.as_slice(), Purpose::Recovery, user],
        ),
    };
    statement.exactly(1, USED)
}
