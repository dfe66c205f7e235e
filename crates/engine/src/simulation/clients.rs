//! Clients: they create runs, cancel them and read their outputs, through any node. Some disconnect early.

use std::time::Duration;

use fastrand::Rng;
use serde_json::json;
use sortie_api::{ErrorCode, Run, RunId, RunRequest, RunStatus};
use sortie_store::runs::Created;
use tokio::time::{Instant, sleep, timeout};

use super::world::World;
use crate::cluster::peers::Hop;

/// Pause of a client after a 503 response.
const PAUSE: Duration = Duration::from_millis(400);

/// A run that a client wants.
struct Wants {
    key: Option<String>,
    is_unretained: bool,
    output: String,
    request: RunRequest,
    /// Time after which the client cancels the run, if it does.
    cancels: Option<Duration>,
    /// Time after which the client disconnects while it waits for the response to its create, if it does.
    leaves: Option<Duration>,
}

impl Wants {
    fn draw(rng: &mut Rng, number: usize) -> Self {
        let is_unretained = rng.bool();
        let output = format!("output {number}");
        let mut prompt = String::new();
        for effect in 0..rng.u32(0..4) {
            let (waits, takes) = (rng.u32(0..4_000), rng.u32(0..900));
            let blocks = [
                format!("```wait {waits}\n```\n"),
                format!("```tool effect\n{{\"number\": {effect}, \"takes_ms\": {takes}}}\n```\n"),
            ];
            prompt.extend(blocks);
        }
        let waits = rng.u32(0..5_000);
        prompt.extend([format!("```wait {waits}\n```\n```answer\n{output}\n```\n")]);
        let request = json!({
            "prompt": prompt,
            "shell": false,
            "zero_data_retention": is_unretained,
            "max_cost_micros": 1_000_000,
            "timeout_seconds": rng.u32(20..60),
        });
        Self {
            key: (rng.u32(0..5) > 0).then(|| format!("key-{number}")),
            is_unretained,
            output,
            request: serde_json::from_value(request).expect("the request is valid"),
            cancels: (rng.u32(0..5) == 0).then(|| Duration::from_millis(rng.u64(0..6_000))),
            leaves: (rng.u32(0..4) == 0).then(|| Duration::from_millis(rng.u64(0..1_500))),
        }
    }
}

/// A client from its create to the end of its run.
pub(super) async fn client(world: World, seed: u64, number: usize, node: Option<usize>) {
    let mut rng = Rng::with_seed(seed);
    let mut wants = Wants::draw(&mut rng, number);
    if node.is_some() {
        // This client is part of a burst.
        wants.key = Some(format!("key-{number}"));
        wants.cancels = None;
        wants.request.prompt = Some(wants.output.clone());
    } else {
        let busy = u64::try_from(world.plan().busy.as_millis()).unwrap_or(1);
        sleep(Duration::from_millis(rng.u64(0..busy))).await;
    }
    let Some(run) = create(&world, &mut rng, &wants, node).await else {
        return;
    };
    if let Some(after) = wants.cancels {
        sleep(after).await;
        cancel(&world, &mut rng, run).await;
    }
    read(&world, &mut rng, &wants, run).await;
}

/// Creates a run. Repeats the request if the answer was lost.
async fn create(world: &World, rng: &mut Rng, wants: &Wants, node: Option<usize>) -> Option<RunId> {
    let (witness, caller) = (world.witness().clone(), world.caller());
    loop {
        let node = node.unwrap_or_else(|| rng.usize(0..world.plan().nodes));
        if let Some(process) = world.process(node) {
            let create = process
                .engine
                .create_run(&caller, wants.request.clone(), wants.key.clone());
            // A client sees that its connection fails when its node dies.
            let patience = wants.leaves.unwrap_or(Duration::from_secs(40));
            match timeout(patience, create).await {
                Ok(Ok(Created::New(run) | Created::Existing(run))) => {
                    witness.created(wants.key.as_deref(), run.id);
                    witness.told(run.id, run.status);
                    return Some(run.id);
                }
                Ok(Err(error)) if error.code == ErrorCode::Unavailable => {}
                Ok(Err(error)) => {
                    witness.breaks(format_args!("a create is answered with: {error}"));
                    return None;
                }
                // The client has disconnected and does not retry.
                Err(_elapsed) if wants.leaves.is_some() => return None,
                Err(_elapsed) => {}
            }
            // Without a key, a retry could create a second run.
            wants.key.as_ref()?;
        }
        sleep(PAUSE).await;
    }
}

