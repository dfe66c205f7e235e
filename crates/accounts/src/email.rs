//! Email addresses: validation of new ones, and the normalized form for comparison.

use sortie_api::{ErrorCode, limits};

use crate::Result;

/// Most bytes before the `@` (RFC 5321).
const LOCAL_BYTES: usize = 64;

/// Valid email address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EmailAddress {
    /// Address as the person typed it, trimmed.
    pub(crate) text: String,
    /// Normalized address for comparison: in lower case.
    pub(crate) key: String,
}

impl EmailAddress {
    /// Parses an address: a local part, one `@` and a domain, without spaces and control characters. Only a delivered mail proves
    /// that the address exists.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if is_address(text) {
            Ok(Self {
                text: text.to_owned(),
                key: text.to_lowercase(),
            })
        } else {
            Err(ErrorCode::InvalidRequest.because(format!(
                "email: must be an address such as ann@example.com, at most {} bytes",
                limits::EMAIL_BYTES
            )))
        }
    }
}

fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else {
        return false;
    };
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !"<>()[],;:\\\"".contains(c);
    let labels_are_plain = domain.split('.').all(|label| {
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.len() <= 63
    });
    text.len() <= limits::EMAIL_BYTES
        && !local.is_empty()
        && local.len() <= LOCAL_BYTES
        && !domain.contains('@')
        && labels_are_plain
        && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use sortie_testkit::list;

    use super::*;

    #[test]
    fn an_address_has_one_at_and_a_domain() {
        let long = format!("{}@example.com", "x".repeat(65));
        for good in [
            "ann@example.com",
            "a.b+c@sub.example.com",
            "o'neil@localhost",
            "änn@exämple.com",
        ] {
            assert!(EmailAddress::parse(good).is_ok(), "{good}");
        }
        for bad in list! {
            "", "@", "ann", "ann@", "@example.com", "ann@ex ample.com", "ann@example..com", "ann@b@example.com",
            "ann@-example.com", "Ann <ann@example.com>", "a\r\nBcc: b@example.com", &long,
        } {
            assert!(EmailAddress::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_are_compared_in_lower_case_without_spaces_around_them() {
        let address = EmailAddress::parse("  Ann@Example.COM ").unwrap();
        assert_eq!(
            (address.text.as_str(), address.key.as_str()),
            ("Ann@Example.COM", "ann@example.com")
        );
    }
}
