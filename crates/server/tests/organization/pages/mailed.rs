//! Pages linked from mails, and the second factor, with the forms of a browser without scripts. Each answer has the headers of a
//! page.

use sortie_accounts::MailOptions;
use sortie_api::{
    UserId,
    secret::{INVITATION_TOKEN, MAIL_TOKEN, Secret},
};
use sortie_store::people::{NewOneTime, OneTimeMail, Purpose};
use totp_rs::Builder;

use super::{OTHER, PASSWORD, assert_strict, link, sign_in, sign_up};
use crate::prelude::*;

crate::settings::everywhere! {
    a_sign_in_asks_for_the_second_factor,
    an_address_is_verified_by_the_button_and_once,
    a_password_is_set_by_the_link_of_a_mail_and_once,
    an_invitation_is_accepted_by_its_person_alone,
    an_invitation_that_has_ended_is_not_shown,
    an_unverified_person_accepts_after_the_verification,
}

/// Servers with mail configured. The mail server is unreachable.
pub(super) async fn mailing() -> Rig {
    let rig = Rig::start_with(|options| {
        options.mail = Some(MailOptions {
            server: "smtp://127.0.0.1:1".parse().unwrap(),
            from: "sortie@accounts.example".parse().unwrap(),
        });
    })
    .await;
    rig.meddle("UPDATE person SET email_verified_at = 1 WHERE email = 'owner@example.com'")
        .await;
    rig
}

/// Target of the main button of a page.
pub(super) fn next(page: &Answer) -> String {
    let text = page.text();
    let (_, rest) = text
        .split_once("<a class=\"btn primary\" href=\"")
        .unwrap_or_else(|| panic!("no main button: {text}"));
    rest.split('"').next().unwrap().replace("&amp;", "&")
}

/// Signs a person up at the page. Returns the browser with the session.
pub(super) async fn person(rig: &Rig, name: &str) -> Browser {
    let browser = Browser::new(rig);
    let answer = sign_up(&browser, "/sign-up", name).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    browser
}

/// Session of a browser, for the API.
fn api(rig: &Rig, browser: &Browser) -> Client {
    Client::new(rig.address, browser.cookie("sortie"))
}

/// Person of a browser.
pub(super) async fn user_of(rig: &Rig, browser: &Browser) -> UserId {
    let me = api(rig, browser)
        .get("/v1/auth/me")
        .await
        .unwrap()
        .json()
        .unwrap();
    me["id"].as_str().unwrap().parse().unwrap()
}

/// Token of a mail to a person.
pub(super) async fn mailed(rig: &Rig, user: UserId, purpose: Purpose, number: u8) -> String {
    let token = Secret::new(MAIL_TOKEN, [number; 32]);
    let kept = NewOneTime {
        hash: token.hash(),
        purpose,
        user,
        expires_at: rig.clock.now() + Duration::from_hours(1),
    };
    let sent = OneTimeMail {
        token: kept,
        mail: None,
    };
    rig.accounts.store().keep_one_time(sent).await.unwrap();
    token.expose().to_owned()
}

/// Checks the status and the heading of a page, and its headers.
pub(super) fn shows(answer: &Answer, status: u16, heading: &str) {
    let text = answer.text();
    assert_eq!(answer.status, status, "{text}");
    assert!(text.contains(&format!("<h1>{heading}</h1>")), "{heading}: {text}");
    assert_strict(answer, heading);
}

/// Opens a page and sends its form with further fields.
pub(super) async fn send(browser: &Browser, path: &str, action: &str, fields: &[(&str, &str)]) -> Answer {
    let page = browser.get(path).await;
    assert_strict(&page, path);
    let token = form_token(&page, action);
    let mut all = vec![("form", token.as_str())];
    all.extend_from_slice(fields);
    browser.post(action, &all).await
}

