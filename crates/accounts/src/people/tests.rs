//! Flows of people: sign-up, sign-in, passwords and second factors.

mod verification;

use std::{net::IpAddr, time::Duration};

use futures_util::future::join_all;
use sortie_api::{
    Credential, ErrorCode, Refusal, SessionId, Timestamp, UserId,
    account::{self, LogIn},
};
use totp_rs::{Builder, Secret};

use super::{login::LoggedIn, passwords::Proof, sessions::Client, sign_up::SignedUp};
use crate::{
    Result,
    rig::{Rig, client},
};
use sortie_api::SignUpRule;

const PASSWORD: &str = "correct horse battery staple";
const OTHER: &str = "seventeen purple elephants";

fn applicant(name: &str) -> account::SignUp {
    account::SignUp {
        email: format!("{name}@Example.com"),
        password: Credential::new(PASSWORD),
        name: name.to_owned(),
        invitation: None,
    }
}

fn log_in(name: &str, password: &str, code: Option<&str>) -> LogIn {
    LogIn {
        email: format!("{name}@example.com"),
        password: Credential::new(password),
        code: code.map(Credential::new),
    }
}

/// A client at another address.
fn from(last: u8) -> Client {
    Client {
        address: IpAddr::from([198, 51, 100, last]),
        ..client()
    }
}

/// Text of the rule that a request breaks.
fn rule<T: std::fmt::Debug>(done: Result<T>) -> String {
    match done {
        Err(refused) if refused.code == ErrorCode::InvalidRequest => refused.text.into_owned(),
        other => panic!("{other:?}"),
    }
}

/// Proof by a password, with a session that proves nothing.
fn by_password(password: &str) -> Proof {
    Proof {
        password: Some(Credential::new(password)),
        session_until: Timestamp::from_micros(0),
    }
}

fn token_of(letter: &serde_json::Value) -> &str {
    letter["url"].as_str().unwrap().split_once("?token=").unwrap().1
}

impl Rig {
    async fn sign_up(&self, name: &str) -> LoggedIn {
        match self
            .accounts
            .sign_up(applicant(name), &client(), None)
            .await
            .unwrap()
        {
            SignedUp::LoggedIn(signed_in) => *signed_in,
            SignedUp::ByMail => panic!("there is no session"),
        }
    }

    async fn log_in(&self, name: &str, password: &str) -> Result<LoggedIn> {
        self.log_in_from(&client(), name, password, None).await
    }

    async fn log_in_from(
        &self,
        client: &Client,
        name: &str,
        password: &str,
        code: Option<&str>,
    ) -> Result<LoggedIn> {
        self.accounts.log_in(log_in(name, password, code), client).await
    }

    async fn is_verified(&self, person: &LoggedIn) -> bool {
        let session = self.accounts.session(person.token.expose()).await;
        session.unwrap().unwrap().email_verified
    }

    /// The only mail queued since the last call, which must be a letter of this kind to Ann.
    async fn only_mail(&self, kind: &str) -> serde_json::Value {
        let mut mails = self.mails().await;
        assert_eq!(mails.len(), 1, "{mails:?}");
        let (to, letter) = mails.remove(0);
        assert_eq!(
            (to.as_str(), letter["kind"].as_str()),
            ("ann@example.com", Some(kind))
        );
        letter
    }

    /// The person and the session of a token.
    async fn session_of(&self, token: &Credential) -> Option<(UserId, SessionId)> {
        let found = self.accounts.session(token.expose()).await.unwrap();
        found.map(|of| (of.user, of.session))
    }
}

#[tokio::test]
async fn a_person_who_signs_up_is_signed_in_and_the_address_is_taken() {
    let rig = Rig::new().await;
    let ann = rig.sign_up("Ann").await;
    assert_eq!(
        (ann.person.email.as_str(), ann.person.name.as_str()),
        ("Ann@Example.com", "Ann")
    );
    assert_eq!(rig.session_of(&ann.token).await.unwrap().0, ann.person.id);
    let before = rig.hashes();
    let again = rig.accounts.sign_up(applicant("ann"), &client(), None).await;
    assert!(
        matches!(&again, Err(refused) if refused.code == ErrorCode::Conflict),
        "{again:?}"
    );
    assert_eq!(rig.hashes(), before + 1, "a taken address costs a hash as well");
    let back = rig.log_in("ann", PASSWORD).await.unwrap();
    assert_eq!(back.person.id, ann.person.id);
    assert_ne!(back.token, ann.token);
}

