//! License tokens, from an administrator or an attacker.
//!
//! Each valid token has exactly one text. The encoding of the signed bytes is injective: two different tokens never have the same
//! signed bytes.

use paseto::{Token, footer, signed};

use crate::{Bounds, Input, Line};

#[path = "../../../crates/base/src/license/paseto.rs"]
mod paseto;

const BOUNDS: Bounds = Bounds {
    memory: Line {
        base: 64 << 10,
        per_byte: 40,
    },
    time: Line {
        base: 10_000_000,
        per_byte: 1_000,
    },
};
/// Maximum size of a text, in bytes.
const MOST: usize = 8 << 10;

#[derive(Clone, Copy)]
enum Way {
    /// A whole token.
    Text,
    /// Message and footer of a token.
    Parts,
}

/// Checks one input.
pub fn check(data: &[u8]) {
    let input = Input::repeated(data, MOST);
    match input.way([Way::Text, Way::Parts]) {
        Some(Way::Text) => text_of(&input.bytes),
        Some(Way::Parts) => parts_of(&input.bytes),
        None => {}
    }
}

fn text_of(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let read = BOUNDS.hold(bytes.len(), || Token::parse(text));
    let Ok(token) = read else { return };
    assert_eq!(token.text(), text, "a token has one text");
    assert_eq!(token.signature.len(), 64);
    if let Ok(id) = BOUNDS.hold(token.footer.len(), || token.key_id()) {
        let named = Token {
            message: Vec::new(),
            signature: Vec::new(),
            footer: footer(&id).unwrap_or_default(),
        };
        assert_eq!(named.key_id(), Ok(id));
    }
    let parts = unsigned(&signed(&token.message, &token.footer, b""));
    let expected = [b"v4.public.".to_vec(), token.message, token.footer, Vec::new()];
    assert_eq!(parts.as_deref(), Some(&expected[..]));
}

fn parts_of(bytes: &[u8]) {
    let mut parts = bytes.split(|byte| *byte == 0);
    let mut next = || parts.next().unwrap_or_default().to_vec();
    let (message, footer) = (next(), next());
    let token = Token {
        message,
        footer,
        signature: vec![7; 64],
    };
    let text = token.text();
    match Token::parse(&text) {
        Ok(read) => assert_eq!(read, token),
        Err(_) => assert!(text.len() > 4_096, "{text}"),
    }
}

/// Decodes the signed parts from their lengths.
fn unsigned(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (count, mut rest) = bytes.split_first_chunk::<8>()?;
    let mut parts = Vec::new();
    for _ in 0..u64::from_le_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<8>()?;
        let (part, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        parts.push(part.to_vec());
        rest = after;
    }
    rest.is_empty().then_some(parts)
}
