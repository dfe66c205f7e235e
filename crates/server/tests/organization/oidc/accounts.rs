//! Accounts of people who sign in with an identity provider: without a password, and with a second factor.

use sortie_api::SignUpRule;
use sortie_api::secret::{OPERATOR_KEY, Secret};

use super::{START, change_person, now, sign_in, sign_ins, start_with};
use crate::{accounts::send, prelude::*};

crate::settings::everywhere! {
    a_person_without_a_password_proves_the_account_by_a_new_sign_in,
    a_person_unlinks_a_provider_and_the_operator_all_of_them,
    a_second_factor_is_asked_for_after_the_provider,
    an_address_that_the_provider_has_given_to_another_person_opens_no_account,
}

/// Code of an authenticator with this key, at a time in seconds since 1970.
fn totp(key: &str, at: i64) -> String {
    let secret = totp_rs::Secret::try_from_base32(key).unwrap();
    let totp = totp_rs::Builder::new().with_secret(secret).build().unwrap();
    totp.generate(at.try_into().unwrap()).to_string()
}

/// Client with the session of a browser.
fn client(rig: &Rig, browser: &Browser) -> Client {
    Client::new(rig.address, browser.cookie("sortie"))
}

async fn a_person_unlinks_a_provider_and_the_operator_all_of_them() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    let browser = Browser::new(&rig);
    assert_eq!(sign_in(&browser, &provider, START).await.status, 303);
    let client = self::client(&rig, &browser);
    let listed = async || client.get("/v1/auth/identities").await.unwrap().json().unwrap();
    let identities = listed().await;
    let path = format!("/v1/auth/identities/{}", identities[0]["id"].as_str().unwrap());
    let unlink = async |client: &Client, path: &str| send(client, Method::DELETE, path, "").await.unwrap();
    // The other people of the rig have no identity.
    unlink(&rig.owner, &path).await.refused("not_found").unwrap();
    let only = unlink(&client, &path).await.refused("conflict").unwrap();
    assert!(only.error.contains("set a password first"), "{}", only.error);
    let set = json!({"new_password": "seventeen purple elephants"}).to_string();
    send(&client, Method::PUT, "/v1/me/password", &set)
        .must(204)
        .await;
    let other = Browser::new(&rig);
    assert_eq!(sign_in(&other, &provider, START).await.status, 303);
    let other = self::client(&rig, &other);
    unlink(&client, &path).await.expect(204).unwrap();
    assert_eq!(listed().await, json!([]));
    rig.soon(401, async || other.get("/v1/auth/me").await.unwrap())
        .await;

    // The provider is trusted for the address, and the next sign-in links it again.
    assert_eq!(sign_in(&Browser::new(&rig), &provider, START).await.status, 303);
    assert_eq!(listed().await.as_array().unwrap().len(), 1);
    let secret = Secret::new(OPERATOR_KEY, [9; 32]);
    assert!(rig.accounts.set_first_operator_key(&secret).await.unwrap());
    let operator = Client::new(rig.address, Some(secret.expose().to_owned()));
    let user = client.get("/v1/auth/me").await.unwrap().json().unwrap()["id"].clone();
    let all = format!("/v1/operator/users/{}/identities", user.as_str().unwrap());
    let unlinked = unlink(&operator, &all).await.expect(200).unwrap().json().unwrap();
    assert_eq!(unlinked["id"], user);
    rig.soon(401, async || client.get("/v1/auth/me").await.unwrap())
        .await;
    let user = user.as_str().unwrap().parse().unwrap();
    assert_eq!(rig.accounts.identities(user).await.unwrap(), []);
    rig.end().await;
}

