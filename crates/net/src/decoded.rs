//! Bodies of responses without their content coding.
//!
//! A server may compress a response that did not ask for it (RFC 9110, section 12.5.3), so we read every body through this
//! module. It decodes `gzip` (RFC 1952) and `deflate` (RFC 1950, and RFC 1951 as many servers send it). A step returns at most
//! [`STEP_BYTES`], which bounds the memory of a decompression bomb. The caller must limit the total length.

use bytes::{Buf, Bytes, BytesMut};
use miniz_oxide::{
    DataFormat, MZError, MZFlush, MZStatus,
    inflate::stream::{InflateState, inflate},
};
use reqwest::{
    Response,
    header::{CONTENT_ENCODING, HeaderMap},
};

use crate::Error;

/// Maximum number of bytes that one step returns.
const STEP_BYTES: usize = 32 * 1024;
/// Maximum size of the header of a gzip member, in bytes: it can contain a name and a comment.
const HEADER_BYTES: usize = 64 * 1024;
/// Maximum number of consecutive bytes without output. Without it, a body of empty parts could be read endlessly.
const MOST_SILENT_BYTES: usize = 1 << 20;
/// First bytes of a gzip member.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Size of the checksum and the length after a gzip member, in bytes.
const TRAILER_BYTES: usize = 8;

/// Body of a response, decoded if its coding is supported. A body in another coding is returned unchanged; [`unknown_coding`]
/// names that coding.
#[derive(Debug)]
pub struct DecodedBody {
    response: Response,
    decoder: Option<Decoder>,
}

impl DecodedBody {
    /// Reads the body of `response`.
    pub fn new(response: Response) -> Self {
        let decoder = match coding_of(response.headers()) {
            Coding::Gzip => Some(Decoder::new(Format::Gzip)),
            Coding::Deflate => Some(Decoder::new(Format::Deflate)),
            Coding::Identity | Coding::Unknown(_) => None,
        };
        Self { response, decoder }
    }

    /// Returns the next piece, or `None` at the end. Cancel-safe.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(decoder) = &mut self.decoder else {
            return Ok(self.response.chunk().await?);
        };
        loop {
            if let Some(piece) = decoder.next()? {
                return Ok(Some(piece));
            }
            if decoder.has_ended {
                return Ok(None);
            }
            match self.response.chunk().await? {
                Some(chunk) => decoder.unread.extend_from_slice(&chunk),
                None => decoder.has_ended = true,
            }
        }
    }
}

/// Returns the unsupported coding of a response, for error messages.
pub fn unknown_coding(headers: &HeaderMap) -> Option<String> {
    match coding_of(headers) {
        Coding::Unknown(name) => Some(name),
        Coding::Identity | Coding::Gzip | Coding::Deflate => None,
    }
}

enum Coding {
    Identity,
    Gzip,
    Deflate,
    Unknown(String),
}

/// Returns the coding of a response. We do not decode several codings on top of each other.
fn coding_of(headers: &HeaderMap) -> Coding {
    let named: Vec<String> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .flat_map(|value| {
            let value = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
            value
                .split(',')
                .map(|coding| coding.trim().to_owned())
                .collect::<Vec<_>>()
        })
        .filter(|coding| !coding.is_empty() && coding != "identity")
        .collect();
    match named.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Coding::Identity,
        ["gzip" | "x-gzip"] => Coding::Gzip,
        ["deflate"] => Coding::Deflate,
        _ => Coding::Unknown(named.join(", ").chars().take(40).collect()),
    }
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Gzip,
    Deflate,
}

enum Stage {
    /// At the start of the body, or of a gzip member after another one.
    Start,
    Inflating(Box<InflateState>),
    /// In the trailer of a gzip member, which can be missing if the body has a wrong length.
    Trailer,
    /// The body is not in the coding that its response names.
    Plain,
    Done,
}

struct Decoder {
    format: Format,
    stage: Stage,
    unread: BytesMut,
    /// Whether no more bytes will be added to `unread`.
    has_ended: bool,
    /// Whether a gzip member was decoded.
    has_member: bool,
    /// Number of bytes of the body since the last output.
    silent: usize,
    step: Box<[u8]>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder")
            .field("format", &self.format)
            .field("unread", &self.unread.len())
            .finish_non_exhaustive()
    }
}

impl Decoder {
    fn new(format: Format) -> Self {
        Self {
            format,
            stage: Stage::Start,
            unread: BytesMut::new(),
            has_ended: false,
            has_member: false,
            silent: 0,
            step: vec![0; STEP_BYTES].into(),
        }
    }

