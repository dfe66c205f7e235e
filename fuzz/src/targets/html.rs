//! Web pages: their Markdown and title have a maximum length.

use url::Url;

use crate::{Bounds, Input, Line};

#[path = "../../../crates/web/src/html/mod.rs"]
mod page;

const BOUNDS: Bounds = Bounds {
    memory: Line {
        base: 4 << 20,
        per_byte: 1_000,
    },
    time: Line {
        base: 200_000_000,
        per_byte: 100_000,
    },
};
/// Limits for the bare text of a page.
const BARE: Bounds = Bounds {
    memory: Line {
        base: 64 << 10,
        per_byte: 24,
    },
    time: Line {
        base: 5_000_000,
        per_byte: 2_000,
    },
};
/// Maximum size of a page, in bytes.
const MOST: usize = 64 << 10;
/// Maximum size of the Markdown, in bytes.
const MARKDOWN: Line = Line {
    base: 512 << 10,
    per_byte: 8,
};
/// A page with at most this number of bytes cannot exceed the nesting limit of the layout.
const LAID_OUT: usize = 300;

/// Checks one input.
pub fn check(data: &[u8]) {
    let input = Input::repeated(data, MOST);
    let page = String::from_utf8_lossy(&input.bytes);
    let Ok(url) = Url::parse("https://site.example/dir/page.html") else {
        return;
    };
    let read = BOUNDS.hold(page.len(), || page::read(&page, &url));
    assert!(
        read.markdown.len() <= MARKDOWN.at(page.len()),
        "{} bytes of Markdown",
        read.markdown.len()
    );
    assert!(
        page.len() > LAID_OUT || read.layout != page::Layout::Bare,
        "the page is not laid out"
    );
    assert!(
        read.title.chars().count() <= 201 && !read.title.contains('\n'),
        "{:?}",
        read.title
    );
    // Bare text is the fallback for pages that exceed the layout's limits. We test it on every page.
    let bare = BARE.hold(page.len(), || page::bare_text(&page));
    assert!(bare.len() <= page.len(), "{} bytes of bare text", bare.len());
}
