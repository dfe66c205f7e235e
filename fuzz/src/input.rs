//! An input as the fuzzer changes it, and as a parser reads it.
//!
//! The first byte chooses among the ways to feed the parser. In texts, a part between the bytes 1 and 2 is repeated as
//! often as the byte after them says: 2 to the power of its lower four bits. So a short input that the fuzzer can still
//! understand stands for a long one, in which a cost that grows faster than its input shows.

/// Begins a part that is repeated.
const OPEN: u8 = 1;
/// Ends it; the next byte has the power of two.
const CLOSE: u8 = 2;
/// Sizes of chunks that a stream can be fed in.
const CHUNKS: [usize; 4] = [1, 2, 7, 1000];

/// Bytes that a parser is fed.
#[derive(Debug)]
pub struct Input {
    choice: u8,
    /// The bytes to parse.
    pub bytes: Vec<u8>,
}

impl Input {
    /// The bytes as they are, at most `most` of them.
    pub fn plain(data: &[u8], most: usize) -> Self {
        let (choice, bytes) = data.split_first().unwrap_or((&0, &[]));
        Self {
            choice: *choice,
            bytes: bytes.iter().copied().take(most).collect(),
        }
    }

    /// A text of at most `most` bytes, in which parts may be repeated.
    pub fn repeated(data: &[u8], most: usize) -> Self {
        let (choice, mut rest) = data.split_first().unwrap_or((&0, &[]));
        let mut bytes = Vec::new();
        while let Some(open) = rest.iter().position(|byte| *byte == OPEN) {
            let (before, after) = rest.split_at(open);
            bytes.extend_from_slice(before);
            rest = after.get(1..).unwrap_or_default();
            let close = rest.iter().position(|byte| *byte == CLOSE);
            let Some((part, after)) = close.map(|close| rest.split_at(close)) else {
                continue;
            };
            let Some((_, [power, after @ ..])) = after.split_first() else {
                continue;
            };
            let times = (1 << (power & 15)).min(most / part.len().max(1));
            for _ in 0..times {
                bytes.extend_from_slice(part);
            }
            rest = after;
            if bytes.len() > most {
                break;
            }
        }
        bytes.extend_from_slice(rest);
        bytes.truncate(most);
        Self {
            choice: *choice,
            bytes,
        }
    }

    /// Chooses one of `ways` by the first byte of the input.
    pub fn way<T: Copy, const N: usize>(&self, ways: [T; N]) -> Option<T> {
        ways.get(usize::from(self.choice >> 2) % N).copied()
    }

    /// The bytes in chunks, whose size the first byte of the input chooses.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let size = CHUNKS.get(usize::from(self.choice) % CHUNKS.len());
        self.bytes.chunks(size.copied().unwrap_or(1))
    }
}
