//! The engine's side of a piped process: its two pipes, and a separate socket that reports its end.
//!
//! Nothing here waits for the run's commands, nor they for it. Dropping the process kills it: the launcher sees the socket close.

use std::{io, os::fd::AsFd};

use futures_util::future::BoxFuture;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    time::timeout,
};

use crate::{
    hosts,
    live::{Live, PATIENCE},
    socket::Socket,
    types::{Error, ExitKind, Piped, Process, ProcessEnd},
    wire::{Broken, Reply, Request, Status},
};

/// Starts a program in an open sandbox.
pub(crate) async fn start(live: &Live, argv: Vec<String>) -> Result<Piped, Error> {
    let setup = |error: io::Error| Error::of_setup(&error, error.to_string());
    let (stdin, to_stdin) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| setup(errno.into()))?;
    let (from_stdout, stdout) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| setup(errno.into()))?;
    let (socket, theirs) = Socket::pair().map_err(setup)?;
    let process = PipedProcess {
        socket,
        what: argv.first().cloned().unwrap_or_default(),
        not_run: None,
        ended: None,
    };
    let piped = Piped {
        stdin: Box::new(Sender::from_owned_fd(to_stdin).map_err(setup)?),
        stdout: Box::new(Receiver::from_owned_fd(from_stdout).map_err(setup)?),
        process: Box::new(process),
    };
    let fds = [stdin.as_fd(), stdout.as_fd(), theirs.as_fd()];
    live.socket
        .send(&Request::Start { argv }, &fds)
        .await
        .map_err(|error| Error::Lost(error.to_string()))?;
    Ok(piped)
}

/// A process as the engine holds it.
pub(crate) struct PipedProcess {
    socket: Socket,
    what: String,
    /// Reason why the process was not run, if known; its end is still to come.
    not_run: Option<Error>,
    /// End of the process, if known.
    ended: Option<Told>,
}

/// The end of a process as the launcher reports it.
#[derive(Clone, Copy)]
struct Told {
    exit: ExitKind,
    /// Length of its last words that are still to be received, in bytes.
    stderr: usize,
    left: bool,
}

impl PipedProcess {
    /// A released command; its end is reported on this socket.
    pub(crate) const fn released(socket: Socket) -> Self {
        Self {
            socket,
            what: String::new(),
            not_run: None,
            ended: None,
        }
    }

    /// Cancel-safe.
    async fn follow(&mut self) -> Result<ProcessEnd, Error> {
        let lost = |error: io::Error| Error::Lost(error.to_string());
        let told = loop {
            if let Some(ended) = self.ended {
                break ended;
            }
            match self.socket.receive().await.map_err(lost)? {
                Some(Reply::Ended {
                    status,
                    broken,
                    stderr,
                    left,
                }) => {
                    let exit = exit_of(status, broken);
                    self.ended = Some(Told { exit, stderr, left });
                }
                Some(Reply::NotExecutable { errno, .. }) => {
                    let reason = format!("{}: {}", self.what, hosts::describe(errno));
                    self.not_run = Some(Error::NotExecutable(reason));
                }
                Some(Reply::NotConfined { step, errno, .. }) => {
                    self.not_run = Some(hosts::refusal(&step, errno));
                }
                Some(
                    Reply::Ready
                    | Reply::Failed { .. }
                    | Reply::Exited { .. }
                    | Reply::Released { .. }
                    | Reply::Usage { .. },
                ) => {}
                None => return Err(Error::Lost("it has ended".to_owned())),
            }
        };
        if let Some(error) = self.not_run.take() {
            return Err(error);
        }
        let stderr = if told.stderr == 0 {
            Vec::new()
        } else {
            self.socket.receive_bytes().await.map_err(lost)?
        };
        self.ended = Some(Told { stderr: 0, ..told });
        Ok(ProcessEnd {
            exit: told.exit,
            stderr,
            left: told.left,
        })
    }

    /// Waits for the end, and until the launcher has hung up: no process is left in the session then.
    async fn follow_to_hang_up(&mut self) -> Result<ProcessEnd, Error> {
        let ended = self.follow().await;
        while let Ok(Some(_)) = self.socket.receive().await {}
        ended
    }
}

impl Process for PipedProcess {
    fn wait(&mut self) -> BoxFuture<'_, Result<ProcessEnd, Error>> {
        Box::pin(self.follow())
    }

    fn kill(mut self: Box<Self>) -> BoxFuture<'static, Result<ProcessEnd, Error>> {
        Box::pin(async move {
            // If the launcher is gone, so is the process, and the next receive reports that.
            let _may_be_gone = self.socket.finish();
            match timeout(PATIENCE, self.follow_to_hang_up()).await {
                Ok(ended) => ended,
                Err(_late) => Err(Error::Lost("it does not answer".to_owned())),
            }
        })
    }
}

fn exit_of(status: Status, broken: Option<Broken>) -> ExitKind {
    match (broken, status) {
        (Some(Broken::Memory), _) => ExitKind::Memory,
        (Some(Broken::Disk), _) => ExitKind::Disk,
        (None, Status::Code(code)) => ExitKind::Code(code),
        (None, Status::Signal(signal)) => ExitKind::Signal(signal),
    }
}
