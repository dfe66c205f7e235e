//! Every page has a next step: the way back through a mail, another mail, and pages for unknown paths.

use sortie_api::SignUpRule;
use sortie_store::people::Purpose;

use super::{
    ELSEWHERE, OTHER, assert_strict, link,
    mailed::{ACCEPT, invited, mailed, mailing, next, person, send, shows, user_of},
    sign_in, sign_up,
};
use crate::{
    browser::encoded,
    oauth::{authorize, client_id},
    prelude::*,
};

crate::settings::everywhere! {
    the_link_of_a_mail_leads_back_to_where_the_person_came_from,
    no_link_of_a_mail_leads_elsewhere,
    a_new_password_leads_back_to_the_invitation,
    an_unverified_person_at_the_consent_asks_for_another_mail,
    an_organization_is_created_by_a_verified_person_alone,
    a_sign_up_that_needs_an_invitation_says_so,
    a_deployment_without_mail_says_who_sets_a_password,
    the_rule_for_passwords_is_one_everywhere,
    a_browser_gets_a_page_for_an_unknown_path,
}

/// Seals a way back as the mail with this token does.
fn sealed_for(rig: &Rig, token: &str, back: &str) -> String {
    let purpose = ("return from a mail", token);
    let lifetime = Duration::from_hours(1);
    rig.accounts
        .seal_text(purpose, back.as_bytes(), lifetime)
        .unwrap()
}

async fn the_link_of_a_mail_leads_back_to_where_the_person_came_from() {
    let rig = mailing().await;
    let path = invited(&rig, "newcomer@example.com").await;
    let browser = person(&rig, "newcomer").await;
    let user = user_of(&rig, &browser).await;
    let token = mailed(&rig, user, Purpose::VerifyEmail, 1).await;
    let back = sealed_for(&rig, &token, &path);
    let mail = format!("/verify-email?token={token}&return={back}");
    // The mail may be opened on another device.
    let phone = Browser::new(&rig);
    let form = form_token(&phone.get(&mail).await, "/verify-email");
    let verified = phone.post("/verify-email", &[("form", &form)]).await;
    shows(&verified, 200, "Address verified");
    assert_eq!(link(&verified, "/invitations/"), path);
    shows(&phone.get(&path).await, 200, "Join ours");

    // A second visit says what happened, and has the same next step.
    let again = browser.get(&mail).await;
    shows(&again, 200, "Address verified");
    assert_eq!(link(&again, "/invitations/"), path);
    let again = phone.get(&mail).await;
    shows(&again, 400, "This link has expired");
    let page = phone.get(&link(&again, "/sign-in?return=")).await;
    assert_contains!(page, "To join <b>ours</b>", "value=\"newcomer@example.com\"");
    shows(&send(&browser, &path, ACCEPT, &[]).await, 200, "Welcome");

    // A used link offers another mail to a person who still needs one.
    let browser = person(&rig, "second").await;
    let page = browser.get("/verify-email?token=stm_x").await;
    shows(&page, 400, "This link has expired");
    let form = form_token(&page, "/verify-email/send");
    let sent = browser.post("/verify-email/send", &[("form", &form)]).await;
    shows(&sent, 202, "Check your email");
    assert_eq!(next(&sent), "/");
    let other = Browser::signed_in(&rig, &rig.member.token);
    let stolen = other.post("/verify-email/send", &[("form", &form)]).await;
    shows(&stolen, 403, "This form has expired");
    rig.end().await;
}

async fn no_link_of_a_mail_leads_elsewhere() {
    let rig = mailing().await;
    let browser = person(&rig, "newcomer").await;
    let user = user_of(&rig, &browser).await;
    let of_sign_in = rig
        .accounts
        .seal_text(("return", ""), b"/oauth/authorize?x", Duration::from_mins(10))
        .unwrap();
    let of_another_mail = sealed_for(&rig, "stm_x", "/oauth/authorize?x");
    let backs = ELSEWHERE.into_iter().chain([&*of_sign_in, &*of_another_mail]);
    for (number, back) in (1..).zip(backs) {
        let token = mailed(&rig, user, Purpose::VerifyEmail, number).await;
        let path = format!(
            "/verify-email?{}",
            encoded(&[("token", &token), ("return", back)])
        );
        let form = form_token(&browser.get(&path).await, "/verify-email");
        let verified = browser.post("/verify-email", &[("form", &form)]).await;
        shows(&verified, 200, "Address verified");
        assert_eq!(next(&verified), "/", "{back}");
    }
    rig.end().await;
}

