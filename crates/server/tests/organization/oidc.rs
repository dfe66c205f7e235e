//! Sign-in with an identity provider: the complete flow of a browser, and every refused answer.

mod accounts;
mod limits;

use sortie_accounts::IdentityProvider;
use sortie_api::Credential;
use sortie_api::SignUpRule;
use sortie_testkit::{
    ScriptedProvider,
    identity::{CLIENT_ID, CLIENT_SECRET, Signature},
};

use crate::{browser::query_of, prelude::*};

// Each node fetches the metadata and the keys separately, so the exact requests are known only for one node.
crate::settings::both_databases! {
    a_person_signs_up_and_in_at_a_provider_and_comes_back,
    the_answer_of_another_issuer_is_refused_before_the_code_is_sent,
    keys_are_fetched_again_for_an_unknown_one_and_metadata_after_an_hour,
}

crate::settings::everywhere! {
    the_request_has_a_challenge_and_a_nonce_and_the_state_tells_nothing,
    every_wrong_id_token_is_refused_and_nobody_is_signed_in,
    an_answer_counts_once_in_the_browser_that_asked_for_it,
    an_address_counts_where_it_is_verified_and_its_domain_is_trusted,
    a_proof_of_the_userinfo_endpoint_counts_for_its_own_address,
    an_account_is_linked_where_nobody_else_can_have_made_it,
    a_sign_up_by_invitation_needs_the_invitation_of_the_address,
    a_provider_that_fails_is_named_and_asked_again_after_seconds,
    the_secret_is_sent_in_the_form_where_the_provider_takes_no_header,
}

const START: &str = "/sign-in/oidc/idp";

/// Time of the accounts' clock, in seconds since 1970.
fn now() -> i64 {
    AT.as_micros() / 1_000_000
}

fn settings(name: &str, provider: &ScriptedProvider) -> IdentityProvider {
    IdentityProvider {
        name: name.to_owned(),
        label: "Example & Co".to_owned(),
        issuer: provider.issuer(),
        client_id: CLIENT_ID.to_owned(),
        client_secret: Credential::new(CLIENT_SECRET),
        trusted_domains: vec!["corp.example".to_owned()],
        scopes: Vec::new(),
        roles: None,
    }
}

/// A server with a provider that signs in `new@corp.example`.
async fn start_with(sign_up: SignUpRule) -> (Rig, ScriptedProvider) {
    let provider = ScriptedProvider::start(now()).await.unwrap();
    provider.person("s-1", "new@corp.example");
    let providers = vec![settings("idp", &provider)];
    let rig = Rig::start_with(|options| {
        options.sign_up = sign_up;
        options.providers.clone_from(&providers);
    })
    .await;
    (rig, provider)
}

/// Begins a sign-in and lets the provider answer. Returns the address of the callback.
async fn answered(browser: &Browser, provider: &ScriptedProvider, path: &str) -> String {
    let away = browser.get(path).await;
    assert_eq!(away.status, 303, "{}", away.text());
    provider.authorize(away.header("location").unwrap()).unwrap()
}

async fn sign_in(browser: &Browser, provider: &ScriptedProvider, path: &str) -> Answer {
    let callback = answered(browser, provider, path).await;
    browser.get(&callback).await
}

/// Claims that a test changes.
fn claim(provider: &ScriptedProvider, name: &str, value: Value) {
    provider.script(|script| {
        script.claims.insert(name.to_owned(), value);
    });
}

/// Sets the answer of the userinfo endpoint.
fn script_userinfo(provider: &ScriptedProvider, answer: &Value) {
    provider.script(|script| script.userinfo.clone_from(answer.as_object().unwrap()));
}

/// Metric of sign-ins with this outcome, summed over the nodes.
async fn sign_ins(rig: &Rig, outcome: &str) -> u64 {
    let line = format!("sortie_sign_ins_total{{method=\"provider\",outcome=\"{outcome}\"}} ");
    let mut sum = 0;
    for node in &rig.nodes {
        let metrics = Client::new(*node, None).get("/metrics").await.unwrap().text();
        let count = metrics.lines().find_map(|text| text.strip_prefix(&line));
        let count = count.unwrap_or_else(|| panic!("no {line}: {metrics}"));
        sum += count.parse::<u64>().unwrap();
    }
    sum
}

