//! Account of the tokens, from the `id_token` of the token endpoint.
//!
//! The signature is not checked: the token comes directly from the token endpoint over an authenticated connection (`OpenID`
//! Connect Core, section 3.1.3.7). The name is only displayed and has no effect.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use crate::text;

/// Maximum length of a stored name, in bytes.
const NAME_BYTES: usize = 200;

/// Returns the account in the claims of an `id_token`: an email address that is not marked as unverified, otherwise a name.
pub(super) fn of(id_token: &str) -> Option<String> {
    let payload = id_token.split('.').nth(1)?;
    let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let claims: Map<String, Value> = serde_json::from_slice(&bytes).ok()?;
    let claim = |name: &str| {
        let line = text::line(claims.get(name)?.as_str()?, NAME_BYTES);
        (!line.is_empty()).then_some(line)
    };
    let is_unverified = claims.get("email_verified") == Some(&Value::Bool(false));
    claim("email")
        .filter(|_| !is_unverified)
        .or_else(|| claim("preferred_username"))
        .or_else(|| claim("name"))
        .or_else(|| claim("sub"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn token(claims: &Value) -> String {
        format!("e30.{}.x", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn the_best_name_is_taken_and_is_one_line_of_text() {
        for (claims, expected) in [
            (
                json!({"sub": "1", "email": "ann@example.com"}),
                Some("ann@example.com"),
            ),
            (
                json!({"sub": "1", "email": "ann@example.com", "email_verified": false}),
                Some("1"),
            ),
            (json!({"sub": "1", "preferred_username": "ann"}), Some("ann")),
            (json!({"sub": "1", "name": "a\u{202e}n\nn\u{1b}"}), Some("an n")),
            (json!({"sub": 1, "email": ""}), None),
            (json!({}), None),
            (json!([]), None),
        ] {
            assert_eq!(of(&token(&claims)).as_deref(), expected, "{claims}");
        }
    }

    proptest! {
        #[test]
        fn no_token_makes_it_panic(token in "[ -~]{0,60}|[A-Za-z0-9_.-]{0,60}") {
            of(&token);
        }

        #[test]
        fn no_name_is_too_long(name in "\\PC{0,400}") {
            let name = of(&token(&json!({"sub": name}))).unwrap_or_default();
            prop_assert!(name.len() <= NAME_BYTES + '…'.len_utf8());
        }
    }
}
