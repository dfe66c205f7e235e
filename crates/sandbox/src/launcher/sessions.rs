//! Sessions that the commands of a run create, if no control group gives the run its share of the processor.
//!
//! The kernel then weighs sessions against each other, regardless of their processes: a run with many would take the processor
//! from the engine and from the watch. A filter asks here before each additional one. Their number is bounded, and each gets less
//! weight than the engine before many others are created.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Pid, getpid},
};

use super::{
    priority::{self, Weighed},
    processor_time,
    procs::{self, Process},
};

/// Maximum number of concurrent sessions of a run, not counting one for each command and process that the engine starts.
const MOST: usize = 16;
/// Maximum number of concurrent sessions of a run with the engine's weight. At that number, only those that the engine starts are
/// allowed.
const HEAVY: usize = 2;
/// Longest wait of a process for permission to lead a session. It then gets an error.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time after which an allowed session is forgotten if it was not created.
const UNUSED: Duration = Duration::from_secs(2);
/// Time between two checks of the sessions, and while a process waits for one. The kernel allows one session per tenth of a
/// second to be lowered, for all users together.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(10));
/// Least time between two checks, as a multiple of the processor time of the last one.
const SHARE: u32 = 10;

/// Session that is allowed or exists.
#[derive(Clone, Copy, Debug)]
struct Session {
    leader: Pid,
    allowed: Instant,
    /// Whether it is additional to those of the engine's commands.
    is_further: bool,
    heavy: bool,
}

/// Process that waits for permission to lead a session.
#[derive(Clone, Copy, Debug)]
struct Asker {
    question: u64,
    leader: Pid,
    since: Instant,
}

/// Sessions of a run, and the processes that wait for one.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// Commands of the engine without a session yet.
    starting: Vec<Pid>,
    alive: Vec<Session>,
    waiting: Vec<Asker>,
    looked: Option<Instant>,
    cost: Duration,
}

impl Sessions {
    /// Allows a command of the engine to create a session, regardless of the number of others.
    pub(super) fn expect(&mut self, command: Pid) {
        self.starting.push(command);
    }

    /// Queues the question of a process that wants to lead a session.
    pub(super) fn ask(&mut self, question: u64, leader: Pid) {
        self.waiting.push(Asker {
            question,
            leader,
            since: Instant::now(),
        });
    }

