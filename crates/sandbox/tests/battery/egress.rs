//! Row 73: egress of a sandbox, from both of its ends.

use std::{io, path::PathBuf, time::Duration};

use sortie_sandbox::{Egress, Error, ExitKind, Level, Limits, Options, Spec, Workdir, detect};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
};

use crate::{
    harness::{Bed, PROBE, Run, Section, folder, out, sh},
    lifetimes::lose,
};

const MINUTE: Duration = Duration::from_mins(1);
/// Prints what the proxy answers.
const ASK: &str = "./probe ask";

pub(crate) fn way_out() -> Spec {
    Spec {
        egress: Egress::Proxy,
        ..Spec::default()
    }
}

/// Proxy that the engine serves at the other end: one line per line.
pub(crate) struct Proxy(TcpListener);

impl Proxy {
    pub(crate) async fn of(run: &mut Run) -> Self {
        let listener = run.sandbox.egress().await.unwrap().unwrap();
        assert!(run.sandbox.egress().await.unwrap().is_none(), "once");
        Self(TcpListener::from_std(listener).unwrap())
    }

    /// Answers forever.
    pub(crate) async fn answer(&mut self, with: &str) {
        loop {
            self.answer_one(with).await.unwrap();
        }
    }

    async fn answer_one(&mut self, with: &str) -> io::Result<()> {
        let (stream, peer) = self.0.accept().await?;
        assert!(peer.ip().is_loopback());
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        // A client that only connects gets nothing.
        if stream.read_line(&mut line).await? > 0 {
            stream.write_all(with.as_bytes()).await?;
        }
        Ok(())
    }

    /// Answers as an HTTP proxy would, with the requested target.
    async fn serve(&mut self) {
        loop {
            let (stream, _) = self.0.accept().await.unwrap();
            let mut lines = BufReader::new(stream).lines();
            let asked = lines.next_line().await.unwrap().unwrap_or_default();
            while lines
                .next_line()
                .await
                .unwrap()
                .is_some_and(|line| !line.is_empty())
            {}
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{asked}",
                asked.len()
            );
            let mut stream = lines.into_inner();
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    }
}

/// Without a private network a run cannot be confined to a proxy, so it gets no egress.
pub(crate) async fn refuses_a_way_out(bed: &Bed) {
    let capabilities = bed.backend.capabilities();
    assert!(!capabilities.egress);
    let said = capabilities.missing.join("; ");
    assert!(
        said.contains("Landlock tells ports apart but not addresses"),
        "{said}"
    );
    let workdir = Workdir::create(&bed.runs(), "run_1").unwrap();
    let refused = bed.backend.open(&workdir, way_out()).await.err().unwrap();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
    workdir.delete().unwrap();
}

pub(crate) fn each_run_has_a_proxy_of_its_own(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        if !bed.has_namespaces() {
            return refuses_a_way_out(bed).await;
        }
        assert!(bed.backend.capabilities().egress);
        let mut one = bed.open_with("run_1", way_out()).await;
        let mut two = bed.open_with("run_2", way_out()).await;
        let mut none = bed.open("run_3", Limits::default()).await;
        let (mut proxy_one, mut proxy_two) = (Proxy::of(&mut one).await, Proxy::of(&mut two).await);
        assert!(none.sandbox.egress().await.unwrap().is_none());
        let asked = async {
            tokio::join!(
                one.sh(ASK),
                two.sh(ASK),
                none.sh("./probe ask || env | grep -ic proxy || echo none")
            )
        };
        let (one_got, two_got, none_got) = tokio::select! {
            answers = asked => answers,
            () = proxy_one.answer("one\n") => unreachable!(),
            () = proxy_two.answer("two\n") => unreachable!(),
        };
        assert_eq!(out(&one_got), "one\n", "{one_got:?}");
        assert_eq!(out(&two_got), "two\n", "{two_got:?}");
        assert_eq!(out(&none_got), "0\nnone\n", "{none_got:?}");
        for run in [one, two, none] {
            run.end().await;
        }
    })
}

pub(crate) fn ordinary_clients_find_the_proxy(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        if !bed.has_namespaces() {
            return refuses_a_way_out(bed).await;
        }
        let mut run = bed.open_with("run_1", way_out()).await;
        let mut proxy = Proxy::of(&mut run).await;
        let python = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://a.example/x\").read().decode(), end=\"\")'";
        for (tool, script) in [
            ("curl", "curl -s http://a.example/x"),
            ("wget", "wget -q -O - http://a.example/x"),
            ("python3", python),
        ] {
            let script = format!("command -v {tool} > /dev/null || exit 99; {script}");
            let finished = tokio::select! {
                finished = run.sh(&script) => finished,
                () = proxy.serve() => unreachable!(),
            };
            if finished.exit == ExitKind::Code(99) {
                bed.not_checked(&format!("{tool} is not installed"));
                continue;
            }
            let asked = out(&finished);
            assert!(
                asked.starts_with("GET http://a.example/x HTTP/1."),
                "{tool}: {finished:?}"
            );
        }
        run.end().await;
    })
}

pub(crate) fn the_way_out_ends_with_the_sandbox_and_comes_back_with_it(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        if !bed.has_namespaces() {
            return refuses_a_way_out(bed).await;
        }
        let mut run = bed.open_with("run_1", way_out()).await;
        let first = Proxy::of(&mut run).await;
        lose(&mut run).await;
        let mut second = Proxy::of(&mut run).await;
        assert!(first.0.accept().await.is_err(), "it ended with its sandbox");
        let finished = tokio::select! {
            finished = run.sh(ASK) => finished,
            () = second.answer("again\n") => unreachable!(),
        };
        assert_eq!(
            (finished.exit, out(&finished).as_str()),
            (ExitKind::Code(0), "again\n")
        );

        // A pending accept fails when the sandbox is closed.
        let (ended, ()) = tokio::join!(second.0.accept(), run.end());
        assert!(ended.is_err(), "{ended:?}");

        let mut run = bed.open_with("run_2", way_out()).await;
        let dropped = Proxy::of(&mut run).await;
        drop(run.sandbox);
        assert!(dropped.0.accept().await.is_err());
        run.workdir.delete().unwrap();
    })
}

#[tokio::test]
async fn commands_that_are_not_confined_cannot_be_kept_to_a_proxy() {
    let root = folder();
    let options = Options {
        minimum: Level::None,
        strongest: Level::None,
        launcher: PathBuf::from(PROBE),
        ..Options::new(root.path().join("runs"))
    };
    let backend = detect(&options).await.unwrap();
    assert!(!backend.capabilities().egress);
    let workdir = Workdir::create(&options.root, "run_1").unwrap();
    let refused = backend.open(&workdir, way_out()).await.err().unwrap();
    assert!(
        refused.to_string().contains("cannot be kept to a proxy"),
        "{refused}"
    );
    let mut sandbox = backend.open(&workdir, Spec::default()).await.unwrap();
    let finished = sandbox.exec(sh("env | grep -ic proxy", MINUTE)).await.unwrap();
    assert_eq!(out(&finished), "0\n");
    sandbox.close().await.unwrap();
    workdir.delete().unwrap();
}
