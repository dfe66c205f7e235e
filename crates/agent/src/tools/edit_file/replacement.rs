//! Replacements that an edit may make in a file.

use std::ops::Range;

/// Places that are counted where a single one is wanted.
pub(super) const MOST: usize = 1_000;
/// Bytes that the new pieces of one edit may take together.
const NEW_BYTES: usize = 16 * 1024 * 1024;

/// Number of places that an edit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Single,
    All,
}

/// A range of the file, and the text that replaces it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replacement {
    pub(super) at: Range<usize>,
    /// `None` where the text cannot be told, and where several places leave the choice open.
    pub(super) with: Option<String>,
}

/// The places that were found, with their texts where these are needed.
///
/// # Errors
/// The message for the model, when the texts would be too large.
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
