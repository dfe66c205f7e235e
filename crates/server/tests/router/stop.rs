//! The stop: streams end at once, `serve` returns, nothing new is accepted.

use std::time::Instant;

use sortie_testkit::{PATIENCE, client::Next};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::prelude::*;

#[tokio::test]
async fn open_streams_and_idle_connections_do_not_hold_the_stop_up() {
    let rig = Rig::start().await;
    let address = rig.address;
    let run = rig.member.create(&waiting()).await.unwrap().id.to_string();
    let mut stream = rig.member.follow(&run, None).await.unwrap();
    assert!(matches!(stream.next().await.unwrap(), Next::Event(_)));
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut answer = [0; 15];
    idle.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");

    let begun = Instant::now();
    rig.stop.cancel();
    rig.served().await;
    // A connection that blocks the stop would be cut off after ten seconds.
    assert!(begun.elapsed().as_secs() < 9, "{:?}", begun.elapsed());
    while matches!(stream.next().await, Ok(Next::Event(_))) {}
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, idle.read_to_end(&mut rest))
        .await
        .unwrap()
        .unwrap();
    assert!(
        TcpStream::connect(address).await.is_err(),
        "nothing is accepted any more"
    );
    let run = rig
        .engine
        .store()
        .get_run(rig.org, run.parse().unwrap())
        .await
        .unwrap();
    assert!(
        !run.status.is_final(),
        "the end of the server is not the end of the run"
    );
}
