//! The log of a job: a file of bounded size that holds its newest output.

use std::io::{self, SeekFrom};

use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use super::outputs::Room;
use crate::text;

/// Maximum size of a log, in bytes. A full log loses its older half.
pub(super) const LOG_BYTES: u64 = 4 << 20;
/// Length of a piece that is copied at once, in bytes.
const PIECE: usize = 64 << 10;

/// A file that holds the newest part of the written output.
pub(super) struct Log {
    file: tokio::fs::File,
    /// Releases the unused room of the log when it is closed.
    room: Room,
    bytes: u64,
    /// Length of the output that was dropped, in bytes.
    gone: u64,
    /// Length of the line that reports it, in bytes.
    mark: u64,
}

impl Log {
    /// Begins with an empty file that can be read and written, and room for [`LOG_BYTES`].
    pub(super) fn new(file: std::fs::File, room: Room) -> Self {
        Self {
            file: tokio::fs::File::from_std(file),
            room,
            bytes: 0,
            gone: 0,
            mark: 0,
        }
    }

    /// Appends a piece.
    pub(super) async fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.bytes + piece.len() as u64 > LOG_BYTES {
            self.halve().await?;
        }
        self.file.write_all(piece).await?;
        self.file.flush().await?;
        self.holds(self.bytes + piece.len() as u64);
        Ok(())
    }

    /// Records in the first line of an empty log that so many bytes were omitted.
    pub(super) async fn leave_out(&mut self, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.gone = bytes;
        self.begin(&[]).await
    }

    /// Appends the rest of a file.
    pub(super) async fn copy(&mut self, from: std::fs::File) -> io::Result<()> {
        let mut from = tokio::fs::File::from_std(from);
        let mut piece = Vec::with_capacity(PIECE);
        while from.read_buf(&mut piece).await? > 0 {
            self.write(&piece).await?;
            piece.clear();
        }
        Ok(())
    }

    /// Drops the older half, and records that in the first line.
    async fn halve(&mut self) -> io::Result<()> {
        let kept = self.bytes / 2;
        self.file.seek(SeekFrom::Start(self.bytes - kept)).await?;
        let mut newest = Vec::new();
        (&mut self.file).take(kept).read_to_end(&mut newest).await?;
        let line = newest
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        newest.drain(..line);
        self.gone += (self.bytes - self.mark).saturating_sub(newest.len() as u64);
        self.begin(&newest).await
    }

    /// Replaces the content by the line about the dropped bytes, followed by the output.
    async fn begin(&mut self, newest: &[u8]) -> io::Result<()> {
        let mark = format!("[… {} bytes left out …]\n", text::grouped(self.gone));
        self.file.set_len(0).await?;
        self.file.seek(SeekFrom::Start(0)).await?;
        self.file.write_all(mark.as_bytes()).await?;
        self.file.write_all(newest).await?;
        self.file.flush().await?;
        self.mark = mark.len() as u64;
        self.holds(self.mark + newest.len() as u64);
        Ok(())
    }

    const fn holds(&mut self, bytes: u64) {
        self.bytes = bytes;
        self.room.used = bytes;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[tokio::test]
    async fn a_log_holds_the_newest_lines_within_its_bound() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = Log::new(file.reopen().unwrap(), Room::default());
        log.leave_out(1_234).await.unwrap();
        let mut written = 0_u64;
        for number in 0..300 {
            let piece = format!("{number:0>8}\n").repeat(5_000);
            log.write(piece.as_bytes()).await.unwrap();
            written += piece.len() as u64;
        }
        let mut text = String::new();
        file.reopen().unwrap().read_to_string(&mut text).unwrap();
        assert!(text.len() as u64 <= LOG_BYTES && text.len() as u64 > LOG_BYTES / 2 - 100_000);
        let (mark, rest) = text.split_once('\n').unwrap();
        assert!(
            mark.starts_with("[… ") && mark.ends_with(" bytes left out …]"),
            "{mark}"
        );
        assert!(rest.lines().all(|line| line.len() == 8) && rest.ends_with("00000299\n"));
        let gone: u64 = mark
            .replace(',', "")
            .chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
            .parse()
            .unwrap();
        assert_eq!(gone, 1_234 + written - rest.len() as u64);
    }
}
