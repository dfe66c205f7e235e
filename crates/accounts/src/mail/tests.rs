use sortie_api::Timestamp;
use sortie_base::{Clock, MasterKey, Sealer};
use sortie_store::Store;

use super::*;
use crate::{Accounts, Options, SignUp};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

async fn accounts(folder: &tempfile::TempDir, mail: Option<MailOptions>) -> Accounts {
    let path = folder.path().join("sortie.db");
    let options = Options {
        clock: Clock::manual(NOW),
        org_url: "https://org.example.com".to_owned(),
        engine_url: "https://engine.example.com".to_owned(),
        sign_up: SignUp::Open,
        mail,
    };
    let store = Store::open(&format!("sqlite:{}", path.display())).await.unwrap();
    Accounts::new(options, store, Sealer::new(vec![MasterKey::new([7; 32])]))
}

fn some_server() -> MailOptions {
    MailOptions {
        smtp_url: "smtp://127.0.0.1:2525".to_owned(),
        from: "sortie@example.com".to_owned(),
    }
}

fn verify(url: &str) -> Letter {
    Letter::VerifyEmail {
        name: "Ann".to_owned(),
        url: url.to_owned(),
        expires_at: NOW + Duration::from_hours(1),
    }
}

#[tokio::test]
async fn a_letter_is_sealed_for_its_row_and_ends_with_its_token() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = accounts(&folder, Some(some_server())).await;
    let letter = verify("https://org.example.com/verify-email#token");
    let mail = accounts.0.letter("ann@example.com", &letter).unwrap().unwrap();
    assert_eq!((mail.kind, mail.dedupe, mail.due_at), ("verify_email", None, NOW));
    assert_eq!(mail.give_up_at, NOW + Duration::from_hours(1));
    let id = mail.id.to_string();
    let opened = accounts.0.sealer.open(context(&id), &mail.content).unwrap();
    let content: Content = serde_json::from_slice(&opened).unwrap();
    assert_eq!((content.to.as_str(), content.letter), ("ann@example.com", letter));
    assert!(
        accounts
            .0
            .sealer
            .open(context("mail_other"), &mail.content)
            .is_err()
    );

    let told = Letter::PasswordWasReset {
        name: "Ann".to_owned(),
    };
    let mail = accounts.0.letter("ann@example.com", &told).unwrap().unwrap();
    assert_eq!(mail.give_up_at, NOW + GIVEN_UP_AFTER);
}

#[tokio::test]
async fn without_a_mail_server_there_is_no_letter() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = accounts(&folder, None).await;
    let letter = verify("https://org.example.com/verify-email#token");
    assert_eq!(accounts.0.letter("ann@example.com", &letter).unwrap(), None);
}

#[tokio::test]
async fn a_letter_links_to_no_foreign_page() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = accounts(&folder, Some(some_server())).await;
    for url in [
        "https://org.example.com.evil.example/#t",
        "http://org.example.com/#t",
        "https://org.example.com",
    ] {
        let made = accounts.0.letter("ann@example.com", &verify(url));
        assert!(matches!(made, Err(Error::Internal(_))), "{url}");
    }
}
