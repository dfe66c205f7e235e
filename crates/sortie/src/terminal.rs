//! Output for people: colours if wanted, and no control characters from untrusted text.

use std::{
    borrow::Cow,
    io::{self, IsTerminal as _, Write as _},
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::termios::tcgetwinsize;

use crate::config::Environment;

/// Fewest columns for which text is wrapped.
const FEWEST_COLUMNS: usize = 20;

/// Whether notes are left out, as a command was asked to be quiet.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Kind of the two output streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    stdout: bool,
    stderr: bool,
    colours: bool,
}

/// Style of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Bold,
    Dim,
    Good,
    Bad,
    Accent,
}

impl Terminal {
    /// The streams of this process. `NO_COLOR` (set to any value) and `TERM=dumb` disable colours.
    pub(crate) fn of_process(environment: &Environment) -> Self {
        Self {
            stdout: io::stdout().is_terminal(),
            stderr: io::stderr().is_terminal(),
            colours: environment.get("NO_COLOR").is_none() && environment.get("TERM") != Some("dumb"),
        }
    }

    /// Whether standard output takes colours.
    pub(crate) fn colours_stdout(self) -> bool {
        self.stdout && self.colours
    }

    /// Whether progress is watched by a person.
    pub(crate) fn stderr_is_terminal(self) -> bool {
        self.stderr
    }

    /// Width of the terminal on standard output; `None` if there is none, or its size is unknown.
    pub(crate) fn stdout_columns(self) -> Option<usize> {
        self.stdout.then(|| columns(io::stdout())).flatten()
    }

    /// Width of the terminal on standard error; `None` if there is none, or its size is unknown.
    pub(crate) fn stderr_columns(self) -> Option<usize> {
        self.stderr.then(|| columns(io::stderr())).flatten()
    }

    /// Whether standard output is read by a person.
    pub(crate) fn stdout_is_terminal(self) -> bool {
        self.stdout
    }

    /// Whether standard error takes colours.
    pub(crate) fn colours_stderr(self) -> bool {
        self.stderr && self.colours
    }
}

fn columns(terminal: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(terminal).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Breaks a line of text at the width of a terminal, between words if possible. `indents` are those of the first row and
/// of the others. Without a width, the line stays whole.
pub(crate) fn wrapped(line: &str, columns: Option<usize>, indents: [&str; 2]) -> Vec<String> {
    let Some(columns) = columns else {
        return vec![format!("{}{line}", indents[0])];
    };
    let options = textwrap::Options::new(columns.max(FEWEST_COLUMNS))
        .initial_indent(indents[0])
        .subsequent_indent(indents[1]);
    // A tab has no fixed width.
    textwrap::wrap(&line.replace('\t', "    "), options)
        .into_iter()
        .map(Cow::into_owned)
        .collect()
}

/// Styles a text if colours are on.
pub(crate) fn styled(text: &str, style: Style, colours: bool) -> String {
    if !colours || text.is_empty() {
        return text.to_owned();
    }
    let code = match style {
        Style::Bold => "1",
        Style::Dim => "2",
        Style::Good => "32",
        Style::Bad => "31",
        Style::Accent => "36",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// A text without control characters except newlines and tabs: an agent's output cannot move the cursor, set the title
/// or hide its own text. Direction overrides, which make a text read differently, are removed as well.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let bad = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(bad) {
        Cow::Owned(text.replace("\r\n", "\n").replace(bad, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Writes to standard output, at once.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a piece of a file to standard output at once: unchanged for a file or a program, harmless for a terminal.
pub(crate) fn print_content(bytes: &[u8]) -> io::Result<()> {
    if io::stdout().is_terminal() {
        return print(&harmless(&String::from_utf8_lossy(bytes)));
    }
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Writes one line to standard output, at once.
pub(crate) fn print_line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Leaves out notes from now on. Errors are still written.
pub(crate) fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Writes one line to standard error, unless the command is quiet. If standard error is closed, the line is lost.
pub(crate) fn note(text: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        error(text);
    }
}

/// Writes one line about a failure to standard error. If that is closed, the line is lost.
pub(crate) fn error(text: &str) {
    let _written = writeln!(io::stderr().lock(), "{text}");
}

/// Writes a question to standard error; the answer follows on the same line.
pub(crate) fn ask(question: &str) {
    let mut out = io::stderr().lock();
    let _written = write!(out, "{question}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_characters_of_others_do_not_reach_the_terminal() {
        assert_eq!(harmless("a\u{1b}[2Jb\u{7}\tc\nd"), "a\u{fffd}[2Jb\u{fffd}\tc\nd");
        assert_eq!(harmless("a\r\nb\rc"), "a\nb\u{fffd}c");
        assert_eq!(harmless("\u{9b}31m\u{202e}"), "\u{fffd}31m\u{fffd}");
        assert!(matches!(harmless("größer, 大きい"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn no_text_brings_an_escape_through(text in any::<String>()) {
            let shown = harmless(&text);
            prop_assert!(!shown.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
        }
    }

    #[test]
    fn text_is_wrapped_by_display_width_and_stays_whole_without_a_terminal() {
        let line = "one two three 大きい大きい大きい四";
        assert_eq!(wrapped(line, None, ["- ", "  "]), [format!("- {line}")]);
        assert_eq!(
            wrapped(line, Some(20), ["- ", "  "]),
            ["- one two three", "  大きい大きい大きい", "  四"]
        );
        assert_eq!(wrapped("", Some(20), ["", ""]), [""]);
        assert_eq!(wrapped("\tcode here", Some(40), ["", ""]), ["    code here"]);
    }

    proptest! {
        #[test]
        fn no_row_is_wider_than_the_terminal(line in "\\PC{0,80}", columns in 20_usize..100) {
            for row in wrapped(&line, Some(columns), ["  ", "  "]) {
                prop_assert!(textwrap::core::display_width(&row) <= columns, "{row:?}");
            }
        }
    }

    #[test]
    fn without_colours_a_text_is_itself() {
        assert_eq!(styled("x", Style::Bad, false), "x");
        assert_eq!(styled("x", Style::Bad, true), "\u{1b}[31mx\u{1b}[0m");
    }
}
