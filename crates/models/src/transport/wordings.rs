//! Tables of the words with which providers refuse a request.

/// A wording: a refusal that has all of the words, in lower case, is one of its kind.
pub(super) struct Wording {
    pub(super) words: &'static [&'static str],
    /// A refusal as it comes.
    #[cfg(test)]
    pub(super) example: &'static str,
    /// Provider or server that says it.
    #[cfg(test)]
    pub(super) source: &'static str,
}

/// Makes a table of `source: [words] in example;`.
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

/// Whether a refusal has all words of one of these wordings.
pub(super) fn is_any_in(table: &[Wording], said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    let has = |wording: &Wording| wording.words.iter().all(|word| said.contains(word));
    table.iter().any(has)
}
