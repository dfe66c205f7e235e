//! A reader of one run. It reads from the tail while it is up to date, and from the store otherwise.

use std::sync::Arc;

use sortie_api::{OrgId, Refusal, RunId};
use sortie_store::runs::{Followed, ListedRun};
use tokio::sync::{broadcast, watch};

use super::{
    Batch, Deltas, Hub, Live,
    tail::{Chunk, End, Next},
};

/// Maximum number of events in one read from the store.
const PAGE: u32 = 64;

pub(super) struct Reader {
    hub: Hub,
    live: Arc<Live>,
    changed: watch::Receiver<()>,
    deltas: Option<broadcast::Receiver<Arc<Batch>>>,
    org: OrgId,
    run: RunId,
    /// Number of the last event that was returned.
    position: i64,
    /// Batch that was read at the start, before the first call.
    first: Option<Arc<Batch>>,
    /// Number of events in the next read from the store. It is smaller if long events fill a batch.
    page: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Following,
    /// The last event was returned; `done` follows.
    Final,
    Ended,
}

impl Drop for Reader {
    fn drop(&mut self) {
        // The reader's own handle is the last one: no other reader can find the entry.
        let mut runs = self.hub.runs();
        if Arc::strong_count(&self.live) == 1 {
            runs.remove(&self.run);
        }
    }
}

impl Reader {
    pub(super) async fn begin(
        hub: Hub,
        live: Arc<Live>,
        (org, run): (OrgId, RunId),
        after: i64,
        deltas: Deltas,
    ) -> Result<Self, Refusal> {
        let deltas = (deltas == Deltas::Live).then(|| live.deltas());
        let changed = live.changed.subscribe();
        let mut reader = Self {
            hub,
            live,
            changed,
            deltas,
            org,
            run,
            position: after,
            first: None,
            page: PAGE,
            state: State::Following,
        };
        // If the events are in the tail, or another reader is about to add them, they need not be read from the store.
        let live = Arc::clone(&reader.live);
        let alone = live.reading.try_lock();
        let limit = match live.tail().after(after) {
            Next::InStep | Next::Behind if alone.is_ok() => PAGE,
            Next::InStep | Next::Behind | Next::Events { .. } => 0,
        };
        let followed = reader.hub.records.follow(org, run, after, limit).await?;
        reader.position = after.min(followed.progress.last_event);
        let is_head = reader.live.tail().is_head(reader.position);
        reader.first = reader.take_followed(followed, is_head)?;
        Ok(reader)
    }

    /// Returns the next message and the reader, in the form for [`futures_util::stream::unfold`]. `None` at the end.
    pub(super) async fn next(mut self) -> Option<(Result<Arc<Batch>, Refusal>, Self)> {
        match self.advance().await {
            Ok(Some(batch)) => Some((Ok(batch), self)),
            Ok(None) => None,
            Err(error) => {
                self.state = State::Ended;
                Some((Err(error), self))
            }
        }
    }

