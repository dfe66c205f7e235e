//! Extracts the text of a page without its markup, for pages that exceed the limits of the layout.
//!
//! Each search starts after the end of the previous one, and a search without a match is the last. The time is therefore linear
//! in the length of the page, and the text is never longer than the page.

/// Returns the text between the tags, without scripts and styles, in one pass.
pub(crate) fn bare_text(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        push_text(&mut text, before);
        let name_end = tag.find(|c: char| !c.is_ascii_alphanumeric());
        let name = tag.get(..name_end.unwrap_or(tag.len())).unwrap_or_default();
        let end = match name.to_ascii_lowercase().as_str() {
            "script" => "</script",
            "style" => "</style",
            _ if tag.starts_with("!--") => "-->",
            _ => ">",
        };
        rest = match find_ignoring_case(tag, end) {
            Some(at) => {
                let after = tag.get(at + end.len()..).unwrap_or_default();
                match end {
                    "</script" | "</style" => after.split_once('>').map_or("", |(_, after)| after),
                    _ => after,
                }
            }
            None => "",
        };
        if !text.ends_with(char::is_whitespace) && !text.is_empty() {
            text.push(' ');
        }
    }
    push_text(&mut text, rest);
    text
}

/// Appends text and resolves the most common character references.
fn push_text(text: &mut String, raw: &str) {
    if raw.contains('&') {
        let raw = raw
            .replace("&nbsp;", " ")
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&amp;", "&");
        text.push_str(&raw);
    } else {
        text.push_str(raw);
    }
}

/// Finds `end`, which must be in lower case, in `text`.
fn find_ignoring_case(text: &str, end: &str) -> Option<usize> {
    text.as_bytes()
        .windows(end.len())
        .position(|window| window.eq_ignore_ascii_case(end.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bare_text_leaves_out_tags_scripts_and_comments() {
        let html = "<p>a &lt; b<br>c<SCRIPT>x<y</script >d<!-- e > f --><style>g</style>h<";
        assert_eq!(bare_text(html), "a < b c d h ");
    }

    #[test]
    fn what_has_no_end_ends_the_text() {
        for open in ["<script", "<style", "<!--", "<a", "<script>", "<"] {
            let html = "text ".to_owned() + &open.repeat(700_000);
            assert_eq!(bare_text(&html).trim_end(), "text", "{open}");
        }
    }

    proptest! {
        #[test]
        fn the_text_is_no_longer_than_the_page(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "<script", "</script", "<style>", "</style>", "<!--", "-->", "<", ">", "&amp;", "&lt;", "ä", " ", "x",
                ]),
                0..60,
            )
        ) {
            let html: String = pieces.concat();
            prop_assert!(bare_text(&html).len() <= html.len());
        }
    }
}
