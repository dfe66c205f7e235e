//! The engine's end of the fork server: one process of the launcher, executed for the first sandbox, that forks for each.
//!
//! It is started by `posix_spawn`, which costs the same regardless of the engine's size. A fork server that was killed or does
//! not respond is replaced; the sandboxes that it created live on.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    process::Stdio,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use crate::{
    live::PATIENCE,
    socket::{Socket, is_gone},
    types::{Error, Level},
    wire::{Fork, LAUNCHER_ARGUMENT},
};

/// Starts launchers through a fork server that is started on demand.
#[derive(Debug)]
pub(crate) struct ForkServer {
    binary: PathBuf,
    /// Paths of the template, if its sandboxes have one.
    template: Option<Arc<[String]>>,
    running: Mutex<Option<Arc<Running>>>,
}

/// The process. It exits when its socket is closed, and is killed as well, because it may be stopped.
#[derive(Debug)]
pub(crate) struct Running {
    socket: Socket,
    _process: Child,
}

impl ForkServer {
    /// Creates a fork server that will start `binary`, which calls [`launcher_main`](crate::launcher_main) first. Sandboxes at
    /// level `namespaces` show the `visible` paths by a template.
    pub(crate) fn new(binary: PathBuf, level: Level, visible: &Arc<[String]>) -> Self {
        Self {
            binary,
            template: (level == Level::Namespaces).then(|| Arc::clone(visible)),
            running: Mutex::new(None),
        }
    }

    /// Requests a launcher that serves the other end of `socket`. Returns the fork server that was asked; if it does not comply,
    /// the caller [replaces](Self::replace) it.
    ///
    /// # Errors
    /// [`Error::Setup`] if the binary cannot be started, or the host has no room for the message.
    pub(crate) async fn ask(&self, socket: OwnedFd) -> Result<Arc<Running>, Error> {
        let mut server = self.running()?;
        let mut asked = self.send(&server, &socket).await;
        if asked.as_ref().is_err_and(is_silent) {
            server = self.running()?;
            asked = self.send(&server, &socket).await;
        }
        match asked {
            Ok(()) => Ok(server),
            Err(error) => {
                let words = format!("the launcher cannot be asked for a sandbox: {error}");
                Err(Error::of_setup(&error, words))
            }
        }
    }

    /// Sends a socket to one process; a process that is gone, or leaves so much unread that its socket is full, is replaced.
    async fn send(&self, server: &Arc<Running>, socket: &OwnedFd) -> io::Result<()> {
        let sent = timeout(PATIENCE, server.socket.send(&Fork::Launcher, &[socket.as_fd()]))
            .await
            .unwrap_or_else(|_late| Err(io::ErrorKind::TimedOut.into()));
        if sent.as_ref().is_err_and(is_silent) {
            self.replace(server);
        }
        sent
    }

    /// Makes the next sandbox start a new process, unless that has happened already.
    pub(crate) fn replace(&self, server: &Arc<Running>) {
        let mut running = self.running.lock();
        running.take_if(|known| Arc::ptr_eq(known, server));
    }

    fn running(&self) -> Result<Arc<Running>, Error> {
        let mut running = self.running.lock();
        if let Some(server) = &*running {
            return Ok(Arc::clone(server));
        }
        let server = self
            .start()
            .map_err(|error| Error::of_setup(&error, format!("the launcher cannot be started: {error}")))?;
        Ok(Arc::clone(running.insert(Arc::new(server))))
    }

    fn start(&self) -> io::Result<Running> {
        let (socket, theirs) = Socket::pair()?;
        let process = Command::new(&self.binary)
            .arg(LAUNCHER_ARGUMENT)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(visible) = &self.template {
            let visible = visible.to_vec();
            socket.send_now(&Fork::Template { visible })?;
        }
        Ok(Running {
            socket,
            _process: process,
        })
    }
}

/// Whether a process is gone, or has left its socket full for so long that it counts as unresponsive.
fn is_silent(error: &io::Error) -> bool {
    is_gone(error) || error.kind() == io::ErrorKind::TimedOut
}
