//! Timeouts of commands: the default, and the maximum.

use std::time::Duration;

use tokio::time::Instant;

use crate::{RunSpec, model::Kind};

/// Default timeout of a command.
const DEFAULT: Duration = Duration::from_mins(2);
/// Part of the run's time that no command may use: the model needs it for its answer.
const FOR_THE_ANSWER: Duration = Duration::from_secs(30);
/// Minimum timeout of a command.
const LEAST: Duration = Duration::from_secs(1);

/// The times of a run's commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandTime {
    /// The kind of the run's model. A command of a program may take the whole time of the run.
    pub(crate) kind: Kind,
    /// The longest that a command may take where no deadline is known.
    pub(crate) longest: Duration,
    /// Time at which the run times out.
    pub(crate) deadline: Option<Instant>,
}

impl CommandTime {
    /// The time for commands of a run with a model of this kind.
    pub(crate) const fn of(run: &RunSpec, kind: Kind) -> Self {
        Self {
            kind,
            longest: run.command_timeout,
            deadline: run.deadline,
        }
    }

    /// The time that is left of the run.
    pub(super) fn left(&self) -> Duration {
        match self.deadline {
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            None => self.longest,
        }
    }

    /// The longest that a command may take now: the remaining time less 30 s, but at least a quarter of it.
    pub(crate) fn most(&self) -> Duration {
        match self.kind {
            Kind::Program => self.longest,
            Kind::Language => {
                let left = self.left();
                left.saturating_sub(FOR_THE_ANSWER).max(left / 4).max(LEAST)
            }
        }
    }

    /// The timeout of a command that sets none: two minutes, at most half of the remaining time.
    pub(super) fn default(&self) -> Duration {
        match self.kind {
            Kind::Program => self.longest,
            Kind::Language => DEFAULT.min(self.left() / 2).clamp(LEAST, self.most()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_command_leaves_time_for_the_answer() {
        for (left, default, most) in [
            (3_600, 120, 3_570),
            (240, 120, 210),
            (100, 50, 70),
            (60, 30, 30),
            (40, 10, 10),
            (30, 7, 7),
            (8, 2, 2),
            (1, 1, 1),
            (0, 1, 1),
        ] {
            let time = CommandTime {
                kind: Kind::Language,
                longest: Duration::from_hours(1),
                deadline: Some(Instant::now() + Duration::from_secs(left)),
            };
            assert_eq!(
                (time.default().as_secs(), time.most().as_secs()),
                (default, most),
                "{left} s left"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_may_take_the_whole_time_of_its_run() {
        let time = CommandTime {
            kind: Kind::Program,
            longest: Duration::from_mins(10),
            deadline: Some(Instant::now() + Duration::from_secs(5)),
        };
        assert_eq!((time.default(), time.most()), (time.longest, time.longest));
    }
}
