//! Queue of Stripe's events. An event names an object that has changed, and only that is kept.
//!
//! A node claims due events under a lease: `due_at` moves to the end of the lease. If the node records no result by then,
//! another node claims the event. `tries` is the fence: a node that lost its claim records nothing.

use std::time::Duration;

use sortie_api::{Timestamp, TopupKind};

use crate::{
    Error, Result, Store,
    db::{ReadRow, Stmt, batch, insert, readable, row, vals},
};

/// Event to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStripeEvent {
    /// ID of the event.
    pub id: String,
    /// Type of the event.
    pub kind: String,
    /// ID of the object that has changed.
    pub object: String,
    /// Time at which Stripe created it.
    pub made_at: Timestamp,
    /// Time at which it was received.
    pub received_at: Timestamp,
    /// Whether it is handled. An unhandled event is kept for people.
    pub is_handled: bool,
}

row! {
    /// Event that a node is to handle now.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClaimedEvent {
        /// ID of the event.
        pub id: String = "id",
        /// Type of the event.
        pub kind: String = "kind",
        /// ID of the object that has changed.
        pub object: String = "object_id",
        /// Time at which it was received.
        pub received_at: Timestamp = "received_at",
        /// Number of this attempt. The record of the attempt must carry it.
        pub tries: i64 = "tries",
    }
}

/// State of an event after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterEvent {
    /// The event was handled.
    Done,
    /// The event has nothing to do with this deployment.
    Ignored,
    /// The event is abandoned.
    Failed,
    /// The event is tried again at this time.
    RetryAt(Timestamp),
}

impl AfterEvent {
    /// Name of the outcome in the store and in metrics. `None` before there is one.
    pub const fn outcome(self) -> Option<&'static str> {
        match self {
            Self::Done => Some("done"),
            Self::Ignored => Some("ignored"),
            Self::Failed => Some("failed"),
            Self::RetryAt(_) => None,
        }
    }
}

impl Store {
    /// System: records events, except known ones. Returns the number of new events.
    pub async fn record_stripe_events(&self, events: Vec<NewStripeEvent>) -> Result<u64> {
        self.db
            .write(move |tx| {
                let statements: Vec<Stmt<'_>> = events.iter().map(insert).collect();
                let answers = tx.batch(&statements)?;
                Ok(answers.iter().map(|answer| answer.affected).sum())
            })
            .await
    }

    /// System: claims at most `limit` events that are due, the longest due first, for the time `lease`. Also returns the time
    /// at which the next event is due; a lease that ends counts as well.
    pub async fn claim_stripe_events(
        &self,
        at: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<(Vec<ClaimedEvent>, Option<Timestamp>)> {
        self.db
            .write(move |tx| {
                let [claimed, next] = batch(
                    tx,
                    &[
                        // The condition on `due_at` appears a second time, to be checked again if another node was faster.
                        Stmt::new(
                            constcat::concat!(
                                "UPDATE stripe_event SET due_at = $2, tries = tries + 1 \
                                 WHERE id {IN}SELECT e.id FROM stripe_event e WHERE e.due_at >= 0 AND e.due_at <= $1 \
                                 ORDER BY e.due_at, e.id LIMIT $3{END} AND due_at <= $1 RETURNING ",
                                ClaimedEvent::COLUMNS
                            ),
                            vals![at, at + lease, limit],
                        ),
                        Stmt::new(
                            "SELECT due_at FROM stripe_event WHERE due_at >= 0 ORDER BY due_at, id LIMIT 1",
                            vals![],
                        ),
                    ],
                )?;
                let next = next.opt_value()?;
                Ok((readable(&claimed.rows, "event of Stripe", ClaimedEvent::read), next))
            })
            .await
    }

    /// System: records an attempt to handle an event. `Fenced` if the node has lost its claim.
    pub async fn record_stripe_attempt(&self, event: String, tries: i64, after: AfterEvent) -> Result<()> {
        let due = match after {
            AfterEvent::RetryAt(at) => Some(at),
            AfterEvent::Done | AfterEvent::Ignored | AfterEvent::Failed => None,
        };
        self.db
            .write(move |tx| {
                tx.batch(&[Stmt::new(
                    "UPDATE stripe_event SET due_at = $3, outcome = $4 \
                     WHERE id = $1 AND tries = $2 AND due_at IS NOT NULL",
                    vals![event.as_str(), tries, due, after.outcome()],
                )
                .exactly(1, Error::Fenced)])
                    .map(drop)
            })
            .await
    }

    /// System: returns the time at which the oldest event was received that is not handled yet, among those that are due first.
    pub async fn oldest_stripe_event(&self) -> Result<Option<Timestamp>> {
        self.db
            .read(|tx| {
                let row = tx.query_one(
                    "SELECT MIN(w.received_at) FROM (SELECT e.received_at FROM stripe_event e WHERE e.due_at >= 0 \
                     ORDER BY e.due_at, e.id LIMIT 1000) AS w",
                    vals![],
                )?;
                row.only()
            })
            .await
    }

    /// System: deletes up to `limit` handled or abandoned events that were received before `before`. Returns their number.
    pub async fn delete_stripe_events(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "DELETE FROM stripe_event WHERE id {IN}SELECT e.id FROM stripe_event e WHERE e.received_at < $1 \
                     AND e.due_at IS NULL ORDER BY e.received_at LIMIT $2{END}",
                    vals![before, limit],
                )
            })
            .await
    }

    /// System: claims the search for events that no webhook has delivered, for the time `lease`, if it is due. While a
    /// purchase on a page waits for its payment, it is due at the time in the last record, and otherwise `rarely` after the
    /// last search. Returns the time up to which all events are known; `None` before the first search.
    pub async fn claim_stripe_search(
        &self,
        at: Timestamp,
        lease: Duration,
        rarely: Duration,
    ) -> Result<Option<Option<Timestamp>>> {
        self.db
            .write(move |tx| {
                tx.query_opt(
                    "UPDATE stripe_search SET due_at = $2 WHERE id = 1 AND due_at <= $1 AND (COALESCE(until_at, 0) <= $3 \
                     OR EXISTS (SELECT 1 FROM topup t WHERE t.org_id > '' AND t.kind = $4 \
                       AND t.state IN ('created', 'open', 'processing'))) \
                     RETURNING until_at",
                    vals![at, at + lease, at - rarely, TopupKind::Checkout],
                )?
                .map(|row| row.only())
                .transpose()
            })
            .await
    }

    /// System: sets the time at which a search that has not ended is due again.
    pub async fn postpone_stripe_search(&self, next: Timestamp) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.exec("UPDATE stripe_search SET due_at = $1 WHERE id = 1", vals![next])
                    .map(drop)
            })
            .await
    }

    /// System: records a search: every event that was made before `until` is known, and `next` is the earliest time of the next
    /// search.
    pub async fn record_stripe_search(&self, until: Timestamp, next: Timestamp) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE stripe_search SET until_at = $1, due_at = $2 WHERE id = 1",
                    vals![until, next],
                )
                .map(drop)
            })
            .await
    }
}

fn insert(event: &NewStripeEvent) -> Stmt<'_> {
    let outcome = (!event.is_handled).then_some("ignored");
    insert!("stripe_event", {
        "id": event.id.as_str(),
        "kind": event.kind.as_str(),
        "object_id": event.object.as_str(),
        "made_at": event.made_at,
        "received_at": event.received_at,
        "due_at": event.is_handled.then_some(event.received_at),
        "tries" = "0",
        "outcome": outcome,
    }, " ON CONFLICT (id) DO NOTHING")
}
