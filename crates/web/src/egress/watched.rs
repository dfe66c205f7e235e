//! A connection with an idle timeout, which counts its traffic against a shared limit.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// Traffic of a connection, and the shared limit.
#[derive(Debug)]
pub(super) struct Counts {
    /// Bytes sent to the other side.
    pub(super) sent: AtomicU64,
    /// Bytes received from the other side.
    pub(super) received: AtomicU64,
    /// Number of bytes left for all connections.
    left: Arc<AtomicU64>,
}

impl Counts {
    pub(super) fn new(left: Arc<AtomicU64>) -> Self {
        Self {
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            left,
        }
    }

    /// Adds `bytes` to a counter and subtracts them from the shared limit.
    fn add(&self, counter: &AtomicU64, bytes: usize) -> io::Result<()> {
        let bytes = bytes as u64;
        counter.fetch_add(bytes, Ordering::Relaxed);
        let take = |left: u64| Some(left.saturating_sub(bytes));
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if before.unwrap_or(0) <= bytes {
            return Err(io::Error::other("what the run may transfer is used up"));
        }
        Ok(())
    }
}

/// A connection with limits.
#[derive(Debug)]
pub(super) struct Watched<S> {
    inner: S,
    idle: Duration,
    silence: Pin<Box<Sleep>>,
    counts: Option<Arc<Counts>>,
}

impl<S> Watched<S> {
    /// Fails after `idle` without a read or write, and once the shared limit of `counts` is reached.
    pub(super) fn new(inner: S, idle: Duration, counts: Option<Arc<Counts>>) -> Self {
        Self {
            inner,
            idle,
            silence: Box::pin(sleep(idle)),
            counts,
        }
    }

    fn alive(&mut self) {
        self.silence.as_mut().reset(Instant::now() + self.idle);
    }

    /// Called if the inner connection is pending. Fails after the idle timeout.
    fn wait<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        ready!(self.silence.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.inner).poll_read(cx, buffer) {
            Poll::Pending => self.wait(cx),
            Poll::Ready(Ok(())) => {
                self.alive();
                if let Some(counts) = &self.counts {
                    counts.add(&counts.received, buffer.filled().len() - before)?;
                }
                Poll::Ready(Ok(()))
            }
            failed @ Poll::Ready(Err(_)) => failed,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.inner).poll_write(cx, bytes) {
            Poll::Pending => self.wait(cx),
            Poll::Ready(Ok(written)) => {
                self.alive();
                if let Some(counts) = &self.counts {
                    counts.add(&counts.sent, written)?;
                }
                Poll::Ready(Ok(written))
            }
            failed @ Poll::Ready(Err(_)) => failed,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.inner).poll_flush(cx) {
            Poll::Pending => self.wait(cx),
            done @ Poll::Ready(_) => done,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.inner).poll_shutdown(cx) {
            Poll::Pending => self.wait(cx),
            done @ Poll::Ready(_) => done,
        }
    }
}
