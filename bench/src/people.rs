//! A hosted node with people: memory, lookups of credentials, a flood of password attempts, and sign-ins during runs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use sortie_testkit::{Application, HostedNode, LogOnDrop, NodeOptions};
use tokio::{sync::watch, task::JoinSet, time::sleep};

use crate::{
    Bench,
    connection::Connection,
    load::{WARM_UP, per_second},
    memory::mebibytes,
    mixed::{Mix, Paced},
    process::{highest, private, resident},
    report::Report,
    samples::Samples,
};

/// Number of people who sign in concurrently in a flood.
const FLOOD: usize = 64;
/// Number of people who sign in concurrently during runs.
const SIGN_INS: usize = 16;
/// Number of clients for lookups of credentials.
const LOOK_UPS: usize = 16;
/// Pause between two requests of the client during the flood.
const PAUSE: Duration = Duration::from_millis(2);
/// Credits of an organization, in micros: enough for 20 million runs, each of which reserves a million.
const CREDITS: i64 = 20_000_000_000_000;
const PASSWORD: &str = "plum anchor violet 42";

/// A hosted node with an organization, and people with passwords.
struct Rig {
    node: HostedNode,
    /// Secret of an API key of the organization.
    key: String,
    /// Access token of an application.
    access: String,
    /// Session token of the owner.
    session: String,
    organization: String,
}

/// Measures everything about people. Memory comes first, while the node is still idle.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("people") {
        return Ok(());
    }
    let node = start(bench).await?;
    sleep(Duration::from_secs(3)).await;
    let idle = resident(&node.node)?;
    let name = "people: idle resident memory of a hosted node";
    report.add(name, mebibytes(idle)?);
    report.reach(name, in_mebibytes(idle)?);
    report.add(
        "… of it private on a hosted node, not code mapped from the binary",
        mebibytes(private(&node.node)?)?,
    );
    let mut rig = Rig::new(node).await?;
    look_ups(&rig, bench.seconds, report).await?;
    flood(&rig, bench.seconds, idle, report).await?;
    beside_runs(&mut rig, bench.seconds, report).await
}

async fn start(bench: &Bench) -> Result<HostedNode> {
    // The receiver of callbacks is on this machine.
    let options = NodeOptions::default().env("SORTIE_PRIVATE_ADDRESSES", "callbacks");
    start_with(bench, options).await
}

/// Starts a hosted node with options, on an empty database.
pub(crate) async fn start_with(bench: &Bench, options: NodeOptions) -> Result<HostedNode> {
    let records = bench.database.fresh().await?;
    HostedNode::on(&bench.binary, records, on_this_machine(options)).await
}

/// Returns the options of a hosted node whose clients are all on this machine.
pub(crate) fn on_this_machine(options: NodeOptions) -> NodeOptions {
    NodeOptions {
        log: LogOnDrop::Forget,
        ..options
    }
    .env("SORTIE_LOG_FILTER", "warn,sortie::commands::serve=info")
    // Disables limits by network: all clients share one, and those that sign up each claim another.
    .env("SORTIE_ANONYMOUS_RATE_LIMIT_PER_MINUTE", "10000000")
    .env("SORTIE_TRUSTED_PROXIES", "127.0.0.1")
    .env("SORTIE_ORGANIZATION_CONCURRENCY", "1000")
}

fn in_mebibytes(bytes: u64) -> Result<f64> {
    Ok(f64::from(u32::try_from(bytes / 1_024)?) / 1_024.0)
}

fn email(nth: usize) -> String {
    format!("person{nth}@example.com")
}

/// Signs a person up from a separate network. Returns the session token.
pub(crate) async fn sign_up(node: &HostedNode, nth: usize) -> Result<String> {
    let network = HeaderValue::try_from(format!("10.0.{}.{}", nth / 256, nth % 256))?;
    let body = json!({"email": email(nth), "password": PASSWORD, "name": "Person"});
    let client = node.anybody().with_header("x-forwarded-for", network);
    let made = client.post("/v1/auth/signup", &body).await?.expect(201)?;
    text(&made.json()?, "token")
}

/// Returns the text of a field in a response.
pub(crate) fn text(value: &Value, name: &str) -> Result<String> {
    let text = value[name].as_str();
    Ok(text.with_context(|| format!("no {name} in {value}"))?.to_owned())
}

/// Creates an organization with credits. Returns its id, and the secret of an API key.
pub(crate) async fn organization(node: &HostedNode, session: &str) -> Result<(String, String)> {
    let owner = node.client(session);
    let made = owner.post("/v1/organizations", &json!({"name": "bench"})).await?;
    let organization = text(&made.expect(201)?.json()?, "id")?;
    node.give_credits(&organization, CREDITS).await?;
    let keys = format!("/v1/organizations/{organization}/keys");
    let key = json!({"name": "bench", "role": "admin"});
    let made = owner.post(&keys, &key).await?.expect(201)?.json()?;
    let key = text(&made, "key")?;
    Ok((organization, key))
}

