//! Bodies that are unread when a request is refused. A short body is read to its end, so that the connection stays open. After a
//! longer or unreadable body the answer has `Connection: close`: a client that reuses connections would
//! otherwise send its next request into one that is about to be closed.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use http::{
    HeaderValue, Request,
    header::{CONNECTION, EXPECT},
};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;

/// Maximum number of bytes of an unread body that are read to keep the connection open.
const READ_BYTES: u64 = 64 * 1024;

/// Time for which an unread body is read.
const TIME: Duration = Duration::from_secs(1);

/// Marks an answer. Its connection is closed while the client may still be sending the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeavesBody;

/// Unread rest of a request's body.
pub(crate) struct UnreadBody {
    rest: Arc<Mutex<Rest>>,
    /// The client waits for `100 Continue` before it sends its body.
    waits: bool,
}

/// Part of a body that was not read.
#[derive(Default)]
enum Rest {
    /// Nothing, or the body is still being read.
    #[default]
    Nothing,
    /// Unread end of the body.
    Left(Body),
    /// The body is incomplete or invalid, so the start of the next request is unknown.
    Broken,
}

impl UnreadBody {
    /// Tracks how far the body of a request is read. Returns `None` for a request without a body.
    pub(crate) fn watch(request: &mut Request<Body>) -> Option<Self> {
        if request.body().is_end_stream() {
            return None;
        }
        let rest = Arc::<Mutex<Rest>>::default();
        let body = std::mem::take(request.body_mut());
        *request.body_mut() = Body::new(Watched {
            body: Some(body),
            rest: Arc::clone(&rest),
        });
        Some(Self {
            rest,
            waits: request.headers().contains_key(EXPECT),
        })
    }

    /// Reads a short rest. Otherwise `response` closes its connection.
    pub(crate) async fn finish(self, response: &mut Response) {
        let rest = std::mem::take(&mut *self.rest.lock());
        let is_read = match rest {
            Rest::Nothing => true,
            Rest::Broken => false,
            Rest::Left(rest) => {
                let is_short = rest.size_hint().lower() <= READ_BYTES;
                is_short && !self.waits && drain(rest, READ_BYTES).await
            }
        };
        if is_read {
            return;
        }
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
        response.extensions_mut().insert(LeavesBody);
    }
}

/// Reads a body and drops it. Returns true if it has ended within this number of bytes and one second.
pub(super) async fn drain(mut body: Body, most: u64) -> bool {
    let read = async {
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            if bytes > most {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(TIME, read).await == Ok(true)
}

/// Body that passes on its rest when it is dropped before its end.
struct Watched {
    body: Option<Body>,
    rest: Arc<Mutex<Rest>>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = std::task::ready!(Pin::new(body).poll_frame(cx));
        // An error ends the body.
        match &frame {
            Some(Ok(_)) => {}
            Some(Err(_)) => {
                self.body = None;
                *self.rest.lock() = Rest::Broken;
            }
            None => self.body = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            *self.rest.lock() = Rest::Left(body);
        }
    }
}
