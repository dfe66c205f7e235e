//! The two streams of a job: read in pieces, into its log and for the model's next look.

use std::{io, pin::Pin, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::{sleep, timeout},
};

use super::{super::log::Log, Shared};

/// Length of a piece that is read at once, in bytes.
const PIECE: usize = 64 << 10;
/// The pause after a piece that was full: a job that floods its log is slowed down to some 13 MB/s.
const PAUSE: Duration = Duration::from_millis(5);
/// Maximum number of pieces that are read at the end of a job: enough to empty two pipes of the largest size.
const LAST_PIECES: usize = 32;
/// Time after which an ended job has nothing left in its pipes: longer than the runtime takes to poll them.
const MOMENT: Duration = Duration::from_millis(10);

type Reader = Pin<Box<dyn AsyncRead + Send + Sync>>;

/// Standard output and standard error of a job, and its log.
pub(super) struct Streams {
    readers: [Option<Reader>; 2],
    pieces: [Vec<u8>; 2],
    /// Whether standard error comes first when both have output: after a full piece of standard output.
    stderr_first: bool,
    log: Option<Log>,
}

/// A piece that was read: the number of its stream, and its length. No length is the end of the stream.
pub(super) type Piece = (usize, io::Result<usize>);

impl Streams {
    pub(super) fn new(readers: [Box<dyn AsyncRead + Send + Sync + Unpin>; 2], log: Option<Log>) -> Self {
        Self {
            readers: readers.map(|reader| Some(Box::into_pin(reader as Box<dyn AsyncRead + Send + Sync>))),
            pieces: [(); 2].map(|()| Vec::with_capacity(PIECE)),
            stderr_first: false,
            log,
        }
    }

    /// Whether one of them has not ended.
    pub(super) fn are_open(&self) -> bool {
        self.readers.iter().any(Option::is_some)
    }

    /// Reads one piece; waits forever once both streams have ended. Cancel-safe.
    pub(super) async fn read(&mut self) -> Piece {
        let [stdout, stderr] = &mut self.readers;
        let [out, err] = &mut self.pieces;
        if self.stderr_first {
            tokio::select! {
                biased;
                read = piece(stderr, err) => (1, read),
                read = piece(stdout, out) => (0, read),
            }
        } else {
            tokio::select! {
                biased;
                read = piece(stdout, out) => (0, read),
                read = piece(stderr, err) => (1, read),
            }
        }
    }

    /// Keeps a piece that was read.
    pub(super) async fn keep(&mut self, (number, read): Piece, shared: &Shared) {
        let (Some(reader), Some(piece)) = (self.readers.get_mut(number), self.pieces.get_mut(number)) else {
            return;
        };
        // A stream that cannot be read has ended for us.
        if !matches!(read, Ok(1..)) {
            *reader = None;
            return;
        }
        shared.state().unseen.push(piece);
        if let Some(log) = &mut self.log
            && log.write(piece).await.is_err()
        {
            self.log = None;
        }
        let was_full = piece.len() == PIECE;
        piece.clear();
        self.stderr_first = was_full && number == 0;
        if was_full {
            sleep(PAUSE).await;
        }
    }

    /// Reads the rest of an ended job's pipes. Bounded: a process that it left may continue to write.
    pub(super) async fn read_rest(&mut self, shared: &Shared) {
        for _ in 0..LAST_PIECES {
            if !self.are_open() {
                return;
            }
            match timeout(MOMENT, self.read()).await {
                Ok(piece) => self.keep(piece, shared).await,
                Err(_nothing_there) => return,
            }
        }
    }
}

async fn piece(reader: &mut Option<Reader>, piece: &mut Vec<u8>) -> io::Result<usize> {
    match reader {
        Some(reader) => reader.read_buf(piece).await,
        None => std::future::pending().await,
    }
}
