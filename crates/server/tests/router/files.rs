//! `/v1/files`: valid and invalid forms, lists, whole and partial content, names, limits.

use std::path::Path;

use proptest::{prelude::*, strategy::ValueTree as _};
use sortie_api::{File, Mode};
use sortie_testkit::{PATIENCE, client::BOUNDARY};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::prelude::*;

/// Every file below the folder of the engine's content.
fn stored(rig: &Rig) -> Vec<std::path::PathBuf> {
    fn below(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    below(&rig.dir.path().join("blobs"), &mut found);
    found
}

/// The parts of a form: heads and contents.
type Form<'f> = &'f [(&'f str, &'f [u8])];

async fn small(max_file_bytes: u64) -> Rig {
    let engine = sortie_engine::Options {
        max_file_bytes,
        ..sortie_engine::Options::default()
    };
    Rig::start_engine(Mode::SelfHosted, options(), engine).await
}

pub(crate) fn with(client: &Client, headers: &[(&'static str, &str)]) -> Client {
    headers.iter().fold(client.clone(), |client, (name, value)| {
        client.with_header(name, value)
    })
}

fn patch(client: &Client, file: &str, body: &Value) -> Pending {
    client.patch(&format!("/v1/files/{file}"), body)
}

#[tokio::test]
async fn a_member_saves_reads_renames_and_deletes_a_file() {
    let rig = Rig::start().await;
    let client = &rig.member;
    let file = client.upload("a b.csv", "one,two\n").await.unwrap();
    assert_eq!(
        (file.name.as_str(), file.size, file.content_type.as_str()),
        ("a b.csv", 8, "text/csv")
    );
    assert_eq!(
        file.sha256.to_string(),
        "522d45a4d29c8cc69b7525211ceccfaa45bd7c06385ac7c71e1231b5fe0d111f"
    );
    for path in [format!("/v1/files/{}", file.id), "/v1/files/a%20b.csv".to_owned()] {
        let found: File = client.get(&path).must_read(200).await;
        assert_eq!(found, file);
        let content = client.get(&format!("{path}/content")).must(200).await;
        assert_eq!(content.text(), "one,two\n");
    }
    let renamed = patch(client, "a%20b.csv", &json!({"name": "ü.csv"}))
        .must(200)
        .await;
    assert_eq!(
        renamed.read::<File>().unwrap(),
        File {
            name: "ü.csv".to_owned(),
            ..file.clone()
        }
    );
    patch(client, &file.id.to_string(), &json!({"name": "ü.csv"}))
        .must(200)
        .await;
    client.get("/v1/files/a%20b.csv").must_refuse("not_found").await;
    client.delete("/v1/files/%C3%BC.csv").must(204).await;
    for path in [
        format!("/v1/files/{}", file.id),
        format!("/v1/files/{}/content", file.id),
    ] {
        client.get(&path).must_refuse("not_found").await;
    }
    client
        .delete(&format!("/v1/files/{}", file.id))
        .must_refuse("not_found")
        .await;
    for path in [
        "/v1/files/..",
        "/v1/files/%00",
        "/v1/files/%ff",
        "/v1/files/file_0",
    ] {
        client.get(path).must_refuse("not_found").await;
    }
}

#[tokio::test]
async fn a_name_is_one_of_the_organization() {
    let rig = Rig::start().await;
    let ours = rig.member.upload("same", "ours").await.unwrap();
    let theirs = rig.stranger.upload("same", "theirs").await.unwrap();
    assert_ne!(ours.id, theirs.id);
    let head = "form-data; name=\"file\"; filename=\"same\"";
    let taken = rig.admin.send_form(&[(head, b"other")]).await.unwrap();
    assert!(taken.refused("conflict").unwrap().error.starts_with("name: "));
    rig.member.upload("other", "x").await.unwrap();
    patch(&rig.member, "other", &json!({"name": "same"}))
        .must_refuse("conflict")
        .await;
    let content = rig.stranger.get("/v1/files/same/content").await.unwrap();
    assert_eq!(content.text(), "theirs");
}

#[tokio::test]
async fn the_same_content_is_stored_once() {
    let rig = Rig::start().await;
    rig.member.upload("a", "the same").await.unwrap();
    rig.member.upload("b", "the same").await.unwrap();
    assert_eq!(stored(&rig).len(), 1);
    rig.stranger.upload("c", "the same").await.unwrap();
    assert_eq!(stored(&rig).len(), 2, "no organization learns what another has");
}

#[tokio::test]
async fn a_form_names_the_file_in_many_ways() {
    let rig = Rig::start().await;
    let file = |rest: &str| format!("form-data; name=\"file\"{rest}");
    let name: (&str, &[u8]) = ("form-data; name=\"name\"", b"chosen.txt");
    for (at, (rest, expected)) in [
        ("; filename=\"plain.txt\"", "plain.txt"),
        ("; filename=unquoted.txt", "unquoted.txt"),
        ("; filename=\"../../etc/passwd\"", "passwd"),
        ("; filename=\"C:\\\\work\\\\report.doc\"", "report.doc"),
        ("; filename=\"/a/b/c.txt\"", "c.txt"),
        ("; filename=\"grüße.txt\"", "grüße.txt"),
        ("; filename=\"x\"; filename*=UTF-8''na%C3%AFve.txt", "naïve.txt"),
        ("; filename*=utf-8'en'only.txt", "only.txt"),
    ]
    .into_iter()
    .enumerate()
    {
        let content = format!("{at}");
        let head = file(rest);
        let saved: File = rig
            .member
            .send_form(&[(&head, content.as_bytes())])
            .must_read(201)
            .await;
        assert_eq!(saved.name, expected);
    }
    // The name may come before or after the file, and takes precedence.
    let head = file("; filename=\"a.csv\"");
    let form: [(&str, &[u8]); 2] = [(&head, b"a"), name];
    let saved: File = rig.member.send_form(&form).must_read(201).await;
    assert_eq!(
        (saved.name.as_str(), saved.content_type.as_str()),
        ("chosen.txt", "text/plain")
    );
    rig.member
        .send_form(&[name, (&head, b"a")])
        .must_refuse("conflict")
        .await;
}

#[tokio::test]
async fn a_media_type_is_the_sent_one_or_that_of_the_name() {
    let rig = Rig::start().await;
    for (name, sent, expected) in rows! {
        "a.md", "", "text/markdown";
        "a.unheard-of", "", "application/octet-stream";
        "b.csv", "\r\nContent-Type: application/octet-stream", "text/csv";
        "c.csv", "\r\nContent-Type: text/tab-separated-values; charset=utf-8", "text/tab-separated-values; charset=utf-8";
        "d.csv", "\r\nContent-Type: nonsense", "text/csv";
    } {
        let head = format!("form-data; name=\"file\"; filename=\"{name}\"{sent}");
        let answer = rig.member.send_form(&[(&head, b"x")]).must(201).await;
        assert_eq!(answer.read::<File>().unwrap().content_type, expected, "{name}");
        let content = rig
            .member
            .get(&format!("/v1/files/{name}/content"))
            .await
            .unwrap();
        assert_eq!(content.header("content-type").unwrap(), expected);
        assert_eq!(content.header("x-content-type-options").unwrap(), "nosniff");
        assert!(
            content
                .header("content-disposition")
                .unwrap()
                .starts_with("attachment; ")
        );
    }
}

#[tokio::test]
async fn a_form_that_breaks_a_rule_leaves_nothing_behind() {
    let rig = Rig::start().await;
    let file = "form-data; name=\"file\"; filename=\"a\"";
    let forms: [(&str, Form<'_>); 12] = rows! {
        "file: required", &[];
        "file: required", &[("form-data; name=\"name\"", b"a")];
        "file: sent twice", &[(file, b"1"), (file, b"2")];
        "name: sent twice", &[("form-data; name=\"name\"", b"a"), ("form-data; name=\"name\"", b"b"), (file, b"1")];
        "name: required where", &[("form-data; name=\"file\"", b"1")];
        "other: unknown field", &[(file, b"1"), ("form-data; name=\"other\"", b"x")];
        "unknown field", &[("form-data", b"x")];
        "name: must hold no", &[(file, b"1"), ("form-data; name=\"name\"", b"a/b")];
        "name: must be 1 to 255", &[(file, b"1"), ("form-data; name=\"name\"", b"")];
        "name: must be UTF-8", &[(file, b"1"), ("form-data; name=\"name\"", b"\xff")];
        "name: must not be", &[("form-data; name=\"file\"; filename=\"a/..\"", b"1")];
        "name: must not have the form", &[("form-data; name=\"file\"; filename=\"file_01hf7yat31e4ar9bcdefghjkmn\"", b"1")];
    };
    for (rule, form) in forms {
        let refusal = rig.member.send_form(form).must_refuse("invalid_request").await;
        assert!(refusal.error.contains(rule), "{rule}: {}", refusal.error);
    }
    assert_eq!(
        rig.member.get("/v1/files").await.unwrap().json().unwrap(),
        json!([])
    );
    assert!(stored(&rig).is_empty());
}

#[tokio::test]
async fn a_body_that_is_no_form_leaves_nothing_behind() {
    let rig = Rig::start().await;
    let file = "form-data; name=\"file\"; filename=\"a\"";
    let long = "x".repeat(256);
    rig.member
        .send_form(&[(file, b"1"), ("form-data; name=\"name\"", long.as_bytes())])
        .must_refuse("invalid_request")
        .await;
    for kind in [
        "text/plain",
        "application/octet-stream",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/mixed; boundary=x",
    ] {
        let client = with(&rig.member, &[("content-type", kind)]);
        let answer = client
            .send(Method::POST, "/v1/files", Bytes::from_static(b"--x--\r\n"))
            .await
            .unwrap();
        let refusal = answer.refused("invalid_request").unwrap();
        assert!(
            refusal.error.starts_with("Content-Type: "),
            "{kind}: {}",
            refusal.error
        );
    }
    assert_eq!(
        rig.member.get("/v1/files").await.unwrap().json().unwrap(),
        json!([])
    );
    assert!(stored(&rig).is_empty());
}

#[tokio::test]
async fn a_file_of_the_limit_is_taken_and_one_byte_more_is_not() {
    let rig = small(1_000_000).await;
    rig.member.upload("whole", vec![7; 1_000_000]).await.unwrap();
    let head = "form-data; name=\"file\"; filename=\"more\"";
    for length in [1_000_001, 3_000_000] {
        let answer = rig.member.send_form(&[(head, &vec![7; length])]).await.unwrap();
        let refusal = answer.refused("payload_too_large").unwrap();
        assert_eq!(refusal.error, "file must be at most 1000000 bytes");
    }
    assert_eq!(stored(&rig).len(), 1);
    let list = rig.member.get("/v1/files").await.unwrap().json().unwrap();
    assert_eq!(list.as_array().unwrap().len(), 1);
}

/// Header of an upload of `length` bytes, and the start of its form.
fn upload_head(rig: &Rig, length: usize, more: &str) -> String {
    format!(
        "POST /v1/files HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: {length}\r\n{more}\
         Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n",
        rig.address, rig.member_key
    )
}

#[tokio::test]
async fn a_client_that_waits_to_be_told_to_go_on_is_told_that_its_file_is_too_large() {
    let rig = small(1_000).await;
    let mut stream = TcpStream::connect(rig.address).await.unwrap();
    let head = upload_head(&rig, 10_000_000, "Expect: 100-continue\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_leaves_nothing_behind() {
    let rig = Rig::start().await;
    let mut stream = TcpStream::connect(rig.address).await.unwrap();
    stream
        .write_all(upload_head(&rig, 50_000_000, "").as_bytes())
        .await
        .unwrap();
    let part =
        format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"half\"\r\n\r\n");
    stream.write_all(part.as_bytes()).await.unwrap();
    stream.write_all(&vec![7; 3_000_000]).await.unwrap();
    let look = async || Ok(stored(&rig));
    until("the upload", look, |stored| !stored.is_empty())
        .await
        .unwrap();
    drop(stream);
    until("the end of the upload", look, Vec::is_empty).await.unwrap();
    assert_eq!(
        rig.member.get("/v1/files").await.unwrap().json().unwrap(),
        json!([])
    );
}

#[tokio::test]
async fn no_form_however_broken_is_more_than_a_refusal() {
    let rig = small(100_000).await;
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
    let piece = prop_oneof![
        Just(format!("--{BOUNDARY}\r\n").into_bytes()),
        Just(format!("\r\n--{BOUNDARY}\r\n").into_bytes()),
        Just(format!("\r\n--{BOUNDARY}--\r\n").into_bytes()),
        Just(b"Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n".to_vec()),
        Just(b"Content-Disposition: form-data; name=\"name\"\r\n\r\n".to_vec()),
        Just(b"Content-Disposition: form-data; name=\"file\"; filename*=UTF-8''%zz\r\n".to_vec()),
        Just(b"Content-Type: multipart/mixed; boundary=b\r\n\r\n".to_vec()),
        Just(b"\r\n\r\n".to_vec()),
        Just(vec![b'h'; 70_000]),
        proptest::collection::vec(any::<u8>(), 0..200),
    ];
    let bodies = proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    let form = with(
        &rig.member,
        &[("content-type", "multipart/form-data; boundary=the-end-of-a-part")],
    );
    // Include a complete form, so that something is stored.
    let mut accepted = 1;
    rig.member.upload("whole", "whole").await.unwrap();
    for _ in 0..200 {
        let body = bodies.new_tree(&mut runner).unwrap().current();
        let answer = form
            .send(Method::POST, "/v1/files", Bytes::from(body.clone()))
            .await
            .unwrap();
        assert!(
            matches!(answer.status, 201 | 400 | 409 | 413),
            "{} for {}",
            answer.text(),
            String::from_utf8_lossy(&body)
        );
        accepted += usize::from(answer.status == 201);
    }
    let stored = stored(&rig);
    // An organization stores each content once.
    assert!((1..=accepted).contains(&stored.len()), "{stored:?}");
    for path in stored {
        assert!(!path.to_string_lossy().contains("staging"), "{path:?}");
    }
}

#[tokio::test]
async fn heads_that_never_end_are_refused_before_they_fill_memory() {
    let rig = Rig::start().await;
    let mut stream = TcpStream::connect(rig.address).await.unwrap();
    stream
        .write_all(upload_head(&rig, 90_000_000, "").as_bytes())
        .await
        .unwrap();
    stream
        .write_all(format!("--{BOUNDARY}\r\nX-Endless: ").as_bytes())
        .await
        .unwrap();
    let (mut read, mut write) = stream.split();
    let mut answer = [0; 12];
    let endless = vec![b'x'; 65_536];
    let sending = async {
        while write.write_all(&endless).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        read = tokio::time::timeout(PATIENCE, read.read_exact(&mut answer)) => { read.unwrap().unwrap(); }
        () = sending => {}
    }
    assert_eq!(&answer, b"HTTP/1.1 400");
}
