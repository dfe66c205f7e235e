//! Licenses: what a hosted deployment grants to a self-hosted engine, as a token that the engine verifies without network.
//!
//! A token is PASETO v4.public, signed with Ed25519. The footer names the key, so several keys can be in use.

mod paseto;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sortie_api::{DeploymentId, OrgId, Timestamp};
use zeroize::Zeroizing;

use crate::sealing::{hex, key_bytes};
use paseto::{Malformed, Token};

/// Prefix of a public key as text (PASERK).
const PUBLIC: &str = "k4.public.";

/// Rights of one deployment, as its token states them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LicenseClaims {
    /// Unique number of this token.
    pub serial: String,
    /// Deployment that the license is for.
    pub deployment: DeploymentId,
    /// Organization that has the license.
    pub organization: OrgId,
    /// Name of the deployment.
    pub name: String,
    /// ID of the installation.
    pub machine_id: String,
    /// Runs in a calendar month, in UTC.
    pub monthly_runs: i64,
    /// Time of issue.
    #[serde(rename = "iat")]
    pub issued_at: Timestamp,
    /// End of the license.
    #[serde(rename = "exp")]
    pub expires_at: Timestamp,
}

/// A token that grants nothing. The text is for the person who submitted it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLicense {
    /// The text is not a token.
    #[error("must be a license token, which begins with v4.public.")]
    Malformed,
    /// No key with the id of the footer is known.
    #[error("must be signed with a key of license.public_keys, which lacks {0:?}")]
    UnknownKey(String),
    /// The key did not sign this token.
    #[error("has a wrong signature")]
    WrongSignature,
    /// The key signed something other than a license.
    #[error("has claims that are not a license")]
    WrongClaims,
}

impl From<Malformed> for InvalidLicense {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// A text that is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLicenseKey {
    /// The text is not a public key.
    #[error("must be the output of `sortie license public-key`, which begins with k4.public.")]
    Public,
    /// The text is not a signing key.
    #[error("must be 32 random bytes in base64 or in hexadecimal")]
    Signing,
}

/// Key that verifies licenses.
#[derive(Clone, PartialEq, Eq)]
pub struct LicensePublicKey([u8; 32]);

impl LicensePublicKey {
    /// ID of the key, as in the footer of a token.
    pub fn id(&self) -> String {
        let digest = Sha256::digest(self.0);
        hex(digest.get(..8).unwrap_or_default())
    }

    fn verify(&self, token: &Token) -> Result<(), InvalidLicense> {
        self.verify_with(token, b"")
    }

    fn verify_with(&self, token: &Token, implicit: &[u8]) -> Result<(), InvalidLicense> {
        let signed = paseto::signed(&token.message, &token.footer, implicit);
        UnparsedPublicKey::new(&ED25519, &self.0)
            .verify(&signed, &token.signature)
            .map_err(|_| InvalidLicense::WrongSignature)
    }
}

impl fmt::Display for LicensePublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC}{}", URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for LicensePublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for LicensePublicKey {
    type Err = InvalidLicenseKey;

    fn from_str(text: &str) -> Result<Self, InvalidLicenseKey> {
        let bytes = text.strip_prefix(PUBLIC).map(|key| URL_SAFE_NO_PAD.decode(key));
        bytes
            .and_then(Result::ok)
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or(InvalidLicenseKey::Public)
    }
}

/// Key that signs licenses. `Debug` shows the public half.
pub struct LicenseSigner {
    pair: Ed25519KeyPair,
    public: LicensePublicKey,
}

impl LicenseSigner {
    /// Creates the key from a seed.
    fn of(seed: &[u8]) -> Result<Self, InvalidLicenseKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| InvalidLicenseKey::Signing)?;
        let public = pair.public_key().as_ref().try_into();
        let public = LicensePublicKey(public.map_err(|_| InvalidLicenseKey::Signing)?);
        Ok(Self { pair, public })
    }

    /// Returns the key that verifies signatures of this one.
    pub fn public(&self) -> &LicensePublicKey {
        &self.public
    }

    /// Signs a license. Returns its token.
    ///
    /// # Errors
    /// `Malformed` if the claims make a token that is too long to read.
    pub fn sign(&self, claims: &LicenseClaims) -> Result<Zeroizing<String>, InvalidLicense> {
        let message = serde_json::to_vec(claims).map_err(|_| InvalidLicense::WrongClaims)?;
        let footer = paseto::footer(&self.public.id()).map_err(|_| InvalidLicense::WrongClaims)?;
        let text = self.token(message, footer, b"").text();
        if text.len() > paseto::MOST {
            return Err(InvalidLicense::Malformed);
        }
        Ok(text.into())
    }

    fn token(&self, message: Vec<u8>, footer: Vec<u8>, implicit: &[u8]) -> Token {
        let signature = self.pair.sign(&paseto::signed(&message, &footer, implicit));
        Token {
            message,
            signature: signature.as_ref().to_vec(),
            footer,
        }
    }
}

impl FromStr for LicenseSigner {
    type Err = InvalidLicenseKey;

    fn from_str(text: &str) -> Result<Self, InvalidLicenseKey> {
        let seed = key_bytes(text).ok_or(InvalidLicenseKey::Signing)?;
        Self::of(seed.as_slice())
    }
}

impl fmt::Debug for LicenseSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LicenseSigner").field(&self.public).finish()
    }
}

/// Reads a token that one of these keys signed. The caller checks the time and the installation.
///
/// # Errors
/// The rule that the token breaks.
pub fn read_license(token: &str, keys: &[LicensePublicKey]) -> Result<LicenseClaims, InvalidLicense> {
    let token = Token::parse(token.trim())?;
    let id = token.key_id()?;
    let key = keys
        .iter()
        .find(|key| key.id() == id)
        .ok_or_else(|| InvalidLicense::UnknownKey(id.chars().take(32).collect()))?;
    key.verify(&token)?;
    serde_json::from_slice(&token.message)
        .ok()
        .filter(|claims: &LicenseClaims| claims.monthly_runs >= 0)
        .ok_or(InvalidLicense::WrongClaims)
}
