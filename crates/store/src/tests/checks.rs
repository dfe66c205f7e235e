use sortie_testkit::postgres::TestDatabase;

use super::prelude::*;
use crate::installation::Backlog;

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

    async fn what_waits_longest_is_found_in_every_organization(fixture: &Fixture, store: &Store) {
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

    async fn nodes_that_are_gone_are_told(fixture: &Fixture, store: &Store, org: OrgId, node: NodeId) {
        fixture.running(org, node).await;
        let later = fixture.now() + Duration::from_hours(2);
        let backlog = store.backlog(later, 10).await.unwrap();
        assert_eq!((backlog.silent_nodes, backlog.lost_nodes), (1, 0));
        store.deregister_node(node, later).await.unwrap();
        let backlog = store.backlog(later, 10).await.unwrap();
        assert_eq!((backlog.silent_nodes, backlog.lost_nodes), (0, 1));
    }
}

/// A look migrates nothing, whether or not the database is this version's.
async fn looked_at(database: &TestDatabase) {
    let url = database.url();
    let migrations = "SELECT COUNT(*) AS many FROM migration";
    let before = Store::inspect(url).await.unwrap();
    assert_eq!(before.migration, 0, "{before:?}");
    assert!(database.rows(migrations).await.is_err(), "it has no tables");

    drop(Store::open(url).await.unwrap());
    let opened = Store::inspect(url).await.unwrap();
    assert_eq!(opened.migration, opened.known_migration);

    for (change, migration) in [
        (
            format!("DELETE FROM migration WHERE version = {}", opened.migration),
            opened.migration - 1,
        ),
        (
            "INSERT INTO migration (version, name, checksum) VALUES (1000000, 'later', 'x')".to_owned(),
            1_000_000,
        ),
    ] {
        database.change(&change).await.unwrap();
        let looked_at = Store::inspect(url).await.unwrap();
        assert_eq!(looked_at.migration, migration);
        let rows = database
            .rows("SELECT COALESCE(MAX(version), 0) AS newest FROM migration")
            .await
            .unwrap();
        assert_eq!(rows[0]["newest"], migration);
    }
}

#[tokio::test]
async fn a_sqlite_database_is_looked_at_without_a_migration() {
    let database = TestDatabase::sqlite().unwrap();
    let path = database.url().strip_prefix("sqlite:").unwrap();
    assert!(Store::inspect(database.url()).await.is_err());
    assert!(!std::path::Path::new(path).exists(), "a look makes no database");
    std::fs::write(path, "").unwrap();
    looked_at(&database).await;
}

#[tokio::test]
async fn a_postgres_database_is_looked_at_without_a_migration() {
    looked_at(&TestDatabase::postgres().await.unwrap()).await;
}
