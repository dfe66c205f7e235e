//! A web page as Markdown: the article in it where there is one, else all of it.
//!
//! The page is a stranger's, and the parser and everything behind it take time and stack by how it is built: it is
//! parsed in pieces, and given up for a plain reading of its text as soon as it is nested too deeply, has too many
//! nodes or takes too long. All of this is work for a blocking thread.

use std::time::{Duration, Instant};

use dom_query::{Document, NodeRef};
use dom_smoothie::{Config, Readability, TextMode};
use html5ever::{
    ParseOpts, parse_document,
    tendril::{StrTendril, TendrilSink},
    tree_builder::TreeBuilderOpts,
};
use url::Url;

use crate::text::one_line;

/// Deepest nesting that is laid out. The parser's time and the writer's stack grow with it.
const DEPTH: usize = 256;
/// Most nodes that are laid out.
const NODES: usize = 250_000;
/// Longest that parsing may take.
const PARSING: Duration = Duration::from_secs(3);
/// How much is parsed between two looks at the limits, in bytes.
const PIECE_BYTES: usize = 2048;
/// An article of this many characters is taken for what the page is about, however much stands around it.
const ARTICLE_CHARS: usize = 1500;
/// A shorter one is, when it is at least one part in so many of the page's text.
const ARTICLE_SHARE: usize = 4;
/// The longest title, in characters.
const TITLE_CHARS: usize = 200;
/// What is never shown.
const SKIPPED: &[&str] = &[
    "head", "script", "style", "meta", "noscript", "template", "svg", "iframe", "object", "button", "select",
    "input", "textarea", "dialog",
];

/// A page as it is shown.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its title on one line; empty when it has none.
    pub(crate) title: String,
    /// Its content.
    pub(crate) markdown: String,
    /// Whether it could be laid out.
    pub(crate) layout: Layout,
}

/// How the content of a page was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The article on it.
    Article,
    /// All of it.
    Whole,
    /// Its bare text: it is beyond what is laid out.
    Bare,
}

/// Reads the page that was found at `url`.
pub(crate) fn read(html: &str, url: &Url) -> Page {
    read_within(PARSING, html, url)
}

/// The same with so much time for parsing.
fn read_within(limit: Duration, html: &str, url: &Url) -> Page {
    let Some(document) = parse(html, limit) else {
        return Page {
            title: String::new(),
            markdown: bare_text(html),
            layout: Layout::Bare,
        };
    };
    tidy(&document, url);
    let title = document.select("title").text();
    let text_chars = document.body().map_or(0, |body| body.normalized_char_count());
    let whole = document.md(Some(SKIPPED));
    match article(document, url) {
        Some(article)
            if article.length >= ARTICLE_CHARS
                || article.length.saturating_mul(ARTICLE_SHARE) >= text_chars =>
        {
            Page {
                title: one_line(&article.title, TITLE_CHARS),
                markdown: article.text_content.to_string(),
                layout: Layout::Article,
            }
        }
        Some(_) | None => Page {
            title: one_line(&title, TITLE_CHARS),
            markdown: whole.to_string(),
            layout: Layout::Whole,
        },
    }
}

/// The document, unless it is beyond the limits or takes longer to parse than `limit`.
fn parse(html: &str, limit: Duration) -> Option<Document> {
    let began = Instant::now();
    let options = ParseOpts {
        tree_builder: TreeBuilderOpts {
            scripting_enabled: false,
            ..TreeBuilderOpts::default()
        },
        ..ParseOpts::default()
    };
    let mut parser = parse_document(Document::default(), options);
    let mut rest = html;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at_checked(rest.floor_char_boundary(PIECE_BYTES))?;
        parser.process(StrTendril::from(piece));
        rest = after;
        let document = &parser.tokenizer.sink.sink;
        // Nobody reads them, and there may be one for each byte.
        document.errors.borrow_mut().clear();
        // The parser adds at the end: what it is in now is the deepest last child.
        let open = std::iter::successors(Some(document.root()), NodeRef::last_child);
        if document.tree.len() > NODES || open.take(DEPTH + 1).count() > DEPTH || began.elapsed() > limit {
            return None;
        }
    }
    let document = parser.finish();
    (document.tree.len() <= NODES && !is_deep(&document)).then_some(document)
}

