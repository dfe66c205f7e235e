//! The mailer: the task of a node that claims due mails and sends them.
//!
//! A mail that is queued on this node wakes the mailer. It also wakes when the next known mail is due, and polls for mails
//! of other nodes: the leases of a lost node expire.

use std::{sync::Arc, time::Duration};

use sortie_api::{EmailDelivery, MailId, Timestamp};
use sortie_store::{
    Error as StoreError,
    outbox::{AfterSending, ClaimedMail, NewMail},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    Content, Outbox, context,
    deprecation::ApiDeprecation,
    message::Envelope,
    metrics::Outcome,
    page::Page,
    smtp::{ATTEMPT, NotSent},
};
use crate::{Accounts, Parts};

/// Lease on a claimed mail: twice the time of an attempt.
const LEASE: Duration = Duration::from_secs(2 * ATTEMPT.as_secs());

/// Mails that a node sends concurrently.
const SLOTS: usize = 4;

/// Longest time between two queries of the outbox.
const POLL: Duration = Duration::from_secs(30);

/// Pause after a failed query.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Time that running attempts have to end when the node stops.
const GRACE: Duration = Duration::from_secs(5);

/// Pause after the first failed attempt. It doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_secs(15);

/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

impl Accounts {
    /// Sends queued mails until `stop` is cancelled, and notifies owners of a deprecated version of the API. Returns at once
    /// if mail is not configured.
    pub async fn run_mailer(self, deprecation: Option<ApiDeprecation>, stop: CancellationToken) {
        if self.0.outbox.smtp.is_none() {
            return;
        }
        tokio::join!(
            deliver(&self.0, &stop),
            super::deprecation::notify_owners(&self.0, deprecation, &stop)
        );
    }
}

async fn deliver(parts: &Arc<Parts>, stop: &CancellationToken) {
    let mut attempts = JoinSet::new();
    loop {
        let free = SLOTS.saturating_sub(attempts.len());
        let pause = match claim(parts, free).await {
            Ok((mails, next)) => {
                for mail in mails {
                    let parts = Arc::clone(parts);
                    let lease_ends = Instant::now() + LEASE;
                    attempts.spawn(async move { parts.deliver(mail, lease_ends).await });
                }
                let is_full = attempts.len() >= SLOTS;
                next.filter(|_| !is_full).map_or(POLL, |next| next.min(POLL))
            }
            Err(error) => {
                tracing::error!(%error, "claiming due mails failed");
                AFTER_FAILURE
            }
        };
        tokio::select! {
            () = stop.cancelled() => break,
            () = parts.outbox.queued.notified() => {}
            Some(_) = attempts.join_next() => {}
            () = sleep(pause) => {}
        }
        // Attempts that finished in the meantime free their slots before the next claim.
        while attempts.try_join_next().is_some() {}
    }
    let all_ended = async { while attempts.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all_ended).await.is_err() {
        tracing::info!("stopped before every mail was sent; another node sends the others");
    }
}

async fn claim(parts: &Parts, free: usize) -> Result<(Vec<ClaimedMail>, Option<Duration>), StoreError> {
    let limit = u32::try_from(free).unwrap_or(0);
    if limit == 0 {
        return Ok((Vec::new(), None));
    }
    parts
        .store
        .claim_mails(parts.options.clock.now(), LEASE, limit)
        .await
}

/// Pause after the failed attempt `number`.
fn pause_after(number: i64) -> Duration {
    let doublings = u32::try_from(number.saturating_sub(1)).unwrap_or(0).min(16);
    FIRST_PAUSE
        .saturating_mul(2_u32.saturating_pow(doublings))
        .min(LONGEST_PAUSE)
}

/// Mail that this node may send now.
struct Claimed<'a> {
    id: MailId,
    content: &'a [u8],
    attempt: i64,
    give_up_at: Timestamp,
}

impl Parts {
    /// Sends a claimed mail and records the outcome.
    async fn deliver(&self, mail: ClaimedMail, lease_ends: Instant) {
        let claimed = Claimed {
            id: mail.id,
            content: &mail.content,
            attempt: mail.attempt,
            give_up_at: mail.give_up_at,
        };
        let (after, _) = self.send(&claimed).await;
        while let Err(error) = self.record(&claimed, after).await {
            tracing::warn!(%error, mail = %mail.id, "recording a mail failed");
            let is_lost = matches!(error, StoreError::Fenced);
            if is_lost || Instant::now() + AFTER_FAILURE >= lease_ends {
                return;
            }
            sleep(AFTER_FAILURE).await;
        }
    }

