//! Another mail that verifies an address.

use sortie_store::people::Purpose;

use super::*;

#[tokio::test]
async fn a_person_asks_three_times_a_day_for_another_verification_mail() {
    let rig = Rig::with_mail(SignUpRule::Open).await;
    let ann = rig.sign_up("ann").await.person.id;
    let first = rig.mails().await;
    let ask = async || rig.accounts.send_verification(ann, None).await;
    for _ in 0..3 {
        ask().await.unwrap();
    }
    assert!(matches!(ask().await, Err(refused) if refused.code == ErrorCode::RateLimited));
    rig.mails().await;
    rig.pass(Duration::from_hours(28));
    ask().await.unwrap();
    let last = rig.mails().await;
    assert_eq!(
        (last.len(), last[0].0.as_str(), last[0].1["kind"].as_str()),
        (1, "ann@example.com", Some("verify_email"))
    );
    rule(rig.accounts.verify_email(token_of(&first[0].1)).await);
    rig.accounts.verify_email(token_of(&last[0].1)).await.unwrap();
    assert!(
        matches!(ask().await, Err(refused) if refused.code == ErrorCode::Conflict),
        "the address is verified"
    );

    let silent = Rig::new().await;
    let bob = silent.sign_up("bob").await.person.id;
    let refused = silent.accounts.send_verification(bob, None).await;
    assert!(
        matches!(&refused, Err(refused) if refused.code == ErrorCode::Conflict),
        "{refused:?}"
    );
}

/// Token and sealed way back of the link in a letter.
fn link_of(letter: &serde_json::Value) -> (String, Option<String>) {
    let (token, back) = match token_of(letter).split_once("&return=") {
        Some((token, back)) => (token, Some(back.to_owned())),
        None => (token_of(letter), None),
    };
    (token.to_owned(), back)
}

#[tokio::test]
async fn a_mail_has_the_way_back_that_only_its_own_token_opens() {
    const BACK: &str = "/invitations/accept?token=sti_x";
    let rig = Rig::with_mail(SignUpRule::VerifyFirst).await;
    let back = Some(BACK);
    let signed_up = rig.accounts.sign_up(applicant("ann"), &client(), back).await;
    assert!(matches!(signed_up, Ok(SignedUp::ByMail)));
    rig.accounts.run_waiting_jobs().await;
    let first = rig.only_mail("verify_email").await;
    let ann = rig
        .accounts
        .find_person(" Ann@example.com")
        .await
        .unwrap()
        .unwrap();
    rig.accounts.send_verification(ann.id, back).await.unwrap();
    let second = rig.only_mail("verify_email").await;
    rig.accounts.forgot_password("ann@example.com", back).unwrap();
    rig.accounts.run_waiting_jobs().await;
    let reset = rig.only_mail("reset_password").await;
    let links = [&first, &second, &reset].map(link_of);
    for (at, (token, _)) in links.iter().enumerate() {
        for (of, (_, sealed)) in links.iter().enumerate() {
            let sealed = sealed.as_deref().unwrap();
            assert!(!sealed.contains("sti_x"));
            let opened = rig.accounts.way_back(token, sealed);
            assert_eq!(opened.as_deref(), (at == of).then_some(BACK), "{at} {of}");
        }
    }

    let long = format!("/oauth/authorize?{}", "x".repeat(2_048));
    rig.pass(Duration::from_hours(28));
    for none in [None, Some(long.as_str())] {
        rig.accounts.send_verification(ann.id, none).await.unwrap();
        let letter = rig.only_mail("verify_email").await;
        assert_eq!(link_of(&letter).1, None);
    }
}

#[tokio::test]
async fn a_mail_names_its_person_until_its_token_is_used_or_ends() {
    let rig = Rig::with_mail(SignUpRule::Open).await;
    rig.sign_up("ann").await;
    let letter = rig.only_mail("verify_email").await;
    let (token, _) = link_of(&letter);
    let person = async |token: &str, purpose| {
        let found = rig.accounts.person_of_mail(token, purpose).await.unwrap();
        found.map(|person| person.email)
    };
    assert_eq!(
        person(&token, Purpose::VerifyEmail).await.as_deref(),
        Some("ann@Example.com")
    );
    assert_eq!(
        person(&token, Purpose::ResetPassword).await,
        None,
        "another purpose"
    );
    assert_eq!(person("", Purpose::VerifyEmail).await, None);
    rig.accounts.verify_email(&token).await.unwrap();
    assert_eq!(person(&token, Purpose::VerifyEmail).await, None, "used");

    rig.accounts.forgot_password("ann@example.com", None).unwrap();
    rig.accounts.run_waiting_jobs().await;
    let (token, _) = link_of(&rig.only_mail("reset_password").await);
    assert!(person(&token, Purpose::ResetPassword).await.is_some());
    rig.pass(Duration::from_hours(1));
    assert_eq!(person(&token, Purpose::ResetPassword).await, None, "too late");
}
