//! Accounts of a test: a fresh database, and a clock that the test moves.

use std::{net::IpAddr, time::Duration};

use sortie_api::{Timestamp, UserId};
use sortie_base::{Clock, MasterKey, Sealer, random};
use sortie_store::{NewPerson, SessionKind, Store};

use crate::{Accounts, Client, MailOptions, Options, SignUp};

/// Accounts over a `SQLite` database of their own.
pub(crate) struct Rig {
    pub(crate) accounts: Accounts,
    pub(crate) clock: Clock,
    _folder: tempfile::TempDir,
}

impl Rig {
    /// Accounts with open sign-up.
    pub(crate) async fn new() -> Self {
        Self::with(SignUp::Open).await
    }

    /// Accounts with a rule for new ones. The clock stands at the start of an hour.
    pub(crate) async fn with(sign_up: SignUp) -> Self {
        Self::mailing(sign_up, None).await
    }

    /// Accounts that send mail.
    pub(crate) async fn mailing(sign_up: SignUp, mail: Option<MailOptions>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("sortie.db").display());
        let store = Store::open(&url).await.expect("a database");
        let clock = Clock::manual(Timestamp::from_micros(1_699_999_200_000_000));
        let options = Options {
            clock: clock.clone(),
            org_url: "https://accounts.example".to_owned(),
            engine_url: "https://engine.example".to_owned(),
            sign_up,
            mail,
        };
        let sealer = Sealer::new(vec![MasterKey::new([7; 32])]);
        Self {
            accounts: Accounts::new(options, store, sealer),
            clock,
            _folder: folder,
        }
    }

    /// Moves the clock.
    pub(crate) fn pass(&self, time: Duration) {
        self.clock.set(self.clock.now() + time);
    }
}

impl Rig {
    /// Signs a person up who has the address `name@example.com`, and signs the person in. Returns the token.
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
            .sign_up(person, session)
            .await
            .expect("a person");
        (id, token.expose().to_owned())
    }

    /// Signs a person in once more. Returns the token.
    pub(crate) async fn sign_in(&self, user: UserId) -> String {
        let parts = self.accounts.parts();
        let (session, token) = parts.new_session(user, &client()).expect("a session");
        let began = self.accounts.store().sign_in(session, None).await;
        began.expect("a sign-in");
        token.expose().to_owned()
    }
}

/// A program at one address.
pub(crate) fn client() -> Client {
    let address = IpAddr::from([192, 0, 2, 7]);
    Client {
        kind: SessionKind::Api,
        address,
        network: address,
        agent: Some("curl/8".to_owned()),
    }
}
