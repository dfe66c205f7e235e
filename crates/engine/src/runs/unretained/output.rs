//! Output of a run without retention: read once, or deleted unread after an hour.
//!
//! A lock of the run makes sure that one of several readers gets the output. The output is marked here before the store
//! records it as gone. If the reader disconnects, or the store's answer is lost, the mark stays and the next reader
//! gets the output. It is deleted when it is returned to a reader, when the callback was delivered, or when it expires.

use std::{sync::Arc, time::Duration};

use sortie_api::{OrgId, Refusal, Run, RunId, Timestamp};
use sortie_store::Store;

use super::Unretained;

/// Time for which an unread output is kept.
pub(crate) const OUTPUT_FOR: Duration = Duration::from_hours(1);

/// An output, and the kind of reader that gets it.
#[derive(Clone)]
pub(crate) struct Output {
    reader: Reader,
    text: Option<Arc<str>>,
    expires_at: Option<Timestamp>,
    /// Whether the store may have recorded the output as gone, although it is still here.
    is_marked: bool,
}

/// Recipient of the output of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The first caller of `GET /v1/runs/{id}`.
    Get,
    /// The receiver of the run's callback.
    Callback,
}

impl Output {
    /// Creates the entry for the output that a run will have.
    pub(crate) fn of(reader: Reader) -> Self {
        Self {
            reader,
            text: None,
            expires_at: None,
            is_marked: false,
        }
    }

    /// Returns the output, if it is there.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

impl Unretained {
    /// Adds the output of a run shortly before its end, at `at`, is stored. Returns the time at which the output expires.
    pub(crate) fn put_output(&self, run: RunId, text: &str, at: Timestamp) -> Option<Timestamp> {
        let expires_at = at + OUTPUT_FOR;
        self.runs().change(run, |content| {
            let output = content.output.as_mut()?;
            // A repeated write adds the same output again.
            if output.text.is_none() {
                content.bytes += text.len();
            }
            output.text = Some(text.into());
            output.expires_at = Some(expires_at);
            Some(expires_at)
        })?
    }

    /// Deletes the output of a run.
    pub(crate) fn drop_output(&self, run: RunId) {
        self.runs().change(run, |content| {
            let text = content.output.take().and_then(|output| output.text);
            content.bytes = content.bytes.saturating_sub(text.map_or(0, |text| text.len()));
        });
    }

    /// Returns the output of an ended run for this kind of reader, until it expires.
    pub(crate) fn output(&self, run: RunId, reader: Reader) -> Option<Arc<str>> {
        let now = self.0.clock.now();
        let runs = self.runs();
        let output = runs.by_id.get(&run)?.output.as_ref()?;
        let is_held = output.expires_at.is_some_and(|at| now < at);
        output.text.clone().filter(|_| is_held && output.reader == reader)
    }

    /// Deletes expired outputs, and returns their runs.
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

    /// Adds the output to an ended run for the receiver of its callback, until the output expires here or in the store.
    pub(crate) fn with_output_to_deliver(&self, run: Run) -> Run {
        match self.output(run.id, Reader::Callback) {
            Some(output) if run.status.is_final() && run.output_expires_at.is_some() => Run {
                output: Some(output.as_ref().to_owned()),
                ..run
            },
            Some(_) | None => run,
        }
    }

    /// Deletes the output of a run after its callback was delivered. The keeper notifies the store.
    pub(crate) fn delivered(&self, run: RunId) {
        if self.output(run, Reader::Callback).is_some() {
            self.drop_output(run);
            self.runs().delivered.push((run, self.0.clock.now()));
        }
    }

    /// Takes the runs with delivered output, each with the time of the delivery. The keeper notifies the store of them.
    pub(super) fn take_delivered(&self) -> Vec<(RunId, Timestamp)> {
        std::mem::take(&mut self.runs().delivered)
    }

    /// Marks the output of a run as one that the store may have recorded as gone.
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

    /// Returns a run to a reader. The first reader gets the output, which is deleted.
    pub(crate) async fn read_once(&self, store: &Store, org: OrgId, id: RunId) -> Result<Run, Refusal> {
        let output_lock = self
            .runs()
            .by_id
            .get(&id)
            .map(|content| Arc::clone(&content.output_lock));
        let _alone = match &output_lock {
            Some(output_lock) => Some(output_lock.lock().await),
            None => None,
        };
        let run = self.with_error(store.get_run(org, id).await?);
        if !run.status.is_final() {
            return Ok(run);
        }
        if run.output_expires_at.is_none() && !self.is_marked(id) {
            // The store has recorded the output as gone: no reader gets it.
            self.drop_output(id);
            return Ok(run);
        }
        let Some(output) = self.output(id, Reader::Get) else {
            return Ok(run);
        };
        // A marked output was recorded as read when the store's answer was lost.
        let mut read_at = run.output_read_at;
        if run.output_expires_at.is_some() {
            self.mark(id);
            read_at = Some(self.0.clock.now());
            store.forget_outputs(vec![(id, read_at)]).await?;
        }
        self.drop_output(id);
        Ok(Run {
            output: Some(output.as_ref().to_owned()),
            output_available: Some(false),
            output_expires_at: None,
            output_read_at: read_at,
            ..run
        })
    }
}
