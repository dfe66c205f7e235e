//! Authorization requests and the page of consent.

use super::{REDIRECT, authorize, client_id, decide, location, register, text};
use crate::{browser::query_of, prelude::*};

crate::settings::everywhere! {
    a_wrong_client_or_redirect_ends_on_a_page,
    every_other_error_is_told_to_the_client,
    a_person_refuses,
    the_consent_page_says_who_asks_for_what,
    the_person_chooses_an_organization_where_the_role_suffices,
    a_decision_is_taken_from_a_form_of_this_session_alone,
}

async fn a_wrong_client_or_redirect_ends_on_a_page() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let browser = Browser::signed_in(&rig, &rig.member.token);
    let mut wrong = vec![
        authorize("", &[]),
        authorize("client_01kafs6w1cefkstv6qr1ptb0mp", &[]),
        authorize("https://127.0.0.1/client.json", &[]),
        authorize("https://169.254.169.254/latest/meta-data", &[]),
        authorize("x", &[]),
        format!("{}&client_id={client}", authorize(&client, &[])),
        format!("{}&redirect_uri={REDIRECT}", authorize(&client, &[])),
    ];
    let spellings = [
        "https://evil.example/cb",
        "https://app.example.com/cb/",
        "https://app.example.com/cb?x=1",
        "https://app.example.com//cb",
        "https://app.example.com/./cb",
        "https://app.example.com/CB",
        "https://app.example.com/%63b",
        "https://app.example.com/cb#x",
        "https://app.example.com:443/cb",
        "https://app.example.com:8443/cb",
        "https://app.example.com./cb",
        "http://app.example.com/cb",
        "HTTPS://app.example.com/cb",
        "//app.example.com/cb",
        "///evil.example/cb",
        "/\\evil.example/cb",
        "/cb",
        "https:/app.example.com/cb",
        "https:app.example.com/cb",
        "https:\\\\app.example.com\\cb",
        "https://app.example.com@evil.example/cb",
        "https://user@app.example.com/cb",
        "https://app.example.com.evil.example/cb",
        "https://evil.example/https://app.example.com/cb",
        "https://evil.example?@app.example.com/cb",
        "https://evil.example#@app.example.com/cb",
        "https://evil.example\\@app.example.com/cb",
        "https://app.example.com\\.evil.example/cb",
        "https://app.example.com%2eevil.example/cb",
        "https://app.example.com/cb ",
        " https://app.example.com/cb",
        "https://app.example.com/cb\t",
        "https://app.example.com/cb\n",
        "https://app.example.com/cb\u{0}",
        "https://app.example.com/cb;x",
        "https://app.example.com/x/../cb",
        "javascript:alert(1)",
        "data:text/html,x",
        "javascript://app.example.com/cb%0aalert(1)",
        "https://äpp.example.com/cb",
    ];
    assert!(spellings.len() >= 40);
    wrong.extend(
        spellings
            .iter()
            .map(|uri| authorize(&client, &[("redirect_uri", uri)])),
    );
    for path in wrong {
        let page = browser.get(&path).await;
        assert_eq!(page.status, 400, "{path}");
        assert!(page.header("location").is_err(), "{path}");
        assert!(
            page.header("content-type").unwrap().starts_with("text/html"),
            "{path}"
        );
    }
    rig.end().await;
}

async fn every_other_error_is_told_to_the_client() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    // This works without a signed-in person.
    let browser = Browser::new(&rig);
    for (change, error) in [
        (("response_type", ""), "invalid_request"),
        (("response_type", "token"), "unsupported_response_type"),
        (("code_challenge", ""), "invalid_request"),
        (("code_challenge_method", ""), "invalid_request"),
        (("code_challenge_method", "plain"), "invalid_request"),
        (("scope", "owner"), "invalid_scope"),
        (("resource", "https://other.example"), "invalid_target"),
    ] {
        let location = location(&browser.get(&authorize(&client, &[change])).await);
        assert!(location.starts_with(&format!("{REDIRECT}?")), "{location}");
        let query = query_of(&location);
        assert_eq!(query["error"], error, "{change:?}");
        assert_eq!(
            (query["state"].as_str(), &query["iss"]),
            ("a state & more", &rig.org_url),
            "{change:?}"
        );
        assert!(!query.contains_key("code"));
    }
    let twice = format!("{}&scope=member&scope=member", authorize(&client, &[]));
    assert_eq!(
        query_of(&location(&browser.get(&twice).await))["error"],
        "invalid_request"
    );
    for slash in ["", "/", "/mcp", "/mcp/"] {
        let resource = format!("http://{}{slash}", rig.engine_address);
        let there = location(&browser.get(&authorize(&client, &[("resource", &resource)])).await);
        assert!(there.starts_with("/sign-in?return="), "{there}");
    }
    rig.end().await;
}