/// Whether any node is nested deeper than the limit.
fn is_deep(document: &Document) -> bool {
    let mut level = vec![document.root()];
    for _ in 0..DEPTH {
        level = level.iter().flat_map(|node| node.children_it(false)).collect();
        if level.is_empty() {
            return false;
        }
    }
    true
}

/// Makes links whole, and takes out those that lead nowhere, images that are in the page itself, and templates, whose
/// nesting was not measured.
fn tidy(document: &Document, url: &Url) {
    document.select("template").remove();
    let base = document.base_uri().and_then(|base| url.join(&base).ok());
    let base = base.as_ref().unwrap_or(url);
    for (selector, name) in [("a", "href"), ("img", "src")] {
        for node in document.select(selector).nodes() {
            let Some(target) = node.attr(name) else {
                continue;
            };
            match base.join(target.trim()) {
                Ok(target) if matches!(target.scheme(), "http" | "https" | "mailto") => {
                    node.set_attr(name, target.as_str());
                }
                Ok(_) | Err(_) if selector == "img" => node.remove_from_parent(),
                Ok(_) | Err(_) => node.remove_attr(name),
            }
        }
    }
}

/// The article on a page, if there is one.
fn article(document: Document, url: &Url) -> Option<dom_smoothie::Article> {
    let config = Config {
        text_mode: TextMode::Markdown,
        disable_json_ld: true,
        ..Config::default()
    };
    // An error is the finding that there is none.
    Readability::with_document(document, Some(url.as_str()), Some(config))
        .ok()?
        .parse()
        .ok()
}

