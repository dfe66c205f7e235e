//! Confined commands in a working directory: the only crate with `unsafe`, and the only one that starts processes.
//!
//! A [`Workdir`] is created for each run; [`detect`] finds the strongest [`Backend`] that the host supports; a run's first
//! command opens its [`Sandbox`]. The binary that does so must call [`launcher_main`] first in its `main`. Because of the
//! `unsafe`, [`give_back_large_blocks`] is here as well.

mod allocator;
mod cgroup;
mod detect;
mod egress;
mod flight;
mod fork_server;
mod helper;
mod hosts;
mod landlock;
mod launcher;
mod level;
mod live;
mod output;
mod passage;
mod path;
mod piped;
mod seccomp;
mod session;
mod socket;
mod spill;
mod sys;
mod types;
mod uids;
mod visible;
mod wire;
mod workdir;

pub use allocator::give_back_large_blocks;
pub use detect::{Options, detect, probe};
pub use helper::{Helper, HelperError, HelperLimits, helper_main};
pub use launcher::launcher_main;
pub use output::Capture;
pub use path::{InvalidPath, RelPath};
pub use types::{
    AtTimeout, Backend, Capabilities, Command, Egress, Enforcement, Error, ExitKind, Finished, Level, Limits,
    OutputPiece, OutputWatch, Piped, Process, ProcessEnd, Released, Sandbox, Spec, StreamOutput, Tenancy,
    Usage,
};
pub use visible::check_readable;
pub use workdir::{CommandPaths, Entry, EntryKind, FileError, Workdir};
