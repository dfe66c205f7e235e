//! Changes of the list of tools.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::{
    HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use sortie_api::{OrgId, Refusal};
use sortie_store::{Store, workflows::ListState};
use tokio::sync::watch;

use crate::{
    app::App,
    kit::{Opener, Watched},
    metrics::OpenStream,
    routes::X_ACCEL_BUFFERING,
};

/// Interval after which the store is asked although no node has signalled a change: a signal may be lost.
const POLL: Duration = Duration::from_secs(15);

const OPENING: &str = ": connected\n";
const HEARTBEAT: &str = ": heartbeat\n";
const LIST_CHANGED: &str =
    "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";

/// Waits for changes of the workflows of an organization.
pub(super) struct Changes {
    store: Store,
    org: OrgId,
    signals: watch::Receiver<()>,
    known: ListState,
}

impl Changes {
    /// Waits for changes after now.
    pub(super) async fn of(app: &App, org: OrgId) -> Result<Self, Refusal> {
        let store = app.engine.store().clone();
        // A change between the two is found at once.
        let signals = app.engine.workflow_changes();
        let known = store.workflow_list_state(org).await?;
        Ok(Self {
            store,
            org,
            signals,
            known,
        })
    }

    /// Completes after a change. Cancel-safe.
    pub(super) async fn next(&mut self) {
        loop {
            // The sender lives as long as the engine.
            let _signal_or_poll = tokio::time::timeout(POLL, self.signals.changed()).await;
            match self.store.workflow_list_state(self.org).await {
                Ok(state) if state == self.known => {}
                Ok(state) => {
                    self.known = state;
                    return;
                }
                Err(error) => tracing::warn!(%error, "the workflows could not be read; trying again"),
            }
        }
    }
}

/// Stream of server-sent events to one client.
struct ChangeStream {
    changes: Changes,
    heartbeat: Duration,
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
        let over = async {
            match &self.credential {
                Some(credential) => credential.over().await,
                None => self.app.stop.cancelled().await,
            }
        };
        let text = tokio::select! {
            () = over => return None,
            () = self.changes.next() => LIST_CHANGED,
            () = tokio::time::sleep(self.heartbeat) => HEARTBEAT,
        };
        Some((Ok(Bytes::from_static(text.as_bytes())), self))
    }
}

/// Answers with a stream of the changes, until the credential ends or the node stops.
pub(super) fn change_stream(app: &Arc<App>, changes: Changes, opener: Opener) -> Response {
    let stream = ChangeStream {
        changes,
        heartbeat: app.heartbeat,
        credential: app.watch.watch(opener),
        app: Arc::clone(app),
        is_open: false,
        _metric: app.http.stream(),
    };
    let mut response = Response::new(Body::from_stream(stream::unfold(stream, ChangeStream::next)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}
