//! Completion callbacks: their due times, the nodes that send them, and the outcome of every attempt.
//!
//! A run with a callback has one row of `delivery` from its creation. The command that ends the run makes the
//! delivery due in the same transaction ([`delivery_is_due`] and its variants), so neither ever exists without the
//! other. A node claims due deliveries host by host, under a lease: `due_at` moves to the end of the lease. If the
//! node records no result by then, another node claims the delivery. `claim` is the fence: a node that lost its
//! claim records nothing. Times are on the database's clock, which the nodes share, or on the node's if the
//! database has none.
//!
//! If the content of a run is only in the memory of one node, only that node claims the delivery, as long as it has
//! the content.

use sortie_api::{DeliveryAttempt, OrgId, RunId, Timestamp, TraceContext, limits};

use crate::{
    Error, Result, Store,
    db::{ReadRow, Stmt, Tx, batch, filled, insert, readable, row, select, vals},
    nodes::NodeId,
    runs::{NewCallback, TraceRow},
};

row! {
    /// Host with a delivery that is due, or soon will be.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DueHost {
        /// Host and port.
        pub host: String = "found.host",
        /// Time at which the first of its deliveries is due.
        pub due_at: Timestamp = "found.due_at",
        /// Organization of that delivery.
        pub org: OrgId = "@org",
    }
}

/// Request of a node for deliveries to one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Host and port.
    pub host: String,
    /// Maximum number of deliveries.
    pub limit: u32,
    /// Excludes the deliveries of these organizations. If the list is not empty, only about the first [`SCANNED`]
    /// due deliveries of the host are searched.
    pub without: Vec<OrgId>,
}

/// Number of due deliveries of a host that are searched if organizations are left out. It bounds the cost of an
/// order, regardless of the number of waiting deliveries of these organizations.
pub const SCANNED: u32 = 256;

row! {
    /// Delivery that a node is to attempt now.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClaimedDelivery {
        /// Id of the run.
        pub run: RunId = "run_id",
        /// Organization of the run.
        pub org: OrgId = "org_id",
        /// Host and port of the receiver.
        pub host: String = "host",
        /// Sealed URL and secret.
        pub target: Vec<u8> = "target",
        /// Claim that the record of the attempt must carry.
        pub claim: i64 = "claim",
        /// Number of earlier attempts.
        pub attempts: i64 = "attempts",
        /// Number of failed attempts since the delivery became due.
        pub failures: i64 = "failures",
        /// Time at which the delivery is abandoned.
        pub give_up_at: Timestamp = "give_up_at",
        /// Trace of the run.
        pub trace: Option<TraceContext> as TraceRow,
    }
}

row! {
    struct RedeliveredRow {
        attempts: i64 = "attempts",
        give_up_at: Option<Timestamp> = "give_up_at",
        host: String = "host",
    }
}

row! {
    struct AttemptRow(DeliveryAttempt) {
        attempt = "attempt",
        at = "at",
        status = "status",
        error = "error",
        duration_ms = "duration_ms",
        next_at = "next_at",
    }
}

/// Answer to a node's orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimedDeliveries {
    /// Deliveries that the node owns now.
    pub deliveries: Vec<ClaimedDelivery>,
    /// The next delivery of each host that was ordered from: the first that becomes due after the claim, of an
    /// organization that was not left out. The end of a lease counts as its due time.
    pub next: Vec<DueHost>,
}

/// Attempt that was made.
#[derive(Clone, Debug)]
pub struct MadeAttempt {
    /// Id of the run.
    pub run: RunId,
    /// Claim under which the attempt was made.
    pub claim: i64,
    /// Number of the attempt, from 1.
    pub number: i64,
    /// Time at which the attempt began.
    pub at: Timestamp,
    /// HTTP status of the answer.
    pub status: Option<u16>,
    /// Reason why the attempt failed.
    pub error: Option<String>,
    /// Duration in milliseconds.
    pub duration_ms: i64,
    /// Next state of the delivery.
    pub after: AfterAttempt,
}

/// State of a delivery after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAttempt {
    /// The delivery has succeeded.
    Delivered,
    /// The delivery is tried again at this time.
    RetryAt(Timestamp),
    /// The delivery is abandoned.
    Abandoned,
}