async fn a_person_signs_up_and_in_at_a_provider_and_comes_back() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    claim(&provider, "name", json!("New Person"));
    let browser = Browser::new(&rig);
    let back = rig
        .accounts
        .seal_text(("return", ""), b"/oauth/authorize?x", Duration::from_mins(10))
        .unwrap();
    let page = browser.get(&format!("/sign-in?return={back}")).await.text();
    let (_, link) = page.split_once(&format!("href=\"{START}?return=")).unwrap();
    let link = format!("{START}?return={}", link.split('"').next().unwrap());
    assert!(page.contains("Sign in with Example &amp; Co"), "{page}");
    let answer = sign_in(&browser, &provider, &link).await;
    assert_eq!(
        (answer.status, answer.header("location").unwrap()),
        (303, "/oauth/authorize?x")
    );
    let session = browser.cookie("sortie").unwrap();
    assert!(session.starts_with("stu_") && browser.cookie("sortie_form").is_none());
    let client = Client::new(rig.address, Some(session.clone()));
    let me = client.get("/v1/auth/me").await.unwrap().json().unwrap();
    assert_eq!(me["email"], "new@corp.example");
    assert_has!(me, {"name": "New Person", "email_verified": true});

    // With another, unverified address: issuer and subject identify the person.
    claim(&provider, "email", json!("other@elsewhere.example"));
    claim(&provider, "email_verified", Value::Null);
    script_userinfo(&provider, &json!({"sub": "s-1"}));
    let other = Browser::new(&rig);
    assert_eq!(sign_in(&other, &provider, START).await.status, 303);
    let again = other.cookie("sortie").unwrap();
    assert_ne!(again, session, "each sign-in has a secret of its own");
    let client = Client::new(rig.address, Some(again));
    let same = client.get("/v1/auth/me").await.unwrap().json().unwrap();
    assert_eq!(same["id"], me["id"]);
    assert_eq!(sign_ins(&rig, "succeeded").await, 2);
    assert_eq!(
        provider.requests(),
        ["metadata", "token", "keys", "token", "userinfo"]
    );
    rig.end().await;
}

async fn the_request_has_a_challenge_and_a_nonce_and_the_state_tells_nothing() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    let away = Browser::new(&rig).get(START).await;
    let query = query_of(away.header("location").unwrap());
    assert_eq!(query["redirect_uri"], format!("{}{START}/callback", rig.org_url));
    assert_eq!(query["scope"], "openid email profile");
    assert_eq!((query["code_challenge"].len(), query["nonce"].len()), (43, 43));
    let other = query_of(Browser::new(&rig).get(START).await.header("location").unwrap());
    for name in ["state", "nonce", "code_challenge"] {
        assert_ne!(query[name], other[name], "{name}");
    }
    assert!(!query["state"].contains(&query["nonce"]));
    assert_eq!(Browser::new(&rig).get("/sign-in/oidc/other").await.status, 404);
    assert_eq!(Browser::new(&rig).get("/sign-in/oidc/%ff").await.status, 404);
    assert_eq!(
        Browser::signed_in(&rig, &rig.member.token)
            .get(START)
            .await
            .header("location")
            .unwrap(),
        "/"
    );
    drop(provider);
    rig.end().await;
}

async fn every_wrong_id_token_is_refused_and_nobody_is_signed_in() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    let person = [
        ("sub", json!("s-1")),
        ("email", json!("new@corp.example")),
        ("email_verified", json!(true)),
    ];
    let refused = async |what: &str| {
        let browser = Browser::new(&rig);
        let answer = sign_in(&browser, &provider, START).await;
        assert_eq!(answer.status, 403, "{what}: {}", answer.text());
        assert_eq!(browser.cookie("sortie"), None, "{what}");
        let text = answer.text();
        assert!(
            text.contains("did not confirm this sign-in") && text.contains("href=\"/sign-in\""),
            "{what}: {text}"
        );
    };
    for (name, value) in [
        ("nonce", json!("another")),
        ("nonce", Value::Null),
        ("aud", json!("another")),
        ("aud", json!([CLIENT_ID, "another"])),
        ("azp", json!("another")),
        ("iss", json!("https://another.example")),
        ("exp", json!(now() - 60)),
        ("iat", json!(now() + 61)),
        ("sub", Value::Null),
        ("sub", json!("")),
    ] {
        provider.script(|script| {
            script.claims = person
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect();
            script.claims.insert(name.to_owned(), value.clone());
        });
        refused(&format!("{name} {value}")).await;
    }
    provider.person("s-1", "new@corp.example");
    for signature in [Signature::None, Signature::Hs256, Signature::OtherKey] {
        provider.script(|script| script.signature = signature);
        refused(&format!("{signature:?}")).await;
    }
    assert_eq!(sign_ins(&rig, "refused").await, 13);
    for signature in [Signature::Rs256, Signature::Es256] {
        provider.script(|script| script.signature = signature);
        assert_eq!(sign_in(&Browser::new(&rig), &provider, START).await.status, 303);
    }
    rig.end().await;
}

