//! Sessions that the commands of a run make, where no control group gives the run its share of the processor.
//!
//! The kernel weighs sessions against each other there, whatever runs in them: a run that made many would take the
//! processor from the engine and from the watch. A filter asks here before each further one. Their number is bounded,
//! and each gets less weight than the engine before many others are made.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use rustix::{io::Errno, process::Pid};

use super::{
    priority::{self, Lowered},
    processor_time,
    procs::{self, Process},
};

/// Sessions of a run at once, beside one for each command and process that the engine starts.
const MOST: usize = 16;
/// Sessions of a run at once that weigh as much as the engine's.
const HEAVY: usize = 4;
/// Time after which a session keeps its weight that cannot be lowered, as that of a program that nobody may read.
const GIVE_UP: Duration = Duration::from_secs(2);
/// Time between two attempts to lower a session. The kernel lets one pass in twice that, for all users together.
const ATTEMPTS: Duration = Duration::from_millis(50);
/// Time between two counts, as a multiple of what the last one cost.
const SHARE: u32 = 10;

/// Session that is allowed or made.
#[derive(Clone, Copy, Debug)]
struct Session {
    leader: Pid,
    since: Instant,
    /// Whether it is beside those of the engine's own commands.
    is_further: bool,
    heavy: bool,
}

/// Sessions of a run, and the processes that wait for one.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// Commands of the engine that have no session yet.
    starting: Vec<Pid>,
    alive: Vec<Session>,
    waiting: VecDeque<(u64, Pid)>,
    attempted: Option<Instant>,
    counted: Option<Instant>,
    cost: Duration,
}

impl Sessions {
    /// Lets a command that the engine has started have a session, whatever others there are.
    pub(super) fn expect(&mut self, command: Pid) {
        self.starting.push(command);
    }

    /// Takes the question of a process that would lead a session.
    pub(super) fn ask(&mut self, question: u64, leader: Pid) {
        self.waiting.push_back((question, leader));
    }

    /// Time until something is to be done.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let attempt = self.attempted.map_or(Duration::ZERO, |attempted| {
            ATTEMPTS.saturating_sub(attempted.elapsed())
        });
        (self.heavy() > 0).then_some(attempt)
    }

    /// Lowers what is to be lowered, and answers who can be answered.
    pub(super) fn serve(&mut self, mut answer: impl FnMut(u64, Result<(), Errno>)) {
        if self.due_in().is_some_and(|due| due.is_zero()) {
            self.attempted = Some(Instant::now());
            self.lower();
        }
        while let Some((question, leader)) = self.waiting.front().copied() {
            let Some(decision) = self.decide(leader) else {
                return;
            };
            self.waiting.pop_front();
            answer(question, decision);
        }
    }

    /// Decides whether a process may lead a session. None while it has to wait.
    fn decide(&mut self, leader: Pid) -> Option<Result<(), Errno>> {
        if let Some(at) = self.starting.iter().position(|pid| *pid == leader) {
            self.starting.swap_remove(at);
            self.add(leader, false);
            return Some(Ok(()));
        }
        if self.alive.iter().any(|session| session.leader == leader) {
            // It leads one already, or failed to become the leader before.
            return Some(Ok(()));
        }
        if self.further() >= MOST {
            self.forget_ended();
        }
        if self.further() >= MOST {
            return Some(Err(Errno::AGAIN));
        }
        if self.heavy() >= HEAVY {
            return None;
        }
        self.add(leader, true);
        Some(Ok(()))
    }

    fn add(&mut self, leader: Pid, is_further: bool) {
        if self.heavy() == 0 {
            // Most commands are over before it is worth the while.
            self.attempted = Some(Instant::now());
        }
        self.alive.push(Session {
            leader,
            since: Instant::now(),
            is_further,
            heavy: true,
        });
    }

    fn further(&self) -> usize {
        self.alive.iter().filter(|session| session.is_further).count()
    }

    fn heavy(&self) -> usize {
        self.alive.iter().filter(|session| session.heavy).count()
    }

    /// Forgets the sessions that have no process any more.
    fn forget_ended(&mut self) {
        let rest = self.cost * SHARE;
        if self.counted.is_some_and(|counted| counted.elapsed() < rest) {
            return;
        }
        let began = processor_time();
        if let Ok(members) = members() {
            self.alive
                .retain(|session| members.contains_key(&session.leader) || is_there(session.leader));
        }
        self.counted = Some(Instant::now());
        self.cost = processor_time().saturating_sub(began);
    }

    /// Lowers as many sessions as the kernel lets us.
    fn lower(&mut self) {
        let Ok(members) = members() else {
            return;
        };
        self.alive
            .retain(|session| members.contains_key(&session.leader) || is_there(session.leader));
        for session in self.alive.iter_mut().filter(|session| session.heavy) {
            let lowered = members
                .get(&session.leader)
                .map_or(Lowered::NotYet, |member| priority::lower_session(*member));
            session.heavy = lowered == Lowered::NotYet && session.since.elapsed() < GIVE_UP;
        }
    }
}

