//! Signature of a webhook: `Stripe-Signature: t=SECONDS,v1=HEX,v1=HEX`.
//!
//! A webhook is genuine if one `v1` is the HMAC-SHA256 of `t.BODY` under one of the secrets. During a rotation Stripe signs with
//! the old and the new secret. Entries of other schemes are ignored.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq as _};

/// Maximum difference between the signature time and now, in seconds.
const TOLERANCE: u64 = 300;
/// Bytes of a signature.
const LENGTH: usize = 32;

/// Reason why a webhook is not genuine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSignature {
    /// The header has no time, or no signature.
    #[error("Stripe-Signature: must have a time `t` and a signature `v1`")]
    Malformed,
    /// No signature matches the body under any secret.
    #[error("Stripe-Signature: no signature matches")]
    Mismatch,
    /// The signature is genuine, but too old or from the future.
    #[error("Stripe-Signature: signed more than 5 minutes from now; check the clock of this machine")]
    Stale,
}

/// Time and signatures of a header.
struct Header<'a> {
    /// Seconds since 1970, exactly as signed.
    time: &'a str,
    signatures: Vec<[u8; LENGTH]>,
}

/// Checks the signature of a webhook. `body` must be the raw request body. The comparison runs in constant time.
pub fn verify_signature<'a>(
    header: &str,
    body: &[u8],
    secrets: impl IntoIterator<Item = &'a str>,
    now: u64,
) -> Result<(), InvalidSignature> {
    let header = Header::parse(header).ok_or(InvalidSignature::Malformed)?;
    let signed_at: u64 = header.time.parse().map_err(|_| InvalidSignature::Malformed)?;
    let mut is_genuine = Choice::from(0);
    for secret in secrets {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map_err(|_| InvalidSignature::Mismatch)?;
        mac.update(header.time.as_bytes());
        mac.update(b".");
        mac.update(body);
        let expected = mac.finalize().into_bytes();
        for signature in &header.signatures {
            is_genuine |= expected.as_slice().ct_eq(signature.as_slice());
        }
    }
    if !bool::from(is_genuine) {
        return Err(InvalidSignature::Mismatch);
    }
    if signed_at.abs_diff(now) > TOLERANCE {
        return Err(InvalidSignature::Stale);
    }
    Ok(())
}

impl<'a> Header<'a> {
    /// Parses a header. Returns `None` unless it has exactly one time, in digits, and at least one signature.
    fn parse(header: &'a str) -> Option<Self> {
        let mut time = None;
        let mut signatures = Vec::new();
        for entry in header.split(',') {
            let (scheme, value) = entry.split_once('=')?;
            match scheme.trim_start() {
                "t" if time.is_some() => return None,
                "t" => time = Some(value),
                "v1" => signatures.extend(decoded(value)),
                _ => {}
            }
        }
        let time = time.filter(|time| !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit()))?;
        (!signatures.is_empty()).then_some(Self { time, signatures })
    }
}

/// Parses a signature: 64 lower-case hexadecimal digits.
fn decoded(text: &str) -> Option<[u8; LENGTH]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let digits: Vec<u8> = text.bytes().map(digit).collect::<Option<_>>()?;
    let (pairs, _) = digits.as_chunks();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    (digits.len() == 2 * LENGTH).then_some(())?;
    bytes.try_into().ok()
}