    /// Returns the next piece. `None` if it needs more of the body, and at the end.
    fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            match &mut self.stage {
                Stage::Start => match self.start()? {
                    Some(stage) => self.stage = stage,
                    None => return Ok(None),
                },
                Stage::Inflating(state) => {
                    let read = inflate(state, &self.unread, &mut self.step, MZFlush::None);
                    self.unread.advance(read.bytes_consumed);
                    self.silent += read.bytes_consumed;
                    let has_moved = read.bytes_consumed + read.bytes_written > 0;
                    match read.status {
                        Ok(MZStatus::StreamEnd) => {
                            self.has_member = true;
                            self.stage = match self.format {
                                Format::Gzip => Stage::Trailer,
                                Format::Deflate => Stage::Done,
                            };
                        }
                        Ok(_) | Err(MZError::Buf) if has_moved => {}
                        Ok(_) | Err(MZError::Buf) if self.has_ended => return Err(Error::CutOff),
                        Ok(_) | Err(MZError::Buf) => return Ok(None),
                        Err(_) => return Err(Error::Undecodable),
                    }
                    if let Some(piece) = self
                        .step
                        .get(..read.bytes_written)
                        .filter(|piece| !piece.is_empty())
                    {
                        self.silent = 0;
                        return Ok(Some(Bytes::copy_from_slice(piece)));
                    }
                    if self.silent > MOST_SILENT_BYTES {
                        return Err(Error::Undecodable);
                    }
                }
                Stage::Trailer => {
                    if self.unread.len() < TRAILER_BYTES && !self.has_ended {
                        return Ok(None);
                    }
                    self.unread.advance(TRAILER_BYTES.min(self.unread.len()));
                    self.silent += TRAILER_BYTES;
                    self.stage = Stage::Start;
                }
                Stage::Plain => {
                    let piece = self.unread.split().freeze();
                    return Ok((!piece.is_empty()).then_some(piece));
                }
                Stage::Done => {
                    self.unread.clear();
                    return Ok(None);
                }
            }
        }
    }

    /// Examines the first bytes and removes a gzip header. `None` if they have not all arrived, and for an empty body.
    fn start(&mut self) -> Result<Option<Stage>, Error> {
        let Some(first) = self.unread.first_chunk::<2>().copied() else {
            return Ok((self.has_ended && !self.unread.is_empty()).then(|| self.stage_of_no_coding()));
        };
        match self.format {
            Format::Gzip if first == GZIP => match header_length(&self.unread) {
                Some(length) => {
                    self.unread.advance(length);
                    Ok(Some(Stage::Inflating(InflateState::new_boxed(DataFormat::Raw))))
                }
                None if self.has_ended => Err(Error::CutOff),
                None if self.unread.len() > HEADER_BYTES => Err(Error::Undecodable),
                None => Ok(None),
            },
            Format::Gzip => Ok(Some(self.stage_of_no_coding())),
            Format::Deflate => {
                let is_zlib = first[0] & 0x0f == 8 && u16::from_be_bytes(first).is_multiple_of(31);
                let format = if is_zlib {
                    DataFormat::ZLibIgnoreChecksum
                } else {
                    DataFormat::Raw
                };
                Ok(Some(Stage::Inflating(InflateState::new_boxed(format))))
            }
        }
    }

    /// Returns the stage for a body that does not start like its coding: servers name codings that they do not use. Bytes after a
    /// gzip member are padding.
    fn stage_of_no_coding(&self) -> Stage {
        if self.has_member {
            Stage::Done
        } else {
            Stage::Plain
        }
    }
}

