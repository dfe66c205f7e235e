//! Identifiers: a type prefix, `_`, and a `UUIDv7` as 26 lowercase Crockford base32 characters (the `TypeID` form).
//!
//! They sort by creation time, as text and as bytes, so that a new row is appended at the right edge of its index. An id reveals
//! its creation time and is never a secret.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::Type},
};
use uuid::{Builder, Uuid};

use crate::time::Timestamp;

/// Crockford's base32 alphabet, lowercase: no `i`, `l`, `o`, `u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Length of the base32 part: 130 bits, of which the first two are zero.
const ENCODED_LEN: usize = 26;

/// A text that is not an identifier of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid ID: expected `{prefix}_` and 26 base32 characters")]
pub struct InvalidId {
    /// The prefix that was expected, without the underscore.
    pub prefix: &'static str,
}

/// Appends the base32 characters of a value.
fn encode(value: u128, out: &mut String) {
    /// Digits of which a word of 60 bits consists. Shifts of the whole value are several times as slow.
    const OF_WORD: usize = 12;
    let word = |shift: u32| u64::try_from((value >> shift) & ((1 << 60) - 1)).unwrap_or(0);
    let mut text = [0; ENCODED_LEN];
    let mut digits = text.rchunks_mut(OF_WORD);
    for mut word in [word(0), word(60), word(120)] {
        for symbol in digits.next().into_iter().flatten().rev() {
            let digit = usize::try_from(word & 31).unwrap_or(0);
            *symbol = ALPHABET.get(digit).copied().unwrap_or_default();
            word >>= 5;
        }
    }
    // Pushing single characters would cost more than computing them.
    out.push_str(str::from_utf8(&text).unwrap_or_default());
}

fn decode(text: &str) -> Option<u128> {
    // 26 characters encode 130 bits, but an id has 128: the first character may only use three bits.
    if text.len() != ENCODED_LEN || text.bytes().next()? > b'7' {
        return None;
    }
    text.bytes().try_fold(0_u128, |value, byte| {
        let digit = ALPHABET.iter().position(|&symbol| symbol == byte)?;
        Some(value << 5 | u128::try_from(digit).ok()?)
    })
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name(Uuid);

        impl $name {
            /// The type prefix, without the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// A new identifier made at `at` with 10 random bytes (74 bits of them are used).
            pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
                let millis = u64::try_from(at.as_micros() / 1_000).unwrap_or(0);
                Self(Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
            }

            /// Returns the identifier without its prefix.
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0.into_bytes()
            }

            /// Returns the identifier of [`to_bytes`](Self::to_bytes).
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// Returns the time of creation, to the millisecond.
            pub fn made_at(self) -> Timestamp {
                let millis = i64::try_from(self.0.as_u128() >> 80).unwrap_or(0);
                Timestamp::from_micros(millis.saturating_mul(1_000))
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .pattern(Some(concat!("^", $prefix, "_[0-7][0-9a-hjkmnp-tv-z]{25}$")))
                    .into()
            }
        }

        impl ToSchema for $name {}

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&String::from(*self))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.strip_prefix(concat!($prefix, "_"))
                    .and_then(decode)
                    .map(|value| Self(Uuid::from_u128(value)))
                    .ok_or(InvalidId { prefix: $prefix })
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                let mut text = Self::with_capacity($prefix.len() + 1 + ENCODED_LEN);
                text.push_str(concat!($prefix, "_"));
                encode(id.0.as_u128(), &mut text);
                text
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }
    )+};
}

ids! {
    /// A run.
    RunId = "run";
    /// An organization: the owner of every other resource.
    OrgId = "org";
    /// An API key.
    KeyId = "key";
    /// A stored file.
    FileId = "file";
    /// A schedule.
    ScheduleId = "sched";
    /// A saved connection.
    ConnectionId = "conn";
    /// An entry of the audit log.
    AuditId = "aud";
    /// A person who signs in.
    UserId = "user";
    /// A person's permission for an OAuth client to act in an organization.
    GrantId = "grant";
    /// An OAuth client that registered itself.
    OauthClientId = "client";
    /// A sign-in of a person.
    SessionId = "sess";
    /// An invitation of an email address into an organization.
    InvitationId = "inv";
    /// A self-hosted installation that an organization has licensed.
    DeploymentId = "depl";
    /// A purchase of credits.
    TopupId = "topup";
    /// A consent to automatic purchases: no client ever sees one.
    ConsentId = "consent";
    /// A payment of a purchase.
    PaymentId = "pay";
    /// A refund that was ordered here: no client ever sees one.
    RefundOrderId = "refund";
    /// A mail to send: no client ever sees one.
    MailId = "mail";
    /// Content as it is stored: no client ever sees one.
    BlobId = "blob";
}

impl MailId {
    /// Returns the ID of the mail that brings an invitation.
    pub const fn of_invitation(invitation: InvitationId) -> Self {
        Self(invitation.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_id_survives_its_text(millis in 0_i64..281_474_976_710_655, random: [u8; 10]) {
            let id = RunId::new(Timestamp::from_micros(millis * 1_000), random);
            prop_assert_eq!(id.to_string().parse::<RunId>(), Ok(id));
            prop_assert_eq!(id.to_string().len(), 30);
        }

        #[test]
        fn ids_sort_by_creation_time(a in 0_i64..281_474_976_710_655, b in 0_i64..281_474_976_710_655, random: [u8; 10]) {
            prop_assume!(a != b);
            let early = RunId::new(Timestamp::from_micros(a.min(b) * 1_000), random);
            let late = RunId::new(Timestamp::from_micros(a.max(b) * 1_000), random);
            prop_assert!(early < late);
            prop_assert!(early.to_string() < late.to_string());
        }

        #[test]
        fn any_text_is_refused_or_read_exactly(text in "\\PC{0,40}") {
            if let Ok(id) = text.parse::<RunId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }

    #[test]
    fn an_id_of_another_kind_is_refused() {
        let id = RunId::new(Timestamp::from_micros(1_700_000_000_000_000), [7; 10]);
        assert_eq!(id.to_string().parse::<KeyId>(), Err(InvalidId { prefix: "key" }));
    }

    #[test]
    fn a_value_above_128_bits_is_refused() {
        assert!("run_80000000000000000000000000".parse::<RunId>().is_err());
        assert!("run_7zzzzzzzzzzzzzzzzzzzzzzzzz".parse::<RunId>().is_ok());
    }
}
