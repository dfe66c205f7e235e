//! Text that is piped to a command: the output of another program is data for the run, in addition to its prompt.

use std::{
    io::{self, IsTerminal as _},
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, SeekFrom, fstat, seek},
    io::{read, retry_on_intr},
};
use sortie_api::{limits::INPUT_BYTES, plain};

use crate::{
    failure::{Failure, Result},
    terminal,
};

/// Time after which a command reports that it waits for the end of standard input.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads the text on standard input, if a program or a file is there; `None` from a terminal, from /dev/null, and if
/// there is only white space.
///
/// # Errors
/// Fails for text that a run cannot have as its input.
pub(crate) fn text() -> Result<Option<String>> {
    let stdin = io::stdin();
    if stdin.is_terminal() || !is_given(stdin.as_fd()) {
        if is_begun(stdin.as_fd()) {
            terminal::note(
                "note: another command has read the beginning of standard input, so the rest is not sent; `cat | sortie run \
                 …` sends it, `</dev/null` sends none",
            );
        }
        return Ok(None);
    }
    let bytes = all(stdin.as_fd())
        .map_err(|error| Failure::usage(format!("cannot read standard input: {}", plain::io(&error))))?;
    let as_file = "send it as a file by --file";
    if bytes.len() > INPUT_BYTES {
        return Err(Failure::usage(format!(
            "standard input: more than 1 MiB, the most that a run takes as its input; {as_file}"
        )));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("standard input: not UTF-8 text; {as_file}")))?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// Whether a program or a file gives the text. A partly read file belongs to another process, such as a shell loop that
/// starts a run for each of its lines.
fn is_given(stdin: BorrowedFd<'_>) -> bool {
    let Ok(found) = fstat(stdin) else {
        return false;
    };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Fifo | FileType::Socket => true,
        FileType::RegularFile => seek(stdin, SeekFrom::Current(0)) == Ok(0),
        FileType::Directory
        | FileType::Symlink
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => false,
    }
}

/// Whether a file is partly read, and has a rest.
fn is_begun(stdin: BorrowedFd<'_>) -> bool {
    let Ok(found) = fstat(stdin) else {
        return false;
    };
    let position = seek(stdin, SeekFrom::Current(0))
        .ok()
        .and_then(|at| i64::try_from(at).ok());
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        && position.is_some_and(|at| at > 0 && at < found.st_size)
}

/// Reads to the end, or to one byte more than a run accepts.
fn all(stdin: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let (mut bytes, mut piece, begun, mut is_told) = (Vec::new(), [0; 16 * 1024], Instant::now(), false);
    while bytes.len() <= INPUT_BYTES {
        if !is_told && !is_ready(stdin, PATIENCE.saturating_sub(begun.elapsed()))? {
            is_told = true;
            terminal::error(
                "waiting for the end of standard input, which is the input of the run; `</dev/null` gives it none",
            );
        }
        match retry_on_intr(|| read(stdin, &mut piece))? {
            0 => break,
            length => bytes.extend(piece.get(..length).unwrap_or_default()),
        }
    }
    Ok(bytes)
}

/// Waits until there is something to read, or the end. Returns false if neither comes in time.
fn is_ready(stdin: BorrowedFd<'_>, time: Duration) -> io::Result<bool> {
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    let ready = retry_on_intr(|| poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&time)))?;
    Ok(ready > 0)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read as _, Write as _},
    };

    use super::*;

    #[test]
    fn a_pipe_and_a_file_from_its_beginning_give_text_and_a_device_does_not() {
        let (reader, mut writer) = io::pipe().unwrap();
        assert!(is_given(reader.as_fd()));
        writer.write_all(b"some text").unwrap();
        drop(writer);
        assert_eq!(all(reader.as_fd()).unwrap(), b"some text");

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        std::fs::write(&path, "first\nsecond\n").unwrap();
        let mut file = File::open(&path).unwrap();
        assert!(is_given(file.as_fd()));
        file.read_exact(&mut [0; 6]).unwrap();
        assert!(!is_given(file.as_fd()), "a loop reads its lines");
        assert!(is_begun(file.as_fd()));
        std::io::copy(&mut file, &mut io::sink()).unwrap();
        assert!(!is_begun(file.as_fd()), "nothing is left");
        assert!(!is_given(File::open("/dev/null").unwrap().as_fd()));
    }

    #[test]
    fn no_more_is_read_than_a_run_takes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        File::create(&path).unwrap().set_len(3 << 20).unwrap();
        let read = all(File::open(&path).unwrap().as_fd()).unwrap();
        assert!(
            (INPUT_BYTES + 1..2 * INPUT_BYTES).contains(&read.len()),
            "{}",
            read.len()
        );
    }
}