/// Time from the moment a delivery becomes due until it is abandoned, in microseconds.
const GIVEN_UP_AFTER: i64 = limits::CALLBACK_SECONDS.cast_signed() * 1_000_000;

/// Statement that stores the callback of a new run, if the run was recorded.
pub(crate) fn insert_delivery(run: RunId, callback: &NewCallback) -> Stmt<'_> {
    Stmt::new(
        "INSERT INTO delivery (run_id, org_id, host, target, attempts, failures, claim) \
         SELECT id, org_id, $2, CAST($3 AS {BLOB}), 0, 0, 0 FROM run WHERE id = $1",
        vals![run, callback.host.as_str(), callback.target.as_slice()],
    )
}

/// System: statement that makes the callback of a run due, if it has one. The run has just become final.
pub(crate) fn delivery_is_due(run: RunId, at: Timestamp) -> Stmt<'static> {
    Stmt::new(
        "UPDATE delivery SET due_at = COALESCE({NOW}, $2), give_up_at = COALESCE({NOW}, $2) + $3 \
         WHERE run_id = $1 AND give_up_at IS NULL",
        vals![run, at, GIVEN_UP_AFTER],
    )
}

/// Statement that makes the callback of a run of `org` due, if it has one.
pub(crate) fn delivery_of_org_is_due(org: OrgId, run: RunId, at: Timestamp) -> Stmt<'static> {
    Stmt::new(
        "UPDATE delivery SET due_at = COALESCE({NOW}, $3), give_up_at = COALESCE({NOW}, $3) + $4 \
         WHERE run_id = $2 AND org_id = $1 AND give_up_at IS NULL",
        vals![org, run, at, GIVEN_UP_AFTER],
    )
}

/// System: statement that makes the callbacks of the runs `ids`, a JSON array, due.
pub(crate) fn deliveries_are_due(ids: &str, at: Timestamp) -> Stmt<'_> {
    Stmt::new(
        "UPDATE delivery SET due_at = COALESCE({NOW}, $2), give_up_at = COALESCE({NOW}, $2) + $3 \
         WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END} AND give_up_at IS NULL",
        vals![ids, at, GIVEN_UP_AFTER],
    )
}

impl Store {
    /// System: returns at most `limit` hosts above `after` (an empty text: all) with a delivery that is due by
    /// `until`, in the order of their names. The query jumps from host to host, regardless of the number of waiting
    /// deliveries of each.
    pub async fn due_hosts(&self, after: String, until: Timestamp, limit: u32) -> Result<Vec<DueHost>> {
        self.db
            .read(move |tx| {
                let rows = tx.query_all(
                    constcat::concat!(
                    "WITH RECURSIVE waiting (host) AS (\
                       SELECT (SELECT d.host FROM delivery d WHERE d.host > $1 AND d.due_at >= 0 \
                         ORDER BY d.host, d.due_at, d.run_id LIMIT 1) \
                       UNION ALL \
                       SELECT (SELECT d.host FROM delivery d WHERE d.host > w.host AND d.due_at >= 0 \
                         ORDER BY d.host, d.due_at, d.run_id LIMIT 1) FROM waiting w WHERE w.host IS NOT NULL) \
                     ",
                        filled!(
                            select!(DueHost, " FROM ("),
                            "@org" = "(SELECT d.org_id FROM delivery d WHERE d.host = found.host AND d.due_at >= 0 \
                                ORDER BY d.host, d.due_at, d.run_id LIMIT 1)"
                        ),
                        "\
                       SELECT w.host AS host, \
                         (SELECT d.due_at FROM delivery d WHERE d.host = w.host AND d.due_at >= 0 \
                          ORDER BY d.host, d.due_at, d.run_id LIMIT 1) AS due_at \
                       FROM waiting w WHERE w.host IS NOT NULL) AS found \
                     WHERE found.due_at <= $2 LIMIT $3"
                    ),
                    vals![after.as_str(), until, limit],
                )?;
                Ok(readable(&rows, "host of a callback", DueHost::read))
            })
            .await
    }

    /// System: claims deliveries that are due at `at` for the node of this name, for each host at most as many as
    /// its order says, the longest due first. The node owns them until `leased_until`. Deliveries of runs with
    /// content on another node are left to that node. The answer includes the next due delivery of each host.
    pub async fn claim_deliveries(
        &self,
        node: (String, NodeId),
        mut orders: Vec<Order>,
        at: Timestamp,
        leased_until: Timestamp,
    ) -> Result<ClaimedDeliveries> {
        // Sorted, so that two nodes lock in the same order.
        orders.sort_by(|a, b| a.host.cmp(&b.host));
        self.db
            .write(move |tx| claim(tx, (&node.0, node.1), &orders, (at, leased_until)))
            .await
    }

