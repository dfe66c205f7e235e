//! The load under which faults happen: runs of many kinds, made by careful clients. A client repeats an unanswered
//! request with the same `Idempotency-Key`, so at the end every run in the database was acknowledged.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use parking_lot::Mutex;
use sortie_api::{Event, Run};
use sortie_testkit::client::Next;
use tokio::{task::JoinSet, time::timeout};

use crate::{prelude::*, world::Doors};

/// Clients at once.
const CLIENTS: usize = 4;
/// Time after which a client without an answer asks another node.
const IMPATIENCE: Duration = Duration::from_secs(4);
/// Time limit after the fault for answering all open requests.
const AFTERWARDS: Duration = Duration::from_mins(1);

/// Kind of a run's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Answers at once.
    Plain,
    /// Writes a file and reads it.
    Files,
    /// A single command.
    Shell,
    /// Several commands in one directory, with pauses.
    Steps,
    /// Waits, then answers.
    Wait,
    /// Three calls of the model server, with two tools.
    Model,
    /// Leaves a file that is kept.
    Artifact,
    /// Waits until it is cancelled.
    Cancel,
}

/// The kinds with their weights.
const MIX: [Kind; 12] = [
    Kind::Plain,
    Kind::Plain,
    Kind::Files,
    Kind::Shell,
    Kind::Shell,
    Kind::Steps,
    Kind::Wait,
    Kind::Model,
    Kind::Model,
    Kind::Artifact,
    Kind::Artifact,
    Kind::Cancel,
];

/// A run as its client knows it.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// `Idempotency-Key` of the order.
    pub(crate) key: String,
    pub(crate) kind: Kind,
    pub(crate) has_callback: bool,
    /// Text of the order in the run's output.
    pub(crate) name: String,
    pub(crate) request: Value,
    /// Once it was acknowledged.
    pub(crate) id: Option<String>,
    /// Once a cancel was answered.
    pub(crate) cancelled: Option<Run>,
    /// Events that a follower saw, if one reached the end.
    pub(crate) followed: Option<Vec<Event>>,
    is_followed: bool,
}

impl Order {
    /// The answer that it has to have.
    pub(crate) fn answer(&self) -> String {
        match self.kind {
            Kind::Shell | Kind::Artifact => format!("{}\n", self.name),
            Kind::Steps => "1\n2\n3\n".to_owned(),
            Kind::Model => format!("done {}", self.name),
            Kind::Plain | Kind::Files | Kind::Wait | Kind::Cancel => self.name.clone(),
        }
    }

    fn new(random: &mut fastrand::Rng, number: &str, token: &str, callback: &str) -> Self {
        let kind = MIX[random.usize(..MIX.len())];
        Self::of(kind, random, number, (token, callback))
    }

    fn of(kind: Kind, random: &mut fastrand::Rng, number: &str, (token, callback): (&str, &str)) -> Self {
        let name = number.to_owned();
        let answer = format!("```answer\n{name}\n```\n");
        // A command that was in progress when its node died is repeated: its line may be there twice, and no other.
        let prompt = match kind {
            Kind::Plain => name.clone(),
            Kind::Files => format!(
                "```tool write_file\n{}\n```\n```tool read_file\n{}\n```\n{answer}",
                json!({"path": "a.txt", "content": name}),
                json!({"path": "a.txt"}),
            ),
            Kind::Shell => format!(
                "```sh\n: {token}; sleep 0.{}; echo {name}\n```\n",
                random.u8(0..4)
            ),
            Kind::Steps => format!(
                "```sh\necho 1 >> log && echo done\n```\n```wait {}\n```\n```sh\n: {token}; echo 2 >> log && sleep 0.2\n\
                 ```\n```sh\necho 3 >> log\n```\n```wait {}\n```\n```sh\nuniq log\n```\n",
                random.u16(50..1_000),
                random.u16(50..1_000),
            ),
            Kind::Wait => format!("```wait {}\n```\n{answer}", random.u16(100..3_000)),
            Kind::Model => format!("task number {name}"),
            Kind::Artifact => {
                format!("```sh\nmkdir -p outputs && echo {name} > outputs/a.txt && echo {name}\n```\n")
            }
            Kind::Cancel => "```wait 600000\n```\n".to_owned(),
        };
        let mut request = json!({"prompt": prompt, "timeout_seconds": 900, "max_cost_micros": 2_000_000});
        if kind == Kind::Model {
            request["model"] = json!("scripted");
            request["shell"] = json!(false);
        }
        let has_callback = random.u8(0..3) == 0;
        if has_callback {
            request["callback"] = json!({"url": callback, "secret": crate::world::SECRET});
        }
        Self {
            key: format!("order {number}"),
            kind,
            has_callback,
            name,
            request,
            id: None,
            cancelled: None,
            followed: None,
            is_followed: random.u8(0..4) == 0,
        }
    }

