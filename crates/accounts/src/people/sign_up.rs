//! Sign-up, and the verification of addresses.

use std::time::Duration;

use sortie_api::{
    Credential, ErrorCode, Refusal, UserId, account,
    secret::{INVITATION_TOKEN, MAIL_TOKEN, Secret},
};
use sortie_base::random;
use sortie_store::{
    Error as StoreError,
    people::{NewOneTime, NewPerson, OneTimeMail, PersonRow, Purpose},
};

use super::{applicant::CheckedApplicant, jobs::Job, login::LoggedIn, rules, sessions::Client};
use crate::{
    Accounts, Parts, Result,
    attempts::{DAY, Limit},
    email::EmailAddress,
    mail::Letter,
};
use sortie_api::SignUpRule;

/// Sign-ups per hour from one network.
const FROM_ONE_NETWORK: u32 = 5;
/// Mails per day to one address that strangers can trigger.
const MAILS: u32 = 3;

/// Lifetime of the token that verifies an address.
const VERIFY_WITHIN: Duration = Duration::from_hours(72);

/// Purpose of the sealed way back in the link of a mail. The holder is the token of the link.
const WAY_BACK: &str = "return from a mail";
/// Maximum length of a way back in the link of a mail, in bytes. Some mail programs cut longer links. Without a way back a
/// person continues at the start page.
const LONGEST_BACK: usize = 2_048;

/// Path of the page that verifies an address.
pub const VERIFY_PAGE: &str = "/verify-email";
/// Path of the page that sets a password with a token.
pub const RESET_PAGE: &str = "/reset-password";

/// Outcome of a sign-up.
#[derive(Clone, Debug)]
pub enum SignedUp {
    /// The person is signed in.
    LoggedIn(Box<LoggedIn>),
    /// A mail to the address describes the next step.
    ByMail,
}

impl Accounts {
    /// Signs a person up. Returns `Conflict` if the address is taken, and `Forbidden` if the sign-up rule excludes the
    /// person. If addresses are verified first, the outcome does not reveal whether the address is taken. `back` is the path
    /// of the page that the person continues with after the verification.
    pub async fn sign_up(
        &self,
        applicant: account::SignUp,
        client: &Client,
        back: Option<&str>,
    ) -> Result<SignedUp> {
        self.0.sign_up(applicant, client, back).await
    }

    /// Verifies the address of a person with the token of a mail.
    pub async fn verify_email(&self, token: &str) -> Result<()> {
        let hash = mail_token(token)?;
        let verified = self
            .0
            .store
            .verify_by_token(hash, self.0.options.clock.now())
            .await;
        verified.map(drop).map_err(spent)
    }

    /// Finds the person to whom a mail with this token was sent. Returns `None` if the token is unknown, used or expired.
    pub async fn person_of_mail(&self, token: &str, purpose: Purpose) -> Result<Option<PersonRow>> {
        let Ok(hash) = mail_token(token) else {
            return Ok(None);
        };
        let parts = &self.0;
        let now = parts.options.clock.now();
        let account = parts.store.account_of_token(hash, purpose, now).await?;
        Ok(account.map(|account| account.person))
    }

    /// Finds the person with an email address.
    pub async fn find_person(&self, email: &str) -> Result<Option<PersonRow>> {
        let email = EmailAddress::parse(email)?;
        let account = self.0.store.find_account(&email.key).await?;
        Ok(account.map(|account| account.person))
    }

    /// Opens the way back in the link of a mail: the path of a page. Only the token of the same link opens it.
    pub fn way_back(&self, token: &str, sealed: &str) -> Option<String> {
        let path = self.open_text((WAY_BACK, token.trim()), sealed)?;
        String::from_utf8(path).ok()
    }
}

impl Accounts {
    /// Sends another mail that verifies the address of a person, and invalidates earlier ones. Returns `Conflict` if the address
    /// is verified or mail is not configured. `back` is the path of the page that the person continues with.
    pub async fn send_verification(&self, user: UserId, back: Option<&str>) -> Result<()> {
        let parts = &self.0;
        let person = parts.store.account(user).await?.person;
        if person.email_verified_at.is_some() {
            return Err(ErrorCode::Conflict.because("your email address is verified"));
        }
        let verification = parts.verification((user, &person.name, &person.email), back)?;
        let verification =
            verification.ok_or_else(|| ErrorCode::Conflict.because("this deployment sends no mail"))?;
        parts.mail_attempt(&EmailAddress::parse(&person.email)?).await?;
        parts.store.keep_one_time(verification).await?;
        parts.mail_queued();
        Ok(())
    }
}

