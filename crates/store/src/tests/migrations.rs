//! Migrations of a newer version on a database that nodes of an older version use.

use serde_json::json;
use sortie_testkit::postgres::TestDatabase;

use super::prelude::*;

/// Lists every table except the one that records the migrations.
async fn tables(fixture: &Fixture) -> Vec<String> {
    let sql = match fixture.dialect() {
        Dialect::Sqlite => {
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' \
             AND name <> 'migration'"
        }
        Dialect::Postgres => {
            "SELECT CAST(table_name AS TEXT) FROM information_schema.tables \
             WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND table_name <> 'migration'"
        }
    };
    let rows = fixture.store.db.read(move |tx| tx.query_all(sql, vals![])).await;
    let rows = rows.unwrap();
    rows.iter().map(|row| row.text(0).unwrap().to_owned()).collect()
}

/// Expands every table as a later version may: new columns, an index and a new table. `docs/STORAGE.md` has the rules.
async fn expand(fixture: &Fixture) {
    let tables = tables(fixture).await;
    assert!(tables.len() > 20, "{tables:?}");
    fixture
        .store
        .db
        .write(move |tx: &mut dyn Tx| {
            for table in &tables {
                // The text is leaked, because the store identifies a statement by its address.
                let text = |sql: String| -> &'static str { Box::leak(sql.into_boxed_str()) };
                tx.exec(
                    text(format!("ALTER TABLE {table} ADD COLUMN later_text TEXT")),
                    vals![],
                )?;
                tx.exec(
                    text(format!(
                        "ALTER TABLE {table} ADD COLUMN later_number BIGINT NOT NULL DEFAULT 7"
                    )),
                    vals![],
                )?;
                tx.exec(
                    text(format!("CREATE INDEX later_{table} ON {table} (later_number)")),
                    vals![],
                )?;
            }
            tx.exec("CREATE TABLE later (id BIGINT NOT NULL PRIMARY KEY)", vals![])?;
            tx.exec(
                "INSERT INTO migration (version, name, checksum) VALUES (9999, 'later', 'x')",
                vals![],
            )
            .map(drop)
        })
        .await
        .unwrap();
}

/// Uses a node: one run succeeds, and another is cancelled while a worker has it.
async fn work(fixture: &Fixture) {
    let org = fixture.org().await;
    let node = fixture.node().await;
    let fence = fixture.running(org, node).await;
    let done = fixture
        .store
        .finish_run(fence, fixture.succeeded("done"))
        .await
        .unwrap();
    assert_eq!(fixture.get(org, fence.run).await, done);
    let fence = fixture.running(org, node).await;
    fixture
        .store
        .cancel_run(org, fence.run, fixture.now())
        .await
        .unwrap();
    let (run, attempt) = (fence.run, fence.attempt);
    assert_eq!(fixture.store.watch(node, vec![]).await.unwrap().cancelled, [run]);
    fixture
        .store
        .settle_run(run, attempt, crate::runs::FinalCost::default(), Vec::new())
        .await
        .unwrap();
    fixture.renew(node, fixture.now()).await.unwrap();
    fixture.take_over(node, fixture.now(), 10).await;
    fixture.store.list_nodes().await.unwrap();
    fixture.store.deregister_node(node, fixture.now()).await.unwrap();
}

both! {
    async fn the_index_of_runs_by_outcome_has_only_final_runs(fixture: &Fixture) {
        let index = match fixture.dialect() {
            Dialect::Sqlite => {
                "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'run_outcome' AND sql LIKE '%outcome IS NOT NULL%'"
            }
            Dialect::Postgres => {
                "SELECT COUNT(*) FROM pg_indexes WHERE indexname = 'run_outcome' AND indexdef LIKE '%outcome IS NOT NULL%'"
            }
        };
        assert_eq!(fixture.count(index).await, 1);
    }

    async fn a_node_at_work_goes_on_while_a_newer_one_expands_its_tables(fixture: &Fixture) {
        // This prepares the statements of the node with the earlier columns.
        work(fixture).await;
        expand(fixture).await;
        work(fixture).await;
    }
}

#[tokio::test]
async fn busy_tables_are_vacuumed_by_a_number_of_rows_on_postgres() {
    let set = "SELECT COUNT(*) FROM pg_class WHERE relname IN ('queue', 'event') \
               AND array_to_string(reloptions, ',') LIKE '%autovacuum_vacuum_scale_factor=0%autovacuum_vacuum_threshold=%'";
    assert_eq!(Fixture::postgres().await.count(set).await, 2);
}

#[tokio::test]
async fn a_migration_that_fails_on_sqlite_leaves_nothing_behind() {
    let database = TestDatabase::sqlite().unwrap();
    database
        .change("CREATE TABLE identity (of_somebody_else TEXT)")
        .await
        .unwrap();
    let refused = Store::open(database.url()).await.err().unwrap();
    assert!(
        refused.to_string().contains("identity already exists"),
        "{refused}"
    );
    let left = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let left = database.rows(left).await.unwrap();
    assert_eq!(
        left,
        [json!({ "name": "identity" }), json!({ "name": "migration" })]
    );
    assert_eq!(
        database
            .value("SELECT COUNT(*) AS v FROM migration")
            .await
            .unwrap(),
        "0"
    );
}
