//! Answers questions that a run's processes raise at some of their calls: the amount of memory, before an epoll instance watches
//! one more descriptor, and before a process becomes a session leader.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::Pid,
};

use super::{procs, reported_memory::ReportedMemory, sessions::Sessions, watches::Watches};
use crate::{
    seccomp::{self, Asks},
    sys::{self, Answer, Question},
};

/// Questions that are taken per round.
const AT_ONCE: usize = 64;

/// The listener of the asking filter, and the components that answer.
pub(super) struct Questions {
    listener: OwnedFd,
    asks: Asks,
    memory: ReportedMemory,
    watches: Watches,
    sessions: Sessions,
}

impl Questions {
    /// Installs the filter for this process and its later children.
    pub(super) fn ask(asks: Asks, memory_limit: u64) -> Result<Self, Errno> {
        let watches = Watches::limit();
        let memory = ReportedMemory::limited_to(memory_limit);
        Ok(Self {
            listener: sys::install_asking_filter(&seccomp::ask_at_some_calls(asks))?,
            asks,
            memory,
            watches,
            sessions: Sessions::default(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Allows a command of the engine to create a session, regardless of the number of others.
    pub(super) fn expect_session(&mut self, command: Pid) {
        if self.asks == Asks::All {
            self.sessions.expect(command);
        }
    }

    /// Time until work is due that no question triggers.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let watches = self.watches.due_in();
        watches.into_iter().chain(self.sessions.due_in()).min()
    }

    /// Answers pending questions that can be answered now.
    pub(super) fn serve(&mut self) {
        self.take();
        let listener = self.listener.as_fd();
        let answer = |question, answer: Result<(), Errno>| {
            let answer = answer.map_or_else(Answer::Fail, |()| Answer::GoOn);
            // The asking process may have been killed.
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
            match question.call {
                libc::SYS_sysinfo => self.tell_memory(&question),
                libc::SYS_setsid => self.ask_for_session(&question),
                _ => self.watches.ask(question.id),
            }
        }
    }

    fn ask_for_session(&mut self, question: &Question) {
        if let Some(leader) = question.thread.and_then(procs::of_thread) {
            self.sessions.ask(question.id, leader);
        } else {
            // The asker is gone, or this process has no descriptor left to look it up.
            let failed = Answer::Fail(Errno::AGAIN);
            let _asker_may_be_gone = sys::answer_question(self.fd(), question.id, failed);
        }
    }

    fn tell_memory(&self, question: &Question) {
        let is_asking = || sys::is_question_open(self.fd(), question.id);
        let told = question
            .thread
            .is_some_and(|thread| self.memory.tell(thread, question.argument, is_asking).is_ok());
        // The kernel answers if we cannot write: it also knows the error for a wrong address.
        let answer = if told { Answer::Done } else { Answer::GoOn };
        let _asker_may_be_gone = sys::answer_question(self.fd(), question.id, answer);
    }
}
