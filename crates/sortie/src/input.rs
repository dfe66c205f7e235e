//! Texts that a command reads from a file or from standard input, up to a limit.

use std::{fs::File, io::Read, path::Path};

use sortie_api::plain;

use crate::failure::{Failure, Result};

/// Largest definition of a connection and largest token: every field at its limit fits.
pub(crate) const DEFINITION_BYTES: usize = 1 << 20;

/// Name of standard input in messages.
pub(crate) const STDIN: &str = "standard input";

/// Reads a file, or standard input for `-`. Returns the name of the source for messages, and the text.
pub(crate) fn file_or_stdin(path: &Path, stdin: &mut impl Read, limit: usize) -> Result<(String, String)> {
    if path == Path::new("-") {
        return Ok((STDIN.to_owned(), text(stdin, STDIN, limit)?));
    }
    Ok((path.display().to_string(), file(path, limit)?))
}

pub(crate) fn file(path: &Path, limit: usize) -> Result<String> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(mut file) => text(&mut file, &name, limit),
        Err(error) => Err(unreadable(&name, &error)),
    }
}

/// Reads a text of at most `limit` bytes.
pub(crate) fn text(source: &mut impl Read, name: &str, limit: usize) -> Result<String> {
    let mut text = String::new();
    source
        .take(limit as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| unreadable(name, &error))?;
    if text.len() > limit {
        return Err(Failure::usage(format!("{name}: larger than {limit} bytes")));
    }
    Ok(text)
}

fn unreadable(name: &str, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{name}: cannot be read: {}", plain::io(error)))
}
