//! Migrations of a newer version on a database that nodes of an older version use.

use std::time::{Duration, Instant};

use serde_json::json;
use sortie_api::ConsentId;
use sortie_testkit::postgres::TestDatabase;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use super::{both, fixture::Fixture};
use crate::{
    Store,
    db::{Dialect, Tx, newest_known_migration, vals},
};

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
                // The text is leaked: the store knows a statement by its address.
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
        .settle_run(run, attempt, crate::FinalCost::default(), Vec::new())
        .await
        .unwrap();
    fixture.renew(node, fixture.now()).await.unwrap();
    fixture.take_over(node, fixture.now(), 10).await;
    fixture.store.list_nodes().await.unwrap();
    fixture.store.deregister_node(node, fixture.now()).await.unwrap();
}

both! {
    async fn a_node_at_work_goes_on_while_a_newer_one_expands_its_tables(fixture: &Fixture) {
        // This prepares the statements of the node with the earlier columns.
        work(fixture).await;
        expand(fixture).await;
        work(fixture).await;
    }
}

/// Time that is longer than a command waits for a lock.
const LONG: Duration = Duration::from_secs(5);

/// Statements that take the migrations after 23 back.
const SINCE_CREDITS: [&str; 24] = [
    "ALTER TABLE run DROP COLUMN output_read_at",
    "ALTER TABLE blob DROP COLUMN counted",
    "DROP TABLE ledger_payment_sum",
    "DROP TABLE ledger_sum",
    "DROP TABLE refund_order",
    "DROP TABLE usage_month",
    "ALTER TABLE run DROP COLUMN holds",
    "DROP TABLE auto_topup_consent",
    "DROP TABLE installation",
    "DROP TABLE late_run",
    "ALTER TABLE connection DROP COLUMN challenge",
    "DROP TABLE entitlement",
    "DROP TABLE deployment",
    "DROP TABLE license",
    "DROP TABLE allowance",
    "DROP TABLE billing_account",
    "DROP TABLE auto_topup",
    "DROP TABLE topup",
    "DROP TABLE payment",
    "DROP TABLE refund",
    "DROP TABLE dispute",
    "DROP TABLE stripe_event",
    "DROP TABLE stripe_search",
    "DROP TABLE subscription",
];

/// A dump reads every table in one transaction. The migration of a newer version waits for the dump, and no command waits for
/// the migration.
#[tokio::test]
async fn a_migration_that_waits_for_a_dump_holds_up_nobody() {
    let fixture = Fixture::postgres().await;
    let org = fixture.org().await;
    let run = fixture.queued(org).await;
    // The database lacks migration 17, which changes the locked table, and the later ones. Migrations 27 and 30 change nothing that
    // has to be taken back.
    assert_eq!(newest_known_migration(), 39);
    let undone = fixture.store.db.write(|tx| {
        for undo in [
            "DROP TABLE ledger",
            "DROP FUNCTION ledger_is_append_only",
            "DROP TABLE credit",
            "ALTER TABLE run DROP COLUMN reserved_micros",
            "DROP TABLE organization_storage",
            "DROP INDEX organization_deletion",
            "ALTER TABLE organization DROP COLUMN deleted_at",
            "ALTER TABLE organization DROP COLUMN erased_at",
            "DROP TABLE identity",
            "DROP TABLE avatar",
            "DROP TABLE invitation",
            "DROP TABLE mail",
            "DROP TABLE operator_key",
            "DROP TABLE oauth_client",
            "DROP TABLE oauth_grant",
            "DROP TABLE oauth_code",
            "DROP TABLE oauth_token",
            "ALTER TABLE organization DROP COLUMN suspended_at",
            "ALTER TABLE organization DROP COLUMN suspended_why",
            "ALTER TABLE audit DROP COLUMN user_id",
            "DROP TABLE person",
            "DROP TABLE session",
            "DROP TABLE one_time",
            "DROP TABLE attempt",
            "DROP TABLE membership",
            "ALTER TABLE organization DROP COLUMN created_by",
            "ALTER TABLE run DROP COLUMN started_by",
            "ALTER TABLE audit DROP COLUMN actor_kind",
            "ALTER TABLE audit DROP COLUMN actor_id",
            "ALTER TABLE oauth_flow DROP COLUMN tries",
            "ALTER TABLE connection DROP COLUMN issuer",
            "DROP TABLE replaced_run",
            "ALTER TABLE connection DROP COLUMN refresh_holder",
            "ALTER TABLE run DROP COLUMN clock_started_at",
            "ALTER TABLE run DROP COLUMN clock_cancelled_at",
        ] {
            tx.exec(undo, vals![])?;
        }
        for undo in SINCE_CREDITS {
            tx.exec(undo, vals![])?;
        }
        tx.exec("DROP FUNCTION auto_topup_consent_is_append_only", vals![])?;
        tx.exec("DELETE FROM migration WHERE version >= 17", vals![])
    });
    undone.await.unwrap();
    let (dump, connection) = tokio_postgres::connect(fixture.url(), NoTls).await.unwrap();
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    dump.batch_execute("BEGIN; LOCK TABLE run IN ACCESS SHARE MODE")
        .await
        .unwrap();

    let url = fixture.url().to_owned();
    let mut newer = JoinSet::new();
    newer.spawn(async move { Store::open(&url).await });
    let begun = Instant::now();
    // No command or query that needs a column which is missing now.
    let write = move |tx: &mut dyn Tx| {
        tx.exec(
            "UPDATE run SET cost_micros = cost_micros WHERE id = $1",
            vals![run],
        )
    };
    while begun.elapsed() < LONG {
        assert_eq!(fixture.store.db.write(write).await.unwrap(), 1);
        assert_eq!(fixture.count("SELECT count(*) FROM run").await, 1);
    }
    assert!(newer.try_join_next().is_none(), "it does not wait for the dump");
    dump.batch_execute("COMMIT").await.unwrap();
    let opened = newer.join_next().await.unwrap().unwrap();
    opened.unwrap().ping().await.unwrap();
    let there = "SELECT count(*) FROM migration WHERE version >= 17";
    assert_eq!(fixture.count(there).await, 23);
}

