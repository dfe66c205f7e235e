//! The result of a command: its end, notes on that, and its two streams.

use std::{fmt::Write as _, time::Duration};

use serde::{Deserialize, Serialize};
use sortie_sandbox::ExitKind;

/// A command that has ended or timed out. The streams are valid UTF-8 without U+0000, with a line that replaces the omitted part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    /// The end of the command.
    #[serde(with = "StoredExit")]
    pub exit: ExitKind,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The timeout of the command.
    pub timeout: Duration,
    /// Sentences of the engine, such as the job id of the command if it continues as a job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The stored form of the end of a command.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ExitKind", rename_all = "snake_case")]
enum StoredExit {
    Code(i32),
    Signal(i32),
    TimedOut,
    Running,
    Memory,
    Disk,
}

impl CommandOutput {
    /// Whether the command exited with status 0 or still runs.
    pub fn succeeded(&self) -> bool {
        matches!(self.exit, ExitKind::Code(0) | ExitKind::Running)
    }

    /// Describes the end of the command, as the end of a sentence: `exited with status 1`.
    pub fn how(&self) -> String {
        match self.exit {
            ExitKind::TimedOut => format!("was stopped after {} s", self.timeout.as_secs_f64()),
            ExitKind::Running => format!("still runs after {} s", self.timeout.as_secs_f64()),
            ExitKind::Code(_) | ExitKind::Signal(_) | ExitKind::Memory | ExitKind::Disk => ended(self.exit),
        }
    }

    /// The text that a model reads.
    pub(super) fn text(&self) -> String {
        let mut out = String::with_capacity(self.held_bytes() + 128);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "[the command {}{}]", self.how(), hint(self.exit));
        for note in &self.notes {
            let _ = writeln!(out, "[{note}]");
        }
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if stream.is_empty() {
                continue;
            }
            let _ = writeln!(out, "[{name}]");
            out.push_str(stream);
            if !stream.ends_with('\n') {
                out.push('\n');
            }
        }
        out
    }

    /// Memory that the texts take, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let notes: usize = self.notes.iter().map(String::len).sum();
        self.stdout.len() + self.stderr.len() + notes
    }
}

/// Describes the end of a process, as the end of a sentence: `exited with status 1`.
pub(crate) fn ended(exit: ExitKind) -> String {
    match exit {
        ExitKind::Code(code) => format!("exited with status {code}"),
        ExitKind::Signal(signal) => match signal_name(signal) {
            Some(name) => format!("was ended by signal {signal} ({name})"),
            None => format!("was ended by signal {signal}"),
        },
        ExitKind::TimedOut => "was stopped: its time is up".to_owned(),
        ExitKind::Running => "still runs".to_owned(),
        ExitKind::Memory => "was stopped: the run's memory limit is reached".to_owned(),
        ExitKind::Disk => "was stopped: the run's disk limit is reached".to_owned(),
    }
}

/// The conventional meaning of an exit status in shells.
fn hint(exit: ExitKind) -> String {
    match exit {
        ExitKind::Code(126) => ": a file that is not executable, or may not be executed".to_owned(),
        ExitKind::Code(127) => ": command not found".to_owned(),
        ExitKind::Code(code @ 129..=192) => match signal_name(code - 128) {
            Some(name) => format!(": a process of it was ended by {name}"),
            None => String::new(),
        },
        ExitKind::Code(_)
        | ExitKind::Signal(_)
        | ExitKind::TimedOut
        | ExitKind::Running
        | ExitKind::Memory
        | ExitKind::Disk => String::new(),
    }
}

/// The name of a signal that ends processes.
const fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ, a file grew beyond the run's limit",
        31 => "SIGSYS, a system call that the sandbox does not allow",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use sortie_testkit::rows;

    use super::*;

    fn output(exit: ExitKind) -> CommandOutput {
        CommandOutput {
            exit,
            stdout: String::new(),
            stderr: String::new(),
            timeout: Duration::from_secs(5),
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_end_of_a_command_is_told_with_its_meaning() {
        for (exit, told) in rows! {
            ExitKind::Code(1), "exited with status 1";
            ExitKind::Code(126), "exited with status 126: a file that is not executable, or may not be executed";
            ExitKind::Code(127), "exited with status 127: command not found";
            ExitKind::Code(137), "exited with status 137: a process of it was ended by SIGKILL";
            ExitKind::Code(255), "exited with status 255";
            ExitKind::Signal(11), "was ended by signal 11 (SIGSEGV)";
            ExitKind::Signal(40), "was ended by signal 40";
            ExitKind::TimedOut, "was stopped after 5 s";
            ExitKind::Running, "still runs after 5 s";
            ExitKind::Memory, "was stopped: the run's memory limit is reached";
        } {
            assert_eq!(output(exit).text(), format!("[the command {told}]\n"));
        }
    }

    #[test]
    fn a_stored_command_without_notes_is_read() {
        let stored = r#"{"exit":{"code":0},"stdout":"a","stderr":"","timeout":{"secs":5,"nanos":0}}"#;
        let read: CommandOutput = serde_json::from_str(stored).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), stored);
        let running = serde_json::to_string(&output(ExitKind::Running)).unwrap();
        let read: CommandOutput = serde_json::from_str(&running).unwrap();
        assert_eq!(read.exit, ExitKind::Running);
    }
}
