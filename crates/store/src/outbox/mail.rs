//! Mails to send: the outbox.
//!
//! A command that sends a mail inserts its row in the same transaction ([`insert`]). A node claims due mails under a
//! lease: `due_at` moves to the end of the lease. If the node records no result by then, another node claims the mail.
//! `attempts` is the fence: a node that lost its claim records nothing. Due times are on the database's clock, which the
//! nodes share, or on the node's if the database has none; a command therefore takes delays and no times.

use std::time::Duration;

use sortie_api::{MailId, Role, Timestamp, UserId};

use crate::{
    Error, Result, Store,
    db::{ReadRow, Stmt, Tx, Val, batch, insert, readable, row, select, vals},
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

row! {
    /// Mail that a node is to send now.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClaimedMail {
        /// ID of the mail.
        pub id: MailId = "id",
        /// Name of the template, for metrics.
        pub kind: String = "kind",
        /// Sealed recipient and arguments of the template.
        pub content: Vec<u8> = "content",
        /// Number of this attempt. The record of the attempt must carry it.
        pub attempt: i64 = "attempts",
        /// Time after which no attempt is made.
        pub give_up_at: Timestamp = "give_up_at",
    }
}

/// State of a mail after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterSending {
    /// The mail was accepted or abandoned. The row is deleted, or stays without content if it has a `dedupe`.
    Ended,
    /// The mail is tried again after this time.
    RetryIn(Duration),
}

row! {
    /// Owner of an organization.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OwnerRow {
        /// The person.
        pub user: UserId = "p.id",
        /// Email address of the person.
        pub email: String = "p.email",
        /// Name of the person.
        pub name: String = "p.name",
    }
}

impl Store {
    /// System: queues mails, except those with a known `dedupe`. Returns the number of queued mails.
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

    /// System: claims at most `limit` mails that are due, for the time `lease`. Also returns the time until the next mail
    /// is due; a lease that ends counts as well. `at` is the time on a database without a clock.
    pub async fn claim_mails(
        &self,
        at: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<(Vec<ClaimedMail>, Option<Duration>)> {
        self.db.write(move |tx| claim(tx, at, lease, limit)).await
    }

    /// System: records an attempt to send a mail. The number of the attempt is that of the claim, or 0 for the node that
    /// queued the mail. `Fenced` if the node has lost its claim.
    pub async fn record_mail(
        &self,
        id: MailId,
        attempt: i64,
        at: Timestamp,
        after: AfterSending,
    ) -> Result<()> {
        self.db
            .write(move |tx| match after {
                AfterSending::Ended => end(tx, id, attempt),
                AfterSending::RetryIn(delay) => {
                    let retry = Stmt::new(
                        "UPDATE mail SET due_at = COALESCE({NOW}, $3) + CAST($4 AS BIGINT) \
                         WHERE id = $1 AND attempts = $2 AND due_at IS NOT NULL",
                        vals![id, attempt, at, micros(delay)],
                    );
                    tx.batch(&[retry.exactly(1, Error::Fenced)]).map(drop)
                }
            })
            .await
    }

    /// System: lists the owners of organizations that have no mail with a `dedupe` of `prefix` followed by the owner's ID.
    /// Ordered by ID, starting after `after`.
    pub async fn owners_without_mail(
        &self,
        prefix: &str,
        after: Option<UserId>,
        limit: u32,
    ) -> Result<Vec<OwnerRow>> {
        let prefix = prefix.to_owned();
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        self.db
            .read(move |tx| {
                tx.read_all(
                    // Each person is looked up on its own: a join could read a whole table.
                    select!(
                        OwnerRow,
                        " FROM person p WHERE p.id > $1 AND p.disabled_at IS NULL AND p.deleted_at IS NULL \
                         AND (SELECT m.org_id FROM membership m WHERE m.user_id = p.id AND m.role = $4 LIMIT 1) IS NOT NULL \
                         AND (SELECT d.id FROM mail d WHERE d.dedupe = $2 || p.id) IS NULL \
                         ORDER BY p.id LIMIT $3"
                    ),
                    vals![after.as_str(), prefix.as_str(), limit, Role::Owner],
                )
            })
            .await
    }
}

fn claim(
    tx: &mut dyn Tx,
    at: Timestamp,
    lease: Duration,
    limit: u32,
) -> Result<(Vec<ClaimedMail>, Option<Duration>)> {
    let [claimed, next] = batch(
        tx,
        &[
            // The condition on `due_at` appears a second time, to be checked again if another node was faster.
            Stmt::new(
                constcat::concat!(
                    "UPDATE mail SET due_at = COALESCE({NOW}, $1) + CAST($2 AS BIGINT), attempts = attempts + 1 \
                     WHERE id {IN}SELECT m.id FROM mail m WHERE m.due_at >= 0 AND m.due_at <= COALESCE({NOW}, $1) \
                     ORDER BY m.due_at LIMIT $3{END} AND due_at <= COALESCE({NOW}, $1) RETURNING ",
                    ClaimedMail::COLUMNS
                ),
                vals![at, micros(lease), limit],
            ),
            Stmt::new(
                "SELECT due_at - COALESCE({NOW}, $1) FROM mail WHERE due_at >= 0 ORDER BY due_at LIMIT 1",
                vals![at],
            ),
        ],
    )?;
    let claimed = readable(&claimed.rows, "mail", ClaimedMail::read);
    let next: Option<i64> = next.opt_value()?;
    let next = next.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
    Ok((claimed, next))
}

fn end(tx: &mut dyn Tx, id: MailId, attempt: i64) -> Result<()> {
    let [deleted, emptied] = batch(
        tx,
        &[
            Stmt::new(
                "DELETE FROM mail WHERE id = $1 AND attempts = $2 AND dedupe IS NULL",
                vals![id, attempt],
            ),
            Stmt::new(
                "UPDATE mail SET due_at = NULL, content = $3 \
                 WHERE id = $1 AND attempts = $2 AND dedupe IS NOT NULL AND due_at IS NOT NULL",
                vals![id, attempt, Val::from(&[][..])],
            ),
        ],
    )?;
    if deleted.affected + emptied.affected == 1 {
        Ok(())
    } else {
        Err(Error::Fenced)
    }
}

/// Statement that queues a mail, unless its `dedupe` is known.
pub(crate) fn insert(mail: &NewMail) -> Stmt<'_> {
    let delay = mail
        .due_at
        .as_micros()
        .saturating_sub(mail.created_at.as_micros());
    insert!("mail", {
        "id": mail.id,
        "kind": mail.kind,
        "content": mail.content.as_slice(),
        "dedupe": mail.dedupe.as_deref(),
        "created_at": mail.created_at,
        "due_at" = "COALESCE({NOW}, $5) + CAST(@ AS BIGINT)": delay,
        "give_up_at": mail.give_up_at,
        "attempts" = "0",
    }, " ON CONFLICT (dedupe) WHERE dedupe IS NOT NULL DO NOTHING")
}

/// Statement that drops an unsent mail. A node that is already sending it cannot stop.
pub(crate) fn drop_unsent(id: MailId) -> Stmt<'static> {
    Stmt::new("DELETE FROM mail WHERE id = $1", vals![id])
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