#[tokio::test]
async fn a_sign_up_that_breaks_a_rule_costs_nothing() {
    let rig = Rig::new().await;
    for (email, name, password, begins) in [
        ("ann", "ann", PASSWORD, "email: "),
        ("ann@example.com", " ", PASSWORD, "name: "),
        ("ann@example.com", "ann", "short", "password: "),
    ] {
        let applicant = account::SignUp {
            email: email.to_owned(),
            password: Credential::new(password),
            name: name.to_owned(),
            invitation: None,
        };
        let refused = rule(rig.accounts.sign_up(applicant, &client(), None).await);
        assert!(refused.starts_with(begins), "{refused}");
    }
    assert_eq!(rig.hashes(), 0);
    let weak = account::SignUp {
        password: Credential::new("ann@example.com"),
        ..applicant("ann")
    };
    assert!(rule(rig.accounts.sign_up(weak, &client(), None).await).starts_with("password: "));
    for name in ["a1", "a2", "a3", "a4"] {
        rig.sign_up(name).await;
    }
    let sixth = rig.accounts.sign_up(applicant("a5"), &client(), None).await;
    assert!(
        matches!(&sixth, Err(refused) if refused.code == ErrorCode::RateLimited),
        "{sixth:?}"
    );
    rig.accounts
        .sign_up(applicant("a5"), &from(1), None)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_closed_sign_up_takes_nobody() {
    let rig = Rig::with(SignUpRule::Closed).await;
    let refused = rig.accounts.sign_up(applicant("ann"), &client(), None).await;
    assert!(
        matches!(&refused, Err(refused) if refused.code == ErrorCode::Forbidden),
        "{refused:?}"
    );
    assert_eq!(rig.hashes(), 0);
}

#[tokio::test]
async fn an_address_is_verified_by_the_token_of_the_mail_once() {
    let rig = Rig::with_mail(SignUpRule::Open).await;
    let ann = rig.sign_up("ann").await;
    assert!(!rig.is_verified(&ann).await);
    let letter = rig.only_mail("verify_email").await;
    let token = token_of(&letter);
    for wrong in ["", "stm_x", &token.replace("stm_", "stu_")] {
        rule(rig.accounts.verify_email(wrong).await);
    }
    rig.accounts.verify_email(token).await.unwrap();
    assert!(rig.is_verified(&ann).await);
    assert_eq!(
        rule(rig.accounts.verify_email(token).await),
        "token: is unknown, used or expired"
    );
}

#[tokio::test]
async fn a_sign_up_by_mail_does_not_tell_whether_the_address_is_taken() {
    let rig = Rig::with_mail(SignUpRule::VerifyFirst).await;
    for _ in 0..2 {
        let done = rig
            .accounts
            .sign_up(applicant("ann"), &client(), None)
            .await
            .unwrap();
        assert!(matches!(done, SignedUp::ByMail));
        rig.accounts.run_waiting_jobs().await;
    }
    let mut mails = rig.mails().await;
    // The clock does not advance, so the mails are ordered by their random ids.
    mails.sort_by_key(|(_, letter)| letter["kind"].to_string());
    let kinds: Vec<_> = mails
        .iter()
        .map(|(_, letter)| letter["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["sign_up_again", "verify_email"]);
    let weak = account::SignUp {
        password: Credential::new("password1234"),
        ..applicant("ann")
    };
    rule(rig.accounts.sign_up(weak, &client(), None).await);

    let early = rig.log_in("ann", PASSWORD).await;
    assert!(
        matches!(&early, Err(refused) if refused.code == ErrorCode::Forbidden),
        "{early:?}"
    );
    let wrong = rig.log_in("ann", OTHER).await;
    assert!(
        matches!(&wrong, Err(refused) if refused.code == ErrorCode::Unauthorized),
        "{wrong:?}"
    );
    rig.accounts.verify_email(token_of(&mails[1].1)).await.unwrap();
    rig.log_in("ann", PASSWORD).await.unwrap();
}

#[tokio::test]
async fn every_cause_of_a_refused_sign_in_has_one_text_and_costs_one_hash() {
    let rig = Rig::new().await;
    let ann = rig.sign_up("ann").await.person.id;
    let mut texts = Vec::new();
    let mut refuse = async |name: &str, password: &str| {
        let before = rig.hashes();
        let refused = rig.log_in(name, password).await;
        assert_eq!(rig.hashes(), before + 1);
        texts.push(refused.unwrap_err().to_string());
    };
    refuse("nobody", PASSWORD).await;
    refuse("ann", OTHER).await;
    refuse("ann", "").await;
    rig.disable(ann);
    refuse("ann", PASSWORD).await;
    texts.dedup();
    assert_eq!(texts, ["the email address or the password is wrong"]);
}

#[tokio::test]
async fn the_eleventh_wrong_password_of_an_hour_is_refused_before_it_is_hashed() {
    let rig = Rig::new().await;
    rig.sign_up("ann").await;
    let attempt =
        async |password, client: &Client| rig.accounts.log_in(log_in("ann", password, None), client).await;
    for _ in 0..10 {
        assert!(
            matches!(attempt(OTHER, &client()).await, Err(refused) if refused.code == ErrorCode::Unauthorized)
        );
    }
    let before = rig.hashes();
    for password in [OTHER, PASSWORD] {
        assert!(
            matches!(attempt(password, &client()).await, Err(refused) if refused.code == ErrorCode::RateLimited)
        );
    }
    assert_eq!(rig.hashes(), before);
    // Other addresses and other networks do not wait.
    rig.sign_up("bob").await;
    rig.log_in("bob", PASSWORD).await.unwrap();
    attempt(PASSWORD, &from(1)).await.unwrap();
    rig.pass(Duration::from_mins(70));
    attempt(PASSWORD, &client()).await.unwrap();
}

#[tokio::test]
async fn parallel_guesses_are_counted_before_they_are_hashed() {
    let rig = Rig::new().await;
    rig.sign_up("ann").await;
    let before = rig.hashes();
    let client = client();
    let guesses = join_all((0..40).map(|_| rig.accounts.log_in(log_in("ann", OTHER, None), &client))).await;
    let limited = guesses
        .into_iter()
        .filter(|done| matches!(&done, Err(refused) if refused.code == ErrorCode::RateLimited));
    assert_eq!((limited.count(), rig.hashes()), (30, before + 10));
}

#[tokio::test]
async fn strangers_lock_nobody_out_of_the_own_network() {
    let rig = Rig::new().await;
    rig.sign_up("ann").await;
    for network in 0..5 {
        for _ in 0..10 {
            let wrong = rig.log_in_from(&from(network), "ann", OTHER, None).await;
            assert!(
                matches!(&wrong, Err(refused) if refused.code == ErrorCode::Unauthorized),
                "{wrong:?}"
            );
        }
    }
    let stranger = rig.log_in_from(&from(9), "ann", PASSWORD, None).await;
    assert!(
        matches!(&stranger, Err(refused) if refused.code == ErrorCode::RateLimited),
        "{stranger:?}"
    );
    rig.log_in("ann", PASSWORD).await.unwrap();
}

#[tokio::test]
async fn a_sign_in_makes_earlier_failures_good() {
    let rig = Rig::new().await;
    rig.sign_up("ann").await;
    for _ in 0..3 {
        for _ in 0..9 {
            rig.log_in("ann", OTHER).await.unwrap_err();
        }
        rig.log_in("ann", PASSWORD).await.unwrap();
    }
}

#[tokio::test]
async fn a_weaker_hash_is_replaced_at_the_next_sign_in() {
    let rig = Rig::new().await;
    let ann = rig.sign_up("ann").await.person.id;
    let store = rig.accounts.store();
    let old = store.account(ann).await.unwrap().password;
    let weaker = super::hashing::weaker(PASSWORD);
    let token = rig.log_in("ann", PASSWORD).await.unwrap().token;
    let (_, session) = rig.session_of(&token).await.unwrap();
    let change = sortie_store::people::PasswordChange {
        user: ann,
        old,
        new: weaker.clone(),
    };
    store.change_password(change, session).await.unwrap();
    rig.log_in("ann", PASSWORD).await.unwrap();
    let now = store.account(ann).await.unwrap().password;
    assert!(now != weaker && now.contains("m=19456"), "{now}");
    rig.log_in("ann", PASSWORD).await.unwrap();
}

#[tokio::test]
async fn a_forgotten_password_is_set_by_the_mail_and_everything_else_ends() {
    let rig = Rig::with_mail(SignUpRule::Open).await;
    let ann = rig.sign_up("ann").await;
    rig.mails().await;
    for name in ["ann", "nobody"] {
        rig.accounts
            .forgot_password(&format!("{name}@example.com"), None)
            .unwrap();
    }
    rig.accounts.run_waiting_jobs().await;
    let letter = rig.only_mail("reset_password").await;
    let token = token_of(&letter);
    let reset = async |token: &str, new: &str| rig.accounts.reset_password(token, Credential::new(new)).await;
    assert!(rule(reset(token, "short").await).starts_with("new_password: "));
    assert!(rule(reset(token, "ann@example.com").await).starts_with("new_password: "));
    let before = rig.hashes();
    assert_eq!(
        rule(reset("stm_x", OTHER).await),
        "token: is unknown, used or expired"
    );
    assert_eq!(rig.hashes(), before);
    reset(token, OTHER).await.unwrap();
    assert_eq!(rig.session_of(&ann.token).await, None);
    rule(reset(token, OTHER).await);
    rig.log_in("ann", PASSWORD).await.unwrap_err();
    let back = rig.log_in("ann", OTHER).await.unwrap();
    assert!(back.person.email_verified_at.is_some());
    assert_eq!(rig.mails().await[0].1["kind"], "password_was_reset");
}

#[tokio::test]
async fn a_hundred_resets_send_three_mails() {
    let rig = Rig::with_mail(SignUpRule::Open).await;
    rig.sign_up("ann").await;
    rig.mails().await;
    for _ in 0..100 {
        rig.accounts.forgot_password("ann@example.com", None).unwrap();
    }
    rig.accounts.run_waiting_jobs().await;
    assert_eq!(rig.mails().await.len(), 3);
    rig.pass(Duration::from_hours(28));
    rig.accounts.forgot_password("ann@example.com", None).unwrap();
    rig.accounts.run_waiting_jobs().await;
    assert_eq!(rig.mails().await.len(), 1);
    let full = (0..2_000)
        .map(|_| rig.accounts.forgot_password("ann@example.com", None))
        .find_map(Result::err);
    assert!(
        matches!(&full, Some(error) if error.code == ErrorCode::Unavailable),
        "{full:?}"
    );
    let without = Rig::new().await.accounts.forgot_password("ann@example.com", None);
    assert!(
        matches!(&without, Err(refused) if refused.code == ErrorCode::Conflict),
        "{without:?}"
    );
}

#[tokio::test]
async fn a_new_password_keeps_the_session_that_asks() {
    let rig = Rig::new().await;
    let ann = rig.sign_up("ann").await;
    let other = rig.log_in("ann", PASSWORD).await.unwrap();
    let who = rig.session_of(&ann.token).await.unwrap();
    assert!(rig.session_of(&other.token).await.is_some());
    let change = async |current: &str, new: &str| {
        rig.accounts
            .change_password(who, by_password(current), Credential::new(new))
            .await
    };
    assert!(rule(change(OTHER, OTHER).await).starts_with("current_password: "));
    assert!(rule(change(PASSWORD, "ann@example.com").await).starts_with("new_password: "));
    change(PASSWORD, OTHER).await.unwrap();
    assert_eq!(rig.session_of(&ann.token).await, Some(who));
    assert_eq!(rig.session_of(&other.token).await, None);
    for _ in 0..7 {
        rule(change(PASSWORD, OTHER).await);
    }
    let before = rig.hashes();
    let eleventh = change(OTHER, PASSWORD).await;
    assert!(
        matches!(&eleventh, Err(refused) if refused.code == ErrorCode::RateLimited),
        "{eleventh:?}"
    );
    assert_eq!(rig.hashes(), before);
    rig.pass(Duration::from_mins(70));
    change(OTHER, PASSWORD).await.unwrap();
}

/// The code of an authenticator at a time of the rig.
fn code(rig: &Rig, secret: &Credential) -> String {
    let seconds = u64::try_from(rig.clock.now().as_micros() / 1_000_000).unwrap();
    let secret = Secret::try_from_base32(secret.expose()).unwrap();
    let totp = Builder::new().with_secret(secret).build().unwrap();
    totp.generate(seconds).to_string()
}

#[tokio::test]
async fn a_second_factor_is_asked_for_and_no_code_works_twice() {
    let rig = Rig::new().await;
    let ann = rig.sign_up("ann").await.person.id;
    rule(rig.accounts.enrol_totp(ann, by_password(OTHER)).await);
    let enrolled = rig.accounts.enrol_totp(ann, by_password(PASSWORD)).await.unwrap();
    let uri = enrolled.uri.expose();
    assert!(
        uri.starts_with("otpauth://totp/Sortie:ann%40Example%2Ecom?secret="),
        "{uri}"
    );
    // Before the confirmation no code is required.
    rig.log_in("ann", PASSWORD).await.unwrap();
    rule(rig.accounts.confirm_totp(ann, &Credential::new("000000x")).await);
    let first = code(&rig, &enrolled.secret);
    let recovery = rig
        .accounts
        .confirm_totp(ann, &Credential::new(first.as_str()))
        .await
        .unwrap();
    assert_eq!(recovery.len(), 10);
    assert!(
        recovery.iter().all(|code| code.expose().len() == 19),
        "{:?}",
        recovery[0].expose()
    );

    let log_in = async |code: Option<&str>| {
        let done = rig.log_in_from(&client(), "ann", PASSWORD, code).await;
        done.map(drop)
            .map_err(|error| error.code == ErrorCode::SecondFactorRequired)
    };
    assert_eq!(log_in(None).await, Err(true));
    assert_eq!(log_in(Some(&first)).await, Err(true), "a confirmed code is used");
    rig.pass(Duration::from_secs(30));
    let second = code(&rig, &enrolled.secret);
    assert_eq!(log_in(Some(&second)).await, Ok(()));
    assert_eq!(log_in(Some(&second)).await, Err(true));
    assert_eq!(log_in(Some(&recovery[0].expose().to_uppercase())).await, Ok(()));
    assert_eq!(log_in(Some(recovery[0].expose())).await, Err(true));
    let wrong = rig
        .log_in_from(&client(), "ann", OTHER, Some(recovery[1].expose()))
        .await;
    assert!(
        matches!(&wrong, Err(refused) if refused.code == ErrorCode::Unauthorized),
        "{wrong:?}"
    );

    let enrol = rig.accounts.enrol_totp(ann, by_password(PASSWORD)).await;
    assert!(
        matches!(&enrol, Err(refused) if refused.code == ErrorCode::Conflict),
        "{enrol:?}"
    );
    rig.pass(Duration::from_mins(70));
    let third = Credential::new(code(&rig, &enrolled.secret));
    let remove =
        async |password, code: &Credential| rig.accounts.remove_totp(ann, by_password(password), code).await;
    assert!(rule(remove(OTHER, &third).await).starts_with("password: "));
    assert!(rule(remove(PASSWORD, &recovery[0]).await).starts_with("code: "));
    remove(PASSWORD, &third).await.unwrap();
    assert_eq!(log_in(None).await, Ok(()));
    assert!(matches!(remove(PASSWORD, &third).await, Err(refused) if refused.code == ErrorCode::Conflict));
}

#[tokio::test]
async fn a_second_factor_needs_a_verified_address_where_mail_is_sent() {
    let rig = Rig::with_mail(SignUpRule::Open).await;
    let ann = rig.sign_up("ann").await.person.id;
    let verification = rig.mails().await;
    let forbidden = |error: Refusal| {
        let wanted = ErrorCode::Forbidden.because("verify your email address first");
        assert_eq!(error, wanted);
    };
    let enrol = async || rig.accounts.enrol_totp(ann, by_password(PASSWORD)).await;
    let any_code = Credential::new("123456");
    forbidden(enrol().await.unwrap_err());
    forbidden(rig.accounts.confirm_totp(ann, &any_code).await.unwrap_err());
    rig.accounts
        .verify_email(token_of(&verification[0].1))
        .await
        .unwrap();
    let enrolled = enrol().await.unwrap();
    let first = Credential::new(code(&rig, &enrolled.secret));
    rig.accounts.confirm_totp(ann, &first).await.unwrap();
}

#[tokio::test]
async fn codes_are_guessed_ten_times_an_hour_from_everywhere_together() {
    let rig = Rig::new().await;
    let ann = rig.sign_up("ann").await.person.id;
    let enrolled = rig.accounts.enrol_totp(ann, by_password(PASSWORD)).await.unwrap();
    let first = Credential::new(code(&rig, &enrolled.secret));
    rig.accounts.confirm_totp(ann, &first).await.unwrap();
    rig.pass(Duration::from_mins(70));
    let right = code(&rig, &enrolled.secret);
    let wrong = if right == "123456" { "654321" } else { "123456" };
    for network in 0..10 {
        let guess = rig
            .log_in_from(&from(network), "ann", PASSWORD, Some(wrong))
            .await;
        assert!(
            matches!(&guess, Err(refused) if refused.code == ErrorCode::SecondFactorRequired),
            "{guess:?}"
        );
    }
    let eleventh = rig.log_in_from(&client(), "ann", PASSWORD, Some(&right)).await;
    assert!(
        matches!(&eleventh, Err(refused) if refused.code == ErrorCode::RateLimited),
        "{eleventh:?}"
    );
}
