//! Rules of the metadata of runs and workflows (`docs/RUNS.md#instructions-and-metadata`).

use std::collections::BTreeMap;

use crate::limits;

/// Pairs of metadata, by key.
pub type Metadata = BTreeMap<String, String>;

/// Returns the pairs of a request and of its saved workflow. A pair of `sent` replaces the one of `saved` with the same key.
pub(crate) fn merged(sent: Option<Metadata>, saved: Option<Metadata>) -> Option<Metadata> {
    match (sent, saved) {
        (Some(sent), Some(mut all)) => {
            all.extend(sent);
            Some(all)
        }
        (sent, saved) => sent.or(saved),
    }
}

/// Checks the number of pairs, the keys and the values.
///
/// # Errors
/// The first broken rule, which begins with the name of its field.
pub fn check(metadata: &Metadata) -> Result<(), String> {
    if metadata.len() > limits::METADATA {
        return Err(format!(
            "metadata: must be at most {} pairs, with those of the workflow; these are {}",
            limits::METADATA,
            metadata.len()
        ));
    }
    for (key, value) in metadata {
        if !is_key(key) {
            let start: String = key.chars().take(limits::METADATA_KEY_CHARS).collect();
            return Err(format!(
                "metadata.{}: a key must be 1 to {} characters, without control characters",
                start.escape_debug(),
                limits::METADATA_KEY_CHARS
            ));
        }
        if value.chars().count() > limits::METADATA_VALUE_CHARS {
            return Err(format!(
                "metadata.{key}: must be at most {} characters",
                limits::METADATA_VALUE_CHARS
            ));
        }
    }
    Ok(())
}

/// A store may separate the key and the value by a control character.
fn is_key(key: &str) -> bool {
    let length = key.chars().count();
    (1..=limits::METADATA_KEY_CHARS).contains(&length) && !key.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, option, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn the_pairs_of_both_are_there_and_the_sent_one_of_each_key(
            sent in option::of(btree_map("[a-d]", "sent[0-9]", 0..4)),
            saved in option::of(btree_map("[a-d]", "saved[0-9]", 0..4)),
        ) {
            let result = merged(sent.clone(), saved.clone());
            prop_assert_eq!(result.is_some(), sent.is_some() || saved.is_some());
            let (result, sent, saved) =
                (result.unwrap_or_default(), sent.unwrap_or_default(), saved.unwrap_or_default());
            for key in ["a", "b", "c", "d"] {
                prop_assert_eq!(result.get(key), sent.get(key).or(saved.get(key)), "{}", key);
            }
        }

        #[test]
        fn metadata_within_its_limits_is_accepted_and_no_other(
            few in btree_map("[ä=.]{0,66}", "[ä\n]{511,513}", 0..3),
            many in btree_map("[a-z]{1,3}", "", 12..19),
        ) {
            for metadata in [few, many] {
                let is_right = metadata.len() <= 16
                    && metadata.keys().all(|key| (1..=64).contains(&key.chars().count()))
                    && metadata.values().all(|value| value.chars().count() <= 512);
                let result = check(&metadata);
                prop_assert_eq!(result.is_ok(), is_right);
                prop_assert!(result.err().is_none_or(|rule| rule.starts_with("metadata")));
            }
        }
    }

    #[test]
    fn a_broken_rule_names_the_key() {
        for (key, rule) in [
            ("", "metadata.: a key must be 1 to 64 characters"),
            ("a\u{1f}b", "metadata.a\\u{1f}b: a key must be"),
            ("a\nb", "metadata.a\\nb: a key must be"),
        ] {
            let metadata = Metadata::from([(key.to_owned(), String::new())]);
            let broken = check(&metadata).unwrap_err();
            assert!(broken.starts_with(rule), "{broken}");
        }
        let long = Metadata::from([("k".repeat(1_000), String::new())]);
        assert!(check(&long).unwrap_err().len() < 200);
    }
}
