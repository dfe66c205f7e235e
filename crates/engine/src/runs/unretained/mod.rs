//! Content of runs without retention: request, credentials, events and output, in this node's memory alone.
//!
//! The content of a run is limited, and so is the content of all runs together. A run that does not fit is refused before it is
//! stored, and a run that exceeds its limit is ended. Content is deleted as soon as it can have no reader: request and
//! credentials at the run's end, the output once it was read, events after five minutes. `Debug` prints no content.

mod keeper;
mod memory_dir;
mod output;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use sortie_api::{ErrorCode, OrgId, Refusal, Run, RunId, RunStatus, Timestamp, event::EventType};
use sortie_store::{
    money::Payment,
    runs::{EventRow, EventSelection, Followed, ListedEvent, NewEvent, Progress},
};
use tokio::sync::Notify;

pub(crate) use keeper::Keeper;
pub(crate) use memory_dir::MemoryDir;
pub(crate) use output::{Output, Reader};

use crate::{
    connections::secrets::Secrets,
    runs::active::{Active, StopReason},
};
use sortie_base::Clock;

/// Time for which events are kept after the end of their run.
pub(crate) const EVENTS_FOR: Duration = Duration::from_mins(5);

/// Memory limit of one run, in bytes.
const RUN_BYTES: usize = 64 << 20;

/// Minimum size counted for a run without a terminal status, in bytes: its content will grow.
const LEAST_BYTES: usize = 1 << 20;

/// Memory overhead of an event, in bytes.
const AROUND_EVENT: usize = 128;

/// Largest data of an event that is copied for a follower, in bytes. A follower reads larger data separately.
const LISTED_BYTES: usize = 16 * 1024;

/// Registry of the contents. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Unretained(Arc<Inner>);

struct Inner {
    runs: Mutex<Runs>,
    /// Memory limit of all runs together, in bytes.
    limit: usize,
    clock: Clock,
    active: Active,
    /// Wakes the dispatcher.
    work: Arc<Notify>,
}

#[derive(Default)]
struct Runs {
    by_id: BTreeMap<RunId, Content>,
    bytes: usize,
    /// Runs that wait for a worker, by organization. The next organization to be served is first.
    waiting: VecDeque<(OrgId, VecDeque<RunId>)>,
    /// Runs with a delivered callback that the store has not recorded yet, each with the time of the delivery.
    delivered: Vec<(RunId, Timestamp)>,
}

struct Content {
    org: OrgId,
    request: Option<Request>,
    events: Vec<EventRow>,
    bytes: usize,
    output: Option<Output>,
    error: Option<String>,
    stage: Stage,
    /// Locked while a reader takes the output.
    output_lock: Arc<tokio::sync::Mutex<()>>,
}

/// Input of a worker: the definition of a run and its inline credentials.
#[derive(Clone)]
pub(crate) struct Request {
    /// JSON of the resolved `RunRequest`.
    pub(crate) definition: Arc<str>,
    /// Credentials of the inline connections, by name.
    pub(crate) inline: BTreeMap<String, Secrets>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The run is being stored.
    New,
    /// The store's answer to the creation of the run was lost. The keeper finds out whether the run exists.
    InDoubt,
    /// The run waits, or a worker has it.
    Open,
    /// The run has a terminal status since this time.
    Final(Timestamp),
}

/// Result of a read of a run's events.
pub(crate) enum Lookup<T> {
    /// The content is on this node.
    Here(T),
    /// The content was on this node, and its events were deleted.
    Forgotten,
    /// This node never had the content, or has deleted it.
    Elsewhere,
}

impl Content {
    fn last_event(&self) -> i64 {
        self.events.last().map_or(0, |event| event.seq)
    }

    fn progress(&self) -> Progress {
        Progress {
            status: match self.stage {
                Stage::Final(_) => last_status(&self.events),
                Stage::New | Stage::InDoubt | Stage::Open => RunStatus::Running,
            },
            last_event: self.last_event(),
        }
    }

    /// Adds those of `events` that follow the last one.
    fn extend(&mut self, events: &[EventRow]) {
        let last = self.last_event();
        for event in events.iter().filter(|event| event.seq > last) {
            self.bytes += event.data.len() + AROUND_EVENT;
            self.events.push(event.clone());
        }
    }

    fn after(&self, after: i64, limit: u32) -> impl Iterator<Item = &EventRow> {
        let from = self.events.partition_point(|event| event.seq <= after);
        self.events.iter().skip(from).take(limit as usize)
    }

    /// Returns selected events, at most `limit`. Large data is left out.
    fn listed(&self, selection: &EventSelection, limit: u32) -> Vec<ListedEvent> {
        self.selected(selection)
            .take(limit as usize)
            .map(|event| ListedEvent::of(event, LISTED_BYTES))
            .collect()
    }

