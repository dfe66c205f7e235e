//! One command on its way: its streams are read while it runs, and it is killed when its time is up or when nobody
//! waits for it any more.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use rustix::{
    io::{Errno, read},
    pipe::{PipeFlags, pipe_with},
};
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe::Receiver,
    time::{Instant, sleep_until},
};

use crate::{
    hosts,
    output::Capture,
    session::{Live, PATIENCE},
    types::{Error, StreamOutput},
    wire::{Broken, Reply, Request, Status},
};

const PIECE: usize = 64 << 10;
/// The most that a pipe can still hold when its command has ended.
const LEFT_IN_PIPE: usize = 1 << 20;

/// What to run.
pub(crate) struct Job {
    pub(crate) request: Box<dyn FnOnce(u64) -> Request + Send>,
    pub(crate) what: String,
    pub(crate) timeout: Duration,
    pub(crate) keep: usize,
}

/// How it ended.
pub(crate) enum Ended {
    Exited {
        status: Status,
        broken: Option<Broken>,
    },
    TimedOut,
    /// Its time is up, and it did not end when told to; the sandbox was given up for that.
    Stuck,
    NotConfined {
        step: String,
        errno: i32,
    },
    NotExecutable(String),
    Lost(String),
}

/// A command that somebody waits for. Dropped before its end, it kills the command.
pub(crate) struct Flight<'a> {
    live: &'a mut Option<Live>,
    id: u64,
    landed: bool,
}

impl<'a> Flight<'a> {
    pub(crate) fn new(live: &'a mut Option<Live>, id: u64) -> Self {
        Self {
            live,
            id,
            landed: false,
        }
    }

    pub(crate) async fn run(mut self, job: Job) -> Result<(Ended, StreamOutput, StreamOutput), Error> {
        let setup = |error: io::Error| Error::Setup(error.to_string());
        let (mut stdout, out_writer) = Stream::new(job.keep).map_err(setup)?;
        let (mut stderr, err_writer) = Stream::new(job.keep).map_err(setup)?;
        let id = self.id;
        let deadline = Instant::now().checked_add(job.timeout);
        let ended = match &*self.live {
            None => Ended::Lost("it is not open".to_owned()),
            Some(live) => {
                let request = (job.request)(id);
                let writers = (out_writer, err_writer);
                let sent = live
                    .socket
                    .send(&request, &[writers.0.as_fd(), writers.1.as_fd()])
                    .await;
                // Ours must go, or the streams would never end.
                drop(writers);
                if let Err(error) = sent {
                    Ended::Lost(error.to_string())
                } else {
                    follow(live, id, deadline, (&mut stdout, &mut stderr), &job.what).await
                }
            }
        };
        if let Some(live) = &*self.live {
            let left: Vec<OwnedFd> = [stdout.take_rest(), stderr.take_rest()]
                .into_iter()
                .flatten()
                .collect();
            if !left.is_empty() {
                let fds: Vec<_> = left.iter().map(AsFd::as_fd).collect();
                // A sandbox that is gone needs none of it.
                let _may_be_gone = live.socket.send(&Request::Discard, &fds).await;
            }
        }
        self.landed = true;
        if matches!(ended, Ended::Stuck) {
            *self.live = None;
        }
        Ok((ended, stdout.capture.finish(), stderr.capture.finish()))
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.landed {
            return;
        }
        let killed = self
            .live
            .as_ref()
            .is_some_and(|live| live.socket.send_now(&Request::Kill { id: self.id }).is_ok());
        if !killed {
            // Hanging up kills everything.
            *self.live = None;
        }
    }
}

/// Reads the streams until the launcher reports the end of the command.
async fn follow(
    live: &Live,
    id: u64,
    deadline: Option<Instant>,
    (stdout, stderr): (&mut Stream, &mut Stream),
    what: &str,
) -> Ended {
    let mut timer = deadline;
    let mut timed_out = false;
    let mut not_run = None;
    loop {
        tokio::select! {
            reply = live.socket.receive() => match reply {
                Ok(Some(Reply::Exited { id: ended, status, broken })) if ended == id => {
                    return match not_run {
                        Some(reason) => reason,
                        None if timed_out => Ended::TimedOut,
                        None => Ended::Exited { status, broken },
                    };
                }
                Ok(Some(Reply::NotExecutable { id: failed, errno })) if failed == id => {
                    let reason = format!("{what}: {}", hosts::describe(errno));
                    not_run = Some(Ended::NotExecutable(reason));
                }
                Ok(Some(Reply::NotConfined { id: failed, step, errno })) if failed == id => {
                    not_run = Some(Ended::NotConfined { step, errno });
                }
                // An abandoned command's last words.
                Ok(Some(_)) => {}
                Ok(None) => return Ended::Lost("it has ended".to_owned()),
                Err(error) => return Ended::Lost(error.to_string()),
            },
            () = stdout.read(), if stdout.open => {}
            () = stderr.read(), if stderr.open => {}
            () = at(timer), if timer.is_some() => {
                if timed_out || live.socket.send(&Request::Kill { id }, &[]).await.is_err() {
                    // It does not even die when told to: hanging up does it.
                    return Ended::Stuck;
                }
                timed_out = true;
                timer = Instant::now().checked_add(PATIENCE);
            }
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// One of the two streams.
struct Stream {
    receiver: Option<Receiver>,
    capture: Capture,
    piece: Vec<u8>,
    open: bool,
}

impl Stream {
    fn new(keep: usize) -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let receiver = Receiver::from_owned_fd(reader)?;
        let piece = Vec::with_capacity(PIECE);
        let capture = Capture::new(keep);
        Ok((
            Self {
                receiver: Some(receiver),
                capture,
                piece,
                open: true,
            },
            writer,
        ))
    }

    /// Reads one piece; can be dropped at any moment without losing any.
    async fn read(&mut self) {
        let Some(receiver) = &mut self.receiver else {
            return;
        };
        self.piece.clear();
        match receiver.read_buf(&mut self.piece).await {
            Ok(1..) => self.capture.push(&self.piece),
            // A stream that cannot be read has nothing more for us.
            Ok(0) | Err(_) => self.open = false,
        }
    }

    /// Reads what the ended command left in the pipe. Returns the pipe if somebody else still writes to it.
    ///
    /// Past the runtime, which would say "nothing there" until it has looked itself.
    fn take_rest(&mut self) -> Option<OwnedFd> {
        let receiver = self.receiver.take().filter(|_| self.open)?;
        let pipe = receiver.into_nonblocking_fd().ok()?;
        let mut left = LEFT_IN_PIPE;
        self.piece.resize(PIECE, 0);
        while left > 0 {
            match read(&pipe, self.piece.as_mut_slice()) {
                Ok(length @ 1..) => {
                    self.capture.push(self.piece.get(..length).unwrap_or_default());
                    left = left.saturating_sub(length);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Ok(0) | Err(_) => return None,
            }
        }
        Some(pipe)
    }
}
