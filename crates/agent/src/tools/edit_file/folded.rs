//! Texts with irrelevant differences folded away, and a mapping of each byte to its source.

use std::ops::Range;

use unicode_normalization::char::decompose_canonical;

/// Differences that are folded away. Each variant includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fold {
    /// None.
    Exact,
    /// Line breaks of Windows.
    LineBreaks,
    /// White space at the ends of lines.
    LineEnds,
    /// Typographic characters: quotes, dashes, blanks, the ellipsis, characters without a width. Letters with accents,
    /// which are one character or several.
    Typography,
}

/// A folded text.
pub(super) struct Folded {
    pub(super) text: String,
    /// For each byte of `text`, and for its end, the offset in the source. Empty if nothing was folded.
    sources: Vec<u32>,
}

impl Folded {
    pub(super) fn new(source: &str, fold: Fold) -> Self {
        if fold == Fold::Exact {
            return Self {
                text: source.to_owned(),
                sources: Vec::new(),
            };
        }
        let mut folded = Self {
            text: String::with_capacity(source.len()),
            sources: Vec::with_capacity(source.len() + 1),
        };
        let mut at = 0;
        for line in source.split_inclusive('\n') {
            folded.push_line(line, at, fold);
            at += line.len();
        }
        folded.push_source(at);
        folded
    }

    fn push_line(&mut self, line: &str, at: usize, fold: Fold) {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        let bare = bare
            .strip_suffix('\r')
            .filter(|_| bare.len() < line.len())
            .unwrap_or(bare);
        let kept = match fold {
            Fold::Exact | Fold::LineBreaks => bare,
            Fold::LineEnds => bare.trim_end_matches([' ', '\t', '\r']),
            Fold::Typography => {
                bare.trim_end_matches(|c| matches!(c, '\t' | '\r') || plain(c) == " " || plain(c).is_empty())
            }
        };
        for (offset, c) in kept.char_indices() {
            let before = self.text.len();
            if fold == Fold::Typography && !c.is_ascii() {
                match plain(c) {
                    "\0" => decompose_canonical(c, |part| self.text.push(part)),
                    plain => self.text.push_str(plain),
                }
            } else {
                self.text.push(c);
            }
            for _ in before..self.text.len() {
                self.push_source(at + offset);
            }
        }
        if bare.len() < line.len() {
            self.text.push('\n');
            self.push_source(at + kept.len());
        }
    }

    fn push_source(&mut self, at: usize) {
        self.sources.push(u32::try_from(at).unwrap_or(u32::MAX));
    }

    /// Whether nothing was folded.
    pub(super) fn is_exact(&self) -> bool {
        self.sources.is_empty()
    }

    /// Whether a character of the source begins at this byte, or the text ends there.
    pub(super) fn begins_at(&self, at: usize) -> bool {
        let source = |at: usize| self.sources.get(at);
        at == 0 || source(at) != source(at - 1)
    }

    /// The range in the source of a range of the folded text. White space that was folded away belongs to the line break after
    /// it.
    pub(super) fn source(&self, range: Range<usize>) -> Range<usize> {
        let at = |at: usize| self.sources.get(at).map_or(at, |source| *source as usize);
        at(range.start)..at(range.end)
    }
}

/// The plain form of a typographic character; `"\0"` for any other.
fn plain(c: char) -> &'static str {
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}' => "-",
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{02bc}' => "'",
        '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{ab}' | '\u{bb}' => "\"",
        ' ' | '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => " ",
        '\u{2026}' => "...",
        '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}' => "",
        _ => "\0",
    }
}

/// A line without the differences that [`Fold::Typography`] ignores.
pub(super) fn plain_line(line: &str) -> String {
    Folded::new(line, Fold::Typography).text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_fold_takes_away_its_differences() {
        let source = "a\u{a0}\u{201c}b\u{201d}\u{2026} \t\r\nc\u{200b}d  ";
        for (fold, text) in [
            (Fold::Exact, source),
            (
                Fold::LineBreaks,
                "a\u{a0}\u{201c}b\u{201d}\u{2026} \t\nc\u{200b}d  ",
            ),
            (Fold::LineEnds, "a\u{a0}\u{201c}b\u{201d}\u{2026}\nc\u{200b}d"),
            (Fold::Typography, "a \"b\"...\ncd"),
        ] {
            assert_eq!(Folded::new(source, fold).text, text, "{fold:?}");
        }
    }

    #[test]
    fn letters_with_accents_are_the_same_in_both_forms() {
        let (composed, decomposed) = ("caf\u{e9} \u{d55c}", "cafe\u{301} \u{1112}\u{1161}\u{11ab}");
        assert_eq!(plain_line(composed), plain_line(decomposed));
        let folded = Folded::new(composed, Fold::Typography);
        assert!(folded.begins_at(3) && !folded.begins_at(4) && folded.begins_at(6));
    }

    proptest! {
        #[test]
        fn every_place_leads_back_to_its_source(source in "[ab \t\r\n\u{a0}\u{2014}\u{2026}\u{200b}\u{e9}\u{301}]{0,30}") {
            for fold in [Fold::Exact, Fold::LineBreaks, Fold::LineEnds, Fold::Typography] {
                let folded = Folded::new(&source, fold);
                prop_assert_eq!(folded.source(0..folded.text.len()).end, source.len());
                for (at, c) in folded.text.char_indices() {
                    let place = folded.source(at..at + c.len_utf8());
                    prop_assert!(place.start <= place.end && source.is_char_boundary(place.start));
                    if matches!(c, 'a' | 'b') {
                        prop_assert_eq!(source[place.start..].chars().next(), Some(c));
                    }
                }
            }
        }
    }
}
