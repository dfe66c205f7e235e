//! Counts the pages of a PDF in one pass, by reading only its dictionaries.

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

/// Maximum total size of the unpacked object streams of a document. A thousand pages need a tenth of it.
const UNPACKED_BYTES: usize = 8 << 20;
/// Maximum nesting depth of dictionaries.
const DEPTH: usize = 64;

/// Returns an upper estimate of the pages of a PDF. `None` if the document cannot be read.
///
/// The result is the number of page objects, or the `/Count` of a page tree if that is larger. Both can be in compressed object
/// streams. Outlines also have a `/Count`, which does not count pages.
pub(super) fn pages(pdf: &[u8]) -> Option<u64> {
    let mut found = Found {
        objects: 0,
        told: 0,
        unpacked: UNPACKED_BYTES,
    };
    found.scan(pdf, true)?;
    let most = found.objects.max(found.told);
    (most > 0).then_some(most)
}

struct Found {
    /// Number of page objects.
    objects: u64,
    /// Largest count of a page tree.
    told: u64,
    /// Number of bytes that object streams may still unpack to.
    unpacked: usize,
}

/// The relevant entries of a dictionary.
#[derive(Clone, Copy, Debug, Default)]
struct Dictionary {
    kind: Kind,
    count: u64,
    /// Whether its stream is compressed with deflate.
    is_deflated: bool,
    /// Whether its stream has an encoding that we do not read.
    is_odd: bool,
    key: Key,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    Page,
    Pages,
    Objects,
    #[default]
    Other,
}

/// The key of the next value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Key {
    Type,
    Count,
    #[default]
    Other,
}

impl Found {
    /// Reads the dictionaries in these bytes. Returns `None` if they are not from a PDF.
    fn scan(&mut self, bytes: &[u8], has_streams: bool) -> Option<()> {
        let mut rest = bytes;
        let mut open: Vec<Dictionary> = Vec::new();
        while let Some((byte, behind)) = rest.split_first() {
            rest = match byte {
                b'<' if behind.first() == Some(&b'<') => {
                    if open.len() == DEPTH {
                        return None;
                    }
                    open.push(Dictionary::default());
                    behind.get(1..)?
                }
                b'>' if behind.first() == Some(&b'>') => {
                    let behind = behind.get(1..)?;
                    match open.pop() {
                        Some(dictionary) => self.closed(dictionary, open.last_mut(), behind, has_streams)?,
                        None => behind,
                    }
                }
                b'(' => after_text(behind)?,
                b'%' if has_streams => after_line(behind),
                b'/' => {
                    let (name, behind) = name(behind);
                    if let Some(dictionary) = open.last_mut() {
                        dictionary.named(&name);
                    }
                    behind
                }
                b'0'..=b'9' => {
                    let end = rest.iter().position(|byte| !byte.is_ascii_digit());
                    let (digits, behind) = rest.split_at(end.unwrap_or(rest.len()));
                    if let Some(dictionary) = open.last_mut() {
                        dictionary.numbered(digits);
                    }
                    behind
                }
                _ => behind,
            };
        }
        Some(())
    }

    /// Handles a complete dictionary and its stream. Returns the bytes after both.
    fn closed<'a>(
        &mut self,
        dictionary: Dictionary,
        outer: Option<&mut Dictionary>,
        behind: &'a [u8],
        has_streams: bool,
    ) -> Option<&'a [u8]> {
        match dictionary.kind {
            Kind::Page => self.objects += 1,
            Kind::Pages => self.told = self.told.max(dictionary.count),
            Kind::Objects | Kind::Other => {}
        }
        if let Some(outer) = outer {
            outer.is_odd |= dictionary.is_odd;
            outer.key = Key::Other;
            return Some(behind);
        }
        let stream = behind
            .trim_ascii_start()
            .strip_prefix(b"stream")
            .filter(|_| has_streams);
        let Some(stream) = stream else {
            return Some(behind);
        };
        let stream = stream.strip_prefix(b"\r").unwrap_or(stream);
        let stream = stream.strip_prefix(b"\n").unwrap_or(stream);
        let (stream, behind) = stream_of(stream);
        if dictionary.kind == Kind::Objects {
            if dictionary.is_odd || !dictionary.is_deflated {
                return None;
            }
            let objects = decompress_to_vec_zlib_with_limit(stream, self.unpacked).ok()?;
            self.unpacked -= objects.len();
            self.scan(&objects, false)?;
        }
        Some(behind)
    }
}

