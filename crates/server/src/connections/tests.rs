use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::metrics::ConnectionMetrics;

struct Fine;

impl Answers for Fine {
    fn new_request_id(&self) -> String {
        "7".to_owned()
    }

    async fn answers(&self, _peer: IpAddr, _request: Request<Body>) -> Response {
        Response::new(Body::from("fine"))
    }
}

#[tokio::test]
async fn idle_connections_give_way_to_one_that_sends_a_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    // Four of one address.
    let connections = Connections::new(8, Vec::new(), ConnectionMetrics::default());
    let served = serve(listener, Arc::new(Fine), connections, stop.clone());
    let client = async {
        let mut idle = Vec::new();
        for _ in 0..4 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let mut asking = TcpStream::connect(address).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        asking.write_all(request).await.unwrap();
        let mut answer = String::new();
        asking.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("fine"), "{answer}");
        assert_eq!(idle[0].read(&mut [0]).await.unwrap(), 0, "it was the oldest");
        stop.cancel();
    };
    tokio::join!(served, client);
}
