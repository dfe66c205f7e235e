use std::time::Duration;

use sortie_api::{MailId, Timestamp};
use sortie_store::outbox::ClaimedMail;
use sortie_testkit::MailSink;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{ApiDeprecation, Letter, MailOptions};
use crate::{Accounts, rig::Rig};
use sortie_api::SignUpRule;

mod delivery;
mod deprecation;
mod letters;
mod outbox;

const HOUR: Duration = Duration::from_hours(1);

/// Mail of a deployment that sends through `url`.
fn through(url: &str) -> MailOptions {
    MailOptions {
        server: url.parse().unwrap(),
        from: "Sortie <sortie@accounts.example>".parse().unwrap(),
    }
}

/// Accounts with a separate mail server.
async fn with_sink() -> (Rig, MailSink) {
    let sink = MailSink::start().await.unwrap();
    let rig = Rig::mailing(SignUpRule::Open, Some(through(&sink.url()))).await;
    (rig, sink)
}

/// Mailer of a node. It runs until it is stopped.
struct Mailer {
    task: JoinSet<()>,
    stop: CancellationToken,
}

impl Mailer {
    fn of(accounts: &Accounts) -> Self {
        Self::telling(accounts, None)
    }

    fn telling(accounts: &Accounts, deprecation: Option<ApiDeprecation>) -> Self {
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(accounts.clone().run_mailer(deprecation, stop.clone()));
        Self { task, stop }
    }

    /// Stops the mailer after it has recorded its attempts.
    async fn stop(mut self) {
        self.stop.cancel();
        self.task.join_next().await.unwrap().unwrap();
    }
}

impl Rig {
    /// Queues a letter without a token.
    async fn queue(&self, to: &str) {
        let letter = Letter::PasswordWasReset {
            name: "Ann".to_owned(),
        };
        self.queue_letter(to, &letter).await;
    }

    async fn queue_letter(&self, to: &str, letter: &Letter) {
        let parts = self.accounts.parts();
        let mail = parts.letter(to, letter).unwrap().unwrap();
        parts.store.queue_mails(vec![mail]).await.unwrap();
        parts.mail_queued();
    }

    /// Mails in the outbox, in any state.
    async fn left(&self) -> Vec<ClaimedMail> {
        let late = self.clock.now() + 100 * 24 * HOUR;
        let claimed = self.accounts.store().claim_mails(late, Duration::ZERO, 100).await;
        claimed.unwrap().0
    }

    /// Returns the metrics of the accounts in the text form.
    fn metrics(&self) -> String {
        let mut registry = prometheus_client::registry::Registry::default();
        self.accounts.register_metrics(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }
}

fn verify(url: &str, expires_at: Timestamp) -> Letter {
    Letter::VerifyEmail {
        name: "Ann".to_owned(),
        url: url.to_owned(),
        expires_at,
    }
}
