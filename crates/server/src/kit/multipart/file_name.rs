//! File names in part headers, in the forms that browsers and other clients use.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

/// Name of a file in a `Content-Disposition`. `filename` is as browsers write it (RFC 7578, the HTML standard): a quote
/// and the characters of a line break are sent as `%22`, `%0D` and `%0A`, and no other character is encoded. Forms are
/// not to use `filename*`, nor names in pieces; some clients do.
pub(super) fn file_name(disposition: &str) -> Result<Option<String>, &'static str> {
    let mut plain = None;
    // Keyed by number; a name in one piece has the number 0.
    let mut pieces = BTreeMap::new();
    for (name, value) in parameters(disposition)? {
        let is_twice = match filename_piece(name) {
            Some(FilenamePart::Plain) => plain.replace(value).is_some(),
            Some(FilenamePart::Piece(number, form)) => pieces.insert(number, (form, value)).is_some(),
            None => false,
        };
        if is_twice {
            return Err("has more than one filename");
        }
    }
    let name = match (extended_name(&pieces), plain) {
        (Some(name), _) => name,
        (None, Some(name)) => name
            .replace("%22", "\"")
            .replace("%0D", "\r")
            .replace("%0A", "\n"),
        (None, None) => return Ok(None),
    };
    let name = name.trim_end_matches(['/', '\\']);
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    Ok((!last.is_empty()).then(|| last.to_owned()))
}

/// Parameter with the name of a file.
enum FilenamePart {
    Plain,
    /// A piece of the name, and its form.
    Piece(u32, PieceForm),
}

/// Form of a piece of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceForm {
    AsIs,
    PercentEncoded,
}

/// Parses `filename`, `filename*` (RFC 8187), `filename*0` and `filename*0*` (RFC 2231).
fn filename_piece(name: &str) -> Option<FilenamePart> {
    let start = name.get(.."filename".len())?;
    let rest = name.get("filename".len()..)?;
    if !start.eq_ignore_ascii_case("filename") {
        return None;
    }
    let Some(rest) = rest.strip_prefix('*') else {
        return rest.is_empty().then_some(FilenamePart::Plain);
    };
    if rest.is_empty() {
        return Some(FilenamePart::Piece(0, PieceForm::PercentEncoded));
    }
    let (number, form) = match rest.strip_suffix('*') {
        Some(number) => (number, PieceForm::PercentEncoded),
        None => (rest, PieceForm::AsIs),
    };
    Some(FilenamePart::Piece(number.parse().ok()?, form))
}

/// Parses the parameters of a header. Within quotes a `\"` is a quote, unless the value would not end then: a name may end with a
/// backslash. Other backslashes are literal, as in the paths that some clients send. Any other quote would end the value early,
/// and the rest of the name would be lost.
fn parameters(header: &str) -> Result<Vec<(&str, String)>, &'static str> {
    const STRAY_QUOTE: &str = "a quote within a filename must be sent as `%22`";
    let mut found = Vec::new();
    let mut rest = header.split_once(';').map_or("", |(_type, rest)| rest);
    while !rest.is_empty() {
        let end = rest.find(['=', ';']).unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if name.contains('"') {
            return Err(STRAY_QUOTE);
        }
        let Some(value) = after.strip_prefix('=') else {
            rest = after.strip_prefix(';').unwrap_or_default();
            continue;
        };
        let value = value.trim_start();
        let (value, after) = match value.strip_prefix('"') {
            Some(quoted) => [Backslash::EscapesQuote, Backslash::IsItself]
                .into_iter()
                .filter_map(|rule| unquoted(quoted, rule))
                .find(|(_, after)| after.trim_start().is_empty() || after.trim_start().starts_with(';'))
                .ok_or(STRAY_QUOTE)?,
            None => value
                .split_once(';')
                .map_or((value.trim().to_owned(), ""), |(value, after)| {
                    (value.trim().to_owned(), after)
                }),
        };
        found.push((name.trim(), value));
        rest = after.trim_start().trim_start_matches(';');
    }
    Ok(found)
}

/// Meaning of a backslash before a quote.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backslash {
    EscapesQuote,
    IsItself,
}

/// Parses a quoted value. Returns the value and the text after its closing quote, or `None` without a closing quote.
fn unquoted(quoted: &str, backslash: Backslash) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = quoted.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, quoted.get(at + 1..).unwrap_or_default())),
            '\\' if backslash == Backslash::EscapesQuote
                && characters.next_if(|(_, next)| *next == '"').is_some() =>
            {
                value.push('"');
            }
            other => value.push(other),
        }
    }
    None
}

