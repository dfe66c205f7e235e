//! Messages between engine and launcher: one datagram per message over a unix socket, with attached descriptors.
//!
//! A message is JSON. A message that does not fit a datagram is sent as a memory file, which is then the first descriptor.

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recv, recvmsg, send as send_to_peer, sendmsg,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::types::{Egress, Level, Limits};

/// Argument that makes the binary a launcher.
pub(crate) const LAUNCHER_ARGUMENT: &str = "__sandbox";

/// From the engine to the fork server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Fork {
    /// Sandboxes are at level `namespaces`: their file systems begin as copies of a template, which shows these paths of the host in
    /// addition to the system folders.
    Template { visible: Vec<String> },
    /// Fork a launcher. Descriptor: the launcher's end of a new socket.
    Launcher,
}

/// From the engine to a launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The first message. Descriptors: the working directory, the scratch folder if any, then one open
    /// `cgroup.procs` per cgroup to join.
    Open(Box<Open>),
    /// Run a program. Descriptors: standard output and standard error.
    Exec { id: u64, argv: Vec<String> },
    /// Start a piped process. Descriptors: standard input, standard output, and a separate socket: its end is reported there, and
    /// it is killed when the engine hangs up or shuts its side.
    Start { argv: Vec<String> },
    /// Check the confinement from inside, instead of a program. Descriptors as for `Exec`.
    Check { id: u64, check: Check },
    /// Kill a command with everything it started.
    Kill { id: u64 },
    /// Let a command run on concurrently with later ones. Descriptor: a separate socket, on which its end is reported. The
    /// command is killed with its session when the engine hangs up or shuts its side. After its end, processes that are left in
    /// its session are killed when the engine shuts its side, and spared when it hangs up. Answered with `Released`, unless the
    /// end was reported before.
    Release { id: u64 },
    /// Read these descriptors to their end, because background processes still write to them.
    Discard,
    /// Report the resources in use.
    Usage,
}

/// Request to set up a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Open {
    pub(crate) level: Level,
    /// The host user to become; `None` keeps the launcher's.
    pub(crate) uid: Option<u32>,
    pub(crate) limits: Limits,
    pub(crate) memory: MemoryKeeper,
    /// Whether a control group gives the run its share of the processor.
    pub(crate) weighed: bool,
    pub(crate) env: Vec<(String, String)>,
    /// Paths of the host that commands may read in addition to the system folders. Empty at level `namespaces`, where the template
    /// has them.
    pub(crate) visible: Vec<String>,
    pub(crate) scratch: bool,
    pub(crate) egress: Egress,
}

/// Enforcer of the memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MemoryKeeper {
    /// A memory cgroup.
    Kernel,
    /// The sandbox's first process, by watching.
    Watch,
}

/// A check from inside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Check {
    /// Try everything that a confined command must not be able to do.
    Escapes(Outside),
    /// Use this much memory.
    Memory(u64),
}

/// Objects outside, to check that they are out of reach.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outside {
    /// A file that only the engine may read.
    pub(crate) secret: String,
    /// A TCP port on the host's loopback address that accepts.
    pub(crate) port: u16,
    /// The engine.
    pub(crate) pid: u32,
}

/// From a launcher; `Failed` also from the fork server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The sandbox is open. Descriptors: its outer process, which ends only after everything in the sandbox is dead; then the
    /// listening socket for egress, if requested.
    Ready,
    /// The set-up failed: this step, with this error number.
    Failed { step: String, errno: i32 },
    /// A command could not be confined, and was not run; `Exited` or `Ended` follows.
    NotConfined { id: u64, step: String, errno: i32 },
    /// A program could not be executed; `Exited` or `Ended` follows.
    NotExecutable { id: u64, errno: i32 },
    /// A command has ended.
    Exited {
        id: u64,
        status: Status,
        broken: Option<Broken>,
    },
    /// A command was released and runs on.
    Released { id: u64 },
    /// A piped process or a released command has ended. `stderr` is the length of its last words on standard error, which follow
    /// as a separate datagram.
    Ended {
        status: Status,
        broken: Option<Broken>,
        stderr: usize,
        /// Whether processes of its session live on. The socket then stays open until they are killed.
        left: bool,
    },
    /// Resources in use.
    Usage { memory: u64, processes: u32 },
}

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Status {
    Code(i32),
    Signal(i32),
}

