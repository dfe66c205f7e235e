//! Accounts for a test: a fresh database, and a clock that the test controls.

use std::{net::IpAddr, time::Duration};

use sortie_api::{Timestamp, UserId};
use sortie_base::{CREDENTIAL_LOOKUP, Clock, MasterKey, SealContext, Sealer, random};
use sortie_store::{
    Store,
    people::{NewPerson, SessionKind, SignIn},
};
use sortie_testkit::template::copy_sqlite_template;

use crate::{Accounts, Client, MailOptions, Options};
use sortie_api::SignUpRule;

/// Accounts with a separate `SQLite` database.
pub(crate) struct Rig {
    pub(crate) accounts: Accounts,
    pub(crate) clock: Clock,
    folder: tempfile::TempDir,
}

impl Rig {
    /// Accounts with open sign-up.
    pub(crate) async fn new() -> Self {
        Self::with(SignUpRule::Open).await
    }

    /// Accounts with this sign-up rule, without mail. The clock is set to the start of an hour.
    pub(crate) async fn with(sign_up: SignUpRule) -> Self {
        Self::mailing(sign_up, None).await
    }

    /// Accounts with this sign-up rule. Mails stay in the outbox.
    pub(crate) async fn with_mail(sign_up: SignUpRule) -> Self {
        let mail = MailOptions {
            server: "smtp://127.0.0.1:1".parse().expect("a server"),
            from: "sortie@example.com".parse().expect("a sender"),
        };
        Self::mailing(sign_up, Some(mail)).await
    }

    /// Accounts that send mail.
    pub(crate) async fn mailing(sign_up: SignUpRule, mail: Option<MailOptions>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sortie.db");
        let migrate = async |url: &str| Ok(Store::open(url).await.map(drop)?);
        let copied = copy_sqlite_template(&file, "store", migrate).await;
        copied.expect("a copy of a database");
        let store = Store::open(&format!("sqlite:{}", file.display())).await;
        let store = store.expect("a database");
        let clock = Clock::manual(Timestamp::from_micros(1_699_999_200_000_000));
        let options = Options {
            mode: sortie_api::Mode::Hosted,
            clock: clock.clone(),
            org_url: "https://accounts.example".to_owned(),
            engine_url: "https://engine.example".to_owned(),
            sign_up,
            mail,
            providers: Vec::new(),
            outbound: sortie_net::Outbound::default(),
            license_signer: None,
            credential_lookup: CREDENTIAL_LOOKUP,
        };
        let sealer = Sealer::new(vec![MasterKey::new([7; 32])]);
        Self {
            accounts: Accounts::new(options, store, sealer),
            clock,
            folder,
        }
    }

    /// Advances the clock.
    pub(crate) fn pass(&self, time: Duration) {
        self.clock.set(self.clock.now() + time);
    }
}

impl Rig {
    /// Returns the mails queued since the last call: the address, and the letter.
    pub(crate) async fn mails(&self) -> Vec<(String, serde_json::Value)> {
        let (store, lease) = (self.accounts.store(), Duration::from_hours(1_000));
        let claimed = store.claim_mails(self.clock.now(), lease, 100).await;
        let mails = claimed.expect("mails").0.into_iter().map(|mail| {
            let row = mail.id.to_string();
            let context = SealContext {
                table: "mail",
                column: "content",
                row: &row,
                org: None,
            };
            let opened = self.accounts.parts().sealer.open(context, &mail.content);
            let letter: serde_json::Value =
                serde_json::from_slice(&opened.expect("an open mail")).expect("JSON");
            let to = letter["to"].as_str().expect("an address").to_owned();
            (to, letter["letter"].clone())
        });
        mails.collect()
    }

    /// Direct connection to the database of the accounts.
    pub(crate) fn database(&self) -> rusqlite::Connection {
        let file = self.folder.path().join("sortie.db");
        rusqlite::Connection::open(file).expect("the database")
    }

    /// Disables a person directly in the database.
    pub(crate) fn disable(&self, user: UserId) {
        let disabled = self.database().execute(
            "UPDATE person SET disabled_at = 1 WHERE id = ?1",
            [user.to_string()],
        );
        assert_eq!(disabled, Ok(1));
    }

    /// Returns the number of password hashes started.
    pub(crate) fn hashes(&self) -> u64 {
        let mut registry = prometheus_client::registry::Registry::default();
        self.accounts.register_metrics(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("metrics");
        let count = text
            .lines()
            .find_map(|line| line.strip_prefix("password_hash_wait_seconds_count "));
        count.expect("a count").parse().expect("a number")
    }

    /// Creates a person with the address `name@example.com`, and signs the person in. Returns the token.
    pub(crate) async fn signed_in(&self, name: &str) -> (UserId, String) {
        let now = self.clock.now();
        let person = NewPerson {
            id: UserId::new(now, random().expect("random bytes")),
            email: format!("{name}@example.com"),
            email_key: format!("{name}@example.com"),
            name: name.to_owned(),
            password: "no password has this hash".to_owned(),
            created_at: now,
        };
        let parts = self.accounts.parts();
        let (session, token) = parts.new_session(person.id, &client()).expect("a session");
        let id = person.id;
        self.accounts
            .store()
            .sign_up(person, Some(session), None)
            .await
            .expect("a person");
        (id, token.expose().to_owned())
    }

    /// Signs a person in once more. Returns the token.
    pub(crate) async fn sign_in(&self, user: UserId) -> String {
        let parts = self.accounts.parts();
        let (session, token) = parts.new_session(user, &client()).expect("a session");
        let began = self.accounts.store().sign_in(session, SignIn::default()).await;
        began.expect("a sign-in");
        token.expose().to_owned()
    }
}

/// A client at a fixed address.
pub(crate) fn client() -> Client {
    let address = IpAddr::from([192, 0, 2, 7]);
    Client {
        kind: SessionKind::Api,
        address,
        agent: Some("curl/8".to_owned()),
    }
}
