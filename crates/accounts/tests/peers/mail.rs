use std::path::Path;

use sortie_accounts::{MailServer, NotSent};
use sortie_api::EmailDelivery;
use sortie_testkit::peers::{Maildev, Peer, installed};

use crate::rig::Rig;

const ORG_URL: &str = "https://accounts.example";

/// Starts aiosmtpd. Returns it with its port.
fn aiosmtpd(mode: &str) -> (Peer, u64) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/servers/smtp.py");
    let python = installed("venv/bin/python").unwrap();
    let peer = Peer::start(&python, &[script.to_str().unwrap(), mode]).unwrap();
    let port = peer.json().unwrap()["port"].as_u64().unwrap();
    (peer, port)
}

async fn greeted(url: &str) -> Result<(), NotSent> {
    url.parse::<MailServer>().unwrap().greet(ORG_URL).await
}

#[tokio::test]
async fn aiosmtpd_takes_a_mail_with_and_without_tls() {
    for (mode, scheme) in [("plain", "smtp"), ("starttls", "smtp"), ("tls", "smtps")] {
        let (peer, port) = aiosmtpd(mode);
        let rig = Rig::sending_through(&format!("{scheme}://sortie:p%3Ass@127.0.0.1:{port}")).await;
        let (invited, delivery) = rig.invites("bob@example.com").await;
        assert_eq!(delivery, EmailDelivery::Accepted, "{mode}");
        let mail = peer.json().unwrap();
        assert_eq!(mail["tls"], mode != "plain", "{mode}");
        assert_eq!(mail["from"], "sortie@accounts.example");
        assert_eq!(mail["to"][0], "bob@example.com");
        assert_eq!(mail["defects"].as_array().map(Vec::len), Some(0), "{mail}");
        let headers = &mail["headers"];
        assert_eq!(headers["subject"], "Invitation to Äcme & Co");
        assert_eq!(headers["from"], "Sortie Grüße <sortie@accounts.example>");
        assert_eq!(headers["auto-submitted"], "auto-generated");
        let (text, html) = (mail["text"].as_str().unwrap(), mail["html"].as_str().unwrap());
        assert!(
            text.contains("Änn <b> invites you to join Äcme & Co as a member."),
            "{text}"
        );
        assert!(text.lines().any(|line| line == invited.url), "{text}");
        assert!(
            html.contains("Änn &lt;b&gt; invites you to join Äcme &amp; Co"),
            "{html}"
        );
        assert!(html.contains(&format!("href=\"{}\"", invited.url)), "{html}");
    }
}

#[tokio::test]
async fn aiosmtpd_refuses_recipients_and_passwords() {
    let (peer, port) = aiosmtpd("starttls");
    let rig = Rig::sending_through(&format!("smtp://sortie:p%3Ass@127.0.0.1:{port}")).await;
    for to in ["reject@example.com", "later@example.com"] {
        assert_eq!(rig.invites(to).await.1, EmailDelivery::Failed, "{to}");
    }
    assert!(peer.is_quiet());
    assert_eq!(
        greeted(&format!("smtp://sortie:p%3Ass@127.0.0.1:{port}")).await,
        Ok(())
    );
    let wrong = greeted(&format!("smtp://sortie:wrong@127.0.0.1:{port}")).await;
    assert_eq!(wrong, Err(NotSent::Credentials(Some(535))));
}

/// The host name resolves to this machine but is not known as local, so the rules for other machines apply.
#[tokio::test]
async fn the_certificate_of_another_machine_is_checked_and_clear_text_refused() {
    let elsewhere = |scheme: &str, port: u64| format!("{scheme}://sortie:p%3Ass@[::ffff:127.0.0.1]:{port}");
    for (mode, scheme) in [("starttls", "smtp"), ("tls", "smtps")] {
        let (_peer, port) = aiosmtpd(mode);
        let refused = greeted(&elsewhere(scheme, port)).await;
        let Err(NotSent::Connection(reason)) = refused else {
            panic!("{mode}: {refused:?}")
        };
        assert!(reason.contains("certificate"), "{reason}");
    }
    let (_peer, port) = aiosmtpd("plain");
    assert_eq!(greeted(&elsewhere("smtp", port)).await, Err(NotSent::NoTls));
}

#[tokio::test]
async fn maildev_shows_a_mail_as_people_see_it() {
    let server = Maildev::start().unwrap();
    let rig = Rig::sending_through(&server.smtp_url()).await;
    let (invited, delivery) = rig.invites("bob@example.com").await;
    assert_eq!(delivery, EmailDelivery::Accepted);
    let mail = server
        .next_mail("bob@example.com", "Invitation to Äcme & Co")
        .await
        .unwrap();
    assert_eq!(mail["from"][0]["name"], "Sortie Grüße");
    assert!(mail["text"].as_str().unwrap().contains(&invited.url), "{mail}");
    assert!(mail["html"].as_str().unwrap().contains(&invited.url), "{mail}");
    let wrong = greeted(&server.smtp_url_of("wrong")).await;
    assert!(matches!(wrong, Err(NotSent::Credentials(Some(_)))), "{wrong:?}");
}
