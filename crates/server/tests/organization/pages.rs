//! The pages: their headers, the forms of a browser, and the way back through a sign-in.

use sortie_testkit::{
    Bytes, Client,
    http::{HeaderValue, Method},
};

use crate::{
    browser::{Browser, form_token},
    rig::Rig,
};

#[tokio::test]
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
    }
    rig.end().await;
}

#[tokio::test]
async fn the_style_sheet_is_kept_by_browsers() {
    let rig = Rig::start().await;
    let page = Browser::signed_in(&rig, &rig.member.token).get("/").await.text();
    let (_, path) = page.split_once("rel=\"stylesheet\" href=\"").unwrap();
    let path = path.split('"').next().unwrap();
    assert!(path.starts_with("/pages/style-"), "{path}");
    let style = Client::new(rig.address, None)
        .get(path)
        .await
        .unwrap()
        .expect(200)
        .unwrap();
    assert!(style.header("content-type").unwrap().starts_with("text/css"));
    assert!(style.header("cache-control").unwrap().contains("immutable"));
    rig.end().await;
}

#[tokio::test]
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
    assert_eq!(browser.get("/").await.status, 303, "the session has ended");
    rig.end().await;
}

#[tokio::test]
async fn a_form_in_another_encoding_is_refused() {
    let rig = Rig::start().await;
    let client = Client::new(rig.address, None)
        .with_header("origin", HeaderValue::try_from(&*rig.org_url).unwrap())
        .with_header("content-type", HeaderValue::from_static("text/plain"));
    for page in sortie_server::pages().iter().filter(|page| page.method == "post") {
        let body = Bytes::from_static(b"decision=allow");
        let answer = client.send(Method::POST, page.path, body).await.unwrap();
        assert_eq!(answer.status, 403, "{}", page.path);
    }
    rig.end().await;
}
