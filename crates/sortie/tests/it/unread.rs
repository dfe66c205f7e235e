//! Answers that their clients do not read (`docs/API.md#large-answers`).

use std::{fmt::Write as _, net::SocketAddr};

use futures_util::future::try_join_all;
use socket2::SockRef;
use sortie_testkit::processes::in_use;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpSocket, TcpStream},
};

use crate::{
    node_under_load,
    prelude::*,
    zero_data_retention::{nodes::two, unretained},
};

both_databases![unread_answers_hold_little_memory];

/// Clients that do not read.
const CLIENTS: usize = 500;

/// Number of clients for answers that come from another node and are written in the same way. Without a bound they too
/// would take several times the memory. With many more clients there would be no room for arrays that another node
/// passes on.
const FEWER: usize = 120;

/// Largest segment that a client accepts, in bytes, as in an ordinary network.
const SEGMENT: u32 = 1_460;

/// Memory that all of them together may use in the node, in bytes.
const MOST: u64 = 160 << 20;

/// Saves something large, and returns whether it was accepted.
async fn put(client: &Client, path: &str, body: &Value) -> Checked {
    let body = Bytes::from(serde_json::to_vec(body)?);
    let answer = client.send(Method::PUT, path, body).await?;
    ensure!(matches!(answer.status, 200 | 201), "{}", answer.text());
    Ok(())
}

/// Fills a node. Returns the paths with large answers, with their media types.
async fn filled(client: &Client) -> Result<Vec<(String, &'static str)>> {
    // Ten MiB of JSON, as each of the quotes is escaped.
    let content = "\"".repeat(5 << 20);
    let definition = json!({"prompt": "x", "files": [{"path": "a", "content": content}]});
    put(client, "/v1/workflows/large", &definition).await?;
    let (_, of_large) = client.complete(&json!({"workflow": "large"})).await?;
    let mebibyte = "head -c 1000000 /dev/zero | tr '\\0' x";
    let mut prompt = String::new();
    for _ in 0..10 {
        write!(prompt, "```sh\n{mebibyte}\n```\n")?;
    }
    let mut last = None;
    for _ in 0..10 {
        last = Some(client.complete(&json!({"prompt": prompt})).await?.1);
    }
    let last = last.context("no run")?;
    let input = json!({"a": "y".repeat(1_000_000)});
    put(client, "/v1/workflows/small", &json!({"prompt": "x"})).await?;
    for _ in 0..4 {
        let schedule = json!({"workflow": "small", "cron": "@yearly", "input": input});
        client.post("/v1/schedules", &schedule).expect(201).await?;
    }
    let command: Vec<String> = (0..64)
        .map(|number| format!("/{number:02}{}", "x".repeat(4_093)))
        .collect();
    for number in 0..20 {
        let connection = json!({"type": "mcp", "command": command});
        put(client, &format!("/v1/connections/c{number}"), &connection).await?;
    }
    let any = "*/*";
    Ok(vec![
        ("/v1/connections".to_owned(), any),
        ("/v1/connections/c7".to_owned(), any),
        ("/v1/workflows/large".to_owned(), any),
        (format!("/v1/runs/{}/definition", of_large.id), any),
        ("/v1/runs".to_owned(), any),
        (format!("/v1/runs/{}", last.id), any),
        (format!("/v1/runs/{}/events", last.id), "application/json"),
        (format!("/v1/runs/{}/events", last.id), "text/event-stream"),
        ("/v1/schedules".to_owned(), any),
    ])
}

/// Sends a request. The sockets of both sides hold little of the answer. The node's socket has room for some segments, and
/// with the large segments of the loopback interface that would be megabytes.
async fn asked(address: SocketAddr, request: &str) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4_096)?;
    SockRef::from(&socket).set_tcp_mss(SEGMENT)?;
    let mut stream = socket.connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    // The answer has begun: the node holds its full buffer in memory.
    let mut head = [0; 12];
    while stream.peek(&mut head).await? < head.len() {}
    ensure!(&head == b"HTTP/1.1 200", "{}", String::from_utf8_lossy(&head));
    Ok(stream)
}

async fn unread(node: &Node, key: &str, (path, accept): (&str, &str), clients: usize) -> Result<u64> {
    let pid = node.pid()?;
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\naccept: {accept}\r\n\r\n");
    // The peak begins anew.
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
    let before = in_use(pid)?.memory;
    let address = node.address()?;
    let clients = try_join_all((0..clients).map(|_| asked(address, &request))).await?;
    node.client()?.get("/v1/me").expect(200).await?;
    let rise = in_use(pid)?.peak.saturating_sub(before);
    drop(clients);
    Ok(rise)
}

/// Requests `path` with a separate key: a key has 600 requests a minute.
async fn measure(node: &Node, path: &str, accept: &str, clients: usize) -> Checked {
    let keys = node
        .client()?
        .post("/v1/admin/keys", &json!({"name": path}))
        .await?;
    let key = keys.expect(201)?.json()?["key"]
        .as_str()
        .context("no key")?
        .to_owned();
    let rise = unread(node, &key, (path, accept), clients).await?;
    println!("{path} {accept}: {} MiB", rise >> 20);
    ensure!(rise < MOST, "{path} {accept}: {} MiB", rise >> 20);
    Ok(())
}

/// The events of a run with zero data retention, on the node that has them and through another.
#[tokio::test]
async fn unread_events_that_are_not_stored_hold_little_memory() -> Checked {
    let (first, second) = two().await?;
    let prompt = "```sh\nhead -c 1000000 /dev/zero | tr '\\0' x\n```\n".repeat(4);
    let (_, run) = first.client()?.complete(&unretained(&prompt)).await?;
    let path = format!("/v1/runs/{}/events", run.id);
    let as_json = first.client()?.with_header("accept", "application/json");
    let length = as_json.get(&path).expect(200).await?.body.len();
    ensure!(length > 2_000_000, "{length}");
    let (array, stream) = ("application/json", "text/event-stream");
    for node in [&first, &second] {
        measure(node, &path, array, FEWER).await?;
        measure(node, &path, stream, FEWER).await?;
    }
    Ok(())
}

async fn unread_answers_hold_little_memory(database: Database) -> Checked {
    let node = node_under_load(database).await?;
    let client = node.client()?;
    let clients = match database {
        Database::Sqlite => CLIENTS,
        Database::Postgres => FEWER,
    };
    for (path, accept) in filled(&client).await? {
        measure(&node, &path, accept, clients).await?;
    }
    Ok(())
}
