//! Access to the record of a run, which is in the store or, without retention, in the memory of this node.
//!
//! [`Records`] reads. The worker of one run writes to its [`RunLog`]. For a run without retention, the store gets
//! counts and amounts by commands that take no text, and the texts stay in memory.

use std::sync::Arc;

use sortie_api::{OrgId, Refusal, Run, RunId, RunStatus};
use sortie_store::{
    Error as StoreError, Store,
    runs::{
        Append, Counted, EventRow, EventSelection, Fence, FinalCost, Finish, Followed, LargeText,
        ListedEvent, NewEvent, PlainError, Progress, Retention, Settled, UnretainedFinish,
    },
};

use crate::{
    connections::InlineSecrets,
    runs::unretained::{Lookup, Unretained},
};

/// Reads the records of runs.
#[derive(Clone)]
pub(crate) struct Records {
    pub(crate) store: Store,
    pub(crate) unretained: Unretained,
}

impl Records {
    /// Returns events after `after`, in order, at most `limit`. Large data is left out. `Gone` if this
    /// node does not have the content of a run without retention.
    pub(crate) async fn list_events(
        &self,
        org: OrgId,
        run: RunId,
        selection: &EventSelection,
        limit: u32,
    ) -> Result<Vec<ListedEvent>, Refusal> {
        match self.unretained.list_events((org, run), selection, limit) {
            Lookup::Here(events) => Ok(events),
            Lookup::Forgotten => Err(sortie_store::Error::Unretained.into()),
            Lookup::Elsewhere => Ok(self.store.list_events(org, run, selection.clone(), limit).await?),
        }
    }

    /// Returns the position that the newest `limit` selected events follow. Fails as [`Self::list_events`] does.
    pub(crate) async fn newest_events(
        &self,
        org: OrgId,
        run: RunId,
        selection: &EventSelection,
        limit: u32,
    ) -> Result<i64, Refusal> {
        match self.unretained.newest_events((org, run), selection, limit) {
            Lookup::Here(position) => Ok(position),
            Lookup::Forgotten => Err(sortie_store::Error::Unretained.into()),
            Lookup::Elsewhere => Ok(self
                .store
                .newest_events(org, run, selection.clone(), limit)
                .await?),
        }
    }

    /// Returns the next events and the progress for a reader that has the events up to `after`. Fails as
    /// [`Self::list_events`] does.
    pub(crate) async fn follow(
        &self,
        org: OrgId,
        run: RunId,
        after: i64,
        limit: u32,
    ) -> Result<Followed, Refusal> {
        match self.unretained.follow((org, run), after, limit) {
            Lookup::Here(followed) => Ok(followed),
            Lookup::Forgotten => Err(sortie_store::Error::Unretained.into()),
            Lookup::Elsewhere => Ok(self.store.follow(org, run, after, limit).await?),
        }
    }

    /// Returns a large text. Fails as [`Self::list_events`] does.
    pub(crate) async fn large_text(&self, org: OrgId, text: LargeText) -> Result<String, Refusal> {
        if let LargeText::Event(run, seq) = text {
            match self.unretained.event_data((org, run), seq) {
                Lookup::Here(data) => return data.ok_or(Refusal::not_found()),
                Lookup::Forgotten => return Err(sortie_store::Error::Unretained.into()),
                Lookup::Elsewhere => {}
            }
        }
        Ok(self.store.large_text(org, text).await?)
    }

    /// Returns the status and the last event of a run. Fails as [`Self::list_events`] does.
    pub(crate) async fn progress(&self, org: OrgId, run: RunId) -> Result<Progress, Refusal> {
        match self.unretained.progress(org, run) {
            Lookup::Here(progress) => Ok(progress),
            Lookup::Forgotten => Err(sortie_store::Error::Unretained.into()),
            Lookup::Elsewhere => Ok(self.store.progress(org, run).await?),
        }
    }

    /// Returns the run with its output, for the receiver of its callback.
    pub(crate) async fn to_deliver(&self, org: OrgId, run: RunId) -> Result<Run, StoreError> {
        let run = self.unretained.with_error(self.store.get_run(org, run).await?);
        Ok(self.unretained.with_output_to_deliver(run))
    }

    /// Returns the run for a `done` message. An output that can be read only once is left out.
    pub(crate) async fn run(&self, org: OrgId, run: RunId) -> Result<Run, Refusal> {
        Ok(self.unretained.with_error(self.store.get_run(org, run).await?))
    }
}

/// Log that the worker of one run writes to.
#[derive(Clone)]
pub(crate) struct RunLog {
    records: Records,
    run: RunId,
    retention: Retention,
}

impl RunLog {
    /// Creates the log of a run with this retention.
    pub(crate) fn new(records: Records, run: RunId, retention: Retention) -> Self {
        Self {
            records,
            run,
            retention,
        }
    }

