//! Tables of the wordings of refusals.

/// A wording. It matches a refusal that contains all of the words, in lower case.
pub(super) struct Wording {
    pub(super) words: &'static [&'static str],
    /// Example of a refusal.
    #[cfg(test)]
    pub(super) example: &'static str,
    /// Provider or server that sends it.
    #[cfg(test)]
    pub(super) source: &'static str,
}

/// Creates a table from `source: [words] in example;`.
macro_rules! wordings {
    ($($source:literal: [$($word:literal),+] in $example:literal;)*) => {
        &[$(Wording {
            words: &[$($word),+],
            #[cfg(test)]
            example: $example,
            #[cfg(test)]
            source: $source,
        }),*]
    };
}
pub(super) use wordings;

/// Whether a refusal matches one of these wordings.
pub(super) fn is_any_in(table: &[Wording], said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    let has = |wording: &Wording| wording.words.iter().all(|word| said.contains(word));
    table.iter().any(has)
}
