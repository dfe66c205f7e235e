//! The answer of a run without retention: handed out once, or deleted unread after an hour.
//!
//! Whoever hands it out holds a lock of the run: of many readers one gets it. Before the store is told that the answer is
//! gone, the answer is marked here. A reader that goes away, or a lost answer of the store, leaves the mark, and the next
//! reader gets the answer. It leaves the memory when it is returned to a reader, when the receiver of the callback has it,
//! or when its time is over.

use std::{sync::Arc, time::Duration};

use sortie_api::{OrgId, Run, RunId, Timestamp};
use sortie_store::Store;

use super::Unretained;
use crate::error::Error;

/// How long an answer that nobody has read is held.
pub(crate) const OUTPUT_FOR: Duration = Duration::from_hours(1);

/// An answer, and who gets it.
#[derive(Clone)]
pub(crate) struct Output {
    reader: Reader,
    text: Option<Arc<str>>,
    expires_at: Option<Timestamp>,
    /// Whether the store may know by this node that the answer is gone, although it is here.
    is_marked: bool,
}

/// Who gets the answer of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Who asks for the run first.
    Get,
    /// The receiver of its callback.
    Callback,
}

impl Output {
    /// The answer that a run will have.
    pub(crate) fn of(reader: Reader) -> Self {
        Self {
            reader,
            text: None,
            expires_at: None,
            is_marked: false,
        }
    }

    /// The answer, where it is held.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

impl Unretained {
    /// Takes the answer of a run that is about to be recorded as final at `at`; until when it is held.
    pub(crate) fn put_output(&self, run: RunId, text: &str, at: Timestamp) -> Option<Timestamp> {
        let expires_at = at + OUTPUT_FOR;
        self.runs().change(run, |content| {
            let output = content.output.as_mut()?;
            // A write that is tried again comes by again.
            if output.text.is_none() {
                content.bytes += text.len();
            }
            output.text = Some(text.into());
            output.expires_at = Some(expires_at);
            Some(expires_at)
        })?
    }

    /// The answer is not held any more, or never was.
    pub(crate) fn drop_output(&self, run: RunId) {
        self.runs().change(run, |content| {
            let text = content.output.take().and_then(|output| output.text);
            content.bytes = content.bytes.saturating_sub(text.map_or(0, |text| text.len()));
        });
    }

    /// The answer of a run that is final, for this kind of reader, as long as it is held.
    pub(crate) fn output(&self, run: RunId, reader: Reader) -> Option<Arc<str>> {
        let now = self.0.clock.now();
        let runs = self.runs();
        let output = runs.by_id.get(&run)?.output.as_ref()?;
        let is_held = output.expires_at.is_some_and(|at| now < at);
        output.text.clone().filter(|_| is_held && output.reader == reader)
    }

    /// Those whose answer is over its time; it is deleted here.
    pub(super) fn delete_expired_outputs(&self) -> Vec<RunId> {
        let now = self.0.clock.now();
        let is_over = |output: &Output| output.expires_at.is_some_and(|at| at <= now);
        let over: Vec<RunId> = self
            .runs()
            .by_id
            .iter()
            .filter(|(_, content)| content.output.as_ref().is_some_and(is_over))
            .map(|(run, _)| *run)
            .collect();
        for run in &over {
            self.drop_output(*run);
        }
        over
    }

    /// A run that is final with the answer that waits for the receiver of its callback, as long as it is held and the store
    /// says so too.
    pub(crate) fn with_output_to_deliver(&self, run: Run) -> Run {
        match self.output(run.id, Reader::Callback) {
            Some(output) if run.status.is_final() && run.output_expires_at.is_some() => Run {
                output: Some(output.as_ref().to_owned()),
                ..run
            },
            Some(_) | None => run,
        }
    }

    /// The receiver of a run's callback has its answer, which is gone after this. The keeper tells the store.
    pub(crate) fn delivered(&self, run: RunId) {
        if self.output(run, Reader::Callback).is_some() {
            self.drop_output(run);
            self.runs().delivered.push(run);
        }
    }

    /// Takes the runs whose answer was delivered, for the keeper to tell the store.
    pub(super) fn take_delivered(&self) -> Vec<RunId> {
        std::mem::take(&mut self.runs().delivered)
    }

    /// Marks the answer of a run as one that the store may call gone.
    fn mark(&self, run: RunId) {
        self.runs().change(run, |content| {
            if let Some(output) = &mut content.output {
                output.is_marked = true;
            }
        });
    }

    fn is_marked(&self, run: RunId) -> bool {
        let runs = self.runs();
        let output = runs.by_id.get(&run).and_then(|content| content.output.as_ref());
        output.is_some_and(|output| output.is_marked)
    }

    /// A run as its first reader gets it: with its answer, which is gone after this.
    pub(crate) async fn hand_out(&self, store: &Store, org: OrgId, id: RunId) -> Result<Run, Error> {
        let handing_out = self
            .runs()
            .by_id
            .get(&id)
            .map(|content| Arc::clone(&content.handing_out));
        let _alone = match &handing_out {
            Some(handing_out) => Some(handing_out.lock().await),
            None => None,
        };
        let run = self.with_error(store.get_run(org, id).await?);
        if !run.status.is_final() {
            return Ok(run);
        }
        if run.output_expires_at.is_none() && !self.is_marked(id) {
            // Nobody is handed what the store calls gone.
            self.drop_output(id);
            return Ok(run);
        }
        let Some(output) = self.output(id, Reader::Get) else {
            return Ok(run);
        };
        if run.output_expires_at.is_some() {
            self.mark(id);
            store.forget_outputs(vec![id]).await?;
        }
        self.drop_output(id);
        Ok(Run {
            output: Some(output.as_ref().to_owned()),
            output_available: Some(false),
            output_expires_at: None,
            ..run
        })
    }
}
