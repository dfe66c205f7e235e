//! Sealing: authenticated encryption of secrets in the database with the node's master key.
//!
//! A sealed text is a version byte, the id of its key, a random nonce and the output of `XChaCha20-Poly1305`. Table, column, row
//! and organization are authenticated as well, so cannot open a sealed text in another row. A node can have several keys; the
//! first one seals. Neither keys nor opened texts are ever logged.

use std::{
    fmt::{self, Write as _},
    str::FromStr,
};

use base64::{
    Engine as _,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use chacha20poly1305::{
    XChaCha20Poly1305,
    aead::{Aead as _, KeyInit as _, Payload},
};
use hmac::{Hmac, Mac as _, digest::common::Key};
use sha2::{Digest as _, Sha256};
use sortie_api::{OrgId, Refusal};
use zeroize::{Zeroize as _, Zeroizing};

/// Version of the format of a sealed text.
const VERSION: u8 = 1;
const KEY_ID: usize = 8;
const NONCE: usize = 24;

/// A master key: 32 random bytes, which are overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey {
    bytes: Zeroizing<[u8; 32]>,
    id: [u8; KEY_ID],
}

/// A text that is not a master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a master key is 32 bytes in base64 or in hexadecimal")]
pub struct InvalidKey;

impl MasterKey {
    /// Creates a key from its bytes.
    pub fn new(bytes: impl Into<Zeroizing<[u8; 32]>>) -> Self {
        let bytes = bytes.into();
        let mut id = [0; KEY_ID];
        let hash = Sha256::new()
            .chain_update(b"sortie master key\0")
            .chain_update(bytes.as_slice())
            .finalize();
        for (to, from) in id.iter_mut().zip(hash) {
            *to = from;
        }
        Self { bytes, id }
    }

    /// Derives a key for another purpose. It reveals nothing about this key.
    pub fn derived(&self, purpose: &[u8]) -> Hmac<Sha256> {
        derived_key(&self.bytes, purpose)
    }

    /// Reads a list of keys that are separated by commas. The first seals, and each of them opens.
    ///
    /// # Errors
    /// `InvalidKey` if one of them is not a key.
    pub fn list(text: &str) -> Result<Vec<Self>, InvalidKey> {
        text.split(',').map(|one| one.trim().parse()).collect()
    }

    /// Writes the list that [`Self::list`] reads.
    pub fn to_list(keys: &[Self]) -> Zeroizing<String> {
        // The buffer has its final size from the start: a growing one leaves copies of the key in memory.
        let mut text = Zeroizing::new(String::with_capacity(65 * keys.len()));
        for key in keys {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(&key.to_hex());
        }
        text
    }

    /// Returns the public id of the key, a hash that reveals nothing about the key.
    pub fn id(&self) -> String {
        hex(&self.id)
    }

    /// Returns the key in hexadecimal, the form for files.
    pub fn to_hex(&self) -> Zeroizing<String> {
        hex(&*self.bytes).into()
    }
}

/// Derives a key for a purpose from 32 random bytes. It reveals nothing about them.
pub fn derived_key(secret: &[u8; 32], purpose: &[u8]) -> Hmac<Sha256> {
    let mut block = Key::<Hmac<Sha256>>::default();
    for (to, from) in block.iter_mut().zip(secret) {
        *to = *from;
    }
    let hmac = Hmac::<Sha256>::new(&block).chain_update(purpose);
    block.as_mut_slice().zeroize();
    let mut key = hmac.finalize().into_bytes();
    for (to, from) in block.iter_mut().zip(&key) {
        *to = *from;
    }
    key.as_mut_slice().zeroize();
    let derived = Hmac::new(&block);
    block.as_mut_slice().zeroize();
    derived
}

/// Returns bytes in lowercase hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    // The buffer has its final size from the start: a growing one leaves copies of the key in memory.
    let text = String::with_capacity(2 * bytes.len());
    bytes.iter().fold(text, |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// Reads 32 bytes, of a key or a hash, from hexadecimal.
pub fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    fill_from_hex(text, &mut bytes)?;
    Some(bytes)
}

