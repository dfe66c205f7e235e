//! Pictures and documents, recognized by their first bytes and never by their names, for models that accept them.
//!
//! Only headers are read: nothing is decoded, so that a hostile picture costs no more than its bytes.

use std::iter;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::content::Media;

/// Maximum size of a picture or document that providers accept, in bytes: 5 MiB in base64.
pub(crate) const MEDIA_BYTES: u64 = 5 * 1024 * 1024 / 4 * 3;
/// Maximum number of pixels per side that providers accept.
const SIDE_PIXELS: u32 = 8_000;

/// Kind of a file, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Png,
    Jpeg,
    Gif,
    Webp,
    Pdf,
}

impl Kind {
    /// The kind of a file that begins with `head`; 12 bytes are enough.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        if head.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some(Self::Png)
        } else if head.starts_with(b"\xff\xd8\xff") {
            Some(Self::Jpeg)
        } else if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") {
            Some(Self::Gif)
        } else if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
            Some(Self::Webp)
        } else if head.starts_with(b"%PDF-") {
            Some(Self::Pdf)
        } else {
            None
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Pdf => "application/pdf",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Png => "a PNG picture",
            Self::Jpeg => "a JPEG picture",
            Self::Gif => "a GIF picture",
            Self::Webp => "a WebP picture",
            Self::Pdf => "a PDF document",
        }
    }

    pub(crate) fn is_picture(self) -> bool {
        match self {
            Self::Png | Self::Jpeg | Self::Gif | Self::Webp => true,
            Self::Pdf => false,
        }
    }

    /// Whether the file is complete to the end that its format requires, and the critical chunks of a PNG have correct checksums:
    /// providers refuse the whole request over a picture that they cannot read.
    pub(crate) fn is_whole(self, bytes: &[u8]) -> bool {
        match self {
            Self::Png => is_whole_png(bytes),
            Self::Jpeg => {
                let mut from_data = jpeg_markers(bytes).skip_while(|(marker, _)| *marker != 0xda);
                from_data.any(|(marker, _)| marker == 0xd9)
            }
            Self::Gif => bytes.iter().rev().find(|byte| **byte != 0) == Some(&b';'),
            Self::Webp => little_32(bytes, 4).is_some_and(|size| u64::from(size) + 8 <= bytes.len() as u64),
            Self::Pdf => bytes.windows(5).any(|word| word == b"%%EOF"),
        }
    }

    /// Width and height of a picture; `None` where its header is broken.
    fn pixels(self, bytes: &[u8]) -> Option<(u32, u32)> {
        let (width, height) = match self {
            Self::Png => png(bytes)?,
            Self::Jpeg => jpeg(bytes)?,
            Self::Gif => (u32::from(little_16(bytes, 6)?), u32::from(little_16(bytes, 8)?)),
            Self::Webp => webp(bytes)?,
            Self::Pdf => return None,
        };
        (width > 0 && height > 0).then_some((width, height))
    }
}

/// A picture or document in a form for providers, with its tokens not yet counted; `None` where the bytes are neither, or providers refuse them as too large.
pub fn media_of(bytes: &[u8], path: &str) -> Option<Media> {
    examined(bytes, path)?.ok()
}

/// A picture or document, or the reason why providers refuse it; `None` if the bytes are neither.
pub(crate) fn examined(bytes: &[u8], path: &str) -> Option<Result<Media, String>> {
    let kind = Kind::of(bytes)?;
    let pixels = kind.pixels(bytes);
    if kind.is_picture() && pixels.is_none() {
        return None;
    }
    let label = label(kind, path, pixels, bytes.len() as u64);
    if bytes.len() as u64 > MEDIA_BYTES {
        return Some(Err(too_large(kind, &label)));
    }
    if pixels.is_some_and(|(width, height)| width.max(height) > SIDE_PIXELS) {
        return Some(Err(format!(
            "{label}; a picture may have at most {SIDE_PIXELS} pixels a side: make a smaller copy and read that"
        )));
    }
    Some(Ok(Media {
        media_type: kind.media_type().to_owned(),
        data: STANDARD.encode(bytes),
        label,
        pixels,
        tokens: 0,
    }))
}

