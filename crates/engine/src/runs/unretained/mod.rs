//! The content of runs without retention: request, credentials, events and output, in this node's memory and nowhere else.
//!
//! What a run keeps here is bounded, and so is what all keep together: a run that does not fit is refused before it is
//! recorded, and one that outgrows its bound is ended. Content goes as soon as nobody may ask for it any more: the request
//! and the credentials at the run's end, the output when it was read, events after five minutes. `Debug` shows none of it.

mod keeper;
mod memory_dir;
mod output;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sortie_api::{OrgId, Run, RunId, RunStatus, Timestamp, event::EventType};
use sortie_store::{EventRow, Followed, NewEvent, Progress};
use tokio::sync::Notify;

pub(crate) use keeper::Keeper;
pub(crate) use memory_dir::MemoryDir;
pub(crate) use output::{Output, Reader};

use crate::{
    connections::secrets::Secrets,
    error::Error,
    kit::clock::Clock,
    runs::active::{Active, StopReason},
};

/// How long events are there after the end of their run.
pub(crate) const EVENTS_FOR: Duration = Duration::from_mins(5);

/// What one run may keep, in bytes.
const RUN_BYTES: usize = 64 << 20;

/// What a run that is not final counts at least, in bytes: it will say something.
const LEAST_BYTES: usize = 1 << 20;

/// What stands around the data of an event in memory, in bytes.
const AROUND_EVENT: usize = 128;

/// The registry. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Unretained(Arc<Inner>);

struct Inner {
    runs: Mutex<Runs>,
    /// What all runs may keep together, in bytes.
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
    /// Those that wait for a worker, by organization, the next one to be served first.
    waiting: VecDeque<(OrgId, VecDeque<RunId>)>,
    /// Runs whose answer the receiver of the callback has. The store is not told yet.
    delivered: Vec<RunId>,
}

struct Content {
    org: OrgId,
    request: Option<Request>,
    events: Vec<EventRow>,
    bytes: usize,
    output: Option<Output>,
    error: Option<String>,
    stage: Stage,
    /// Held by the one who hands the output out.
    handing_out: Arc<tokio::sync::Mutex<()>>,
}

/// What a worker needs of a run.
#[derive(Clone)]
pub(crate) struct Request {
    /// The JSON of the resolved `RunRequest`.
    pub(crate) definition: Arc<str>,
    /// The credentials of its inline connections, by name.
    pub(crate) inline: BTreeMap<String, Secrets>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is being recorded.
    New,
    /// The answer of the store to its creation was lost: the keeper finds out.
    InDoubt,
    /// It waits, or a worker has it.
    Open,
    /// It is final since then.
    Final(Timestamp),
}

/// What is to be known of the events of a run.
pub(crate) enum Found<T> {
    /// It is here.
    Here(T),
    /// The content was here, and the events are forgotten.
    Forgotten,
    /// This node knows nothing of the run.
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

    fn events_after(&self, after: i64, limit: u32) -> Vec<EventRow> {
        let from = self.events.partition_point(|event| event.seq <= after);
        self.events
            .iter()
            .skip(from)
            .take(limit as usize)
            .cloned()
            .collect()
    }

    /// What it counts for.
    fn counts(&self) -> usize {
        match self.stage {
            Stage::New | Stage::Open => self.bytes.max(LEAST_BYTES),
            Stage::InDoubt | Stage::Final(_) => self.bytes,
        }
    }
}

impl Runs {
    /// Changes the content of a run and reckons what it counts for anew. None where there is no such run.
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

    /// Lets a run wait again, behind the `before` that are served before it. Its organization keeps its turn.
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

/// A run whose content is here and that is being recorded. The content stays as long as this is there. Dropped, the run
/// waits for a worker.
pub(crate) struct Admission {
    unretained: Unretained,
    org: OrgId,
    run: RunId,
}

impl Admission {
    /// The run was not recorded: its content goes.
    pub(crate) fn refuse(self) {
        self.unretained.runs().remove(self.run);
    }