async fn an_answer_counts_once_in_the_browser_that_asked_for_it() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    let (browser, other) = (Browser::new(&rig), Browser::new(&rig));
    let callback = answered(&browser, &provider, START).await;
    other.get("/sign-in").await;
    for stranger in [&other, &Browser::new(&rig)] {
        let answer = stranger.get(&callback).await;
        assert_eq!(answer.status, 403, "the state of another browser");
        assert!(answer.text().contains("has expired"));
    }
    let form_cookie = browser.cookie("sortie_form").unwrap();
    assert_eq!(browser.get(&callback).await.status, 303);
    let session = browser.cookie("sortie");
    let again = browser.get(&callback).await;
    assert_eq!(
        (again.status, again.header("location").unwrap()),
        (303, "/"),
        "a state that was used"
    );
    assert_eq!(browser.cookie("sortie"), session, "nobody signs in again");
    let replayed = Browser::new(&rig);
    replayed.set("sortie_form", &form_cookie);
    assert_eq!(replayed.get(&callback).await.status, 403, "a code that was used");
    assert_eq!(replayed.cookie("sortie"), None);

    let late = Browser::new(&rig);
    let callback = answered(&late, &provider, START).await;
    rig.clock.set(rig.clock.now() + Duration::from_mins(10));
    assert_eq!(late.get(&callback).await.status, 403, "too late");
    for query in [
        "",
        "?code=x",
        "?code=x&state=y",
        "?state=",
        "?error=access_denied",
    ] {
        assert_eq!(
            late.get(&format!("{START}/callback{query}")).await.status,
            403,
            "{query}"
        );
    }
    assert_eq!(late.cookie("sortie"), None);
    rig.end().await;
}

async fn the_answer_of_another_issuer_is_refused_before_the_code_is_sent() {
    let provider = ScriptedProvider::start(now()).await.unwrap();
    provider.person("s-1", "new@corp.example");
    let second = ScriptedProvider::start(now()).await.unwrap();
    let providers = vec![settings("idp", &provider), settings("second", &second)];
    let rig = Rig::start_with(|options| options.providers.clone_from(&providers)).await;
    let browser = Browser::new(&rig);
    provider.script(|script| script.answer_issuer = Some("https://evil.example".to_owned()));
    assert_eq!(sign_in(&browser, &provider, START).await.status, 403);
    assert_eq!(provider.requests(), ["metadata"]);
    // The state of one provider at the callback of another one.
    provider.script(|script| script.answer_issuer = None);
    let callback = answered(&browser, &provider, START).await;
    let mixed_up = callback.replace("/oidc/idp/", "/oidc/second/");
    assert_eq!(browser.get(&mixed_up).await.status, 403);
    assert_eq!(second.requests(), Vec::<String>::new());
    // The person refuses at the provider.
    let denied = callback.split_once("code=").unwrap().0.to_owned() + "error=access_denied&state=";
    let denied = denied + callback.split_once("state=").unwrap().1;
    assert_eq!(browser.get(&denied).await.status, 403);
    assert_eq!(provider.requests(), Vec::<String>::new());
    let issuer = provider.issuer();
    provider.script(|script| script.answer_issuer = Some(issuer));
    assert_eq!(sign_in(&browser, &provider, START).await.status, 303);
    rig.end().await;

    let named = json!(true);
    second.person("s-1", "new@corp.example");
    second.script(|script| {
        let name = "authorization_response_iss_parameter_supported".to_owned();
        script.metadata.insert(name, named);
    });
    let providers = vec![settings("idp", &second)];
    let rig = Rig::start_with(|options| options.providers.clone_from(&providers)).await;
    assert_eq!(
        sign_in(&Browser::new(&rig), &second, START).await.status,
        403,
        "no issuer in the answer"
    );
    rig.end().await;
}

