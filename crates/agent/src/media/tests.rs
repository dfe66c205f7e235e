//! Headers of pictures, built from their formats' specifications.

use proptest::prelude::*;
use sortie_testkit::list;

use super::*;

fn png_of(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend([8, 2, 0, 0, 0]);
    bytes
}

fn jpeg_of(width: u16, height: u16, comment: &[u8]) -> Vec<u8> {
    let mut bytes = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec();
    // A comment may contain bytes that look like a frame header.
    bytes.extend([0xff, 0xfe]);
    bytes.extend(u16::try_from(comment.len() + 2).unwrap().to_be_bytes());
    bytes.extend(comment);
    // A fill byte, then a table, then the frame.
    bytes.extend([0xff, 0xff, 0xc4, 0, 3, 0]);
    bytes.extend([0xff, 0xc2, 0, 11, 8]);
    bytes.extend(height.to_be_bytes());
    bytes.extend(width.to_be_bytes());
    bytes.extend([1, 1, 0x11, 0]);
    bytes
}

fn gif_of(width: u16, height: u16) -> Vec<u8> {
    [&b"GIF89a"[..], &width.to_le_bytes(), &height.to_le_bytes()].concat()
}

fn webp_of(chunk: &[u8]) -> Vec<u8> {
    [&b"RIFF\0\0\0\0WEBP"[..], chunk].concat()
}

fn lossy(width: u16, height: u16) -> Vec<u8> {
    let head = b"VP8 \0\0\0\0\0\0\0\x9d\x01\x2a";
    webp_of(&[&head[..], &width.to_le_bytes(), &height.to_le_bytes()].concat())
}

fn lossless(width: u32, height: u32) -> Vec<u8> {
    let packed = (width - 1) | ((height - 1) << 14);
    webp_of(&[&b"VP8L\0\0\0\0\x2f"[..], &packed.to_le_bytes()].concat())
}

fn extended(width: u32, height: u32) -> Vec<u8> {
    let side = |side: u32| (side - 1).to_le_bytes()[..3].to_vec();
    webp_of(&[&b"VP8X\0\0\0\0\0\0\0\0"[..], &side(width), &side(height)].concat())
}

fn pixels(bytes: &[u8]) -> Option<(u32, u32)> {
    media_of(bytes, "x").and_then(|media| media.pixels)
}

#[test]
fn a_picture_is_known_by_its_bytes_and_labelled_with_its_size() {
    let media = media_of(&png_of(1200, 800), "outputs/chart.txt").unwrap();
    assert_eq!(media.media_type, "image/png");
    assert_eq!(
        media.label,
        "outputs/chart.txt: a PNG picture, 1200 x 800 pixels, 29 bytes"
    );
    assert_eq!(STANDARD.decode(media.data).unwrap(), png_of(1200, 800));
    let pdf = media_of(b"%PDF-1.7\n...", "a.pdf").unwrap();
    assert_eq!((pdf.media_type.as_str(), pdf.pixels), ("application/pdf", None));
    assert_eq!(media_of(b"plain text", "a.png"), None);
    assert_eq!(media_of(b"\x89PNG\r\n\x1a\n", "torn.png"), None);
    assert_eq!(media_of(&png_of(0, 10), "empty.png"), None);
}

#[test]
fn what_providers_refuse_is_refused_with_a_hint() {
    let wide = examined(&png_of(8001, 10), "wide.png").unwrap().unwrap_err();
    assert!(
        wide.ends_with("at most 8000 pixels a side: make a smaller copy and read that"),
        "{wide}"
    );
    let mut large = png_of(10, 10);
    large.resize(usize::try_from(MEDIA_BYTES).unwrap() + 1, 0);
    let told = examined(&large, "large.png").unwrap().unwrap_err();
    assert!(told.contains("at most 3932160 bytes"), "{told}");
    assert_eq!(media_of(&large, "large.png"), None);
    large.pop();
    assert_eq!(media_of(&large, "large.png").unwrap().data.len(), 5 * 1024 * 1024);
}

#[test]
fn a_picture_that_ends_early_or_is_broken_is_not_whole() {
    let chunk = |kind: &[u8], data: &[u8]| {
        let named = [kind, data].concat();
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        [&length[..], &named, &crc_32(&named).to_be_bytes()].concat()
    };
    let header = [&2_u32.to_be_bytes()[..], &1_u32.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    let png = list! {
        b"\x89PNG\r\n\x1a\n".to_vec(), chunk(b"IHDR", &header), chunk(b"tEXt", b"a"), chunk(b"IDAT", b"data"),
        chunk(b"IEND", b""), b"more".to_vec(),
    }
    .concat();
    // A thumbnail in the metadata has an end as well. A picture may have several scans, with `FF` as two bytes.
    let thumbnail = b"\xff\xd8\xff\xda\0\x02data\xff\xd9";
    let scans = b"\xff\xda\0\x02da\xff\0\xff\xd0ta\xff\xc4\0\x03\0\xff\xda\0\x02data\xff\xd9\0";
    let jpeg = [&jpeg_of(2, 1, thumbnail)[..], scans].concat();
    let gif = [&gif_of(2, 1)[..], b"\0\0\0data;\0"].concat();
    let mut webp = lossy(2, 1);
    let size = u32::try_from(webp.len() - 8).unwrap();
    webp[4..8].copy_from_slice(&size.to_le_bytes());
    let pdf = b"%PDF-1.7 data %%EOF\n".to_vec();
    for whole in [&png, &jpeg, &gif, &webp, &pdf] {
        let kind = Kind::of(whole).unwrap();
        assert!(kind.is_whole(whole), "{kind:?}");
        assert!(!kind.is_whole(&whole[..whole.len() - 7]), "{kind:?}");
    }
    assert_eq!(crc_32(b"123456789"), 0xcbf4_3926);
    let at = png.windows(4).position(|word| word == b"data").unwrap();
    let mut changed = png.clone();
    changed[at] ^= 1;
    assert!(!Kind::Png.is_whole(&changed));
}

proptest! {
    #[test]
    fn the_sides_are_those_of_the_header(width in 1_u16..8_000, height in 1_u16..8_000, comment in proptest::collection::vec(any::<u8>(), 0..40)) {
        let wanted = Some((u32::from(width), u32::from(height)));
        prop_assert_eq!(pixels(&png_of(width.into(), height.into())), wanted);
        prop_assert_eq!(pixels(&jpeg_of(width, height, &comment)), wanted);
        prop_assert_eq!(pixels(&gif_of(width, height)), wanted);
        prop_assert_eq!(pixels(&lossy(width, height)), wanted);
        prop_assert_eq!(pixels(&lossless(width.into(), height.into())), wanted);
        prop_assert_eq!(pixels(&extended(width.into(), height.into())), wanted);
    }

    #[test]
    fn no_bytes_panic(kind in 0_usize..6, cut in 0_usize..60, tail in proptest::collection::vec(any::<u8>(), 0..60)) {
        let headers = [png_of(1, 1), jpeg_of(1, 1, b""), gif_of(1, 1), lossy(1, 1), lossless(1, 1), extended(1, 1)];
        let header = &headers[kind];
        let bytes = [&header[..cut.min(header.len())], &tail[..]].concat();
        let _ = examined(&bytes, "x");
    }
}