/// Label of a file of `size` bytes that begins with `head` and is too large to be read in full.
pub(crate) fn too_large_of(kind: Kind, head: &[u8], path: &str, size: u64) -> String {
    too_large(kind, &label(kind, path, kind.pixels(head), size))
}

fn too_large(kind: Kind, label: &str) -> String {
    let hint = if kind.is_picture() {
        "make a smaller copy and read that"
    } else {
        "read its text"
    };
    format!("{label}; at most {MEDIA_BYTES} bytes can be shown: {hint}")
}

fn label(kind: Kind, path: &str, pixels: Option<(u32, u32)>, size: u64) -> String {
    let pixels = pixels.map_or_else(String::new, |(width, height)| {
        format!("{width} x {height} pixels, ")
    });
    format!("{path}: {}, {pixels}{size} bytes", kind.name())
}

fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    (bytes.get(12..16)? == b"IHDR").then_some((big_32(bytes, 16)?, big_32(bytes, 20)?))
}

/// Walks the chunks up to the last one. Critical chunks must match their checksums.
fn is_whole_png(bytes: &[u8]) -> bool {
    let (mut at, mut has_data) = (8, false);
    while let (Some(length), Some(kind)) = (big_32(bytes, at), array::<4>(bytes, at + 4)) {
        let Some(end) = usize::try_from(length)
            .ok()
            .and_then(|length| (at + 8).checked_add(length))
        else {
            return false;
        };
        let Some(chunk) = bytes.get(at + 4..end) else {
            return false;
        };
        let is_critical = kind[0].is_ascii_uppercase();
        if is_critical && big_32(bytes, end) != Some(crc_32(chunk)) {
            return false;
        }
        has_data |= &kind == b"IDAT";
        if &kind == b"IEND" {
            return has_data;
        }
        at = end + 4;
    }
    false
}

/// The checksum of a chunk of a PNG.
fn crc_32(bytes: &[u8]) -> u32 {
    let folded = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _bit| {
            if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        })
    });
    !folded
}

/// Reads the first frame header. Fails if image data, or the end of the image, comes before it.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let (_, at) = jpeg_markers(bytes)
        .take_while(|(marker, _)| !matches!(marker, 0xd9 | 0xda))
        // Frame headers: C4, C8 and CC are tables.
        .find(|(marker, _)| matches!(marker, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf))?;
    let (height, width) = (big_16(bytes, at + 3)?, big_16(bytes, at + 5)?);
    Some((u32::from(width), u32::from(height)))
}

/// Markers of a JPEG up to its end, each with the position after it. The contents of segments are skipped: metadata may
/// contain a thumbnail, which is a JPEG with an end. So are image data, and bytes that decoders ignore between segments.
fn jpeg_markers(bytes: &[u8]) -> impl Iterator<Item = (u8, usize)> {
    let mut next = Some(2);
    iter::from_fn(move || {
        let start = next?;
        // No segment begins with FF FF (a fill byte), FF 00 (FF in image data), or a marker without a length.
        let (before, marker) =
            bytes
                .get(start..)?
                .windows(2)
                .enumerate()
                .find_map(|(at, pair)| match pair {
                    [0xff, marker @ (0x02..=0xcf | 0xd8..=0xfe)] => Some((at, *marker)),
                    _ => None,
                })?;
        let at = start + before + 2;
        let length = big_16(bytes, at).filter(|length| *length >= 2 && marker != 0xd9);
        next = length.map(|length| at + usize::from(length));
        Some((marker, at))
    })
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8 " if bytes.get(23..26)? == b"\x9d\x01\x2a" => {
            let side = |at| little_16(bytes, at).map(|side| u32::from(side & 0x3fff));
            Some((side(26)?, side(28)?))
        }
        b"VP8L" if *bytes.get(20)? == 0x2f => {
            let packed = little_32(bytes, 21)?;
            Some(((packed & 0x3fff) + 1, ((packed >> 14) & 0x3fff) + 1))
        }
        b"VP8X" => {
            // 24 bits each; the highest byte belongs to the next field.
            let side = |at| little_32(bytes, at).map(|side| (side & 0x00ff_ffff) + 1);
            let height = little_32(bytes, 26).map(|side| (side >> 8) + 1)?;
            Some((side(24)?, height))
        }
        _ => None,
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn big_16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

fn big_32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

fn little_16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn little_32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests;