    /// System: records an attempt and the next state of its delivery. `Fenced` if the node has lost its claim, or
    /// the run was deleted.
    pub async fn record_attempt(&self, made: MadeAttempt) -> Result<()> {
        self.db.write(move |tx| record(tx, &made)).await
    }

    /// System: releases the deliveries that a node of this name has claimed and not recorded. They become due
    /// immediately. Returns their number.
    pub async fn release_deliveries(&self, node: String, at: Timestamp) -> Result<u64> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE delivery SET due_at = $2, node = NULL WHERE node = $1",
                    vals![node.as_str(), at],
                )
            })
            .await
    }

    /// Makes the callback of a final run due again, with a new count of failures and a new time limit. A callback
    /// that is being sent now is left unchanged. Returns the number of the next attempt, and the host. `NotFound`
    /// if the run does not exist; `Conflict` if it has no callback or is not final.
    pub async fn redeliver(&self, org: OrgId, run: RunId, at: Timestamp) -> Result<(i64, String)> {
        self.db.write(move |tx| redeliver(tx, org, run, at)).await
    }

    /// Returns the recorded attempts to deliver a run's callback, in order.
    pub async fn list_deliveries(&self, org: OrgId, run: RunId) -> Result<Vec<DeliveryAttempt>> {
        self.db
            .read(move |tx| {
                let [_, attempts] = batch(
                    tx,
                    &[
                        known_run(org, run),
                        Stmt::new(
                            select!(
                                AttemptRow,
                                " FROM delivery_attempt WHERE run_id = $1 ORDER BY attempt"
                            ),
                            vals![run],
                        ),
                    ],
                )?;
                attempts
                    .rows
                    .iter()
                    .map(|row| Ok(AttemptRow::read(row)?.0))
                    .collect()
            })
            .await
    }
}

fn known_run(org: OrgId, run: RunId) -> Stmt<'static> {
    Stmt::new("SELECT 1 FROM run WHERE id = $2 AND org_id = $1", vals![org, run]).exactly(1, Error::NotFound)
}

fn claim(
    tx: &mut dyn Tx,
    (node, id): (&str, NodeId),
    orders: &[Order],
    (at, leased_until): (Timestamp, Timestamp),
) -> Result<ClaimedDeliveries> {
    let mut statements = Vec::with_capacity(orders.len().saturating_mul(2));
    for order in orders {
        let without =
            serde_json::to_string(&order.without).map_err(|error| Error::Corrupt(error.to_string()))?;
        let bounded = u32::from(!order.without.is_empty());
        let next = next_due(order, without.clone(), at);
        statements.push(
            Stmt::new(
                // The condition on `due_at` appears a second time, to be checked again if another node was
                // faster.
                constcat::concat!(
                "UPDATE delivery SET due_at = $4, node = $5, claim = claim + 1 \
                 WHERE run_id {IN}SELECT d.run_id FROM delivery d WHERE d.host = $1 AND d.due_at >= 0 \
                 AND d.due_at <= COALESCE((SELECT l.due_at FROM delivery l WHERE l.host = $1 AND l.due_at >= 0 AND l.due_at <= $2 \
                   ORDER BY l.host, l.due_at, l.run_id LIMIT $8 OFFSET $9), $2) \
                 AND COALESCE((SELECT u.node_id FROM unretained u WHERE u.run_id = d.run_id), $6) = $6 \
                 AND NOT d.org_id {IN}SELECT value FROM {JSON_EACH}($7){END} \
                 ORDER BY d.host, d.due_at, d.run_id LIMIT $3{END} AND due_at <= $2 \
                 RETURNING ",
                filled!(
                    ClaimedDelivery::COLUMNS,
                    "@before" = "(SELECT",
                    "@after" = "FROM run r WHERE r.id = run_id)"
                )
                ),
                vals![
                    order.host.as_str(),
                    at,
                    order.limit,
                    leased_until,
                    node,
                    id,
                    without,
                    bounded,
                    SCANNED - 1
                ],
            ),
        );
        statements.push(next);
    }
    let answers = tx.batch(&statements)?;
    let mut answer = ClaimedDeliveries::default();
    for pair in answers.chunks(2) {
        if let [claimed, next] = pair {
            answer
                .deliveries
                .extend(readable(&claimed.rows, "callback", ClaimedDelivery::read));
            answer
                .next
                .extend(readable(&next.rows, "host of a callback", DueHost::read));
        }
    }
    Ok(answer)
}

