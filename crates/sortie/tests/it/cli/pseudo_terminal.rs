//! Commands on a pseudo terminal, as a person uses them.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    process::{Child, Command},
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::kill;
use crate::prelude::*;

/// A command on a terminal, killed on drop.
pub(super) struct OnTerminal {
    child: Child,
    controller: File,
    shown: Vec<u8>,
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // Already gone is as good.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl OnTerminal {
    /// Starts a command on a terminal of this width.
    pub(super) fn start(mut command: Command, columns: u16) -> Result<Self> {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&controller)?;
        unlockpt(&controller)?;
        let path = ptsname(&controller, Vec::new())?;
        let terminal = File::options().read(true).write(true).open(path.to_str()?)?;
        let size = Winsize {
            ws_row: 40,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size)?;
        command
            .env("TERM", "xterm")
            .stdin(terminal.try_clone()?)
            .stdout(terminal.try_clone()?)
            .stderr(terminal);
        // The command of this process, and with it its side of the terminal, is dropped here: the end of the terminal is
        // then the end of the child.
        Ok(Self {
            child: command.spawn()?,
            controller: File::from(controller),
            shown: Vec::new(),
        })
    }

    /// Interrupts the command, as Ctrl-C does.
    pub(super) fn interrupt(&self) -> Checked {
        exits(kill(i32::try_from(self.child.id())?, "-INT"), 0)?;
        Ok(())
    }

    /// Types keys.
    pub(super) fn keys(&mut self, keys: &str) -> Checked {
        Ok(self.controller.write_all(keys.as_bytes())?)
    }

    /// Waits until the terminal has got this text.
    pub(super) fn until(&mut self, wanted: &str) -> Checked {
        while !self.text().contains(wanted) {
            ensure!(self.read(), "it ended without {wanted:?}:\n{}", self.text());
        }
        Ok(())
    }

    /// Waits for the end. Returns the exit code, and all that the terminal got.
    pub(super) fn end(mut self) -> Result<(Option<i32>, String)> {
        while self.read() {}
        Ok((self.child.wait()?.code(), self.text()))
    }

    fn text(&self) -> String {
        plain_text(&text(&self.shown))
    }

    /// Reads a piece. Returns false at the end, which Linux reports as an error.
    fn read(&mut self) -> bool {
        let mut piece = [0; 4096];
        match self.controller.read(&mut piece) {
            Ok(length @ 1..) => {
                self.shown.extend_from_slice(&piece[..length]);
                true
            }
            Ok(0) | Err(_) => false,
        }
    }
}

/// Returns a text without escape sequences.
fn plain_text(shown: &str) -> String {
    let mut plain = String::new();
    let mut rest = shown;
    while let Some((before, sequence)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let end = sequence
            .find(|c: char| c.is_ascii_alphabetic())
            .map_or(sequence.len(), |at| at + 1);
        rest = &sequence[end..];
    }
    plain + rest
}
