//! Profile pictures: the stored part of a file is a picture of the same format, does not change when it is processed again, and
//! is hardly larger than the file.

use bytes::Bytes;
use reader::{Format, PICTURE_BYTES, picture};

use crate::{Bounds, Input, Line};

#[path = "../../../crates/accounts/src/people/picture.rs"]
mod reader;

const BOUNDS: Bounds = Bounds {
    memory: Line {
        base: 64 << 10,
        per_byte: 64,
    },
    time: Line {
        base: 2_000_000,
        per_byte: 2_000,
    },
};
/// Number of bytes that a format may add to a file: a name and a length.
const ADDED: usize = 16;

/// Checks one input.
pub fn check(data: &[u8]) {
    let input = Input::plain(data, PICTURE_BYTES + 1);
    let Some(format) = input.way([Format::Png, Format::Jpeg, Format::WebP]) else {
        return;
    };
    let read = |file: &Bytes| picture(format.media_type(), file.clone());
    let file = Bytes::from(input.bytes);
    let Ok(kept) = BOUNDS.hold(file.len(), || read(&file)) else {
        return;
    };
    assert!(kept.format == format, "another format");
    assert!(kept.bytes.len() <= file.len() + ADDED, "a larger file");
    match read(&kept.bytes) {
        Ok(again) => assert!(again == kept, "a second reading differs"),
        Err(reason) => panic!("what was kept is refused: {reason}"),
    }
}
