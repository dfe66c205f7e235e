//! Streams of ended commands that background processes still write to. They are read and discarded, so that a background server
//! neither blocks nor dies of a write.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::io::{Errno, read};

/// Maximum number of streams; beyond it the oldest is closed for a new one.
const STREAMS: usize = 32;

#[derive(Default)]
pub(super) struct Discard {
    streams: VecDeque<OwnedFd>,
}

impl Discard {
    /// Takes over streams, which must be non-blocking.
    pub(super) fn add(&mut self, streams: Vec<OwnedFd>) {
        self.streams.extend(streams);
        while self.streams.len() > STREAMS {
            self.streams.pop_front();
        }
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.streams.iter().map(AsFd::as_fd)
    }

    /// Reads available data, a bounded piece of each, and forgets streams that have ended.
    pub(super) fn drain(&mut self) {
        let mut buffer = vec![0; 64 << 10];
        self.streams.retain(|stream| {
            matches!(
                read(stream, buffer.as_mut_slice()),
                Ok(1..) | Err(Errno::AGAIN | Errno::INTR)
            )
        });
    }
}