/// Joins the pieces of a name. The first piece may begin with `charset'language'`. Returns `None` if a piece is missing, or the
/// charset is unknown.
fn extended_name(pieces: &BTreeMap<u32, (PieceForm, String)>) -> Option<String> {
    let (mut charset, mut bytes) = ("utf-8", Vec::new());
    for (number, (piece, (form, value))) in (0..).zip(pieces) {
        if number != *piece {
            return None;
        }
        let mut text = value.as_str();
        if number == 0 && *form == PieceForm::PercentEncoded {
            let mut parts = text.splitn(3, '\'');
            (charset, _, text) = (parts.next()?, parts.next()?, parts.next()?);
        }
        match form {
            PieceForm::AsIs => bytes.extend_from_slice(text.as_bytes()),
            PieceForm::PercentEncoded => bytes.extend(percent_decode_str(text)),
        }
    }
    if pieces.is_empty() {
        return None;
    }
    if charset.eq_ignore_ascii_case("utf-8") {
        return String::from_utf8(bytes).ok();
    }
    // Latin-1 bytes are the first 256 characters of Unicode.
    let is_latin1 = charset.eq_ignore_ascii_case("iso-8859-1");
    is_latin1.then(|| bytes.into_iter().map(char::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_is_read_as_browsers_and_other_clients_write_it() {
        for (disposition, name) in [
            (r#"form-data; name="file"; filename="a b.txt""#, Some("a b.txt")),
            (r"form-data; filename=plain.txt; name=file", Some("plain.txt")),
            (
                r#"form-data; name="file"; filename="a%22b%25.txt""#,
                Some("a\"b%25.txt"),
            ),
            (r#"form-data; name="file"; filename="a\"b.txt""#, Some("a\"b.txt")),
            (r#"form-data; name="file"; filename="C:\x\y.txt""#, Some("y.txt")),
            (r#"form-data; name="file"; filename="../y.txt""#, Some("y.txt")),
            (
                "form-data; name=\"file\"; filename=\"größer.txt\"",
                Some("größer.txt"),
            ),
            // The rules for names refuse it later.
            (r#"form-data; filename="a%0D%0Ab""#, Some("a\r\nb")),
            (
                r#"form-data; filename="x"; filename*=UTF-8'en'%C3%A4.txt"#,
                Some("ä.txt"),
            ),
            (r#"form-data; filename="x"; filename*=latin1''%E4.txt"#, Some("x")),
            // Text in quotes is no parameter.
            (r#"form-data; name="; filename=y"; filename="x""#, Some("x")),
            (
                r#"form-data; filename="x; filename*=UTF-8''y""#,
                Some("x; filename*=UTF-8''y"),
            ),
            (r#"form-data; name="file"; filename="""#, None),
            (r#"form-data; name="file""#, None),
            ("form-data", None),
            ("", None),
        ] {
            assert_eq!(
                file_name(disposition),
                Ok(name.map(str::to_owned)),
                "{disposition}"
            );
        }
        for twice in [
            r#"form-data; filename="a"; filename="b""#,
            r#"form-data; filename="a"; FileName=b"#,
            r"form-data; filename*=UTF-8''a; filename*=UTF-8''b",
            r#"form-data; filename*0="a"; filename*0="b""#,
        ] {
            assert!(file_name(twice).is_err(), "{twice}");
        }
        for broken in [
            r#"form-data; name="file"; filename="a"b.txt""#,
            r#"form-data; name="file"; filename="a";b.txt""#,
            r#"form-data; name="file"; filename="a.txt"#,
            r#"form-data; name="file"; filename=""""#,
        ] {
            let rule = "a quote within a filename must be sent as `%22`";
            assert_eq!(file_name(broken), Err(rule), "{broken}");
        }
    }

    #[test]
    fn names_in_pieces_in_other_charsets_and_with_a_backslash_at_the_end_are_read() {
        for (disposition, name) in [
            (r"form-data; filename*=ISO-8859-1'en'%E4%DF.txt", Some("äß.txt")),
            (r"form-data; filename*=UTF-8''%E4.txt", None),
            (
                r#"form-data; filename*0="a long "; filename*1="name.txt""#,
                Some("a long name.txt"),
            ),
            (r#"form-data; filename*1=b.txt; filename*0="a""#, Some("ab.txt")),
            (
                r#"form-data; filename*0*=UTF-8''%C3%A4; FILENAME*1="%C3%A4"; filename*2*=%C3%A4.txt"#,
                Some("ä%C3%A4ä.txt"),
            ),
            (
                r"form-data; filename*0*=iso-8859-1''%E4; filename*1*=%F6",
                Some("äö"),
            ),
            (r#"form-data; filename*1="b"; filename="x""#, Some("x")),
            (
                r#"form-data; filename*0="a"; filename*2="c"; filename="x""#,
                Some("x"),
            ),
            (r#"form-data; filename*x="a"; filename="x""#, Some("x")),
            // A backslash at the end is not a part of the quote.
            (r#"form-data; name="file"; filename="report\""#, Some("report")),
            (r#"form-data; filename="report\"; name="file""#, Some("report")),
            (r#"form-data; filename="C:\x\"; name="file""#, Some("x")),
            (
                r#"form-data; filename="a\"; b.txt"; name="file""#,
                Some("a\"; b.txt"),
            ),
            (r#"form-data; filename="\""#, None),
        ] {
            assert_eq!(
                file_name(disposition),
                Ok(name.map(str::to_owned)),
                "{disposition}"
            );
        }
    }
}
