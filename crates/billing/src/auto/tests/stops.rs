//! Stop of a node while Stripe does not respond.

use std::time::Duration;

use sortie_testkit::{
    Checked, Database, both_databases,
    stripe::{Call, Card, Fault},
};
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{BOUGHT, Rig};

both_databases! {
    a_node_stops_at_once_while_stripe_is_silent,
}

async fn a_node_stops_at_once_while_stripe_is_silent(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.enable(Card::Good).await;
    // Both tasks wait: one for a charge, the other for the list of events.
    for call in [Call::CreateIntent, Call::ListEvents] {
        rig.double.fail(call, 1, Fault::HeldBefore);
    }
    let (stop, billing) = (CancellationToken::new(), rig.billing.clone());
    let mut node = JoinSet::new();
    node.spawn({
        let stop = stop.clone();
        async move { billing.run(stop).await }
    });
    for call in [Call::CreateIntent, Call::ListEvents] {
        rig.double.wait_for_requests(call, 1).await?;
    }
    stop.cancel();
    // A request would take ten seconds.
    timeout(Duration::from_secs(5), node.join_all()).await?;
    rig.double.release();
    // Another node finishes the purchase.
    rig.work_for(Duration::from_mins(3)).await;
    assert_eq!(
        (rig.states().await, rig.balance().await),
        (vec!["paid".to_owned()], BOUGHT)
    );
    rig.check("stopped").await;
    Ok(())
}
