//! Password changes: with the old password, or without it through a mail.

use std::time::Duration;

use sortie_api::{Credential, ErrorCode, SessionId, Timestamp, UserId};
use sortie_store::people::{Account, PasswordChange, Purpose};

use super::{
    jobs::Job,
    rules,
    sign_up::{RESET_PAGE, mail_token, spent, unknown_token},
};
use crate::{Accounts, Parts, Result, email::EmailAddress, mail::Letter};

/// Password attempts per hour of a signed-in person.
const ATTEMPTS: u32 = 10;

/// Lifetime of the token that resets a password.
const RESET_WITHIN: Duration = Duration::from_hours(1);

/// Time after a sign-in in which a person without a password needs no other proof.
const RECENT: Duration = Duration::from_mins(10);

/// Proof of a person who changes their account.
#[derive(Clone, Debug)]
pub struct Proof {
    /// Password of the account.
    pub password: Option<Credential>,
    /// End of the session of the request. The time of the sign-in is derived from it.
    pub session_until: Timestamp,
}

impl Accounts {
    /// Sends a mail with a password reset token if the address has an account. Returns at once: neither the
    /// outcome nor the time reveals whether it has one. Returns `Conflict` if mail is not configured. `back` is the path of the
    /// page that the person continues with.
    pub fn forgot_password(&self, email: &str, back: Option<&str>) -> Result<()> {
        let email = EmailAddress::parse(email)?;
        if self.0.options.mail.is_none() {
            return Err(ErrorCode::Conflict
                .because("this deployment sends no mail: ask the operator for a link that sets a password"));
        }
        self.0.jobs.enqueue(Job::Forgot(email, back.map(str::to_owned)))
    }

    /// Sets a password with the token of a mail, and ends all sessions and grants of the person.
    pub async fn reset_password(&self, token: &str, new: Credential) -> Result<()> {
        rules::password_length("new_password", new.expose())?;
        let hash = mail_token(token)?;
        let parts = &self.0;
        let now = parts.options.clock.now();
        let account = parts
            .store
            .account_of_token(hash, Purpose::ResetPassword, now)
            .await?;
        let person = account.ok_or_else(unknown_token)?.person;
        let hints = [person.email.clone(), person.name.clone()];
        let hashed = parts.slots.hash_new("new_password", new, hints).await?;
        let letter = Letter::PasswordWasReset { name: person.name };
        let mail = parts.letter(&person.email, &letter)?;
        let done = parts.store.reset_password((hash, now), hashed, mail).await;
        done.map_err(spent)?;
        parts.mail_queued();
        Ok(())
    }

    /// Changes the password of a person, or sets the first one. Ends all sessions except `keep`, that of the request.
    pub async fn change_password(
        &self,
        (user, keep): (UserId, SessionId),
        proof: Proof,
        new: Credential,
    ) -> Result<()> {
        rules::password_length("new_password", new.expose())?;
        let parts = &self.0;
        let account = parts.own_account(user, "current_password", proof).await?;
        let hints = [account.person.email, account.person.name];
        let new = parts.slots.hash_new("new_password", new, hints).await?;
        let change = PasswordChange {
            user,
            old: account.password,
            new,
        };
        Ok(parts.store.change_password(change, keep).await?)
    }
}

impl Parts {
    /// Reads the account of a person who proves their identity by the password in a field or, without a password, by a recent
    /// sign-in. Counts the attempt.
    pub(crate) async fn own_account(
        &self,
        user: UserId,
        field: &'static str,
        proof: Proof,
    ) -> Result<Account> {
        self.attempt("password", &user.to_string(), ATTEMPTS).await?;
        let account = self.store.account(user).await?;
        if account.password.is_empty() {
            let recent = self.options.session_length().saturating_sub(RECENT);
            if proof.session_until > self.options.clock.now() + recent {
                return Ok(account);
            }
            return Err(ErrorCode::Forbidden
                .because("this account has no password: sign in again, and repeat this within ten minutes"));
        }
        let Some(password) = proof.password else {
            return Err(ErrorCode::InvalidRequest.because(format!("{field}: must be set")));
        };
        if self.slots.matches(password, account.password.clone()).await? {
            return Ok(account);
        }
        Err(ErrorCode::InvalidRequest.because(format!("{field}: is not the password of the account")))
    }

    /// Queues the mail of [`Accounts::forgot_password`].
    pub(crate) async fn send_reset(&self, email: &EmailAddress, back: Option<&str>) -> Result<()> {
        self.mail_attempt(email).await?;
        let account = self.store.find_account(&email.key).await?;
        let Some(account) = account.filter(|of| of.disabled_at.is_none()) else {
            return Ok(());
        };
        let person = account.person;
        let letter = |url, expires_at| Letter::ResetPassword {
            name: person.name.clone(),
            url,
            expires_at,
        };
        let token = (Purpose::ResetPassword, RESET_WITHIN);
        let sent = self.token_by_mail((person.id, &person.email), token, (RESET_PAGE, back), letter)?;
        if let Some(sent) = sent {
            self.store.keep_one_time(sent).await?;
            self.mail_queued();
        }
        Ok(())
    }
}