async fn a_sign_in_asks_for_the_second_factor() {
    let rig = Rig::start().await;
    let client = api(&rig, &person(&rig, "newcomer").await);
    let post = async |path: &str, body| client.post(path, &body).await.unwrap();
    let key = post("/v1/auth/me/second-factor", json!({"password": PASSWORD})).await;
    let key = key.expect(201).unwrap().json().unwrap();
    let secret = totp_rs::Secret::try_from_base32(key["secret"].as_str().unwrap()).unwrap();
    let totp = Builder::new().with_secret(secret).build().unwrap();
    let code = |steps: u32| {
        let at = rig.clock.now() + 30 * steps * Duration::from_secs(1);
        totp.generate(u64::try_from(at.as_micros() / 1_000_000).unwrap())
            .to_string()
    };
    let confirmed = post("/v1/auth/me/second-factor/confirm", json!({"code": code(0)})).await;
    let confirmed = confirmed.expect(200).unwrap().json().unwrap();
    let recovery = confirmed["recovery_codes"][0].as_str().unwrap();

    let email = "newcomer@example.com";
    let with = async |browser: &Browser, code: &str| {
        let fields = [("email", email), ("password", PASSWORD), ("code", code)];
        send(browser, "/sign-in", "/sign-in", &fields).await
    };
    let (used, next) = (code(0), code(1));
    for (right, wrong) in [(next.as_str(), used.as_str()), (recovery, next.as_str())] {
        let browser = Browser::new(&rig);
        let asked = sign_in(&browser, "/sign-in", email, PASSWORD).await;
        shows(&asked, 401, "Sign in to Sortie");
        assert!(asked.text().contains("name=\"code\"") && !asked.text().contains(PASSWORD));
        let refused = with(&browser, wrong).await;
        shows(&refused, 401, "Sign in to Sortie");
        assert!(refused.text().contains("name=\"code\"") && refused.text().contains("The code is wrong"));
        assert_eq!(browser.cookie("sortie"), None);
        let answer = with(&browser, right).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        shows(&browser.get("/").await, 200, "Signed in");
    }
    let wrong_password = sign_in(&Browser::new(&rig), "/sign-in", email, OTHER).await;
    shows(&wrong_password, 401, "Sign in to Sortie");
    assert!(
        !wrong_password.text().contains("name=\"code\""),
        "who does not know the password learns nothing of the second factor"
    );
    rig.end().await;
}

async fn an_address_is_verified_by_the_button_and_once() {
    let rig = mailing().await;
    let browser = person(&rig, "newcomer").await;
    let user = user_of(&rig, &browser).await;
    assert_contains!(browser.get("/").await, "Verify your email address first");
    let token = mailed(&rig, user, Purpose::VerifyEmail, 1).await;
    let path = format!("/verify-email?token={token}");
    // This works without sign-in, and programs that open the links of mails change nothing.
    let elsewhere = Browser::new(&rig);
    for _ in 0..2 {
        shows(&elsewhere.get(&path).await, 200, "Verify your email address");
    }
    assert_contains!(browser.get("/").await, "Verify your email address first");
    let form = form_token(&elsewhere.get(&path).await, "/verify-email");
    let verified = send(&elsewhere, &path, "/verify-email", &[]).await;
    shows(&verified, 200, "Address verified");
    assert_lacks!(browser.get("/").await, "Verify your email address first");
    let again = elsewhere.post("/verify-email", &[("form", &form)]).await;
    for again in [again, elsewhere.get(&path).await] {
        shows(&again, 400, "This link has expired");
        assert_eq!(link(&again, "/sign-in"), "/sign-in");
    }
    shows(&browser.get(&path).await, 200, "Address verified");

    let reset = mailed(&rig, user, Purpose::ResetPassword, 2).await;
    let late = mailed(&rig, user, Purpose::VerifyEmail, 3).await;
    rig.clock.set(rig.clock.now() + Duration::from_hours(1));
    for token in ["", "stm_x", &reset, &late] {
        let refused = elsewhere.get(&format!("/verify-email?token={token}")).await;
        shows(&refused, 400, "This link has expired");
        assert_lacks!(refused, "action=\"/verify-email\"");
    }
    rig.end().await;
}

