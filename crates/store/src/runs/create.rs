//! `create_run` records a run with its definition, its queue entry, its first events and its inline credentials. It returns
//! an existing run with the same idempotency key.

use std::sync::Arc;

use serde::Serialize;
use sortie_api::{Micros, Run, RunId, RunStatus, RunUsage, Timestamp, TraceContext};

use super::{OF_ITS_NODE, RunRow, StoredRun, pair_label, read::OF_KEY, status_event};
use crate::{
    Error, Result, Store,
    db::{
        IfReadable, Json, ReadRow, Stmt, Tx, Val, filled, numbered,
        tail::{CreditChange, Tail},
        vals,
    },
    licenses::LicenseRefusal,
    money::{Payment, allowance, holds, refusals::Limit, usage_counts},
    outbox::deliveries::insert_delivery,
    runs::{Definition, Labels, NewEvent, NewRun, Unretained},
};

/// Result of `create_run`.
#[derive(Clone, Debug)]
pub enum Created {
    /// The new run, `queued`.
    New(Run),
    /// The run that already has the idempotency key; nothing was created.
    Existing(Run),
}

impl Store {
    /// Records a run as `queued`, with its definition, its queue entry and its first events. Returns an existing run with
    /// the same idempotency key. The maximum cost is held in every budget that applies; [`Error::OverBudget`] if it does not
    /// fit in one of them. [`Error::Unlicensed`] if the allowance of the license is used up. It is then reserved from the
    /// credits of the organization, if the run is paid with credits; [`Error::InsufficientCredit`] if they do not cover it.
    /// [`Error::Suspended`] if the organization is suspended.
    pub async fn create_run(&self, run: NewRun) -> Result<Created> {
        let events = first_events(run.payment, run.created_at)?;
        let (org, at, bytes) = (run.org, run.created_at, run.definition.bytes());
        let created = if self.refusals.concern(&run) || self.used_up.concerns(&run) {
            let run = Arc::new(run);
            let looked = Arc::clone(&run);
            match self.db.read(move |tx| holds::look(tx, &looked)).await {
                Ok(()) => self.db.write_of(bytes, move |tx| create(tx, &run, &events)).await,
                Err(error) => Err(error),
            }
        } else {
            self.db
                .write_own(bytes, move |tx| create(tx, &run, &events))
                .await
        };
        match &created {
            Err(Error::OverBudget(refused)) => {
                self.refusals
                    .add(org, Limit::Budget(refused.scope.clone()), refused.max_cost, at);
            }
            Err(Error::Unlicensed(LicenseRefusal::Used(allowed))) => self.used_up.add(*allowed, at),
            Err(Error::InsufficientCredit(refused)) => {
                self.refusals.add(org, Limit::Credit, refused.max_cost, at);
                self.money.metrics.refused();
            }
            Ok(_) | Err(_) => {}
        }
        created
    }
}

/// Events of the statuses that a new run passes immediately.
fn first_events(payment: Payment, at: Timestamp) -> Result<Vec<NewEvent>> {
    let statuses = payment.first_statuses().iter();
    statuses.map(|status| status_event(*status, None, at)).collect()
}

/// Records a run without an idempotency key, as a part of a larger transaction.
pub(crate) fn create_new(tx: &mut dyn Tx, run: &NewRun) -> Result<Run> {
    let events = first_events(run.payment, run.created_at)?;
    match create(tx, run, &events)? {
        Created::New(run) | Created::Existing(run) => Ok(run),
    }
}

// Everything is one batch, except for the budgets if a statement costs no round trip. After the statement that inserts the
// row, a run with the new id exists only if this command has created it. The later statements depend on that.
fn create(tx: &mut dyn Tx, run: &NewRun, events: &[NewEvent]) -> Result<Created> {
    let unretained = run.definition.unretained();
    let texts = LabelTexts::of(&run.labels)?;
    let found = if tx.is_local() {
        Some(holds::find(tx, run)?)
    } else {
        None
    };
    let mut statements = vec![
        match &found {
            Some(found) => row_with(run, &texts, holds::text(found)?),
            None => row_with_found(run, &texts)?,
        },
        Stmt::new(
            "{INSERT} INTO queue (run_id, org_id, enqueued_at, node_id) \
             SELECT id, org_id, created_at, CAST($2 AS BIGINT) FROM run WHERE id = $1 \
             AND (SELECT o.suspended_at FROM organization o WHERE o.id = run.org_id) IS NULL \
             RETURNING (SELECT o.usage_until FROM organization o WHERE o.id = queue.org_id)",
            vals![run.id, unretained.map(|_| OF_ITS_NODE)],
        ),
    ];
    statements.extend(match &run.definition {
        Definition::Stored(definition) => stored(run, definition, events),
        Definition::Unretained(unretained) => held_by(run, unretained),
    });
    if let Some(callback) = &run.callback {
        statements.push(insert_delivery(run.id, callback));
    }
    if let Some(entries) = &texts.entries {
        statements.push(Stmt::new(
            "INSERT INTO run_label (org_id, label, created_at, run_id) \
             SELECT r.org_id, t.value, r.created_at, r.id FROM run r, {JSON_EACH}($2) t WHERE r.id = $1",
            vals![run.id, entries.as_str()],
        ));
    }
    if run.idempotency_key.is_some() && !tx.is_local() {
        statements.push(named(run));
    }
    let mut answers = tx.batch(&statements)?.into_iter();
    let added = answers.next().unwrap_or_default();
    let queued = answers.next().unwrap_or_default();
    if added.affected == 1 {
        let held = match (found, added.rows.first()) {
            (Some(held), _) => held,
            (None, Some(row)) => holds::read_added(row, run)?,
            (None, None) => Vec::new(),
        };
        let usage_until: Timestamp = queued.rows.first().ok_or(Error::Suspended)?.only()?;
        if run.created_at < usage_until {
            // Its part of the usage is counted: the clock of another node is ahead, or this command has waited for long.
            tx.batch(&[usage_counts::leave_out(run)])?;
        }
        holds::take(tx, run, held);
        allowance::take(tx, run)?;
        match run.payment {
            Payment::Free => {}
            Payment::Credit => tx.tail(Tail::Credit(run.org, CreditChange::hold(run.max_cost.get()))),
        }
        return Ok(Created::New(new_run(run)));
    }
    let existing = if tx.is_local() {
        tx.batch(&[named(run)])?.pop()
    } else {
        answers.last()
    };
    let row = existing
        .and_then(|existing| existing.rows.into_iter().next())
        .ok_or(Error::NotFound)?;
    Ok(Created::Existing(StoredRun::read(&row)?.into()))
}