fn fill_from_hex(text: &str, bytes: &mut [u8; 32]) -> Option<()> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(())
}

impl FromStr for MasterKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        key_bytes(text).map(Self::new).ok_or(InvalidKey)
    }
}

/// Reads the 32 bytes of a key from hexadecimal or from base64.
pub(crate) fn key_bytes(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 32]);
    fill_from_hex(text, &mut bytes).or_else(|| fill_from_base64(text, &mut bytes))?;
    Some(bytes)
}

fn fill_from_base64(text: &str, bytes: &mut [u8; 32]) -> Option<()> {
    let any_padding = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    // The decoder needs room for the whole last group of four characters.
    let mut decoded = Zeroizing::new([0; 33]);
    [STANDARD, URL_SAFE].iter().find_map(|alphabet| {
        let base64 = GeneralPurpose::new(alphabet, any_padding);
        let length = base64.decode_slice(text, decoded.as_mut_slice()).ok()?;
        let key = decoded.get(..length).filter(|key| key.len() == 32)?;
        bytes.copy_from_slice(key);
        Some(())
    })
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(hidden)")
    }
}

/// The cell of the database that a sealed text belongs to. It is authenticated with the text.
#[derive(Clone, Copy, Debug)]
pub struct SealContext<'a> {
    /// Name of the table.
    pub table: &'a str,
    /// Name of the column.
    pub column: &'a str,
    /// Id of the row.
    pub row: &'a str,
    /// Organization that owns the row. `None` if the row belongs to the installation.
    pub org: Option<OrgId>,
}

/// Reason why a text cannot be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The node has no key.
    #[error("this node has no master key")]
    NoKey,
    /// The text was sealed with a key that this node does not have.
    #[error("it was sealed with another master key than this node has")]
    UnknownKey,
    /// The text was changed, or sealed for another context.
    #[error("it is not what was sealed here")]
    Broken,
}

impl From<SealError> for Refusal {
    fn from(error: SealError) -> Self {
        Self::internal(error)
    }
}

/// Seals and opens texts with the master keys of a node.
#[derive(Clone, Debug)]
pub struct Sealer {
    keys: Vec<MasterKey>,
}

impl Sealer {
    /// Creates a sealer with these keys, the newest first.
    pub const fn new(keys: Vec<MasterKey>) -> Self {
        Self { keys }
    }

