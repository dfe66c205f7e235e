//! Ends of the command line: exit codes, and the one line on standard error.

use std::{fmt, io, process::ExitCode, time::Duration};

use sortie_api::{RunStatus, plain};

use crate::terminal::harmless;

/// Exit codes. `docs/TROUBLESHOOTING.md` documents them, so their meaning never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; a followed run succeeded.
    Success = 0,
    /// A followed run failed, `doctor` found a fault, a rotation of the master key is not done, or the ledger differs.
    Failed = 1,
    /// A followed run was cancelled.
    Cancelled = 3,
    /// A followed run ran out of time.
    TimedOut = 4,
    /// A followed run lost its worker.
    Interrupted = 5,
    /// The command line or the request is wrong; nothing was done.
    Usage = 64,
    /// The engine cannot be reached, or cannot answer.
    Unavailable = 69,
    /// Any other local failure, such as a file that cannot be written.
    Internal = 70,
    /// The API key is missing or unknown, or a file may not be read.
    Denied = 77,
    /// The configuration is wrong.
    Configuration = 78,
    /// The credits do not cover this.
    Unpaid = 79,
    /// The API key may not do this.
    Forbidden = 80,
    /// The user wanted to leave at once.
    Left = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<RunStatus> for Exit {
    /// The code for the final status of a run. For a run that is not final, the command was left early.
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Succeeded => Self::Success,
            RunStatus::Failed => Self::Failed,
            RunStatus::Cancelled => Self::Cancelled,
            RunStatus::TimedOut => Self::TimedOut,
            RunStatus::Interrupted => Self::Interrupted,
            RunStatus::Reserving | RunStatus::Queued | RunStatus::Starting | RunStatus::Running => {
                Self::Unavailable
            }
        }
    }
}

/// Failure of a command in one line: the mistake, its place and the remedy.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Time after which the engine accepts the request again, if the rate limit refused it.
    pub(crate) retry_after: Option<Duration>,
    message: String,
}

/// Result of a command.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure with a message, which may have texts of the engine: control characters in it are replaced.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            retry_after: None,
            message: harmless(&message.into()).into_owned(),
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The user asked to exit at once: print nothing.
    pub(crate) fn left() -> Self {
        Self::new(Exit::Left, "")
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Exit::Internal, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Exit::Unavailable, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<crate::config::Error> for Failure {
    fn from(error: crate::config::Error) -> Self {
        Self::new(Exit::Configuration, error.to_string())
    }
}

impl From<io::Error> for Failure {
    /// Only writing to standard output has no better message than the system's.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // The reader has seen enough, as in `sortie runs list | head`.
            Self::new(Exit::Success, "")
        } else {
            Self::internal(format!("cannot write the output: {}", plain::io(&error)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_final_status_has_its_own_code_and_only_success_is_zero() {
        let codes: Vec<_> = RunStatus::ALL
            .into_iter()
            .filter(|status| status.is_final())
            .map(|status| Exit::from(status) as u8)
            .collect();
        assert_eq!(codes, [0, 1, 3, 4, 5]);
    }

    #[test]
    fn a_message_cannot_control_the_terminal() {
        let failure = Failure::usage("no\u{1b}[2J such run\u{7}");
        assert_eq!(failure.to_string(), "no\u{fffd}[2J such run\u{fffd}");
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_failure() {
        let exit = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).exit;
        assert_eq!(exit, Exit::Success);
    }
}