impl Rig {
    async fn new(node: HostedNode) -> Result<Self> {
        let session = sign_up(&node, 0).await?;
        for nth in 1..FLOOD {
            sign_up(&node, nth).await?;
        }
        let (organization, key) = organization(&node, &session).await?;
        let registered = node
            .anybody()
            .post("/oauth/register", &Application::metadata())
            .await?;
        let application = Application::registered(registered)?;
        let access = application.tokens(&node, &session, &organization).await?.access;
        Ok(Self {
            node,
            key,
            access,
            session,
            organization,
        })
    }
}

/// Measures requests per second with each kind of credential.
async fn look_ups(rig: &Rig, seconds: u64, report: &mut Report) -> Result<()> {
    for kind in [
        LookUp::Key,
        LookUp::AccessToken,
        LookUp::Session,
        // Repeated, because the machine may have changed in between.
        LookUp::KeyAgain,
    ] {
        let rate = look_ups_of(rig, kind, seconds).await?;
        report.add(
            format!("people: GET /v1/me with {}, {LOOK_UPS} at once", kind.name()),
            format!("{rate:.0}/s"),
        );
    }
    Ok(())
}

/// Kind of credential to look up.
#[derive(Clone, Copy)]
enum LookUp {
    Key,
    AccessToken,
    Session,
    KeyAgain,
}

impl LookUp {
    const fn name(self) -> &'static str {
        match self {
            Self::Key => "an API key",
            Self::AccessToken => "an access token",
            Self::Session => "a session, below /engine",
            Self::KeyAgain => "an API key again",
        }
    }

    /// Returns a connection with the credential, and the path to request.
    fn of(self, rig: &Rig) -> Result<(Connection, String)> {
        let (engine, org) = (rig.node.node.address()?, rig.node.org_address);
        let path = "/v1/me".to_owned();
        Ok(match self {
            Self::Key | Self::KeyAgain => (Connection::at(engine, &rig.key), path),
            Self::AccessToken => (Connection::at(engine, &rig.access), path),
            Self::Session => (
                Connection::with_cookie(org, &rig.session),
                format!("/engine/{}{path}", rig.organization),
            ),
        })
    }
}

async fn look_ups_of(rig: &Rig, kind: LookUp, seconds: u64) -> Result<f64> {
    let from = Instant::now() + WARM_UP;
    let to = from + Duration::from_secs(seconds);
    let mut clients = JoinSet::new();
    for _ in 0..LOOK_UPS {
        let (mut connection, path) = kind.of(rig)?;
        clients.spawn(async move {
            let mut count = 0;
            while Instant::now() < to {
                let begun = Instant::now();
                let _: Value = connection.call(Method::GET, &path, Bytes::new(), 200).await?;
                count += usize::from(begun >= from);
            }
            Ok::<_, anyhow::Error>(count)
        });
    }
    let mut count = 0;
    while let Some(client) = clients.join_next().await {
        count += client??;
    }
    per_second(count, seconds)
}

/// Concurrent sign-ins of several people, until they are stopped.
struct SignIns {
    stop: watch::Sender<bool>,
    clients: JoinSet<Result<(Samples, usize)>>,
    begun: Instant,
}

impl SignIns {
    fn begin(rig: &Rig, people: usize) -> Self {
        let stop = watch::Sender::new(false);
        let mut clients = JoinSet::new();
        for nth in 0..people {
            let connection = Connection::of_anybody(rig.node.org_address);
            clients.spawn(sign_in_until(connection, nth, stop.subscribe()));
        }
        Self {
            stop,
            clients,
            begun: Instant::now(),
        }
    }

    /// Stops them. Returns the sign-ins per second, their times, and the number of refusals.
    async fn end(mut self) -> Result<(f64, Samples, usize)> {
        self.stop.send_replace(true);
        let lasted = self.begun.elapsed().as_secs_f64();
        let (mut all, mut refused) = (Samples::default(), 0);
        while let Some(client) = self.clients.join_next().await {
            let (samples, times) = client??;
            all.extend(samples);
            refused += times;
        }
        Ok((f64::from(u32::try_from(all.len())?) / lasted, all, refused))
    }
}

