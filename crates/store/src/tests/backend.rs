//! Guarantees of the database layer itself.

use std::{
    future::poll_fn,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{Arc, mpsc},
    task::Poll,
};

use parking_lot::Mutex;
use sortie_testkit::{Proxy, postgres::TestDatabase, until};
use tokio::{sync::oneshot, task::JoinSet};

use super::{prelude::*, settings::options};
use crate::{CONNECTIONS, Result};

fn file_of(database: &TestDatabase) -> PathBuf {
    PathBuf::from(database.url().strip_prefix("sqlite:").unwrap())
}

both! {
    async fn a_command_that_panics_is_an_error_and_changes_nothing(fixture: &Fixture) {
        let panicked = fixture.store.db.write(|tx| -> Result<()> {
            tx.exec("UPDATE dispatch SET turn = 77 WHERE id = 1", vals![])?;
            panic!("on purpose");
        });
        assert!(matches!(panicked.await.unwrap_err(), Error::Database(_)));
        assert_eq!(fixture.count("SELECT turn FROM dispatch").await, 0);
        fixture.store.ping().await.unwrap();
    }

    async fn a_command_whose_caller_is_gone_is_done_all_the_same(fixture: &Fixture) {
        let (go_on, gone) = mpsc::channel::<()>();
        let mut command = Box::pin(fixture.store.db.write(move |tx| {
            let _closed = gone.recv();
            tx.exec("UPDATE dispatch SET turn = 77 WHERE id = 1", vals![])
        }));
        // A single poll sends the command. Then the caller disconnects before the command has an answer.
        assert!(poll_fn(|context| Poll::Ready(command.as_mut().poll(context).is_pending())).await);
        drop(command);
        drop(go_on);
        let look = async || Ok(fixture.count("SELECT turn FROM dispatch").await);
        until("the command", look, |turn| *turn == 77).await.unwrap();
    }

    async fn a_commit_whose_answer_is_lost_takes_place_and_is_told_as_unavailable(fixture: &Fixture) {
        fixture.store.db.faults().lose_answer();
        let command = fixture.store.db.write(|tx| {
            tx.exec("UPDATE dispatch SET turn = turn + 1 WHERE id = 1", vals![])
        });
        assert!(matches!(command.await.unwrap_err(), Error::Unavailable(_)));
        assert!(!fixture.store.db.faults().disarm());
        assert_eq!(fixture.count("SELECT turn FROM dispatch").await, 1);
    }

    async fn a_failed_command_does_not_take_its_neighbours_with_it(fixture: &Fixture) {
        let commands = (0..200_i64).map(|number| fixture.store.db.write(move |tx| {
            tx.exec("UPDATE dispatch SET turn = turn + 1 WHERE id = 1", vals![])?;
            if number % 3 == 0 { Err(Error::Conflict("on purpose")) } else { Ok(()) }
        }));
        let outcomes = join_all(commands).await;
        let done = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(done, 133);
        assert_eq!(fixture.count("SELECT turn FROM dispatch").await, 133);
    }

    async fn a_parameter_is_bound_by_its_number(fixture: &Fixture) {
        let row = fixture.store.db.read(|tx| {
            tx.query_one("SELECT CAST($2 AS BIGINT), CAST($1 AS BIGINT), CAST($2 AS BIGINT)", vals![1_i64, 2_i64])
        }).await.unwrap();
        assert_eq!((row.int(0).unwrap(), row.int(1).unwrap(), row.int(2).unwrap()), (2, 1, 2));
    }

    async fn a_wrong_statement_is_an_error_and_the_connection_goes_on(fixture: &Fixture) {
        for _ in 0..20 {
            let wrong = fixture.store.db.write(|tx| tx.exec("UPDATE nothing SET a = 1", vals![]));
            assert!(matches!(wrong.await.unwrap_err(), Error::Database(_)));
            let few = fixture.store.db.write(|tx| tx.exec("UPDATE dispatch SET turn = $1", vals![]));
            assert!(matches!(few.await.unwrap_err(), Error::Database(_)));
            fixture.store.ping().await.unwrap();
        }
    }
}