/// Statement that reads the run with the idempotency key of this one. A create normally reads it only if it has added no
/// row. If that would be another round trip, it reads it in the same batch.
fn named(run: &NewRun) -> Stmt<'_> {
    Stmt::new(OF_KEY, vals![run.org, run.idempotency_key.as_deref()])
}

/// Statement that adds a run, with the value `@holds` of `holds` and the end `@end`. The values are those of [`row`].
const INSERT_RUN: &str = "INSERT INTO run (id, org_id, status, attempt, last_event, created_at, max_cost_micros, \
    cost_micros, billing_pending, timeout_seconds, idempotency_key, workflow, schedule_id, model, key_id, tags, metadata, \
    callback_host, zero_data_retention, surcharge_percent, traceparent, tracestate, started_by, reserved_micros, \
    title, replay_of, holds) VALUES (@, @, @, 0, CAST(@ AS BIGINT), @, @, 0, 1, @, @, @, @, @, @, @, @, @, @, @, @, @, @, \
    @, @, @, @holds) \
    ON CONFLICT (org_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING@end";

/// Tags and metadata of a run as JSON. `None` without any.
struct LabelTexts {
    /// Array of the tags.
    tags: Option<String>,
    /// Object of the metadata.
    metadata: Option<String>,
    /// Array of the entries of `run_label`.
    entries: Option<String>,
}

impl LabelTexts {
    fn of(labels: &Labels) -> Result<Self> {
        let pairs = labels.metadata.iter();
        let entries = labels
            .tags
            .iter()
            .cloned()
            .chain(pairs.map(|(key, value)| pair_label(key, value)));
        let entries: Vec<String> = entries.collect();
        Ok(Self {
            tags: json_of(&labels.tags, labels.tags.is_empty())?,
            metadata: json_of(&labels.metadata, labels.metadata.is_empty())?,
            entries: json_of(&entries, entries.is_empty())?,
        })
    }
}

fn json_of<T: Serialize>(values: &T, is_empty: bool) -> Result<Option<String>> {
    let text = (!is_empty).then(|| serde_json::to_string(values)).transpose();
    text.map_err(|error| Error::Corrupt(error.to_string()))
}

/// Statement that adds the row of a run which holds this. `holds` is the text of [`holds::text`].
fn row_with<'a>(run: &'a NewRun, texts: &'a LabelTexts, holds: Option<String>) -> Stmt<'a> {
    let sql = numbered!(filled!(INSERT_RUN, "@holds" = "$1", "@end" = ""), from 2);
    let mut params = vals![holds];
    params.extend(row(run, texts));
    Stmt::new(sql, params)
}

/// Statement that inserts the row of a run and reads its budgets. [`holds::read_added`] takes the result.
fn row_with_found<'a>(run: &'a NewRun, texts: &'a LabelTexts) -> Result<Stmt<'a>> {
    let sql = numbered!(
        filled!(
            INSERT_RUN,
            "@holds" = holds::SELECT_HOLDS,
            "@end" = constcat::concat!(" RETURNING ", holds::SELECT_ADDED)
        ),
        from holds::PARAMS + 1
    );
    let mut params = holds::params(run)?;
    params.extend(row(run, texts));
    Ok(Stmt::new(sql, params))
}

