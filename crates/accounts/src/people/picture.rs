//! Rules for a person's picture: format, size, and removal of all metadata.
//!
//! Nothing is decoded. The parser copies the parts of the file, and drops parts with metadata or text. Of an animation only the
//! first image is kept.

use bytes::{BufMut as _, Bytes, BytesMut};
use img_parts::{
    ImageEXIF as _,
    jpeg::{Jpeg, JpegSegment, markers},
    png::Png,
    riff::{RiffChunk, RiffContent},
    webp::WebP,
};

/// Maximum size of a picture, in bytes.
pub const PICTURE_BYTES: usize = 256 * 1024;

/// Maximum width and height of a picture, in pixels.
const LONGEST_SIDE: u32 = 4_096;

/// Maximum size of a colour profile in the file, in bytes. A PNG compresses the profile, by a factor of 1,000 at most. The
/// profiles of sRGB and of the usual displays have about 3 KiB.
const PROFILE_BYTES: usize = 4 * 1024;

/// Format of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Png,
    Jpeg,
    WebP,
}

/// Picture without metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) format: Format,
    pub(crate) bytes: Bytes,
}

/// Rule that a file breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoPicture {
    #[error("Content-Type: must be image/png, image/jpeg or image/webp")]
    Type,
    #[error("the picture must be at most {PICTURE_BYTES} bytes")]
    TooLarge,
    #[error("the body must be a complete {0} picture")]
    Broken(&'static str),
    #[error("the picture must have 1 to {LONGEST_SIDE} pixels on each side")]
    Sides,
}

impl Format {
    const ALL: [Self; 3] = [Self::Png, Self::Jpeg, Self::WebP];

    /// Media type of the format.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::WebP => "image/webp",
        }
    }

    /// Returns the format of a media type. Parameters are ignored.
    pub(crate) fn of(content_type: &str) -> Option<Self> {
        let named = content_type.split(';').next().unwrap_or_default().trim();
        Self::ALL
            .into_iter()
            .find(|format| named.eq_ignore_ascii_case(format.media_type()))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::WebP => "WebP",
        }
    }
}

/// Checks a file of this media type, and removes its metadata.
pub(crate) fn picture(content_type: &str, file: Bytes) -> Result<Picture, NoPicture> {
    let format = Format::of(content_type).ok_or(NoPicture::Type)?;
    if file.len() > PICTURE_BYTES {
        return Err(NoPicture::TooLarge);
    }
    let (sides, bytes) = match format {
        Format::Png => png(file),
        Format::Jpeg => jpeg(file),
        Format::WebP => webp(file),
    }
    .ok_or(NoPicture::Broken(format.name()))?;
    let (width, height) = sides;
    if ![width, height]
        .iter()
        .all(|side| (1..=LONGEST_SIDE).contains(side))
    {
        return Err(NoPicture::Sides);
    }
    Ok(Picture { format, bytes })
}

/// Keeps the first colour profile of a file, unless it is too large.
#[derive(Default)]
struct Profiles {
    found: bool,
}

impl Profiles {
    /// Returns true if the next profile of the file, with this length, is kept.
    const fn keeps(&mut self, length: usize) -> bool {
        let is_first = !self.found;
        self.found = true;
        is_first && length <= PROFILE_BYTES
    }
}

/// Chunks of a PNG that contain the picture or its colours.
const PNG_CHUNKS: [&[u8; 4]; 11] = [
    b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"pHYs",
];

fn png(file: Bytes) -> Option<((u32, u32), Bytes)> {
    let mut png = Png::from_bytes(file).ok()?;
    let sides = png.dimensions()?;
    let chunks = png.chunks_mut();
    let mut profiles = Profiles::default();
    chunks.retain(|chunk| match &chunk.kind() {
        b"iCCP" => profiles.keeps(chunk.contents().len()),
        kind => PNG_CHUNKS.contains(&kind),
    });
    let has = |kind: &[u8; 4]| chunks.iter().any(|chunk| chunk.kind() == *kind);
    (has(b"IDAT") && has(b"IEND")).then(|| (sides, png.encoder().bytes()))
}