    /// Whether there is a key.
    pub const fn has_key(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Returns the ids of the keys, the newest first.
    pub fn ids(&self) -> Vec<String> {
        self.keys.iter().map(MasterKey::id).collect()
    }

    /// Seals a sealed text again with the newest key. `None` if that key has sealed it.
    pub fn seal_again(
        &self,
        context: SealContext<'_>,
        sealed: &[u8],
        nonce: [u8; NONCE],
    ) -> Result<Option<Vec<u8>>, SealError> {
        let newest = self.keys.first().ok_or(SealError::NoKey)?;
        if key_of(sealed) == Some(newest.id()) {
            return Ok(None);
        }
        let text = self.open(context, sealed)?;
        self.seal(context, &text, nonce).map(Some)
    }

    /// Seals `text` with the newest key for its context. A nonce must not be used twice.
    pub fn seal(
        &self,
        context: SealContext<'_>,
        text: &[u8],
        nonce: [u8; NONCE],
    ) -> Result<Vec<u8>, SealError> {
        let key = self.keys.first().ok_or(SealError::NoKey)?;
        let mut sealed = vec![VERSION];
        sealed.extend_from_slice(&key.id);
        let vouched = vouched(&sealed, context);
        sealed.extend_from_slice(&nonce);
        let payload = Payload {
            msg: text,
            aad: &vouched,
        };
        let encrypted = XChaCha20Poly1305::new((&*key.bytes).into())
            .encrypt(&nonce.into(), payload)
            .map_err(|_| SealError::Broken)?;
        sealed.extend_from_slice(&encrypted);
        Ok(sealed)
    }

    /// Opens a text that was sealed for this context.
    pub fn open(&self, context: SealContext<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let (header, rest) = sealed.split_at_checked(1 + KEY_ID).ok_or(SealError::Broken)?;
        let (nonce, encrypted) = rest.split_first_chunk::<NONCE>().ok_or(SealError::Broken)?;
        let key_id = header.strip_prefix(&[VERSION]).ok_or(SealError::Broken)?;
        if self.keys.is_empty() {
            return Err(SealError::NoKey);
        }
        let key = self
            .keys
            .iter()
            .find(|key| key.id == key_id)
            .ok_or(SealError::UnknownKey)?;
        let payload = Payload {
            msg: encrypted,
            aad: &vouched(header, context),
        };
        XChaCha20Poly1305::new((&*key.bytes).into())
            .decrypt(&(*nonce).into(), payload)
            .map(Zeroizing::new)
            .map_err(|_| SealError::Broken)
    }
}

/// Returns the id of the key that a text was sealed with. `None` if the text was not sealed.
pub fn key_of(sealed: &[u8]) -> Option<String> {
    let (header, _) = sealed.split_at_checked(1 + KEY_ID)?;
    header.strip_prefix(&[VERSION]).map(hex)
}

/// Returns the associated data: the header and the context. Each part is prefixed with its length, so that two different contexts
/// never have the same bytes.
fn vouched(header: &[u8], context: SealContext<'_>) -> Vec<u8> {
    let org = context.org.map(|org| org.to_string()).unwrap_or_default();
    let mut bytes = header.to_vec();
    for part in [context.table, context.column, context.row, &org] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_api::Timestamp;

    use super::*;

    fn org(number: u8) -> OrgId {
        OrgId::new(Timestamp::from_micros(0), [number; 10])
    }

    fn context() -> SealContext<'static> {
        SealContext {
            table: "connection",
            column: "credentials",
            row: "conn_1",
            org: Some(org(1)),
        }
    }

    fn sealer(keys: &[u8]) -> Sealer {
        Sealer::new(keys.iter().map(|byte| MasterKey::new([*byte; 32])).collect())
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens_in_its_place_and_shows_nothing(text in prop::collection::vec(any::<u8>(), 0..200), nonce: [u8; NONCE]) {
            let sealed = sealer(&[1]).seal(context(), &text, nonce).unwrap();
            prop_assert_eq!(sealer(&[1]).open(context(), &sealed), Ok(text.clone().into()));
            prop_assert!(text.len() < 8 || !sealed.windows(text.len()).any(|part| part == text));
        }

        #[test]
        fn one_changed_byte_is_noticed(at: prop::sample::Index, change in 1_u8..=255, text in "[a-z]{0,40}") {
            let mut sealed = sealer(&[1]).seal(context(), text.as_bytes(), [7; NONCE]).unwrap();
            let at = at.index(sealed.len());
            sealed[at] ^= change;
            prop_assert!(sealer(&[1]).open(context(), &sealed).is_err());
        }

        #[test]
        fn another_place_does_not_open_it(
            table in "[a-z]{1,12}", column in "[a-z]{1,12}", row in "[a-z_0-9]{0,12}", other_org in 0_u8..3,
        ) {
            let sealed = sealer(&[1]).seal(context(), b"hush", [7; NONCE]).unwrap();
            let org = (other_org > 0).then(|| org(other_org));
            let other = SealContext { table: &table, column: &column, row: &row, org };
            let same = (other.table, other.column, other.row, org) == (context().table, context().column, context().row, context().org);
            prop_assert_eq!(sealer(&[1]).open(other, &sealed).is_ok(), same);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(sealer(&[1]).open(context(), &bytes).is_err());
        }

        #[test]
        fn a_key_is_read_in_every_spelling(bytes: [u8; 32]) {
            let key = MasterKey::new(bytes);
            prop_assert_eq!(key.to_hex().parse(), Ok(key.clone()));
            prop_assert_eq!(key.to_hex().to_uppercase().parse(), Ok(key.clone()));
            for padded in [
                base64::engine::general_purpose::STANDARD.encode(bytes),
                base64::engine::general_purpose::URL_SAFE.encode(bytes),
            ] {
                prop_assert_eq!(padded.parse(), Ok(key.clone()));
                prop_assert_eq!(padded.trim_end_matches('=').parse(), Ok(key.clone()));
            }
        }

        #[test]
        fn no_text_makes_a_key_panic(text in "\\PC{0,70}") {
            let _read = text.parse::<MasterKey>();
        }
    }

