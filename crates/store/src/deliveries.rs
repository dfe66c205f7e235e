//! Completion callbacks: when each is due, who sends it, and what came of every attempt.
//!
//! A run that has a callback has one row of `delivery` from its creation. Whoever makes the run final makes the delivery
//! due in the same transaction ([`delivery_is_due`] and its kin), so that neither is ever there without the other. A node
//! claims due deliveries host by host, under a lease: `due_at` moves to its end, so that another node takes over what is
//! not recorded by then. `claim` is the fence: who lost its claim records nothing. All these times are on the database's
//! clock, which the nodes share, and on the node's where the database has none.
//!
//! Where the content of a run is in the memory of one node only, that node alone claims its delivery for as long.

use sortie_api::{DeliveryAttempt, OrgId, RunId, Timestamp, TraceContext, limits};

use crate::{
    Store,
    db::{Row, Stmt, Tx, batch, vals},
    runs::trace_from,
    types::{Error, NewCallback, NodeId, Result},
};

/// A host with a delivery that is due, or soon is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueHost {
    /// Host and port.
    pub host: String,
    /// When the first of its deliveries is due.
    pub due_at: Timestamp,
    /// Whose that one is.
    pub org: OrgId,
}

/// How many deliveries a node takes for one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Host and port.
    pub host: String,
    /// At most so many.
    pub limit: u32,
    /// None of these organizations. Where there are any, others are looked for among about the first [`SCANNED`] only.
    pub without: Vec<OrgId>,
}

/// How many due deliveries of a host are looked through for those of organizations that are not left out: whatever those have
/// waiting, an order costs no more.
pub const SCANNED: u32 = 256;

/// A delivery that a node is to attempt now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// The run.
    pub run: RunId,
    /// Whose run it is.
    pub org: OrgId,
    /// Host and port of the receiver.
    pub host: String,
    /// The URL and the secret, sealed.
    pub target: Vec<u8>,
    /// What to show with the record of the attempt.
    pub claim: i64,
    /// Attempts that were made before.
    pub attempts: i64,
    /// How many of them have failed since the delivery became due.
    pub failures: i64,
    /// When it is to be abandoned.
    pub give_up_at: Timestamp,
    /// The trace of the run.
    pub trace: Option<TraceContext>,
}

/// An attempt that was made.
#[derive(Clone, Debug)]
pub struct MadeAttempt {
    /// The run.
    pub run: RunId,
    /// The claim it was made under.
    pub claim: i64,
    /// Its number, from 1.
    pub number: i64,
    /// When it began.
    pub at: Timestamp,
    /// The HTTP status of the answer.
    pub status: Option<u16>,
    /// Why it failed.
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: i64,
    /// What comes of the delivery.
    pub after: AfterAttempt,
}

/// What comes of a delivery after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAttempt {
    /// It is done.
    Delivered,
    /// It is tried again.
    RetryAt(Timestamp),
    /// It is given up.
    Abandoned,
}

/// Time from the moment a delivery becomes due until it is given up, in microseconds.
const GIVEN_UP_AFTER: i64 = limits::CALLBACK_SECONDS.cast_signed() * 1_000_000;

/// Keeps the callback of a run that was just recorded, if it was.
pub(crate) fn insert_delivery(run: RunId, callback: &NewCallback) -> Stmt<'_> {
    Stmt::new(
        "INSERT INTO delivery (run_id, org_id, host, target, attempts, failures, claim) \
         SELECT id, org_id, $2, CAST($3 AS {BLOB}), 0, 0, 0 FROM run WHERE id = $1",
        vals![run, callback.host.as_str(), callback.target.as_slice()],
    )
}

/// System: the callback of a run that has just become final is due, if it has one.
pub(crate) fn delivery_is_due(run: RunId, at: Timestamp) -> Stmt<'static> {
    Stmt::new(
        "UPDATE delivery SET due_at = COALESCE({NOW}, $2), give_up_at = COALESCE({NOW}, $2) + $3 \
         WHERE run_id = $1 AND give_up_at IS NULL",
        vals![run, at, GIVEN_UP_AFTER],
    )
}

/// The same for a run of `org`.
pub(crate) fn delivery_of_org_is_due(org: OrgId, run: RunId, at: Timestamp) -> Stmt<'static> {
    Stmt::new(
        "UPDATE delivery SET due_at = COALESCE({NOW}, $3), give_up_at = COALESCE({NOW}, $3) + $4 \
         WHERE run_id = $2 AND org_id = $1 AND give_up_at IS NULL",
        vals![org, run, at, GIVEN_UP_AFTER],
    )
}