    async fn advance(&mut self) -> Result<Option<Arc<Batch>>, Refusal> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        // A reader that was up to date and waits lags only by the time that events take to get here. A reader that was sent much,
        // or is slow, lags for other reasons.
        let mut was_in_step = false;
        loop {
            match self.state {
                State::Ended => return Ok(None),
                State::Final => {
                    self.state = State::Ended;
                    let done = self.done().await?;
                    if done.is_some() {
                        return Ok(done);
                    }
                }
                State::Following => {}
            }
            let next = self.live.tail().after(self.position);
            match next {
                Next::Events { .. } => return Ok(self.take(next)),
                Next::InStep => {
                    if let Some(delta) = self.wait().await {
                        return Ok(Some(delta));
                    }
                    was_in_step = true;
                }
                Next::Behind => {
                    let read = self.read(was_in_step).await?;
                    if read.is_some() {
                        return Ok(read);
                    }
                }
            }
        }
    }

    /// Advances the position past the events and returns them.
    fn take(&mut self, next: Next) -> Option<Arc<Batch>> {
        let Next::Events { last, batch, end } = next else {
            return None;
        };
        self.position = last;
        self.state = match end {
            End::Final if self.live.tail().is_last(last) => State::Final,
            End::GoesOn | End::Final => self.state,
            End::Done => State::Ended,
        };
        Some(batch)
    }

    /// Reads the next events from the store. Each reader of older events reads for itself. The newest events are read by one
    /// reader for all.
    async fn read(&mut self, was_in_step: bool) -> Result<Option<Arc<Batch>>, Refusal> {
        let live = Arc::clone(&self.live);
        let alone = if live.tail().is_head(self.position) {
            let alone = live.reading.lock().await;
            let next = live.tail().after(self.position);
            if matches!(next, Next::Events { .. }) {
                return Ok(self.take(next));
            }
            Some(alone)
        } else {
            None
        };
        let followed = self
            .hub
            .records
            .follow(self.org, self.run, self.position, self.page)
            .await?;
        let is_more = followed.progress.last_event > self.position;
        let oldest = followed.events.first().map(|event| event.created_at);
        let read = self.take_followed(followed, alone.is_some())?;
        if let Some(oldest) = oldest
            && was_in_step
            && alone.is_some()
        {
            self.hub.metrics.read_on(oldest, self.hub.clock.now());
        }
        drop(alone);
        // A hint named an event that the store does not have yet, or the end was returned already.
        if read.is_none() && !is_more && self.state == State::Following {
            self.hint().await;
        }
        Ok(read)
    }

    /// Returns the events that were read, and adds them to the tail for others if they are the newest ones.
    fn take_followed(&mut self, followed: Followed, is_head: bool) -> Result<Option<Arc<Batch>>, Refusal> {
        let Followed {
            progress,
            events,
            run,
        } = followed;
        let mut chunks = Chunk::split(self.run, events);
        let last = chunks.last().map_or(self.position, |chunk| chunk.last);
        let is_end = progress.status.is_final() && last == progress.last_event;
        if is_end && let Some(chunk) = chunks.pop() {
            chunks.push(chunk.with_end());
        }
        {
            let mut tail = self.live.tail();
            tail.learn(progress.last_event);
            // A run that is not settled may still get events after these.
            if let Some(run) = run.filter(|listed| is_end && !listed.run.billing_pending) {
                let done = match tail.done_after(last) {
                    Some(done) => done,
                    None => Arc::new(Batch::of_final(run)?),
                };
                if let Some(chunk) = chunks.pop() {
                    chunks.push(chunk.with_done(&done));
                }
                tail.finish(last, done);
            }
        }
        let Some(chunk) = chunks.first().cloned() else {
            if is_end {
                self.state = State::Final;
            }
            return Ok(None);
        };
        self.page = if chunks.len() == 1 {
            self.page.saturating_mul(2).min(PAGE)
        } else {
            u32::try_from(chunk.last - self.position)
                .unwrap_or(PAGE)
                .clamp(1, PAGE)
        };
        if is_head {
            for chunk in chunks {
                self.live.add(chunk);
            }
            // This reader has the events that it has just announced to the others.
            self.changed.mark_unchanged();
        }
        Ok(self.take(chunk.into_next()))
    }

    /// Returns the `done` message, which is made once for every reader of a settled run. Returns `None` if the run has got events
    /// after the position: those must be sent first.
    async fn done(&mut self) -> Result<Option<Arc<Batch>>, Refusal> {
        let live = Arc::clone(&self.live);
        let _alone = live.reading.lock().await;
        let made = live.tail().done_after(self.position);
        if made.is_some() {
            return Ok(made);
        }
        let followed = self
            .hub
            .records
            .follow(self.org, self.run, self.position, 0)
            .await?;
        if followed.progress.last_event > self.position {
            live.tail().learn(followed.progress.last_event);
            self.state = State::Following;
            return Ok(None);
        }
        let run = match followed.run {
            Some(run) => run,
            None => ListedRun {
                run: self.hub.records.run(self.org, self.run).await?,
                has_large_output: false,
            },
        };
        let is_settled = !run.run.billing_pending;
        let done = Arc::new(Batch::of_final(run)?);
        // The cost of a run that is not settled is provisional: other readers may get a newer one.
        if is_settled {
            live.tail().finish(self.position, Arc::clone(&done));
        }
        Ok(Some(done))
    }

    /// Waits for a hint or for a piece of live text.
    async fn wait(&mut self) -> Option<Arc<Batch>> {
        let Some(mut deltas) = self.deltas.take() else {
            self.hint().await;
            return None;
        };
        let piece = tokio::select! {
            biased;
            () = self.hint() => None,
            // Text that a slow reader has missed follows as a whole `message`.
            piece = deltas.recv() => piece.ok(),
        };
        self.deltas = Some(deltas);
        piece
    }

    /// Waits for a hint. The reader ends when the node stops.
    async fn hint(&mut self) {
        // A stop after this check arrives as a hint, so thousands of readers need not wait for both.
        if self.hub.stop.is_cancelled() || self.changed.changed().await.is_err() {
            self.state = State::Ended;
        }
    }
}