async fn cancel(world: &World, rng: &mut Rng, run: RunId) {
    let caller = world.caller();
    for _ in 0..20 {
        let node = rng.usize(0..world.plan().nodes);
        if let Some(process) = world.process(node) {
            let cancelled = timeout(
                Duration::from_secs(20),
                process.engine.cancel_run(caller.org, run),
            )
            .await;
            match cancelled {
                Ok(Ok(cancelled)) => {
                    world.witness().told(cancelled.run.id, cancelled.run.status);
                    return;
                }
                Ok(Err(error)) if error.code != ErrorCode::Unavailable => {
                    world
                        .witness()
                        .breaks(format_args!("a cancel of {run} is answered with: {error}"));
                    return;
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
        sleep(PAUSE).await;
    }
}

/// Waits for the end of the run, and reads its output if it is not retained.
async fn read(world: &World, rng: &mut Rng, wants: &Wants, run: RunId) {
    let holder = world.holder(run);
    let since = Instant::now();
    loop {
        if let Some(got) = get(world, rng, run).await {
            world.witness().told(run, got.status);
            if got.status.is_final() {
                judge(world, wants, &got, holder);
                return;
            }
        }
        if since.elapsed() > Duration::from_mins(5) {
            world.witness().breaks(format_args!("{run} does not end"));
            return;
        }
        sleep(PAUSE).await;
    }
}

async fn get(world: &World, rng: &mut Rng, run: RunId) -> Option<Run> {
    let node = match world.holder(run) {
        Some(number) => world.node_of(number)?,
        None => rng.usize(0..world.plan().nodes),
    };
    let process = world.process(node)?;
    let caller = world.caller();
    let wait = Duration::from_millis(rng.u64(0..3_000));
    let leaves = (rng.u32(0..6) == 0).then(|| Duration::from_millis(rng.u64(0..3_000)));
    let get = process.engine.get_run(&caller, run, wait, Hop::Second);
    match timeout(leaves.unwrap_or(Duration::from_mins(1)), get).await {
        Ok(Ok(listed)) => Some(listed.run),
        Ok(Err(error)) if error.code == ErrorCode::Unavailable => None,
        Ok(Err(error)) => {
            world
                .witness()
                .breaks(format_args!("a GET of {run} is answered with: {error}"));
            None
        }
        // The client disconnects while it waits, and then retries.
        Err(_elapsed) => None,
    }
}

/// Checks the output of a run in a terminal status.
fn judge(world: &World, wants: &Wants, run: &Run, holder: Option<usize>) {
    if !wants.is_unretained {
        if run.status == RunStatus::Succeeded && run.output.as_deref() != Some(&wants.output) {
            world
                .witness()
                .breaks(format_args!("{} has the output of another run", run.id));
        }
        return;
    }
    let Some(number) = holder.filter(|number| world.is_alive(*number)) else {
        return;
    };
    // An active run ends with the lease of its node.
    if run.status == RunStatus::Interrupted && world.was_never_lost(number) {
        world.witness().breaks(format_args!(
            "{} is interrupted, and the process that has its content is alive",
            run.id
        ));
    }
    if run.status == RunStatus::Succeeded && run.output.as_deref() != Some(&wants.output) {
        world.witness().breaks(format_args!(
            "the output of {} is lost, and its process is alive",
            run.id
        ));
    }
}
