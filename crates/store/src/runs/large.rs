//! Large texts: a list returns short texts in its rows and leaves large ones out. Each large text is read separately,
//! so that no reader holds many of them.

use std::sync::Arc;

use sortie_api::{OrgId, Run, RunId, ScheduleId, Timestamp};

use crate::{
    Error, Result, Store,
    db::{filled, row, vals},
    runs::EventRow,
};

/// Text of `@column` if it has at most 16 KiB, and NULL if it is larger.
pub(crate) const SHORT: &str = "CASE WHEN octet_length(@column) <= 16384 THEN @column END";

/// Text that a list or a definition leaves out if it is large.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LargeText {
    /// Output of a run.
    Output(RunId),
    /// Definition of a run.
    Definition(RunId),
    /// Data of the event of a run at this position.
    Event(RunId, i64),
    /// Input of a schedule as of its last change by a client.
    ScheduleInput(ScheduleId, Timestamp),
    /// Definition of the workflow of this name at a revision, and the time of that.
    Workflow(Arc<str>, i64, Timestamp),
}

row! {
    /// A recorded event of a list.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListedEvent {
        /// Position in the run, from 1.
        pub seq: i64 = "seq",
        /// Type of the event.
        pub kind: String = "kind",
        /// Data of the event, a JSON object. `None` for a large text.
        pub data: Option<String> = filled!(SHORT, "@column" = "data"),
        /// Time that the event was recorded with.
        pub created_at: Timestamp = "created_at",
    }
}

impl ListedEvent {
    /// Copies an event. Data of more than `most` bytes is left out.
    pub fn of(event: &EventRow, most: usize) -> Self {
        Self {
            seq: event.seq,
            kind: event.kind.clone(),
            data: (event.data.len() <= most).then(|| event.data.clone()),
            created_at: event.created_at,
        }
    }
}

/// A run of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRun {
    /// The run.
    pub run: Run,
    /// Whether the run has an output that is left out here.
    pub has_large_output: bool,
}

impl Store {
    /// Returns a large text; `NotFound` if it was deleted or changed.
    pub async fn large_text(&self, org: OrgId, text: LargeText) -> Result<String> {
        self.db
            .read(move |tx| {
                let (sql, params) = match &text {
                    LargeText::Output(run) => (
                        "SELECT (SELECT o.output FROM run_output o WHERE o.run_id = r.id) FROM run r \
                         WHERE r.id = $2 AND r.org_id = $1",
                        vals![org, *run],
                    ),
                    LargeText::Definition(run) => (
                        "SELECT (SELECT d.definition FROM run_definition d WHERE d.run_id = r.id) FROM run r \
                         WHERE r.id = $2 AND r.org_id = $1",
                        vals![org, *run],
                    ),
                    LargeText::Event(run, seq) => (
                        "SELECT (SELECT e.data FROM event e WHERE e.run_id = r.id AND e.seq = $3) FROM run r \
                         WHERE r.id = $2 AND r.org_id = $1",
                        vals![org, *run, *seq],
                    ),
                    LargeText::ScheduleInput(schedule, updated_at) => (
                        "SELECT s.input FROM schedule s WHERE s.id = $2 AND s.org_id = $1 AND s.updated_at = $3",
                        vals![org, *schedule, *updated_at],
                    ),
                    LargeText::Workflow(name, revision, updated_at) => (
                        "SELECT w.definition FROM workflow w WHERE w.org_id = $1 AND w.name = $2 AND w.revision = $3 \
                         AND w.updated_at = $4",
                        vals![org, name.as_ref(), *revision, *updated_at],
                    ),
                };
                let text: Option<String> = tx.query_one(sql, params)?.only()?;
                text.ok_or(Error::NotFound)
            })
            .await
    }
}
