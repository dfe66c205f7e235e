//! The fork server: the executed launcher, one per engine. It forks for every sandbox.
//!
//! Executing this binary costs far more than forking: the loader relocates all of it each time. The server was executed with an
//! empty environment and one socket, so a sandbox's processes inherit nothing of the engine or of another sandbox from it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{process::setsid, thread::set_name};

use super::{Failure, Step, report};
use crate::{
    sys,
    wire::{self, Fork},
};

/// Forks for each socket that the engine sends. Returns that socket in each child, and `None` when the engine has hung up.
pub(super) fn serve(engine: OwnedFd) -> Result<Option<OwnedFd>, Failure> {
    let _only_a_name = set_name(c"sortie-forks");
    // The engine holds a pidfd of each sandbox's process, which reports its end.
    sys::reap_children_unseen(true);
    while let Some((Fork, sockets)) = wire::receive(engine.as_fd()).step("receive")? {
        for socket in sockets {
            match sys::fork() {
                Ok(None) => {
                    drop(engine);
                    sys::reap_children_unseen(false);
                    setsid().step("setsid")?;
                    return Ok(Some(socket));
                }
                Ok(Some(_sandbox)) => {}
                Err(errno) => report(
                    &socket,
                    &Failure {
                        step: "fork".to_owned(),
                        errno,
                    },
                ),
            }
        }
    }
    Ok(None)
}
