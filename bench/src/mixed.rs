//! Mixed work at a fixed rate: runs without tools, with a shell, with input and output files, and with a callback.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use axum::{Router, extract::State, routing::post};
use bytes::Bytes;
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sortie_testkit::{Node, serve::Serving};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    Bench,
    connection::Connection,
    load::{Moments, complete, complete_for, per_second, request},
    report::{Limit, Report},
    samples::Samples,
};

/// Number of clients for the measurement of the maximum rate.
const CLIENTS: usize = 32;

/// Index of the request with a callback.
const CALLBACK: usize = 5;

/// Maximum time to wait for the receiver at the end.
const PATIENCE: Duration = Duration::from_mins(1);

/// A receiver that counts callbacks.
#[derive(Clone)]
struct Receiver(Arc<watch::Sender<usize>>);

async fn take(State(receiver): State<Receiver>, _body: Bytes) -> StatusCode {
    receiver.0.send_modify(|taken| *taken += 1);
    StatusCode::NO_CONTENT
}

/// A repeating sequence of requests for mixed work, and the receiver of their callbacks.
#[derive(Clone)]
pub(crate) struct Mix {
    /// Of eight requests, five are tool-free; one uses a shell, one files, and one a callback.
    requests: Arc<Vec<Bytes>>,
    next: Arc<AtomicUsize>,
    receiver: Receiver,
    _server: Arc<Serving>,
}

impl Mix {
    pub(crate) async fn start() -> Result<Self> {
        let receiver = Receiver(Arc::new(watch::Sender::new(0)));
        let router = Router::new().route("/", post(take)).with_state(receiver.clone());
        let server = Serving::start(router).await?;
        let plain = request("hello");
        let shell = request("```sh\ntrue\n```\n");
        let files = text(&json!({
            "prompt": "```tool write_file\n{\"path\": \"outputs/a.txt\", \"content\": \"a line\\n\"}\n```\n",
            "files": [{"path": "in.txt", "content": "a line\n".repeat(500)}],
        }));
        let callback = text(&json!({
            "prompt": "hello",
            "callback": {"url": server.base_url() + "/", "secret": "a secret of the usual length"},
        }));
        let requests = [&plain, &shell, &plain, &files, &plain, &callback, &plain, &plain];
        let requests = requests.into_iter().cloned().collect();
        Ok(Self {
            requests: Arc::new(requests),
            next: Arc::default(),
            receiver,
            _server: Arc::new(server),
        })
    }

    fn next(&self) -> Bytes {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.requests.len();
        self.requests.get(at).cloned().unwrap_or_default()
    }

    /// Measures the maximum number of runs per second: each client starts a run as soon as its previous run is done.
    pub(crate) async fn capacity(&self, nodes: &[&Node], seconds: u64) -> Result<f64> {
        let mix = self.clone();
        let done = complete_for(nodes, CLIENTS, seconds, move || mix.next()).await?;
        per_second(done.completed, seconds)
    }

    /// Waits until all callbacks have arrived.
    async fn all_delivered(&self) -> Result<()> {
        let begun = self.next.load(Ordering::Relaxed);
        let kinds = self.requests.len();
        let due = begun / kinds + usize::from(begun % kinds > CALLBACK);
        let mut taken = self.receiver.0.subscribe();
        let all = taken.wait_for(|taken| *taken >= due);
        tokio::time::timeout(PATIENCE, all)
            .await
            .with_context(|| format!("only {} of {due} callbacks came", *self.receiver.0.borrow()))??;
        Ok(())
    }
}

fn text(value: &Value) -> Bytes {
    value.to_string().into()
}

/// Results so far of a load at a fixed rate.
#[derive(Default)]
pub(crate) struct Pace {
    /// Number of started runs.
    pub(crate) begun: usize,
    /// Number of finished runs.
    pub(crate) done: usize,
    /// Times of the runs that ended since the last sample.
    pub(crate) moments: Vec<Moments>,
}

/// Idle pairs of connections: one to create, one to follow.
type Free = Arc<Mutex<Vec<(Connection, Connection)>>>;

