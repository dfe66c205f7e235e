//! Changes of the list of tools.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use sortie_api::{OrgId, Refusal};
use sortie_store::{Store, workflows::ListState};
use tokio::{
    sync::watch,
    time::{Instant, Interval, MissedTickBehavior, interval_at},
};

use crate::{
    app::App,
    kit::{Opener, Watched, over},
    metrics::OpenStream,
    routes::event_stream,
};

/// Interval at which the store is asked without a signal: a signal of another node may be lost.
const POLL: Duration = Duration::from_secs(15);

const OPENING: &str = ": connected\n";
const HEARTBEAT: &str = ": heartbeat\n";
const LIST_CHANGED: &str =
    "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";

/// Waits for changes of the workflows of an organization.
pub(super) struct WorkflowChanges {
    store: Store,
    org: OrgId,
    signals: watch::Receiver<()>,
    polls: Interval,
    /// Whether the store is to be asked.
    is_due: bool,
    known: ListState,
}

impl WorkflowChanges {
    /// Waits for changes after now.
    pub(super) async fn subscribe(app: &App, org: OrgId) -> Result<Self, Refusal> {
        let store = app.engine.store().clone();
        // A change between the two statements is found at once.
        let signals = app.engine.workflow_changes();
        let known = store.workflow_list_state(org).await?;
        Ok(Self {
            store,
            org,
            signals,
            polls: every(POLL),
            is_due: false,
            known,
        })
    }

    /// Completes after a change. Cancel-safe.
    pub(super) async fn next(&mut self) {
        loop {
            if !self.is_due {
                tokio::select! {
                    // The sender lives as long as the engine.
                    _ = self.signals.changed() => {}
                    _ = self.polls.tick() => {}
                }
                self.is_due = true;
            }
            let state = self.store.workflow_list_state(self.org).await;
            self.is_due = false;
            match state {
                Ok(state) if state == self.known => {}
                Ok(state) => {
                    self.known = state;
                    return;
                }
                Err(error) => tracing::warn!(%error, "cannot read the workflows; retrying"),
            }
        }
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Stream of server-sent events to one client.
struct ChangeStream {
    changes: WorkflowChanges,
    heartbeat: Interval,
    credential: Option<Watched>,
    app: Arc<App>,
    is_open: bool,
    _metric: OpenStream,
}

impl ChangeStream {
    async fn next(mut self) -> Option<(Result<Bytes, Refusal>, Self)> {
        if !self.is_open {
            self.is_open = true;
            return Some((Ok(Bytes::from_static(OPENING.as_bytes())), self));
        }
        let text = tokio::select! {
            () = over(self.credential.as_ref(), &self.app.stop) => return None,
            () = self.changes.next() => LIST_CHANGED,
            _ = self.heartbeat.tick() => HEARTBEAT,
        };
        Some((Ok(Bytes::from_static(text.as_bytes())), self))
    }
}

/// Answers with a stream of the changes, until the credential ends or the node stops.
pub(super) fn change_stream(app: &Arc<App>, changes: WorkflowChanges, opener: Opener) -> Response {
    let stream = ChangeStream {
        changes,
        heartbeat: every(app.heartbeat),
        credential: app.watch.watch(opener),
        app: Arc::clone(app),
        is_open: false,
        _metric: app.http.stream(),
    };
    event_stream(Body::from_stream(stream::unfold(stream, ChangeStream::next)))
}
