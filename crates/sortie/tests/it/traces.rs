//! Traces of clients without a collector, and with one that is unreachable. `tests/peers/traces.rs` uses a real one.

use std::time::Instant;

use sortie_testkit::CallbackReceiver;

use crate::prelude::*;

both_databases![a_callback_carries_the_trace_of_its_client_on];

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn a_callback_carries_the_trace_of_its_client_on(database: Database) -> Checked {
    let receiver = CallbackReceiver::start("shared").await?;
    let node = node(database).await?;
    let request =
        json!({"prompt": "x", "shell": false, "callback": {"url": receiver.url(), "secret": "shared"}});
    let mut seen = Vec::new();
    for parent in [PARENT, "00-not-valid-01"] {
        let client = node
            .client()?
            .with_header("traceparent", parent)
            .with_header("tracestate", "a=1");
        let run = client.create_id(&request).await?;
        let delivered = receiver.wait_for(&run, 1).await?;
        let header = |name| {
            let value = delivered[0].headers.get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        seen.push((header("traceparent"), header("tracestate")));
    }
    let carried = (Some(PARENT.to_owned()), Some("a=1".to_owned()));
    assert_eq!(seen, [carried, (None, None)]);
    Ok(())
}

#[tokio::test]
async fn a_collector_that_is_away_holds_nothing_up_and_is_told_once() -> Checked {
    // The discard port: no server listens there.
    let options = NodeOptions::default().env("SORTIE_TRACES_ENDPOINT", "http://127.0.0.1:9");
    let mut node = node_with(Database::Sqlite, options).await?;
    for n in 0..20 {
        node.client()?.complete(&plain(&n.to_string())).await?;
    }
    let begun = Instant::now();
    node.stop().await?;
    ensure!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let told = node.log().matches("spans were lost").count();
    assert_eq!(told, 1, "{}", node.log());
    Ok(())
}

#[tokio::test]
async fn a_collector_that_hangs_is_not_waited_for_at_the_end() -> Checked {
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let endpoint = format!("http://{}", silent.local_addr()?);
    let options = NodeOptions::default().env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    let mut node = node_with(Database::Sqlite, options).await?;
    node.client()?.complete(&plain("x")).await?;
    let begun = Instant::now();
    node.stop().await?;
    ensure!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_with_the_settings_is_told_at_the_start() -> Checked {
    let node = node(Database::Sqlite).await?;
    for (name, value, rule) in rows! {
        "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "only http/protobuf is spoken";
        "OTEL_TRACES_SAMPLER", "sometimes", "traces.sampler (OTEL_TRACES_SAMPLER): must be";
        "OTEL_EXPORTER_OTLP_HEADERS", "hush", "traces.headers (OTEL_EXPORTER_OTLP_HEADERS): must be a list";
    } {
        let mut command = node.sortie(&["config", "check"]);
        command
            .env("SORTIE_TRACES_ENDPOINT", "http://127.0.0.1:4318")
            .env(name, value);
        let said = text(&exits(command, 78)?.stderr);
        ensure!(said.contains(rule) && !said.contains("hush"), "{said}");
    }
    Ok(())
}
