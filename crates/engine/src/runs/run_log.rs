//! Where the record of a run is: in the store, or in the memory of this node. Everyone else reads and writes it through
//! here and does not know which.
//!
//! [`Records`] reads. [`RunLog`] is what the worker of one run writes to: of a run without retention the store is told
//! counts and amounts by commands that take no text, and the texts stay here.

use std::sync::Arc;

use sortie_api::{OrgId, Run, RunId, RunStatus};
use sortie_store::{
    Append, Counted, Error as StoreError, EventRow, Fence, Finish, Followed, NewEvent, PlainError, Progress,
    Retention, Store, UnretainedFinish,
};

use crate::{
    connections::InlineSecrets,
    error::Error,
    runs::unretained::{Found, Unretained},
};

/// Reads the records of runs.
#[derive(Clone)]
pub(crate) struct Records {
    pub(crate) store: Store,
    pub(crate) unretained: Unretained,
}

impl Records {
    /// Events after `after`, in order, at most `limit`. [`Error::Unretained`] where another node has them, or nobody.
    pub(crate) async fn events_after(
        &self,
        org: OrgId,
        run: RunId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<EventRow>, Error> {
        match self.unretained.events_after((org, run), after, limit) {
            Found::Here(events) => Ok(events),
            Found::Forgotten => Err(Error::Unretained),
            Found::Elsewhere => Ok(self.store.events_after(org, run, after, limit).await?),
        }
    }

    /// What a follower of the run needs next, who has the events up to `after`. [`Error::Unretained`] as above.
    pub(crate) async fn follow(
        &self,
        org: OrgId,
        run: RunId,
        after: i64,
        limit: u32,
    ) -> Result<Followed, Error> {
        match self.unretained.follow((org, run), after, limit) {
            Found::Here(followed) => Ok(followed),
            Found::Forgotten => Err(Error::Unretained),
            Found::Elsewhere => Ok(self.store.follow(org, run, after, limit).await?),
        }
    }

    /// How far a run has come. [`Error::Unretained`] as above.
    pub(crate) async fn progress(&self, org: OrgId, run: RunId) -> Result<Progress, Error> {
        match self.unretained.progress(org, run) {
            Found::Here(progress) => Ok(progress),
            Found::Forgotten => Err(Error::Unretained),
            Found::Elsewhere => Ok(self.store.progress(org, run).await?),
        }
    }

    /// The run as the receiver of its callback gets it: with its output.
    pub(crate) async fn to_deliver(&self, org: OrgId, run: RunId) -> Result<Run, StoreError> {
        let run = self.unretained.with_error(self.store.get_run(org, run).await?);
        Ok(self.unretained.with_output_to_deliver(run))
    }

    /// The run as `done` shows it: without an output that is handed out once.
    pub(crate) async fn run(&self, org: OrgId, run: RunId) -> Result<Run, Error> {
        Ok(self.unretained.with_error(self.store.get_run(org, run).await?))
    }
}

/// What the worker of one run writes to.
#[derive(Clone)]
pub(crate) struct RunLog {
    records: Records,
    run: RunId,
    retention: Retention,
}

impl RunLog {
    /// The log of a run of this retention.
    pub(crate) fn new(records: Records, run: RunId, retention: Retention) -> Self {
        Self {
            records,
            run,
            retention,
        }
    }

    /// The store, which knows how far the run has come.
    pub(crate) fn store(&self) -> &Store {
        &self.records.store
    }

    /// The definition of the run, `stored` being what the claim had of it, and where the credentials are that it brought.
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

    /// `starting` to `running`.
    pub(crate) async fn start(&self, fence: Fence, events: Vec<NewEvent>) -> Result<(), StoreError> {
        match self.retention {
            Retention::Full => self.store().start_run(fence, events).await,
            Retention::None => self.store().start_unretained(fence, count(&events)).await,
        }
    }

    /// Appends what was gathered.
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

    /// Takes over events that were written, before readers are told.
    pub(crate) fn written(&self, events: &[EventRow]) {
        if self.retention == Retention::None {
            self.records.unretained.add(self.run, events);
        }
    }

    /// Records the end. What only this node has of it is in its place before anybody can see that the run is final.
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

    /// The end is recorded, with these last events.
    pub(crate) fn finished(&self, events: &[EventRow], error: Option<String>) {
        if self.retention == Retention::None {
            self.written(events);
            self.records.unretained.finish(self.run, error);
        }
    }

    /// Nothing more is written: what of the run is still open here is closed as somebody else has ended it. False where
    /// there was nothing to close.
    pub(crate) async fn close(&self) -> Result<bool, Error> {
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

fn count(events: &[NewEvent]) -> i64 {
    i64::try_from(events.len()).unwrap_or(i64::MAX)
}

/// What is stored of why a run did not succeed: no word of the run.
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
