//! System: state of the runs of an organization, for the feed of its list.

use sortie_api::{Artifact, OrgId, Run, RunId, RunStatus};

use super::{RunFilter, RunRow, artifacts::ARTIFACTS};
use crate::{
    Error, Result, Store,
    db::{Answer, Json, ReadRow, Stmt, batch, filled, row, select, vals},
};

row! {
    /// State of a run that a feed compares.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RunState {
        /// Run.
        pub run: RunId = "r.id",
        /// Status of the run.
        pub status: RunStatus = "r.status",
        /// Whether the cost of the run is still to be settled.
        pub is_billing_pending: bool = "r.billing_pending",
    }
}

impl RunState {
    /// State of a run that was read whole.
    pub fn of(run: &Run) -> Self {
        Self {
            run: run.id,
            status: run.status,
            is_billing_pending: run.billing_pending,
        }
    }

    /// Whether the run may still change its status or be settled.
    pub fn is_open(&self) -> bool {
        !self.status.is_final() || self.is_billing_pending
    }
}

/// Result of [`Store::run_states`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunStates {
    /// The newest runs of the organization.
    pub newest: Vec<RunState>,
    /// Runs that wait. A run that was claimed since may also be in `claimed`.
    pub waiting: Vec<RunState>,
    /// Runs that a node has claimed and that are not settled.
    pub claimed: Vec<RunState>,
}

row! {
    /// Run `r` without its output.
    struct FeedRow {
        run: RunRow,
        artifacts: Option<Json<Vec<Artifact>>> = ARTIFACTS,
    }
}

/// The newest `$2` runs of an organization.
const NEWEST: &str = select!(
    RunState,
    " FROM run r WHERE r.org_id = $1 AND r.created_at >= 0 ORDER BY r.created_at DESC, r.id DESC LIMIT $2"
);

/// The newest `$2` entries of the queue that are waiting, or those that are claimed.
const QUEUED: &str = select!(
    RunState,
    " FROM run r WHERE r.org_id = $1 AND r.id {IN}SELECT q.run_id FROM queue q WHERE q.org_id = $1 \
     AND q.node_id @node ORDER BY q.enqueued_at DESC, q.run_id DESC LIMIT $2{END}"
);
const WAITING: &str = filled!(QUEUED, "@node" = "IS NULL");
const CLAIMED: &str = filled!(QUEUED, "@node" = "IS NOT NULL");

const BY_IDS: &str = select!(
    FeedRow,
    " FROM run r WHERE r.org_id = $1 AND r.id {IN}SELECT value FROM {JSON_EACH}($2){END}"
);

impl Store {
    /// System: returns the states of the newest `newest` runs of an organization, and of at most `open` runs each that wait and
    /// that are claimed.
    pub async fn run_states(&self, org: OrgId, newest: u32, open: u32) -> Result<RunStates> {
        // In the order of a run's life: a run that moves on between two statements is in both of their answers.
        let [newest, waiting, claimed] = self
            .db
            .read(move |tx| {
                batch(
                    tx,
                    &[
                        Stmt::new(NEWEST, vals![org, newest]),
                        Stmt::new(WAITING, vals![org, open]),
                        Stmt::new(CLAIMED, vals![org, open]),
                    ],
                )
            })
            .await?;
        let states = |answer: Answer| {
            let states = answer.rows.iter().map(RunState::read);
            states.collect::<Result<Vec<_>>>()
        };
        Ok(RunStates {
            newest: states(newest)?,
            waiting: states(waiting)?,
            claimed: states(claimed)?,
        })
    }

    /// System: returns those of `runs` that the organization has, without their outputs, the oldest first.
    pub async fn runs_of_feed(&self, org: OrgId, runs: Vec<RunId>) -> Result<Vec<Run>> {
        let ids = serde_json::to_string(&runs).map_err(|error| Error::Corrupt(error.to_string()))?;
        let rows = self
            .db
            .read(move |tx| tx.query_all(BY_IDS, vals![org, ids.as_str()]))
            .await?;
        let run = |row| {
            let FeedRow { run, artifacts } = FeedRow::read(row)?;
            Ok(run.run(None, artifacts.unwrap_or_default().0))
        };
        let mut runs = rows.iter().map(run).collect::<Result<Vec<Run>>>()?;
        runs.sort_by_key(|run| (run.created_at, run.id));
        Ok(runs)
    }
}

impl RunFilter {
    /// Whether a list with this filter has the run. Leaves the text of the filter, the position and the limit out: a run does not
    /// hold the text that is searched.
    pub fn admits(&self, run: &Run) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, value: Option<&T>) -> bool {
            wanted.is_none_or(|wanted| value == Some(wanted))
        }
        let has_error = self.error.as_ref().is_none_or(|wanted| {
            let error = run.error.as_ref().map(|error| error.to_ascii_lowercase());
            error.is_some_and(|error| error.contains(&wanted.to_ascii_lowercase()))
        });
        (self.statuses.is_empty() || self.statuses.contains(&run.status))
            && (self.ids.is_empty() || self.ids.contains(&run.id))
            && is(self.schedule.as_ref(), run.schedule_id.as_ref())
            && is(self.workflow.as_ref(), run.workflow.as_ref())
            && is(self.model.as_ref(), run.model.as_ref())
            && is(self.key.as_ref(), run.key_id.as_ref())
            && self.tag.as_ref().is_none_or(|tag| run.tags.contains(tag))
            && self
                .metadata
                .iter()
                .all(|(key, value)| run.metadata.get(key) == Some(value))
            && self.since.is_none_or(|since| run.created_at >= since)
            && self.until.is_none_or(|until| run.created_at < until)
            && self.min_cost.is_none_or(|cost| run.cost_micros >= cost)
            && has_error
    }
}