    /// Time until work is due.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let (calm, asked) = INTERVALS;
        let interval = if self.waiting.is_empty() { calm } else { asked };
        let interval = interval.max(self.cost * SHARE);
        let due = self
            .looked
            .map_or(Duration::ZERO, |looked| interval.saturating_sub(looked.elapsed()));
        (self.heavy() > 0 || !self.waiting.is_empty()).then_some(due)
    }

    /// Lowers sessions that are due, and answers processes that can be answered.
    pub(super) fn serve(&mut self, mut answer: impl FnMut(u64, Result<(), Errno>)) {
        if self.due_in().is_some_and(|due| due.is_zero()) {
            self.look();
        }
        // Not only the first: a command of the engine overtakes all others.
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|asker| match self.decide(*asker) {
            Some(decision) => {
                answer(asker.question, decision);
                false
            }
            None => true,
        });
        self.waiting = waiting;
    }

    /// Decides whether a process may lead a session. `None` while it has to wait.
    fn decide(&mut self, asker: Asker) -> Option<Result<(), Errno>> {
        let is_further = !self.starting.contains(&asker.leader);
        // It was allowed before and did not create the session, or it reuses the process id of an ended one.
        let known = self.alive.iter().find(|session| session.leader == asker.leader);
        let adds = known.is_none();
        let adds_weight = known.is_none_or(|known| !known.heavy);
        let is_full = adds && self.further() >= MOST || adds_weight && self.heavy() >= HEAVY;
        if is_further && is_full {
            return (asker.since.elapsed() > PATIENCE).then_some(Err(Errno::AGAIN));
        }
        self.starting.retain(|command| *command != asker.leader);
        self.alive.retain(|session| session.leader != asker.leader);
        self.add(asker.leader, is_further);
        Some(Ok(()))
    }

    fn add(&mut self, leader: Pid, is_further: bool) {
        if self.heavy() == 0 {
            // Most commands end before lowering them would pay off.
            self.looked = Some(Instant::now());
        }
        self.alive.push(Session {
            leader,
            allowed: Instant::now(),
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

    /// Forgets ended sessions, and lowers as many of the others as the kernel allows.
    fn look(&mut self) {
        let began = processor_time();
        if let Ok(members) = members() {
            self.compare(&members);
            self.lower(&members);
        }
        self.looked = Some(Instant::now());
        self.cost = processor_time().saturating_sub(began);
    }

    /// Updates the list of existing sessions.
    fn compare(&mut self, members: &HashMap<Pid, Pid>) {
        self.alive.retain(|session| {
            let is_coming = || session.allowed.elapsed() < UNUSED && is_there(session.leader);
            members.contains_key(&session.leader) || is_coming()
        });
        // A session that was created so late that it had been forgotten.
        for leader in members.keys() {
            let is_known = self.alive.iter().any(|session| session.leader == *leader);
            if !is_known && !self.starting.contains(leader) {
                self.add(*leader, true);
            }
        }
    }

    fn lower(&mut self, members: &HashMap<Pid, Pid>) {
        for session in self.alive.iter_mut().filter(|session| session.heavy) {
            let Some(member) = members.get(&session.leader) else {
                continue;
            };
            match priority::lower_session(*member, session.is_further) {
                Weighed::Done => session.heavy = false,
                Weighed::Refused => {}
                Weighed::Later => return,
            }
        }
    }
}

/// A living process of each session of this sandbox.
fn members() -> std::io::Result<HashMap<Pid, Pid>> {
    // Not by `getsid`: that returns 0 if the leader is outside of this process namespace.
    let own = procs::one(getpid()).and_then(|process| process.session());
    let living = procs::living()?;
    Ok(living
        .iter()
        .filter_map(|process| Some((process.session()?, process.pid)))
        .filter(|(session, _)| Some(*session) != own)
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

    /// Lets these processes ask, and returns the immediate answers, in order.
    fn answers(sessions: &mut Sessions, leaders: std::ops::Range<i32>) -> Vec<Result<(), Errno>> {
        for leader in leaders {
            sessions.ask(u64::try_from(leader).unwrap(), pid(leader));
        }
        // A check would find that these processes do not exist.
        sessions.looked = Some(Instant::now());
        sessions.cost = Duration::from_mins(1);
        let mut answers = Vec::new();
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
        let mut sessions = Sessions::default();
        sessions.expect(pid(1_000));
        assert_eq!(answers(&mut sessions, 1_000..1_001), [Ok(())]);
        // The engine's own command weighs as well.
        assert_eq!(answers(&mut sessions, 2_000..2_020).len(), HEAVY - 1);
        let mut allowed = HEAVY - 1;
        while allowed < MOST {
            lighten(&mut sessions);
            let more = answers(&mut sessions, 0..0);
            assert!(!more.is_empty() && more.iter().all(Result::is_ok), "{more:?}");
            allowed += more.len();
        }
        assert_eq!((allowed, sessions.waiting.len()), (MOST, 20 - MOST));
        lighten(&mut sessions);
        assert!(
            answers(&mut sessions, 0..0).is_empty(),
            "there are as many as may be"
        );
        // The engine's command is not queued after those.
        sessions.expect(pid(1_001));
        assert_eq!(answers(&mut sessions, 1_001..1_002), [Ok(())]);
        for asker in &mut sessions.waiting {
            asker.since = Instant::now().checked_sub(PATIENCE * 2).unwrap();
        }
        assert_eq!(answers(&mut sessions, 0..0), [Err(Errno::AGAIN); 20 - MOST]);
        lighten(&mut sessions);
        assert_eq!(sessions.due_in(), None);
    }

    #[test]
    fn who_asks_once_more_weighs_once_more() {
        let mut sessions = Sessions::default();
        assert_eq!(answers(&mut sessions, 5..6), [Ok(())]);
        lighten(&mut sessions);
        // A session that ended unseen had this number, or the call failed before.
        assert_eq!(answers(&mut sessions, 5..6), [Ok(())]);
        assert_eq!((sessions.heavy(), sessions.further()), (1, 1));
    }

    #[test]
    fn a_session_without_a_process_makes_room_and_one_that_was_forgotten_counts() {
        let mut sessions = Sessions::default();
        for number in 0..16 {
            sessions.add(pid(i32::MAX - number), true);
        }
        sessions.compare(&HashMap::new());
        assert_eq!(sessions.further(), 0);
        sessions.compare(&HashMap::from([(pid(7), pid(8))]));
        assert_eq!((sessions.heavy(), sessions.further()), (1, 1));
    }
}