/// System: the same for the runs `ids`, a JSON array.
pub(crate) fn deliveries_are_due(ids: &str, at: Timestamp) -> Stmt<'_> {
    Stmt::new(
        "UPDATE delivery SET due_at = COALESCE({NOW}, $2), give_up_at = COALESCE({NOW}, $2) + $3 \
         WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END} AND give_up_at IS NULL",
        vals![ids, at, GIVEN_UP_AFTER],
    )
}

impl Store {
    /// System: hosts above `after` (an empty text: all) with a delivery that is due by `until`, in the order of their
    /// names, at most `limit`. It jumps from host to host, whatever one of them has waiting.
    pub async fn due_hosts(&self, after: String, until: Timestamp, limit: u32) -> Result<Vec<DueHost>> {
        self.db
            .read(move |tx| {
                let rows = tx.query_all(
                    "WITH RECURSIVE waiting (host) AS (\
                       SELECT (SELECT d.host FROM delivery d WHERE d.host > $1 AND d.due_at >= 0 \
                         ORDER BY d.host, d.due_at, d.run_id LIMIT 1) \
                       UNION ALL \
                       SELECT (SELECT d.host FROM delivery d WHERE d.host > w.host AND d.due_at >= 0 \
                         ORDER BY d.host, d.due_at, d.run_id LIMIT 1) FROM waiting w WHERE w.host IS NOT NULL) \
                     SELECT found.host, found.due_at, \
                       (SELECT d.org_id FROM delivery d WHERE d.host = found.host AND d.due_at >= 0 \
                        ORDER BY d.host, d.due_at, d.run_id LIMIT 1) FROM (\
                       SELECT w.host AS host, \
                         (SELECT d.due_at FROM delivery d WHERE d.host = w.host AND d.due_at >= 0 \
                          ORDER BY d.host, d.due_at, d.run_id LIMIT 1) AS due_at \
                       FROM waiting w WHERE w.host IS NOT NULL) AS found \
                     WHERE found.due_at <= $2 LIMIT $3",
                    vals![after.as_str(), until, limit],
                )?;
                rows.iter()
                    .map(|row| {
                        Ok(DueHost {
                            host: row.text(0)?.to_owned(),
                            due_at: row.time(1)?,
                            org: row.parse(2)?,
                        })
                    })
                    .collect()
            })
            .await
    }

    /// System: takes deliveries that are due at `at`, of each host at most as many as are ordered, the longest due first,
    /// for the node of this name. They are its own until `leased_until`. Those of runs whose content another node has are
    /// left to that one.
    pub async fn claim_deliveries(
        &self,
        node: (String, NodeId),
        mut orders: Vec<Order>,
        at: Timestamp,
        leased_until: Timestamp,
    ) -> Result<Vec<ClaimedDelivery>> {
        // Two nodes take their locks in the same order.
        orders.sort_by(|a, b| a.host.cmp(&b.host));
        self.db
            .write(move |tx| claim(tx, (&node.0, node.1), &orders, (at, leased_until)))
            .await
    }

    /// System: writes down an attempt and what comes of its delivery. `Fenced` where its claim was lost meanwhile, or
    /// the run is gone.
    pub async fn record_attempt(&self, made: MadeAttempt) -> Result<()> {
        self.db.write(move |tx| record(tx, &made)).await
    }

    /// System: gives back what a node of this name has claimed and not recorded: it is due at once. How many these were.
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

    /// Makes the callback of a final run due again, from its first attempt on; one that is being sent right now is left
    /// alone. The number that the next attempt will have, and the host. `NotFound` without the run, `Conflict` where it
    /// has no callback or is not final.
    pub async fn redeliver(&self, org: OrgId, run: RunId, at: Timestamp) -> Result<(i64, String)> {
        self.db.write(move |tx| redeliver(tx, org, run, at)).await
    }

