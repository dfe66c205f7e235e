use super::*;
use crate::mail::{Content, GIVEN_UP_AFTER, HELD, context};
use sortie_api::{ErrorCode, Refusal};

const PAGE: &str = "https://accounts.example/verify-email#token";

#[tokio::test]
async fn a_letter_is_sealed_for_its_row_and_ends_with_its_token() {
    let rig = Rig::mailing(SignUpRule::Open, Some(through("smtp://127.0.0.1:1"))).await;
    let (parts, now) = (rig.accounts.parts(), rig.clock.now());
    let letter = verify(PAGE, now + HOUR);
    let mail = parts.letter("ann@example.com", &letter).unwrap().unwrap();
    assert_eq!((mail.kind, mail.dedupe, mail.due_at), ("verify_email", None, now));
    assert_eq!(mail.give_up_at, now + HOUR);
    let id = mail.id.to_string();
    let opened = parts.sealer.open(context(&id), &mail.content).unwrap();
    let content: Content = serde_json::from_slice(&opened).unwrap();
    assert_eq!((content.to.as_str(), content.letter), ("ann@example.com", letter));
    assert!(parts.sealer.open(context("mail_other"), &mail.content).is_err());

    let told = Letter::PasswordWasReset {
        name: "Ann".to_owned(),
    };
    let mail = parts.letter("ann@example.com", &told).unwrap().unwrap();
    assert_eq!(mail.give_up_at, now + GIVEN_UP_AFTER);
    let held = parts
        .held_letter(
            MailId::new(rig.clock.now(), sortie_base::random().unwrap()),
            "ann@example.com",
            &told,
        )
        .unwrap()
        .unwrap();
    assert_eq!(held.due_at, now + HELD);
}

#[tokio::test]
async fn without_a_mail_server_there_is_no_letter_and_no_mailer() {
    let rig = Rig::new().await;
    let parts = rig.accounts.parts();
    let letter = verify(PAGE, rig.clock.now() + HOUR);
    assert_eq!(parts.letter("ann@example.com", &letter).unwrap(), None);
    assert_eq!(
        parts
            .held_letter(
                MailId::new(rig.clock.now(), sortie_base::random().unwrap()),
                "ann@example.com",
                &letter
            )
            .unwrap(),
        None
    );
    rig.accounts
        .clone()
        .run_mailer(None, CancellationToken::new())
        .await;
}

#[tokio::test]
async fn a_letter_links_to_no_foreign_page() {
    let rig = Rig::mailing(SignUpRule::Open, Some(through("smtp://127.0.0.1:1"))).await;
    for url in [
        "https://accounts.example.evil.example/#t",
        "http://accounts.example/#t",
        "https://accounts.example",
    ] {
        let made = rig
            .accounts
            .parts()
            .letter("ann@example.com", &verify(url, rig.clock.now()));
        assert!(
            matches!(&made, Err(refused) if refused.code == ErrorCode::Internal),
            "{url}"
        );
    }
}

#[tokio::test]
async fn an_address_that_no_mail_can_be_sent_to_is_refused_at_once() {
    let rig = Rig::mailing(SignUpRule::Open, Some(through("smtp://127.0.0.1:1"))).await;
    for to in [
        "ann",
        "ann@example.com\r\nBcc: bob@example.com",
        "ünï@example.com",
    ] {
        let made = rig.accounts.parts().letter(to, &verify(PAGE, rig.clock.now()));
        let Err(Refusal {
            code: ErrorCode::InvalidRequest,
            text: rule,
            ..
        }) = made
        else {
            panic!("{to}")
        };
        assert_eq!(rule, "email: must be an address that mail can be sent to");
    }
}
