use sortie_api::{MailId, Role};
use sortie_testkit::list;

use super::*;
use crate::mail::{PaymentLetter, message::Envelope, page::Page};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn page(letter: &Letter) -> Page {
    Page::new(letter, "https://accounts.example")
}

/// Shows both parts of a letter.
fn shown(letter: &Letter) -> String {
    let page = page(letter);
    let html = page.html().into_string().replace("><", ">\n<");
    let (head, body) = html.split_once("<body>").unwrap();
    assert!(head.contains("prefers-color-scheme:dark"));
    format!("Subject: {}\n\n{}\n<body>{body}\n", page.subject, page.text())
}

fn invitation(organization: &str, inviter: &str) -> Letter {
    Letter::Invitation {
        organization: organization.to_owned(),
        inviter: inviter.to_owned(),
        role: Role::Admin,
        url: "https://accounts.example/invitations/accept#sti_token".to_owned(),
        expires_at: NOW + 7 * 24 * HOUR,
    }
}

fn payment(about: PaymentLetter) -> Letter {
    Letter::Payment {
        name: "Ann".to_owned(),
        organization: "Acme".to_owned(),
        about,
    }
}

#[test]
fn every_letter_says_what_happened_and_what_to_do() {
    let name = || "Ann".to_owned();
    let handed = || ("Acme".to_owned(), "Ann".to_owned(), "Bob".to_owned());
    let (organization, from, to) = handed();
    let handed_over = Letter::OwnershipHandedOver {
        organization,
        from,
        to,
    };
    let (organization, from, to) = handed();
    let received = Letter::OwnershipReceived {
        organization,
        from,
        to,
    };
    for letter in list! {
        verify("https://accounts.example/verify-email#token", NOW + HOUR), Letter::SignUpAgain { name: name() },
        Letter::ResetPassword { name: name(), url: "https://accounts.example/reset-password#token".to_owned(), expires_at: NOW + HOUR },
        Letter::PasswordWasReset { name: name() }, invitation("Acme", "Ann"), handed_over, received,
        Letter::ApiDeprecated { name: name(), version: "v1".to_owned(), sunset: NOW + 200 * 24 * HOUR, successor: Some("https://docs.example.com/v2".to_owned()) },
        payment(PaymentLetter::TopupDeclined { amount_cents: 2_500, again_at: NOW + HOUR }),
        payment(PaymentLetter::TopupsDisabled { amount_cents: 2_505 }), payment(PaymentLetter::CardGone),
        payment(PaymentLetter::CardholderNeeded { amount_cents: 1_000_000, checkout: Some("https://checkout.stripe.com/c/pay/cs_1".to_owned()) }),
        payment(PaymentLetter::PaymentDisputed { amount_cents: 2_500 }),
    } {
        insta::assert_snapshot!(letter.kind(), shown(&letter));
    }
}

#[test]
fn names_of_strangers_neither_become_html_nor_links() {
    let letter = invitation(
        "<script>alert(1)</script>\r\nBcc: eve@evil.example",
        &format!("https://evil.example/{}", "x".repeat(200)),
    );
    let page = page(&letter);
    for part in [page.text(), page.html().into_string(), page.subject.clone()] {
        assert!(
            !part.contains("evil.example") && !part.contains("https://evil"),
            "{part}"
        );
        assert!(!part.contains(&"x".repeat(100)), "{part}");
    }
    assert!(!page.html().into_string().contains("<script>"));
    assert!(!page.subject.contains(['\r', '\n']), "{}", page.subject);
}

#[test]
fn a_mail_has_the_headers_of_an_automatic_one_and_the_same_bytes_each_time() {
    let id = MailId::new(NOW, [7; 10]);
    let from = "Sortie <sortie@accounts.example>".parse().unwrap();
    let page = page(&invitation("Grüße\r\nX-Evil: 1", "Ann"));
    let made = || Envelope::new((id, NOW), (&from, "bob@example.com"), &page, "accounts.example").unwrap();
    let envelope = made();
    assert_eq!(envelope.bytes, made().bytes);
    let text = String::from_utf8(envelope.bytes).unwrap();
    assert!(text.is_ascii());
    let (head, _) = text.split_once("\r\n\r\n").unwrap();
    insta::assert_snapshot!("headers", head.replace("\r\n", "\n"));
    assert_eq!(
        (
            envelope.from.to_string().as_str(),
            envelope.to.to_string().as_str()
        ),
        ("sortie@accounts.example", "bob@example.com")
    );
}
