//! Page readers that crash on untrusted content, and the resulting messages to the run.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use axum::{
    Router,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use serde_json::json;
use sortie_testkit::rows;
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinSet};

use crate::rig::{Answerer, Rig, call, place, typed};

const FETCH: &str = "web_fetch";

/// Programs that replace the page reader.
struct Readers(TempDir);

impl Readers {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A shell script that replaces the reader. `$form` is the requested format.
    fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.0.path().join(name);
        let job = "read -r job; case $job in *\\\"bare\\\"*) form=bare ;; *) form=whole ;; esac";
        fs::write(&path, format!("#!/bin/sh\n{job}\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }
}

fn answers(request: &Request) -> Response {
    match place(request).as_str() {
        "www.example/page" => typed("text/html", "<title>A</title><p>a page"),
        "www.example/json" => typed("application/json", "{\"a\":1}"),
        "www.example/links" => typed("text/html", links(120_000, 8_000)),
        "www.example/more-links" => typed("text/html", links(240_000, 16_000)),
        "www.example/most-links" => typed("text/html", links(487_000, 32_500)),
        "www.example/quotes" => {
            let html = "<blockquote>".repeat(250) + &"x<br>".repeat(120_000) + "the end";
            typed("text/html", html)
        }
        // Each paragraph escapes the backslashes of the previous one again.
        "www.example/cells" => {
            let html = "<table><tr><td>".to_owned()
                + &"\\".repeat(1_000_000)
                + &"<p></p>".repeat(60_000)
                + "the end";
            typed("text/html", html)
        }
        _ => http::StatusCode::NOT_FOUND.into_response(),
    }
}

/// A page with links that are resolved against a long base.
fn links(base: usize, links: usize) -> String {
    format!("<base href='/{}/'>", "b".repeat(base)) + &"<a href=x>y</a> ".repeat(links)
}

/// The tools with another page reader, and a server for all hosts.
async fn rig_with(reader: PathBuf, answers: Answerer) -> (Rig, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let app = Router::new().fallback(move |request: Request| async move { answers(&request) });
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
    (Rig::at_with_reader(server, reader), tasks)
}

#[tokio::test]
async fn pages_that_are_made_to_grow_are_answered_within_bounds() {
    let rig = Rig::new(answers).await;
    for path in ["links", "more-links", "most-links"] {
        let tool = rig.tool(FETCH, None);
        let url = format!("http://www.example/{path}");
        let page = call(&*tool, json!({ "url": url }), 1 << 20).await.unwrap();
        assert!(
            page.contains("\n[y](http://www.example/x) [y]("),
            "{}",
            &page[..400]
        );
        assert!(!page.contains("/bbbb"), "{}", &page[..400]);
    }
    let quotes = json!({ "url": "http://www.example/quotes" });
    let page = call(&*rig.tool(FETCH, None), quotes, 1 << 20).await.unwrap();
    assert!(
        page.contains("this is its bare text") && page.ends_with("the end"),
        "{}",
        &page[..400]
    );
}

#[tokio::test]
async fn a_page_that_takes_its_reader_all_its_time_is_read_as_bare_text() {
    let rig = Rig::new(answers).await;
    let url = json!({ "url": "http://www.example/cells", "start": 1_000_000 });
    let page = call(&*rig.tool(FETCH, None), url, 1 << 20).await.unwrap();
    assert!(
        page.contains("this is its bare text") && page.ends_with("the end"),
        "{}",
        &page[..400]
    );
}

#[tokio::test]
async fn a_page_that_breaks_its_reader_is_read_as_bare_text_by_another() {
    let readers = Readers::new();
    let bare = "{\"title\":\"\",\"layout\":\"bare\",\"start\":0,\"total\":9}\nbare text";
    for (name, breaks) in rows! {
        "killed", "kill -KILL $$";
        "failed", "exit 3";
        "garbage", "echo garbage";
        "silent", "exit 0";
        "endless", "while :; do echo endless endless endless endless endless endless; done";
    } {
        let script = format!("if [ $form = whole ]; then {breaks}; else printf '%s' '{bare}'; fi");
        let (rig, _web) = rig_with(readers.script(name, &script), answers).await;
        let page = rig.call(FETCH, json!({ "url": "http://www.example/page" })).await;
        let page = page.unwrap();
        assert!(
            page.contains("this is its bare text.]\nbare text"),
            "{name}: {page}"
        );
    }
}

#[tokio::test]
async fn a_page_that_breaks_every_reader_is_an_error_of_the_call() {
    let readers = Readers::new();
    let (rig, _web) = rig_with(readers.script("killed", "kill -KILL $$"), answers).await;
    let refused = rig.call(FETCH, json!({ "url": "http://www.example/page" })).await;
    assert_eq!(
        refused.unwrap_err(),
        "http://www.example/page: the page takes more memory or processor time than one page may have"
    );
    // The model gets the status even if the body cannot be read.
    let told = rig
        .call("http_request", json!({ "url": "http://www.example/json" }))
        .await;
    let told = told.unwrap();
    assert!(told.contains("200 OK"), "{told}");
    assert!(
        told.ends_with(
            "[the body is not shown: it takes more memory or processor time than one page may have]"
        ),
        "{told}"
    );
}

#[tokio::test]
async fn a_reader_that_does_not_start_is_said_to() {
    let (rig, _web) = rig_with("/nowhere/page-reader".into(), answers).await;
    let refused = rig.call(FETCH, json!({ "url": "http://www.example/page" })).await;
    assert_eq!(
        refused.unwrap_err(),
        "http://www.example/page: the page cannot be read on this node: its page reader does not start"
    );
}
