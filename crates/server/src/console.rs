//! Files of the web console. They are part of the binary; a folder with others serves the development of the console.
//!
//! An asset has the name of its build in its path, so a browser keeps it for ever. Every other path of the console answers with the
//! page, which shows what the path names. The answers need no credential and are not counted against a rate limit, like the health
//! routes: they cost no query, and a page without its scripts could not say that a limit was reached.

#[path = "../../../console/dist/assets.rs"]
mod assets;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{
        ACCEPT, ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH,
        CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, LOCATION, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
        X_FRAME_OPTIONS,
    },
};
use miniz_oxide::deflate::compress_to_vec;
use sortie_api::{ErrorCode, Refusal};

pub(crate) use self::assets::FONT;
use self::assets::{ASSETS, BUILD};
use crate::kit::{ApiError, CROSS_ORIGIN_RESOURCE_POLICY, Uncounted, has_tag, method_not_allowed};

/// Path of the console.
pub(crate) const CONSOLE: &str = "/console/";

/// First segments of the path of an asset: the build and the name follow.
const ASSET: &str = "/console/a/";

/// Name of the page.
const PAGE: &str = "index.html";

/// Level of the compression, which is done once: the best one.
const LEVEL: u8 = 9;

/// Headers of every answer. No script runs that is not a file of the console, and none makes elements of a text.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; font-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "clipboard-write=(self), accelerometer=(), camera=(), clipboard-read=(), display-capture=(), fullscreen=(), \
         geolocation=(), gyroscope=(), hid=(), magnetometer=(), microphone=(), midi=(), payment=(), \
         publickey-credentials-get=(), screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()",
    ),
];

/// The console of a server.
#[derive(Debug)]
pub(crate) struct Console {
    assets: HashMap<&'static str, Asset>,
    /// Folder with the files of another build.
    folder: Option<PathBuf>,
}

/// File of the binary.
#[derive(Debug)]
struct Asset {
    media_type: &'static str,
    /// SHA-256 of the content, in hexadecimal.
    hash: &'static str,
    content: &'static [u8],
    /// Compressed content, made at the first request for it.
    gzip: OnceLock<Bytes>,
}

/// Answer to a request for a file.
struct FileAnswer {
    media_type: &'static str,
    cache: &'static str,
    body: Bytes,
}

impl Console {
    /// Creates the console from the binary, or from the files of a folder.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        let asset = |(name, media_type, hash, content): &(
            &'static str,
            &'static str,
            &'static str,
            &'static [u8],
        )| {
            let gzip = OnceLock::new();
            let asset = Asset {
                media_type,
                hash,
                content,
                gzip,
            };
            (*name, asset)
        };
        Self {
            assets: ASSETS.iter().map(asset).collect(),
            folder,
        }
    }

    /// Answers a request for the console, or for the address of the server by a browser. `None` for every other request.
    pub(crate) async fn answer(
        &self,
        (method, path): (&Method, &str),
        headers: &HeaderMap,
    ) -> Option<Response> {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        if path == "/" && is_read && wants_page(headers) {
            return Some(to_console());
        }
        if path != CONSOLE.trim_end_matches('/') && !path.starts_with(CONSOLE) {
            return None;
        }
        if !is_read {
            let mut response = ApiError::from(method_not_allowed()).into_response();
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Some(response);
        }
        let answered = match &self.folder {
            Some(folder) => answer_from(folder, path).await,
            None => self.answer_from_binary(path, headers),
        };
        let mut response = answered.unwrap_or_else(|refusal| ApiError::from(refusal).into_response());
        for (name, value) in HEADERS {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        if *method == Method::HEAD {
            *response.body_mut() = Body::empty();
        }
        Some(response)
    }

    fn answer_from_binary(&self, path: &str, headers: &HeaderMap) -> Result<Response, Refusal> {
        let Some(asset) = path.strip_prefix(ASSET) else {
            let page = self.assets.get(PAGE).ok_or_else(no_such_file)?;
            return page.answer(headers, "no-store");
        };
        let name = asset.strip_prefix(BUILD).and_then(|name| name.strip_prefix('/'));
        let asset = name
            .and_then(|name| self.assets.get(name))
            .ok_or_else(no_such_file)?;
        asset.answer(headers, "public, max-age=31536000, immutable")
    }
}

