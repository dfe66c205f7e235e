//! Progress of one run, for clients that wait for it and for clients that follow its events.

use sortie_api::{Micros, OrgId, RunId, RunUsage, Timestamp, event::EventType};

use super::{ListedRunRow, read::select_listed_events};
use crate::{
    Error, Result, Store,
    db::{ReadRow, Stmt, Tx, batch, filled, row, select, vals},
    runs::{Followed, Progress, large::ListedEvent},
};

row! {
    /// A recorded event as stored.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct EventRow {
        /// Position in the run, from 1.
        pub seq: i64 = "seq",
        /// Type of the event.
        pub kind: String = "kind",
        /// Data of the event, a JSON object.
        pub data: String = "data",
        /// Time that the event was recorded with.
        pub created_at: Timestamp = "created_at",
    }
}

/// An event to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Type of the event.
    pub kind: &'static str,
    /// Data of the event, a JSON object.
    pub data: String,
    /// Time of the event.
    pub at: Timestamp,
}

impl NewEvent {
    /// Encodes an event for the store.
    pub fn new(event: &EventType, at: Timestamp) -> std::result::Result<Self, serde_json::Error> {
        Ok(Self {
            kind: event.kind(),
            data: sortie_api::json::to_line(event)?,
            at,
        })
    }
}

row! {
    /// Fencing token, which a worker presents with every write. A write takes place only while the run is in this attempt
    /// and its last event is this one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fence {
        /// The run.
        pub run: RunId = "r.id",
        /// Number of the attempt, from 1. Each claim and each takeover begins a new one.
        pub attempt: i64 = "r.attempt",
        /// Number of the last event so far. The next event gets `last_event + 1`.
        pub last_event: i64 = "r.last_event",
    }
}

/// Progress that a worker adds to a run.
#[derive(Clone, Debug, Default)]
pub struct Append {
    /// Events after those of the fence.
    pub events: Vec<NewEvent>,
    /// Entries of the journal.
    pub journal: NewEntries,
    /// Cost of the run so far.
    pub cost: Micros,
    /// Usage of the run so far.
    pub usage: RunUsage,
}

/// Entries of a run's journal to append.
#[derive(Clone, Debug, Default)]
pub struct NewEntries {
    /// Number of the last entry so far. The next entry gets `after + 1`.
    pub after: i64,
    /// The entries, each a JSON text.
    pub data: Vec<String>,
}

row! {
    struct ProgressRow {
        progress: Progress,
        is_unretained: bool = "zero_data_retention",
    }
}

impl ProgressRow {
    fn retained(self) -> Result<Progress> {
        if self.is_unretained {
            return Err(Error::Unretained);
        }
        Ok(self.progress)
    }
}

impl Store {
    /// Returns the status and the last event of a run; `Unretained` if its events are not stored.
    pub async fn progress(&self, org: OrgId, id: RunId) -> Result<Progress> {
        let sql = select!(ProgressRow, " FROM run WHERE id = $2 AND org_id = $1");
        let row: ProgressRow = self.db.read(move |tx| tx.read_one(sql, vals![org, id])).await?;
        row.retained()
    }

    /// Returns the next data for a follower that has the events up to `after`: the progress of the run and at most `limit`
    /// events. Large texts are left out. The run itself is included once it is final and these are its last events.
    /// `NotFound` and `Unretained` as for [`events_after`](Self::events_after).
    pub async fn follow(&self, org: OrgId, id: RunId, after: i64, limit: u32) -> Result<Followed> {
        self.db.read(move |tx| follow(tx, org, id, (after, limit))).await
    }
}

// The run is read first. Each statement sees the commits before its start, so no event up to the run's last is missing.
fn follow(tx: &mut dyn Tx, org: OrgId, id: RunId, (after, limit): (i64, u32)) -> Result<Followed> {
    let reach = after.saturating_add(limit.into());
    let [run, events] = batch(
        tx,
        &[
            Stmt::new(
                constcat::concat!(
                    "SELECT ",
                    ProgressRow::COLUMNS,
                    ", ",
                    filled!(
                        ListedRunRow::COLUMNS,
                        "@if" = "CASE WHEN r.outcome IS NOT NULL AND r.last_event <= $3 THEN ",
                        "@end" = " END"
                    ),
                    " FROM run r WHERE r.id = $2 AND r.org_id = $1"
                ),
                vals![org, id, reach],
            )
            .exactly(1, Error::NotFound),
            select_listed_events(id, after, limit),
        ],
    )?;
    let row = run.rows.first().ok_or(Error::NotFound)?;
    let Progress { status, last_event } = ProgressRow::read(row)?.retained()?;
    // A client that asks for events after a number that does not exist yet gets no events that were added in between.
    let events: Vec<ListedEvent> = if after <= last_event {
        events.rows.iter().map(ListedEvent::read).collect::<Result<_>>()?
    } else {
        Vec::new()
    };
    // If a later event is among those read, the row of the run is older than the events.
    let is_newest = events.last().is_none_or(|event| event.seq <= last_event);
    let is_last = status.is_final() && last_event <= reach && is_newest;
    Ok(Followed {
        progress: Progress {
            status,
            // Includes events that were added after the run was read.
            last_event: events
                .last()
                .map_or(last_event, |event| last_event.max(event.seq)),
        },
        events,
        run: is_last
            .then(|| ListedRunRow::read_from(row, ProgressRow::WIDTH))
            .transpose()?
            .map(Into::into),
    })
}
