//! Commands of connections, for the query plans.

use std::time::Duration;

use sortie_api::{ConnectionStatus, OrgId};

use crate::{
    connections::{OldTokens, RefreshHolder, SeenTokens},
    runs::InlineCredentials,
    tests::fixture::Fixture,
};

/// Runs every command of connections.
pub(super) async fn use_connections(fixture: &Fixture, org: OrgId) {
    let store = &fixture.store;
    let new = fixture.connection(org, "a").await;
    let flow = Fixture::flow(&new, 1);
    store
        .begin_authorization(flow.clone(), new.at, fixture.audit(org))
        .await
        .unwrap();
    store.take_authorization(flow.state_hash, new.at).await.unwrap();
    fixture.consented(&new, 2).await;
    store.try_confirmation(org, new.id, new.at).await.unwrap();
    store
        .refuse_confirmation(org, new.id, fixture.audit(org))
        .await
        .unwrap();
    store
        .save_authorization(Fixture::confirmed(&new, 2, b"x"), fixture.audit(org))
        .await
        .unwrap();
    store.organization_name(org).await.unwrap();
    store.forget_flows(new.at).await.unwrap();
    let failed = store.record_failed_authorization(org, (new.id, 1), "x".to_owned(), fixture.audit(org));
    assert!(failed.await.unwrap());
    let seen = SeenTokens {
        org,
        connection: new.id,
        version: 1,
    };
    let holder = RefreshHolder(1);
    let leased = store.lease_refresh(seen, holder, new.at, Duration::ZERO);
    assert!(leased.await.unwrap());
    store.release_refresh(seen, holder).await.unwrap();
    assert!(store.save_refreshed(seen, b"y".to_vec()).await.unwrap());
    store
        .drop_refused(SeenTokens { version: 2, ..seen }, "x".to_owned())
        .await
        .unwrap();
    store
        .set_connection_status(seen, 1, ConnectionStatus::Error, None)
        .await
        .unwrap();
    let kept = store.keep_challenge(
        SeenTokens { version: 3, ..seen },
        1,
        b"c".to_vec(),
        Some("x".to_owned()),
    );
    assert!(kept.await.unwrap());
    store
        .replace_connection(new.clone(), 1, OldTokens::Keep, fixture.audit(org))
        .await
        .unwrap();
    store
        .replace_connection(new.clone(), 2, OldTokens::Drop, fixture.audit(org))
        .await
        .unwrap();
    store.get_connection(org, "a").await.unwrap();
    store.listed_connection(org, "a").await.unwrap();
    store.connection_by_id(org, new.id).await.unwrap();
    store.list_connections(org, String::new(), 10).await.unwrap();
    store.connections_named(org, vec!["a".to_owned()]).await.unwrap();
    store
        .delete_connection(org, "a", fixture.audit(org))
        .await
        .unwrap();
    let mut run = fixture.new_run(org);
    run.inline = Some(InlineCredentials {
        sealed: b"x".to_vec(),
        names: "[]".to_owned(),
    });
    store.create_run(run.clone()).await.unwrap();
    store.run_secrets(run.id).await.unwrap();
    store.seal_check(b"x".to_vec()).await.unwrap();
    store.installation_seed([1; 32]).await.unwrap();
}
