//! Mails to send: the outbox.
//!
//! A command that wants a mail sent inserts its row in its own transaction ([`insert`]). A node claims due mails under a
//! lease: `due_at` moves to the end of the lease, and another node takes over what is not recorded by then. `attempts` is
//! the fence: a node that lost its claim records nothing. Due times are on the database's clock, which the nodes share, or
//! on the node's if the database has none; a command therefore takes delays and no times.

use sortie_api::{MailId, Timestamp};

use crate::{
    Store,
    db::{Stmt, vals},
    types::Result,
};

/// Mail to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMail {
    /// ID of the mail.
    pub id: MailId,
    /// Name of the template, for metrics.
    pub kind: &'static str,
    /// Sealed recipient and arguments of the template.
    pub content: Vec<u8>,
    /// Text that no two mails share, whether they were sent or not.
    pub dedupe: Option<String>,
    /// Time at which the mail is queued.
    pub created_at: Timestamp,
    /// Time of the first attempt.
    pub due_at: Timestamp,
    /// Time after which no attempt is made.
    pub give_up_at: Timestamp,
}

impl Store {
    /// System: queues mails. Those whose `dedupe` is known are left out. Returns the number of the others.
    pub async fn queue_mails(&self, mails: Vec<NewMail>) -> Result<u64> {
        let bytes = mails.iter().map(|mail| mail.content.len()).sum();
        self.db
            .write_of(bytes, move |tx| {
                let statements: Vec<Stmt<'_>> = mails.iter().map(insert).collect();
                let answers = tx.batch(&statements)?;
                Ok(answers.iter().map(|answer| answer.affected).sum())
            })
            .await
    }
}

/// Statement that queues a mail, unless its `dedupe` is known.
pub(crate) fn insert(mail: &NewMail) -> Stmt<'_> {
    let delay = mail
        .due_at
        .as_micros()
        .saturating_sub(mail.created_at.as_micros());
    Stmt::new(
        "INSERT INTO mail (id, kind, content, dedupe, created_at, due_at, give_up_at, attempts) \
         VALUES ($1, $2, $3, $4, $5, COALESCE({NOW}, $5) + CAST($6 AS BIGINT), $7, 0) \
         ON CONFLICT (dedupe) WHERE dedupe IS NOT NULL DO NOTHING",
        vals![
            mail.id,
            mail.kind,
            mail.content.as_slice(),
            mail.dedupe.as_deref(),
            mail.created_at,
            delay,
            mail.give_up_at
        ],
    )
}
