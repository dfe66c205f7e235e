//! ID tokens (`OpenID` Connect Core 1.0, part 3.1.3.7): the form of a signed token, and the rules for its claims.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::keys::Algorithm;

/// Maximum length of a token, in bytes.
const LONGEST: usize = 32 * 1_024;
/// Maximum length of a subject, in bytes.
const LONGEST_SUBJECT: usize = 255;
/// Accepted clock difference, in seconds.
const LEEWAY: f64 = 60.0;

/// Claims that state whether the address is verified.
const PROOFS: [&str; 2] = ["email_verified", "xms_edov"];

/// Signed token before its signature is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SignedToken<'a> {
    /// Algorithm of the signature.
    pub(super) algorithm: Algorithm,
    /// ID of the key.
    pub(super) kid: Option<String>,
    /// Text that is signed.
    pub(super) signed: &'a str,
    /// The signature.
    pub(super) signature: Vec<u8>,
    payload: Vec<u8>,
}

/// Header of a token. Keys and key addresses in it are ignored.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl<'a> SignedToken<'a> {
    /// Parses the compact form of a token (RFC 7515).
    pub(super) fn parse(text: &'a str) -> Result<Self, &'static str> {
        if text.len() > LONGEST {
            return Err("the ID token is too long");
        }
        let (signed, signature) = text.rsplit_once('.').ok_or("the ID token is not signed")?;
        let (header, payload) = signed.split_once('.').ok_or("the ID token is not signed")?;
        let decode = |part: &str| {
            BASE64_URL_SAFE_NO_PAD
                .decode(part)
                .map_err(|_| "the ID token is not base64url")
        };
        let header: Header =
            serde_json::from_slice(&decode(header)?).map_err(|_| "the ID token has a wrong header")?;
        if header.crit.is_some() {
            return Err("the ID token has critical headers");
        }
        Ok(Self {
            algorithm: Algorithm::parse(&header.alg)
                .ok_or("the ID token is signed by an algorithm that is not accepted")?,
            kid: header.kid,
            signed,
            signature: decode(signature)?,
            payload: decode(payload)?,
        })
    }

    /// Reads the claims. Check the signature first: the claims of an unchecked token mean nothing.
    pub(super) fn claims(&self) -> Result<Claims, &'static str> {
        let claims = serde_json::from_slice(&self.payload).map_err(|_| "the ID token has wrong claims")?;
        Ok(Claims(claims))
    }
}

/// Expected values of the claims of an ID token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    /// Issuer of the provider.
    pub(super) issuer: &'a str,
    /// ID of this client.
    pub(super) client_id: &'a str,
    /// Nonce of the authorization request.
    pub(super) nonce: &'a str,
    /// Seconds since 1970.
    pub(super) now: i64,
}

/// Claims about a person.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Claims(Map<String, Value>);

impl Claims {
    /// Parses the answer of a userinfo endpoint and checks its subject.
    pub(super) fn of_userinfo(bytes: &[u8], subject: &str) -> Result<Self, &'static str> {
        let claims = Self(serde_json::from_slice(bytes).map_err(|_| "the userinfo is not a JSON object")?);
        if claims.text("sub") == Some(subject) {
            Ok(claims)
        } else {
            Err("the userinfo is about another person")
        }
    }

    /// Checks the claims of an ID token. Returns the subject.
    pub(super) fn check(&self, expected: &Expected<'_>) -> Result<&str, &'static str> {
        if self.text("iss") != Some(expected.issuer) {
            return Err("the ID token has another issuer");
        }
        self.check_audience(expected.client_id)?;
        // Seconds of a clock are far below the limit of exact `f64` integers.
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit")]
        let now = expected.now as f64;
        let time = |name: &str| self.0.get(name).and_then(Value::as_f64);
        if !time("exp").is_some_and(|end| now < end + LEEWAY) {
            return Err("the ID token has expired");
        }
        if !time("iat").is_some_and(|issued| issued <= now + LEEWAY) {
            return Err("the ID token was issued in the future");
        }
        if self.0.contains_key("nbf") && !time("nbf").is_some_and(|start| start <= now + LEEWAY) {
            return Err("the ID token is not valid yet");
        }
        if self.text("nonce") != Some(expected.nonce) {
            return Err("the ID token is not for this sign-in");
        }
        let subject = self.text("sub").unwrap_or_default();
        let is_subject =
            (1..=LONGEST_SUBJECT).contains(&subject.len()) && !subject.chars().any(char::is_control);
        is_subject
            .then_some(subject)
            .ok_or("the ID token names no subject")
    }

    /// Checks that the token is for this client. A token with several audiences must also have been issued to this client.
    fn check_audience(&self, client_id: &str) -> Result<(), &'static str> {
        let (is_for, several) = match self.0.get("aud") {
            Some(Value::String(one)) => (one == client_id, false),
            Some(Value::Array(all)) => (all.iter().any(|one| one == client_id), all.len() > 1),
            _ => (false, false),
        };
        if !is_for {
            return Err("the ID token is for another client");
        }
        let has_party = self.0.contains_key("azp");
        if (has_party || several) && self.text("azp") != Some(client_id) {
            return Err("the ID token was issued to another client");
        }
        Ok(())
    }

    /// Returns a string claim.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// Returns true if the token has a claim of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns true if the provider says that the address belongs to the person. Some providers write the claim as a string, and
    /// Microsoft Entra ID uses the claim `xms_edov`.
    pub(super) fn email_is_verified(&self) -> bool {
        let is_true = |name| match self.0.get(name) {
            Some(Value::Bool(value)) => *value,
            Some(Value::String(text)) => text == "true" || text == "1",
            Some(Value::Number(number)) => number.as_u64() == Some(1),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => false,
        };
        if self.has("email_verified") {
            is_true("email_verified")
        } else {
            is_true("xms_edov")
        }
    }

    fn remove_proof(&mut self) {
        for name in PROOFS {
            self.0.remove(name);
        }
    }

    /// Returns the strings of a claim: a single one, or a list.
    pub(super) fn texts(&self, name: &str) -> Vec<&str> {
        match self.0.get(name) {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
        }
    }

    /// Returns true if the claims state whether the address is verified.
    pub(super) fn has_proof(&self) -> bool {
        PROOFS.into_iter().any(|name| self.has(name))
    }

    /// Adds missing claims from `other`. `email_verified` applies only to the email in the same response, or to an identical one.
    pub(super) fn complete(&mut self, mut other: Self) {
        if !self.has("email") {
            self.remove_proof();
        } else if self.has_proof() || self.0.get("email") != other.0.get("email") {
            other.remove_proof();
        }
        for (name, value) in other.0 {
            self.0.entry(name).or_insert(value);
        }
    }
}
