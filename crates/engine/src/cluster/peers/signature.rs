//! Signature of a request between nodes: an HMAC-SHA256 over the method, the path and query, the time, and the client for which
//! the node sends the request.
//!
//! A signature is valid for 30 seconds and for this request. An eavesdropper can repeat the request in that time.

use std::time::Duration;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use sortie_api::{OrgId, Refusal, Timestamp};
use sortie_store::access::By;

use sortie_base::{MasterKey, from_hex, hex};

/// Header with the signature.
pub const PEER_HEADER: &str = "x-sortie-peer";

/// Maximum difference between the time of the signature and the time of its verification: the difference of the clocks and
/// the time of the transfer.
const WINDOW: Duration = Duration::from_secs(30);

const VERSION: &str = "1";

/// Client for which another node sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The organization.
    pub org: OrgId,
    /// Subject of the client's credential.
    pub by: By,
}

/// Keys of the signatures. The first key signs, every key verifies.
#[derive(Clone)]
pub(crate) struct Signer(Vec<Hmac<Sha256>>);

impl Signer {
    /// Derives the signing keys from the master keys. Returns `None` without master keys.
    pub(crate) fn new(keys: &[MasterKey]) -> Option<Self> {
        let keys: Vec<_> = keys.iter().map(peer_key).collect();
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// Signs a request, given as its method and its target (path and query). Returns the value of [`PEER_HEADER`].
    pub(crate) fn sign(&self, request: (&str, &str), peer: Peer, at: Timestamp) -> Result<String, Refusal> {
        let key = self
            .0
            .first()
            .ok_or_else(|| Refusal::internal("no key to sign with"))?;
        let signed = signed(request, peer, at.as_micros());
        let mac = key.clone().chain_update(signed).finalize().into_bytes();
        let Peer { org, by } = peer;
        Ok(format!("{VERSION} {} {org} {by} {}", at.as_micros(), hex(&mac)))
    }

    /// Returns the client that a header names. None unless one of the keys signed this request, with a time at most 30 seconds
    /// from `now`.
    pub(crate) fn verify(&self, request: (&str, &str), header: &str, now: Timestamp) -> Option<Peer> {
        let mut parts = header.split(' ');
        let mut next = || parts.next();
        if next()? != VERSION {
            return None;
        }
        let at: i64 = next()?.parse().ok()?;
        let peer = Peer {
            org: next()?.parse().ok()?,
            by: next()?.parse().ok()?,
        };
        let mac = from_hex(next()?)?;
        if next().is_some() {
            return None;
        }
        let apart = now.as_micros().checked_sub(at)?.unsigned_abs();
        let signed = signed(request, peer, at);
        let vouched = self
            .0
            .iter()
            .any(|key| key.clone().chain_update(&signed).verify_slice(&mac).is_ok());
        (vouched && u128::from(apart) <= WINDOW.as_micros()).then_some(peer)
    }
}

fn signed((method, target): (&str, &str), peer: Peer, at: i64) -> Vec<u8> {
    format!("{VERSION}\n{method}\n{target}\n{at}\n{}\n{}", peer.org, peer.by).into_bytes()
}

/// Derives the key for signatures of requests between nodes.
fn peer_key(key: &MasterKey) -> Hmac<Sha256> {
    // The output of an HMAC is a valid key, because an HMAC accepts keys of any length.
    key.derived(b"sortie requests between nodes")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_api::{GrantId, KeyId, RunId, ScheduleId, SessionId};

    use super::*;

    fn signer(keys: &[u8]) -> Signer {
        let keys: Vec<_> = keys.iter().map(|byte| MasterKey::new([*byte; 32])).collect();
        Signer::new(&keys).unwrap()
    }

    fn peer() -> Peer {
        let at = Timestamp::from_micros(0);
        Peer {
            org: OrgId::new(at, [1; 10]),
            by: By::Key(KeyId::new(at, [2; 10])),
        }
    }

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
    const REQUEST: (&str, &str) = ("GET", "/v1/runs/run_x?wait=0");

    #[test]
    fn what_one_node_signs_another_with_the_same_key_takes_for_half_a_minute() {
        let header = signer(&[1]).sign(REQUEST, peer(), NOW).unwrap();
        for (seconds, taken) in [(0, true), (30, true), (31, false)] {
            let apart = Duration::from_secs(seconds);
            let verified = signer(&[2, 1]).verify(REQUEST, &header, NOW + apart);
            assert_eq!(verified, taken.then(peer), "{seconds}");
        }
        let early = Timestamp::from_micros(NOW.as_micros() - 31_000_000);
        assert_eq!(signer(&[1]).verify(REQUEST, &header, early), None);
        assert_eq!(signer(&[2]).verify(REQUEST, &header, NOW), None);
        assert!(Signer::new(&[]).is_none());
    }

    #[test]
    fn it_is_good_for_this_request_and_this_client_alone() {
        let header = signer(&[1]).sign(REQUEST, peer(), NOW).unwrap();
        for other in [
            ("POST", REQUEST.1),
            ("GET", "/v1/runs/run_y?wait=0"),
            ("GET", "/v1/runs/run_x"),
        ] {
            assert_eq!(signer(&[1]).verify(other, &header, NOW), None, "{other:?}");
        }
        let another = OrgId::new(NOW, [9; 10]).to_string();
        let forged = header.replace(&peer().org.to_string(), &another);
        assert_ne!(forged, header);
        assert_eq!(signer(&[1]).verify(REQUEST, &forged, NOW), None);
    }

    #[test]
    fn it_names_every_kind_of_client() {
        for by in [
            By::Grant(GrantId::new(NOW, [3; 10])),
            By::Session(SessionId::new(NOW, [3; 10])),
            By::RunToken(RunId::new(NOW, [3; 10])),
            By::Schedule(ScheduleId::new(NOW, [3; 10])),
            By::Operator,
        ] {
            let peer = Peer { by, ..peer() };
            let header = signer(&[1]).sign(REQUEST, peer, NOW).unwrap();
            assert_eq!(signer(&[1]).verify(REQUEST, &header, NOW), Some(peer), "{by}");
            let forged = header.replace(&by.to_string(), &self::peer().by.to_string());
            assert_eq!(signer(&[1]).verify(REQUEST, &forged, NOW), None, "{by}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_or_pass(header in "\\PC{0,200}") {
            prop_assert_eq!(signer(&[1]).verify(REQUEST, &header, NOW), None);
        }

        #[test]
        fn one_changed_character_is_noticed(at: prop::sample::Index, to in "[0-9a-z ]") {
            let header = signer(&[1]).sign(REQUEST, peer(), NOW).unwrap();
            let at = at.index(header.len());
            let mut changed = header.clone();
            changed.replace_range(at..=at, &to);
            prop_assume!(changed != header);
            prop_assert_eq!(signer(&[1]).verify(REQUEST, &changed, NOW), None);
        }
    }
}