/// Statement that finds the first delivery of the order's host that becomes due after `at`, of an organization that
/// is not in `without`, a JSON array. If that is not empty, only the first [`SCANNED`] deliveries are searched.
fn next_due(order: &Order, without: String, at: Timestamp) -> Stmt<'_> {
    let searched = if order.without.is_empty() { 1 } else { SCANNED };
    Stmt::new(
        constcat::concat!(
            filled!(select!(DueHost, " FROM ("), "@org" = "found.org_id"),
            "\
           SELECT d.host, d.due_at, d.run_id, d.org_id FROM delivery d WHERE d.host = $1 AND d.due_at > $2 \
           AND d.due_at >= 0 ORDER BY d.host, d.due_at, d.run_id LIMIT $3) AS found \
         WHERE NOT found.org_id {IN}SELECT value FROM {JSON_EACH}($4){END} \
         ORDER BY found.due_at, found.run_id LIMIT 1"
        ),
        vals![order.host.as_str(), at, searched, without],
    )
}

fn record(tx: &mut dyn Tx, made: &MadeAttempt) -> Result<()> {
    let next_at = match made.after {
        AfterAttempt::RetryAt(at) => Some(at),
        AfterAttempt::Delivered | AfterAttempt::Abandoned => None,
    };
    let failures = match made.after {
        AfterAttempt::RetryAt(_) | AfterAttempt::Abandoned => 1_i64,
        AfterAttempt::Delivered => 0,
    };
    let mut statements = vec![
        Stmt::new(
            "UPDATE delivery SET due_at = $3, attempts = $4, failures = failures + $5, node = NULL \
             WHERE run_id = $1 AND claim = $2",
            vals![made.run, made.claim, next_at, made.number, failures],
        )
        .exactly(1, Error::Fenced),
        insert!("delivery_attempt", {
            "run_id": made.run,
            "attempt": made.number,
            "at": made.at,
            "status": made.status.map(u32::from),
            "error": made.error.as_deref(),
            "duration_ms": made.duration_ms,
            "next_at": next_at,
        }),
    ];
    let oldest = made.number.saturating_sub(limits::CALLBACK_ATTEMPTS);
    if oldest > 0 {
        statements.push(Stmt::new(
            "DELETE FROM delivery_attempt WHERE run_id = $1 AND attempt <= $2",
            vals![made.run, oldest],
        ));
    }
    tx.batch(&statements).map(drop)
}

fn redeliver(tx: &mut dyn Tx, org: OrgId, run: RunId, at: Timestamp) -> Result<(i64, String)> {
    let [_, found] = batch(
        tx,
        &[
            known_run(org, run),
            // The row is locked in any case, so the values returned are those that the update found.
            Stmt::new(
                constcat::concat!(
                    "UPDATE delivery SET \
                 due_at = CASE WHEN give_up_at IS NULL OR node IS NOT NULL THEN due_at ELSE COALESCE({NOW}, $3) END, \
                 failures = CASE WHEN give_up_at IS NULL OR node IS NOT NULL THEN failures ELSE 0 END, \
                 give_up_at = CASE WHEN give_up_at IS NULL OR node IS NOT NULL THEN give_up_at \
                   ELSE COALESCE({NOW}, $3) + $4 END \
                 WHERE run_id = $2 AND org_id = $1 RETURNING ",
                    RedeliveredRow::COLUMNS
                ),
                vals![org, run, at, GIVEN_UP_AFTER],
            ),
        ],
    )?;
    let row = found
        .rows
        .first()
        .ok_or(Error::Conflict("the run has no callback"))?;
    let redelivered = RedeliveredRow::read(row)?;
    if redelivered.give_up_at.is_none() {
        return Err(Error::Conflict(
            "the run is not finished: its callback is sent when it is",
        ));
    }
    Ok((redelivered.attempts.saturating_add(1), redelivered.host))
}