fn jpeg(file: Bytes) -> Option<((u32, u32), Bytes)> {
    let mut jpeg = Jpeg::from_bytes(file).ok()?;
    let (width, height) = jpeg.dimensions()?;
    let segments = jpeg.segments_mut();
    let mut profiles = Profiles::default();
    segments.retain(|segment| match (segment.marker(), segment.contents()) {
        (markers::APP2, contents) => contents.starts_with(b"ICC_PROFILE\0") && profiles.keeps(contents.len()),
        (marker, contents) => !is_jpeg_metadata(marker, contents),
    });
    let scan = segments.pop().filter(JpegSegment::has_entropy)?;
    let (marker, contents) = (scan.marker(), scan.contents().clone());
    // The marker, the length and the contents precede the data of the scan.
    let data = scan.encoder().bytes();
    let entropy = jpeg_scans(data.get(4 + contents.len()..)?)?;
    segments.push(JpegSegment::new_with_entropy(marker, contents, entropy));
    Some(((width.into(), height.into()), jpeg.encoder().bytes()))
}

/// Returns true for a segment of a JPEG with metadata or text. JFIF (in APP0) and Adobe's colour transform are kept.
fn is_jpeg_metadata(marker: u8, contents: &[u8]) -> bool {
    match marker {
        markers::APP0 => !contents.starts_with(b"JFIF\0"),
        markers::APP14 => !contents.starts_with(b"Adobe"),
        markers::COM | markers::APP1..=markers::APP15 => true,
        _ => false,
    }
}

/// Copies the scans of a JPEG up to the end of the image, without metadata between them. Returns `None` if the end is missing.
fn jpeg_scans(mut rest: &[u8]) -> Option<Bytes> {
    let mut scans = BytesMut::with_capacity(rest.len());
    loop {
        let at = rest.iter().position(|byte| *byte == markers::P)?;
        let (data, from) = rest.split_at_checked(at)?;
        scans.put(data);
        match *from.get(1)? {
            markers::EOI => {
                scans.put_slice(&[markers::P, markers::EOI]);
                return Some(scans.freeze());
            }
            // A fill byte, which may precede each marker.
            markers::P => rest = from.get(1..)?,
            // A byte 0xFF of the data, or a restart marker.
            kind @ (0 | 0xD0..=0xD7) => {
                scans.put_slice(&[markers::P, kind]);
                rest = from.get(2..)?;
            }
            kind => {
                let length = from.get(2..4)?;
                let length = usize::from(u16::from_be_bytes(length.try_into().ok()?));
                let (segment, behind) = from.split_at_checked(length.checked_add(2)?)?;
                if !is_jpeg_metadata(kind, segment.get(4..)?) {
                    scans.put(segment);
                }
                rest = behind;
            }
        }
    }
}

/// Chunks of a WebP that contain the image.
const WEBP_IMAGE: [&[u8; 4]; 3] = [b"ALPH", b"VP8 ", b"VP8L"];

/// Flags of a WebP with XMP and with an animation, in the first byte of `VP8X`.
const WEBP_XMP: u8 = 0b0000_0100;
const WEBP_ANIMATION: u8 = 0b0000_0010;

