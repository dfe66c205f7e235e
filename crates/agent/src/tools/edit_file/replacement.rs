//! Replacements that an edit may make in a file.

use std::ops::Range;

/// Maximum number of matches that are counted if a single one is wanted.
pub(super) const MOST: usize = 1_000;
/// Maximum total size of the new pieces of one edit, in bytes.
const NEW_BYTES: usize = 16 * 1024 * 1024;

/// Number of matches that an edit expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Single,
    All,
}

/// A range of the file, and the text that replaces it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replacement {
    pub(super) at: Range<usize>,
    /// `None` if the text is ambiguous, or if it is not needed because several places were found.
    pub(super) with: Option<String>,
}

/// The matches, with their texts if these are needed.
///
/// # Errors
/// The message for the model, if the texts would be too large.
pub(super) fn filled<F>(
    found: &[F],
    wanted: Wanted,
    at: impl Fn(&F) -> Range<usize>,
    replaced: impl Fn(&F) -> Replacement,
) -> Result<Vec<Replacement>, String> {
    if wanted == Wanted::Single && found.len() > 1 {
        let open = |found| Replacement {
            at: at(found),
            with: None,
        };
        return Ok(found.iter().map(open).collect());
    }
    let mut bytes = 0;
    let mut places = Vec::new();
    for found in found {
        let place = replaced(found);
        bytes += place.with.as_ref().map_or(0, String::len);
        if bytes > NEW_BYTES {
            return Err(format!("the new text would take more than {NEW_BYTES} bytes"));
        }
        places.push(place);
    }
    Ok(places)
}