impl Dictionary {
    fn named(&mut self, name: &[u8]) {
        if self.key == Key::Type {
            self.kind = match name {
                b"Page" => Kind::Page,
                b"Pages" => Kind::Pages,
                b"ObjStm" => Kind::Objects,
                _ => Kind::Other,
            };
            self.key = Key::Other;
            return;
        }
        match name {
            b"FlateDecode" | b"Fl" => {
                self.is_odd |= self.is_deflated;
                self.is_deflated = true;
            }
            b"Predictor" | b"Crypt" => self.is_odd = true,
            name => self.is_odd |= name.ends_with(b"Decode"),
        }
        self.key = match name {
            b"Type" => Key::Type,
            b"Count" => Key::Count,
            _ => Key::Other,
        };
    }

    fn numbered(&mut self, digits: &[u8]) {
        if self.key == Key::Count {
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            self.count = digits.parse().unwrap_or(u64::MAX);
            self.key = Key::Other;
        }
    }
}

/// Splits off the stream at the front. Each byte belongs to one stream, so that no byte is unpacked twice.
fn stream_of(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.windows(9).position(|window| window == b"endstream");
    bytes.split_at(end.unwrap_or(bytes.len()))
}

/// Returns the bytes after a comment.
fn after_line(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    end.and_then(|end| bytes.get(end..)).unwrap_or_default()
}

/// Returns the bytes after a text in parentheses, which can be nested. `None` if the text does not end.
fn after_text(mut bytes: &[u8]) -> Option<&[u8]> {
    let mut open = 1_usize;
    while open > 0 {
        let (byte, behind) = bytes.split_first()?;
        bytes = behind;
        match byte {
            b'(' => open += 1,
            b')' => open -= 1,
            b'\\' => bytes = bytes.get(1..)?,
            _ => {}
        }
    }
    Some(bytes)
}

