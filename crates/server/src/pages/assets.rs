//! Files of the pages: the style sheet, its font and the icon, which are those of the console.

use std::sync::LazyLock;

use axum::{Router, body::Body, response::Response, routing};
use http::{
    HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
};
use sha2::{Digest as _, Sha256};

use crate::{console::FONT, kit::Uncounted};

/// Beginning of the paths of the files.
const FOLDER: &str = "/pages/";

/// Style sheet: the tokens and the fonts of the console, and the rules of the pages.
const STYLE: &str = concat!(
    include_str!("../../../../console/src/style/tokens.css"),
    include_str!("../../../../console/src/style/font.css"),
    include_str!("style.css"),
);
const ICON: &str = include_str!("../../../../console/src/style/icon.svg");

/// File of the pages.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    content: &'static [u8],
}

static ASSETS: [Asset; 3] = [
    Asset {
        name: "style.css",
        media_type: "text/css; charset=utf-8",
        content: STYLE.as_bytes(),
    },
    // The style sheet names the font by a path relative to its own.
    Asset {
        name: "inter.woff2",
        media_type: "font/woff2",
        content: FONT,
    },
    Asset {
        name: "icon.svg",
        media_type: "image/svg+xml",
        content: ICON.as_bytes(),
    },
];

/// Folder with the hash of all files in its name. A changed file gets another path, so browsers may keep the files.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for asset in &ASSETS {
        hash.update(asset.content);
    }
    let short = u64::from_be_bytes(hash.finalize().first_chunk().copied().unwrap_or_default());
    format!("{FOLDER}{short:016x}")
});

/// Path of a file.
pub(super) fn path(name: &str) -> String {
    format!("{}/{name}", *VERSION)
}

/// Routes of the files.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    ASSETS.iter().fold(Router::new(), |router, asset| {
        router.route(
            &path(asset.name),
            routing::get(move || async move { asset.answer() }),
        )
    })
}

impl Asset {
    fn answer(&self) -> Response {
        let mut response = Response::new(Body::from(self.content));
        for (name, value) in [
            (CONTENT_TYPE, self.media_type),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (CACHE_CONTROL, "public, max-age=31536000, immutable"),
        ] {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        // The content is part of the program.
        response.extensions_mut().insert(Uncounted);
        response
    }
}