async fn a_new_password_leads_back_to_the_invitation() {
    let rig = mailing().await;
    let path = invited(&rig, "newcomer@example.com").await;
    let browser = person(&rig, "newcomer").await;
    let user = user_of(&rig, &browser).await;
    let elsewhere = Browser::new(&rig);
    let page = elsewhere.get(&path).await;
    let page = elsewhere.get(&link(&page, "/sign-in?return=")).await;
    assert_contains!(page, "Forgot your password?");
    let page = elsewhere.get(&link(&page, "/forgot-password?return=")).await;
    shows(&page, 200, "Forgot your password?");
    assert_contains!(page, "value=\"newcomer@example.com\"");
    let form = form_token(&page, "/forgot-password");
    let unreadable = elsewhere
        .post("/forgot-password", &[("form", &form), ("email", "newcomer")])
        .await;
    shows(&unreadable, 400, "Forgot your password?");
    let form = form_token(&unreadable, "/forgot-password");
    let sent = elsewhere
        .post(
            "/forgot-password",
            &[("form", &form), ("email", "newcomer@example.com")],
        )
        .await;
    shows(&sent, 202, "Check your email");
    link(&sent, "/sign-in?return=");

    let token = mailed(&rig, user, Purpose::ResetPassword, 1).await;
    let back = sealed_for(&rig, &token, &path);
    let mail = format!("/reset-password?token={token}&return={back}");
    let form = form_token(&elsewhere.get(&mail).await, "/reset-password");
    let changed = elsewhere
        .post("/reset-password", &[("form", &form), ("password", OTHER)])
        .await;
    shows(&changed, 200, "The password is set");
    let signed_in = sign_in(
        &elsewhere,
        &link(&changed, "/sign-in?return="),
        "newcomer@example.com",
        OTHER,
    )
    .await;
    assert_eq!(
        (signed_in.status, signed_in.header("location").unwrap()),
        (303, path.as_str())
    );
    let again = elsewhere.get(&mail).await;
    shows(&again, 400, "This link has expired");
    link(&again, "/forgot-password?return=");
    rig.end().await;
}

async fn an_unverified_person_at_the_consent_asks_for_another_mail() {
    let rig = mailing().await;
    let path = authorize(&client_id(&rig).await, &[]);
    let browser = person(&rig, "newcomer").await;
    let page = browser.get(&path).await;
    assert_contains!(page, "Verify your email address first");
    assert_lacks!(page, "/organizations/new");
    let form = form_token(&page, "/verify-email/send");
    let sent = browser.post("/verify-email/send", &[("form", &form)]).await;
    shows(&sent, 202, "Check your email");
    assert_eq!(next(&sent), path);
    // Another person signs in, and comes back here.
    let form = form_token(&page, "/sign-out");
    let out = browser.post("/sign-out", &[("form", &form)]).await;
    assert_eq!(
        (out.status, out.header("location").unwrap()),
        (303, path.as_str())
    );
    rig.end().await;
}