impl Parts {
    async fn sign_up(
        &self,
        applicant: account::SignUp,
        client: &Client,
        back: Option<&str>,
    ) -> Result<SignedUp> {
        let checked = CheckedApplicant {
            email: EmailAddress::parse(&applicant.email)?,
            name: rules::name(&applicant.name)?,
            password: applicant.password,
            back: back.map(str::to_owned),
        };
        rules::password_length("password", checked.password.expose())?;
        match self.options.sign_up {
            SignUpRule::Open | SignUpRule::VerifyFirst => {}
            SignUpRule::Invited => {
                self.check_invitation(&checked.email, applicant.invitation)
                    .await?;
            }
            SignUpRule::Closed => {
                return Err(closed());
            }
        }
        let network = client.network().to_string();
        self.attempt("sign up", &network, FROM_ONE_NETWORK).await?;
        if self.options.sign_up == SignUpRule::VerifyFirst && self.options.mail.is_some() {
            // The strength is checked now, because the job cannot report it to the client.
            let CheckedApplicant {
                email,
                password,
                name,
                ..
            } = &checked;
            let (password, person) = (password.clone(), [email.text.clone(), name.clone()]);
            self.slots
                .run(move || {
                    let [email, name] = &person;
                    rules::password_strength("password", password.expose(), &[email, name])
                })
                .await?;
            self.jobs.enqueue(Job::SignUp(Box::new(checked)))?;
            return Ok(SignedUp::ByMail);
        }
        let logged_in = self.sign_up_now(checked, client).await?;
        Ok(SignedUp::LoggedIn(Box::new(logged_in)))
    }

    /// Creates the account and signs the person in. A taken address takes the same time.
    async fn sign_up_now(&self, applicant: CheckedApplicant, client: &Client) -> Result<LoggedIn> {
        let (email, back) = (applicant.email.clone(), applicant.back.clone());
        let person = self.new_person(applicant).await?;
        let recipient = (person.id, person.name.as_str(), person.email.as_str());
        let verification = self.verification(recipient, back.as_deref())?;
        let (session, token) = self.new_session(person.id, client)?;
        let id = person.id;
        let created = self.store.sign_up(person, Some(session), verification).await;
        created?;
        self.mail_queued();
        tracing::info!(user.id = %id, mail = self.options.mail.is_some(), "created an account");
        let account = self.store.account(id).await?;
        debug_assert_eq!(account.person.email, email.text);
        Ok(LoggedIn {
            token: Credential::new(token.expose()),
            person: account.person,
            organizations: Vec::new(),
        })
    }

    /// Creates the account of a person who verifies the address first, or notifies the owner of an existing one.
    pub(crate) async fn sign_up_by_mail(&self, applicant: CheckedApplicant) -> Result<()> {
        let (email, back) = (applicant.email.clone(), applicant.back.clone());
        let person = self.new_person(applicant).await?;
        let recipient = (person.id, person.name.as_str(), person.email.as_str());
        let verification = self.verification(recipient, back.as_deref())?;
        match self.store.sign_up(person, None, verification).await {
            Err(StoreError::Conflict(_)) => self.tell_of_account(&email).await?,
            done => done?,
        }
        self.mail_queued();
        Ok(())
    }

    async fn tell_of_account(&self, email: &EmailAddress) -> Result<()> {
        self.mail_attempt(email).await?;
        let Some(account) = self.store.find_account(&email.key).await? else {
            return Ok(());
        };
        let letter = Letter::SignUpAgain {
            name: account.person.name,
        };
        let mails = self.letter(&account.person.email, &letter)?;
        self.store.queue_mails(mails.into_iter().collect()).await?;
        Ok(())
    }