/// A living process of each session of this sandbox.
fn members() -> std::io::Result<HashMap<Pid, Pid>> {
    let living = procs::living()?;
    Ok(living
        .iter()
        .filter_map(|process| Some((process.session()?, process.pid)))
        .collect())
}

/// Whether a process that may lead a session soon is alive.
fn is_there(leader: Pid) -> bool {
    procs::one(leader).is_some_and(|process: Process| process.is_alive())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    /// Answers to questions of these processes, in order.
    fn answers(sessions: &mut Sessions, leaders: std::ops::Range<i32>) -> Vec<Result<(), Errno>> {
        for leader in leaders {
            sessions.ask(u64::try_from(leader).unwrap(), pid(leader));
        }
        let mut answers = Vec::new();
        // Only what is asked is of interest here.
        sessions.attempted = Some(Instant::now());
        sessions.serve(|_question, answer| answers.push(answer));
        answers
    }

    fn lighten(sessions: &mut Sessions) {
        for session in &mut sessions.alive {
            session.heavy = false;
        }
    }

    #[test]
    fn further_sessions_wait_until_earlier_ones_weigh_less_and_are_bounded() {
        let mut sessions = Sessions {
            // Counting would find that these processes do not exist.
            counted: Some(Instant::now()),
            cost: Duration::from_mins(1),
            ..Sessions::default()
        };
        sessions.expect(pid(1_000));
        assert_eq!(answers(&mut sessions, 1_000..1_001), [Ok(())]);
        // The engine's own command weighs as well.
        assert_eq!(answers(&mut sessions, 2_000..2_020).len(), HEAVY - 1);
        assert_eq!(sessions.due_in().map(|due| due <= ATTEMPTS), Some(true));
        let mut rest = Vec::new();
        while sessions.further() < MOST {
            lighten(&mut sessions);
            rest.extend(answers(&mut sessions, 0..0));
        }
        let refused = rest.iter().filter(|answer| **answer == Err(Errno::AGAIN));
        assert_eq!(refused.count(), 20 - MOST);
        assert_eq!(answers(&mut sessions, 2_000..2_001), [Ok(())], "asks once more");
        sessions.expect(pid(1_001));
        assert_eq!(answers(&mut sessions, 1_001..1_002), [Ok(())], "the engine's");
        lighten(&mut sessions);
        assert_eq!(sessions.due_in(), None);
    }

    #[test]
    fn a_session_without_a_process_makes_room() {
        let mut sessions = Sessions::default();
        let gone = pid(i32::MAX);
        for _ in 0..MOST {
            sessions.add(gone, true);
        }
        lighten(&mut sessions);
        assert_eq!(answers(&mut sessions, 5..6), [Ok(())]);
        assert_eq!(sessions.further(), 1);
    }
}