    /// Nobody knows whether the run was recorded: its content stays, and it does not wait for a worker before that is known.
    pub(crate) fn leave_in_doubt(self) {
        let mut runs = self.unretained.runs();
        runs.change(self.run, |content| content.stage = Stage::InDoubt);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut runs = self.unretained.runs();
        let is_new = runs.change(self.run, |content| {
            // One that was closed meanwhile stays so.
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
    /// An empty registry for content of `limit` bytes together. `work` is notified when a run waits.
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
        self.0.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that are held, and how many may be.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.runs().bytes, self.0.limit)
    }

    /// Takes the content of a run that is about to be recorded, with its first event.
    pub(crate) fn admit(
        &self,
        (org, run): (OrgId, RunId),
        request: Request,
        output: Output,
        at: Timestamp,
    ) -> Result<Admission, Error> {
        let queued = NewEvent::new(&EventType::status(RunStatus::Queued), at)
            .map_err(|error| Error::Internal(error.to_string()))?;
        let content = Content {
            org,
            bytes: request.definition.len(),
            request: Some(request),
            events: vec![row(1, queued)],
            output: Some(output),
            error: None,
            stage: Stage::New,
            handing_out: Arc::default(),
        };
        let mut runs = self.runs();
        if runs.bytes.saturating_add(content.counts()) > self.0.limit {
            return Err(Error::Unavailable(
                "this node holds as many zero-data-retention runs as it has memory for, retry later"
                    .to_owned(),
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

    /// Whether the content of a run is here.
    pub(crate) fn holds(&self, run: RunId) -> bool {
        self.runs().by_id.contains_key(&run)
    }

    /// A run that was in doubt is recorded: it waits for a worker.
    pub(crate) fn is_recorded(&self, run: RunId) {
        let mut runs = self.runs();
        let org = runs.change(run, |content| {
            let is_news = content.stage == Stage::InDoubt;
            is_news.then(|| {
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

    /// The runs whose content is here and that the store knows, as far as this node can tell.
    pub(crate) fn recorded(&self) -> Vec<RunId> {
        let runs = self.runs();
        let contents = runs.by_id.iter();
        contents
            .filter(|(_, content)| matches!(content.stage, Stage::Open | Stage::Final(_)))
            .map(|(run, _)| *run)
            .collect()
    }

    /// The runs whose content is here.
    pub(crate) fn all(&self) -> Vec<RunId> {
        self.runs().by_id.keys().copied().collect()
    }

    /// Whether the content of a run is here and the run not final.
    pub(crate) fn is_open(&self, run: RunId) -> bool {
        self.runs().is_open(run)
    }

    /// What a worker needs of a run.
    pub(crate) fn request(&self, run: RunId) -> Option<Request> {
        self.runs().by_id.get(&run)?.request.clone()
    }

    /// Up to `limit` runs that wait, in turn by organization.
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
            // One that has ended meanwhile does not take the turn of the next.
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

    /// Puts runs back that the store did not hand out: it may later, as long as they are neither final nor forgotten. They
    /// go before those of their organization that came after them.
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

    /// Adds events that the store has counted. A run that has outgrown its bound, or the node's, is told to stop.
    pub(crate) fn add(&self, run: RunId, events: &[EventRow]) {
        let mut runs = self.runs();
        let own = runs.change(run, |content| {
            let last = content.last_event();
            for event in events.iter().filter(|event| event.seq > last) {
                content.bytes += event.data.len() + AROUND_EVENT;
                content.events.push(event.clone());
            }
            content.bytes
        });
        let is_too_large = own.is_some_and(|own| own > RUN_BYTES || runs.bytes > self.0.limit);
        drop(runs);
        if is_too_large {
            self.0.active.stop(run, StopReason::TooLarge);
        }
    }

    /// A run is final: its request goes, its error is kept with its events.
    pub(crate) fn finish(&self, run: RunId, error: Option<String>) {
        let at = self.0.clock.now();
        self.runs().change(run, |content| {
            content.request = None;
            content.error = error;
            content.stage = Stage::Final(at);
        });
    }

    /// A run has ended without a worker here that knows of it: the last event is added here, as nobody else will. A run that
    /// succeeded was ended by its worker, so that its answer stays.
    pub(crate) fn close(&self, run: RunId, status: RunStatus) -> Result<(), Error> {
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
        let last = last
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Error::Internal(error.to_string()))?;
        self.runs().change(run, |content| {
            if matches!(content.stage, Stage::Final(_)) {
                return;
            }
            let first = content.last_event() + 1;
            content
                .events
                .extend((first..).zip(last).map(|(seq, event)| row(seq, event)));
            content.request = None;
            if status != RunStatus::Succeeded {
                // The worker was about to record it as the end, and did not.
                let output = content.output.take();
                let held = output.as_ref().and_then(Output::text).map_or(0, str::len);
                content.bytes = content.bytes.saturating_sub(held);
            }
            content.stage = Stage::Final(at);
        });
        Ok(())
    }

    /// Events after `after`, at most `limit`.
    pub(crate) fn events_after(
        &self,
        (org, run): (OrgId, RunId),
        after: i64,
        limit: u32,
    ) -> Found<Vec<EventRow>> {
        self.find(org, run, |content| content.events_after(after, limit))
    }

    /// How far a run has come: whether it is final, and its last event.
    pub(crate) fn progress(&self, org: OrgId, run: RunId) -> Found<Progress> {
        self.find(org, run, Content::progress)
    }

    /// How far a run has come, and its events after `after`, at most `limit`.
    pub(crate) fn follow(&self, (org, run): (OrgId, RunId), after: i64, limit: u32) -> Found<Followed> {
        self.find(org, run, |content| Followed {
            progress: content.progress(),
            events: content.events_after(after, limit),
            run: None,
        })
    }

    fn find<T>(&self, org: OrgId, run: RunId, read: impl FnOnce(&Content) -> T) -> Found<T> {
        let now = self.0.clock.now();
        let runs = self.runs();
        match runs.by_id.get(&run).filter(|content| content.org == org) {
            None => Found::Elsewhere,
            Some(content) => match content.stage {
                Stage::Final(at) if now >= at + EVENTS_FOR => Found::Forgotten,
                Stage::New | Stage::InDoubt | Stage::Open | Stage::Final(_) => Found::Here(read(content)),
            },
        }
    }

    /// The run with why it did not succeed, as far as that is only known here.
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

/// How waiting runs are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// As many as there are.
    All,
    /// At most one of each organization.
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

/// The status that the last `status` event tells.
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
