//! Converts a web page to Markdown: its article if there is one, otherwise the whole page.
//!
//! The page is untrusted, and the time and the stack that the parser and the later steps need depend on its structure. We parse
//! it in pieces. If it is nested too deeply, has too many nodes or takes too long, we fall back to its bare text. The size of the
//! page bounds its links and its Markdown. A separate process does all of this, so that the remaining cases end only that
//! process.

mod bare;
mod growth;
mod links;

use std::time::Duration;

use dom_query::{Document, NodeRef};
use dom_smoothie::{Config, Readability, TextMode};
use html5ever::{
    ParseOpts, parse_document,
    tendril::{StrTendril, TendrilSink},
    tree_builder::TreeBuilderOpts,
};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use url::Url;

pub(crate) use self::bare::bare_text;
use crate::text::one_line;

/// Maximum nesting depth for a layout. The parser's time and the writer's stack grow with it.
const DEPTH: usize = 256;
/// Maximum number of nodes for a layout.
const NODES: usize = 250_000;
/// CPU time limit for parsing. Other load on the machine does not count.
const PARSING: Duration = Duration::from_secs(3);
/// Number of bytes to parse between two checks of the limits.
const PIECE_BYTES: usize = 2048;
/// An article with at least this many characters is the content of the page, however much other text there is.
const ARTICLE_CHARS: usize = 1500;
/// A shorter article also counts if it has at least this fraction of the page's text, as a divisor.
const ARTICLE_SHARE: usize = 4;
/// Maximum length of a title, in characters.
pub(crate) const TITLE_CHARS: usize = 200;
/// Elements that are omitted.
const SKIPPED: &[&str] = &[
    "head", "script", "style", "meta", "noscript", "template", "svg", "iframe", "object", "button", "select",
    "input", "textarea", "dialog",
];

/// A converted page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Title on one line; empty if there is none.
    pub(crate) title: String,
    /// Content as Markdown.
    pub(crate) markdown: String,
    /// Layout of the content.
    pub(crate) layout: Layout,
}

/// Layout of the content of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Layout {
    /// The article of the page.
    Article,
    /// The whole page.
    Whole,
    /// The bare text, because the page exceeds the limits of the layout.
    Bare,
}

/// Converts a page. `url` is its address.
pub(crate) fn read(html: &str, url: &Url) -> Page {
    read_within(PARSING, html, url)
}

/// Converts a page with a CPU time limit for parsing.
fn read_within(limit: Duration, html: &str, url: &Url) -> Page {
    laid_out(limit, html, url).unwrap_or_else(|| Page {
        title: String::new(),
        markdown: bare_text(html),
        layout: Layout::Bare,
    })
}

/// Returns the page, or `None` if it exceeds the limits.
fn laid_out(limit: Duration, html: &str, url: &Url) -> Option<Page> {
    let document = parse(html, limit)?;
    let most = growth::most(html.len());
    if growth::estimate(&document) > most {
        return None;
    }
    links::tidy(&document, url, most);
    let title = document.select("title").text();
    let text_chars = document.body().map_or(0, |body| body.normalized_char_count());
    let whole = document.md(Some(SKIPPED));
    let page = match article(document) {
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
    };
    (page.markdown.len() <= growth::MARKDOWN * most).then_some(page)
}

/// Returns the document, or `None` if it exceeds the limits or parsing takes more CPU time than `limit`.
fn parse(html: &str, limit: Duration) -> Option<Document> {
    let began = processor_time();
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
        // The errors are not used, and there can be one per byte.
        document.errors.borrow_mut().clear();
        // The parser appends at the end, so the open elements are the chain of last children.
        let open = std::iter::successors(Some(document.root()), NodeRef::last_child);
        if document.tree.len() > NODES
            || open.take(DEPTH + 1).count() > DEPTH
            || processor_time().saturating_sub(began) > limit
        {
            return None;
        }
    }
    let document = parser.finish();
    (document.tree.len() <= NODES && !is_deep(&document)).then_some(document)
}

/// Returns the CPU time of this thread.
fn processor_time() -> Duration {
    // The clock starts at zero and never goes back.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Whether a node is nested deeper than the limit.
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

/// Returns the article of a page, if there is one. We omit the address of the page, so that links are not resolved again.
fn article(document: Document) -> Option<dom_smoothie::Article> {
    let config = Config {
        text_mode: TextMode::Markdown,
        disable_json_ld: true,
        ..Config::default()
    };
    // An error means that there is no article.
    Readability::with_document(document, None, Some(config))
        .ok()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url() -> Url {
        "https://site.example/dir/page.html".parse().unwrap()
    }

    /// Converts a page, with enough time for a parser without optimization.
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
    fn time_counts_against_parsing_only_on_a_processor() {
        let began = processor_time();
        std::thread::sleep(Duration::from_millis(300));
        assert!(processor_time().saturating_sub(began) < Duration::from_millis(150));
        while processor_time() == began {}
        assert_eq!(
            read_within(Duration::ZERO, &article_page(), &url()).layout,
            Layout::Bare
        );
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
    fn markdown_grows_with_the_page_alone() {
        let links = |base: usize, links: usize| {
            format!("<base href='/{}/'>", "b".repeat(base)) + &"<a href=x>y</a>".repeat(links)
        };
        let quotes = |depth: usize, lines: usize| {
            "<blockquote>".repeat(depth) + &"x<br>".repeat(lines) + &"</blockquote>".repeat(depth)
        };
        for html in [
            links(120_000, 8_000),
            links(4_000, 60_000),
            links(487_000, 32_500),
            quotes(250, 120_000),
            quotes(100, 100_000),
            "<ol start=999999999><li>".repeat(120) + &"<li>x".repeat(100_000),
            "<ul><li>".repeat(120) + "<pre>" + &"x\n".repeat(500_000) + "</pre>",
            format!("<video srcset='{}'>", "a,b, ".repeat(500_000)),
            format!("<img srcset='{}'>", "a,b, ".repeat(500_000)),
            format!("<img src='{}'>", "a".repeat(1_000_000)),
            "<img src=x>".repeat(80_000),
        ] {
            let page = page(&html);
            let most = growth::MARKDOWN * growth::most(html.len());
            assert!(page.markdown.len() <= most, "{}", &html[..40]);
        }
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
            prop_assert!(page.markdown.len() <= growth::MARKDOWN * growth::most(html.len()));
            prop_assert!(bare_text(&html).len() <= html.len());
        }
    }
}