    #[test]
    fn parts_of_a_place_do_not_run_together() {
        let sealed = sealer(&[1]).seal(context(), b"hush", [7; NONCE]).unwrap();
        let shifted = SealContext {
            table: "connectionc",
            column: "redentials",
            ..context()
        };
        assert_eq!(sealer(&[1]).open(shifted, &sealed), Err(SealError::Broken));
    }

    #[test]
    fn the_newest_key_seals_and_older_ones_still_open() {
        let old = sealer(&[1]).seal(context(), b"old", [7; NONCE]).unwrap();
        let both = sealer(&[2, 1]);
        assert_eq!(both.open(context(), &old), Ok(b"old".to_vec().into()));
        let new = both.seal(context(), b"new", [8; NONCE]).unwrap();
        assert_eq!(sealer(&[2]).open(context(), &new), Ok(b"new".to_vec().into()));
        assert_eq!(sealer(&[1]).open(context(), &new), Err(SealError::UnknownKey));
        assert_eq!(sealer(&[2]).open(context(), &old), Err(SealError::UnknownKey));
        assert_eq!(sealer(&[]).open(context(), &old), Err(SealError::NoKey));
        assert_eq!(
            sealer(&[]).seal(context(), b"x", [9; NONCE]),
            Err(SealError::NoKey)
        );
    }

    #[test]
    fn what_an_older_key_sealed_is_sealed_again_and_nothing_else_is() {
        let id = |byte| Some(MasterKey::new([byte; 32]).id());
        let old = sealer(&[1]).seal(context(), b"old", [7; NONCE]).unwrap();
        assert_eq!(key_of(&old), id(1));
        let both = sealer(&[2, 1]);
        let new = both.seal_again(context(), &old, [8; NONCE]).unwrap().unwrap();
        assert_eq!(key_of(&new), id(2));
        assert_eq!(sealer(&[2]).open(context(), &new), Ok(b"old".to_vec().into()));
        assert_eq!(both.seal_again(context(), &new, [9; NONCE]), Ok(None));
        assert_eq!(
            sealer(&[3]).seal_again(context(), &old, [9; NONCE]),
            Err(SealError::UnknownKey)
        );
        assert_eq!(key_of(b"\x02something else"), None);
        assert_eq!(key_of(b""), None);
    }

    /// Fails to compile if a library leaves its copy of a key in memory.
    #[test]
    fn every_holder_of_a_key_overwrites_it() {
        fn overwrites<T: zeroize::ZeroizeOnDrop>() {}
        overwrites::<Zeroizing<[u8; 32]>>();
        // An HMAC holds two hash states and a buffer.
        overwrites::<Sha256>();
        overwrites::<XChaCha20Poly1305>();
        overwrites::<sortie_api::Credential>();
        overwrites::<sortie_api::secret::Secret>();
    }

    #[test]
    fn a_key_is_not_shown() {
        let shown = format!("{:?}", sealer(&[171]));
        assert!(!shown.contains("171") && !shown.contains("ab"), "{shown}");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in [
            "",
            "abc",
            &"0".repeat(63),
            &"g".repeat(64),
            &"A".repeat(42),
            &"A".repeat(44),
        ] {
            assert_eq!(text.parse::<MasterKey>(), Err(InvalidKey), "{text}");
        }
    }
}
