//! Events of a model's provider: valid JSON stays unchanged and other text becomes readable, every value is parsed leniently, and
//! texts match those of a slow decoder of code units, however they are split.

use json::{ObjectEnd, objects, readable};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use wire::{Arguments, Count, Joined, List, Object, Piece, Text, Values};

use crate::{Bounds, Input, Line};

#[path = "../../../crates/models/src/json.rs"]
mod json;
#[expect(dead_code, reason = "the clients use more of it")]
#[path = "../../../crates/models/src/wire.rs"]
mod wire;

const BOUNDS: Bounds = Bounds {
    memory: Line {
        base: 64 << 10,
        per_byte: 200,
    },
    time: Line {
        base: 5_000_000,
        per_byte: 5_000,
    },
};
/// Maximum size of an event, in bytes.
const MOST: usize = 64 << 10;

/// An event with every type of value.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    arguments: Arguments<'a>,
    count: Count,
    #[serde(borrow)]
    values: Values<'a>,
    #[serde(borrow)]
    list: List<Inner<'a>>,
    #[serde(borrow)]
    object: Object<Inner<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Inner<'a> {
    #[serde(borrow)]
    piece: Piece<'a>,
    count: Count,
}

/// Checks one input.
pub fn check(data: &[u8]) {
    let input = Input::repeated(data, MOST);
    let text = String::from_utf8_lossy(&input.bytes);
    let read = BOUNDS.hold(text.len(), || readable(&text).into_owned());
    let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    if is_json(&text) {
        assert_eq!(read, text, "JSON was changed");
    } else if is_json(&read) {
        assert_eq!(readable(&read), read, "a second reading changes it");
    }
    BOUNDS.hold(read.len(), || {
        if let Ok(event) = serde_json::from_str::<Event<'_>>(&read) {
            let inner = event.object.0.into_iter().chain(event.list.0);
            let texts = inner.map(|inner| inner.piece.len() + usize::from(inner.count.get() > 0));
            let held =
                texts.sum::<usize>() + event.text.len() + event.arguments.0.len() + event.values.0.len();
            assert!(
                held <= 3 * read.len() + usize::from(event.count.get() > 0),
                "more was read than there is"
            );
        }
    });
    let found = BOUNDS.hold(read.len(), || objects(&read).map(|objects| objects.len()));
    assert!(found.is_ok() || !is_json(&read), "objects of JSON were not found");
    check_end(&text, &input);
    check_texts(&read);
}

/// Checks that the end of an object is detected where a parser finds it, however it is split.
fn check_end(text: &str, input: &Input) {
    let mut whole = ObjectEnd::default();
    BOUNDS.hold(text.len(), || ObjectEnd::default().push(text));
    whole.push(text);
    let value = serde_json::from_str::<&RawValue>(text);
    let is_object = value.is_ok_and(|value| value.get().starts_with('{'));
    assert!(whole.is_whole() || !is_object, "the end of an object was missed");
    let mut pieces = ObjectEnd::default();
    input
        .chunks()
        .filter_map(|chunk| str::from_utf8(chunk).ok())
        .for_each(|chunk| pieces.push(chunk));
    if input.bytes.is_ascii() {
        assert_eq!(pieces.is_whole(), whole.is_whole(), "pieces make a difference");
    }
}

/// Checks the values of a list, each as a piece of a text.
fn check_texts(json: &str) {
    let Ok(values) = serde_json::from_str::<Vec<&RawValue>>(json) else {
        return;
    };
    let strings: Vec<&str> = values
        .iter()
        .map(|value| value.get())
        .filter(|value| value.starts_with('"'))
        .collect();
    let joined = BOUNDS.hold(json.len(), || {
        let mut joined = Joined::default();
        for string in &strings {
            if let Ok(piece) = serde_json::from_str(string) {
                joined.push(&piece);
            }
        }
        joined.into_text()
    });
    let units: Vec<u16> = strings.iter().flat_map(|string| units(string)).collect();
    assert_eq!(
        joined,
        String::from_utf16_lossy(&units),
        "a text was read otherwise"
    );
    for value in values {
        if let Ok(Value::Number(number)) = serde_json::from_str(value.get()) {
            let count = serde_json::from_str::<Count>(value.get()).unwrap_or_default();
            assert!(
                number.as_u64().is_none_or(|number| count.0 == Some(number)),
                "a figure was read otherwise"
            );
        }
    }
}

/// Decodes the code units of a JSON string, one character at a time.
fn units(string: &str) -> Vec<u16> {
    let mut units = Vec::new();
    let mut rest = string.get(1..string.len().saturating_sub(1)).unwrap_or_default();
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        if first == '\\' {
            let escaped = rest.as_bytes().get(1).copied().unwrap_or_default();
            length = if escaped == b'u' { 6 } else { 2 };
            units.push(match escaped {
                b'u' => u16::from_str_radix(rest.get(2..6).unwrap_or_default(), 16).unwrap_or_default(),
                b'b' => 8,
                b'f' => 12,
                b'n' => 10,
                b'r' => 13,
                b't' => 9,
                other => other.into(),
            });
        } else {
            units.extend_from_slice(first.encode_utf16(&mut [0; 2]));
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    units
}