    /// The attempts to deliver a run's callback that are kept, in order.
    pub async fn list_deliveries(&self, org: OrgId, run: RunId) -> Result<Vec<DeliveryAttempt>> {
        self.db
            .read(move |tx| {
                let [_, attempts] = batch(
                    tx,
                    &[
                        known_run(org, run),
                        Stmt::new(
                            "SELECT attempt, at, status, error, duration_ms, next_at FROM delivery_attempt \
                             WHERE run_id = $1 ORDER BY attempt",
                            vals![run],
                        ),
                    ],
                )?;
                attempts.rows.iter().map(attempt_from).collect()
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
) -> Result<Vec<ClaimedDelivery>> {
    let mut statements = Vec::with_capacity(orders.len());
    for order in orders {
        let without =
            serde_json::to_string(&order.without).map_err(|error| Error::Corrupt(error.to_string()))?;
        let bounded = u32::from(!order.without.is_empty());
        statements.push(
            Stmt::new(
                // Due, said a second time, is judged again where another node was faster.
                "UPDATE delivery SET due_at = $4, node = $5, claim = claim + 1 \
                 WHERE run_id {IN}SELECT d.run_id FROM delivery d WHERE d.host = $1 AND d.due_at >= 0 \
                 AND d.due_at <= COALESCE((SELECT l.due_at FROM delivery l WHERE l.host = $1 AND l.due_at >= 0 AND l.due_at <= $2 \
                   ORDER BY l.host, l.due_at, l.run_id LIMIT $8 OFFSET $9), $2) \
                 AND COALESCE((SELECT u.node_id FROM unretained u WHERE u.run_id = d.run_id), $6) = $6 \
                 AND NOT d.org_id {IN}SELECT value FROM {JSON_EACH}($7){END} \
                 ORDER BY d.host, d.due_at, d.run_id LIMIT $3{END} AND due_at <= $2 \
                 RETURNING run_id, org_id, host, target, claim, attempts, failures, give_up_at, \
                 (SELECT r.traceparent FROM run r WHERE r.id = run_id), \
                 (SELECT r.tracestate FROM run r WHERE r.id = run_id)",
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
    }
    let answers = tx.batch(&statements)?;
    answers
        .iter()
        .flat_map(|answer| &answer.rows)
        .map(|row| {
            Ok(ClaimedDelivery {
                run: row.parse(0)?,
                org: row.parse(1)?,
                host: row.text(2)?.to_owned(),
                target: row.blob(3)?.to_vec(),
                claim: row.int(4)?,
                attempts: row.int(5)?,
                failures: row.int(6)?,
                give_up_at: row.time(7)?,
                trace: trace_from(row, 8)?,
            })
        })
        .collect()
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
        Stmt::new(
            "INSERT INTO delivery_attempt (run_id, attempt, at, status, error, duration_ms, next_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
            vals![
                made.run,
                made.number,
                made.at,
                made.status.map(u32::from),
                made.error.as_deref(),
                made.duration_ms,
                next_at
            ],
        ),
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
            // It takes the row in any case, so that what it answers is what it found.
            Stmt::new(
                "UPDATE delivery SET \
                 due_at = CASE WHEN give_up_at IS NULL OR node IS NOT NULL THEN due_at ELSE COALESCE({NOW}, $3) END, \
                 failures = CASE WHEN give_up_at IS NULL OR node IS NOT NULL THEN failures ELSE 0 END, \
                 give_up_at = CASE WHEN give_up_at IS NULL OR node IS NOT NULL THEN give_up_at \
                   ELSE COALESCE({NOW}, $3) + $4 END \
                 WHERE run_id = $2 AND org_id = $1 RETURNING attempts, give_up_at, host",
                vals![org, run, at, GIVEN_UP_AFTER],
            ),
        ],
    )?;
    let row = found
        .rows
        .first()
        .ok_or(Error::Conflict("the run has no callback"))?;
    if row.opt_time(1)?.is_none() {
        return Err(Error::Conflict(
            "the run is not finished: its callback is sent when it is",
        ));
    }
    Ok((row.int(0)?.saturating_add(1), row.text(2)?.to_owned()))
}

fn attempt_from(row: &Row) -> Result<DeliveryAttempt> {
    let status = row
        .opt_int(2)?
        .map(u16::try_from)
        .transpose()
        .map_err(|_| Error::Corrupt("status is not an HTTP status".to_owned()))?;
    Ok(DeliveryAttempt {
        attempt: row.int(0)?,
        at: row.time(1)?,
        status,
        error: row.opt_text(3)?.map(str::to_owned),
        duration_ms: row.int(4)?,
        next_at: row.opt_time(5)?,
    })
}
