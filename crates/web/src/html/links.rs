//! Resolves the links of a page, within limits.

use dom_query::{Document, NodeRef};
use url::Url;

use crate::text::URL_BYTES;

/// Attributes of pictures and media that can contain further URLs.
const SOURCES: [&str; 5] = ["src", "data-src", "srcset", "data-srcset", "poster"];

/// Resolves links. Removes the targets of invalid links, embedded images, and templates, because the nesting of templates was not
/// checked. Reads and resolves at most `most` bytes of links; later links lose their targets.
pub(super) fn tidy(document: &Document, url: &Url, most: usize) {
    document.select("template").remove();
    let base = document.base_uri().filter(|base| base.len() <= URL_BYTES);
    let base = base.and_then(|base| url.join(base.trim()).ok());
    let base = base.filter(|base| base.as_str().len() <= URL_BYTES);
    // Prevents that the links are resolved again.
    document.select("base").remove();
    let mut links = Links {
        base: base.as_ref().unwrap_or(url),
        left: most,
    };
    for node in document.select("a").nodes() {
        match node.attr("href").map(|target| links.whole(&target)) {
            Some(Some(target)) => node.set_attr("href", target.as_str()),
            Some(None) => node.remove_attr("href"),
            None => {}
        }
    }
    for node in document.select("img").nodes() {
        match links.source(node) {
            Some(source) => {
                node.remove_attrs(&SOURCES);
                node.set_attr("src", source.as_str());
            }
            None => node.remove_from_parent(),
        }
    }
    for node in document
        .select("picture, figure, video, audio, source, embed")
        .nodes()
    {
        node.remove_attrs(&SOURCES);
    }
}

struct Links<'a> {
    base: &'a Url,
    /// Number of bytes that may still be read and resolved.
    left: usize,
}

impl Links<'_> {
    /// Returns the absolute URL of a page, a picture or a mailbox.
    fn whole(&mut self, target: &str) -> Option<Url> {
        let target = target.trim();
        let work = self.base.as_str().len() + target.len();
        self.left = self.left.saturating_sub(work);
        if self.left == 0 || target.len() > URL_BYTES {
            return None;
        }
        let url = self.base.join(target).ok()?;
        let is_shown = matches!(url.scheme(), "http" | "https" | "mailto");
        (is_shown && url.as_str().len() <= URL_BYTES).then_some(url)
    }

    /// Returns the URL of a picture, from the first of its attributes that has one. Pages that load pictures lazily put a
    /// placeholder into `src`.
    fn source(&mut self, image: &NodeRef<'_>) -> Option<Url> {
        SOURCES.iter().find_map(|name| {
            let value = image.attr(name)?;
            let first = if name.ends_with("srcset") {
                value
                    .split([',', ' ', '\t', '\n'])
                    .find(|part| !part.is_empty())?
            } else {
                value.trim()
            };
            let is_empty = first.is_empty();
            self.whole(first).filter(|_| !is_empty)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the links and pictures of a page.
    fn links_of(html: &str, most: usize) -> Vec<String> {
        let url: Url = "https://site.example/dir/page.html".parse().unwrap();
        let document = Document::from(html);
        tidy(&document, &url, most);
        let of = |selector: &str, name: &str| -> Vec<String> {
            let found = document.select(selector);
            found
                .nodes()
                .iter()
                .filter_map(|node| node.attr(name).map(|value| value.to_string()))
                .collect()
        };
        assert_eq!(of("base", "href"), Vec::<String>::new());
        [of("a", "href"), of("img", "src")].concat()
    }

    #[test]
    fn links_are_whole_and_lead_to_the_web() {
        let html = "<base href=' /b/ '><a href=one></a><a href='javascript:x()'></a><a href=mailto:a@b.example></a><a></a>\
                    <img src=data:,x data-src=two.png><img srcset='three.png 1x, four.png 2x'><img src=''><img>";
        assert_eq!(
            links_of(html, 1 << 20),
            [
                "https://site.example/b/one",
                "mailto:a@b.example",
                "https://site.example/b/two.png",
                "https://site.example/b/three.png",
            ]
        );
    }

    #[test]
    fn a_base_and_links_that_are_too_long_are_not_used() {
        let long = "b".repeat(URL_BYTES);
        let html = format!("<base href='/{long}/'><a href=x></a><a href='{long}'></a>");
        assert_eq!(links_of(&html, 1 << 20), ["https://site.example/dir/x"]);
        // Both are longer in URL encoding than in the page.
        let umlauts = "ä".repeat(URL_BYTES / 3);
        let html = format!("<base href='/{umlauts}/'><a href=x></a><a href='{umlauts}'></a>");
        assert_eq!(links_of(&html, 1 << 20), ["https://site.example/dir/x"]);
    }

    #[test]
    fn links_beyond_the_bound_of_all_together_lead_nowhere() {
        let html = "<a href=x></a>".repeat(100) + &"<img src=x>".repeat(100);
        let one = "https://site.example/dir/page.html".len() + 1;
        assert_eq!(links_of(&html, 50 * one + 1).len(), 50);
        assert_eq!(links_of(&html, 150 * one + 1).len(), 150);
    }
}