async fn an_organization_is_created_by_a_verified_person_alone() {
    let rig = mailing().await;
    let browser = person(&rig, "newcomer").await;
    let user = user_of(&rig, &browser).await;
    let token = mailed(&rig, user, Purpose::VerifyEmail, 1).await;
    rig.accounts.verify_email(&token).await.unwrap();
    let home = browser.get("/").await;
    assert_contains!(home, "Name your first one");
    let form = form_token(&home, "/organizations/new");
    let fields = [("form", form.as_str()), ("name", "Plum Works")];
    let create = async |browser: &Browser| browser.post("/organizations/new", &fields).await;
    for (other, status) in [
        (Browser::new(&rig), 403),
        (Browser::signed_in(&rig, &rig.member.token), 403),
    ] {
        assert_eq!(create(&other).await.status, status);
    }
    rig.meddle("UPDATE person SET email_verified_at = NULL WHERE email = 'newcomer@example.com'")
        .await;
    let refused = create(&browser).await;
    shows(&refused, 403, "Verify your email address");
    form_token(&refused, "/verify-email/send");
    rig.meddle("UPDATE person SET email_verified_at = 1 WHERE email = 'newcomer@example.com'")
        .await;
    let created = create(&browser).await;
    assert_eq!((created.status, created.header("location").unwrap()), (303, "/"));
    let home = browser.get("/").await;
    assert_contains!(home, "Plum Works", "owner");
    assert_lacks!(home, "/organizations/new");
    rig.end().await;
}

async fn a_sign_up_that_needs_an_invitation_says_so() {
    let rig = Rig::start_with(|options| options.sign_up = SignUpRule::Invited).await;
    let browser = Browser::new(&rig);
    let page = browser.get("/sign-in").await;
    assert_lacks!(page, "href=\"/sign-up");
    let refused = browser.get("/sign-up").await;
    shows(&refused, 403, "Sign-up needs an invitation");
    assert_eq!(link(&refused, "/sign-in"), "/sign-in");
    let path = invited(&rig, "newcomer@example.com").await;
    let sign_up_path = link(&browser.get(&path).await, "/sign-up?return=");
    let wrong = sign_up(&browser, &sign_up_path, "somebody").await;
    shows(&wrong, 400, "Sign up for Sortie");
    assert_contains!(wrong, "Invitation sign-up needs an invitation of this address");
    let joined = sign_up(&browser, &sign_up_path, "newcomer").await;
    assert_eq!(
        (joined.status, joined.header("location").unwrap()),
        (303, path.as_str())
    );
    rig.end().await;
}

async fn a_deployment_without_mail_says_who_sets_a_password() {
    let rig = Rig::start().await;
    let page = Browser::new(&rig).get("/forgot-password").await;
    shows(&page, 409, "Forgot your password?");
    assert_contains!(page, "Ask its operator");
    assert_eq!(link(&page, "/sign-in"), "/sign-in");
    rig.end().await;
}

async fn the_rule_for_passwords_is_one_everywhere() {
    const RULE: &str = "12 to 72 bytes";
    let rig = Rig::start().await;
    let browser = Browser::new(&rig);
    assert_contains!(browser.get("/sign-up").await, RULE);
    let body = json!({"email": "ann@example.com", "name": "Ann", "password": "short"});
    let client = Client::new(rig.address, None);
    let refusal = client.post("/v1/auth/signup", &body).await.unwrap();
    assert_contains!(refusal, RULE);
    // Six characters of two bytes each are long enough, and only too easy to guess.
    let body = json!({"email": "ann@example.com", "name": "Ann", "password": "üüüüüü"});
    let refusal = client.post("/v1/auth/signup", &body).await.unwrap();
    assert_lacks!(refusal, RULE);
    rig.end().await;
}

async fn a_browser_gets_a_page_for_an_unknown_path() {
    let rig = Rig::start().await;
    for (address, start) in [
        (rig.address, "/".to_owned()),
        (rig.engine_address, format!("{}/", rig.org_url)),
    ] {
        for path in ["/nowhere", "/v1/nowhere", "/console.html"] {
            let ask = |accept: &'static str| Client::new(address, None).with_header("accept", accept);
            let page = ask("text/html,*/*;q=0.8").get(path).await.unwrap();
            shows(&page, 404, "Page not found");
            assert_strict(&page, path);
            assert_contains!(page, &format!("href=\"{start}\""));
            ask("*/*").get(path).must_refuse("not_found").await;
            let with_key = ask("text/html").with_key("sth_x").get(path).await.unwrap();
            assert_eq!(with_key.header("content-type").unwrap(), "application/json");
        }
    }
    rig.end().await;
}
