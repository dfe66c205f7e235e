//! Launcher of an open sandbox, and its end.

use std::{os::fd::OwnedFd, time::Duration};

use rustix::process::{Signal, pidfd_send_signal};
use tokio::{io::unix::AsyncFd, time::timeout};

use crate::{
    cgroup::RunGroup,
    egress::WayOut,
    socket::Socket,
    types::{Error, Level},
};

/// Timeout of a launcher's set-up, answers and end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// An open launcher. Fields are dropped in this order: hang up, close egress, remove the group.
pub(crate) struct Live {
    pub(crate) level: Level,
    pub(crate) socket: Socket,
    /// The launcher's outer process. Readable when it has ended, and with it everything in the sandbox.
    pub(crate) outer: AsyncFd<OwnedFd>,
    pub(crate) way_out: Option<WayOut>,
    pub(crate) group: Option<RunGroup>,
    pub(crate) memory_kills: u64,
}

impl Live {
    /// Whether the kernel has killed for memory since the last call.
    pub(crate) fn memory_was_killed(&mut self) -> bool {
        let kills = self.group.as_ref().map_or(0, RunGroup::memory_kills);
        std::mem::replace(&mut self.memory_kills, kills) < kills
    }

    /// Kills everything and waits until everything is dead.
    pub(crate) async fn end(self) -> Result<(), Error> {
        let Self {
            level,
            socket,
            outer,
            group,
            ..
        } = self;
        drop(socket);
        let mut ended = timeout(PATIENCE, outer.readable()).await;
        // With a pid namespace everything dies with the outer process. Without one, only the outer process knows the remaining
        // processes, and keeps killing them.
        if ended.is_err() && level == Level::Namespaces {
            let _ended_this_moment = pidfd_send_signal(outer.get_ref(), Signal::KILL);
            ended = timeout(PATIENCE, outer.readable()).await;
        }
        drop(group);
        match ended {
            Ok(Ok(_ready)) => Ok(()),
            Ok(Err(error)) => Err(Error::Lost(error.to_string())),
            Err(_late) => Err(Error::Lost("it does not end".to_owned())),
        }
    }
}