/// The limit that was exceeded, so that everything was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Broken {
    Memory,
    Disk,
}

/// Longest message that is sent as a datagram: below the smallest socket buffer in use.
const INLINE: usize = 16 << 10;
const IS_INLINE: u8 = 0;
const IS_FILE: u8 = 1;
const MAX_FDS: usize = 8;

/// Sends a message. On a non-blocking socket it may fail with `WouldBlock`; nothing was sent then.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut body = vec![IS_INLINE];
    serde_json::to_writer(&mut body, message)?;
    if body.len() <= INLINE {
        return send_raw(socket, &body, fds);
    }
    let mut file = File::from(memfd_create("message", MemfdFlags::CLOEXEC)?);
    file.write_all(body.get(1..).unwrap_or_default())?;
    file.seek(SeekFrom::Start(0))?;
    let all: Vec<_> = std::iter::once(file.as_fd()).chain(fds.iter().copied()).collect();
    send_raw(socket, &[IS_FILE], &all)
}

fn send_raw(socket: BorrowedFd<'_>, body: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if fds.is_empty() {
        return send_plain(socket, body);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("too many descriptors in one message"));
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(body)], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            result => return result.map(drop).map_err(io::Error::from),
        }
    }
}

/// Sends a datagram without descriptors. Seccomp may forbid a confined command any other.
fn send_plain(socket: BorrowedFd<'_>, body: &[u8]) -> io::Result<()> {
    loop {
        match send_to_peer(socket, body, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            result => return result.map(drop).map_err(io::Error::from),
        }
    }
}

/// Sends raw bytes, if there are any; at most the size of a datagram.
pub(crate) fn send_bytes(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    send_raw(socket, bytes, &[])
}

/// Receives raw bytes, at most `INLINE`.
pub(crate) fn receive_bytes(socket: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; INLINE];
    let (length, _) = recv(socket, bytes.as_mut_slice(), RecvFlags::empty())?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Receives one message with its descriptors; `None` when the other side is gone.
pub(crate) fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut body = vec![0; INLINE + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS + 1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let length = loop {
        match recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut body)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            // Returned once if the peer closed with unread data. Messages that it sent before follow.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            result => {
                let received = result?;
                if received.flags.contains(ReturnFlags::CTRUNC) {
                    // The kernel drops descriptors that exceed the limit of open files.
                    return Err(Errno::MFILE.into());
                }
                break received.bytes;
            }
        }
    };
    let mut fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                Some(fds)
            } else {
                None
            }
        })
        .flatten()
        .collect();
    body.truncate(length);
    let Some((kind, inline)) = body.split_first() else {
        return Ok(None);
    };
    if *kind == IS_INLINE {
        return Ok(Some((serde_json::from_slice(inline)?, fds)));
    }
    if fds.is_empty() {
        return Err(io::Error::other("a message without its file"));
    }
    let mut content = Vec::new();
    File::from(fds.remove(0)).read_to_end(&mut content)?;
    Ok(Some((serde_json::from_slice(&content)?, fds)))
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn a_message_of_any_size_arrives_whole_with_its_descriptors_in_order() {
        let (here, there) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let file = tempfile::tempfile().unwrap();
        (&file).write_all(b"mine").unwrap();
        for length in [0, 10, INLINE - 1, INLINE, INLINE + 1, 3 << 20] {
            let argv = vec!["x".repeat(length), "é\n\0".to_owned()];
            let request = Request::Exec {
                id: 7,
                argv: argv.clone(),
            };
            send(here.as_fd(), &request, &[file.as_fd(), here.as_fd()]).unwrap();
            let (received, fds) = receive::<Request>(there.as_fd()).unwrap().unwrap();
            let Request::Exec {
                id: 7,
                argv: received,
            } = received
            else {
                panic!("another message")
            };
            assert_eq!(received, argv);
            assert_eq!(fds.len(), 2);
            let mut first = File::from(fds.into_iter().next().unwrap());
            first.seek(SeekFrom::Start(0)).unwrap();
            let mut content = String::new();
            first.read_to_string(&mut content).unwrap();
            assert_eq!(content, "mine");
        }
        drop(here);
        assert!(receive::<Request>(there.as_fd()).unwrap().is_none());
    }
}