    /// Returns the position that the newest `limit` selected events follow.
    fn newest(&self, selection: &EventSelection, limit: u32) -> i64 {
        let newest = self.selected(selection).rev().take(limit as usize).last();
        newest.map_or(selection.after, |event| event.seq - 1)
    }

    fn selected(&self, selection: &EventSelection) -> impl DoubleEndedIterator<Item = &EventRow> {
        self.events
            .iter()
            .filter(move |event| selection.includes(event.seq, &event.kind))
    }

    fn listed_after(&self, after: i64, limit: u32) -> Vec<ListedEvent> {
        self.after(after, limit)
            .map(|event| ListedEvent::of(event, LISTED_BYTES))
            .collect()
    }

    /// Returns the size that counts against the limit, in bytes.
    fn counts(&self) -> usize {
        match self.stage {
            Stage::New | Stage::Open => self.bytes.max(LEAST_BYTES),
            Stage::InDoubt | Stage::Final(_) => self.bytes,
        }
    }
}

impl Runs {
    /// Changes the content of a run and updates the counted size. `None` if there is no such run.
    fn change<T>(&mut self, run: RunId, change: impl FnOnce(&mut Content) -> T) -> Option<T> {
        let content = self.by_id.get_mut(&run)?;
        let before = content.counts();
        let changed = change(content);
        let after = content.counts();
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        Some(changed)
    }

    fn remove(&mut self, run: RunId) {
        if let Some(content) = self.by_id.remove(&run) {
            self.bytes = self.bytes.saturating_sub(content.counts());
        }
    }

    fn wait(&mut self, org: OrgId, run: RunId) {
        match self.waiting.iter_mut().find(|(waiting, _)| *waiting == org) {
            Some((_, runs)) => runs.push_back(run),
            None => self.waiting.push_back((org, VecDeque::from([run]))),
        }
    }

    /// Puts a run back into the queue of its organization, at the index `before`. The organization keeps its turn.
    fn wait_again(&mut self, org: OrgId, run: RunId, before: usize) {
        match self.waiting.iter_mut().find(|(waiting, _)| *waiting == org) {
            Some((_, runs)) => runs.insert(before.min(runs.len()), run),
            None => self.waiting.push_back((org, VecDeque::from([run]))),
        }
    }

    fn is_open(&self, run: RunId) -> bool {
        let content = self.by_id.get(&run);
        content.is_some_and(|content| content.stage == Stage::Open)
    }
}

/// A run with content in memory that is being stored. Dropping it lets the run wait for a worker.
pub(crate) struct Admission {
    unretained: Unretained,
    org: OrgId,
    run: RunId,
}

impl Admission {
    /// Deletes the content, because the run was not stored.
    pub(crate) fn refuse(self) {
        self.unretained.runs().remove(self.run);
    }

    /// Keeps the content although it is unknown whether the run was stored. The run waits for a worker once the store is known to
    /// have it.
    pub(crate) fn leave_in_doubt(self) {
        let mut runs = self.unretained.runs();
        runs.change(self.run, |content| content.stage = Stage::InDoubt);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut runs = self.unretained.runs();
        let is_new = runs.change(self.run, |content| {
            // A run that was closed in the meantime stays closed.
            let is_new = content.stage == Stage::New;
            if is_new {
                content.stage = Stage::Open;
            }
            is_new
        });
        if is_new == Some(true) {
            runs.wait(self.org, self.run);
            drop(runs);
            self.unretained.0.work.notify_one();
        }
    }
}

impl Unretained {
    /// Creates an empty registry for `limit` bytes of content. `work` is notified when a run waits.
    pub(crate) fn new(limit: usize, clock: Clock, active: Active, work: Arc<Notify>) -> Self {
        Self(Arc::new(Inner {
            runs: Mutex::default(),
            limit,
            clock,
            active,
            work,
        }))
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.0.runs.lock()
    }