    /// Counts a mail to an address that a stranger has triggered.
    pub(crate) async fn mail_attempt(&self, email: &EmailAddress) -> Result<()> {
        let limit = Limit {
            action: "mail",
            subject: &rules::subject_of(email),
            most: MAILS,
            window: DAY,
        };
        self.attempts(&[limit]).await.map(drop)
    }

    async fn new_person(&self, applicant: CheckedApplicant) -> Result<NewPerson> {
        let CheckedApplicant {
            email,
            password,
            name,
            back: _,
        } = applicant;
        let hints = [email.text.clone(), name.clone()];
        let password = self.slots.hash_new("password", password, hints).await?;
        let now = self.options.clock.now();
        Ok(NewPerson {
            id: UserId::new(now, random()?),
            email: email.text,
            email_key: email.key,
            name,
            password,
            created_at: now,
        })
    }

    /// Creates the mail that verifies the address of a person. Returns `None` if mail is not configured.
    fn verification(
        &self,
        (user, name, email): (UserId, &str, &str),
        back: Option<&str>,
    ) -> Result<Option<OneTimeMail>> {
        let letter = |url, expires_at| Letter::VerifyEmail {
            name: name.to_owned(),
            url,
            expires_at,
        };
        let token = (Purpose::VerifyEmail, VERIFY_WITHIN);
        self.token_by_mail((user, email), token, (VERIFY_PAGE, back), letter)
    }

    /// Creates a token, and the letter with a link that contains it and the way back. Returns `None` if mail is not configured.
    pub(crate) fn token_by_mail(
        &self,
        (user, email): (UserId, &str),
        (purpose, length): (Purpose, Duration),
        (page, back): (&str, Option<&str>),
        letter: impl FnOnce(String, sortie_api::Timestamp) -> Letter,
    ) -> Result<Option<OneTimeMail>> {
        let expires_at = self.options.clock.now() + length;
        let secret = Secret::new(MAIL_TOKEN, random()?);
        let mut url = self.page_with_token(page, &secret);
        if let Some(back) = back.filter(|back| back.len() <= LONGEST_BACK) {
            // Bound to the token, so that the way back of one mail cannot be put into the link of another one.
            let sealed = self.seal_text((WAY_BACK, secret.expose()), back.as_bytes(), length)?;
            url.push_str("&return=");
            url.push_str(&sealed);
        }
        let token = NewOneTime {
            hash: secret.hash(),
            purpose,
            user,
            expires_at,
        };
        let mail = self.letter(email, &letter(url, expires_at))?;
        Ok(mail.map(|mail| OneTimeMail {
            token,
            mail: Some(mail),
        }))
    }

    /// Checks that an invitation of the address admits the person.
    pub(crate) async fn check_invitation(
        &self,
        email: &EmailAddress,
        invitation: Option<Credential>,
    ) -> Result<()> {
        let token = invitation.and_then(|token| Secret::parse(INVITATION_TOKEN, token.expose()).ok());
        let invited = match token {
            Some(token) => {
                let now = self.options.clock.now();
                self.store.find_invitation(token.hash(), now).await?
            }
            None => None,
        };
        if invited.is_some_and(|invited| invited.email_key == email.key) {
            return Ok(());
        }
        Err(ErrorCode::Forbidden.because("invitation: sign-up needs an invitation of this address"))
    }
}

/// Refusal of a sign-up on a deployment where only the operator creates accounts.
pub(crate) fn closed() -> Refusal {
    ErrorCode::Forbidden.because("sign-up is closed: ask the operator for an account")
}

/// Parses the token of a mail. Malformed tokens get the same answer as unknown ones.
pub(super) fn mail_token(token: &str) -> Result<[u8; 32]> {
    Secret::parse(MAIL_TOKEN, token.trim())
        .map(|secret| secret.hash())
        .map_err(|_| unknown_token())
}

/// Refusal of an invalid token.
pub(super) fn unknown_token() -> Refusal {
    ErrorCode::InvalidRequest.because("token: is unknown, used or expired")
}

/// Returns the error for a token that the store refuses.
pub(super) fn spent(error: StoreError) -> Refusal {
    if let StoreError::Conflict(_) = error {
        unknown_token()
    } else {
        error.into()
    }
}
