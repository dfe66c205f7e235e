//! Rules of names and passwords.

use sha2::{Digest as _, Sha256};
use sortie_api::{ErrorCode, file::is_seen_whole, limits};
use sortie_base::hex;
use zxcvbn::{Score, zxcvbn};

use crate::{Result, email::EmailAddress};

/// Range of the length of a new password, in bytes of UTF-8.
pub const PASSWORD_BYTES: std::ops::RangeInclusive<usize> = 12..=72;

/// Subject of attempts for an address. It does not reveal the address.
pub(crate) fn subject_of(email: &EmailAddress) -> String {
    let hash: [u8; 32] = Sha256::digest(email.key.as_bytes()).into();
    hex(&hash)
}

/// Reads the name of a person in the field `name`.
pub(crate) fn name(text: &str) -> Result<String> {
    checked_name(text, limits::NAME_CHARS)
}

/// Reads the name of a person or an object from the field `name` and trims it. Names are shown to other people, so characters
/// that hide or reorder the text around the name are refused.
pub(crate) fn checked_name(text: &str, most: usize) -> Result<String> {
    let text = text.trim();
    if (1..=most).contains(&text.chars().count()) && is_seen_whole(text) {
        return Ok(text.to_owned());
    }
    Err(ErrorCode::InvalidRequest.because(format!(
        "name: must be 1 to {most} characters, without control and invisible characters"
    )))
}

/// Checks the length of the new password in a field.
pub(crate) fn password_length(field: &'static str, password: &str) -> Result<()> {
    if PASSWORD_BYTES.contains(&password.len()) {
        return Ok(());
    }
    let (least, most) = PASSWORD_BYTES.into_inner();
    Err(ErrorCode::InvalidRequest.because(format!("{field}: must have {least} to {most} bytes")))
}

/// Checks that a new password is hard to guess even with knowledge of the person's address and name. Takes several
/// milliseconds of CPU time.
pub(crate) fn password_strength(field: &'static str, password: &str, person: &[&str]) -> Result<()> {
    let parts = person.iter().flat_map(|hint| hint.split(['@', '.', ' ']));
    let hints: Vec<&str> = person
        .iter()
        .copied()
        .chain(parts)
        .filter(|hint| !hint.is_empty())
        .collect();
    if zxcvbn(password, &hints).score() >= Score::Three {
        return Ok(());
    }
    Err(ErrorCode::InvalidRequest.because(format!(
        "{field}: is too easy to guess: take several unrelated words, or the password of a password manager"
    )))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_testkit::list;

    use super::*;

    proptest! {
        #[test]
        fn an_accepted_address_is_one_line_with_one_at_sign(text in "\\PC{0,20}@?\\PC{0,20}") {
            if let Ok(email) = EmailAddress::parse(&text) {
                prop_assert_eq!(email.text.matches('@').count(), 1);
                prop_assert!(!email.text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '<' || c == ','));
                prop_assert!(email.text.len() <= sortie_api::limits::EMAIL_BYTES);
                // Normalization is idempotent for every spelling.
                prop_assert_eq!(&EmailAddress::parse(&email.key).unwrap().key, &email.key);
                prop_assert_eq!(EmailAddress::parse(&format!("  {} ", email.text)).unwrap(), email);
            }
        }

        #[test]
        fn plain_addresses_are_accepted(local in "[a-zA-Z0-9+_-]{1,30}", domain in "[a-z0-9]{1,20}(\\.[a-z]{2,5})?") {
            let email = EmailAddress::parse(&format!("{local}@{domain}")).unwrap();
            prop_assert_eq!(email.key, format!("{local}@{domain}").to_lowercase());
        }

        #[test]
        fn no_text_makes_the_rules_panic(text in "\\PC*") {
            let _read = (EmailAddress::parse(&text), name(&text), password_length("password", &text));
            let _checked = password_strength("password", &text.chars().take(72).collect::<String>(), &[&text]);
        }

        #[test]
        fn a_password_of_random_characters_is_accepted_and_its_length_is_counted_in_bytes(text in "[a-zA-Z0-9]{16,72}") {
            password_length("password", &text).unwrap();
            password_strength("password", &text, &["ann@example.com", "Ann"]).unwrap();
            let doubled = "ü".repeat(text.len());
            prop_assert_eq!(password_length("password", &doubled).is_ok(), doubled.len() <= 72);
        }
    }

    #[test]
    fn addresses_that_mail_headers_would_misread_are_refused() {
        for text in list! {
            "", "@", "a@", "@b", "a@b@c", "a b@c", "a@b\r\nBcc: c@d", "<a@b>", "a,b@c", "\"a\"@b", "a@b..c", "a@b.",
            "a@[127.0.0.1]", "a\u{0}@b", "a@b;c", "a\u{a0}b@c",
        } {
            assert!(EmailAddress::parse(text).is_err(), "{text:?}");
        }
        let (upper, lower) = (
            EmailAddress::parse("Ann@Example.COM").unwrap(),
            EmailAddress::parse("ann@example.com").unwrap(),
        );
        assert_eq!((upper.text.as_str(), &upper.key), ("Ann@Example.COM", &lower.key));
        assert_eq!(subject_of(&upper), subject_of(&lower));
        assert!(!subject_of(&upper).contains("ann"));
    }

    #[test]
    fn names_have_a_character_and_no_line_break() {
        assert_eq!(name("  Ann B. ").unwrap(), "Ann B.");
        name(&"ü".repeat(100)).unwrap();
        for text in ["", "   ", "a\nb", "a\u{7f}", &"a".repeat(101)] {
            assert!(name(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn passwords_of_the_wrong_length_or_made_of_the_person_are_refused() {
        let person = ["annabelle.miller@example.com", "Annabelle Miller"];
        for password in ["elevenbytes", &"x".repeat(73)] {
            assert!(password_length("password", password).is_err(), "{password}");
        }
        for password in list! {
            "password1234", "aaaaaaaaaaaaaaaa", "annabellemiller", "annabelle.miller@example.com", "123456789012",
        } {
            let refused = password_strength("new_password", password, &person);
            assert!(
                matches!(&refused, Err(rule) if rule.code == ErrorCode::InvalidRequest && rule.text.starts_with("new_password: ")),
                "{password}"
            );
        }
        password_strength("password", "correct horse battery staple", &person).unwrap();
    }
}
