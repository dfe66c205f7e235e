//! The engine's end of a socket to a process of the launcher.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use serde::Serialize;
use tokio::io::{Interest, unix::AsyncFd};

use crate::{
    sys,
    wire::{self, Reply},
};

/// Whether an error says that the other side is gone.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// Does not block: sending waits for room, receiving waits for a message. Closed on drop.
#[derive(Debug)]
pub(crate) struct Socket(AsyncFd<OwnedFd>);

impl Socket {
    /// A new one, and the end that is the launcher's.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let ours = sys::async_descriptor(ours, Interest::READABLE | Interest::WRITABLE)?;
        Ok((Self(ours), theirs))
    }

    /// Sends a message, waiting for room.
    pub(crate) async fn send(
        &self,
        message: &(impl Serialize + Sync),
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.0
            .async_io(Interest::WRITABLE, |socket| {
                wire::send(socket.as_fd(), message, fds)
            })
            .await
    }

    /// Sends a message if there is room at once.
    pub(crate) fn send_now(&self, message: &impl Serialize) -> io::Result<()> {
        wire::send(self.0.get_ref().as_fd(), message, &[])
    }

    /// Receives a reply; `None` when the other side is gone. Cancel-safe.
    pub(crate) async fn receive(&self) -> io::Result<Option<Reply>> {
        Ok(self.receive_all().await?.map(|(reply, _no_descriptors)| reply))
    }

    /// Receives a reply with its descriptors.
    pub(crate) async fn receive_all(&self) -> io::Result<Option<(Reply, Vec<OwnedFd>)>> {
        self.0
            .async_io(Interest::READABLE, |socket| wire::receive(socket.as_fd()))
            .await
    }

    /// Receives raw bytes.
    pub(crate) async fn receive_bytes(&self) -> io::Result<Vec<u8>> {
        self.0
            .async_io(Interest::READABLE, |socket| wire::receive_bytes(socket.as_fd()))
            .await
    }

    /// Signals to the other side that no more messages follow.
    pub(crate) fn finish(&self) -> io::Result<()> {
        Ok(shutdown(self.0.get_ref(), Shutdown::Write)?)
    }
}
