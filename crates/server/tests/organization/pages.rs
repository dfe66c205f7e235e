//! The pages: their headers, the forms of a browser, and the return path of a sign-in.

mod mailed;
mod next_steps;

use crate::{
    browser::encoded,
    oauth::{authorize, client_id},
    prelude::*,
};

crate::settings::everywhere! {
    every_page_forbids_frames_scripts_and_copies_also_as_an_error,
    the_files_of_the_pages_are_kept_by_browsers,
    a_person_signs_out_by_a_form_of_the_page_alone,
    a_form_in_another_encoding_is_refused,
    a_person_signs_up_and_in_and_comes_back_to_the_application,
    a_planted_cookie_is_not_signed_in_afterwards,
    a_form_before_the_sign_in_is_bound_to_its_browser,
    no_way_back_leads_elsewhere,
}

/// Checks that a page forbids frames, scripts, other origins and caching.
fn assert_strict(answer: &Answer, place: &str) {
    assert_eq!(answer.header("x-frame-options").unwrap(), "DENY", "{place}");
    assert_eq!(
        answer.header("x-content-type-options").unwrap(),
        "nosniff",
        "{place}"
    );
    assert_eq!(
        answer.header("referrer-policy").unwrap(),
        "same-origin",
        "{place}"
    );
    assert_eq!(answer.header("cache-control").unwrap(), "no-store", "{place}");
    assert_eq!(
        answer.header("content-type").unwrap(),
        "text/html; charset=utf-8",
        "{place}"
    );
    let policy = answer.header("content-security-policy").unwrap();
    for part in [
        "default-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    ] {
        assert!(policy.contains(part), "{place}: {policy}");
    }
    let text = answer.text();
    assert!(
        !text.contains("<script") && !text.contains("style=") && !text.contains(" onclick"),
        "{place}"
    );
}

async fn every_page_forbids_frames_scripts_and_copies_also_as_an_error() {
    let rig = Rig::start().await;
    for token in [None, Some(&rig.member.token)] {
        let browser = Browser::new(&rig);
        if let Some(token) = token {
            browser.set("sortie", token);
        }
        for page in sortie_server::pages() {
            let answer = match page.method {
                "get" => browser.get(page.path).await,
                _ => browser.post(page.path, &[]).await,
            };
            let place = format!("{} {} as {token:?}: {}", page.method, page.path, answer.status);
            assert_strict(&answer, &place);
            if answer.status >= 400 {
                assert_contains!(answer, "<a class=\"btn");
            }
        }
    }
    rig.end().await;
}

async fn the_files_of_the_pages_are_kept_by_browsers() {
    let rig = Rig::start().await;
    let page = Browser::signed_in(&rig, &rig.member.token).get("/").await;
    let icon = link(&page, "/pages/");
    let (folder, _) = icon.rsplit_once('/').unwrap();
    assert_contains!(page, &format!("{folder}/style.css"));
    for address in [rig.address, rig.engine_address] {
        for (name, content_type) in [
            ("style.css", "text/css; charset=utf-8"),
            ("inter.woff2", "font/woff2"),
            ("icon.svg", "image/svg+xml"),
        ] {
            let path = format!("{folder}/{name}");
            let file = Client::new(address, None).get(&path).await.unwrap();
            let file = file.expect(200).unwrap();
            assert_eq!(file.header("content-type").unwrap(), content_type);
            assert_eq!(file.header("x-content-type-options").unwrap(), "nosniff");
            assert!(file.header("cache-control").unwrap().contains("immutable"));
        }
    }
    let style = Client::new(rig.address, None)
        .get(&format!("{folder}/style.css"))
        .await
        .unwrap();
    let tokens = include_str!("../../../../console/src/style/tokens.css");
    assert!(
        style.text().starts_with(tokens),
        "the colours are those of the console"
    );
    assert_contains!(style, "url(\"./inter.woff2\")");
    rig.end().await;
}

async fn a_person_signs_out_by_a_form_of_the_page_alone() {
    let rig = Rig::start().await;
    let browser = Browser::signed_in(&rig, &rig.member.token);
    let page = browser.get("/").await;
    assert!(page.text().contains("member@example.com"));
    let token = form_token(&page, "/sign-out");
    for origin in [None, Some("https://evil.example")] {
        assert_eq!(
            browser
                .post_from(origin, "/sign-out", &[("form", &token)])
                .await
                .status,
            403
        );
    }
    assert_eq!(browser.post("/sign-out", &[]).await.status, 403);
    let other = Browser::signed_in(&rig, &rig.owner.token);
    assert_eq!(other.post("/sign-out", &[("form", &token)]).await.status, 403);
    assert_eq!(browser.get("/").await.status, 200, "still signed in");
    assert_eq!(browser.post("/sign-out", &[("form", &token)]).await.status, 200);
    assert_eq!(browser.cookie("sortie"), None);
    browser.set("sortie", &rig.member.token);
    rig.soon(303, async || browser.get("/").await).await;
    rig.end().await;
}