fn webp(file: Bytes) -> Option<((u32, u32), Bytes)> {
    let mut webp = WebP::from_bytes(file).ok()?;
    let first = webp.chunk_by_id(*b"ANMF").map(first_image);
    let chunks = webp.chunks_mut();
    let mut profiles = Profiles::default();
    chunks.retain(|chunk| match &chunk.id() {
        b"ICCP" => profiles.keeps(chunk.content().data().map_or(usize::MAX, Bytes::len)),
        b"VP8X" => true,
        id => first.is_none() && WEBP_IMAGE.contains(&id),
    });
    let mut sides = None;
    if let Some(first) = first {
        let (own_sides, images) = first?;
        chunks.extend(images);
        sides = Some(own_sides);
    }
    if !chunks
        .iter()
        .any(|chunk| matches!(&chunk.id(), b"VP8 " | b"VP8L"))
    {
        return None;
    }
    for chunk in chunks.iter_mut().filter(|chunk| chunk.id() == *b"VP8X") {
        if let RiffContent::Data(data) = chunk.content_mut() {
            let mut header = BytesMut::from(&data[..]);
            *header.first_mut()? &= !(WEBP_XMP | WEBP_ANIMATION);
            if let Some(sides) = &sides {
                header.get_mut(4..10)?.copy_from_slice(sides);
            }
            *data = header.freeze();
        }
    }
    // Clear the flags of the other removed chunks. `VP8X` is dropped if nothing needs it.
    webp.set_exif(None);
    let sides = webp.dimensions()?;
    let mut image = webp.clone();
    image.remove_chunks_by_id(*b"VP8X");
    // A header with other dimensions than the image is invalid, and would hide the size of the image.
    (image.dimensions()? == sides).then(|| (sides, webp.encoder().bytes()))
}

