//! Reading runs: the object, definitions and events. Every statement names the organization.

use sortie_api::{OrgId, Run, RunId, RunStatus};

use super::{ListedRunRow, SELECT_LISTED_RUNS, SELECT_RUNS, StoredRun};
use crate::{
    Error, Result, Store,
    db::{Answer, ReadRow, Stmt, Tx, Val, batch, filled, row, select, vals},
    runs::{
        EventRow,
        large::{ListedEvent, ListedRun, SHORT},
    },
};

/// Column of the definition of the run `r`.
const DEFINITION: &str = "(SELECT @column FROM run_definition d WHERE d.run_id = r.id)";

row! {
    /// Stored definition of a run.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct StoredDefinition {
        /// The JSON of the resolved `RunRequest`. `None` for a large text.
        pub request: Option<String> =
            filled!(DEFINITION, "@column" = filled!(SHORT, "@column" = "d.definition")),
        /// Names of the inline connections with credentials outside the definition, as a JSON array. `None` without such
        /// connections.
        pub requires_credentials: Option<String> = filled!(DEFINITION, "@column" = "d.requires_credentials"),
    }
}

row! {
    struct DefinitionRow {
        definition: StoredDefinition,
        length: Option<i64> = filled!(DEFINITION, "@column" = "octet_length(d.definition)"),
    }
}

row! {
    /// Progress of a run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Progress {
        /// Current status of the run.
        pub status: RunStatus = "status",
        /// Number of the run's last event so far.
        pub last_event: i64 = "last_event",
    }
}

/// Selection of the events of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSelection {
    /// Only events after this one.
    pub after: i64,
    /// Only events before this one.
    pub before: i64,
    /// Only events of these types; empty for all.
    pub kinds: Vec<&'static str>,
}

impl EventSelection {
    /// Selects every event after this one.
    pub const fn after(after: i64) -> Self {
        Self {
            after,
            before: i64::MAX,
            kinds: Vec::new(),
        }
    }

    /// Whether an event of this type at this position is selected.
    pub fn includes(&self, seq: i64, kind: &str) -> bool {
        self.after < seq && seq < self.before && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }

    /// Parameters of [`SELECTED`].
    fn params(&self, run: RunId, limit: u32) -> Vec<Val<'static>> {
        let kinds = self
            .kinds
            .iter()
            .fold(",".to_owned(), |all, kind| format!("{all}{kind},"));
        let kinds = (!self.kinds.is_empty()).then_some(kinds);
        vals![run, self.after, limit, self.before, kinds]
    }
}

/// Next part of a run's event stream for one reader.
#[derive(Clone, Debug, PartialEq)]
pub struct Followed {
    /// Progress of the run.
    pub progress: Progress,
    /// Events after those that the reader has, in order. Large data is left out.
    pub events: Vec<ListedEvent>,
    /// The run; a large output is left out. `None` until its status is terminal and `events` ends with its last event.
    pub run: Option<ListedRun>,
}

/// Query for the run with an idempotency key, as [`StoredRun`].
pub(super) const OF_KEY: &str = constcat::concat!(SELECT_RUNS, "r.org_id = $1 AND r.idempotency_key = $2");

impl Store {
    /// Returns a run with its output.
    pub async fn get_run(&self, org: OrgId, id: RunId) -> Result<Run> {
        self.db.read(move |tx| get(tx, org, id)).await
    }

    /// Returns a run. A large output is left out.
    pub async fn get_listed_run(&self, org: OrgId, id: RunId) -> Result<ListedRun> {
        self.db
            .read(move |tx| {
                tx.read_one::<ListedRunRow>(
                    constcat::concat!(SELECT_LISTED_RUNS, "r.id = $2 AND r.org_id = $1"),
                    vals![org, id],
                )
            })
            .await
            .map(Into::into)
    }

    /// Returns the run that was created under an idempotency key, with its output.
    pub async fn find_idempotent(&self, org: OrgId, key: &str) -> Result<Option<Run>> {
        let key = key.to_owned();
        self.db
            .read(move |tx| {
                let found: Option<StoredRun> = tx.read_opt(OF_KEY, vals![org, key.as_str()])?;
                Ok(found.map(Into::into))
            })
            .await
    }

