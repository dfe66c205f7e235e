use std::time::Duration;

use super::both;
use crate::{Backlog, db::Dialect};

both! {
    async fn a_database_says_what_it_is(fixture: &Fixture) {
        let info = fixture.store.database_info().await.unwrap();
        let kind = match fixture.dialect() {
            Dialect::Sqlite => "SQLite",
            Dialect::Postgres => "PostgreSQL",
        };
        assert_eq!(info.kind, kind);
        assert!(info.version.starts_with(|first: char| first.is_ascii_digit()), "{info:?}");
        assert_eq!(info.migration, info.known_migration);
    }

    async fn what_waits_longest_is_found_in_every_organization(fixture: &Fixture) {
        let store = &fixture.store;
        assert_eq!(store.backlog(fixture.now(), 10).await.unwrap(), Backlog::default());
        let (first, second) = (fixture.org().await, fixture.org().await);
        let oldest = fixture.new_run(second);
        store.create_run(oldest.clone()).await.unwrap();
        for org in [first, first, second] {
            fixture.queued(org).await;
        }
        let backlog = store.backlog(fixture.now(), 10).await.unwrap();
        assert_eq!((backlog.waiting, backlog.waiting_since), (4, Some(oldest.created_at)));
        assert_eq!(store.backlog(fixture.now(), 3).await.unwrap().waiting, 3);
    }

    async fn nodes_that_are_gone_are_told(fixture: &Fixture) {
        let store = &fixture.store;
        let (org, node) = (fixture.org().await, fixture.node().await);
        fixture.running(org, node).await;
        let later = fixture.now() + Duration::from_hours(2);
        let backlog = store.backlog(later, 10).await.unwrap();
        assert_eq!((backlog.silent_nodes, backlog.lost_nodes), (1, 0));
        store.deregister_node(node, later).await.unwrap();
        let backlog = store.backlog(later, 10).await.unwrap();
        assert_eq!((backlog.silent_nodes, backlog.lost_nodes), (0, 1));
    }
}