    /// Tries once to have the order acknowledged.
    async fn place(&mut self, client: &Client) -> Result<()> {
        let client = client.with_header("idempotency-key", &self.key);
        let answer = timeout(IMPATIENCE, client.post("/v1/runs", &self.request)).await??;
        ensure!(
            matches!(answer.status, 200 | 202),
            "{}: {}",
            answer.status,
            answer.text()
        );
        self.id = Some(answer.read::<Run>()?.id.to_string());
        Ok(())
    }

    /// Tries once to cancel the run.
    async fn cancel(&mut self, client: &Client) -> Result<()> {
        if let (Some(id), None, Kind::Cancel) = (&self.id, &self.cancelled, self.kind) {
            self.cancelled = Some(timeout(IMPATIENCE, client.cancel(id)).await??);
        }
        Ok(())
    }

    /// Tries every unanswered request once.
    async fn ask(&mut self, client: &Client) -> Result<()> {
        if self.id.is_none() {
            self.place(client).await?;
        }
        self.cancel(client).await
    }

    fn is_done(&self) -> bool {
        self.id.is_some() && (self.kind != Kind::Cancel || self.cancelled.is_some())
    }
}

type Orders = Arc<Mutex<Vec<Order>>>;

/// A load that runs until it is ended.
#[derive(Debug)]
pub(crate) struct Load {
    orders: Orders,
    /// Number of orders before the load, which warm up the nodes.
    warm: usize,
    stop: Arc<AtomicBool>,
    doors: Doors,
    clients: JoinSet<()>,
    followers: JoinSet<Result<(String, Vec<Event>)>>,
    random: fastrand::Rng,
}

impl Load {
    /// Warms up every node by one run of each kind, records the resource levels, and begins.
    pub(crate) async fn begin(world: &mut World) -> Result<Self> {
        let callback = format!("{}/", world.receiver_proxy.base_url());
        let mut warm = Vec::new();
        for nth in 0..world.nodes.len() {
            for kind in MIX {
                let number = format!("warm{nth}n{}", warm.len());
                let mut order = Order::of(kind, &mut world.random, &number, (&world.token, &callback));
                let client = world.nodes[nth].client()?;
                let ask = async || Ok(order.ask(&client).await);
                until(&format!("an answer to {number}"), ask, Result::is_ok).await??;
                warm.push(order);
            }
        }
        for order in &warm {
            let id = order.id.as_deref().unwrap_or_default();
            world.nodes[0].client()?.finished(id).await?;
        }
        world.take_levels()?;
        let mut load = Self {
            warm: warm.len(),
            orders: Arc::new(Mutex::new(warm)),
            stop: Arc::default(),
            doors: world.doors.clone(),
            clients: JoinSet::new(),
            followers: JoinSet::new(),
            random: world.random.fork(),
        };
        for client in 0..CLIENTS {
            let seed = load.random.u64(..);
            load.clients.spawn(order_on(
                fastrand::Rng::with_seed(seed),
                client,
                (world.token.clone(), callback.clone()),
                (
                    load.doors.clone(),
                    Arc::clone(&load.orders),
                    Arc::clone(&load.stop),
                ),
            ));
        }
        load.follow();
        Ok(load)
    }

