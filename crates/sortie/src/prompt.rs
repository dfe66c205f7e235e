//! Asks a person for a credential. The input is not shown, and the terminal is restored afterwards, whichever key ends
//! the input.

use std::io::{self, IsTerminal as _};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use sortie_api::plain;

use crate::{
    failure::{Failure, Result},
    terminal,
};

/// Result of the keys of a line.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    /// The line was ended.
    Line(Vec<u8>),
    /// Ctrl-C, or Ctrl-D on an empty line.
    GivenUp,
}

/// The terminal without echo and line editing: every key is read at once.
struct Quiet(Termios);

impl Quiet {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing.
        let _restored = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Asks a person `question` and returns the answer, at most `limit` bytes; `None` if standard input is not a terminal.
pub(crate) fn hidden(question: &str, limit: usize) -> Result<Option<String>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    let typed = {
        let _quiet = Quiet::begin().map_err(unread)?;
        // Ask only now: input from before echo was turned off is discarded.
        terminal::ask(question);
        keys(limit, || {
            let mut byte = [0];
            let read = rustix::io::retry_on_intr(|| rustix::io::read(io::stdin(), &mut byte))?;
            Ok((read == 1).then_some(byte[0]))
        })
    };
    terminal::note("");
    match typed.map_err(unread)? {
        Typed::GivenUp => Err(Failure::left()),
        Typed::Line(bytes) => String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| Failure::usage("what was typed is not UTF-8 text")),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` takes")]
fn unread(error: io::Error) -> Failure {
    Failure::internal(format!("the terminal cannot be read: {}", plain::io(&error)))
}

/// Reads a person's answer to `question` with echo, and trims it; `None` if standard input is not a terminal, or was
/// closed.
pub(crate) fn line(question: &str) -> Result<Option<String>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    terminal::ask(question);
    let mut typed = String::new();
    let read = io::stdin().read_line(&mut typed).map_err(unread)?;
    Ok((read > 0).then(|| typed.trim().to_owned()))
}

/// Reads keys to the end of a line; input beyond `limit` bytes is dropped.
fn keys(limit: usize, mut key: impl FnMut() -> io::Result<Option<u8>>) -> io::Result<Typed> {
    let mut bytes = Vec::new();
    loop {
        match key()? {
            None | Some(0x03) => return Ok(Typed::GivenUp),
            Some(0x04) if bytes.is_empty() => return Ok(Typed::GivenUp),
            Some(b'\n' | b'\r' | 0x04) => return Ok(Typed::Line(bytes)),
            // Ctrl-U.
            Some(0x15) => bytes.clear(),
            // A backspace takes a whole character away.
            Some(0x08 | 0x7f) => while bytes.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            Some(byte) if bytes.len() < limit => bytes.push(byte),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[u8]) -> Typed {
        let mut keys = keys.iter().copied();
        super::keys(8, || Ok(keys.next())).unwrap()
    }

    #[test]
    fn a_line_is_what_is_left_of_its_keys() {
        let line = |text: &str| Typed::Line(text.as_bytes().to_vec());
        assert_eq!(typed(b"hush\nmore"), line("hush"));
        assert_eq!(typed(b"hush\r"), line("hush"));
        assert_eq!(typed("hé\u{7f}u\u{8}ush\n".as_bytes()), line("hush"));
        assert_eq!(typed(b"\x7fwrong\x15right\n"), line("right"));
        assert_eq!(typed(b"much too long\n"), line("much too"));
        assert_eq!(typed(b"\n"), line(""));
        for given_up in [&b"hush\x03\n"[..], b"\x04", b"hush"] {
            assert_eq!(typed(given_up), Typed::GivenUp);
        }
    }
}
