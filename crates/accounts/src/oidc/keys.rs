//! Keys of an identity provider (JSON Web Key Set, RFC 7517), as far as `RS256` and `ES256` use them.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::Value;

/// Maximum number of keys that are read from a set.
const MOST_KEYS: usize = 100;
/// Maximum length of an RSA modulus, in bytes: 8192 bits.
const LONGEST_MODULUS: usize = 1_024;
/// Length of a coordinate of a point on the curve P-256, in bytes.
const COORDINATE: usize = 32;

/// Signature algorithm of ID tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// ECDSA on the curve P-256 with SHA-256.
    Es256,
}

impl Algorithm {
    /// Parses the name of an algorithm. Returns `None` if ID tokens may not use it.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }
}

/// Public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PublicKey {
    /// RSA key: modulus and exponent, without leading zeros.
    Rsa {
        /// Modulus.
        n: Vec<u8>,
        /// Exponent.
        e: Vec<u8>,
    },
    /// Point on the curve P-256, uncompressed.
    P256(Vec<u8>),
}

impl PublicKey {
    /// The algorithm that the key is for.
    pub(super) const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
        }
    }
}

/// Keys of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys(Vec<(Option<String>, PublicKey)>);

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Keys {
    /// Parses a set of keys. Keys of other kinds and uses are skipped.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let document: Document = serde_json::from_slice(bytes).map_err(|_| "is no JSON with keys")?;
        if document.keys.len() > MOST_KEYS {
            return Err("has too many keys");
        }
        let jwks = document
            .keys
            .into_iter()
            .filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        Ok(Self(
            jwks.filter_map(|jwk| Some((jwk.kid.clone(), jwk.public_key()?)))
                .collect(),
        ))
    }

    /// Finds the key of a signature. Without a key ID, exactly one key must match the algorithm.
    pub(super) fn find(&self, algorithm: Algorithm, kid: Option<&str>) -> Option<&PublicKey> {
        let mut found = self.0.iter().filter(|(known, key)| {
            key.algorithm() == algorithm && kid.is_none_or(|kid| known.as_deref() == Some(kid))
        });
        let (_, key) = found.next()?;
        found.next().is_none().then_some(key)
    }
}

impl Jwk {
    /// Returns the public key, or `None` if it has another use or its algorithm is unknown.
    fn public_key(&self) -> Option<PublicKey> {
        if self.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let key = match self.kty.as_str() {
            "RSA" => {
                let (n, e) = (number(self.n.as_ref()?)?, number(self.e.as_ref()?)?);
                (n.len() <= LONGEST_MODULUS && e.len() <= n.len()).then_some(PublicKey::Rsa { n, e })?
            }
            "EC" if self.crv.as_deref() == Some("P-256") => {
                let (x, y) = (coordinate(self.x.as_ref()?)?, coordinate(self.y.as_ref()?)?);
                // SEC 1: the form of an uncompressed point.
                PublicKey::P256([&[4], x.as_slice(), y.as_slice()].concat())
            }
            _ => return None,
        };
        let is_for = |name: &String| Algorithm::parse(name) == Some(key.algorithm());
        self.alg.as_ref().is_none_or(is_for).then_some(key)
    }
}

fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let start = bytes.iter().position(|byte| *byte != 0)?;
    bytes.get(start..).map(<[u8]>::to_vec)
}

fn coordinate(text: &str) -> Option<Vec<u8>> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    (bytes.len() == COORDINATE).then_some(bytes)
}
