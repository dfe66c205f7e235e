//! Limits of sign-ins at a provider, and a browser with two tabs.

use sortie_api::SignUpRule;
use sortie_testkit::identity::Signature;

use super::{START, answered, sign_in, start_with};
use crate::prelude::*;

crate::settings::everywhere! {
    a_network_is_refused_after_a_hundred_refused_answers,
    a_way_back_that_is_too_long_for_a_provider_is_refused,
    a_second_tab_goes_on_as_the_person_who_has_signed_in,
}

async fn a_network_is_refused_after_a_hundred_refused_answers() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    let browser = Browser::new(&rig);
    provider.script(|script| script.signature = Signature::OtherKey);
    let callback = answered(&browser, &provider, START).await;
    for _ in 0..100 {
        assert_eq!(browser.get(&callback).await.status, 403);
    }
    provider.script(|script| script.signature = Signature::Rs256);
    let callback = answered(&browser, &provider, START).await;
    provider.requests();
    let limited = browser.get(&callback).await;
    assert_eq!(limited.status, 429, "{}", limited.text());
    assert!(limited.header("retry-after").unwrap().parse::<u64>().unwrap() <= 4_200);
    assert_eq!(provider.requests(), Vec::<String>::new(), "the code was not sent");
    rig.clock.set(rig.clock.now() + Duration::from_mins(70));
    provider.script(|script| script.now += 4_200);
    // Successful sign-ins do not count.
    for _ in 0..101 {
        assert_eq!(sign_in(&Browser::new(&rig), &provider, START).await.status, 303);
    }
    rig.end().await;
}

async fn a_way_back_that_is_too_long_for_a_provider_is_refused() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    let start = async |length: usize| {
        let back = format!("/{}", "x".repeat(length - 1));
        let lifetime = Duration::from_mins(10);
        let back = rig
            .accounts
            .seal_text(("return", ""), back.as_bytes(), lifetime)
            .unwrap();
        Browser::new(&rig).get(&format!("{START}?return={back}")).await
    };
    let away = start(4_096).await;
    assert_eq!(away.status, 303, "{}", away.text());
    let location = away.header("location").unwrap();
    assert!(location.len() < 8_000, "{}", location.len());
    let refused = start(4_097).await;
    assert_eq!(refused.status, 400);
    assert_contains!(refused, "This address is too long");
    drop(provider);
    rig.end().await;
}

async fn a_second_tab_goes_on_as_the_person_who_has_signed_in() {
    let (rig, provider) = start_with(SignUpRule::Open).await;
    let browser = Browser::new(&rig);
    let form = form_token(&browser.get("/sign-in").await, "/sign-in");
    let second = answered(&browser, &provider, START).await;
    assert_eq!(sign_in(&browser, &provider, START).await.status, 303);
    let session = browser.cookie("sortie");
    let fields = [
        ("form", form.as_str()),
        ("email", "x@corp.example"),
        ("password", "x"),
    ];
    for answer in [
        browser.get(&second).await,
        browser.post("/sign-in", &fields).await,
    ] {
        assert_eq!(
            (answer.status, answer.header("location").unwrap()),
            (303, "/"),
            "{}",
            answer.text()
        );
    }
    assert_eq!(browser.cookie("sortie"), session);
    // A browser without a signed-in person gets the reason.
    let stranger = Browser::new(&rig);
    assert_eq!(stranger.get(&second).await.status, 403);
    assert_eq!(stranger.post("/sign-in", &fields).await.status, 403);
    rig.end().await;
}