/// Returns a name and the bytes after it. `#` and two digits encode any byte.
fn name(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let is_end = |byte: &u8| {
        byte.is_ascii_whitespace()
            || matches!(
                byte,
                0 | b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'/' | b'%' | b'{' | b'}'
            )
    };
    let end = bytes.iter().position(is_end).unwrap_or(bytes.len());
    let (written, behind) = bytes.split_at(end);
    let mut name = Vec::with_capacity(written.len().min(64));
    let mut rest = written;
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *byte == b'#');
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        name.push(code.unwrap_or(*byte));
        rest = match code {
            Some(_) => after.get(2..).unwrap_or_default(),
            None => after,
        };
    }
    (name, behind)
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use proptest::prelude::*;

    use super::*;

    /// An object stream with two pages and their tree, compressed.
    const OBJECTS: &str = "eNozUTBQMFUwM1AwUzA0MlCwsdEPqSxI1Q9ITE8t1vfOTCmONgWqCAJKA8lYfef80rwSBSM7OxSVQKIoFShuAlKk75uakpnolF8RbQDkmhkaKZhbGsUidChg0eKcn1cC5BUrWIK4dnYA5W4pmw==";

    /// A document with its pages in an object stream that has this dictionary.
    fn packed(dictionary: &str) -> Vec<u8> {
        let objects = STANDARD.decode(OBJECTS).unwrap();
        let head = format!("%PDF-1.7\n%\u{e2}(\n8 0 obj\n<<{dictionary}>>\nstream\r\n");
        let tail = b"\nendstream endobj 9 0 obj<</Length 9>>stream\n/Type/Page(\nendstream endobj";
        [head.as_bytes(), &objects, tail].concat()
    }

    #[test]
    fn pages_are_counted_in_compressed_object_streams() {
        for dictionary in [
            "/Type/ObjStm/N 3/First 15/Filter/FlateDecode/Length 99",
            "/Filter [ /FlateDecode ] /Type /ObjStm",
            "/Type/Obj#53tm/Filter/Fl/Extends 7 0 R",
        ] {
            assert_eq!(pages(&packed(dictionary)), Some(2), "{dictionary}");
        }
    }

    #[test]
    fn a_document_whose_object_streams_cannot_be_read_has_no_count() {
        for dictionary in [
            "/Type/ObjStm",
            "/Type/ObjStm/Filter/LZWDecode",
            "/Type/ObjStm/Filter[/ASCIIHexDecode/FlateDecode]",
            "/Type/ObjStm/Filter[/FlateDecode/FlateDecode]",
            "/Type/ObjStm/Filter/FlateDecode/DecodeParms<</Predictor 12>>",
        ] {
            assert_eq!(pages(&packed(dictionary)), None, "{dictionary}");
        }
        let mut torn = packed("/Type/ObjStm/Filter/FlateDecode");
        torn.truncate(90);
        assert_eq!(pages(&torn), None);
        assert_eq!(pages(b"no document"), None);
        assert_eq!(pages(b"<</Type/Page>> (no end"), None);
        assert_eq!(pages(&b"<<".repeat(DEPTH + 1)), None);
    }

    #[test]
    fn outlines_and_what_stands_in_texts_are_no_pages() {
        for (pdf, expected) in [
            ("<</Type /Pages /Count 2>> <</Type/Outlines/Count 700>>", 2),
            ("<</Type/Page>><</First 3 0 R/Count 90/Type/Outlines>>", 1),
            ("<</Count 3/Kids[]/Type/Pages>>", 3),
            (
                "<</Type/Page/Title(a \\) >> /Type/Pages (b) )>> <</Type/Page>>",
                2,
            ),
            ("<</Type/P#61ge/Resources<</Type/Font>>>>", 1),
            ("<</Type/Pages/Count 99999999999999999999>>", u64::MAX),
        ] {
            assert_eq!(pages(pdf.as_bytes()), Some(expected), "{pdf}");
        }
    }

    fn fragment() -> impl Strategy<Value = Vec<u8>> {
        let known = [
            "<<",
            ">>",
            "/Type",
            "/Page",
            "/Pages",
            "/ObjStm",
            "/Count",
            " 7 ",
            "(",
            ")",
            "\\",
            "stream\n",
            "endstream",
            "/Filter/FlateDecode",
            "%",
            "#",
            "/",
        ];
        prop_oneof![
            4 => prop::sample::select(known.to_vec()).prop_map(|part| part.as_bytes().to_vec()),
            1 => any::<Vec<u8>>(),
            1 => Just(STANDARD.decode(OBJECTS).unwrap()),
        ]
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(parts in prop::collection::vec(fragment(), 0..40)) {
            pages(&parts.concat());
        }

        #[test]
        fn as_many_pages_as_there_are_are_counted(
            plain in 0_u64..30, told in 0_u64..30, is_packed in any::<bool>()
        ) {
            let tree = format!("<</Type/Pages/Count {told}>>");
            let objects = "1 0 obj <</Type /Page /Parent 2 0 R>> endobj ".repeat(usize::try_from(plain).unwrap());
            let mut pdf = format!("{tree}{objects}").into_bytes();
            let mut pages_in_all = plain;
            if is_packed {
                pdf.extend(packed("/Type/ObjStm/Filter/FlateDecode"));
                pages_in_all += 2;
            }
            let most = pages_in_all.max(told);
            prop_assert_eq!(pages(&pdf), (most > 0).then_some(most));
        }
    }
}
