//! Estimates the growth of a page during its conversion to Markdown.
//!
//! Each line in a quote or a list starts with the markers and the indentation of all enclosing elements. A page of nested quotes
//! can therefore become a hundred times as long, and each level copies its content. We estimate that before any output is
//! written.

use dom_query::{Document, NodeRef};

/// Size of a page's Markdown as a multiple of [`most`]: text can be escaped, and links add to it.
pub(super) const MARKDOWN: usize = 2;
/// Allowed growth, in bytes per byte of the page.
const GROWTH: usize = 4;
/// Additional growth that every page may have, in bytes.
const FREE: usize = 256 * 1024;
/// Maximum growth of any page, in bytes.
const MOST: usize = 16 << 20;
/// Lines for a block element: its own and the empty ones around it.
const LINES: usize = 3;
/// Size of the marker of a quote and of the indentation of a list, in bytes per line.
const QUOTE: usize = 2;
const BULLETS: usize = 4;
const NUMBERS: usize = 11;

/// Returns the maximum size that a page of this length may grow to, in bytes, by one cause: its lists and quotes, or its links.
pub(super) fn most(html: usize) -> usize {
    html.saturating_mul(GROWTH).saturating_add(FREE).min(MOST)
}

/// Returns an upper bound of the bytes that nesting adds to the lines of a document.
pub(super) fn estimate(document: &Document) -> usize {
    let mut sum: usize = 0;
    let mut open = vec![(document.root(), Nesting::default())];
    while let Some((node, nesting)) = open.pop() {
        let nesting = nesting.inside(&node);
        sum = sum.saturating_add(nesting.before.saturating_mul(lines(&node, nesting.is_code)));
        open.extend(node.children_it(false).map(|child| (child, nesting)));
    }
    sum
}

/// Nesting of the lines of a node.
#[derive(Clone, Copy, Default)]
struct Nesting {
    /// Number of bytes before each line.
    before: usize,
    /// Whether line breaks in text start new lines.
    is_code: bool,
}

impl Nesting {
    fn inside(self, node: &NodeRef<'_>) -> Self {
        let Some(name) = node.qual_name_ref() else {
            return self;
        };
        let more = match &*name.local {
            "blockquote" => QUOTE,
            "ul" => BULLETS,
            "ol" => NUMBERS,
            _ => 0,
        };
        Self {
            before: self.before + more,
            is_code: self.is_code || matches!(&*name.local, "pre" | "code"),
        }
    }
}

/// Returns an upper bound of the lines that a node starts.
fn lines(node: &NodeRef<'_>, is_code: bool) -> usize {
    if node.is_text() {
        return if is_code {
            node.text().matches('\n').count()
        } else {
            0
        };
    }
    let is_inline = node.qual_name_ref().is_none_or(|name| {
        matches!(
            &*name.local,
            "a" | "abbr"
                | "b"
                | "cite"
                | "em"
                | "font"
                | "i"
                | "img"
                | "kbd"
                | "label"
                | "s"
                | "small"
                | "span"
                | "strong"
                | "sub"
                | "sup"
                | "td"
                | "th"
                | "time"
                | "u"
        )
    });
    if is_inline { 0 } else { LINES }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate_of(html: &str) -> usize {
        estimate(&Document::from(html))
    }

    #[test]
    fn nesting_counts_for_each_line_in_it() {
        assert_eq!(estimate_of("<p>a<p>b"), 0);
        assert_eq!(
            estimate_of("<blockquote>a <b>b</b> c</blockquote>"),
            QUOTE * LINES
        );
        let quoted = "<blockquote><blockquote><p>a<br>b</blockquote></blockquote>";
        assert_eq!(estimate_of(quoted), (QUOTE + 3 * 2 * QUOTE) * LINES);
        let listed = "<ul><li><ol><li>a</ol></ul>";
        assert_eq!(
            estimate_of(listed),
            (2 * BULLETS + 2 * (BULLETS + NUMBERS)) * LINES
        );
        let code = "<blockquote><pre>a\nb\nc</pre></blockquote>";
        assert_eq!(estimate_of(code), QUOTE * (2 * LINES + 2));
    }

    #[test]
    fn an_ordinary_thread_of_comments_is_laid_out() {
        let comment = "<p>A comment of some length, which answers another one, with a few words more.</p>";
        let thread = ("<ul><li>".to_owned() + comment).repeat(12) + &"</ul>".repeat(12);
        let page = thread.repeat(100);
        assert!(estimate_of(&page) < most(page.len()));
    }
}
