//! Finds the line of a file that is most similar to the beginning of a text that is not in it.

use super::folded::plain_line;
use crate::text;

/// Maximum number of lines that are compared.
const LINES_COMPARED: usize = 50_000;
/// Bytes of a line that are compared and quoted.
pub(super) const LINE_BYTES: usize = 200;

/// The end of a refusal: the line number of text similar to the beginning of `old`.
pub(super) fn closest(content: &str, old: &str) -> String {
    let Some(wanted) = old.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return String::new();
    };
    // Differences that a pass would ignore do not count here either.
    let plain = |line: &str| plain_line(text::head(line.trim(), LINE_BYTES));
    let wanted = plain(&html_escape::decode_html_entities(text::head(wanted, LINE_BYTES)));
    let best = content
        .lines()
        .take(LINES_COMPARED)
        .enumerate()
        .map(|(index, line)| (likeness(&wanted, &plain(line)), index + 1, line))
        .max_by_key(|(likeness, number, _)| (*likeness, std::cmp::Reverse(*number)));
    match best {
        Some((1_000, number, _)) => format!(
            "; its first line is line {number} of the file, but what follows or the white space differs: read the \
             file there and copy it exactly"
        ),
        Some((likeness, number, line)) if likeness >= 500 => {
            format!(
                "; the closest is line {number}: {:?}",
                text::head(line, LINE_BYTES)
            )
        }
        _ => "; nothing in the file is like it".to_owned(),
    }
}

/// The similarity of two lines, from 0 to 1,000: the share of neighbouring pairs of bytes that both have.
fn likeness(a: &str, b: &str) -> usize {
    if a == b {
        return 1_000;
    }
    let pairs = |text: &str| {
        let mut pairs: Vec<(u8, u8)> = text.bytes().zip(text.bytes().skip(1)).collect();
        pairs.sort_unstable();
        pairs
    };
    let (a, b) = (pairs(a), pairs(b));
    let total = a.len() + b.len();
    let (mut left, mut right, mut shared) = (a.into_iter().peekable(), b.into_iter().peekable(), 0_usize);
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        match one.cmp(other) {
            std::cmp::Ordering::Less => drop(left.next()),
            std::cmp::Ordering::Greater => drop(right.next()),
            std::cmp::Ordering::Equal => {
                shared += 1;
                left.next();
                right.next();
            }
        }
    }
    (2 * shared * 999).checked_div(total).unwrap_or_default()
}