async fn an_address_counts_where_it_is_verified_and_its_domain_is_trusted() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    script_userinfo(&provider, &json!({"sub": "s-1"}));
    for (name, value, reason) in rows! {
        "email_verified", json!(false), "has not verified your email address";
        "email_verified", Value::Null, "has not verified your email address";
        "email", json!("new@elsewhere.example"), "an address of this domain";
        "email", json!("new@sub.corp.example"), "an address of this domain";
        "email", json!("not an address"), "did not return your email address";
    } {
        provider.person("s-1", "new@corp.example");
        claim(&provider, name, value.clone());
        let browser = Browser::new(&rig);
        let answer = sign_in(&browser, &provider, START).await;
        assert_eq!(answer.status, 403, "{name} {value}");
        assert!(
            answer.text().contains(reason),
            "{name} {value}: {}",
            answer.text()
        );
        assert_eq!(browser.cookie("sortie"), None);
    }
    // The address is only in the userinfo response.
    provider.person("s-1", "x");
    claim(&provider, "email", Value::Null);
    let userinfo = json!({"sub": "another", "email": "new@corp.example", "email_verified": true});
    script_userinfo(&provider, &userinfo);
    let browser = Browser::new(&rig);
    assert_eq!(
        sign_in(&browser, &provider, START).await.status,
        403,
        "about another person"
    );
    provider.script(|script| drop(script.userinfo.insert("sub".to_owned(), json!("s-1"))));
    assert_eq!(sign_in(&browser, &provider, START).await.status, 303);
    rig.end().await;
}

async fn a_proof_of_the_userinfo_endpoint_counts_for_its_own_address() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    claim(&provider, "email_verified", Value::Null);
    let of = |email: &str| json!({"sub": "s-1", "email": email, "email_verified": true});
    script_userinfo(&provider, &of("else@corp.example"));
    let browser = Browser::new(&rig);
    let answer = sign_in(&browser, &provider, START).await;
    assert_eq!((answer.status, browser.cookie("sortie")), (403, None));
    let text = answer.text();
    assert!(text.contains("has not verified your email address"), "{text}");
    script_userinfo(&provider, &of("new@corp.example"));
    assert_eq!(sign_in(&browser, &provider, START).await.status, 303);
    let client = Client::new(rig.address, browser.cookie("sortie"));
    let me = client.get("/v1/auth/me").await.unwrap().json().unwrap();
    assert_eq!(me["email"], "new@corp.example");
    rig.end().await;
}

/// Changes the person of the rig with this name directly in the database.
async fn change_person(rig: &Rig, change: &str, email: &str) {
    rig.meddle(&format!("UPDATE person SET {change} WHERE email_key = '{email}'"))
        .await;
}

async fn an_account_is_linked_where_nobody_else_can_have_made_it() {
    let (rig, provider) = start_with(SignUpRule::Closed).await;
    for name in ["owner", "admin", "member"] {
        let email = format!("{name}@example.com");
        change_person(
            &rig,
            &format!("email = '{name}@corp.example', email_key = '{name}@corp.example'"),
            &email,
        )
        .await;
    }
    change_person(&rig, "password = ''", "member@corp.example").await;
    change_person(&rig, "email_verified_at = 1", "admin@corp.example").await;
    // The address is unverified, and the account has a password.
    provider.person("s-owner", "owner@corp.example");
    let browser = Browser::new(&rig);
    let answer = sign_in(&browser, &provider, START).await;
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("has not verified it"), "{}", answer.text());
    // The operator created this account, which has no password yet.
    for (subject, name) in [("s-admin", "admin"), ("s-member", "member")] {
        provider.person(subject, &format!("{}@Corp.example", name.to_uppercase()));
        let browser = Browser::new(&rig);
        assert_eq!(sign_in(&browser, &provider, START).await.status, 303, "{name}");
        let client = Client::new(rig.address, browser.cookie("sortie"));
        let me = client.get("/v1/auth/me").await.unwrap().json().unwrap();
        assert_eq!(me["email"], format!("{name}@corp.example"));
        assert_eq!(me["email_verified"], true, "{name}");
    }
    // Sign-up is closed for all other people.
    provider.person("s-1", "new@corp.example");
    let answer = sign_in(&Browser::new(&rig), &provider, START).await;
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("sign-up is closed"));
    // A disabled person is refused whether the identity or the address matches.
    change_person(&rig, "disabled_at = 1", "member@corp.example").await;
    for subject in ["s-member", "s-another"] {
        provider.person(subject, "member@corp.example");
        let browser = Browser::new(&rig);
        let answer = sign_in(&browser, &provider, START).await;
        assert_eq!(
            (answer.status, browser.cookie("sortie")),
            (403, None),
            "{subject}"
        );
        assert!(answer.text().contains("this account is disabled"));
    }
    rig.end().await;
}

