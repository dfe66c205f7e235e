//! Mail: letters to people, stored in the database until a mail server accepts them.
//!
//! A command that sends a letter turns it into a row ([`Parts::letter`]) and writes the row in its own transaction. The
//! mailer of any node sends it. A mail is sent at least once, always with the same `Message-ID`.

mod deprecation;
mod letter;
mod mailer;
mod message;
mod metrics;
mod notices;
mod page;
mod server;
mod smtp;
#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use sortie_api::{EmailDelivery, ErrorCode, MailId, Refusal, Timestamp};
use sortie_base::{SealContext, random};
use sortie_store::{installation::SealedColumn, outbox::NewMail};
use tokio::sync::Notify;
use url::Url;

pub use deprecation::ApiDeprecation;
pub(crate) use letter::{Letter, PaymentLetter};
pub use server::{InvalidSender, InvalidServer, MailServer, Sender};
pub use smtp::NotSent;

use self::{message::address, metrics::MailMetrics, smtp::Smtp};
use crate::{Parts, Result};

/// Time after which a letter without a token is abandoned.
const GIVEN_UP_AFTER: Duration = Duration::from_hours(24);

/// Time for which the mailer skips a mail that its node sends while a caller waits.
const HELD: Duration = Duration::from_secs(30);

/// Time that a caller waits for the mail server.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// Settings of the mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailOptions {
    /// The mail server.
    pub server: MailServer,
    /// Sender of every mail.
    pub from: Sender,
}

/// Content of a mail, before it is sealed.
#[derive(Serialize, Deserialize)]
struct Content {
    /// Address of the recipient.
    to: String,
    letter: Letter,
}

/// Mail component of a node.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Client of the mail server. `None` if mail is not configured.
    smtp: Option<Smtp>,
    /// Name of this node for mail servers, and in the IDs of mails.
    host: String,
    /// Notified when a mail was queued on this node.
    queued: Notify,
    metrics: MailMetrics,
}

impl Outbox {
    /// Creates the outbox of a deployment that serves its pages at `org_url`.
    pub(crate) fn new(options: Option<&MailOptions>, org_url: &str) -> Self {
        let host = host_of(org_url);
        Self {
            smtp: options.map(|options| Smtp::new(options.server.clone(), &host)),
            host,
            queued: Notify::new(),
            metrics: MailMetrics::default(),
        }
    }

    /// Registers the metrics of the mail.
    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }
}

impl Parts {
    /// Creates the mail that brings `letter` to the address `to`. A command of the store queues the mail, and
    /// [`Parts::mail_queued`] notifies the mailer. Returns `None` if mail is not configured.
    pub(crate) fn letter(&self, to: &str, letter: &Letter) -> Result<Option<NewMail>> {
        if self.options.mail.is_none() {
            return Ok(None);
        }
        let now = self.options.clock.now();
        let id = MailId::new(now, random()?);
        self.mail((id, now), to, letter).map(Some)
    }

    /// Creates the mail `id` like [`Parts::letter`]. The mailer skips it for a while, so that [`Parts::send_now`] can send it.
    pub(crate) fn held_letter(&self, id: MailId, to: &str, letter: &Letter) -> Result<Option<NewMail>> {
        if self.options.mail.is_none() {
            return Ok(None);
        }
        let now = self.options.clock.now();
        Ok(Some(NewMail {
            due_at: now + HELD,
            ..self.mail((id, now), to, letter)?
        }))
    }

    /// Sends a mail that was queued with [`Parts::held_letter`] while the caller waits. If the server does not accept it in time,
    /// the mailer sends it later.
    pub(crate) async fn send_now(&self, mail: Option<&NewMail>) -> EmailDelivery {
        match mail {
            Some(mail) => {
                let sent = tokio::time::timeout(ANSWERED_WITHIN, self.send_held(mail)).await;
                self.mail_queued();
                sent.unwrap_or(EmailDelivery::Failed)
            }
            None => EmailDelivery::Unavailable,
        }
    }

    /// Notifies the mailer of this node about a queued mail.
    pub(crate) fn mail_queued(&self) {
        self.outbox.queued.notify_one();
    }

    fn mail(&self, (id, now): (MailId, Timestamp), to: &str, letter: &Letter) -> Result<NewMail> {
        let to = address(to).ok_or_else(|| {
            ErrorCode::InvalidRequest.because("email: must be an address that mail can be sent to")
        })?;
        let is_ours = |url: &str| {
            url.strip_prefix(&self.options.org_url)
                .is_some_and(|path| path.starts_with('/'))
        };
        if letter.url().is_some_and(|url| !is_ours(url)) {
            return Err(Refusal::internal("a letter links to a foreign page"));
        }
        let content = serde_json::to_vec(&Content {
            to: to.to_string(),
            letter: letter.clone(),
        })
        .map_err(Refusal::internal)?;
        Ok(NewMail {
            id,
            kind: letter.kind(),
            content: self.sealer.seal(context(&id.to_string()), &content, random()?)?,
            dedupe: None,
            created_at: now,
            due_at: now,
            give_up_at: letter.expires_at().unwrap_or(now + GIVEN_UP_AFTER),
        })
    }
}

/// Host of an address: the name of a deployment for mail servers.
fn host_of(org_url: &str) -> String {
    Url::parse(org_url)
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned))
        .unwrap_or_else(|| "localhost".to_owned())
}

/// Seal context of the mail with the ID `row`.
const fn context(row: &str) -> SealContext<'_> {
    SealContext {
        table: SealedColumn::Mail.table(),
        column: SealedColumn::Mail.column(),
        row,
        org: None,
    }
}