/// Returns the size of the header of a gzip member (RFC 1952, section 2.3). `None` if it has not arrived completely.
fn header_length(bytes: &[u8]) -> Option<usize> {
    let flags = *bytes.get(3)?;
    let has = |flag: u8| flags & flag != 0;
    let mut length = 10;
    if has(4) {
        let extra = bytes.get(length..)?.first_chunk::<2>()?;
        length += 2 + usize::from(u16::from_le_bytes(*extra));
    }
    for text in [8, 16] {
        if has(text) {
            length += bytes.get(length..)?.iter().position(|byte| *byte == 0)? + 1;
        }
    }
    if has(2) {
        length += 2;
    }
    (bytes.len() >= length).then_some(length)
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};
    use proptest::prelude::*;

    use super::*;

    /// Decodes a body that arrives in chunks of `size` bytes.
    fn decoded(format: Format, body: &[u8], size: usize) -> Result<Vec<u8>, Error> {
        let (mut decoder, mut found) = (Decoder::new(format), Vec::new());
        let mut chunks = body.chunks(size);
        loop {
            while let Some(piece) = decoder.next()? {
                assert!(piece.len() <= STEP_BYTES.max(size));
                found.extend_from_slice(&piece);
            }
            match chunks.next() {
                Some(chunk) => decoder.unread.extend_from_slice(chunk),
                None if decoder.has_ended => return Ok(found),
                None => decoder.has_ended = true,
            }
        }
    }

    fn gzip(flags: u8, header: &[u8], content: &[u8]) -> Vec<u8> {
        let mut body = vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 255];
        body.extend_from_slice(header);
        body.extend_from_slice(&compress_to_vec(content, 6));
        body.extend_from_slice(&[0; TRAILER_BYTES]);
        body
    }

    #[test]
    fn a_body_without_content_ends() {
        let members = gzip(0, b"", b"").repeat(200_000);
        assert!(matches!(
            decoded(Format::Gzip, &members, 65_536),
            Err(Error::Undecodable)
        ));
        let blocks = [vec![0x78, 0x01], [0, 0, 0, 0xff, 0xff].repeat(300_000)].concat();
        assert!(matches!(
            decoded(Format::Deflate, &blocks, 65_536),
            Err(Error::Undecodable)
        ));
        let few = [gzip(0, b"", b"").repeat(1_000), gzip(0, b"", b"one")].concat();
        assert_eq!(decoded(Format::Gzip, &few, 65_536).unwrap(), b"one");
    }

    #[test]
    fn every_form_of_a_compressed_body_is_decoded_however_it_arrives() {
        let words = b"{\"a\": 1} ".repeat(9_000);
        let two = [gzip(0, b"", b"one"), gzip(0, b"", b" two")].concat();
        let filled_up = [gzip(0, b"", b"one"), vec![0; 700]].concat();
        let without_trailer = gzip(0, b"", b"one");
        let all_fields = gzip(2 | 4 | 8 | 16, b"\x03\0abcname\0a comment\0\xab\xcd", b"one");
        let bodies: [(Format, Vec<u8>, &[u8]); 12] = [
            (Format::Gzip, gzip(0, b"", &words), &words),
            (Format::Gzip, gzip(0, b"", b""), b""),
            (Format::Gzip, all_fields, b"one"),
            (Format::Gzip, two, b"one two"),
            (Format::Gzip, filled_up, b"one"),
            (
                Format::Gzip,
                without_trailer[..without_trailer.len() - 5].to_vec(),
                b"one",
            ),
            (Format::Gzip, b"".to_vec(), b""),
            // The response names a coding but does not use it.
            (Format::Gzip, b"{\"a\": 1}".to_vec(), b"{\"a\": 1}"),
            (Format::Gzip, b"7".to_vec(), b"7"),
            (Format::Deflate, compress_to_vec_zlib(&words, 6), &words),
            (Format::Deflate, compress_to_vec(&words, 6), &words),
            (Format::Deflate, b"".to_vec(), b""),
        ];
        for (format, body, content) in bodies {
            for size in [1, 7, body.len().max(1)] {
                let found = decoded(format, &body, size).unwrap();
                assert!(found == content, "{format:?} in chunks of {size}");
            }
        }
    }

    #[test]
    fn a_body_that_ends_early_or_is_broken_is_an_error() {
        let whole = gzip(8, b"name\0", &b"some words ".repeat(100));
        for end in [5, 12, 20, whole.len() - TRAILER_BYTES - 1] {
            let found = decoded(Format::Gzip, &whole[..end], 1);
            assert!(matches!(found, Err(Error::CutOff)), "{end}: {found:?}");
        }
        let mut endless_name = gzip(8, b"", b"");
        endless_name.truncate(10);
        endless_name.extend(vec![b'n'; HEADER_BYTES]);
        let broken = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255][..], &[0xff; 40]].concat();
        for body in [endless_name, broken] {
            let found = decoded(Format::Gzip, &body, body.len());
            assert!(matches!(found, Err(Error::Undecodable)), "{found:?}");
        }
    }

    #[test]
    fn a_bomb_is_unpacked_step_by_step() {
        let bomb = gzip(0, b"", &vec![0; 64 << 20]);
        let mut decoder = Decoder::new(Format::Gzip);
        decoder.unread.extend_from_slice(&bomb);
        for _step in 0..100 {
            assert!(decoder.next().unwrap().unwrap().len() <= STEP_BYTES);
        }
    }

    #[test]
    fn codings_are_known_by_their_names() {
        let named: [(&[&str], Option<&str>); 8] = [
            (&[], None),
            (&["identity"], None),
            (&["GZIP"], None),
            (&["x-gzip"], None),
            (&["deflate, identity"], None),
            (&["br"], Some("br")),
            (&["gzip, gzip"], Some("gzip, gzip")),
            (&["deflate", "zstd"], Some("deflate, zstd")),
        ];
        for (values, unknown) in named {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_ENCODING, value.parse().unwrap());
            }
            assert_eq!(unknown_coding(&headers).as_deref(), unknown, "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in any::<Vec<u8>>(), size in 1_usize..9) {
            let _ = decoded(Format::Gzip, &body, size);
            let _ = decoded(Format::Gzip, &gzip(0, b"", &body)[..], size);
            let _ = decoded(Format::Deflate, &body, size);
        }
    }
}
