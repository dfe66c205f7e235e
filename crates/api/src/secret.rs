//! Secrets: a prefix, 43 base62 characters (256 bits) and a 6-character base62 CRC-32 of both.
//!
//! The fixed form lets secret scanners find secrets, and the checksum refuses a typo without a look-up. Only the SHA-256 of a
//! secret is ever stored.

use std::fmt::{self, Write as _};

use sha2::{Digest, Sha256};
use zeroize::{Zeroize as _, ZeroizeOnDrop, Zeroizing};

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BODY_LEN: usize = 43;
const CHECK_LEN: usize = 6;

/// Prefix of a self-hosted engine's API key.
pub const SELF_HOSTED_KEY: &str = "sts_";
/// Prefix of a hosted API key.
pub const HOSTED_KEY: &str = "sth_";
/// Prefix of the token of an invitation.
pub const INVITATION_TOKEN: &str = "sti_";
/// Prefix of the key of a hosted deployment's operator.
pub const OPERATOR_KEY: &str = "stp_";
/// Prefix of an OAuth access token.
pub const ACCESS_TOKEN: &str = "sto_";
/// Prefix of an OAuth refresh token.
pub const REFRESH_TOKEN: &str = "str_";
/// Prefix of an OAuth authorization code.
pub const AUTHORIZATION_CODE: &str = "sta_";
/// Prefix of the secret of an OAuth client.
pub const CLIENT_SECRET: &str = "stc_";
/// Prefix of a session token, of a person or of the console.
pub const SESSION_TOKEN: &str = "stu_";
/// Prefix of a token that a mail carries: it verifies an address or resets a password once.
pub const MAIL_TOKEN: &str = "stm_";

/// Prefix of a code that begins a session of the console once.
pub const CONSOLE_CODE: &str = "stl_";

/// Prefix of a token for one run.
pub const RUN_TOKEN: &str = "stt_";

/// A secret in clear. `Debug` shows the prefix only, and its memory is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// A text that does not have the form of a secret, or whose checksum does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid credential")]
pub struct InvalidSecret;

/// Returns `value` (big-endian bytes) as `LEN` base62 characters, most significant first. The value is used up.
fn base62<const LEN: usize>(value: &mut [u8]) -> [u8; LEN] {
    let mut digits = [b'0'; LEN];
    for digit in digits.iter_mut().rev() {
        let mut remainder = 0_u32;
        for byte in value.iter_mut() {
            let current = remainder << 8 | u32::from(*byte);
            *byte = u8::try_from(current / 62).unwrap_or(0);
            remainder = current % 62;
        }
        *digit = usize::try_from(remainder)
            .ok()
            .and_then(|at| ALPHABET.get(at))
            .copied()
            .unwrap_or(b'0');
    }
    digits
}

fn checksum(text: &str) -> [u8; CHECK_LEN] {
    base62(&mut crc32fast::hash(text.as_bytes()).to_be_bytes())
}

/// Returns true where a text has the form of a secret of the kind `prefix`, and the checksum of one.
fn has_form(prefix: &str, text: &str) -> bool {
    let Some(body) = text.strip_prefix(prefix) else {
        return false;
    };
    if body.len() != BODY_LEN + CHECK_LEN || !body.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return false;
    }
    let (signed, check) = text.split_at(text.len() - CHECK_LEN);
    checksum(signed) == check.as_bytes()
}

/// Text that a request brings as its credential. It is hashed once, for everything that asks whose it is.
#[derive(Clone, Copy)]
pub struct Presented<'a> {
    text: &'a str,
    hash: [u8; 32],
}

impl Presented<'_> {
    /// Returns the content of a signed text with this prefix, of [`signed_text`]. The caller verifies the signature.
    pub fn signed_content<const LEN: usize>(&self, prefix: &str) -> Option<[u8; LEN]> {
        let (signed, check) = self
            .text
            .split_at_checked(self.text.len().checked_sub(CHECK_LEN)?)?;
        let digits = signed.strip_prefix(prefix)?;
        let is_hex = digits
            .bytes()
            .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if digits.len() != 2 * LEN || !is_hex || checksum(signed) != check.as_bytes() {
            return None;
        }
        let mut content = [0; LEN];
        for (byte, pair) in content.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(content)
    }

    /// Returns true where the text has the form of a secret of the kind `prefix`.
    pub fn is(&self, prefix: &str) -> bool {
        has_form(prefix, self.text)
    }

    /// Returns the SHA-256 of the text: of a secret, the one that is stored and looked up.
    pub const fn hash(&self) -> [u8; 32] {
        self.hash
    }
}

