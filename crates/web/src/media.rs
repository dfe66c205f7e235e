//! Media type and character encoding of a body, and the decoding of its text.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Number of bytes of a page to search for a declared encoding, as browsers do.
const DECLARATION_BYTES: usize = 1024;
/// Number of bytes to examine to classify a file as binary or text.
const SNIFFED_BYTES: usize = 4096;

/// Format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// HTML.
    Html,
    /// JSON.
    Json,
    /// Any other text.
    Text,
    /// The type is missing or too general, so the bytes decide.
    Unknown,
    /// Not text.
    Binary,
}

/// The media type of a response, from its `Content-Type`.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    /// `type/subtype` in lower case; empty if missing.
    pub(crate) essence: String,
    charset: Option<&'static Encoding>,
}

impl Media {
    pub(crate) fn new(content_type: &str) -> Self {
        let mut parts = content_type.split(';');
        let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let charset = parts.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            let named = name.trim().eq_ignore_ascii_case("charset");
            let label = value.trim().trim_matches(['"', '\'']);
            named.then(|| Encoding::for_label(label.as_bytes())).flatten()
        });
        Self { essence, charset }
    }

    /// Returns a `Content-Type` with only the recognized parts.
    pub(crate) fn content_type(&self) -> String {
        match self.charset {
            Some(charset) => format!("{}; charset={}", self.essence, charset.name()),
            None => self.essence.clone(),
        }
    }

    /// Returns the format for this media type.
    pub(crate) fn kind(&self) -> Kind {
        let essence = self.essence.as_str();
        match essence {
            "text/html" | "application/xhtml+xml" => Kind::Html,
            "application/json" => Kind::Json,
            "" | "application/octet-stream" | "binary/octet-stream" => Kind::Unknown,
            "application/xml"
            | "application/javascript"
            | "application/ecmascript"
            | "application/x-javascript"
            | "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl"
            | "application/yaml"
            | "application/x-yaml"
            | "application/toml"
            | "application/sql"
            | "application/graphql"
            | "application/x-sh"
            | "application/x-www-form-urlencoded" => Kind::Text,
            _ if essence.starts_with("text/")
                || essence.ends_with("+xml")
                || essence.ends_with("+yaml")
                || essence.ends_with("json-seq") =>
            {
                Kind::Text
            }
            _ if essence.ends_with("+json") => Kind::Json,
            _ => Kind::Binary,
        }
    }

    /// Returns the format for this media type and these bytes; never [`Kind::Unknown`].
    pub(crate) fn kind_of(&self, bytes: &[u8]) -> Kind {
        let kind = self.kind();
        if kind == Kind::Unknown { sniff(bytes) } else { kind }
    }

    /// Decodes the text of a body. The encoding is that of the byte order mark, of the response header, or of the page, in this
    /// order. Otherwise it is UTF-8 if the body is valid UTF-8, and Windows-1252 if not, which can decode every byte.
    pub(crate) fn decode(&self, bytes: &[u8]) -> String {
        let declared = self.charset.or_else(|| declared(bytes));
        let encoding = declared.unwrap_or(match std::str::from_utf8(bytes) {
            Ok(_) => UTF_8,
            // The body was cut in the middle of a character.
            Err(error) if error.error_len().is_none() => UTF_8,
            Err(_) => WINDOWS_1252,
        });
        encoding.decode(bytes).0.into_owned()
    }
}

/// Guesses the format from the bytes.
fn sniff(bytes: &[u8]) -> Kind {
    let start = bytes.get(..SNIFFED_BYTES).unwrap_or(bytes);
    let utf16 = start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]);
    let control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    if !utf16 && (start.starts_with(b"%PDF-") || start.iter().any(control)) {
        return Kind::Binary;
    }
    let lower = String::from_utf8_lossy(start).trim_start().to_ascii_lowercase();
    if lower.starts_with("<!doctype html") || lower.starts_with("<html") {
        Kind::Html
    } else {
        Kind::Text
    }
}

