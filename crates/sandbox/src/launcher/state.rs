//! State of the first process of a sandbox.

use std::{ffi::CString, os::fd::OwnedFd};

use rustix::process::Pid;

use super::{discard::Discard, piped::PipedProcesses, questions::Questions, watch::Watch};
use crate::wire::{Broken, Open, Status};

/// State that init gets from the outer process: most of it came with the first message.
pub(super) struct Inherited {
    /// The outer process itself, so that the engine can see it end.
    pub(super) outer: OwnedFd,
    pub(super) workdir: OwnedFd,
    pub(super) scratch: Option<OwnedFd>,
}

/// The sandbox as its first process sees it.
pub(super) struct Init<'a> {
    pub(super) socket: &'a OwnedFd,
    pub(super) open: &'a Open,
    pub(super) work: OwnedFd,
    pub(super) scratch: Option<OwnedFd>,
    pub(super) null: OwnedFd,
    pub(super) env: Vec<CString>,
    pub(super) children: OwnedFd,
    pub(super) current: Option<Current>,
    pub(super) piped: PipedProcesses,
    pub(super) anything_alive: bool,
    pub(super) discard: Discard,
    pub(super) watch: Watch,
    pub(super) questions: Option<Questions>,
}

/// Command that runs.
pub(super) struct Current {
    pub(super) id: u64,
    pub(super) pid: Pid,
    pub(super) status: Option<Status>,
    pub(super) broken: Option<Broken>,
    /// Peak memory of its processes that have ended.
    pub(super) peak_bytes: u64,
}