async fn a_form_in_another_encoding_is_refused() {
    let rig = Rig::start().await;
    let client = Client::new(rig.address, None)
        .with_header("origin", &*rig.org_url)
        .with_header("content-type", "text/plain");
    for page in sortie_server::pages().iter().filter(|page| page.method == "post") {
        let body = Bytes::from_static(b"decision=allow");
        let answer = client.send(Method::POST, page.path, body).await.unwrap();
        assert_eq!(answer.status, 403, "{}", page.path);
    }
    rig.end().await;
}

const PASSWORD: &str = "seventeen grey herons at dawn";
const OTHER: &str = "plum-anchor-violet-42";

/// Target of the link of a page that begins with `path`.
fn link(page: &Answer, path: &str) -> String {
    let text = page.text();
    let (_, rest) = text
        .split_once(&format!("href=\"{path}"))
        .unwrap_or_else(|| panic!("no link to {path}: {text}"));
    format!("{path}{}", rest.split('"').next().unwrap())
}

/// Signs a person up at the page, with an address that begins with `name`. Returns the answer to the form.
async fn sign_up(browser: &Browser, path: &str, name: &str) -> Answer {
    let page = browser.get(path).await;
    assert_eq!(page.status, 200, "{}", page.text());
    let token = form_token(&page, "/sign-up");
    let email = format!("{name}@example.com");
    let fields = [
        ("form", token.as_str()),
        ("name", name),
        ("email", &email),
        ("password", PASSWORD),
    ];
    browser.post("/sign-up", &fields).await
}

async fn sign_in(browser: &Browser, path: &str, email: &str, password: &str) -> Answer {
    let token = form_token(&browser.get(path).await, "/sign-in");
    let fields = [("form", token.as_str()), ("email", email), ("password", password)];
    browser.post("/sign-in", &fields).await
}

async fn a_person_signs_up_and_in_and_comes_back_to_the_application() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let path = authorize(&client, &[]);
    let browser = Browser::new(&rig);
    let away = browser.get(&path).await;
    let sign_in_path = away.header("location").unwrap().to_owned();
    assert!(
        sign_in_path.starts_with("/sign-in?return=") && !sign_in_path.contains("client_id"),
        "{sign_in_path}"
    );
    let page = browser.get(&sign_in_path).await;
    assert_contains!(page, "To continue to <b>“App”</b>", "app.example.com");
    let sign_up_path = link(&page, "/sign-up");
    let page = browser.get(&sign_up_path).await;
    assert_contains!(page, "To continue to <b>“App”</b>", "app.example.com");
    let answer = sign_up(&browser, &sign_up_path, "newcomer").await;
    assert_eq!(
        (answer.status, answer.header("location").unwrap()),
        (303, path.as_str()),
        "{}",
        answer.text()
    );
    let session = browser.cookie("sortie").unwrap();
    assert!(session.starts_with("stu_"));
    let consent = browser.get(&path).await;
    assert_contains!(consent, "newcomer@example.com", "Create your first one");
    assert_lacks!(consent, "value=\"allow\"");
    for (name, status) in [(" ", 400), ("Plum Works", 303)] {
        let form = form_token(&browser.get(&path).await, "/organizations/new");
        let created = browser
            .post("/organizations/new", &[("form", &form), ("name", name)])
            .await;
        assert_eq!(created.status, status, "{}", created.text());
        if status == 303 {
            assert_eq!(created.header("location").unwrap(), path);
        } else {
            assert_contains!(created, "Name must be 1 to 200 characters");
            form_token(&created, "/organizations/new");
        }
    }
    let consent = browser.get(&path).await;
    assert_contains!(consent, "Plum Works", "value=\"allow\"");
    assert_lacks!(consent, "/organizations/new");

    let other = Browser::new(&rig);
    let refused = sign_in(&other, &sign_in_path, "newcomer@example.com", "a wrong password").await;
    assert_eq!(refused.status, 401);
    assert_contains!(refused, "value=\"newcomer@example.com\"");
    assert_lacks!(refused, "a wrong password");
    assert_eq!(other.cookie("sortie"), None);
    let answer = sign_in(&other, &sign_in_path, "newcomer@example.com", PASSWORD).await;
    assert_eq!(
        (answer.status, answer.header("location").unwrap()),
        (303, path.as_str())
    );
    assert_ne!(
        other.cookie("sortie").unwrap(),
        session,
        "each sign-in has a secret of its own"
    );
    rig.end().await;
}