impl Asset {
    /// Answers with the content, compressed for a client that accepts it, or without a body if the client has it already.
    fn answer(&self, headers: &HeaderMap, cache: &'static str) -> Result<Response, Refusal> {
        let gzip = accepts_gzip(headers)
            .then(|| self.gzip())
            .filter(|gzip| gzip.len() < self.content.len());
        let etag = match gzip {
            Some(_) => format!("\"{}-gzip\"", self.hash),
            None => format!("\"{}\"", self.hash),
        };
        let mut response = if has_tag(headers, &etag) {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            let file = FileAnswer {
                media_type: self.media_type,
                cache,
                body: gzip.map_or(Bytes::from_static(self.content), Clone::clone),
            };
            let mut response = file.response();
            if gzip.is_some() {
                response
                    .headers_mut()
                    .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            response
        };
        let etag = HeaderValue::try_from(etag).map_err(Refusal::internal)?;
        for (name, value) in [
            (ETAG, etag),
            (VARY, HeaderValue::from_static("accept-encoding")),
            (CACHE_CONTROL, HeaderValue::from_static(cache)),
        ] {
            response.headers_mut().insert(name, value);
        }
        Ok(response)
    }

    fn gzip(&self) -> &Bytes {
        self.gzip.get_or_init(|| gzip(self.content).into())
    }
}

impl FileAnswer {
    fn response(self) -> Response {
        let length = self.body.len();
        let mut response = Response::new(Body::from(self.body));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(self.cache));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        // All answers share the memory of the file.
        response.extensions_mut().insert(Uncounted);
        response
    }
}

/// Answers from a folder, in which files change.
async fn answer_from(folder: &Path, path: &str) -> Result<Response, Refusal> {
    let name = match path.strip_prefix(ASSET) {
        None => PAGE,
        Some(asset) => asset
            .split_once('/')
            .map(|(_build, name)| name)
            .ok_or_else(no_such_file)?,
    };
    let media_type = media_type(name).ok_or_else(no_such_file)?;
    let read = tokio::fs::read(folder.join(name)).await;
    let body = read.map_err(|error| {
        ErrorCode::NotFound.because(format!(
            "cannot read {name} in the folder of the console: {}",
            error.kind()
        ))
    })?;
    let file = FileAnswer {
        media_type,
        cache: "no-store",
        body: body.into(),
    };
    Ok(file.response())
}

/// Media type of a file, as the binary has it for files of this kind. `None` if the name is a path or of another kind.
fn media_type(name: &str) -> Option<&'static str> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let kind = Path::new(name).extension()?;
    ASSETS
        .iter()
        .find(|(known, ..)| name.bytes().all(is_name) && Path::new(known).extension() == Some(kind))
        .map(|(_, media_type, ..)| *media_type)
}

fn no_such_file() -> Refusal {
    ErrorCode::NotFound.because("this build of the console has no such file: reload the page")
}

/// Redirects a browser to the console.
fn to_console() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    for (name, value) in [(LOCATION, CONSOLE), (VARY, "accept"), (CACHE_CONTROL, "no-store")] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a browser asks for a page.
fn wants_page(headers: &HeaderMap) -> bool {
    listed(headers, ACCEPT).any(|(name, _)| name.eq_ignore_ascii_case("text/html"))
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    listed(headers, ACCEPT_ENCODING).any(|(name, parameters)| {
        let weight = parameters
            .trim()
            .strip_prefix("q=")
            .map(|weight| weight.trim().parse::<f32>());
        name.eq_ignore_ascii_case("gzip")
            && weight.is_none_or(|weight| weight.is_ok_and(|weight| weight > 0.0))
    })
}

/// Elements of a list, each with its parameters.
fn listed(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = (&str, &str)> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|element| element.trim().split_once(';').unwrap_or((element.trim(), "")))
        .map(|(name, parameters)| (name.trim(), parameters))
}

/// Compresses a content into a gzip member (RFC 1952).
fn gzip(content: &[u8]) -> Vec<u8> {
    // Magic number, deflate, no flags, no time, slowest compression, unknown system.
    let mut member = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255];
    member.extend(compress_to_vec(content, LEVEL));
    member.extend(crc32fast::hash(content).to_le_bytes());
    // The length is written modulo 2^32.
    let length = content.len() & 0xFFFF_FFFF;
    member.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    member
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_accepted_where_the_client_lists_it() {
        let accepts = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(text));
            accepts_gzip(&headers)
        };
        for yes in ["gzip", "deflate, gzip, br", "br;q=1.0, GZIP;q=0.8", "gzip; q=0.1"] {
            assert!(accepts(yes), "{yes}");
        }
        for no in [
            "",
            "br",
            "gzip;q=0",
            "gzip; q=0.0",
            "gzip;q=x",
            "x-gzip",
            "identity",
        ] {
            assert!(!accepts(no), "{no}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn a_file_of_a_folder_has_a_plain_name_of_a_known_kind() {
        assert_eq!(media_type("shared-new.js"), media_type("main.js"));
        assert!(media_type("new-chunk.css").is_some());
        for no in [
            "../secret.js",
            "a/b.js",
            "main",
            "main.rs",
            "",
            ".js",
            "main.js\0",
        ] {
            assert_eq!(media_type(no), None, "{no}");
        }
    }

    #[test]
    fn the_table_has_the_hash_of_each_file_and_the_page() {
        use sha2::Digest as _;
        assert!(ASSETS.iter().any(|(name, ..)| *name == PAGE));
        for (name, _, hash, content) in ASSETS {
            let found = sortie_base::hex(&sha2::Sha256::digest(content));
            assert_eq!(found, *hash, "{name}");
        }
    }
}
