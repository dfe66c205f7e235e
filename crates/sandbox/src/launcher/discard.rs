//! Streams of commands that have ended, whose background processes still write: read and thrown away, so that a
//! server in the background neither blocks nor dies of what it says.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::io::{Errno, read};

/// Streams at once; the oldest is closed for a new one beyond that.
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

    /// Reads what is there, a bounded piece of each, and forgets those that have ended.
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