async fn sign_in_until(
    mut connection: Connection,
    nth: usize,
    stop: watch::Receiver<bool>,
) -> Result<(Samples, usize)> {
    let body = Bytes::from(json!({"email": email(nth), "password": PASSWORD}).to_string());
    let (mut samples, mut refused) = (Samples::default(), 0);
    while !*stop.borrow() {
        let begun = Instant::now();
        let answer = connection
            .send(Method::POST, "/v1/auth/login", body.clone())
            .await?;
        let status = answer.status();
        let text = answer.into_body().collect().await?.to_bytes();
        match status {
            StatusCode::OK => samples.add(begun.elapsed()),
            StatusCode::SERVICE_UNAVAILABLE => refused += 1,
            _ => anyhow::bail!("{status} {}", String::from_utf8_lossy(&text)),
        }
    }
    Ok((samples, refused))
}

/// Measures a client of the engine API, first alone and then during many sign-ins.
async fn flood(rig: &Rig, seconds: u64, idle: u64, report: &mut Report) -> Result<()> {
    let lasts = Duration::from_secs(seconds);
    let alone = requests_for(rig, lasts).await?;
    report.add("people: GET /v1/me alone, p50 / p99", alone.to_string());
    let flood = SignIns::begin(rig, FLOOD);
    sleep(WARM_UP).await;
    let beside = requests_for(rig, lasts).await?;
    let (rate, times, refused) = flood.end().await?;
    report.add(
        format!("people: GET /v1/me beside {FLOOD} clients that sign in, p50 / p99"),
        beside.to_string(),
    );
    report.reach(
        format!("people: GET /v1/me beside {FLOOD} clients that sign in, p99"),
        beside.percentile(99).as_secs_f64(),
    );
    report.add(
        format!("… sign-ins of {FLOOD} clients; p50 / p99; refused with 503"),
        format!("{rate:.1}/s; {times}; {refused}"),
    );
    let taken = highest(&rig.node.node)?.saturating_sub(idle);
    let name = format!("people: memory that {FLOOD} clients that sign in take");
    report.add(name.clone(), mebibytes(taken)?);
    report.reach(name, in_mebibytes(taken)?);
    Ok(())
}

async fn requests_for(rig: &Rig, lasts: Duration) -> Result<Samples> {
    let mut connection = Connection::at(rig.node.node.address()?, &rig.key);
    let (mut samples, end) = (Samples::default(), Instant::now() + lasts);
    while Instant::now() < end {
        let begun = Instant::now();
        let _: Value = connection.call(Method::GET, "/v1/me", Bytes::new(), 200).await?;
        samples.add(begun.elapsed());
        sleep(PAUSE).await;
    }
    Ok(samples)
}

/// Measures runs at half of the capacity, alone and during sign-ins.
async fn beside_runs(rig: &mut Rig, seconds: u64, report: &mut Report) -> Result<()> {
    rig.node.node.set_key(&rig.key);
    let (mix, nodes) = (Mix::start().await?, [&rig.node.node]);
    let capacity = mix.capacity(&nodes, seconds).await?;
    report.add("people: mixed work, 32 at once", format!("{capacity:.0} runs/s"));
    let alone = half(&mix, rig, capacity, seconds).await?;
    let sign_ins = SignIns::begin(rig, SIGN_INS);
    let beside = half(&mix, rig, capacity, seconds).await?;
    let (rate, times, refused) = sign_ins.end().await?;
    ensure!(refused == 0, "{refused} sign-ins were refused");
    let name = "people: sign-ins beside runs at half load";
    report.add(
        format!("{name}, {SIGN_INS} at once; p50 / p99"),
        format!("{rate:.1}/s; {times}"),
    );
    report.reach(name, rate);
    let lost = (1.0 - beside / alone).max(0.0);
    let name = "people: runs at half load that sign-ins cost";
    report.add(
        name,
        format!("{beside:.0}/s of {alone:.0}/s: {:.1} %", 100.0 * lost),
    );
    report.reach(name, lost);
    let sign_ins = SignIns::begin(rig, SIGN_INS);
    let full = mix.capacity(&nodes, seconds).await?;
    let (rate, _, _) = sign_ins.end().await?;
    report.add(
        "people: mixed work, 32 at once, beside sign-ins",
        format!("{full:.0} runs/s and {rate:.1} sign-ins/s"),
    );
    Ok(())
}

/// Starts runs at half of the capacity for this time. Returns the number per second until the last one is done.
async fn half(mix: &Mix, rig: &Rig, capacity: f64, seconds: u64) -> Result<f64> {
    let paced = Paced::on(&[&rig.node.node]);
    paced.run(mix, capacity / 2.0, Duration::from_secs(1)).await?;
    let before = crate::mixed::lock(&paced.state).done;
    let begun = Instant::now();
    paced
        .run(mix, capacity / 2.0, Duration::from_secs(seconds))
        .await?;
    let done = crate::mixed::lock(&paced.state).done - before;
    Ok(f64::from(u32::try_from(done)?) / begun.elapsed().as_secs_f64())
}
