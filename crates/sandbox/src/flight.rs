//! A running command: its streams are read while it runs. It is killed or released at its timeout, and killed when its future is
//! dropped.

use std::{
    fs::File,
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
    live::{Live, PATIENCE},
    output::Capture,
    piped::PipedProcess,
    socket::Socket,
    spill::Spill,
    types::{AtTimeout, Error, OutputWatch, Released, StreamOutput},
    wire::{Broken, Reply, Request, Status},
};

const PIECE: usize = 64 << 10;
/// The most that a pipe can still hold when its command has ended.
const LEFT_IN_PIPE: usize = 1 << 20;

/// Command to run.
pub(crate) struct Job {
    pub(crate) request: Box<dyn FnOnce(u64) -> Request + Send>,
    pub(crate) what: String,
    pub(crate) timeout: Duration,
    pub(crate) at_timeout: AtTimeout,
    pub(crate) keep: usize,
    pub(crate) store: u64,
    pub(crate) watch: Option<OutputWatch>,
}

/// The outcome of a job.
pub(crate) struct Landed {
    pub(crate) ended: Ended,
    pub(crate) stdout: StreamOutput,
    pub(crate) stderr: StreamOutput,
    pub(crate) stored: [Option<File>; 2],
    pub(crate) released: Option<Released>,
}

/// Result of a command.
pub(crate) enum Ended {
    Exited {
        status: Status,
        broken: Option<Broken>,
    },
    TimedOut,
    /// The command runs on.
    Released,
    /// The command timed out and did not end when killed; the sandbox was abandoned.
    Stuck,
    NotConfined {
        step: String,
        errno: i32,
    },
    NotExecutable(String),
    Lost(String),
}

