//! Accounts of a test: a fresh database, and a clock that the test moves.

use std::time::Duration;

use sortie_api::Timestamp;
use sortie_base::{Clock, MasterKey, Sealer};
use sortie_store::Store;

use crate::{Accounts, MailOptions, Options, SignUp};

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
