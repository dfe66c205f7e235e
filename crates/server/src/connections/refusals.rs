//! Error responses that the HTTP library generates for bytes that it cannot parse as a request. They are rewritten to the usual
//! form: an error body and a request id.
//!
//! The library has no hook for these responses. The stream therefore inspects the bytes that are written while no request is
//! active and no answer is unsent: they can only be an error response of the library.

use std::{
    fmt::Write as _,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use sortie_api::{ErrorBody, ErrorCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::at_work::Requests;
use crate::kit::X_REQUEST_ID;

/// Generates the id of a request that could not be read.
pub(super) type NewId = Box<dyn Fn() -> String + Send>;

/// Stream that rewrites error responses of the library.
pub(super) struct Refusals<S> {
    inner: S,
    requests: Arc<Requests>,
    new_id: NewId,
    /// Refusal that is being sent, and the number of its bytes already sent.
    refusal: Option<(Vec<u8>, usize)>,
}

impl<S> Refusals<S> {
    pub(super) fn new(inner: S, requests: Arc<Requests>, new_id: NewId) -> Self {
        Self {
            inner,
            requests,
            new_id,
            refusal: None,
        }
    }

    /// Intercepts a refusal of the library and prepares its replacement.
    fn take(&mut self, written: &[u8]) -> bool {
        if !self.requests.is_idle() {
            return false;
        }
        let refusal = std::str::from_utf8(written)
            .ok()
            .and_then(|head| refusal(head, &(self.new_id)()));
        let Some(refusal) = refusal else { return false };
        self.refusal = Some((refusal, 0));
        self.requests.linger();
        true
    }
}

impl<S: AsyncWrite + Unpin> Refusals<S> {
    fn poll_refusal(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some((text, sent)) = &mut self.refusal {
            let rest = text.get(*sent..).unwrap_or_default();
            if rest.is_empty() {
                self.refusal = None;
                break;
            }
            match ready!(Pin::new(&mut self.inner).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                more => *sent += more,
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the replacement for an error response without a body, or `None` for any other response.
fn refusal(head: &str, id: &str) -> Option<Vec<u8>> {
    let (status_line, fields) = head.strip_suffix("\r\n\r\n")?.split_once("\r\n")?;
    let status: u16 = status_line
        .strip_prefix("HTTP/1.")?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    let error = match status {
        414 => "the address of the request is too long",
        431 => "the header of the request must be at most 64 KiB and 100 fields",
        400..500 => "the request is malformed: it must be a valid HTTP/1.1 request",
        _ => return None,
    };
    let body = serde_json::to_string(&ErrorBody {
        error: error.to_owned(),
        code: ErrorCode::InvalidRequest,
    })
    .ok()?;
    let mut text = format!("{status_line}\r\n");
    for field in fields.split("\r\n") {
        let name = field.split(':').next().unwrap_or_default().to_ascii_lowercase();
        if name != "content-length" && name != "connection" {
            text.push_str(field);
            text.push_str("\r\n");
        }
    }
    // Writing to a String cannot fail.
    let _written = write!(
        text,
        "content-type: application/json\r\n{X_REQUEST_ID}: {id}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    Some(text.into_bytes())
}

impl<S: AsyncRead + Unpin> AsyncRead for Refusals<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Refusals<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.take(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = slices
            && self.take(only)
        {
            return Poll::Ready(Ok(only.len()));
        }
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(cx))?;
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.requests.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{connections::Connections, metrics::ConnectionMetrics};

    const STALL: Duration = Duration::from_secs(30);

    const LIBRARYS: &str = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\ndate: now\r\n\r\n";

    #[tokio::test]
    async fn only_what_the_library_says_by_itself_is_replaced() {
        let (ours, mut theirs) = tokio::io::duplex(10_000);
        let requests = Arc::new(Requests::default());
        let mut stream = Refusals::new(ours, Arc::clone(&requests), Box::new(|| "7".to_owned()));
        let mut seen = [0; 1_000];
        // The same text within an answer, before and after the answer is complete.
        let connections = Connections::new(1, Vec::new(), STALL, ConnectionMetrics::default());
        let connection = connections.admit([127, 0, 0, 1].into(), &CancellationToken::new());
        let begun = requests.begin(connection.unwrap().begin_request());
        stream.write_all(LIBRARYS.as_bytes()).await.unwrap();
        drop(begun);
        stream.write_all(LIBRARYS.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let length = theirs.read(&mut seen).await.unwrap();
        assert_eq!(seen[..length], *LIBRARYS.repeat(2).as_bytes());
        assert!(!requests.lingers());

        stream.write_all(LIBRARYS.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let length = theirs.read(&mut seen).await.unwrap();
        let text = std::str::from_utf8(&seen[..length]).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            head,
            format!(
                "HTTP/1.1 400 Bad Request\r\ndate: now\r\ncontent-type: application/json\r\nx-request-id: 7\r\n\
                 connection: close\r\ncontent-length: {}",
                body.len()
            )
        );
        let body: ErrorBody = serde_json::from_str(body).unwrap();
        assert_eq!(body.code, ErrorCode::InvalidRequest);
        assert!(requests.lingers());
    }
}