async fn a_person_without_a_password_proves_the_account_by_a_new_sign_in() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    let browser = Browser::new(&rig);
    assert_eq!(sign_in(&browser, &provider, START).await.status, 303);
    let client = client(&rig, &browser);
    let identities = client.get("/v1/auth/identities").await.unwrap().json().unwrap();
    assert_eq!(identities[0]["issuer"], provider.issuer());
    assert_eq!(
        (&identities[0]["subject"], identities.as_array().unwrap().len()),
        (&json!("s-1"), 1)
    );
    let export = client.get("/v1/auth/me/export").await.unwrap().json().unwrap();
    assert_eq!(export["identities"], identities);

    let delete = async |client: &Client| send(client, Method::DELETE, "/v1/auth/me", "{}").await.unwrap();
    let put = async |client: &Client, body: &Value| {
        send(client, Method::PUT, "/v1/me/password", &body.to_string())
            .await
            .unwrap()
    };
    let set = json!({"new_password": "seventeen purple elephants"});
    rig.clock.set(rig.clock.now() + Duration::from_mins(10));
    let late = delete(&client).await.refused("forbidden").unwrap();
    assert!(late.error.contains("this account has no password: sign in again"));
    put(&client, &set).await.refused("forbidden").unwrap();
    provider.script(|script| script.now += 600);
    let again = Browser::new(&rig);
    assert_eq!(sign_in(&again, &provider, START).await.status, 303);
    let client = self::client(&rig, &again);
    put(&client, &set).await.expect(204).unwrap();
    delete(&client).await.refused("invalid_request").unwrap();
    let wrong = json!({"current_password": "x", "new_password": "plum-anchor-violet-42"});
    put(&client, &wrong).await.refused("invalid_request").unwrap();
    // The provider signs the person in as before.
    let other = Browser::new(&rig);
    assert_eq!(sign_in(&other, &provider, START).await.status, 303);

    provider.person("s-2", "second@corp.example");
    let second = Browser::new(&rig);
    assert_eq!(sign_in(&second, &provider, START).await.status, 303);
    delete(&self::client(&rig, &second)).await.expect(204).unwrap();
    assert_eq!(second.get("/").await.status, 303, "the session has ended");
    let newly = Browser::new(&rig);
    assert_eq!(
        sign_in(&newly, &provider, START).await.status,
        303,
        "another account, with the same identity"
    );
    rig.end().await;
}

async fn a_second_factor_is_asked_for_after_the_provider() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    let browser = Browser::new(&rig);
    assert_eq!(sign_in(&browser, &provider, START).await.status, 303);
    let client = client(&rig, &browser);
    let path = "/v1/auth/me/second-factor";
    let key = client.post(path, &json!({})).must_json(201).await;
    let code = totp(key["secret"].as_str().unwrap(), now());
    let codes = client
        .post(&format!("{path}/confirm"), &json!({"code": code}))
        .must_json(200)
        .await;
    let recovery = codes["recovery_codes"][0].as_str().unwrap();

    let (browser, other) = (Browser::new(&rig), Browser::new(&rig));
    let page = sign_in(&browser, &provider, START).await;
    assert_eq!((page.status, browser.cookie("sortie")), (200, None));
    let token = form_token(&page, "/sign-in/code");
    assert!(
        !page.text().contains("s-1"),
        "the page tells nothing of the identity"
    );
    let wrong = browser
        .post("/sign-in/code", &[("form", &token), ("code", &code)])
        .await;
    assert_eq!(
        (wrong.status, browser.cookie("sortie")),
        (401, None),
        "a code that was used"
    );
    let token = form_token(&wrong, "/sign-in/code");
    let fields = [("form", token.as_str()), ("code", recovery)];
    other.get("/sign-in").await;
    assert_eq!(
        other.post("/sign-in/code", &fields).await.status,
        403,
        "another browser"
    );
    assert_eq!(
        browser.post("/sign-in", &fields).await.status,
        403,
        "another purpose"
    );
    let done = browser.post("/sign-in/code", &fields).await;
    assert_eq!((done.status, done.header("location").unwrap()), (303, "/"));
    assert_eq!(browser.get("/").await.status, 200);
    assert_eq!(sign_ins(&rig, "second_factor").await, 2);

    // A person who is disabled between the two steps is refused.
    let page = sign_in(&other, &provider, START).await;
    let token = form_token(&page, "/sign-in/code");
    change_person(&rig, "disabled_at = 1", "new@corp.example").await;
    let recovery = codes["recovery_codes"][1].as_str().unwrap();
    let refused = other
        .post("/sign-in/code", &[("form", &token), ("code", recovery)])
        .await;
    assert_eq!((refused.status, other.cookie("sortie")), (403, None));
    rig.end().await;
}

async fn an_address_that_the_provider_has_given_to_another_person_opens_no_account() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    assert_eq!(sign_in(&Browser::new(&rig), &provider, START).await.status, 303);
    provider.person("s-2", "new@corp.example");
    let other = Browser::new(&rig);
    let answer = sign_in(&other, &provider, START).await;
    assert_eq!((answer.status, other.cookie("sortie")), (403, None));
    let text = answer.text();
    assert!(text.contains("linked to another person"), "{text}");
    assert!(text.contains("ask the operator"), "{text}");
    assert_eq!(sign_ins(&rig, "refused").await, 1);
    provider.person("s-1", "new@corp.example");
    let browser = Browser::new(&rig);
    assert_eq!(sign_in(&browser, &provider, START).await.status, 303);
    let identities = client(&rig, &browser).get("/v1/auth/identities").await.unwrap();
    let identities = identities.json().unwrap();
    assert_eq!(identities.as_array().unwrap().len(), 1);
    assert_eq!(identities[0]["subject"], "s-1");
    rig.end().await;
}