/// A command that the caller waits for. Dropping it before the command ends kills the command.
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

    /// Runs the job until it ends or is released. Output that has to be stored goes to the file system of `folder`.
    pub(crate) async fn run(mut self, job: Job, folder: &OwnedFd) -> Result<Landed, Error> {
        let setup = |error: io::Error| Error::of_setup(&error, error.to_string());
        let (mut stdout, out_writer) = Stream::new(&job, false, folder).map_err(setup)?;
        let (mut stderr, err_writer) = Stream::new(&job, true, folder).map_err(setup)?;
        let id = self.id;
        let timer = Timer {
            due: Instant::now().checked_add(job.timeout),
            then: job.at_timeout,
        };
        let (ended, socket) = match &*self.live {
            None => (Ended::Lost("it is not open".to_owned()), None),
            Some(live) => {
                let request = (job.request)(id);
                let writers = (out_writer, err_writer);
                let sent = live
                    .socket
                    .send(&request, &[writers.0.as_fd(), writers.1.as_fd()])
                    .await;
                // Close our copies, or the streams would never end.
                drop(writers);
                if let Err(error) = sent {
                    (Ended::Lost(error.to_string()), None)
                } else {
                    follow(live, id, timer, (&mut stdout, &mut stderr), &job.what).await
                }
            }
        };
        let released = socket.and_then(|socket| {
            Some(Released {
                stdout: Box::new(stdout.receiver.take()?),
                stderr: Box::new(stderr.receiver.take()?),
                process: Box::new(PipedProcess::released(socket)),
            })
        });
        if let Some(live) = &*self.live {
            let left: Vec<OwnedFd> = [stdout.take_rest(), stderr.take_rest()]
                .into_iter()
                .flatten()
                .collect();
            if !left.is_empty() {
                let fds: Vec<_> = left.iter().map(AsFd::as_fd).collect();
                // If the sandbox is gone, the streams need no reader.
                let _may_be_gone = live.socket.send(&Request::Discard, &fds).await;
            }
        }
        self.landed = true;
        if matches!(ended, Ended::Stuck) {
            *self.live = None;
        }
        Ok(Landed {
            ended,
            stored: [stdout.spill.finish().await, stderr.spill.finish().await],
            stdout: stdout.capture.finish(),
            stderr: stderr.capture.finish(),
            released,
        })
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

/// Timer of a command: its deadline, and the action then.
struct Timer {
    due: Option<Instant>,
    then: AtTimeout,
}

/// Reads the streams until the launcher reports the end of the command or its release. Returns the socket of a released command.
async fn follow(
    live: &Live,
    id: u64,
    mut timer: Timer,
    (stdout, stderr): (&mut Stream, &mut Stream),
    what: &str,
) -> (Ended, Option<Socket>) {
    let mut told = false;
    let mut killed = false;
    let mut not_run = None;
    let mut socket = None;
    loop {
        tokio::select! {
            reply = live.socket.receive() => match reply {
                Ok(Some(Reply::Exited { id: ended, status, broken })) if ended == id => {
                    return match not_run {
                        Some(reason) => (reason, None),
                        None if killed => (Ended::TimedOut, None),
                        None => (Ended::Exited { status, broken }, None),
                    };
                }
                Ok(Some(Reply::Released { id: released })) if released == id => {
                    return (Ended::Released, socket);
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
                Ok(None) => return (Ended::Lost("it has ended".to_owned()), None),
                Err(error) => return (Ended::Lost(error.to_string()), None),
            },
            () = stdout.read(), if stdout.has_work() => {}
            () = stderr.read(), if stderr.has_work() => {}
            () = at(timer.due), if timer.due.is_some() => {
                match time_is_up(live, id, timer.then).await {
                    Ok(ours) if !told => socket = ours,
                    // The launcher does not react to requests: hang up to end it.
                    Ok(_) | Err(_) => return (Ended::Stuck, None),
                }
                told = true;
                killed = socket.is_none();
                timer.due = Instant::now().checked_add(PATIENCE);
            }
        }
    }
}

/// Kills a command, or releases it to run on; returns our end of the socket of a released one. A command that cannot be released
/// is killed.
async fn time_is_up(live: &Live, id: u64, then: AtTimeout) -> io::Result<Option<Socket>> {
    if then == AtTimeout::Release
        && let Ok(ours) = release(live, id).await
    {
        return Ok(Some(ours));
    }
    live.socket.send(&Request::Kill { id }, &[]).await?;
    Ok(None)
}

/// Releases a command to run on; returns our end of its socket.
async fn release(live: &Live, id: u64) -> io::Result<Socket> {
    let (ours, theirs) = Socket::pair()?;
    live.socket
        .send(&Request::Release { id }, &[theirs.as_fd()])
        .await?;
    Ok(ours)
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Output stream of a command.
struct Stream {
    receiver: Option<Receiver>,
    capture: Capture,
    spill: Spill,
    piece: Vec<u8>,
    open: bool,
    is_stderr: bool,
    watch: Option<OutputWatch>,
}

impl Stream {
    fn new(job: &Job, is_stderr: bool, folder: &OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok((
            Self {
                receiver: Some(Receiver::from_owned_fd(reader)?),
                capture: Capture::new(job.keep),
                spill: Spill::new(folder, job.keep, job.store)?,
                piece: Vec::with_capacity(PIECE),
                open: true,
                is_stderr,
                watch: job.watch.clone(),
            },
            writer,
        ))
    }

    /// Whether [`read`](Self::read) has something to do.
    fn has_work(&self) -> bool {
        self.open || self.spill.is_due()
    }

    /// Reads one piece, or stores data that was read before. Cancel-safe: dropping it loses no data.
    async fn read(&mut self) {
        if self.spill.is_due() {
            return self.spill.write().await;
        }
        let Some(receiver) = &mut self.receiver else {
            return;
        };
        self.piece.clear();
        match receiver.read_buf(&mut self.piece).await {
            Ok(1..) => {
                if let Some(watch) = &self.watch {
                    watch.send(self.is_stderr, self.capture.total_bytes(), &self.piece);
                }
                self.capture.push(&self.piece);
                self.spill.push(&self.piece);
            }
            // A stream that cannot be read has ended for us.
            Ok(0) | Err(_) => self.open = false,
        }
    }

    /// Reads the remaining output of the ended command from the pipe. Returns the pipe if another process still has it open for
    /// writing.
    ///
    /// Bypasses the runtime, which reports "would block" until it has polled the pipe.
    fn take_rest(&mut self) -> Option<OwnedFd> {
        let receiver = self.receiver.take().filter(|_| self.open)?;
        let pipe = receiver.into_nonblocking_fd().ok()?;
        let mut left = LEFT_IN_PIPE;
        self.piece.resize(PIECE, 0);
        while left > 0 {
            match read(&pipe, self.piece.as_mut_slice()) {
                Ok(length @ 1..) => {
                    let piece = self.piece.get(..length).unwrap_or_default();
                    if let Some(watch) = &self.watch {
                        watch.send(self.is_stderr, self.capture.total_bytes(), piece);
                    }
                    self.capture.push(piece);
                    self.spill.push(piece);
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
