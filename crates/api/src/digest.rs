//! SHA-256 of some content, always written as 64 lowercase hexadecimal characters.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::Type},
};

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Sha256([u8; 32]);

/// A text that is not a SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256: expected 64 lowercase hexadecimal characters")]
pub struct InvalidSha256;

impl Sha256 {
    /// The digest with these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sha256 {
    type Err = InvalidSha256;

    fn from_str(text: &str) -> Result<Self, InvalidSha256> {
        fn digit(byte: u8) -> Option<u8> {
            match byte {
                b'0'..=b'9' => Some(byte - b'0'),
                b'a'..=b'f' => Some(byte - b'a' + 10),
                _ => None,
            }
        }
        let mut bytes = [0; 32];
        if text.len() != 64 {
            return Err(InvalidSha256);
        }
        let (pairs, _) = text.as_bytes().as_chunks();
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            let (high, low) = digit(*high).zip(digit(*low)).ok_or(InvalidSha256)?;
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}

impl From<Sha256> for String {
    fn from(digest: Sha256) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Sha256 {
    type Error = InvalidSha256;

    fn try_from(text: String) -> Result<Self, InvalidSha256> {
        text.parse()
    }
}

impl PartialSchema for Sha256 {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[0-9a-f]{64}$"))
            .into()
    }
}

impl ToSchema for Sha256 {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_digest_survives_its_text(bytes: [u8; 32]) {
            let digest = Sha256::new(bytes);
            prop_assert_eq!(digest.to_string().parse::<Sha256>(), Ok(digest));
        }

        #[test]
        fn any_text_is_refused_or_read_exactly(text in "[0-9a-fA-F]{62,66}|\\PC{0,70}") {
            if let Ok(digest) = text.parse::<Sha256>() {
                prop_assert_eq!(digest.to_string(), text);
            }
        }
    }
}
