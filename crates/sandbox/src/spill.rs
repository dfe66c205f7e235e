//! Stores the beginning of a long stream in an unnamed file, so that it uses no memory and disappears when it is not needed.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom},
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{MemfdFlags, Mode, OFlags, memfd_create, openat},
    io::Errno,
};
use tokio::io::AsyncWriteExt;

/// Stores the beginning of a stream that is longer than `keep` bytes.
pub(crate) struct Spill {
    folder: OwnedFd,
    keep: usize,
    /// Bytes that it still accepts.
    left: u64,
    /// Accepted and not yet written.
    waiting: Vec<u8>,
    file: Option<tokio::fs::File>,
    failed: bool,
}

impl Spill {
    /// Stores at most `limit` bytes of a stream, on the file system of `folder`.
    pub(crate) fn new(folder: &OwnedFd, keep: usize, limit: u64) -> io::Result<Self> {
        Ok(Self {
            folder: folder.try_clone()?,
            keep,
            left: limit,
            waiting: Vec::new(),
            file: None,
            failed: false,
        })
    }

    /// Takes the next piece of the stream.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let taken = piece.get(..most.min(piece.len())).unwrap_or_default();
        self.waiting.extend_from_slice(taken);
        self.left = self
            .left
            .saturating_sub(u64::try_from(taken.len()).unwrap_or(u64::MAX));
    }

    /// Whether data must be written before more is accepted.
    pub(crate) fn is_due(&self) -> bool {
        !self.waiting.is_empty() && (self.file.is_some() || self.waiting.len() > self.keep)
    }

    /// Writes a part of the pending data. Cancel-safe. After a write error the rest of the stream is not stored.
    pub(crate) async fn write(&mut self) {
        if let Err(_disk_is_full) = self.try_write().await {
            self.failed = true;
            self.left = 0;
            self.waiting = Vec::new();
        }
    }

    async fn try_write(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            empty @ None => empty.insert(tokio::fs::File::from_std(nameless(&self.folder)?)),
        };
        let written = file.write(&self.waiting).await?;
        self.waiting.drain(..written);
        Ok(())
    }

    /// The file, positioned at its beginning; `None` for a stream that was short or could not be stored.
    pub(crate) async fn finish(mut self) -> Option<File> {
        while self.is_due() {
            self.write().await;
        }
        let mut file = self.file.filter(|_| !self.failed)?;
        file.flush().await.ok()?;
        let mut file = file.into_std().await;
        file.seek(SeekFrom::Start(0)).ok()?;
        Some(file)
    }
}

/// A file that disappears when it is closed; in memory if the file system does not support unnamed files.
fn nameless(folder: &OwnedFd) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match openat(folder.as_fd(), ".", flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
            Ok(File::from(memfd_create("output", MemfdFlags::CLOEXEC)?))
        }
        opened => Ok(File::from(opened?)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Returns the stored bytes of a stream of these pieces.
    async fn stored(pieces: &[&[u8]], keep: usize, limit: u64) -> Option<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let open = File::open(folder.path()).unwrap();
        let mut spill = Spill::new(&OwnedFd::from(open), keep, limit).unwrap();
        for piece in pieces {
            spill.push(piece);
            while spill.is_due() {
                spill.write().await;
            }
        }
        let file = spill.finish().await;
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "it has no name"
        );
        let mut content = Vec::new();
        file?.read_to_end(&mut content).unwrap();
        Some(content)
    }

    #[tokio::test]
    async fn a_stream_is_stored_from_its_beginning_once_it_is_long() {
        assert_eq!(stored(&[b"abc", b"def"], 6, 100).await, None);
        assert_eq!(stored(&[b"abc", b"def", b"g"], 6, 100).await.unwrap(), b"abcdefg");
        let large = vec![7; 5_000_000];
        assert_eq!(stored(&[&large], 6, 8 << 20).await.unwrap(), large);
    }

    #[tokio::test]
    async fn no_more_is_stored_than_the_limit() {
        assert_eq!(stored(&[b"abcdef", b"ghi"], 2, 7).await.unwrap(), b"abcdefg");
        assert_eq!(stored(&[b"abcdef", b"ghi"], 2, 0).await, None);
    }
}
