//! Stream of one client: a write that makes no progress for too long closes the connection and drops its answer. A connection
//! with a refused body is shut down gracefully.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::at_work::Requests;

/// Time for which the rest of an unwanted body is read after its refusal. A client that is still sending would otherwise see a
/// broken connection and no answer.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// Maximum number of bytes of an unwanted body that are read.
const LINGER_BYTES: usize = 1024 * 1024;

/// Stream of a client.
pub(super) struct ClientStream<S> {
    inner: S,
    /// Time in which a write makes progress.
    stall: Duration,
    /// Runs while a write waits for the client.
    stalled: Option<Pin<Box<Sleep>>>,
    requests: Arc<Requests>,
    /// Timer that runs after the end of the output, with the number of bytes read since.
    lingering: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> ClientStream<S> {
    /// Wraps a stream. A write to the client fails if it makes no progress within `stall`.
    pub(super) fn new(inner: S, requests: Arc<Requests>, stall: Duration) -> Self {
        Self {
            inner,
            stall,
            stalled: None,
            requests,
            lingering: None,
        }
    }

    /// Fails a write that has waited for too long.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stall = self.stall;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(stall)));
        stalled.poll_unpin(cx).map(|()| {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client does not read its answer",
            ))
        })
    }
}

impl<S: AsyncRead + Unpin> ClientStream<S> {
    /// Reads until the client has closed its side, or until a limit is reached.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some((time, bytes)) = &mut self.lingering else {
            return Poll::Ready(());
        };
        let mut space = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut space);
            match Pin::new(&mut self.inner).poll_read(cx, &mut buffer) {
                Poll::Pending => return time.poll_unpin(cx),
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() && *bytes < LINGER_BYTES => {
                    *bytes += buffer.filled().len();
                }
                Poll::Ready(Ok(()) | Err(_)) => return Poll::Ready(()),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.bounded(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.bounded(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
            if !self.requests.lingers() {
                return Poll::Ready(Ok(()));
            }
            self.lingering = Some((Box::pin(sleep(LINGER)), 0));
        }
        self.poll_linger(cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::Instant,
    };

    use super::*;

    const STALL: Duration = Duration::from_secs(30);

    fn stream(lingers: bool) -> (ClientStream<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(1_000);
        let requests = Arc::new(Requests::default());
        if lingers {
            requests.linger();
        }
        (ClientStream::new(ours, requests, STALL), theirs)
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_without_progress_ends_after_30_seconds() {
        let (mut ours, _theirs) = stream(false);
        let begun = Instant::now();
        let error = ours.write_all(&[7; 2_000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), STALL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_served_as_long_as_it_reads() {
        let (mut ours, mut theirs) = stream(false);
        let begun = Instant::now();
        let (written, ()) = tokio::join!(ours.write_all(&[7; 4_000]), async {
            for _ in 0..4 {
                tokio::time::sleep(STALL.mul_f64(0.9)).await;
                theirs.read_exact(&mut [0; 1_000]).await.unwrap();
            }
        });
        written.unwrap();
        assert_eq!(begun.elapsed(), 4 * STALL.mul_f64(0.9));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_behind_a_refused_body_is_read_on_for_a_second() {
        let begun = Instant::now();
        let (mut ours, mut theirs) = stream(true);
        let (closed, ()) = tokio::join!(ours.shutdown(), async {
            // Ten times the capacity of the pipe: the other side must be reading.
            theirs.write_all(&[7; 10_000]).await.unwrap();
            assert_eq!(theirs.read(&mut [0]).await.unwrap(), 0, "nothing more is sent");
        });
        closed.unwrap();
        assert_eq!(begun.elapsed(), LINGER);
        // The close does not wait for a client that has closed its side, or for one without a refused body.
        let (mut ours, theirs) = stream(true);
        drop(theirs);
        ours.shutdown().await.unwrap();
        let (mut ours, _theirs) = stream(false);
        ours.shutdown().await.unwrap();
        assert_eq!(begun.elapsed(), LINGER);
    }
}
