//! Names of tools for the model, from a connection and its tool.
//!
//! `<connection>__<tool>` matches `[a-zA-Z][a-zA-Z0-9_-]{0,63}`, which every provider accepts, and depends only on the two names,
//! so that a run that resumes on another node finds its tools again. If a name had to be changed or would be ambiguous, it ends
//! with a part of a hash of both names. Two different tools then have the same name only if a server provokes a collision.

use sha2::{Digest, Sha256};

/// Maximum length of a tool name that every provider accepts, in bytes.
const LONGEST: usize = 64;
/// Length to which a connection's name is truncated if the whole name is too long, in bytes.
const CONNECTION_PART: usize = 24;
/// Number of hexadecimal digits of the hash.
const HASH_DIGITS: usize = 8;

/// Returns the name of `tool` of `connection`.
pub(crate) fn tool_name(connection: &str, tool: &str) -> String {
    let plain = format!("{connection}__{tool}");
    // Gemini and Kimi reject names that start with a digit.
    let is_started = connection.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_clear = is_started && !connection.contains("__") && !connection.ends_with('_') && !tool.is_empty();
    if is_clear && plain.len() <= LONGEST && plain.bytes().all(is_allowed) {
        return plain;
    }
    let mut hash = Sha256::new();
    hash.update((connection.len() as u64).to_be_bytes());
    hash.update(connection);
    hash.update(tool);
    let digits: String = hash
        .finalize()
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|nibble| char::from_digit(nibble.into(), 16))
        .take(HASH_DIGITS)
        .collect();
    let connection = mapped(connection, CONNECTION_PART);
    let connection = if is_started {
        connection
    } else {
        format!("c{connection}")
    };
    // Two underscores between the parts, one before the hash.
    let tool = mapped(tool, LONGEST - connection.len() - HASH_DIGITS - 3);
    format!("{connection}__{tool}_{digits}")
}

/// Returns the start of `name`, with invalid characters replaced by `_`.
fn mapped(name: &str, limit: usize) -> String {
    let allowed = |c: char| u8::try_from(c).is_ok_and(is_allowed);
    name.chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .take(limit)
        .collect()
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_names_are_kept() {
        assert_eq!(tool_name("github", "create_issue"), "github__create_issue");
        assert_eq!(tool_name("my-api", "request"), "my-api__request");
    }

    #[test]
    fn what_had_to_be_changed_ends_with_a_hash() {
        let name = tool_name("api.example.com", "a/b");
        assert!(name.starts_with("api_example_com__a_b_"), "{name}");
        assert_eq!(name.len(), "api_example_com__a_b_".len() + HASH_DIGITS);
        assert_eq!(name, tool_name("api.example.com", "a/b"));
        assert!(tool_name("3scale", "list").starts_with("c3scale__list_"));
    }

    #[test]
    fn names_that_could_be_read_in_two_ways_stay_apart() {
        for ((c1, t1), (c2, t2)) in [
            (("a", "b__c"), ("a__b", "c")),
            (("a_", "b"), ("a", "_b")),
            (("a.b", "c"), ("a_b", "c")),
            (("a", "b.c"), ("a", "b_c")),
        ] {
            assert_ne!(tool_name(c1, t1), tool_name(c2, t2));
        }
    }

    proptest! {
        #[test]
        fn any_names_make_a_name_that_providers_take(connection in "[a-z0-9][a-z0-9._-]{0,99}", tool in any::<String>()) {
            let name = tool_name(&connection, &tool);
            let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
            prop_assert!(starts && name.len() <= LONGEST && name.bytes().all(is_allowed), "{}", name);
        }

        #[test]
        fn different_tools_have_different_names(
            connections in ("[a-b][a-b._-]{0,4}", "[a-b][a-b._-]{0,4}"),
            tools in ("[a-b_./]{1,4}", "[a-b_./]{1,4}"),
        ) {
            let same = connections.0 == connections.1 && tools.0 == tools.1;
            prop_assert_eq!(tool_name(&connections.0, &tools.0) == tool_name(&connections.1, &tools.1), same);
        }
    }
}