/// Returns the first image of an animation and its dimensions in the encoding of `VP8X`, or `None` if the file is damaged.
fn first_image(frame: &RiffChunk) -> Option<([u8; 6], Vec<RiffChunk>)> {
    let data = frame.content().data()?;
    // The position, the dimensions, the duration and the flags of the frame precede its chunks.
    let sides = data.get(6..12)?.try_into().ok()?;
    let chunks = data.get(16..)?;
    let mut file = BytesMut::with_capacity(12 + chunks.len());
    file.put_slice(b"RIFF");
    file.put_u32_le(u32::try_from(4 + chunks.len()).ok()?);
    file.put_slice(b"WEBP");
    file.put_slice(chunks);
    let mut image = WebP::from_bytes(file.freeze()).ok()?;
    let mut chunks = std::mem::take(image.chunks_mut());
    chunks.retain(|chunk| WEBP_IMAGE.contains(&&chunk.id()));
    Some((sides, chunks))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Text that must not be in a kept picture.
    const SECRET: &[u8] = b"taken at home";

    fn chunk(kind: [u8; 4], contents: &[u8]) -> Vec<u8> {
        let mut checked = kind.to_vec();
        checked.extend_from_slice(contents);
        let mut chunk = u32::try_from(contents.len()).unwrap().to_be_bytes().to_vec();
        chunk.extend_from_slice(&checked);
        chunk.extend_from_slice(&crc32fast::hash(&checked).to_be_bytes());
        chunk
    }

    fn header(width: u32, height: u32) -> Vec<u8> {
        let mut header = width.to_be_bytes().to_vec();
        header.extend_from_slice(&height.to_be_bytes());
        header.extend_from_slice(&[8, 2, 0, 0, 0]);
        header
    }

    fn a_png(width: u32, height: u32, more: &[u8]) -> Vec<u8> {
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        png.extend(chunk(*b"IHDR", &header(width, height)));
        png.extend_from_slice(more);
        png.extend(chunk(*b"IDAT", b"pixels"));
        png.extend(chunk(*b"IEND", b""));
        png
    }

    fn segment(marker: u8, contents: &[u8]) -> Vec<u8> {
        let mut segment = vec![0xFF, marker];
        segment.extend_from_slice(&u16::try_from(contents.len() + 2).unwrap().to_be_bytes());
        segment.extend_from_slice(contents);
        segment
    }

    /// A progressive JPEG: segments, a scan, segments between the scans, a scan, the end marker, and trailing bytes.
    fn a_jpeg(before: &[u8], between: &[u8], behind: &[u8]) -> Vec<u8> {
        let mut jpeg = vec![0xFF, 0xD8];
        jpeg.extend(segment(0xE0, b"JFIF\0rest"));
        jpeg.extend_from_slice(before);
        jpeg.extend(segment(0xC2, &[8, 0, 20, 0, 30, 1, 1, 0x11, 0]));
        jpeg.extend(segment(0xDA, &[1, 1, 0, 0, 0, 0]));
        jpeg.extend_from_slice(&[1, 2, 0xFF, 0, 3, 0xFF, 0xD3, 4]);
        jpeg.extend_from_slice(between);
        jpeg.extend(segment(0xC4, &[0xFF, 0xD9]));
        jpeg.extend(segment(0xDA, &[1, 1, 0, 0, 0, 0]));
        jpeg.extend_from_slice(&[5, 6, 0xFF, 0xD9]);
        jpeg.extend_from_slice(behind);
        jpeg
    }

    fn riff(chunks: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
        let mut content = b"WEBP".to_vec();
        for (id, data) in chunks {
            content.extend_from_slice(*id);
            content.extend_from_slice(&u32::try_from(data.len()).unwrap().to_le_bytes());
            content.extend_from_slice(data);
            content.extend(vec![0; data.len() % 2]);
        }
        let mut riff = b"RIFF".to_vec();
        riff.extend_from_slice(&u32::try_from(content.len()).unwrap().to_le_bytes());
        riff.extend(content);
        riff
    }

    /// A lossy frame of 16 by 16 pixels, header only.
    fn vp8() -> Vec<u8> {
        vec![0x30, 0x01, 0x00, 0x9D, 0x01, 0x2A, 0x10, 0x00, 0x10, 0x00, 1, 2]
    }

    fn kept(content_type: &str, file: &[u8]) -> Bytes {
        picture(content_type, Bytes::copy_from_slice(file)).unwrap().bytes
    }

    fn holds(bytes: &[u8]) -> bool {
        bytes.windows(SECRET.len()).any(|part| part == SECRET)
    }

    #[test]
    fn text_and_metadata_of_a_png_are_left_out() {
        let mut more = chunk(*b"tEXt", SECRET);
        more.extend(chunk(*b"eXIf", SECRET));
        more.extend(chunk(*b"gAMA", &[0, 0, 1, 1]));
        let mut file = a_png(30, 20, &more);
        file.extend_from_slice(SECRET);
        assert_eq!(
            kept("image/png", &file),
            a_png(30, 20, &chunk(*b"gAMA", &[0, 0, 1, 1]))
        );
    }

    #[test]
    fn metadata_of_a_jpeg_is_left_out_wherever_it_stands() {
        let exif = segment(0xE1, &[b"Exif\0\0", SECRET].concat());
        let profile = segment(0xE2, b"ICC_PROFILE\0colours");
        let comment = segment(0xFE, SECRET);
        let before = [
            exif.clone(),
            comment.clone(),
            profile.clone(),
            segment(0xE2, SECRET),
        ]
        .concat();
        let between = [exif, comment, segment(0xE0, SECRET)].concat();
        let file = a_jpeg(&before, &between, SECRET);
        let kept = kept("image/jpeg", &file);
        assert!(!holds(&kept), "{kept:?}");
        assert_eq!(kept, a_jpeg(&profile, b"", b""));
    }

    #[test]
    fn metadata_of_a_webp_is_left_out_and_its_flags_are_cleared() {
        let extended = |flags: u8| vec![flags, 0, 0, 0, 15, 0, 0, 15, 0, 0];
        let file = riff(&[
            (b"VP8X", extended(0b0010_1100)),
            (b"ICCP", b"colours!".to_vec()),
            (b"VP8 ", vp8()),
            (b"EXIF", SECRET.to_vec()),
            (b"XMP ", SECRET.to_vec()),
            (b"junk", SECRET.to_vec()),
        ]);
        let expected = riff(&[
            (b"VP8X", extended(0b0010_0000)),
            (b"ICCP", b"colours!".to_vec()),
            (b"VP8 ", vp8()),
        ]);
        assert_eq!(kept("image/webp", &file), expected);
        let plain = riff(&[(b"VP8 ", vp8())]);
        assert_eq!(kept("image/webp", &plain), plain);
    }

    #[test]
    fn a_large_colour_profile_is_left_out() {
        for (length, stays) in [(PROFILE_BYTES, true), (PROFILE_BYTES + 1, false)] {
            let kept_part = |part: Vec<u8>| if stays { part } else { Vec::new() };

            let profile = chunk(*b"iCCP", &vec![7; length]);
            let file = a_png(30, 20, &[profile.clone(), profile.clone()].concat());
            assert_eq!(kept("image/png", &file), a_png(30, 20, &kept_part(profile)));

            let profile = segment(0xE2, &[b"ICC_PROFILE\0", &vec![7; length - 12][..]].concat());
            let file = a_jpeg(&[profile.clone(), profile.clone()].concat(), &profile, b"");
            assert_eq!(kept("image/jpeg", &file), a_jpeg(&kept_part(profile), b"", b""));

            let extended = vec![0b0010_0000, 0, 0, 0, 15, 0, 0, 15, 0, 0];
            let profile: (&[u8; 4], Vec<u8>) = (b"ICCP", vec![7; length]);
            let with = |profiles: usize| {
                let mut chunks = vec![(b"VP8X", extended.clone())];
                chunks.extend(vec![profile.clone(); profiles]);
                chunks.push((b"VP8 ", vp8()));
                riff(&chunks)
            };
            let expected = if stays { with(1) } else { riff(&[(b"VP8 ", vp8())]) };
            assert_eq!(kept("image/webp", &with(2)), expected);
        }
    }

    #[test]
    fn of_an_animation_the_first_image_stays() {
        let frames = [
            chunk(*b"acTL", &[0; 8]),
            chunk(*b"fcTL", &[0; 26]),
            chunk(*b"fdAT", SECRET),
        ]
        .concat();
        assert_eq!(kept("image/png", &a_png(30, 20, &frames)), a_png(30, 20, b""));

        let frame = |chunks: &[(&[u8; 4], Vec<u8>)]| {
            let mut frame = vec![0, 0, 0, 0, 0, 0, 15, 0, 0, 15, 0, 0, 100, 0, 0, 0];
            frame.extend_from_slice(&riff(chunks)[12..]);
            frame
        };
        let extended = |flags: u8, side: u8| vec![flags, 0, 0, 0, side, 0, 0, side, 0, 0];
        let alpha = (b"ALPH", vec![1, 2]);
        let file = riff(&[
            (b"VP8X", extended(0b0001_0010, 63)),
            (b"ANIM", vec![0; 6]),
            (
                b"ANMF",
                frame(&[alpha.clone(), (b"VP8 ", vp8()), (b"junk", SECRET.to_vec())]),
            ),
            (b"ANMF", frame(&[(b"VP8 ", SECRET.to_vec())])),
        ]);
        let expected = riff(&[(b"VP8X", extended(0b0001_0000, 15)), alpha, (b"VP8 ", vp8())]);
        assert_eq!(kept("image/webp", &file), expected);
        let empty = riff(&[(b"VP8X", extended(0b10, 63)), (b"ANMF", frame(&[]))]);
        assert_eq!(
            picture("image/webp", empty.into()),
            Err(NoPicture::Broken("WebP"))
        );
    }

    #[test]
    fn the_sides_of_a_webp_are_those_of_what_is_kept() {
        let extended = vec![0b0000_1000, 0, 0, 0, 15, 0, 0, 15, 0, 0];
        let with_frame = |frame: Vec<u8>| {
            let file = riff(&[
                (b"VP8X", extended.clone()),
                (b"VP8 ", frame),
                (b"EXIF", SECRET.to_vec()),
            ]);
            picture("image/webp", file.into())
        };
        let mut wide = vp8();
        wide[6..8].copy_from_slice(&5_000_u16.to_le_bytes());
        assert_eq!(with_frame(wide), Err(NoPicture::Sides));
        let mut broken = vp8();
        broken[3] = 0;
        assert_eq!(with_frame(broken), Err(NoPicture::Broken("WebP")));
        assert_eq!(with_frame(vp8()).unwrap().bytes, riff(&[(b"VP8 ", vp8())]));
    }

    #[test]
    fn no_header_of_a_webp_hides_the_sides_of_its_image() {
        let extended = |flags: u8, side: u8| vec![flags, 0, 0, 0, side, 0, 0, side, 0, 0];
        let still = |side| {
            riff(&[
                (b"VP8X", extended(0b0001_0000, side)),
                (b"ALPH", vec![1, 2]),
                (b"VP8 ", vp8()),
            ])
        };
        assert_eq!(kept("image/webp", &still(15)), still(15));
        let animated = |side: u8| {
            let mut frame = vec![0, 0, 0, 0, 0, 0, side, 0, 0, side, 0, 0, 100, 0, 0, 0];
            frame.extend_from_slice(&riff(&[(b"ALPH", vec![1, 2]), (b"VP8 ", vp8())])[12..]);
            riff(&[(b"VP8X", extended(0b0001_0010, 63)), (b"ANMF", frame)])
        };
        assert_eq!(kept("image/webp", &animated(15)), still(15));
        for file in [still(14), animated(14)] {
            assert_eq!(picture("image/webp", file.into()), Err(NoPicture::Broken("WebP")));
        }
    }

    #[test]
    fn a_file_is_what_its_type_says_and_has_sides_that_browsers_draw() {
        let refused = |content_type: &str, file: &[u8]| {
            picture(content_type, Bytes::copy_from_slice(file)).unwrap_err()
        };
        let png = a_png(1, 1, b"");
        assert_eq!(refused("image/gif", &png), NoPicture::Type);
        assert_eq!(refused("image/svg+xml", b"<svg/>"), NoPicture::Type);
        assert_eq!(refused("image/jpeg", &png), NoPicture::Broken("JPEG"));
        assert_eq!(refused("image/webp", &png), NoPicture::Broken("WebP"));
        assert_eq!(refused("image/png", b"<script>"), NoPicture::Broken("PNG"));
        assert_eq!(
            refused("image/png", &png[..png.len() - 20]),
            NoPicture::Broken("PNG")
        );
        let jpeg = a_jpeg(b"", b"", b"");
        assert_eq!(
            refused("image/jpeg", &jpeg[..jpeg.len() - 1]),
            NoPicture::Broken("JPEG")
        );
        assert_eq!(refused("image/png", &a_png(4_097, 1, b"")), NoPicture::Sides);
        assert_eq!(refused("image/png", &a_png(1, 0, b"")), NoPicture::Broken("PNG"));
        assert_eq!(
            refused("image/png", &vec![0; PICTURE_BYTES + 1]),
            NoPicture::TooLarge
        );
        assert_eq!(
            picture("Image/PNG; q=1", png.clone().into()).unwrap().format,
            Format::Png
        );
        assert!(picture("image/png", a_png(4_096, 4_096, b"").into()).is_ok());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), start in 0_usize..4) {
            let starts: [&[u8]; 4] = [b"", b"\x89PNG\r\n\x1a\n", b"\xFF\xD8\xFF", b"RIFF"];
            bytes.splice(0..0, starts[start].iter().copied());
            for format in Format::ALL {
                let _kept = picture(format.media_type(), bytes.clone().into());
            }
        }

        #[test]
        fn a_damaged_picture_never_keeps_its_metadata(at: prop::sample::Index, change in 1_u8..=255) {
            let exif = segment(0xE1, SECRET);
            let mut file = a_jpeg(&exif, &exif, b"");
            let place = at.index(file.len());
            file[place] ^= change;
            // A changed length may turn the metadata into picture data; a decoder then sees no metadata either.
            if let Ok(kept) = picture("image/jpeg", file.into()) {
                let again = picture("image/jpeg", kept.bytes.clone()).unwrap();
                prop_assert_eq!(again.bytes, kept.bytes);
            }
        }
    }
}
