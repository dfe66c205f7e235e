//! Signatures of ID tokens.

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

use super::{
    keys::{Keys, PublicKey},
    token::{Claims, SignedToken},
};

/// Outcome of the check of a signature.
#[derive(Debug)]
pub(super) enum Checked {
    /// The signature is valid: claims of the token.
    Claims(Claims),
    /// The keys of the provider do not include the key of the signature.
    UnknownKey,
}

/// Checks the signature of a token.
pub(super) fn check(token: &SignedToken<'_>, keys: &Keys) -> Result<Checked, &'static str> {
    let Some(key) = keys.find(token.algorithm, token.kid.as_deref()) else {
        return Ok(Checked::UnknownKey);
    };
    let (message, signature) = (token.signed.as_bytes(), token.signature.as_slice());
    let verified = match key {
        PublicKey::Rsa { n, e } => {
            RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
        }
        PublicKey::P256(point) => {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
        }
    };
    verified.map_err(|_| "the signature of the ID token is wrong")?;
    token.claims().map(Checked::Claims)
}