    /// Returns the used memory and its limit, in bytes.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.runs().bytes, self.0.limit)
    }

    /// Adds the content of a run that is about to be stored, with its first events.
    pub(crate) fn admit(
        &self,
        (org, run): (OrgId, RunId),
        request: Request,
        output: Output,
        (payment, at): (Payment, Timestamp),
    ) -> Result<Admission, Refusal> {
        let events = (1..)
            .zip(payment.first_statuses())
            .map(|(seq, status)| Ok(row(seq, NewEvent::new(&EventType::status(*status), at)?)))
            .collect::<Result<_, serde_json::Error>>()
            .map_err(Refusal::internal)?;
        let content = Content {
            org,
            bytes: request.definition.len(),
            request: Some(request),
            events,
            output: Some(output),
            error: None,
            stage: Stage::New,
            output_lock: Arc::default(),
        };
        let mut runs = self.runs();
        if runs.bytes.saturating_add(content.counts()) > self.0.limit {
            return Err(ErrorCode::Unavailable.because(
                "this node holds as many zero-data-retention runs as it has memory for, retry later",
            ));
        }
        runs.bytes = runs.bytes.saturating_add(content.counts());
        runs.by_id.insert(run, content);
        drop(runs);
        Ok(Admission {
            unretained: self.clone(),
            org,
            run,
        })
    }

    /// Whether the content of a run is on this node.
    pub(crate) fn holds(&self, run: RunId) -> bool {
        self.runs().by_id.contains_key(&run)
    }

    /// Lets a run in doubt wait for a worker, because the store has it.
    pub(crate) fn is_recorded(&self, run: RunId) {
        let mut runs = self.runs();
        let org = runs.change(run, |content| {
            let was_in_doubt = content.stage == Stage::InDoubt;
            was_in_doubt.then(|| {
                content.stage = Stage::Open;
                content.org
            })
        });
        if let Some(Some(org)) = org {
            runs.wait(org, run);
            drop(runs);
            self.0.work.notify_one();
        }
    }

    /// Returns the runs with content on this node that the store has, as far as this node knows.
    pub(crate) fn recorded(&self) -> Vec<RunId> {
        let runs = self.runs();
        let contents = runs.by_id.iter();
        contents
            .filter(|(_, content)| matches!(content.stage, Stage::Open | Stage::Final(_)))
            .map(|(run, _)| *run)
            .collect()
    }

    /// Returns the runs with content on this node.
    pub(crate) fn all(&self) -> Vec<RunId> {
        self.runs().by_id.keys().copied().collect()
    }

    /// Whether the content of a run is on this node and its status is not terminal.
    pub(crate) fn is_open(&self, run: RunId) -> bool {
        self.runs().is_open(run)
    }

    /// Returns the input for the worker of a run.
    pub(crate) fn request(&self, run: RunId) -> Option<Request> {
        self.runs().by_id.get(&run)?.request.clone()
    }

    /// Takes up to `limit` waiting runs, round-robin by organization.
    pub(crate) fn take_waiting(&self, limit: u32, share: Share) -> Vec<RunId> {
        let mut runs = self.runs();
        let mut left = match share {
            Share::All => limit as usize,
            Share::OneOfEach => runs.waiting.len().min(limit as usize),
        };
        let mut taken = Vec::new();
        while left > 0
            && let Some((org, mut own)) = runs.waiting.pop_front()
        {
            // A run that has ended does not use up the turn of its organization.
            while let Some(run) = own.pop_front() {
                if runs.is_open(run) {
                    taken.push(run);
                    left -= 1;
                    break;
                }
            }
            if !own.is_empty() {
                runs.waiting.push_back((org, own));
            }
        }
        taken
    }

    /// Whether a run waits.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.runs().waiting.is_empty()
    }

    /// Whether this run waits here and is still open.
    pub(crate) fn is_waiting(&self, run: RunId) -> bool {
        let runs = self.runs();
        runs.is_open(run) && runs.waiting.iter().any(|(_, own)| own.contains(&run))
    }

    /// Puts runs back that could not be claimed, as long as they are still open. They keep their position among the
    /// waiting runs of their organization.
    pub(crate) fn put_back(&self, taken: impl IntoIterator<Item = RunId>) {
        let mut runs = self.runs();
        let mut put: HashMap<OrgId, usize> = HashMap::new();
        for run in taken {
            let open = runs
                .by_id
                .get(&run)
                .filter(|content| content.stage == Stage::Open);
            if let Some(org) = open.map(|content| content.org) {
                let before = put.entry(org).or_default();
                runs.wait_again(org, run, *before);
                *before += 1;
            }
        }
    }

    /// Adds events that the store has counted. A run that exceeds its own limit or the node's is stopped.
    pub(crate) fn add(&self, run: RunId, events: &[EventRow]) {
        let mut runs = self.runs();
        let own = runs.change(run, |content| {
            content.extend(events);
            content.bytes
        });
        let is_too_large = own.is_some_and(|own| own > RUN_BYTES || runs.bytes > self.0.limit);
        drop(runs);
        if is_too_large {
            self.0.active.stop(run, StopReason::TooLarge);
        }
    }

    /// Ends the record of a run: deletes its request, and keeps its error with its events.
    pub(crate) fn finish(&self, run: RunId, error: Option<String>) {
        let at = self.0.clock.now();
        self.runs().change(run, |content| {
            content.request = None;
            content.error = error;
            content.stage = Stage::Final(at);
        });
    }

    /// Closes a run that has ended without a worker on this node, and adds the last events. The output of a run that succeeded
    /// stays, because its worker had recorded that end.
    pub(crate) fn close(&self, run: RunId, status: RunStatus) -> Result<(), Refusal> {
        self.close_with(run, status, &[])
    }

    /// Closes a run like [`close`](Self::close), and appends the events `behind`.
    pub(crate) fn close_with(
        &self,
        run: RunId,
        status: RunStatus,
        behind: &[EventRow],
    ) -> Result<(), Refusal> {
        let at = self.0.clock.now();
        let mut last = Vec::new();
        if status == RunStatus::Interrupted {
            last.push(EventType::Interrupted {
                reason: "worker_lost",
                step: 0,
                tool: None,
                id: None,
            });
        }
        last.push(EventType::status(status));
        let last = last.iter().map(|event| NewEvent::new(event, at));
        let last = last.collect::<Result<Vec<_>, _>>().map_err(Refusal::internal)?;
        self.runs().change(run, |content| {
            if matches!(content.stage, Stage::Final(_)) {
                return;
            }
            let first = content.last_event() + 1;
            content
                .events
                .extend((first..).zip(last).map(|(seq, event)| row(seq, event)));
            content.extend(behind);
            content.request = None;
            if status != RunStatus::Succeeded {
                // The worker was about to store this output with the end of the run, and did not.
                let output = content.output.take();
                let held = output.as_ref().and_then(Output::text).map_or(0, str::len);
                content.bytes = content.bytes.saturating_sub(held);
            }
            content.stage = Stage::Final(at);
        });
        Ok(())
    }

    /// Returns selected events, at most `limit`. Large data is left out.
    pub(crate) fn list_events(
        &self,
        (org, run): (OrgId, RunId),
        selection: &EventSelection,
        limit: u32,
    ) -> Lookup<Vec<ListedEvent>> {
        self.find(org, run, |content| content.listed(selection, limit))
    }

    /// Returns the position that the newest `limit` selected events follow.
    pub(crate) fn newest_events(
        &self,
        (org, run): (OrgId, RunId),
        selection: &EventSelection,
        limit: u32,
    ) -> Lookup<i64> {
        self.find(org, run, |content| content.newest(selection, limit))
    }

    /// Returns the data of an event.
    pub(crate) fn event_data(&self, (org, run): (OrgId, RunId), seq: i64) -> Lookup<Option<String>> {
        self.find(org, run, |content| {
            let mut found = content.after(seq - 1, 1);
            found
                .find(|event| event.seq == seq)
                .map(|event| event.data.clone())
        })
    }

    /// Returns the status and the last event of a run.
    pub(crate) fn progress(&self, org: OrgId, run: RunId) -> Lookup<Progress> {
        self.find(org, run, Content::progress)
    }

    /// Returns the status of a run and its events after `after`, at most `limit`. Large data is left out.
    pub(crate) fn follow(&self, (org, run): (OrgId, RunId), after: i64, limit: u32) -> Lookup<Followed> {
        self.find(org, run, |content| Followed {
            progress: content.progress(),
            events: content.listed_after(after, limit),
            run: None,
        })
    }

    fn find<T>(&self, org: OrgId, run: RunId, read: impl FnOnce(&Content) -> T) -> Lookup<T> {
        let now = self.0.clock.now();
        let runs = self.runs();
        match runs.by_id.get(&run).filter(|content| content.org == org) {
            None => Lookup::Elsewhere,
            Some(content) => match content.stage {
                Stage::Final(at) if now >= at + EVENTS_FOR => Lookup::Forgotten,
                Stage::New | Stage::InDoubt | Stage::Open | Stage::Final(_) => Lookup::Here(read(content)),
            },
        }
    }

    /// Adds the error of a run that only this node has.
    pub(crate) fn with_error(&self, run: Run) -> Run {
        let known = self
            .runs()
            .by_id
            .get(&run.id)
            .and_then(|content| content.error.clone());
        Run {
            error: known.or(run.error),
            ..run
        }
    }
}

/// Selection of waiting runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Every waiting run, up to the limit.
    All,
    /// At most one run of each organization.
    OneOfEach,
}

fn row(seq: i64, event: NewEvent) -> EventRow {
    EventRow {
        seq,
        kind: event.kind.to_owned(),
        data: event.data,
        created_at: event.at,
    }
}

/// Returns the status in the last `status` event.
fn last_status(events: &[EventRow]) -> RunStatus {
    #[derive(serde::Deserialize)]
    struct Data {
        status: RunStatus,
    }
    let last = events
        .iter()
        .rev()
        .find(|event| event.kind == sortie_api::event::kind::STATUS);
    last.and_then(|event| serde_json::from_str::<Data>(&event.data).ok())
        .map_or(RunStatus::Interrupted, |data| data.status)
}

#[cfg(test)]
mod tests;