async fn a_sign_up_by_invitation_needs_the_invitation_of_the_address() {
    let (rig, provider) = start_with(SignUpRule::Invited).await;
    let invite = async |email: &str| {
        let path = rig.path("/invitations");
        let body = json!({"email": email, "role": "member"});
        let answer = rig.owner.post(&path, &body).await.unwrap();
        let url = answer.json().unwrap()["url"].as_str().unwrap().to_owned();
        url.strip_prefix(&rig.org_url).unwrap().to_owned()
    };
    let (own, others) = (
        invite("new@corp.example").await,
        invite("else@corp.example").await,
    );
    let follow = async |browser: &Browser, page: &str| {
        let page = browser.get(page).await.text();
        let (_, rest) = page.split_once("href=\"/sign-in?return=").unwrap();
        let sealed = rest.split('"').next().unwrap().to_owned();
        sign_in(browser, &provider, &format!("{START}?return={sealed}")).await
    };
    let browser = Browser::new(&rig);
    let refused = [
        sign_in(&browser, &provider, START).await,
        follow(&browser, &others).await,
    ];
    for answer in refused {
        assert_eq!(answer.status, 403);
        assert_contains!(answer, "sign-up needs an invitation");
    }
    let answer = follow(&browser, &own).await;
    assert_eq!(
        (answer.status, answer.header("location").unwrap()),
        (303, own.as_str())
    );
    let page = browser.get(&own).await;
    let token = form_token(&page, "/invitations/accept");
    let accepted = browser.post("/invitations/accept", &[("form", &token)]).await;
    assert_eq!(accepted.status, 200, "{}", accepted.text());
    rig.end().await;
}

async fn keys_are_fetched_again_for_an_unknown_one_and_metadata_after_an_hour() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    let works = async || sign_in(&Browser::new(&rig), &provider, START).await.status == 303;
    assert!(works().await);
    assert_eq!(provider.requests(), ["metadata", "token", "keys"]);
    provider.rotate_keys("second").unwrap();
    assert!(!works().await, "keys that were fetched a moment ago");
    rig.clock.set(rig.clock.now() + Duration::from_mins(1));
    assert!(works().await);
    assert_eq!(provider.requests(), ["token", "token", "keys"]);
    provider.rotate_keys("third").unwrap();
    assert!(!works().await, "once a minute");
    assert_eq!(provider.requests(), ["token"]);
    rig.clock.set(rig.clock.now() + Duration::from_hours(1));
    provider.script(|script| script.now += 3_660);
    assert!(works().await);
    assert_eq!(provider.requests(), ["metadata", "token", "keys"]);
    rig.end().await;
}

async fn a_provider_that_fails_is_named_and_asked_again_after_seconds() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    let browser = Browser::new(&rig);
    provider.script(|script| script.fails = true);
    let answer = browser.get(START).await;
    assert_eq!(answer.status, 503);
    assert_contains!(answer, "Example &amp; Co returned an unexpected answer");
    provider.script(|script| script.fails = false);
    assert_eq!(provider.requests().len(), 1);
    rig.clock.set(rig.clock.now() + Duration::from_secs(5));
    let callback = answered(&browser, &provider, START).await;
    provider.script(|script| script.fails = true);
    assert_eq!(browser.get(&callback).await.status, 503);
    assert_eq!(sign_ins(&rig, "away").await, 2);
    provider.script(|script| script.fails = false);
    assert_eq!(
        browser.get(&callback).await.status,
        303,
        "the code was not used yet"
    );
    rig.end().await;

    provider.script(|script| {
        let issuer = json!("https://other.example");
        script.metadata.insert("issuer".to_owned(), issuer);
    });
    let providers = vec![settings("idp", &provider)];
    let rig = Rig::start_with(|options| options.providers.clone_from(&providers)).await;
    assert_eq!(
        Browser::new(&rig).get(START).await.status,
        503,
        "metadata of another issuer"
    );
    rig.end().await;
}

async fn the_secret_is_sent_in_the_form_where_the_provider_takes_no_header() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    provider.script(|script| {
        let methods = json!(["client_secret_post"]);
        script
            .metadata
            .insert("token_endpoint_auth_methods_supported".to_owned(), methods);
    });
    assert_eq!(sign_in(&Browser::new(&rig), &provider, START).await.status, 303);
    rig.end().await;
}