impl<'a, T: AsRef<str> + ?Sized> From<&'a T> for Presented<'a> {
    fn from(text: &'a T) -> Self {
        let text = text.as_ref();
        Self {
            text,
            hash: Sha256::digest(text.as_bytes()).into(),
        }
    }
}

impl fmt::Debug for Presented<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presented").finish_non_exhaustive()
    }
}

/// Text of a credential that carries its content and a signature of it: the prefix, the bytes as hexadecimal digits, and the
/// checksum of both.
pub fn signed_text(prefix: &str, content: &[u8]) -> String {
    let mut text = prefix.to_owned();
    for byte in content {
        // Writing to a `String` cannot fail.
        let _infallible = write!(text, "{byte:02x}");
    }
    let check = checksum(&text);
    text.extend(check.map(char::from));
    text
}

impl Secret {
    /// A new secret of the kind `prefix` from 32 random bytes.
    pub fn new(prefix: &str, random: [u8; 32]) -> Self {
        let mut random = Zeroizing::new(random);
        let body: Zeroizing<[u8; BODY_LEN]> = Zeroizing::new(base62(random.as_mut()));
        // Allocate the full length at once: a string that grows leaves copies of the secret in memory.
        let mut text = String::with_capacity(prefix.len() + BODY_LEN + CHECK_LEN);
        text.push_str(prefix);
        text.extend(body.iter().copied().map(char::from));
        let check = checksum(&text);
        text.extend(check.map(char::from));
        Self(text)
    }

    /// Reads a secret of the kind `prefix`, checking its form and its checksum.
    pub fn parse(prefix: &str, text: &str) -> Result<Self, InvalidSecret> {
        if has_form(prefix, text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidSecret)
        }
    }

    /// The secret in clear: for the answer that shows it once, and for nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the SHA-256 that is stored and looked up.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", self.0.get(..4).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_secret_is_read_back(random: [u8; 32]) {
            let secret = Secret::new(SELF_HOSTED_KEY, random);
            prop_assert_eq!(secret.expose().len(), 4 + 43 + 6);
            prop_assert_eq!(Secret::parse(SELF_HOSTED_KEY, secret.expose()), Ok(secret.clone()));
            prop_assert_eq!(Secret::parse(HOSTED_KEY, secret.expose()), Err(InvalidSecret));
        }

        #[test]
        fn one_changed_character_is_refused(random: [u8; 32], at in 4_usize..53, to in 0_usize..62) {
            let secret = Secret::new(SELF_HOSTED_KEY, random);
            let mut text = secret.expose().to_owned().into_bytes();
            prop_assume!(text[at] != ALPHABET[to]);
            text[at] = ALPHABET[to];
            let text = String::from_utf8(text).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(Secret::parse(SELF_HOSTED_KEY, &text), Err(InvalidSecret));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _read = Secret::parse(SELF_HOSTED_KEY, &text);
        }
    }

    #[test]
    fn a_signed_text_is_read_back_unless_it_was_changed() {
        let text = signed_text(RUN_TOKEN, &[7, 255, 0]);
        let content = |text: &str| Presented::from(text).signed_content::<3>(RUN_TOKEN);
        assert_eq!(content(&text), Some([7, 255, 0]));
        assert_eq!(Presented::from(&text).signed_content::<3>(ACCESS_TOKEN), None);
        assert_eq!(Presented::from(&text).signed_content::<2>(RUN_TOKEN), None);
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'a' { b'b' } else { b'a' };
            assert_eq!(content(&String::from_utf8_lossy(&changed)), None, "{at}");
        }
        for other in ["", "stt_", "é", "stt_é123456", "stt_07ff00"] {
            assert_eq!(content(other), None, "{other}");
        }
    }

    #[test]
    fn different_bytes_give_different_secrets() {
        assert_ne!(
            Secret::new(SELF_HOSTED_KEY, [0; 32]),
            Secret::new(SELF_HOSTED_KEY, [1; 32])
        );
        assert!(!format!("{:?}", Secret::new(SELF_HOSTED_KEY, [9; 32])).contains("000"));
    }
}
