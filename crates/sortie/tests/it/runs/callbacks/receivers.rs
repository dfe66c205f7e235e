//! Receivers that misbehave: each harms only its own callbacks.

use std::{net::SocketAddr, sync::Arc};

use sortie_testkit::CallbackReceiver;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::{SECRET, SHARE, attempts, attempts_made, ensure_share, to};
use crate::prelude::*;

/// Behaviour of a receiver after it has read a request.
#[derive(Clone, Debug)]
enum Manner {
    /// Nothing, for ever.
    Silent,
    /// Closes the connection.
    Closing,
    /// Answers this.
    Saying(String),
    /// Accepts the callback, and then sends one byte at a time for ever.
    Dribbling,
    /// Accepts the callback, and then sends as fast as it can.
    Flooding,
}

/// The head of an answer that accepts the callback, and has a body of unknown length.
const TAKEN: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";

/// A receiver on a free port.
struct Receiver {
    address: SocketAddr,
    /// Times at which the received callbacks were signed, in seconds.
    asked: watch::Receiver<Vec<u64>>,
    /// Number of bytes of an answer that could be sent.
    sent: Arc<std::sync::atomic::AtomicU64>,
    _task: JoinSet<()>,
}

impl Receiver {
    async fn start(manner: Manner) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (told, asked) = watch::channel(Vec::new());
        let sent = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let (mut task, counted) = (JoinSet::new(), Arc::clone(&sent));
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (manner, counted, told) = (manner.clone(), Arc::clone(&counted), told.clone());
                connections.spawn(async move {
                    // The other side may close at any time.
                    let _ended = behave(stream, &manner, &counted, &told).await;
                });
            }
        });
        Ok(Self {
            address,
            asked,
            sent,
            _task: task,
        })
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

/// Returns the time at which a callback was signed, in seconds, from the head of its request.
fn signed_at(request: &[u8]) -> Option<u64> {
    String::from_utf8_lossy(request)
        .lines()
        .find_map(|line| line.strip_prefix("x-service-timestamp: "))
        .and_then(|seconds| seconds.parse().ok())
}

async fn behave(
    mut stream: TcpStream,
    manner: &Manner,
    sent: &std::sync::atomic::AtomicU64,
    told: &watch::Sender<Vec<u64>>,
) -> std::io::Result<()> {
    let mut request = vec![0; 16 << 10];
    // The callback of a small run comes in one piece; if it does not, the beginning is enough.
    let length = stream.read(&mut request).await?;
    if length == 0 {
        return Ok(());
    }
    told.send_modify(|asked| asked.extend(signed_at(&request[..length])));
    match manner {
        Manner::Silent => std::future::pending().await,
        Manner::Closing => Ok(()),
        Manner::Saying(answer) => {
            stream.write_all(answer.as_bytes()).await?;
            std::future::pending().await
        }
        Manner::Dribbling => {
            stream.write_all(TAKEN.as_bytes()).await?;
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Manner::Flooding => {
            stream.write_all(TAKEN.as_bytes()).await?;
            let junk = vec![b'x'; 64 << 10];
            loop {
                stream.write_all(&junk).await?;
                sent.fetch_add(64 << 10, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }
}

/// A receiver accepts connections and never answers: callbacks of the others arrive at once, and its own time out.
#[tokio::test]
async fn a_receiver_that_never_answers_holds_up_nobody_else() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let hole = Receiver::start(Manner::Silent).await?;
    let mut swallowed = Vec::new();
    for _ in 0..40 {
        let id = client.create_id(&to(&hole.url(), plain("x"))).await?;
        client.finished(&id).await?;
        swallowed.push(id);
    }
    hole.asked.clone().wait_for(|asked| asked.len() >= SHARE).await?;
    let receiver = CallbackReceiver::start(SECRET).await?;
    let mut ids = Vec::new();
    for _ in 0..30 {
        let run = client.create(&to(&receiver.url(), plain("x"))).await?;
        ids.push(run.id.to_string());
    }
    for id in &ids {
        receiver.wait_for(id, 1).await?;
        assert_eq!(attempts_made(&client, id, 1).await?[0].status, Some(204));
    }
    ensure_share(hole.asked.borrow().clone())?;
    // The callbacks that were due first were sent first.
    let first = attempts_made(&client, &swallowed[0], 1).await?;
    assert_eq!(
        (first[0].status, first[0].error.as_deref()),
        (None, Some("no answer within 15 s"))
    );
    ensure!((15_000..30_000).contains(&first[0].duration_ms), "{first:?}");
    Ok(())
}

#[tokio::test]
async fn redirects_are_not_followed_and_broken_answers_are_failures() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let aside = CallbackReceiver::start(SECRET).await?;
    let redirect = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n",
        aside.url()
    );
    for (manner, status, part) in rows! {
        Manner::Saying(redirect), Some(307), "answered 307: redirects are not followed";
        Manner::Saying("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_owned()), Some(500), "answered 500";
        Manner::Saying("SSH-2.0-OpenSSH_9.9\r\n".to_owned()), None, "";
        Manner::Saying(format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 20))), None, "";
        Manner::Closing, None, "";
    } {
        let receiver = Receiver::start(manner.clone()).await?;
        let id = client.create_id(&to(&receiver.url(), plain("x"))).await?;
        let made = attempts_made(&client, &id, 1).await?;
        assert_eq!(made[0].status, status, "{manner:?}: {made:?}");
        ensure!(
            made[0].error.as_deref().is_some_and(|error| error.contains(part)),
            "{manner:?}: {made:?}"
        );
        ensure!(made[0].next_at.is_some(), "{manner:?}: {made:?}");
        ensure!(aside.deliveries(&id).is_empty(), "the redirect was followed");
    }
    Ok(())
}

/// The status alone accepts the callback: the node neither waits for the body nor reads it.
#[tokio::test]
async fn an_answer_without_an_end_counts_by_its_status() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    for manner in [Manner::Dribbling, Manner::Flooding] {
        let receiver = Receiver::start(manner.clone()).await?;
        let id = client.create_id(&to(&receiver.url(), plain("x"))).await?;
        let made = attempts_made(&client, &id, 1).await?;
        assert_eq!(
            (made[0].status, made[0].error.as_deref()),
            (Some(200), None),
            "{manner:?}"
        );
        ensure!(made[0].duration_ms < 10_000, "{manner:?}: {made:?}");
        // No more than the buffers of the system.
        let sent = receiver.sent.load(std::sync::atomic::Ordering::Relaxed);
        ensure!(sent < 64 << 20, "{sent} bytes were taken");
        ensure!(attempts(&client, &id).await?.len() == 1);
    }
    Ok(())
}
