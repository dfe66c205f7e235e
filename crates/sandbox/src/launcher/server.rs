//! The fork server: the executed launcher, one per engine. It forks for every sandbox.
//!
//! Executing this binary costs far more than forking: the loader relocates all of it each time. The server was executed with an
//! empty environment and one socket, so a sandbox's processes inherit nothing of the engine or of another sandbox from it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{process::setsid, thread::set_name};

use super::{Failure, Step, report, template::Template};
use crate::{
    sys,
    wire::{self, Fork},
};

/// Forks for each socket that the engine sends. Returns that socket in each child, with the template if the engine has ordered
/// one, and `None` when the engine has hung up.
pub(super) fn serve(engine: OwnedFd) -> Result<Option<(OwnedFd, Option<Template>)>, Failure> {
    let _only_a_name = set_name(c"sortie-forks");
    // The engine holds a pidfd of each sandbox's process, which reports its end.
    sys::reap_children_unseen(true);
    let mut ordered = None;
    let mut template = None;
    while let Some((request, sockets)) = wire::receive(engine.as_fd()).step("receive")? {
        if let Fork::Template { visible } = request {
            ordered = Some(visible);
            continue;
        }
        for socket in sockets {
            // Built for the first sandbox, which then fails with the reason if the host refuses it.
            if let (Some(visible), None) = (&ordered, &template) {
                match Template::build(visible) {
                    Ok(built) => template = Some(built),
                    Err(failure) => {
                        report(&socket, &failure);
                        continue;
                    }
                }
            }
            match sys::fork() {
                Ok(None) => {
                    drop(engine);
                    sys::reap_children_unseen(false);
                    setsid().step("setsid")?;
                    return Ok(Some((socket, template)));
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
