//! Decodes the fuzzer's input into the input of a parser.
//!
//! The first byte selects how the parser is fed. In texts, a part between the bytes 1 and 2 is repeated; the lower four bits of
//! the next byte are the exponent of a power of two. A short input, which the fuzzer handles well, can therefore expand to a long
//! one, which reveals costs that grow faster than the input.

/// Starts a repeated part.
const OPEN: u8 = 1;
/// Ends the repeated part. The next byte has the exponent.
const CLOSE: u8 = 2;
/// Sizes of chunks for feeding a stream.
const CHUNKS: [usize; 4] = [1, 2, 7, 1000];

/// Input of a parser.
#[derive(Debug)]
pub struct Input {
    choice: u8,
    /// The bytes to parse.
    pub bytes: Vec<u8>,
}

impl Input {
    /// Returns the unchanged bytes, at most `most` of them.
    pub fn plain(data: &[u8], most: usize) -> Self {
        let (choice, bytes) = data.split_first().unwrap_or((&0, &[]));
        Self {
            choice: *choice,
            bytes: bytes.iter().copied().take(most).collect(),
        }
    }

    /// Returns a text of at most `most` bytes, with repeated parts expanded.
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

    /// Selects one of `ways` by the first byte of the input.
    pub fn way<T: Copy, const N: usize>(&self, ways: [T; N]) -> Option<T> {
        ways.get(usize::from(self.choice >> 2) % N).copied()
    }

    /// Splits the bytes into chunks. The first byte of the input selects their size.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let size = CHUNKS.get(usize::from(self.choice) % CHUNKS.len());
        self.bytes.chunks(size.copied().unwrap_or(1))
    }
}