#[tokio::test]
async fn both_databases_have_the_same_tables_and_columns() {
    let (sqlite, postgres) = (Fixture::sqlite().await, Fixture::postgres().await);
    let columns = async |store: &Store, sql: &'static str| -> Vec<String> {
        let rows = store.db.read(move |tx| tx.query_all(sql, vals![])).await.unwrap();
        rows.iter()
            .map(|row| {
                let kind = match row.text(2).unwrap() {
                    "BIGINT" | "bigint" => "integer",
                    "TEXT" | "text" => "text",
                    "BLOB" | "bytea" => "bytes",
                    other => panic!("a column of type {other}"),
                };
                let needed = row.int(3).unwrap();
                format!(
                    "{}.{} {kind} {needed}",
                    row.text(0).unwrap(),
                    row.text(1).unwrap()
                )
            })
            .collect()
    };
    let on_sqlite = columns(
        &sqlite.store,
        "SELECT m.name, c.name, c.type, c.\"notnull\" FROM sqlite_schema m JOIN pragma_table_info(m.name) c \
         WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' ORDER BY m.name, c.name",
    )
    .await;
    let on_postgres = columns(
        &postgres.store,
        "SELECT CAST(c.table_name AS TEXT), CAST(c.column_name AS TEXT), CAST(c.data_type AS TEXT), \
         CAST(CASE c.is_nullable WHEN 'NO' THEN 1 ELSE 0 END AS BIGINT) \
         FROM information_schema.columns c WHERE c.table_schema = 'public' \
         ORDER BY CAST(c.table_name AS TEXT) COLLATE \"C\", CAST(c.column_name AS TEXT) COLLATE \"C\"",
    )
    .await;
    assert_eq!(on_sqlite, on_postgres);
    assert!(on_sqlite.len() > 40);
}

#[tokio::test]
async fn a_sqlite_database_serves_one_process() {
    let database = TestDatabase::sqlite().unwrap();
    let first = Store::open(database.url()).await.unwrap();
    let refused = Store::open(database.url()).await.err().unwrap();
    assert!(
        matches!(&refused, Error::Unavailable(text) if text.contains("in use by another process")),
        "{refused}"
    );
    drop(first);
    Store::open(database.url()).await.unwrap();
}

/// docs/OPERATIONS.md#how-large
#[tokio::test]
async fn a_database_whose_encoding_lacks_characters_is_refused_with_the_remedy() {
    for encoding in ["LATIN1", "EUC_JP"] {
        let database = TestDatabase::postgres_encoded(encoding).await.unwrap();
        for refused in [
            Store::open(database.url()).await.err().unwrap(),
            Store::inspect(database.url()).await.err().unwrap(),
        ] {
            let text = refused.to_string();
            for words in [
                &format!("has the encoding {encoding}"),
                "ENCODING 'UTF8' TEMPLATE template0",
                "database_url",
            ] {
                assert!(text.contains(words), "{text}");
            }
        }
        let tables = database
            .rows("SELECT to_regclass('migration') IS NULL AS empty")
            .await
            .unwrap();
        assert_eq!(
            tables,
            [serde_json::json!({"empty": true})],
            "nothing is made in it"
        );
    }
}

#[tokio::test]
async fn a_database_that_does_not_look_at_bytes_keeps_every_text() {
    let database = TestDatabase::postgres_encoded("SQL_ASCII").await.unwrap();
    let store = Store::open_with(database.url(), options(CONNECTIONS))
        .await
        .unwrap();
    let fixture = Fixture::with(store, database, None);
    let (org, node) = (fixture.org().await, fixture.node().await);
    let sent = r#"{"prompt":"🚀 Größe 日本"}"#;
    let mut run = fixture.new_run(org);
    run.definition = sent.into();
    fixture.store.create_run(run).await.unwrap();
    assert_eq!(fixture.claim_one(node).await.definition.as_deref(), Some(sent));
}

