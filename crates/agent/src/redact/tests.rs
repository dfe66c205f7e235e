//! Encodings that a server could apply to a credential before it sends it back.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use proptest::prelude::*;

use super::*;

const TOKEN: &str = "s3cr/t+T=k\"n<&>ü €";

fn percent(text: &str, spared: &str, upper: bool) -> String {
    let byte = |byte: u8| match (
        byte.is_ascii_alphanumeric() || spared.contains(char::from(byte)),
        upper,
    ) {
        (true, _) => char::from(byte).to_string(),
        (false, true) => format!("%{byte:02X}"),
        (false, false) => format!("%{byte:02x}"),
    };
    text.bytes().map(byte).collect()
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().concat()
}

fn unicode(text: &str) -> String {
    joined(text.encode_utf16().map(|unit| format!("\\u{unit:04x}")))
}

fn html(text: &str) -> String {
    joined(text.chars().map(|c| format!("&#{};", u32::from(c))))
}

fn wrapped(text: &str) -> String {
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(76)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    lines.join("\r\n")
}

/// Each of the encodings a server could apply, with `before` and `after` around the secret inside an encoding.
fn encoded(secret: &str, before: &str, after: &str) -> Vec<String> {
    let inside = format!("{before}{secret}{after}");
    let json = serde_json::to_string(&inside).unwrap();
    vec![
        inside.clone(),
        percent(&inside, "-_.~", true),
        percent(&inside, "-_.!~*'()/", false),
        percent(&inside, "", true),
        percent(&inside, "-_. ", true).replace(' ', "+"),
        percent(&percent(&inside, "", true), "", true),
        STANDARD.encode(&inside),
        STANDARD_NO_PAD.encode(&inside),
        URL_SAFE.encode(&inside),
        URL_SAFE_NO_PAD.encode(&inside),
        percent(&STANDARD.encode(&inside), "", true),
        STANDARD.encode(&inside).replace('/', "\\/"),
        wrapped(&STANDARD.encode(format!("{}{inside}", "x".repeat(60)))),
        json.clone(),
        json.replace('/', "\\/"),
        serde_json::to_string(&json).unwrap(),
        serde_json::to_string(&percent(&inside, "", false)).unwrap(),
        unicode(&inside),
        html(&inside),
        inside
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;"),
        joined(inside.bytes().map(|byte| format!("{byte:02x}"))),
        joined(inside.bytes().map(|byte| format!("{byte:02X}"))),
        joined(inside.bytes().map(|byte| format!("\\x{byte:02x}"))),
    ]
}

/// Returns the text with all encodings undone.
fn readings(text: &str) -> String {
    let mut all = text.to_owned();
    for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || "+/-_=".contains(c))) {
        let word = word.trim_matches('=').replace('-', "+").replace('_', "/");
        for from in 0..word.len().min(4) {
            let cut = &word[from..];
            let whole = &cut[..cut.len() / 4 * 4];
            all.push_str(&String::from_utf8_lossy(
                &STANDARD_NO_PAD.decode(whole).unwrap_or_default(),
            ));
        }
    }
    all
}

#[test]
fn a_token_is_found_in_every_form_and_wherever_it_stands() {
    let redactor = Redactor::new([TOKEN]);
    for before in ["", "u", "user:", "us"] {
        for text in encoded(TOKEN, before, "z") {
            let shown = redactor.redact(&text);
            assert!(shown.contains(REDACTED), "{text}");
            assert!(!readings(&shown).contains(TOKEN), "{text} -> {shown}");
        }
    }
}