    /// Starts to follow the runs that are to be followed and are not followed yet.
    pub(crate) fn follow(&mut self) {
        let mut orders = lock(&self.orders);
        for order in orders.iter_mut().filter(|order| order.is_followed) {
            if let Some(id) = order.id.clone() {
                order.is_followed = false;
                let (doors, seed) = (self.doors.clone(), self.random.u64(..));
                self.followers
                    .spawn(follow(doors, fastrand::Rng::with_seed(seed), id));
            }
        }
    }

    /// Returns the number of the load's acknowledged runs so far.
    pub(crate) fn acknowledged(&self) -> usize {
        let orders = lock(&self.orders);
        orders[self.warm..]
            .iter()
            .filter(|order| order.id.is_some())
            .count()
    }

    /// Whether a run ends without a cancel, as far as is known yet.
    pub(crate) fn ends(&self, run: &str) -> bool {
        lock(&self.orders)
            .iter()
            .any(|order| order.kind != Kind::Cancel && order.id.as_deref() == Some(run))
    }

    /// Ends the load after the fault: unanswered requests are repeated until they are answered, and every run is known
    /// to its client.
    pub(crate) async fn end(mut self) -> Result<Vec<Order>> {
        self.follow();
        self.stop.store(true, Ordering::SeqCst);
        while self.clients.join_next().await.is_some() {}
        let mut orders = std::mem::take(&mut *lock(&self.orders));
        let deadline = Instant::now() + AFTERWARDS;
        for order in &mut orders {
            while !order.is_done() {
                let Some(client) = self.doors.any(&mut self.random) else {
                    bail!("no node is up");
                };
                if let Err(error) = order.ask(&client).await {
                    ensure!(Instant::now() < deadline, "{}: {error:#}", order.key);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        while let Some(followed) = self.followers.join_next().await {
            let (id, events) = followed??;
            for order in &mut orders {
                if order.id.as_ref() == Some(&id) {
                    order.followed = Some(events.clone());
                }
            }
        }
        Ok(orders)
    }
}

fn lock(orders: &Orders) -> parking_lot::MutexGuard<'_, Vec<Order>> {
    orders.lock()
}

/// Runs a client: it places one order after another until the stop flag is set.
async fn order_on(
    mut random: fastrand::Rng,
    client: usize,
    (token, callback): (String, String),
    (doors, orders, stop): (Doors, Orders, Arc<AtomicBool>),
) {
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        let mut order = Order::new(&mut random, &format!("c{client}n{number}"), &token, &callback);
        if let Some(door) = doors.any(&mut random) {
            // An unanswered request is repeated after the fault.
            if order.place(&door).await.is_ok() && random.bool() {
                let pause = Duration::from_millis(random.u64(0..300));
                tokio::time::sleep(pause).await;
                if let Some(door) = doors.any(&mut random) {
                    let _asked_again_later = order.cancel(&door).await;
                }
            }
        }
        lock(&orders).push(order);
        tokio::time::sleep(Duration::from_millis(random.u64(100..400))).await;
    }
}

/// Follows a run to its end. After every broken connection it continues after the last event.
async fn follow(doors: Doors, mut random: fastrand::Rng, id: String) -> Result<(String, Vec<Event>)> {
    let mut events: Vec<Event> = Vec::new();
    let deadline = Instant::now() + 3 * AFTERWARDS;
    while Instant::now() < deadline {
        if let Some(client) = doors.any(&mut random) {
            let last = events.last().map(|event| event.id);
            if let Ok(Ok(mut stream)) = timeout(IMPATIENCE, client.follow(&id, last)).await {
                while let Ok(Ok(next)) = timeout(2 * IMPATIENCE, stream.next()).await {
                    match next {
                        Next::Event(event) => events.push(event),
                        Next::Done(_) => return Ok((id, events)),
                        Next::Closed => break,
                    }
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("{id} was followed and did not end: {} events", events.len())
}