/// Returns the encoding that `<meta charset>`, `<meta http-equiv>` or an XML declaration names.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = bytes.get(..DECLARATION_BYTES).unwrap_or(bytes);
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    let label_after = |key: &str| {
        let (_, rest) = start.split_once(key)?;
        let value = rest.trim_start().strip_prefix('=')?.trim_start();
        let label = value.trim_start_matches(['"', '\'']);
        let end = label.find(|c: char| !c.is_ascii_alphanumeric() && !"-_:.".contains(c));
        label.get(..end.unwrap_or(label.len()))
    };
    let label = match start.trim_start() {
        xml if xml.starts_with("<?xml") => label_after("encoding").or_else(|| label_after("charset")),
        html if html.starts_with('<') => label_after("charset"),
        _ => None,
    }?;
    // A page in which ASCII was found is not UTF-16, whatever it declares.
    let encoding = Encoding::for_label(label.as_bytes())?;
    Some(encoding.output_encoding())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn types_are_read_as_what_they_are() {
        for (content_type, kind) in [
            ("text/html; charset=utf-8", Kind::Html),
            ("TEXT/HTML", Kind::Html),
            ("application/xhtml+xml", Kind::Html),
            ("application/json", Kind::Json),
            ("application/problem+json;charset=utf-8", Kind::Json),
            ("text/csv", Kind::Text),
            ("application/rss+xml", Kind::Text),
            ("image/svg+xml", Kind::Text),
            ("", Kind::Unknown),
            ("application/octet-stream", Kind::Unknown),
            ("application/pdf", Kind::Binary),
            ("image/png", Kind::Binary),
            ("application/zip", Kind::Binary),
        ] {
            assert_eq!(Media::new(content_type).kind(), kind, "{content_type}");
        }
        assert_eq!(sniff(b"  <!DOCTYPE HTML><p>"), Kind::Html);
        assert_eq!(sniff(b"plain text\n"), Kind::Text);
        assert_eq!(sniff(b"%PDF-1.7"), Kind::Binary);
        assert_eq!(sniff(b"\x7fELF\x02\x01\x01\0"), Kind::Binary);
    }

    #[test]
    fn the_encoding_is_found_where_it_is_named() {
        for (content_type, bytes, text) in [
            ("text/plain; charset=iso-8859-1", &b"caf\xe9"[..], "café"),
            (
                "text/html; Charset=\"windows-1251\"",
                b"\xcf\xf0\xe8\xe2\xe5\xf2",
                "Привет",
            ),
            (
                "text/html",
                b"<meta charset=\"shift_jis\">\x93\xfa",
                "<meta charset=\"shift_jis\">日",
            ),
            (
                "text/html",
                b"<meta http-equiv=content-type content=\"text/html; charset=gbk\">\xc4\xe3",
                "<meta http-equiv=content-type content=\"text/html; charset=gbk\">你",
            ),
            (
                "text/xml",
                b"<?xml version=\"1.0\" encoding='koi8-r'?>\xf0",
                "<?xml version=\"1.0\" encoding='koi8-r'?>П",
            ),
            ("text/html", b"<meta charset=utf-16>x", "<meta charset=utf-16>x"),
            ("text/plain", "Grüße".as_bytes(), "Grüße"),
            ("text/plain", b"Gr\xfc\xdfe", "Grüße"),
            ("text/plain; charset=iso-8859-1", b"\xef\xbb\xbf\xc3\xa4", "ä"),
            ("text/plain", b"\xff\xfea\0", "a"),
        ] {
            let media = Media::new(content_type);
            assert_eq!(media.decode(bytes), text, "{content_type}");
            let again = Media::new(&media.content_type());
            assert_eq!(again.decode(bytes), text, "{content_type}");
        }
        // Cut in the middle of a character.
        assert_eq!(Media::new("text/plain").decode(&"ä".as_bytes()[..1]), "\u{fffd}");
    }

    proptest! {
        #[test]
        fn no_bytes_and_no_type_make_it_panic(content_type in any::<String>(), bytes in any::<Vec<u8>>()) {
            let media = Media::new(&content_type);
            let _text = media.decode(&bytes);
            let again = Media::new(&media.content_type());
            prop_assert_eq!((again.kind(), again.decode(&bytes)), (media.kind(), media.decode(&bytes)));
            let _kind = sniff(&bytes);
        }
    }
}