fn row<'a>(run: &'a NewRun, texts: &'a LabelTexts) -> Vec<Val<'a>> {
    let (labels, unretained) = (&run.labels, run.definition.unretained());
    let reserved = match run.payment {
        Payment::Free => None,
        Payment::Credit => Some(run.max_cost),
    };
    let events = i64::try_from(run.payment.first_statuses().len()).unwrap_or(i64::MAX);
    vals![
        run.id,
        run.org,
        RunStatus::Queued,
        events,
        run.created_at,
        run.max_cost,
        run.timeout_seconds,
        run.idempotency_key.as_deref(),
        labels.workflow.as_deref(),
        labels.schedule,
        labels.model.as_deref(),
        labels.key(),
        texts.tags.as_deref(),
        texts.metadata.as_deref(),
        run.callback.as_ref().map(|callback| callback.host.as_str()),
        i64::from(unretained.is_some()),
        unretained.map_or(0, |unretained| unretained.surcharge_percent),
        run.trace.as_ref().map(TraceContext::traceparent),
        run.trace.as_ref().and_then(TraceContext::tracestate),
        labels.by.map(|by| by.to_string()),
        reserved,
        labels.title.as_deref(),
        labels.replay_of
    ]
}

/// Statements that store the content of a run.
fn stored<'a>(run: &'a NewRun, definition: &'a str, events: &'a [NewEvent]) -> Vec<Stmt<'a>> {
    let names = run.inline.as_ref().map(|inline| inline.names.as_str());
    let mut statements = vec![Stmt::new(
        "{INSERT} INTO run_definition (run_id, search_text, definition, requires_credentials) \
             SELECT id, $4, $2, $3 FROM run WHERE id = $1",
        vals![run.id, definition, names, run.labels.search_text.as_deref()],
    )];
    statements.extend(recorded(run.id, events));
    if let Some(inline) = &run.inline {
        statements.push(Stmt::new(
            "{INSERT} INTO run_secret (run_id, credentials) SELECT id, CAST($2 AS {BLOB}) FROM run WHERE id = $1",
            vals![run.id, inline.sealed.as_slice()],
        ));
    }
    statements
}

/// Statement that records the first events of a run, one or two.
fn recorded(run: RunId, events: &[NewEvent]) -> Option<Stmt<'_>> {
    match events {
        [event] => Some(Stmt::new(
            "{INSERT} INTO event (run_id, seq, kind, data, created_at) \
             SELECT id, 1, $2, $3, created_at FROM run WHERE id = $1",
            vals![run, event.kind, event.data.as_str()],
        )),
        [first, second] => Some(Stmt::new(
            "{INSERT} INTO event (run_id, seq, kind, data, created_at) \
             SELECT id, 1, $2, $3, created_at FROM run WHERE id = $1 \
             UNION ALL SELECT id, 2, $4, $5, created_at FROM run WHERE id = $1",
            vals![
                run,
                first.kind,
                first.data.as_str(),
                second.kind,
                second.data.as_str()
            ],
        )),
        _ => None,
    }
}

impl Definition {
    /// Number of bytes of the definition that are written.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Stored(definition) => definition.len(),
            Self::Unretained(_) => 0,
        }
    }

    fn unretained(&self) -> Option<&Unretained> {
        match self {
            Self::Stored(_) => None,
            Self::Unretained(unretained) => Some(unretained),
        }
    }
}

/// Statements that name the node which has the content of a run. They fail if the node was declared lost: the
/// run would end with that identity of the node.
fn held_by<'a>(run: &'a NewRun, unretained: &Unretained) -> Vec<Stmt<'a>> {
    let lost = "the node was declared lost before the run was recorded";
    vec![
        Stmt::new(
            "SELECT 1 FROM node WHERE id = $1 AND ended_at IS NULL",
            vals![unretained.node],
        )
        .exactly(1, Error::Unavailable(lost.to_owned())),
        Stmt::new(
            "{INSERT} INTO unretained (run_id, node_id) SELECT id, CAST($2 AS BIGINT) FROM run WHERE id = $1",
            vals![run.id, unretained.node],
        ),
    ]
}

/// Returns a run as it is after its creation.
fn new_run(run: &NewRun) -> Run {
    let unretained = run.definition.unretained();
    let row = RunRow {
        id: run.id,
        status: RunStatus::Queued,
        error: None,
        title: run.labels.title.clone(),
        created_at: run.created_at,
        started_at: None,
        finished_at: None,
        max_cost: run.max_cost,
        cost: Micros::ZERO,
        billing_pending: true,
        schedule: run.labels.schedule,
        workflow: run.labels.workflow.clone(),
        model: run.labels.model.clone(),
        key: run.labels.key(),
        replay_of: run.labels.replay_of,
        timeout_seconds: run.timeout_seconds,
        last_event: i64::try_from(run.payment.first_statuses().len()).unwrap_or(i64::MAX),
        tags: Some(Json(run.labels.tags.clone())),
        metadata: Some(Json(run.labels.metadata.clone())),
        zero_data_retention: unretained.is_some(),
        usage: RunUsage::default(),
        surcharge_percent: IfReadable(unretained.map(|unretained| unretained.surcharge_percent)),
        surcharge: Micros::ZERO,
        output_expires_at: None,
        output_read_at: None,
        trace_id: run.trace.as_ref().map(|trace| trace.trace_id().to_owned()),
    };
    row.run(None, Vec::new())
}