    /// Sends a mail that this node has queued and reserved, and records the outcome.
    pub(super) async fn send_held(&self, mail: &NewMail) -> EmailDelivery {
        let held = Claimed {
            id: mail.id,
            content: &mail.content,
            attempt: 0,
            give_up_at: mail.give_up_at,
        };
        let (after, delivery) = self.send(&held).await;
        if let Err(error) = self.record(&held, after).await {
            tracing::warn!(%error, mail = %mail.id, "recording a mail failed; it is sent again");
        }
        delivery
    }

    async fn record(&self, mail: &Claimed<'_>, after: AfterSending) -> Result<(), StoreError> {
        let now = self.options.clock.now();
        self.store.record_mail(mail.id, mail.attempt, now, after).await
    }

    /// Makes one attempt. Returns the next state of the mail, and the result for a caller that waits.
    async fn send(&self, mail: &Claimed<'_>) -> (AfterSending, EmailDelivery) {
        let content = match self.opened(mail) {
            Ok(content) => content,
            Err(reason) => {
                tracing::error!(%reason, mail = %mail.id, "cannot read a queued mail");
                return (self.after_failure(mail, LONGEST_PAUSE), EmailDelivery::Failed);
            }
        };
        let kind = content.letter.kind();
        let error = match self.transmit(mail, &content).await {
            Ok(()) => {
                tracing::info!(mail = %mail.id, kind, "sent a mail");
                self.outbox.metrics.count(kind, Outcome::Accepted);
                return (AfterSending::Ended, EmailDelivery::Accepted);
            }
            Err(error) => error,
        };
        let (outcome, after) = match &error {
            NotSent::Refused(_) => (Outcome::Refused, AfterSending::Ended),
            NotSent::Answered(..)
            | NotSent::NoTls
            | NotSent::Credentials(_)
            | NotSent::Connection(_)
            | NotSent::Late
            | NotSent::TimedOut => match self.after_failure(mail, pause_after(mail.attempt)) {
                AfterSending::Ended => (Outcome::Abandoned, AfterSending::Ended),
                retry @ AfterSending::RetryIn(_) => (Outcome::Failed, retry),
            },
        };
        self.outbox.metrics.count(kind, outcome);
        let is_last = after == AfterSending::Ended;
        tracing::warn!(%error, mail = %mail.id, kind, attempt = mail.attempt, is_last, "a mail was not sent");
        (after, EmailDelivery::Failed)
    }

    /// Returns the state of a mail after a failure: another attempt, unless the mail expires before it.
    fn after_failure(&self, mail: &Claimed<'_>, pause: Duration) -> AfterSending {
        if self.options.clock.now() + pause > mail.give_up_at {
            AfterSending::Ended
        } else {
            AfterSending::RetryIn(pause)
        }
    }

    fn opened(&self, mail: &Claimed<'_>) -> Result<Content, String> {
        let opened = self
            .sealer
            .open(context(&mail.id.to_string()), mail.content)
            .map_err(|error| error.to_string())?;
        // The cause may quote the content.
        serde_json::from_slice(&opened).map_err(|_| "it was written by another version".to_owned())
    }

    async fn transmit(&self, mail: &Claimed<'_>, content: &Content) -> Result<(), NotSent> {
        if mail.give_up_at < self.options.clock.now() {
            return Err(NotSent::Late);
        }
        let Outbox { smtp, host, .. } = &self.outbox;
        let (Some(smtp), Some(options)) = (smtp, &self.options.mail) else {
            return Err(NotSent::Connection("no mail server is configured".to_owned()));
        };
        let page = Page::new(&content.letter, &self.options.org_url);
        let sender_and_recipient = (&options.from, content.to.as_str());
        let envelope = Envelope::new((mail.id, mail.id.made_at()), sender_and_recipient, &page, host)
            .ok_or(NotSent::Refused(BAD_ADDRESS))?;
        smtp.send(&envelope).await
    }
}

/// Status code for an address that no mail can be sent to, used instead of an answer of a server.
const BAD_ADDRESS: u16 = 553;
