//! Bodies that are not run requests at all (`docs/API.md#bodies`).

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::prelude::*;

both_databases![a_body_that_is_no_json_object_is_refused_and_creates_nothing];

async fn a_body_that_is_no_json_object_is_refused_and_creates_nothing(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let nested = |depth: usize| {
        format!(
            r#"{{"prompt":"x","input":{}{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    let bodies: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b" ".to_vec(),
        b"{".to_vec(),
        b"{}{}".to_vec(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"\"prompt\"".to_vec(),
        b"[{\"prompt\":\"x\"}]".to_vec(),
        b"prompt=x".to_vec(),
        b"{\"prompt\":\"x\",}".to_vec(),
        b"{'prompt':'x'}".to_vec(),
        b"{\"prompt\":\"x\"} trailing".to_vec(),
        b"\xef\xbb\xbf{\"prompt\":\"x\"}".to_vec(),
        b"{\"prompt\":\"x\",\"prompt\":\"y\"}".to_vec(),
        b"{\"prompt\":\"x\",\"shell\":true,\"shell\":false}".to_vec(),
        b"{\"prompt\":\"\xff\xfe\"}".to_vec(),
        b"{\"prompt\":\"x\",\"input\":\"\xc3\x28\"}".to_vec(),
        b"{\"prompt\":\"x\",\"input\":\"\xed\xa0\x80\"}".to_vec(),
        b"{\"prompt\":\"\\ud800\"}".to_vec(),
        b"{\"prompt\":\"a\x00b\"}".to_vec(),
        b"{\"prompt\":\"line\nbreak\"}".to_vec(),
        b"{\"prompt\":\"x\",\"input\":NaN}".to_vec(),
        b"{\"prompt\":\"x\",\"input\":1e}".to_vec(),
        "[".repeat(200_000).into_bytes(),
        format!(
            r#"{{"prompt":{}"x"{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        )
        .into_bytes(),
        nested(100_000).into_bytes(),
        format!(r#"{{"prompt":"x","input":{}"#, r#"{"a":"#.repeat(50_000)).into_bytes(),
        format!(
            r#"{{"prompt":"x","output_schema":{}1{}}}"#,
            r#"{"not":"#.repeat(5_000),
            "}".repeat(5_000)
        )
        .into_bytes(),
    ];
    for body in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let answer = client.send(Method::POST, "/v1/runs", Bytes::from(body)).await?;
        answer.refused("invalid_request").context(shown)?;
    }
    assert_eq!(
        client.get("/v1/runs").expect(200).await?.text(),
        "[]",
        "something was created"
    );
    Ok(())
}

/// `docs/API.md#bodies`: a wrong content type is 400; parameters of the right one are fine.
#[tokio::test]
async fn only_json_is_taken() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let body = || Bytes::from(plain("x").to_string());
    for wrong in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "json",
        "",
    ] {
        let client = client.with_header("content-type", wrong);
        let answer = client.send(Method::POST, "/v1/runs", body()).await?;
        answer
            .refused("invalid_request")
            .with_context(|| wrong.to_owned())?;
    }
    assert_eq!(client.list("").await?.len(), 0);
    for right in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
    ] {
        let client = client.with_header("content-type", right);
        client
            .send(Method::POST, "/v1/runs", body())
            .expect(202)
            .await
            .with_context(|| right.to_owned())?;
    }
    Ok(())
}

/// `docs/API.md#bodies`: 413 for a complete body above the limit, whether its length is announced or not.
#[tokio::test]
async fn a_body_over_the_cap_is_too_large() -> Checked {
    let (node, client) = started(Database::Sqlite).await?;
    let body = Bytes::from(format!(
        r#"{{"prompt":"{}"}}"#,
        "x".repeat(sortie_api::limits::BODY_BYTES)
    ));
    client
        .send(Method::POST, "/v1/runs", body)
        .refused("payload_too_large")
        .await?;

    let mut socket = TcpStream::connect(node.address()?).await?;
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n",
        node.key()
    );
    socket.write_all(head.as_bytes()).await?;
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
    for _ in 0..32 {
        // The node may answer and close before it has read everything.
        if socket.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    let mut buffer = [0_u8; 4096];
    while !answer.ends_with(b"}") {
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(read) => answer.extend_from_slice(&buffer[..read]),
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    ensure!(
        answer.starts_with("HTTP/1.1 413") && answer.contains("payload_too_large"),
        "{answer}"
    );
    assert_eq!(client.list("").await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_connection_that_is_no_http_hurts_nobody() -> Checked {
    let node = node(Database::Sqlite).await?;
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"GET\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ] {
        let mut socket = TcpStream::connect(node.address()?).await?;
        socket.write_all(garbage).await?;
        socket.shutdown().await?;
        let mut answer = Vec::new();
        // An error answer or a closed connection: both end the connection.
        let _ended = socket.read_to_end(&mut answer).await;
        ensure!(
            !answer.starts_with(b"HTTP/1.1 5"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    node.client()?.get("/v1/me").expect(200).await?;
    Ok(())
}
