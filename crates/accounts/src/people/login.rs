//! Sign-in with address and password.
//!
//! Attempts are counted before the password is hashed. Unknown addresses, wrong passwords and disabled people take the same path
//! and get the same answer.

use sortie_api::{Credential, ErrorCode, account::LogIn};
use sortie_base::network;
use sortie_store::{
    Error as StoreError,
    people::{Account, Factor, OwnOrganization, PasswordChange, PersonRow, SignIn},
};

use super::{
    hashing::{NOBODYS, is_outdated},
    metrics::{Method, SignInOutcome},
    rules,
    second_factor::second_factor_required,
    sessions::Client,
};
use crate::{
    Accounts, Parts, Result,
    attempts::{HOUR, Limit},
    email::EmailAddress,
};
use sortie_api::SignUpRule;

/// Failed sign-ins per hour to one address from one network.
const FROM_ONE_NETWORK: u32 = 10;
/// Failed sign-ins per hour from one network.
const OF_ONE_NETWORK: u32 = 100;
/// Failed sign-ins per hour to one address from networks where the person has no session. Networks where the person is signed in
/// are exempt, so an attacker cannot lock the person out of them.
const FROM_STRANGE_NETWORKS: u32 = 50;
/// Codes of a second factor per hour for one person.
const CODES: u32 = 10;

/// Maximum number of organizations that a sign-in lists.
const MOST_ORGANIZATIONS: u32 = 1_000;

/// Text for every refused sign-in, regardless of the cause.
const WRONG: &str = "the email address or the password is wrong";

/// Person who has just signed in.
#[derive(Clone, Debug)]
pub struct LoggedIn {
    /// Token of the session.
    pub token: Credential,
    /// The person.
    pub person: PersonRow,
    /// Organizations of the person.
    pub organizations: Vec<OwnOrganization>,
}

impl Accounts {
    /// Signs a person in. Returns `Unauthorized` with the same text for every wrong proof, `SecondFactorRequired` if the password
    /// is right and the code is missing or wrong, and `RateLimited` before any comparison.
    pub async fn log_in(&self, request: LogIn, client: &Client) -> Result<LoggedIn> {
        let done = self.0.log_in(request, client).await;
        match &done {
            Ok(_) => self.0.metrics.sign_in(Method::Password, SignInOutcome::Succeeded),
            Err(error) => self.0.metrics.sign_in_failed(Method::Password, error),
        }
        done
    }
}

impl Parts {
    async fn log_in(&self, request: LogIn, client: &Client) -> Result<LoggedIn> {
        let email = EmailAddress::parse(&request.email)?;
        let now = self.options.clock.now();
        let (account, addresses) = self.store.account_to_sign_in(&email.key, now).await?;
        let (of_network, subject) = (client.network().to_string(), rules::subject_of(&email));
        let near = format!("{subject} {of_network}");
        let limit = |action, subject, most| Limit {
            action,
            subject,
            most,
            window: HOUR,
        };
        let of_both = limit("login", near.as_str(), FROM_ONE_NETWORK);
        let mut limits = vec![of_both, limit("login network", &of_network, OF_ONE_NETWORK)];
        if !addresses
            .iter()
            .any(|address| network(*address) == client.network())
        {
            limits.push(limit("login address", &subject, FROM_STRANGE_NETWORKS));
        }
        let counted = self.attempts(&limits).await?;

        let expected = account
            .as_ref()
            .map_or(NOBODYS, |of| of.password.as_str())
            .to_owned();
        let matches = self.slots.matches(request.password.clone(), expected).await;
        if matches.is_err() {
            self.refund(counted.clone()).await?;
        }
        let is_right = matches?;
        let account = account.filter(|of| is_right && of.disabled_at.is_none());
        let Some(account) = account else {
            return Err(ErrorCode::Unauthorized.because(WRONG));
        };
        let proven = self.prove(&account, &request).await;
        if matches!(&proven, Err(refused) if refused.code == ErrorCode::Forbidden)
            || request.code.is_none() && proven.is_err()
        {
            // The password is right, so this was not a guess.
            self.refund(counted.clone()).await?;
        }
        let mut with = proven?;
        let (forgotten, refunded) = counted.of_success(&of_both);
        with.forgotten = forgotten;
        with.refunded = refunded;
        let begun = self.begin(account, client, with).await;
        begun.map_err(|error| {
            // The password was changed or the person was disabled after the comparison.
            if error.code == ErrorCode::Conflict {
                ErrorCode::Unauthorized.because(WRONG)
            } else {
                error
            }
        })
    }

    /// Checks everything except the password: a verified address if one is required, and the second factor.
    async fn prove(&self, account: &Account, request: &LogIn) -> Result<SignIn> {
        let person = &account.person;
        if self.options.sign_up == SignUpRule::VerifyFirst
            && self.options.mail.is_some()
            && person.email_verified_at.is_none()
        {
            return Err(ErrorCode::Forbidden.because("email: verify your email address first"));
        }
        let factor = match (&person.second_factor_since, &request.code) {
            (None, _) => None,
            (Some(_), None) => return Err(second_factor_required()),
            (Some(_), Some(code)) => Some(self.factor(account, code).await?),
        };
        let new = if is_outdated(&account.password) {
            self.slots.hash(request.password.clone()).await?
        } else {
            account.password.clone()
        };
        Ok(SignIn {
            password: Some(PasswordChange {
                user: person.id,
                old: account.password.clone(),
                new,
            }),
            factor,
            ..SignIn::default()
        })
    }

    /// Counts the attempt at a second factor, and parses the code.
    pub(crate) async fn factor(&self, account: &Account, code: &Credential) -> Result<Factor> {
        let user = account.person.id;
        self.attempt("second factor", &user.to_string(), CODES).await?;
        self.factor_of(account, code.expose())
    }

    /// Begins the session of a person who has proved everything. Returns `Conflict` if a proof has become invalid, and
    /// `Forbidden` if the account is linked to another identity of the same issuer.
    pub(crate) async fn begin(&self, account: Account, client: &Client, with: SignIn) -> Result<LoggedIn> {
        let user = account.person.id;
        let (session, token) = self.new_session(user, client)?;
        self.store.sign_in(session, with).await.map_err(|error| {
            if let StoreError::Conflict(sortie_store::people::CODE_USED) = error {
                second_factor_required()
            } else if let StoreError::Conflict(text @ sortie_store::people::OTHER_IDENTITY) = error {
                ErrorCode::Forbidden.because(text)
            } else {
                error.into()
            }
        })?;
        Ok(LoggedIn {
            token: Credential::new(token.expose()),
            person: account.person,
            organizations: self
                .store
                .organizations_of(user, None, MOST_ORGANIZATIONS)
                .await?,
        })
    }
}
