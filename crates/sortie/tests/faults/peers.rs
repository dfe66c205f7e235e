//! Faults of a node's peers: the model's provider, the receiver of callbacks, the store of files.

use sortie_testkit::{
    Gateway, GatewayFault, Passage,
    http::StatusCode,
    processes,
    s3::{BUCKET, S3},
};

use crate::{
    model::{FLOOD, Mood},
    prelude::*,
};

both_databases![
    the_provider_of_models_hangs_floods_and_flaps,
    the_receiver_of_callbacks_is_away,
    the_store_of_files_fails_and_is_slow,
];

/// Silence after which a provider's call fails here, in seconds: shorter than the provider hangs.
const SILENCE: &str = "1";
/// Memory that a node may use during a flood, in addition to its memory before.
const FLOOD_BYTES: u64 = 512 << 20;

async fn the_provider_of_models_hangs_floods_and_flaps(database: Database) -> Checked {
    let setup = Setup {
        environment: vec![("SORTIE_MODEL_SILENCE_SECONDS".to_owned(), SILENCE.to_owned())],
        ..Setup::default()
    };
    let (mut world, mut load) = begin(database, "the_provider_of_models", setup).await?;
    let mut moods = [Mood::Hangs, Mood::Flaps, Mood::Floods, Mood::OneLine];
    world.random.shuffle(&mut moods);
    for mood in moods {
        load.follow();
        // A provider hangs for longer than its timeout.
        let lasts = match mood {
            Mood::Hangs => world.moment(2_000..4_000),
            Mood::Well | Mood::Flaps | Mood::Floods | Mood::OneLine => world.moment(1_000..2_500),
        };
        println!("{mood:?} for {lasts:?}");
        world.model.set(mood);
        tokio::time::sleep(lasts).await;
        if mood == Mood::Hangs {
            // The test closes no connection: the node timed out.
            let look = async || Ok(world.model.given_up());
            until("an abandoned call", look, |count| *count > 0).await?;
        }
        world.model.set(Mood::Well);
        let passage = if world.random.bool() {
            Passage::Refused
        } else {
            Passage::Slow(Duration::from_millis(50))
        };
        world.model_proxy.set(passage);
        let lasts = world.moment(200..700);
        tokio::time::sleep(lasts).await;
        world.model_proxy.set(Passage::Open);
        world.model_proxy.cut(2);
    }
    for (pid, before) in &world.levels {
        let peak = processes::in_use(*pid)?.peak;
        ensure!(peak <= before.memory + FLOOD_BYTES, "a flood took {peak} bytes");
    }
    let (asked, answered) = world.model.counts();
    let given_up = world.model.given_up();
    println!("{asked} model calls, {answered} answered well, {given_up} given up");
    // For some runs five attempts are not enough during these seconds, and a flood may use up a budget.
    let excuse = Excuse {
        failures: &["provider", "budget", "is larger than"],
        cut_answer: Some(FLOOD),
        ..Excuse::default()
    };
    end(world, load, excuse).await
}

async fn the_receiver_of_callbacks_is_away(database: Database) -> Checked {
    let (mut world, mut load) = begin(database, "the_receiver_of_callbacks", Setup::default()).await?;
    for passage in [Passage::Refused, Passage::Deaf, Passage::Swallowed] {
        let pause = world.moment(300..1_500);
        tokio::time::sleep(pause).await;
        load.follow();
        let lasts = world.moment(800..2_500);
        println!("{passage:?} for {lasts:?}");
        world.receiver_proxy.set(passage);
        tokio::time::sleep(lasts).await;
        world.receiver_proxy.set(Passage::Open);
        world.receiver_proxy.cut(1);
    }
    // Answers with failures, and one from a receiver that has accepted the delivery anyway.
    world.receiver.answer_with([StatusCode::INTERNAL_SERVER_ERROR; 3]);
    end(world, load, Excuse::default()).await
}

async fn the_store_of_files_fails_and_is_slow(database: Database) -> Checked {
    let store = S3::start().await?;
    let gateway = Gateway::start(store.address()).await?;
    let mut environment: Vec<(String, String)> = store
        .variables()
        .map(|(name, value)| (name.to_owned(), value))
        .into();
    environment.retain(|(name, _)| name != "AWS_ENDPOINT_URL");
    environment.push(("AWS_ENDPOINT_URL".to_owned(), gateway.base_url()));
    let setup = Setup {
        environment,
        blob_url: Some(format!("s3://{BUCKET}/faults")),
        ..Setup::default()
    };
    let (mut world, mut load) = begin(database, "the_store_of_files", setup).await?;
    let faults = [
        GatewayFault::Fails(StatusCode::INTERNAL_SERVER_ERROR),
        GatewayFault::Fails(StatusCode::SERVICE_UNAVAILABLE),
        GatewayFault::Late(Duration::from_millis(700)),
        GatewayFault::Breaks,
        GatewayFault::AnswerLost,
        GatewayFault::Hangs,
        GatewayFault::None,
        GatewayFault::None,
    ];
    for _ in 0..2 {
        let pause = world.moment(300..1_200);
        tokio::time::sleep(pause).await;
        load.follow();
        let mut faults = faults;
        world.random.shuffle(&mut faults);
        gateway.set(faults);
        let lasts = world.moment(2_000..4_000);
        tokio::time::sleep(lasts).await;
        // Nothing works for a moment.
        gateway.set([GatewayFault::Fails(StatusCode::SERVICE_UNAVAILABLE)]);
        let lasts = world.moment(500..2_000);
        tokio::time::sleep(lasts).await;
        gateway.set([]);
    }
    ensure!(gateway.faulted() > 0, "nothing was asked of the store");
    println!("{} requests to the store were faulty", gateway.faulted());
    end(world, load, Excuse::default()).await
}