#[tokio::test]
async fn the_index_of_runs_by_outcome_has_only_final_runs_on_sqlite() {
    let index =
        "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'run_outcome' AND sql LIKE '%outcome IS NOT NULL%'";
    assert_eq!(Fixture::sqlite().await.count(index).await, 1);
}

#[tokio::test]
async fn busy_tables_are_vacuumed_by_a_number_of_rows_on_postgres() {
    let set = "SELECT COUNT(*) FROM pg_class WHERE relname IN ('queue', 'event') \
               AND array_to_string(reloptions, ',') LIKE '%autovacuum_vacuum_scale_factor=0%autovacuum_vacuum_threshold=%'";
    assert_eq!(Fixture::postgres().await.count(set).await, 2);
}

/// The program before still opens the file.
#[tokio::test]
async fn a_migration_that_fails_on_sqlite_takes_those_before_it_back() {
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

/// Takes migration 23 and the later ones back, and applies them again.
async fn credits_are_migrated(fixture: Fixture) {
    let (hosted, self_hosted) = (
        fixture.org_of(fixture.person("ann").await).await,
        fixture.org().await,
    );
    let suspended = fixture.org_of(fixture.person("bob").await).await;
    let (store, at) = (&fixture.store, fixture.now());
    store
        .suspend_organization(suspended, None, at, fixture.audit(suspended))
        .await
        .unwrap();
    let dialect = fixture.dialect();
    let undone = store.db.write(move |tx| {
        tx.exec("DROP TABLE ledger", vals![])?;
        if dialect == Dialect::Postgres {
            tx.exec("DROP FUNCTION ledger_is_append_only", vals![])?;
        }
        tx.exec("DROP TABLE credit", vals![])?;
        tx.exec("ALTER TABLE run DROP COLUMN reserved_micros", vals![])?;
        for undo in SINCE_CREDITS {
            tx.exec(undo, vals![])?;
        }
        if dialect == Dialect::Postgres {
            tx.exec("DROP FUNCTION auto_topup_consent_is_append_only", vals![])?;
        }
        tx.exec("DELETE FROM migration WHERE version >= 23", vals![])
    });
    undone.await.unwrap();
    let Fixture { store, database, .. } = fixture;
    drop(store);
    let store = Store::open(database.url()).await.unwrap();
    let rows = store
        .db
        .read(|tx| {
            tx.query_all(
                "SELECT org_id, balance_micros + reserved_micros, suspended FROM credit",
                vals![],
            )
        })
        .await
        .unwrap();
    let mut found: Vec<(sortie_api::OrgId, i64, i64)> = rows
        .iter()
        .map(|row| (row.parse(0).unwrap(), row.int(1).unwrap(), row.int(2).unwrap()))
        .collect();
    found.sort_unstable();
    let mut expected = vec![(hosted, 0, 0), (suspended, 0, 1)];
    expected.sort_unstable();
    assert_eq!(found, expected, "and none for {self_hosted}");
}

#[tokio::test]
async fn organizations_that_people_have_created_get_credits_on_sqlite() {
    credits_are_migrated(Fixture::sqlite().await).await;
}

#[tokio::test]
async fn organizations_that_people_have_created_get_credits_on_postgres() {
    credits_are_migrated(Fixture::postgres().await).await;
}

/// Statements that take the migrations after 33 back.
const SINCE_HOLDS: [&str; 10] = [
    "DROP TABLE refund_order",
    "DROP INDEX billing_account_close",
    "DROP INDEX billing_account_card",
    "ALTER TABLE billing_account DROP COLUMN close_at",
    "DROP TABLE ledger_sum",
    "DROP TABLE ledger_payment_sum",
    "DROP TABLE usage_month",
    "ALTER TABLE installation DROP COLUMN retention_at",
    "ALTER TABLE run DROP COLUMN output_read_at",
    "ALTER TABLE blob DROP COLUMN counted",
];

/// Takes the migration of the consents back, and applies it again where an organization has agreed before.
async fn consents_are_migrated(fixture: Fixture) {
    let org = fixture.buying_org(1).await;
    let (store, agreed) = (&fixture.store, fixture.new_auto_topup(org));
    store
        .keep_card(org, Some(agreed.card.clone()), fixture.now())
        .await
        .unwrap();
    let before = store.auto_topup(org).await.unwrap().0.unwrap();
    let dialect = fixture.dialect();
    let undone = store.db.write(move |tx| {
        tx.exec("DROP TABLE auto_topup_consent", vals![])?;
        if dialect == Dialect::Postgres {
            tx.exec("DROP FUNCTION auto_topup_consent_is_append_only", vals![])?;
        }
        tx.exec("ALTER TABLE topup DROP COLUMN consent_id", vals![])?;
        tx.exec("ALTER TABLE run DROP COLUMN holds", vals![])?;
        for undo in SINCE_HOLDS {
            tx.exec(undo, vals![])?;
        }
        tx.exec("DELETE FROM migration WHERE version >= 32", vals![])
    });
    undone.await.unwrap();
    let Fixture { store, database, .. } = fixture;
    drop(store);
    let fixture = Fixture::with(Store::open(database.url()).await.unwrap(), database, None);
    let row = fixture.store.db.read(|tx| {
        tx.query_one(
            "SELECT id, org_id, consent_by, at, threshold_cents, amount_cents, consent_text, payment_method, card_brand, \
             card_last4 FROM auto_topup_consent",
            vals![],
        )
    });
    let row = row.await.unwrap();
    let id: ConsentId = row.parse(0).unwrap();
    assert_eq!(
        (row.parse(1).unwrap(), row.parse(2).unwrap(), row.time(3).unwrap()),
        (org, before.consent_by, before.consent_at)
    );
    assert_eq!((row.int(4), row.int(5)), (Ok(1_000), Ok(5_000)));
    assert_eq!(
        [6, 7, 8, 9].map(|column| row.text(column).unwrap()),
        ["I agree.", "pm_agreed", "visa", "4242"]
    );
    // The next purchase is made under it.
    fixture.sent_topup(org).await;
    let under = fixture
        .store
        .db
        .read(|tx| tx.query_one("SELECT consent_id FROM topup", vals![])?.parse(0));
    assert_eq!(under.await, Ok(id));
}

#[tokio::test]
async fn a_consent_from_before_is_kept_on_sqlite() {
    consents_are_migrated(Fixture::sqlite().await).await;
}

#[tokio::test]
async fn a_consent_from_before_is_kept_on_postgres() {
    consents_are_migrated(Fixture::postgres().await).await;
}

async fn months_are_summed_up(fixture: Fixture) {
    // The first and the last day of February 2024, and the day after: 19754, 19782, 19783.
    let undone = fixture.store.db.write(|tx| {
        for day in [19_754, 19_782, 19_783_i64] {
            tx.exec(
                "INSERT INTO usage_day (org_id, day, workflow, model, key_id, runs, succeeded, cost_micros, input_tokens, \
                 output_tokens, cache_read_tokens, cache_write_tokens, model_calls, tool_calls) \
                 VALUES ('org', $1, 'w', '', '', 1, 0, 9223372036854775807, 2, 3, 4, 5, 6, 7)",
                vals![day],
            )?;
        }
        for undo in SINCE_HOLDS {
            tx.exec(undo, vals![])?;
        }
        tx.exec("DELETE FROM migration WHERE version >= 34", vals![])
    });
    undone.await.unwrap();
    let Fixture { store, database, .. } = fixture;
    drop(store);
    let store = Store::open(database.url()).await.unwrap();
    let sums = store.db.read(|tx| {
        tx.query_all(
            "SELECT month, runs, cost_micros, tool_calls FROM usage_month ORDER BY month",
            vals![],
        )
    });
    let sums: Vec<Vec<i64>> = sums
        .await
        .unwrap()
        .iter()
        .map(|row| (0..4).map(|column| row.int(column).unwrap()).collect())
        .collect();
    assert_eq!(sums, [[19_754, 2, i64::MAX, 14], [19_783, 1, i64::MAX, 7]]);
}

#[tokio::test]
async fn usage_from_before_is_in_the_sums_of_its_month_on_sqlite() {
    months_are_summed_up(Fixture::sqlite().await).await;
}

#[tokio::test]
async fn usage_from_before_is_in_the_sums_of_its_month_on_postgres() {
    months_are_summed_up(Fixture::postgres().await).await;
}