/// The text between the tags, without scripts and styles, in one pass.
fn bare_text(html: &str) -> String {
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

/// Adds text with the commonest character references resolved.
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

/// Where `end`, in lower case, stands in `text`.
fn find_ignoring_case(text: &str, end: &str) -> Option<usize> {
    text.as_bytes()
        .windows(end.len())
        .position(|window| window.eq_ignore_ascii_case(end.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url() -> Url {
        "https://site.example/dir/page.html".parse().unwrap()
    }

    /// The page, also where the machine has other things to do than to parse it.
    fn page(html: &str) -> Page {
        read_within(Duration::from_mins(1), html, &url())
    }

    fn article_page() -> String {
        let paragraph = "<p>We have three plans, for small, medium and large teams, and all of them include the same \
                         features, support by mail, and a trial of fourteen days.</p>";
        format!(
            "<!doctype html><html><head><title>Prices &amp; plans</title><style>p{{}}</style></head><body><nav><a \
             href=/>Home</a> <a href=/docs>Docs</a></nav><main><h1>Plans</h1>{}<table><tr><th>Plan<th>Price</tr><tr>\
             <td>Small<td>$5</tr></table><pre><code>curl -s x\n  y</code></pre><ul><li>One<li><a href='more.html'>\
             more</a></ul><img src='data:image/png;base64,AAAA' alt=x><script>alert(1)</script></main><footer>\
             Imprint</footer></body></html>",
            paragraph.repeat(6)
        )
    }

    #[test]
    fn an_article_becomes_markdown_with_whole_links() {
        let page = page(&article_page());
        assert_eq!(page.layout, Layout::Article);
        assert_eq!(page.title, "Prices & plans");
        for part in [
            "We have three plans",
            "| Plan | Price |",
            "| Small | $5 |",
            "```\ncurl -s x\n  y\n```",
            "[more](https://site.example/dir/more.html)",
        ] {
            assert!(page.markdown.contains(part), "{part}: {}", page.markdown);
        }
        for part in ["alert", "base64", "Imprint", "Docs"] {
            assert!(!page.markdown.contains(part), "{part}: {}", page.markdown);
        }
    }

    #[test]
    fn a_page_without_an_article_is_shown_whole() {
        let links =
            "<li><a href=one>The first entry of many</a><li><a href='javascript:x()'>Two</a>".repeat(150);
        let prose =
            "<p>A paragraph about nothing, which stands beside a long list of links, and has commas.</p>"
                .repeat(8);
        let html = format!(
            "<title>List</title><base href=/b/><div class=sidebar><ul>{links}</ul></div><form><button>Go</button></form>\
             <div>{prose}</div>"
        );
        let page = page(&html);
        assert_eq!(page.layout, Layout::Whole);
        assert_eq!(page.title, "List");
        assert!(
            page.markdown
                .contains("[The first entry of many](https://site.example/b/one)"),
            "{}",
            page.markdown
        );
        assert!(
            page.markdown.contains("Two") && !page.markdown.contains("javascript"),
            "{}",
            page.markdown
        );
        assert!(!page.markdown.contains("Go"), "{}", page.markdown);
        let empty = self::page("");
        assert_eq!((empty.title.as_str(), empty.markdown.as_str()), ("", ""));
    }

    #[test]
    fn a_page_made_to_exhaust_the_reader_is_read_as_bare_text() {
        let fonts: String = (0..5000).fold(String::new(), |all, n| all + &format!("<font size={n}>"));
        let attributes: String = (0..400_000).fold(String::new(), |all, n| all + &format!(" a{n}"));
        for html in [
            "<div>".repeat(100_000) + "text",
            "<b>".repeat(100_000) + "text",
            "<blockquote>".repeat(100_000) + "text",
            "<table><tr><td>".repeat(50_000) + "text",
            "<ul><li>".repeat(50_000) + "text",
            "<svg>".repeat(100_000) + "text",
            "<div><table><td></div></table>".repeat(50_000) + "text",
            fonts + &"<p>".repeat(100_000) + "text",
            "<br>".repeat(NODES) + "text",
            format!("<p{attributes}>text"),
        ] {
            let page = read(&html, &url());
            assert_eq!(page.layout, Layout::Bare, "{}", &html[..40]);
            assert!(page.markdown.trim().ends_with("text"), "{}", &html[..40]);
        }
    }

    #[test]
    fn nested_templates_are_left_out() {
        let nested = "<template>".repeat(20_000) + "hidden" + &"</template>".repeat(20_000);
        let page = page(&article_page().replace("<table>", &(nested + "<table>")));
        assert_eq!(page.layout, Layout::Article);
        assert!(page.markdown.contains("$5") && !page.markdown.contains("hidden"));
    }

    #[test]
    fn what_is_just_within_the_limits_is_laid_out() {
        for open in [
            "<div>",
            "<blockquote>",
            "<ul><li>",
            "<b>",
            "<table><tr><td>",
            "<a>x<i>",
        ] {
            let html = open.repeat(DEPTH / 4 - 2) + "text";
            let page = page(&html);
            assert_ne!(page.layout, Layout::Bare, "{open}");
            assert!(page.markdown.contains("text"), "{open}: {}", page.markdown);
        }
    }

    #[test]
    fn bare_text_leaves_out_tags_scripts_and_comments() {
        let html = "<p>a &lt; b<br>c<SCRIPT>x<y</script >d<!-- e > f --><style>g</style>h<";
        assert_eq!(bare_text(html), "a < b c d h ");
    }

    proptest! {
        #[test]
        fn no_page_makes_it_panic(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "<p>", "</p>", "<table>", "<td>", "</td>", "<b>", "</b>", "<a href=x>", "</a>", "<ul>", "<li>",
                    "<pre>", "<code>", "</pre>", "<svg>", "<math>", "<template>", "<select>", "<option>", "<body>",
                    "<form>", "<!--", "-->", "text, more text", "&amp;", "&#x0;", "<h1>", "</h1>", "<br>", "\n",
                    "<blockquote>", "<img src=x alt=y>", "<title>", "</title>", "<script>", "</script>", "ä", "`", "|",
                ]),
                0..80,
            )
        ) {
            let html: String = pieces.concat();
            let page = page(&html);
            prop_assert!(page.markdown.len() <= 40 * html.len() + 1000);
            let _bare = bare_text(&html);
        }
    }
}
