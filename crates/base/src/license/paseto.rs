//! Encoding of a PASETO v4.public token: message and footer in clear, and the signature over both.
//!
//! Parsing is strict: each token has exactly one valid text. A parsed token is not verified yet.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

/// Version and purpose, before every token.
const HEADER: &str = "v4.public.";

/// Bytes of a signature.
const SIGNATURE: usize = 64;

/// Maximum length of a token.
pub(super) const MOST: usize = 4_096;

/// A text that is not a token of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Parts of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) message: Vec<u8>,
    pub(super) signature: Vec<u8>,
    pub(super) footer: Vec<u8>,
}

/// Footer that names the key of the signature.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Footer {
    kid: String,
}

impl Token {
    /// Reads a token.
    pub(super) fn parse(text: &str) -> Result<Self, Malformed> {
        let parts = text.strip_prefix(HEADER).filter(|_| text.len() <= MOST);
        let parts = parts.ok_or(Malformed)?;
        let (body, footer) = match parts.split_once('.') {
            // Without a footer there is no dot.
            Some((_, "")) => return Err(Malformed),
            Some((body, footer)) => (body, footer),
            None => (parts, ""),
        };
        let decoded = |part| URL_SAFE_NO_PAD.decode(part).map_err(|_| Malformed);
        let (mut message, footer) = (decoded(body)?, decoded(footer)?);
        let end = message.len().checked_sub(SIGNATURE).ok_or(Malformed)?;
        let signature = message.split_off(end);
        Ok(Self {
            message,
            signature,
            footer,
        })
    }

    /// Writes the token.
    pub(super) fn text(&self) -> String {
        let body = [self.message.as_slice(), &self.signature].concat();
        let mut text = format!("{HEADER}{}", URL_SAFE_NO_PAD.encode(body));
        if !self.footer.is_empty() {
            text.push('.');
            text.push_str(&URL_SAFE_NO_PAD.encode(&self.footer));
        }
        text
    }

    /// Returns the id of the key that the footer names.
    pub(super) fn key_id(&self) -> Result<String, Malformed> {
        serde_json::from_slice(&self.footer)
            .map(|footer: Footer| footer.kid)
            .map_err(|_| Malformed)
    }
}

/// Makes the footer that names a key.
pub(super) fn footer(key_id: &str) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Footer {
        kid: key_id.to_owned(),
    })
}

/// Returns the bytes to sign: the number of parts, then each with its length ("pre-authentication encoding"). `implicit` is not
/// part of the token: both sides know it.
pub(super) fn signed(message: &[u8], footer: &[u8], implicit: &[u8]) -> Vec<u8> {
    let parts = [HEADER.as_bytes(), message, footer, implicit];
    let mut bytes = length(parts.len()).to_vec();
    for part in parts {
        bytes.extend_from_slice(&length(part.len()));
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Encodes a length as eight bytes with the highest bit clear.
const fn length(of: usize) -> [u8; 8] {
    (of as u64 & (u64::MAX >> 1)).to_le_bytes()
}