#[test]
fn what_stands_around_a_secret_stays() {
    let redactor = Redactor::new(["hunter2!", "1234"]);
    assert_eq!(redactor.redact("a hunter2! b"), "a [redacted] b");
    assert_eq!(redactor.redact("?key=hunter2%21&n=1"), "?key=[redacted]&n=1");
    assert_eq!(
        redactor.redact(r#"{"k":"hunter2\u0021"}"#),
        r#"{"k":"[redacted]"}"#
    );
    assert_eq!(redactor.redact("hunter2!hunter2!"), "[redacted][redacted]");
    assert_eq!(redactor.redact("hunter2!1234 123"), "[redacted][redacted] 123");
    assert!(matches!(
        redactor.redact("100 % of a\nplain \\ text"),
        Cow::Borrowed(_)
    ));
}

#[test]
fn two_secrets_that_overlap_are_both_taken_out_whole() {
    let redactor = Redactor::new(["abcdef", "defghi", "cde"]);
    assert_eq!(redactor.redact("xabcdefghiy"), "x[redacted]y");
}

#[test]
fn a_secret_of_several_lines_is_found_with_other_line_breaks() {
    let redactor = Redactor::new(["-----BEGIN-----\nabc\ndef\n"]);
    for text in [
        "-----BEGIN-----\nabc\ndef\n",
        "-----BEGIN-----\r\nabc\r\ndef",
        r"-----BEGIN-----\nabc\ndef\n",
        "-----BEGIN-----abcdef",
    ] {
        assert!(!redactor.redact(text).contains("abc"), "{text}");
    }
}

#[test]
fn a_short_secret_is_looked_for_as_it_is_and_an_empty_one_not_at_all() {
    let redactor = Redactor::new(["abc", ""]);
    assert_eq!(
        redactor.redact("x abc %61bc YWJj"),
        "x [redacted] [redacted] YWJj"
    );
    assert!(Redactor::new([""]).is_empty());
    assert!(matches!(Redactor::default().redact("abc"), Cow::Borrowed("abc")));
}

#[test]
fn a_secret_that_comes_later_is_known_to_every_clone_from_then_on() {
    let redactor = Redactor::default();
    let clone = redactor.clone();
    assert_eq!(clone.redact("new-token"), "new-token");
    redactor.add("new-token");
    assert_eq!(clone.redact("new-token"), "[redacted]");
    assert!(!format!("{redactor:?}").contains("new-token"));
}

#[test]
fn text_in_pieces_waits_only_where_a_secret_may_have_begun() {
    let redactor = Redactor::new(["secret"]);
    let mut pieces = Pieces::default();
    assert_eq!(pieces.push(&redactor, "the se"), "the ");
    assert_eq!(pieces.push(&redactor, "a, a s"), "sea, a ");
    assert_eq!(pieces.push(&redactor, "ec%7"), "");
    assert_eq!(pieces.push(&redactor, "2et."), "[redacted].");
    assert_eq!(pieces.push(&redactor, "sec"), "");
    assert_eq!(pieces.rest(&redactor), "sec");
    assert_eq!(pieces.rest(&redactor), "");
}

/// Characters of a secret in these tests. The mark's letters are left out: they would be found in the mark.
fn secret() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Z0-9_-]{4,40}",
        "[A-Z0-9/+=%&<>\"'\\\\ üλ€😀]{4,24}",
        "[AB]{4,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn no_form_of_a_secret_survives(
        secrets in proptest::collection::vec(secret(), 1..4),
        before in "[a-z:/ ]{0,7}",
        after in "[a-z:/ ]{0,7}",
        around in any::<String>(),
    ) {
        let redactor = Redactor::new(secrets.iter().map(String::as_str));
        for secret in &secrets {
            for form in encoded(secret, &before, &after) {
                let text = format!("{around} {form} {around}");
                let shown = redactor.redact(&text);
                let left = readings(&shown.replace(REDACTED, "\u{0}"));
                prop_assert!(!left.contains(secret.as_str()), "{} -> {}", text, shown);
                prop_assert!(shown.contains(REDACTED), "{}", text);
            }
        }
    }

    #[test]
    fn a_text_in_pieces_shows_no_form_of_a_secret_either(
        secrets in proptest::collection::vec(secret(), 1..4),
        before in "[a-z:/ ]{0,7}",
        cuts in proptest::collection::vec(1_usize..9, 1..60),
    ) {
        let redactor = Redactor::new(secrets.iter().map(String::as_str));
        for secret in &secrets {
            for form in encoded(secret, &before, "z") {
                let text = format!("{form} {form}");
                let (mut pieces, mut shown, mut from) = (Pieces::default(), String::new(), 0);
                for cut in cuts.iter().cycle() {
                    let until = text.ceil_char_boundary((from + cut).min(text.len()));
                    shown.push_str(&pieces.push(&redactor, &text[from..until]));
                    from = until;
                    if from == text.len() { break }
                }
                shown.push_str(&pieces.rest(&redactor));
                let left = readings(&shown.replace(REDACTED, "\u{0}"));
                prop_assert!(!left.contains(secret.as_str()), "{} -> {}", text, shown);
                prop_assert_eq!(shown, redactor.redact(&text));
            }
        }
    }

    #[test]
    fn no_text_panics_and_text_without_secrets_stays(text in any::<String>(), pieces in any::<Vec<String>>()) {
        let redactor = Redactor::new(["\u{10ffff}\u{10fffe}secret"]);
        prop_assert_eq!(&*redactor.redact(&text), &*text);
        let mut shown = Pieces::default();
        let mut all: String = pieces.iter().map(|piece| shown.push(&redactor, piece).into_owned()).collect();
        all.push_str(&shown.rest(&redactor));
        prop_assert_eq!(all, pieces.concat());
    }
}
