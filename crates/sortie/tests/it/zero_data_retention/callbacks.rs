//! `docs/ZERO-DATA-RETENTION.md#reading-it`: with a callback, the output goes to its receiver only.

use sortie_api::Run;
use sortie_testkit::callback::CallbackReceiver;

use super::{held, nodes::two, unretained, waiting};
use crate::prelude::*;

both_databases![the_receiver_gets_the_output_and_a_read_leaves_it_in_place];

fn to(receiver: &CallbackReceiver, mut request: Value) -> Value {
    request["callback"] = json!({"url": receiver.url(), "secret": "shared"});
    request
}

async fn the_receiver_gets_the_output_and_a_read_leaves_it_in_place(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let receiver = CallbackReceiver::start("shared").await?;
    receiver.hold();
    let (_, done) = client
        .complete(&to(&receiver, unretained("for the receiver")))
        .await?;
    let id = done.id.to_string();
    for _ in 0..2 {
        assert_eq!(held(&client.run(&id).await?), (None, Some(true), true));
    }
    receiver.release();
    let delivery = receiver.wait_for(&id, 1).await?.remove(0);
    ensure!(delivery.refused.is_none(), "{delivery:?}");
    assert_eq!(delivery.body["output"], "for the receiver");
    assert_eq!(delivery.body["status"], "succeeded");
    let is_free = |run: &Run| held(run) == (None, Some(false), false);
    let delivered = until("the receiver's answer", async || client.run(&id).await, is_free).await?;
    ensure!(delivered.output_read_at > delivered.finished_at, "{delivered:?}");
    // Sent again, it is without the output.
    client
        .post(&format!("/v1/runs/{id}/deliveries"), &json!({}))
        .await?;
    let again = receiver.wait_for(&id, 2).await?.remove(1);
    ensure!(again.body.get("output").is_none(), "{again:?}");
    Ok(())
}

#[tokio::test]
async fn only_the_node_that_has_the_output_delivers_it_and_without_it_another_does() -> Checked {
    let (mut first, second) = two().await?;
    let receiver = CallbackReceiver::start("shared").await?;
    for (n, node) in [&first, &second, &first, &second].into_iter().enumerate() {
        let output = format!("output {n}");
        let run = node.client()?.create(&to(&receiver, unretained(&output))).await?;
        let delivery = receiver.wait_for(&run.id.to_string(), 1).await?.remove(0);
        assert_eq!(delivery.body["output"], output.as_str());
    }
    let client = first.client()?;
    let id = client.create_id(&to(&receiver, waiting())).await?;
    client.until_running(&id).await?;
    first.kill()?;
    let delivery = receiver.wait_for(&id, 1).await?.remove(0);
    assert_eq!(delivery.body["status"], "interrupted");
    ensure!(delivery.body.get("output").is_none(), "{delivery:?}");
    Ok(())
}