async fn a_person_refuses() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let answer = decide(&rig, &rig.member, &authorize(&client, &[]), "", "deny").await;
    let query = query_of(&location(&answer));
    assert_eq!(
        (query["error"].as_str(), &query["iss"]),
        ("access_denied", &rig.org_url)
    );
    assert_eq!(query["state"], "a state & more");
    let listed = rig.member.get("/v1/auth/grants").await.unwrap().json().unwrap();
    assert_eq!(listed, json!([]));
    rig.end().await;
}

async fn the_consent_page_says_who_asks_for_what() {
    let rig = Rig::start().await;
    let name = format!("<script>alert(1)</script>\u{202e}{}", "x".repeat(1_000));
    let client = register(
        &rig,
        &json!({"client_name": name, "redirect_uris": [REDIRECT, "http://127.0.0.1/cb"]}),
    )
    .await;
    let client = text(&client, "client_id");
    let browser = Browser::signed_in(&rig, &rig.owner.token);
    let page = browser.get(&authorize(client, &[])).await;
    let shown = page.text();
    assert!(!shown.contains("<script") && !shown.contains('\u{202e}') && !shown.contains(&"x".repeat(100)));
    for part in [
        "Allow “&lt;script&gt;",
        "app.example.com",
        "owner@example.com",
        "ours",
        "start and cancel runs",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("only on this computer"));
    let policy = page.header("content-security-policy").unwrap();
    assert_contains!(policy, "form-action 'self' https://app.example.com;");

    let loopback = authorize(client, &[("redirect_uri", "http://127.0.0.1:3456/cb")]);
    let page = browser.get(&loopback).await;
    assert!(page.text().contains("only on this computer"));
    let policy = page.header("content-security-policy").unwrap();
    assert_contains!(policy, "form-action 'self' http://127.0.0.1:3456;");

    // A member has no organization where the role includes the scope.
    let member = Browser::signed_in(&rig, &rig.member.token);
    let page = member.get(&authorize(client, &[("scope", "admin")])).await;
    assert_contains!(page, "in any of your organizations");
    form_token(&page, "/organizations/new");
    assert!(!page.text().contains("value=\"allow\""));
    rig.end().await;
}

async fn the_person_chooses_an_organization_where_the_role_suffices() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    rig.join(rig.theirs, rig.admin.user, Role::Member).await;
    let browser = Browser::signed_in(&rig, &rig.admin.token);
    let page = browser.get(&authorize(&client, &[])).await.text();
    assert!(page.contains("<select") && page.contains(">ours<") && page.contains(">theirs<"));
    let page = browser
        .get(&authorize(&client, &[("scope", "admin")]))
        .await
        .text();
    assert!(!page.contains("<select") && !page.contains("theirs"));
    // The role is checked again when the person decides.
    let path = authorize(&client, &[("scope", "admin")]);
    for org in [rig.theirs.to_string(), "org_x".to_owned(), String::new()] {
        let answer = decide(&rig, &rig.admin, &path, &org, "allow").await;
        assert!(matches!(answer.status, 400 | 409), "{org}: {}", answer.status);
        assert!(answer.header("location").is_err());
    }
    let answer = decide(
        &rig,
        &rig.stranger,
        &authorize(&client, &[]),
        &rig.ours.to_string(),
        "allow",
    )
    .await;
    assert_eq!(answer.status, 409);
    rig.end().await;
}

async fn a_decision_is_taken_from_a_form_of_this_session_alone() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let browser = Browser::signed_in(&rig, &rig.member.token);
    let page = browser.get(&authorize(&client, &[])).await;
    let token = form_token(&page, "/oauth/authorize");
    let ours = rig.ours.to_string();
    let fields = [
        ("form", token.as_str()),
        ("organization", &ours),
        ("decision", "allow"),
    ];
    for origin in [
        None,
        Some("null"),
        Some("https://evil.example"),
        Some("http://127.0.0.1"),
    ] {
        let answer = browser.post_from(origin, "/oauth/authorize", &fields).await;
        assert_eq!(answer.status, 403, "{origin:?}");
    }
    let other = Browser::signed_in(&rig, &rig.owner.token);
    assert_eq!(
        other.post("/oauth/authorize", &fields).await.status,
        403,
        "another session"
    );
    assert_eq!(
        Browser::new(&rig).post("/oauth/authorize", &fields).await.status,
        403,
        "no session"
    );
    let purpose = form_token(&page, "/sign-out");
    let wrong = [
        ("form", purpose.as_str()),
        ("organization", &ours),
        ("decision", "allow"),
    ];
    assert_eq!(
        browser.post("/oauth/authorize", &wrong).await.status,
        403,
        "another purpose"
    );
    assert_eq!(
        browser.post("/oauth/authorize", &fields[1..]).await.status,
        403,
        "no token"
    );
    rig.clock.set(rig.clock.now() + Duration::from_mins(10));
    assert_eq!(
        browser.post("/oauth/authorize", &fields).await.status,
        403,
        "too late"
    );
    let listed = rig.member.get("/v1/auth/grants").await.unwrap().json().unwrap();
    assert_eq!(listed, json!([]), "nothing was allowed");
    rig.end().await;
}
