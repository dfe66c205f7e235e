//! Questions of a run's processes before some of their calls: before an epoll instance watches one more descriptor, and
//! before a process becomes the leader of a session.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::Pid,
};

use super::{procs, sessions::Sessions, watches::Watches};
use crate::{seccomp, sys};

/// Questions that are taken before something else has its turn.
const AT_ONCE: usize = 64;

/// The listener of the filter that asks, and those who know the answers.
pub(super) struct Questions {
    listener: OwnedFd,
    watches: Watches,
    sessions: Sessions,
}

impl Questions {
    /// Installs the filter for this process and those that it starts from here on.
    pub(super) fn ask() -> Result<Self, Errno> {
        let watches = Watches::limit();
        Ok(Self {
            listener: sys::install_asking_filter(&seccomp::ask_before_some_calls())?,
            watches,
            sessions: Sessions::default(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Lets a command that the engine has started have a session, whatever others there are.
    pub(super) fn expect_session(&mut self, command: Pid) {
        self.sessions.expect(command);
    }

    /// Time until something is to be done that no question brings.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let watches = self.watches.due_in();
        watches.into_iter().chain(self.sessions.due_in()).min()
    }

    /// Answers what was asked and can be answered.
    pub(super) fn serve(&mut self) {
        self.take();
        let listener = self.listener.as_fd();
        let answer = |question, answer| {
            // Whoever asked may have been killed.
            let _asker_may_be_gone = sys::answer_question(listener, question, answer);
        };
        self.watches.serve(answer);
        self.sessions.serve(answer);
    }

    fn take(&mut self) {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        for _ in 0..AT_ONCE {
            let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
            if !matches!(poll(&mut ready, Some(&at_once)), Ok(1..)) {
                return;
            }
            let Ok(question) = sys::take_question(self.listener.as_fd()) else {
                continue;
            };
            if question.call != libc::SYS_setsid {
                self.watches.ask(question.id);
            } else if let Some(leader) = question.thread.and_then(procs::of_thread) {
                self.sessions.ask(question.id, leader);
            } else {
                // It is gone, or this process has no descriptor left to see it.
                let _asker_may_be_gone = sys::answer_question(self.fd(), question.id, Err(Errno::AGAIN));
            }
        }
    }
}