async fn a_password_is_set_by_the_link_of_a_mail_and_once() {
    let rig = mailing().await;
    let browser = person(&rig, "newcomer").await;
    let user = user_of(&rig, &browser).await;
    let token = mailed(&rig, user, Purpose::ResetPassword, 1).await;
    let path = format!("/reset-password?token={token}");
    let elsewhere = Browser::new(&rig);
    let page = elsewhere.get(&path).await;
    shows(&page, 200, "Set a new password");
    assert_contains!(page, "newcomer@example.com", "12 to 72 bytes");
    let form = form_token(&page, "/reset-password");
    for weak in ["short", "passwordpassword"] {
        let refused = send(&elsewhere, &path, "/reset-password", &[("password", weak)]).await;
        shows(&refused, 400, "Set a new password");
        assert!(!refused.text().contains(weak), "{}", refused.text());
        // The form on the error page still has the token.
        form_token(&refused, "/reset-password");
    }
    let set = send(&elsewhere, &path, "/reset-password", &[("password", OTHER)]).await;
    shows(&set, 200, "The password is set");
    assert_eq!(elsewhere.cookie("sortie"), None, "nobody is signed in by a link");
    rig.soon(303, async || browser.get("/").await).await;
    let again = elsewhere
        .post("/reset-password", &[("form", &form), ("password", PASSWORD)])
        .await;
    for again in [again, elsewhere.get(&path).await] {
        shows(&again, 400, "This link has expired");
        assert_lacks!(again, "name=\"password\"");
        assert_eq!(link(&again, "/forgot"), "/forgot-password");
    }
    let email = "newcomer@example.com";
    let old = sign_in(&Browser::new(&rig), "/sign-in", email, PASSWORD).await;
    shows(&old, 401, "Sign in to Sortie");
    assert_eq!(sign_in(&elsewhere, "/sign-in", email, OTHER).await.status, 303);

    let verify = mailed(&rig, user, Purpose::VerifyEmail, 2).await;
    let late = mailed(&rig, user, Purpose::ResetPassword, 3).await;
    rig.clock.set(rig.clock.now() + Duration::from_hours(1));
    for token in ["", "stm_x", &verify, &late] {
        let refused = elsewhere.get(&format!("/reset-password?token={token}")).await;
        shows(&refused, 400, "This link has expired");
        assert_lacks!(refused, "name=\"password\"");
    }
    rig.end().await;
}

/// Invites an address into `ours`. Returns the path of the page.
pub(super) async fn invited(rig: &Rig, email: &str) -> String {
    let path = rig.path("/invitations");
    let body = json!({"email": email, "role": "member"});
    let made = rig.owner.post(&path, &body).must_json(201).await;
    let url = made["url"].as_str().unwrap();
    url.strip_prefix(&rig.org_url).unwrap().to_owned()
}

pub(super) const ACCEPT: &str = "/invitations/accept";

async fn an_invitation_is_accepted_by_its_person_alone() {
    let rig = Rig::start().await;
    let path = invited(&rig, "stranger@example.com").await;
    let nobody = Browser::new(&rig);
    let page = nobody.get(&path).await;
    shows(&page, 200, "Join ours");
    assert!(!page.text().contains("action=\"/invitations/accept\""));
    let there_and_back = nobody.get(&link(&page, "/sign-in?return=")).await;
    shows(&there_and_back, 200, "Sign in to Sortie");

    let other = Browser::signed_in(&rig, &rig.admin.token);
    let page = other.get(&path).await;
    shows(&page, 200, "Join ours");
    assert_contains!(
        page,
        "You are signed in as <b>admin@example.com</b>. Only <b>stranger@example.com</b> can accept."
    );
    assert_lacks!(page, "action=\"/invitations/accept\"");
    let form = form_token(&page, "/sign-out");
    let out = other.post("/sign-out", &[("form", &form)]).await;
    assert_eq!(
        (out.status, out.header("location").unwrap()),
        (303, path.as_str()),
        "{}",
        out.text()
    );
    assert_eq!(other.cookie("sortie"), None);
    assert_contains!(other.get(&path).await, "Sign up with this address");
    other.set("sortie", &rig.owner.token);

    let stranger = Browser::signed_in(&rig, &rig.stranger.token);
    let page = stranger.get(&path).await;
    let token = form_token(&page, ACCEPT);
    for (browser, form) in [(&nobody, &token), (&other, &token), (&stranger, &String::new())] {
        let refused = browser.post(ACCEPT, &[("form", form)]).await;
        shows(&refused, 403, "This form has expired");
    }
    let foreign = stranger
        .post_from(Some("https://evil.example"), ACCEPT, &[("form", &token)])
        .await;
    assert_eq!(foreign.status, 403, "{}", foreign.text());
    let accepted = stranger.post(ACCEPT, &[("form", &token)]).await;
    shows(&accepted, 200, "Welcome");
    assert_eq!(next(&accepted), "/");
    let again = stranger.post(ACCEPT, &[("form", &token)]).await;
    shows(&again, 404, "This invitation is not open");
    shows(&stranger.get(&path).await, 404, "This invitation is not open");
    let organizations = rig.stranger.get("/v1/organizations").await.unwrap();
    assert_contains!(organizations, &rig.ours.to_string());
    rig.end().await;
}