#[tokio::test]
async fn a_sqlite_database_is_made_for_its_user_alone_with_its_folder() {
    let database = TestDatabase::sqlite().unwrap();
    let path = file_of(&database).parent().unwrap().join("a/b/deep.db");
    let store = Store::open(&format!("sqlite:{}", path.display())).await.unwrap();
    store.ping().await.unwrap();
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let file = format!("{}{suffix}", path.display());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let mode = std::fs::metadata(path.parent().unwrap())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn committed_runs_survive_a_restart_on_sqlite() {
    let database = TestDatabase::sqlite().unwrap();
    for round in 1..=3 {
        let store = Store::open(database.url()).await.unwrap();
        let take = "UPDATE dispatch SET turn = turn + 1 WHERE id = 1";
        store.db.write(move |tx| tx.exec(take, vals![])).await.unwrap();
        let turn = store
            .db
            .read(|tx| tx.query_one("SELECT turn FROM dispatch", vals![])?.int(0))
            .await
            .unwrap();
        assert_eq!(turn, round);
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_a_clear_error() {
    let database = TestDatabase::sqlite().unwrap();
    std::fs::write(
        file_of(&database),
        "not a database at all, but long enough to be taken for one",
    )
    .unwrap();
    let refused = Store::open(database.url()).await.err().unwrap();
    assert!(refused.to_string().contains("is no database"), "{refused}");
}

#[tokio::test]
async fn a_database_url_of_another_kind_is_refused() {
    let refused = Store::open("mysql://localhost/x").await.err().unwrap();
    assert!(
        refused.to_string().contains("sqlite: or postgres://"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let refused = Store::open("postgres://nobody@127.0.0.1:1/x")
        .await
        .err()
        .unwrap();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_asked_for() {
    let database = TestDatabase::postgres().await.unwrap();
    let refused = Store::open(&format!("{}?sslmode=require", database.url()))
        .await
        .err()
        .unwrap();
    assert!(refused.to_string().contains("does not support TLS"), "{refused}");
}

#[tokio::test]
async fn the_connections_of_the_first_checks_serve_the_first_command_and_heartbeats() {
    let database = TestDatabase::postgres().await.unwrap();
    let proxy = Proxy::start(database.server().unwrap()).await.unwrap();
    let url = database.url_at(proxy.address()).unwrap();
    let store = Store::open_with(&url, options(CONNECTIONS)).await.unwrap();
    store.ping().await.unwrap();
    store.clock().await.unwrap();
    assert_eq!(proxy.taken(), 2);
    // They are opened again once they are lost.
    database.disconnect_all().await.unwrap();
    store.ping().await.unwrap();
    store.clock().await.unwrap();
    assert_eq!(proxy.taken(), 4);
}

#[tokio::test]
async fn a_lost_connection_is_made_again() {
    let fixture = Fixture::postgres().await;
    for _ in 0..5 {
        fixture.store.ping().await.unwrap();
        fixture.database.disconnect_all().await.unwrap();
        let pings = join_all((0..16).map(|_| fixture.store.ping())).await;
        assert!(pings.iter().all(Result::is_ok), "{pings:?}");
    }
}

#[tokio::test]
async fn a_deadlock_is_tried_again() {
    let fixture = Fixture::postgres().await;
    fixture
        .store
        .db
        .write(|tx| {
            tx.exec(
                "INSERT INTO dispatch (id, turn, last_org) VALUES (2, 0, '')",
                vals![],
            )
        })
        .await
        .unwrap();
    let swap = |first: i64, second: i64| {
        fixture.store.db.write(move |tx| {
            // PostgreSQL detects deadlocks at once. Otherwise a command would queue after others that wait a
            // second each, and would time out on a lock first.
            tx.exec("SET LOCAL deadlock_timeout = '10ms'", vals![])?;
            let add = "UPDATE dispatch SET turn = turn + 1 WHERE id = $1";
            tx.exec(add, vals![first])?;
            tx.query_all("SELECT CAST(pg_sleep(0.05) AS TEXT)", vals![])?;
            tx.exec(add, vals![second])
        })
    };
    let outcomes = join_all([swap(1, 2), swap(2, 1), swap(1, 2), swap(2, 1)]).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(
        fixture
            .count("SELECT CAST(SUM(turn) AS BIGINT) FROM dispatch")
            .await,
        8
    );
}

#[tokio::test]
async fn two_nodes_that_open_an_empty_database_migrate_it_once() {
    let database = TestDatabase::postgres().await.unwrap();
    let opened = join_all((0..4).map(|_| Store::open(database.url()))).await;
    for store in opened {
        store.unwrap().ping().await.unwrap();
    }
}

/// Blocks `threads` threads of the store until the senders are dropped. Returns the senders and the commands
/// that block.
pub(super) async fn hold_up(
    store: &Store,
    threads: usize,
) -> (Vec<mpsc::Sender<()>>, Vec<impl Future<Output = Result<()>>>) {
    let (mut holds, mut commands) = (Vec::new(), Vec::new());
    for _ in 0..threads {
        let ((hold, blocked), (started, has_started)) = (mpsc::channel::<()>(), oneshot::channel());
        let (blocked, started) = (Mutex::new(blocked), Mutex::new(Some(started)));
        let db = store.db.clone();
        let mut command = Box::pin(async move {
            let wait = move |_: &mut dyn Tx| {
                if let Some(started) = started.lock().take() {
                    started.send(()).unwrap();
                }
                let gone = blocked.lock().recv();
                assert_eq!(gone, Err(mpsc::RecvError));
                Ok(())
            };
            db.write(wait).await
        });
        assert!(poll_fn(|context| Poll::Ready(command.as_mut().poll(context).is_pending())).await);
        has_started.await.unwrap();
        holds.push(hold);
        commands.push(command);
    }
    (holds, commands)
}

#[tokio::test]
async fn an_urgent_command_passes_those_that_wait_for_the_writing_thread() {
    let fixture = Fixture::sqlite().await;
    let (release, held_up) = hold_up(&fixture.store, 1).await;
    let done = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let done = Arc::clone(&done);
        move |_: &mut dyn Tx| {
            done.lock().push(name);
            Ok(())
        }
    };
    let waiting = join_all((0..200).map(|_| fixture.store.db.write(note("ordinary"))));
    let urgent = fixture.store.db.urgent(Duration::from_mins(1), note("urgent"));
    // The futures are polled in this order: the urgent command is sent last.
    let (waiting, (urgent, ())) = join(waiting, join(urgent, async { drop(release) })).await;
    assert!(waiting.iter().chain([&urgent]).all(Result::is_ok));
    assert_eq!(done.lock()[0], "urgent");
    join_all(held_up).await;
}

#[tokio::test]
async fn outside_of_a_transaction_that_was_begun_nothing_is_written() {
    let fixture = Fixture::postgres().await;
    // A statement that was sent after a failed BEGIN runs like this.
    let stray = fixture
        .store
        .db
        .read(|tx| tx.exec("UPDATE dispatch SET turn = 77 WHERE id = 1", vals![]));
    assert!(matches!(stray.await.unwrap_err(), Error::Unavailable(_)));
    assert_eq!(fixture.count("SELECT turn FROM dispatch").await, 0);
    fixture.store.ping().await.unwrap();
}

#[tokio::test]
async fn a_server_that_accepts_no_writes_is_refused_until_it_does() {
    let fixture = Fixture::postgres().await;
    let (client, connection) = tokio_postgres::connect(fixture.url(), tokio_postgres::NoTls)
        .await
        .unwrap();
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let set = async |read_only: &str| {
        let sql = format!(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = {read_only}', \
             current_database()); END $$; SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()"
        );
        client.batch_execute(&sql).await.unwrap();
    };
    set("on").await;
    let Err(Error::Unavailable(told)) = fixture.store.ping().await else {
        panic!("it is ready")
    };
    assert!(told.contains("read-only"), "{told}");
    set("off").await;
    let look = async || Ok(fixture.store.ping().await);
    until("the database", look, Result::is_ok).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_heartbeat_does_not_wait_for_commands_that_hold_every_connection() {
    let fixture = Fixture::postgres().await;
    let node = fixture.node().await;
    let (release, held_up) = hold_up(&fixture.store, crate::CONNECTIONS as usize).await;
    fixture.renew(node, fixture.now()).await.unwrap();
    drop(release);
    join_all(held_up).await;
}

#[tokio::test]
async fn a_heartbeat_reaches_the_second_host_where_the_first_is_silent() {
    let fixture = Fixture::postgres().await;
    let node = fixture.node().await;
    // No process accepts connections at this address. Once its queue is full, the system leaves new
    // connections without an answer.
    let silent = tokio::net::TcpSocket::new_v4().unwrap();
    silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let silent = silent.listen(1).unwrap();
    let address = silent.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(connection) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        queued.push(connection);
    }
    let config: tokio_postgres::Config = fixture.url().parse().unwrap();
    let (ports, name) = (config.get_ports(), config.get_dbname().unwrap());
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/{name}?connect_timeout=1",
        address.port(),
        ports[0]
    );
    let store = Store::open(&url).await.unwrap();
    // The heartbeat would otherwise use a session that the start has opened.
    fixture.database.disconnect_all().await.unwrap();
    store
        .heartbeat(node, fixture.now(), Duration::from_secs(10))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_heartbeat_that_takes_two_seconds_is_given_up_and_never_done() {
    let database = TestDatabase::sqlite().unwrap();
    let store = Store::open(database.url()).await.unwrap();
    let fixture = Fixture::with(store, database, None);
    let node = fixture.node().await;
    let lease = "SELECT lease_until FROM node";
    let before = fixture.count(lease).await;
    let (release, held_up) = hold_up(&fixture.store, 1).await;
    // From here on time passes as soon as nothing else can happen.
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let given_up = fixture.renew(node, fixture.now()).await.unwrap_err();
    assert!(matches!(given_up, Error::Unavailable(_)), "{given_up}");
    assert_eq!(begun.elapsed().as_secs(), 2);
    drop(release);
    join_all(held_up).await;
    fixture.store.ping().await.unwrap();
    assert_eq!(fixture.count(lease).await, before);
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_unavailable() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "postgres://nobody@{}/x?connect_timeout=1",
        silent.local_addr().unwrap()
    );
    let refused = Store::open(&url).await.err().unwrap();
    assert_eq!(
        refused,
        Error::Unavailable("the database does not answer".to_owned())
    );
}