    /// Returns the definition that a run used, without its text if it is large; `Unretained` if it was never stored.
    pub async fn run_definition(&self, org: OrgId, id: RunId) -> Result<StoredDefinition> {
        self.db
            .read(move |tx| {
                let row: DefinitionRow = tx.read_one(
                    select!(DefinitionRow, " FROM run r WHERE r.id = $2 AND r.org_id = $1"),
                    vals![org, id],
                )?;
                row.length.ok_or(Error::Unretained)?;
                Ok(row.definition)
            })
            .await
    }

    /// Returns at most `limit` events after `after`, in order. `NotFound` for a run of another organization, `Unretained`
    /// for a run without stored events.
    pub async fn events_after(&self, org: OrgId, id: RunId, after: i64, limit: u32) -> Result<Vec<EventRow>> {
        self.db
            .read(move |tx| events(tx, (org, id), select_events(id, after, limit)))
            .await
    }

    /// Returns at most `limit` selected events, in order. Large data is left out. Fails as [`Self::events_after`] does.
    pub async fn list_events(
        &self,
        org: OrgId,
        id: RunId,
        selection: EventSelection,
        limit: u32,
    ) -> Result<Vec<ListedEvent>> {
        let sql = select!(ListedEvent, SELECTED, " ORDER BY seq LIMIT $3");
        self.db
            .read(move |tx| events(tx, (org, id), Stmt::new(sql, selection.params(id, limit))))
            .await
    }

    /// Returns the position that the newest `limit` selected events follow. Fails as [`Self::events_after`] does.
    pub async fn newest_events(
        &self,
        org: OrgId,
        id: RunId,
        selection: EventSelection,
        limit: u32,
    ) -> Result<i64> {
        let sql = constcat::concat!(
            "SELECT COALESCE(MIN(newest.seq) - 1, CAST($2 AS BIGINT)) FROM (SELECT seq",
            SELECTED,
            " ORDER BY seq DESC LIMIT $3) AS newest"
        );
        self.db
            .read(move |tx| retained(tx, (org, id), Stmt::new(sql, selection.params(id, limit)))?.value())
            .await
    }
}

pub(super) fn get(tx: &mut dyn Tx, org: OrgId, id: RunId) -> Result<Run> {
    let sql = constcat::concat!(SELECT_RUNS, "r.id = $2 AND r.org_id = $1");
    tx.read_one::<StoredRun>(sql, vals![org, id]).map(Into::into)
}

/// Returns the events that `select` finds for a run of the organization with stored events.
fn events<T: ReadRow>(tx: &mut dyn Tx, run: (OrgId, RunId), select: Stmt<'static>) -> Result<Vec<T>> {
    retained(tx, run, select)?.rows.iter().map(T::read).collect()
}

/// Executes a query for a run of the organization with stored events.
fn retained(tx: &mut dyn Tx, (org, id): (OrgId, RunId), select: Stmt<'static>) -> Result<Answer> {
    let [run, answer] = batch(
        tx,
        &[
            Stmt::new(
                "SELECT zero_data_retention FROM run WHERE id = $2 AND org_id = $1",
                vals![org, id],
            )
            .exactly(1, Error::NotFound),
            select,
        ],
    )?;
    if run.value()? {
        return Err(Error::Unretained);
    }
    Ok(answer)
}

/// Selected events of a run.
const SELECTED: &str = " FROM event WHERE run_id = $1 AND seq > $2 AND seq < $4 \
    AND (CAST($5 AS TEXT) IS NULL OR $5 LIKE '%,' || kind || ',%')";

/// Events of a run after a position.
const AFTER: &str = " FROM event WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3";

/// Statement that reads events after `after`, as [`EventRow`].
pub(super) fn select_events(id: RunId, after: i64, limit: u32) -> Stmt<'static> {
    Stmt::new(select!(EventRow, AFTER), vals![id, after, limit])
}

/// Statement that reads events after `after`, as [`ListedEvent`].
pub(super) fn select_listed_events(id: RunId, after: i64, limit: u32) -> Stmt<'static> {
    Stmt::new(select!(ListedEvent, AFTER), vals![id, after, limit])
}
