//! Detects binary output by its bytes, and names its format by its first bytes.

/// Length of the examined beginning, in bytes.
const SAMPLE: usize = 8 * 1024;
/// Maximum number of non-text bytes in a sample that still counts as text.
const BY_CHANCE: usize = 8;

/// First bytes of binary file formats.
const BEGINNINGS: [(&[u8], &str); 16] = [
    (b"\x7fELF", "an ELF file (a program or library)"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"RIFF", "a RIFF file (WebP, WAV or AVI)"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (also docx, xlsx, jar)"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\0asm", "a WebAssembly module"),
    (b"PAR1", "a Parquet file"),
    (b"\x80\x04\x95", "a Python pickle"),
];

/// Names the kind of data that begins like this; `None` for text.
pub(super) fn kind(beginning: &[u8]) -> Option<&'static str> {
    let sample = beginning.get(..SAMPLE).unwrap_or(beginning);
    let odd: usize = sample
        .utf8_chunks()
        .map(|chunk| chunk.valid().bytes().filter(|byte| is_odd(*byte)).count() + chunk.invalid().len())
        .sum();
    let named = BEGINNINGS
        .iter()
        .find(|(start, _)| sample.starts_with(start))
        .map(|(_, name)| *name);
    match named {
        // A text may also begin with a few such letters.
        Some(name) if odd > 0 || name.starts_with("a PDF") => Some(name),
        Some(_) | None if odd > BY_CHANCE && odd * 10 > sample.len() => Some("unknown data"),
        Some(_) | None => None,
    }
}

/// Whether text never contains this byte. Terminal output contains bell, backspace and escape.
const fn is_odd(byte: u8) -> bool {
    matches!(byte, 0..=6 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_testkit::rows;

    use super::*;

    #[test]
    fn data_is_told_from_text() {
        for (beginning, expected) in rows! {
            &b"\x7fELF\x02\x01\x01\0\0"[..], Some("an ELF file (a program or library)");
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", Some("a PNG picture");
            b"\x1f\x8b\x08\0\0\0", Some("gzip data");
            b"%PDF-1.7\n", Some("a PDF document");
            b"RIFF is a container\n", None;
            b"GIF89a\x01\0\x01\0", Some("a GIF picture");
            &[0, 1, 2, 3].repeat(20), Some("unknown data");
            "UTF-16".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>().repeat(9).leak(),
                Some("unknown data");
            b"", None;
            b"n\0l", None;
            b"./one\0./two\0./three/four\0", None;
            "caf\u{e9} \u{2713} \x1b[31mred\x1b[0m\n".as_bytes(), None;
            b"caf\xe9 in Latin-1\n", None;
        } {
            assert_eq!(kind(beginning), expected, "{}", beginning.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn text_is_never_taken_for_data(text in "\\PC{0,300}") {
            prop_assert!(kind(text.as_bytes()).is_none_or(|kind| kind.starts_with("a PDF")));
        }
    }
}
