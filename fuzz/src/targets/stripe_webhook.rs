//! Signatures of webhooks, from Stripe or an attacker.
//!
//! The first line of an input is the header. `@0` and `@1` in it are replaced by valid signatures with the two secrets, so that
//! the fuzzer finds accepted headers. The rest is the body. The verdict must match that of a simple implementation.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use signature::verify_signature;

use crate::{Bounds, Input, Line};

#[path = "../../../crates/billing/src/stripe/signature.rs"]
mod signature;

const BOUNDS: Bounds = Bounds {
    memory: Line {
        base: 64 << 10,
        per_byte: 20,
    },
    time: Line {
        base: 20_000_000,
        per_byte: 5_000,
    },
};
/// Maximum size of a header and a body, in bytes.
const MOST: usize = 8 << 10;

const SECRETS: [&str; 2] = ["whsec_old", "whsec_new"];
const NOW: u64 = 1_763_674_200;

/// Checks one input.
pub fn check(data: &[u8]) {
    let input = Input::repeated(data, MOST);
    let end = input.bytes.iter().position(|byte| *byte == b'\n');
    let (header, body) = input.bytes.split_at(end.unwrap_or(input.bytes.len()));
    let header = String::from_utf8_lossy(header);
    let time = entries(&header).into_iter().find(|(scheme, _)| *scheme == "t");
    let time = time.map_or("", |(_, time)| time).to_owned();
    let header = SECRETS
        .iter()
        .enumerate()
        .fold(header.into_owned(), |header, (at, secret)| {
            header.replace(&format!("@{at}"), &genuine(secret, &time, body))
        });
    let checked = BOUNDS.hold(header.len() + body.len(), || {
        verify_signature(&header, body, SECRETS, NOW)
    });
    assert_eq!(checked.is_ok(), accepts(&header, body), "{header}");
}

/// Scheme and value of each entry.
fn entries(header: &str) -> Vec<(&str, &str)> {
    let entry = |entry| str::split_once(entry, '=');
    let entries = header.split(',').filter_map(entry);
    entries
        .map(|(scheme, value)| (scheme.trim_start(), value))
        .collect()
}

fn genuine(secret: &str, time: &str, body: &[u8]) -> String {
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    let message = [time.as_bytes(), b".", body].concat();
    let mac = mac.chain_update(message).finalize().into_bytes();
    mac.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// Whether a simple implementation accepts a header. It does not have to protect secrets.
fn accepts(header: &str, body: &[u8]) -> bool {
    let entries = entries(header);
    if entries.len() != header.split(',').count() {
        return false;
    }
    let times: Vec<_> = entries.iter().filter(|(scheme, _)| *scheme == "t").collect();
    let [(_, time)] = times.as_slice() else {
        return false;
    };
    let is_near = time.parse().is_ok_and(|time: u64| time.abs_diff(NOW) <= 300);
    let is_number = time.bytes().all(|byte| byte.is_ascii_digit());
    let expected = SECRETS.map(|secret| genuine(secret, time, body));
    let is_expected =
        |(scheme, value): &&(&str, &str)| *scheme == "v1" && expected.iter().any(|of| of == value);
    is_near && is_number && entries.iter().any(|entry| is_expected(&entry))
}
