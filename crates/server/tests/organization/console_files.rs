//! Files of the console (`docs/CONSOLE.md`).

use miniz_oxide::inflate::decompress_to_vec;
use sha2::{Digest as _, Sha256};
use sortie_base::{Clock, hex};
use sortie_server::ConsoleFiles;

use crate::{console::page, prelude::*, self_hosted::Rig as Engine};

/// Address of an asset that the page names.
fn asset(page: &str, name: &str) -> String {
    let start = page.find("/console/a/").unwrap();
    let path = &page[start..];
    let build = path.split('/').nth(3).unwrap();
    format!("/console/a/{build}/{name}")
}

/// Checks the headers of every answer of the console.
fn check_headers(answer: &Answer) {
    let policy = answer.header("content-security-policy").unwrap();
    for directive in [
        "default-src 'none'",
        "script-src 'self'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
        "frame-ancestors 'none'",
    ] {
        assert_contains!(policy, directive);
    }
    for (name, value) in rows! {
        "x-content-type-options", "nosniff";
        "referrer-policy", "no-referrer";
        "x-frame-options", "DENY";
        "cross-origin-opener-policy", "same-origin";
        "cross-origin-resource-policy", "same-origin";
    } {
        assert_eq!(answer.header(name).unwrap(), value, "{name}");
    }
    assert_contains!(answer.header("permissions-policy").unwrap(), "camera=()");
}

/// Checks the files of the console on a listener.
async fn check_files(address: std::net::SocketAddr) {
    let client = Client::new(address, None);
    let answer = client.get("/console/").must(200).await;
    let page = answer.text();
    assert!(page.starts_with("<!doctype html>"), "{page}");
    assert_eq!(answer.header("cache-control").unwrap(), "no-store");
    for path in [
        "/console",
        "/console/runs/run_1?event=14",
        "/console/o/org_1/usage",
    ] {
        assert_eq!(client.get(path).must(200).await.text(), page, "{path}");
    }
    let script = asset(&page, "main.js");
    let plain = client.get(&script).must(200).await;
    assert_eq!(
        plain.header("content-type").unwrap(),
        "text/javascript; charset=utf-8"
    );
    assert_eq!(
        plain.header("cache-control").unwrap(),
        "public, max-age=31536000, immutable"
    );
    assert_eq!(plain.header("vary").unwrap(), "accept-encoding");
    let etag = plain.header("etag").unwrap().to_owned();
    assert_eq!(etag, format!("\"{}\"", hex(&Sha256::digest(&plain.body))));
    for answer in [&answer, &plain] {
        check_headers(answer);
    }
    let known = client.with_header("if-none-match", format!("\"x\", W/{etag}"));
    let same = known.get(&script).must(304).await;
    assert_eq!((same.body.len(), same.header("etag").unwrap()), (0, &*etag));

    let packed = client
        .with_header("accept-encoding", "br, gzip;q=0.9")
        .get(&script)
        .must(200)
        .await;
    assert_eq!(packed.header("content-encoding").unwrap(), "gzip");
    assert!(packed.body.len() * 2 < plain.body.len());
    assert_eq!(
        decompress_to_vec(&packed.body[10..packed.body.len() - 8]).unwrap(),
        plain.body
    );
    assert_ne!(
        packed.header("etag").unwrap(),
        etag,
        "another content has another tag"
    );
    let font = client
        .with_header("accept-encoding", "gzip")
        .get(&asset(&page, "inter.woff2"))
        .must(200)
        .await;
    assert!(
        font.header("content-encoding").is_err(),
        "a font is compressed already"
    );

    let head = client.send(Method::HEAD, &script, Bytes::new()).must(200).await;
    assert_eq!(head.body.len(), 0);
    assert_eq!(
        head.header("content-length").unwrap(),
        plain.body.len().to_string()
    );
    for unknown in [
        "/console/a/000000000000/main.js",
        &asset(&page, "none.js"),
        "/console/a/",
        &asset(&page, "../main.js"),
    ] {
        client.get(unknown).must_refuse("not_found").await;
    }
    let post = client.post_empty("/console/").await.unwrap();
    post.refused("method_not_allowed").unwrap();
    assert_eq!(post.header("allow").unwrap(), "GET, HEAD");
    let browser = client.with_header("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let home = browser.get("/").await.unwrap().expect(303).unwrap();
    assert_eq!(home.header("location").unwrap(), "/console/");
}

#[tokio::test]
async fn both_listeners_serve_the_files_of_the_console() {
    let engine = Engine::start(None).await;
    check_files(engine.address).await;
    let other = engine.client(None).with_header("accept", "*/*");
    other.get("/").must_refuse("not_found").await;
    engine.end().await;
    let rig = Rig::start().await;
    check_files(rig.address).await;
    rig.end().await;
}

#[tokio::test]
async fn the_files_of_the_console_are_not_counted_and_need_no_database() {
    let engine = Engine::start_with(None, Clock::system(), |options| {
        options.anonymous_requests_per_minute = 1;
    })
    .await;
    let client = page(&engine).with_header("cookie", format!("sortie_00000000=stu_{}", "0".repeat(49)));
    for _ in 0..5 {
        client.get("/console/").must(200).await;
    }
    client.get("/v1/models").must(200).await;
    client.get("/v1/models").must_refuse("rate_limited").await;
    client.get("/console/").must(200).await;
    engine.end().await;
}

#[tokio::test]
async fn a_folder_has_the_files_during_development() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("index.html"), "<!doctype html>one").unwrap();
    std::fs::write(folder.path().join("new-chunk.js"), "1").unwrap();
    std::fs::write(folder.path().join("secret.toml"), "x").unwrap();
    let path = folder.path().to_owned();
    let engine = Engine::start_with(None, Clock::system(), |options| {
        options.console = ConsoleFiles::Folder(path);
    })
    .await;
    let client = engine.client(None);
    assert_eq!(
        client.get("/console/runs").must(200).await.text(),
        "<!doctype html>one"
    );
    std::fs::write(folder.path().join("index.html"), "<!doctype html>two").unwrap();
    assert_eq!(
        client.get("/console/").must(200).await.text(),
        "<!doctype html>two"
    );
    let chunk = client.get("/console/a/any/new-chunk.js").must(200).await;
    assert_eq!(
        chunk.header("content-type").unwrap(),
        "text/javascript; charset=utf-8"
    );
    assert_eq!(chunk.header("cache-control").unwrap(), "no-store");
    for none in [
        "/console/a/any/none.js",
        "/console/a/any/secret.toml",
        "/console/a/any/..%2Fx.js",
        "/console/a/any/../../x.js",
    ] {
        client.get(none).must_refuse("not_found").await;
    }
    engine.end().await;
}
