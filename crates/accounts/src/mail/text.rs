//! Sanitizes untrusted texts, such as names, for letters.

/// Maximum length of an untrusted text, in characters.
const LONGEST: usize = 100;

/// Zero-width character that keeps a mail program from turning the text around it into a link.
const BREAK: char = '\u{200b}';

/// Truncates an untrusted text, removes characters that would change the letter around it, and keeps mail programs from
/// turning it into a link.
pub(super) fn of_stranger(text: &str) -> String {
    let words: Vec<String> = text
        .split(|at: char| at.is_whitespace() || at.is_control())
        .map(|word| word.chars().filter(|at| !is_invisible(*at)).collect::<String>())
        .filter(|word| !word.is_empty())
        .collect();
    let whole = words.join(" ");
    let mut cut: String = whole.chars().take(LONGEST).collect();
    if cut.len() < whole.len() {
        cut = whole.chars().take(LONGEST - 1).collect();
        cut.truncate(cut.trim_end().len());
        cut.push('…');
    }
    unlinked(&cut)
}

/// Inserts a break after each character that an address needs, unless a space or the end of the text follows.
fn unlinked(text: &str) -> String {
    let mut broken = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(at) = rest.next() {
        broken.push(at);
        if matches!(at, '.' | ':' | '/' | '@') && rest.peek().is_some_and(|next| *next != ' ') {
            broken.push(BREAK);
        }
    }
    broken
}

/// Whether a character has no width, changes the direction of the text, or is a tag.
const fn is_invisible(at: char) -> bool {
    matches!(
        at,
        '\u{00ad}'
            | '\u{034f}'
            | '\u{061c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_is_long_or_has_lines_or_turns_the_direction(text in any::<String>()) {
            let shown = of_stranger(&text);
            let bare: Vec<char> = shown.chars().filter(|at| *at != BREAK).collect();
            prop_assert!(bare.len() <= LONGEST);
            prop_assert!(!bare.iter().any(|at| at.is_control() || is_invisible(*at)));
            let has_lines = shown.lines().count() > 1 || shown.contains(['\u{2028}', '\u{2029}', '\u{85}', '\t']);
            prop_assert!(!has_lines);
        }
    }

    #[test]
    fn a_name_stays_what_it_is() {
        for name in ["Ann", "Dr. Ann O'Neill", "李小龍", "Zoë & Søn", "עברית"] {
            assert_eq!(of_stranger(name), name);
        }
    }

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(of_stranger(&"a".repeat(100)), "a".repeat(100));
        assert_eq!(of_stranger(&"a".repeat(101)), format!("{}…", "a".repeat(99)));
    }

    #[test]
    fn lines_become_spaces_and_turns_of_direction_go() {
        assert_eq!(of_stranger(" Ann\r\nBcc:\tx\u{2028}y "), "Ann Bcc: x y");
        assert_eq!(of_stranger("safe\u{202e}exe.\u{200b}cod"), "safeexe.\u{200b}cod");
    }

    #[test]
    fn no_name_becomes_a_link() {
        assert_eq!(
            of_stranger("http://evil.example/x@y"),
            "http:\u{200b}/\u{200b}/\u{200b}evil.\u{200b}example/\u{200b}x@\u{200b}y"
        );
    }
}