async fn a_planted_cookie_is_not_signed_in_afterwards() {
    let rig = Rig::start().await;
    sign_up(&Browser::new(&rig), "/sign-up", "victim").await;
    let planted = format!("stu_{}", "0".repeat(49));
    let browser = Browser::new(&rig);
    browser.set("sortie", &planted);
    let answer = sign_in(&browser, "/sign-in", "victim@example.com", PASSWORD).await;
    assert_eq!((answer.status, answer.header("location").unwrap()), (303, "/"));
    assert_ne!(browser.cookie("sortie").unwrap(), planted);
    let attacker = Browser::signed_in(&rig, &planted);
    assert_eq!(attacker.get("/").await.status, 303);

    let before = Browser::new(&rig);
    before.get("/sign-in").await;
    let form_cookie = before.cookie("sortie_form").unwrap();
    sign_in(&before, "/sign-in", "victim@example.com", PASSWORD).await;
    let with_form_cookie = Browser::signed_in(&rig, &form_cookie);
    assert_eq!(
        with_form_cookie.get("/").await.status,
        303,
        "the cookie of forms never becomes a session"
    );
    rig.end().await;
}

async fn a_form_before_the_sign_in_is_bound_to_its_browser() {
    let rig = Rig::start().await;
    sign_up(&Browser::new(&rig), "/sign-up", "victim").await;
    let browser = Browser::new(&rig);
    let token = form_token(&browser.get("/sign-in").await, "/sign-in");
    let fields = [
        ("form", token.as_str()),
        ("email", "victim@example.com"),
        ("password", PASSWORD),
    ];
    for origin in [None, Some("null"), Some("https://evil.example")] {
        assert_eq!(
            browser.post_from(origin, "/sign-in", &fields).await.status,
            403,
            "{origin:?}"
        );
    }
    assert_eq!(
        Browser::new(&rig).post("/sign-in", &fields).await.status,
        403,
        "another browser"
    );
    let other = Browser::new(&rig);
    other.get("/sign-in").await;
    assert_eq!(
        other.post("/sign-in", &fields).await.status,
        403,
        "another browser with a form of its own"
    );
    assert_eq!(
        browser.post("/sign-up", &fields).await.status,
        403,
        "another purpose"
    );
    assert_eq!(browser.post("/sign-in", &fields).await.status, 303);
    rig.end().await;
}

/// Spellings of addresses on other origins.
const ELSEWHERE: [&str; 46] = [
    "https://evil.example",
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/",
    "/oauth/authorize",
    "%2F%2Fevil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    "evil.example",
    "",
    ".",
    "@evil.example",
    "https:evil.example",
    "/%09/evil.example",
    "\t//evil.example",
    "////evil.example",
    "/\\/evil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    "\r\n//evil.example",
    "\u{0}//evil.example",
    " //evil.example",
    "/.//evil.example",
    "/..//evil.example",
    "/;//evil.example",
    "http:evil.example",
    "https:/evil.example",
    "https:///evil.example",
    "HTTPS://EVIL.example",
    "https://accounts.example.com@evil.example",
    "https://127.0.0.1.evil.example",
    "https://evil.example:443",
    "//127.0.0.1:1/",
    "%5C%5Cevil.example",
    "%68ttps://evil.example",
    "https%3A%2F%2Fevil.example",
    "\u{ff0f}\u{ff0f}evil.example",
    "https://evil\u{3002}example",
    "vbscript:x",
    "JaVaScRiPt:alert(1)",
    "blob:https://evil.example",
    "?https://evil.example",
    "#https://evil.example",
    "AAAA",
];

async fn no_way_back_leads_elsewhere() {
    let rig = Rig::start().await;
    let signed = Browser::signed_in(&rig, &rig.member.token);
    let sealed = rig
        .accounts
        .seal_text(("consent", ""), b"https://evil.example", Duration::from_mins(1))
        .unwrap();
    for back in ELSEWHERE.into_iter().chain([sealed.as_str()]) {
        let path = format!("/sign-in?{}", encoded(&[("return", back)]));
        let answer = signed.get(&path).await;
        assert_eq!(
            (answer.status, answer.header("location").unwrap()),
            (303, "/"),
            "{back}"
        );
    }
    let own = rig
        .accounts
        .seal_text(("return", ""), b"/oauth/authorize?x", Duration::from_mins(10))
        .unwrap();
    let path = format!("/sign-in?return={own}");
    assert_eq!(
        signed.get(&path).await.header("location").unwrap(),
        "/oauth/authorize?x"
    );
    assert_eq!(
        signed
            .get(&format!("{path}&return={own}"))
            .await
            .header("location")
            .unwrap(),
        "/"
    );
    rig.clock.set(rig.clock.now() + Duration::from_mins(10));
    assert_eq!(
        signed.get(&path).await.header("location").unwrap(),
        "/",
        "too late"
    );
    rig.end().await;
}
