//! Web pages: a page becomes Markdown and a title of bounded length.
#![no_main]

use sortie_fuzz::{Bounds, Input, Line};
use url::Url;

#[path = "../../../crates/web/src/html/mod.rs"]
mod html;
#[expect(dead_code, reason = "a page needs one function of it")]
#[path = "../../../crates/web/src/text.rs"]
mod text;

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
/// Memory and time of the bare text of a page.
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
/// The longest page, in bytes.
const MOST: usize = 64 << 10;
/// The longest Markdown, in bytes.
const MARKDOWN: Line = Line {
    base: 512 << 10,
    per_byte: 8,
};
/// A page of so many bytes cannot be nested too deeply to be laid out.
const LAID_OUT: usize = 300;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let input = Input::repeated(data, MOST);
    let page = String::from_utf8_lossy(&input.bytes);
    let Ok(url) = Url::parse("https://site.example/dir/page.html") else {
        return;
    };
    let read = BOUNDS.hold(page.len(), || html::read(&page, &url));
    assert!(
        read.markdown.len() <= MARKDOWN.at(page.len()),
        "{} bytes of Markdown",
        read.markdown.len()
    );
    assert!(
        page.len() > LAID_OUT || read.layout != html::Layout::Bare,
        "the page is not laid out"
    );
    assert!(
        read.title.chars().count() <= 201 && !read.title.contains('\n'),
        "{:?}",
        read.title
    );
    // Stands in for a page that cannot be laid out, and is read of every one here.
    let bare = BARE.hold(page.len(), || html::bare_text(&page));
    assert!(bare.len() <= page.len(), "{} bytes of bare text", bare.len());
});