    /// Returns the store, which has the status of every run.
    pub(crate) fn store(&self) -> &Store {
        &self.records.store
    }

    /// Returns the definition of the run, and the location of its inline credentials. `stored` is the definition in the
    /// claim.
    pub(crate) fn request(&self, stored: Option<&str>) -> Option<(Arc<str>, InlineSecrets)> {
        match stored {
            Some(stored) => Some((stored.into(), InlineSecrets::Stored)),
            None => self
                .records
                .unretained
                .request(self.run)
                .map(|request| (request.definition, InlineSecrets::Given(request.inline))),
        }
    }

    /// Moves the run from `starting` to `running`.
    pub(crate) async fn start(&self, fence: Fence, events: Vec<NewEvent>) -> Result<(), StoreError> {
        match self.retention {
            Retention::Full => self.store().start_run(fence, events).await,
            Retention::None => self.store().start_unretained(fence, count(&events)).await,
        }
    }

    /// Appends events and entries of the journal.
    pub(crate) async fn append(&self, fence: Fence, new: Arc<Append>) -> Result<(), StoreError> {
        match self.retention {
            Retention::Full => self.store().append(fence, new).await,
            Retention::None => {
                let counted = Counted {
                    events: count(&new.events),
                    cost: new.cost,
                    usage: new.usage,
                };
                self.store().append_unretained(fence, counted).await
            }
        }
    }

    /// Keeps stored events of a run without retention in memory, before readers are notified.
    pub(crate) fn written(&self, events: &[EventRow]) {
        if self.retention == Retention::None {
            self.records.unretained.add(self.run, events);
        }
    }

    /// Records the end of the run. An output that only this node has is readable before the terminal status is visible.
    pub(crate) async fn finish(&self, fence: Fence, finish: Finish, timeout: u32) -> Result<Run, StoreError> {
        if self.retention == Retention::Full {
            return self.store().finish_run(fence, finish).await;
        }
        let unretained = &self.records.unretained;
        let output = finish.output.as_deref();
        let output_expires_at = output.and_then(|output| unretained.put_output(self.run, output, finish.at));
        let plain = UnretainedFinish {
            status: finish.status,
            error: plain_error(finish.status, timeout),
            last: Counted {
                events: count(&finish.events),
                cost: finish.cost,
                usage: finish.usage,
            },
            output_expires_at,
            receiver: finish.receiver,
            at: finish.at,
        };
        let run = self.store().finish_unretained(fence, plain).await?;
        Ok(Run {
            error: finish.error,
            ..run
        })
    }

    /// Reports the final cost of a cancelled run, and appends `events`.
    pub(crate) async fn settle(
        &self,
        (run, attempt): (RunId, i64),
        cost: FinalCost,
        events: &[NewEvent],
    ) -> Result<Settled, StoreError> {
        match self.retention {
            Retention::Full => self.store().settle_run(run, attempt, cost, events.to_vec()).await,
            Retention::None => {
                let counted = count(events);
                self.store().settle_unretained(run, attempt, cost, counted).await
            }
        }
    }

    /// Ends the in-memory record of a run after its end was stored, with these last events.
    pub(crate) fn finished(&self, events: &[EventRow], error: Option<String>) {
        if self.retention == Retention::None {
            self.written(events);
            self.records.unretained.finish(self.run, error);
        }
    }

    /// Ends the in-memory record of a cancelled run. `events` follow the cancellation.
    pub(crate) fn cancelled(&self, events: &[EventRow]) -> Result<(), Refusal> {
        let unretained = &self.records.unretained;
        unretained.close_with(self.run, RunStatus::Cancelled, events)
    }

    /// Closes the in-memory record of a run that was not ended by its worker. Returns false if there was nothing to close.
    pub(crate) async fn close(&self) -> Result<bool, Refusal> {
        if self.retention == Retention::Full || !self.records.unretained.is_open(self.run) {
            return Ok(false);
        }
        let statuses = self.store().statuses(vec![self.run]).await?;
        let ended = statuses.into_iter().find(|(_, status)| status.is_final());
        if let Some((_, status)) = ended {
            self.records.unretained.close(self.run, status)?;
        }
        Ok(ended.is_some())
    }
}

/// Returns the number of events.
fn count(events: &[NewEvent]) -> i64 {
    i64::try_from(events.len()).unwrap_or(i64::MAX)
}

/// Returns the error that is stored for a run without retention. It holds no text of the run.
fn plain_error(status: RunStatus, timeout: u32) -> Option<PlainError> {
    match status {
        RunStatus::Failed => Some(PlainError::Withheld),
        RunStatus::TimedOut => Some(PlainError::TimedOut(timeout)),
        RunStatus::Interrupted => Some(PlainError::Stopped),
        RunStatus::Reserving
        | RunStatus::Queued
        | RunStatus::Starting
        | RunStatus::Running
        | RunStatus::Succeeded
        | RunStatus::Cancelled => None,
    }
}