/// Starts runs at a fixed rate, independently of earlier runs, distributed over these nodes on persistent connections.
pub(crate) struct Paced<'a> {
    pub(crate) state: Arc<Mutex<Pace>>,
    nodes: Vec<(&'a Node, Free)>,
}

impl<'a> Paced<'a> {
    pub(crate) fn on(nodes: &[&'a Node]) -> Self {
        Self {
            state: Arc::default(),
            nodes: nodes.iter().map(|node| (*node, Free::default())).collect(),
        }
    }

    /// Starts `rate` runs of this mix per second for this time. Fails if a run does not succeed.
    pub(crate) async fn run(&self, mix: &Mix, rate: f64, lasts: Duration) -> Result<()> {
        let begun = Instant::now();
        let mut under_way = JoinSet::new();
        let mut count = 0_u32;
        loop {
            let due = Duration::from_secs_f64(f64::from(count) / rate);
            if due >= lasts {
                break;
            }
            tokio::time::sleep_until((begun + due).into()).await;
            // Shifted by one after each round of the mix. Otherwise each of an even number of nodes would always get the same
            // kinds.
            let turn = usize::try_from(count)?;
            let turn = (turn + turn / mix.requests.len()) % self.nodes.len();
            let (node, free) = self.nodes.get(turn).context("no node")?;
            count += 1;
            lock(&self.state).begun += 1;
            let kept = lock(free).pop();
            let (mut creating, mut following) = match kept {
                Some(connections) => connections,
                None => (Connection::to(node)?, Connection::to(node)?),
            };
            let (state, free, request) = (Arc::clone(&self.state), Arc::clone(free), mix.next());
            under_way.spawn(async move {
                let moments = complete(&mut creating, &mut following, &request).await?;
                let mut state = lock(&state);
                state.done += 1;
                state.moments.push(moments);
                lock(&free).push((creating, following));
                Ok::<_, anyhow::Error>(())
            });
            while let Some(done) = under_way.try_join_next() {
                done??;
            }
        }
        while let Some(done) = under_way.join_next().await {
            done??;
        }
        mix.all_delivered().await
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> parking_lot::MutexGuard<'_, T> {
    mutex.lock()
}

/// Measures the maximum rate of mixed work, and the figures at half of that.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("mixed work") {
        return Ok(());
    }
    let node = bench.node().await?;
    over(&[&node], "mixed work", bench.seconds, report).await
}

/// Measures mixed work on these nodes, under this name.
pub(crate) async fn over(nodes: &[&Node], name: &str, seconds: u64, report: &mut Report) -> Result<()> {
    let mix = Mix::start().await?;
    let capacity = mix.capacity(nodes, seconds).await?;
    report.add(
        format!("{name}, {CLIENTS} at once"),
        format!("{capacity:.0} runs/s"),
    );
    let paced = Paced::on(nodes);
    // Opens the connections, without counting.
    paced.run(&mix, capacity / 2.0, Duration::from_secs(1)).await?;
    lock(&paced.state).moments.clear();
    let lasts = Duration::from_secs(seconds);
    paced.run(&mix, capacity / 2.0, lasts).await?;
    let moments = std::mem::take(&mut lock(&paced.state).moments);
    let (mut dispatch, mut done) = (Samples::default(), Samples::default());
    for moment in &moments {
        dispatch.add(moment.starting.saturating_sub(moment.acknowledged));
        done.add(moment.done);
    }
    report.add(
        format!("{name} at half load: 202 read to `starting` read, p50 / p99"),
        dispatch.to_string(),
    );
    report.add(format!("… {name}: POST to `done`, p50 / p99"), done.to_string());
    for (percent, rank) in [(50, "p50"), (99, "p99")] {
        let figure = format!("{name} at half load: 202 to `starting`, {rank}");
        let took = dispatch.percentile(percent).as_secs_f64();
        report.against(Limit::Flush, figure.clone(), took);
        report.reach(figure, took);
    }
    Ok(())
}