async fn an_invitation_that_has_ended_is_not_shown() {
    let rig = Rig::start().await;
    let stranger = Browser::signed_in(&rig, &rig.stranger.token);
    let replaced = invited(&rig, "stranger@example.com").await;
    let form = form_token(&stranger.get(&replaced).await, ACCEPT);
    let last = invited(&rig, "stranger@example.com").await;
    let refused = stranger.post(ACCEPT, &[("form", &form)]).await;
    shows(&refused, 404, "This invitation is not open");
    let never = Secret::new(INVITATION_TOKEN, [9; 32]);
    for token in ["", "sti_x", never.expose()] {
        let page = stranger.get(&format!("{ACCEPT}?token={token}")).await;
        shows(&page, 404, "This invitation is not open");
    }
    shows(&stranger.get(&last).await, 200, "Join ours");
    rig.clock.set(rig.clock.now() + Duration::from_hours(7 * 24));
    for browser in [&stranger, &Browser::new(&rig)] {
        shows(&browser.get(&last).await, 404, "This invitation is not open");
    }
    rig.end().await;
}

async fn an_unverified_person_accepts_after_the_verification() {
    let rig = mailing().await;
    let path = invited(&rig, "newcomer@example.com").await;
    let browser = Browser::new(&rig);
    let page = browser.get(&path).await;
    let sign_up_path = link(&page, "/sign-up?return=");
    for with_address in [&sign_up_path, &link(&page, "/sign-in?return=")] {
        let page = browser.get(with_address).await;
        assert_contains!(page, "To join <b>ours</b>", "value=\"newcomer@example.com\"");
    }
    let back = sign_up(&browser, &sign_up_path, "newcomer").await;
    assert_eq!(
        (back.status, back.header("location").unwrap()),
        (303, path.as_str())
    );
    let page = browser.get(&path).await;
    shows(&page, 200, "Join ours");
    assert_contains!(page, "Verify your email address first", "newcomer@example.com");
    assert_lacks!(page, "action=\"/invitations/accept\"");
    assert_eq!(link(&page, "/invitations/"), path);
    let form = form_token(&page, "/verify-email/send");
    for _ in 0..3 {
        let sent = browser.post("/verify-email/send", &[("form", &form)]).await;
        shows(&sent, 202, "Check your email");
        assert_contains!(sent, "newcomer@example.com");
        assert_eq!(link(&sent, "/invitations/"), path);
    }
    assert_eq!(
        rig.count("SELECT COUNT(*) AS v FROM mail WHERE kind = 'verify_email'")
            .await,
        4
    );
    let fourth = browser.post("/verify-email/send", &[("form", &form)]).await;
    shows(&fourth, 429, "Too many attempts");
    assert_eq!(link(&fourth, "/invitations/"), path);
    let user = user_of(&rig, &browser).await;
    let token = mailed(&rig, user, Purpose::VerifyEmail, 2).await;
    let verified = send(
        &browser,
        &format!("/verify-email?token={token}"),
        "/verify-email",
        &[],
    )
    .await;
    shows(&verified, 200, "Address verified");
    let late = browser.post("/verify-email/send", &[("form", &form)]).await;
    assert_eq!(
        (late.status, late.header("location").unwrap()),
        (303, path.as_str())
    );
    shows(&send(&browser, &path, ACCEPT, &[]).await, 200, "Welcome");
    rig.end().await;
}
