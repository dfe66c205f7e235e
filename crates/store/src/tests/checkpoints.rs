//! Checkpoints of the write-ahead log of `SQLite` under continuous commands.

use std::{fs, time::Duration};

use sortie_testkit::{Database, PATIENCE, until};

use super::{fixture::Fixture, settings};
use crate::{
    CONNECTIONS, OpenOptions, Store,
    db::{open_sqlite_copy, vals},
};

/// Bytes of a page, and of a page in the log.
const PAGE: u64 = 4_096;
const LOGGED: u64 = PAGE + 24;

/// Number of pages that the log has at most once it was cut.
const KEPT: u64 = (32 << 20) / LOGGED;

/// A store without idle checkpoints: one would need an hour without commands.
async fn busy() -> Fixture {
    checkpointed_after(Duration::from_hours(1)).await
}

async fn checkpointed_after(checkpoint_after: Duration) -> Fixture {
    let database = settings::migrated(Database::Sqlite).await;
    let options = OpenOptions {
        checkpoint_after,
        ..settings::options(CONNECTIONS)
    };
    let store = Store::open_with(database.url(), options).await.unwrap();
    let filler = store
        .db
        .write(|tx| tx.exec("CREATE TABLE filler (content BLOB)", vals![]));
    filler.await.unwrap();
    Fixture::with(store, database, None)
}

impl Fixture {
    /// Runs a command that writes a hundred pages and a few.
    async fn write_a_hundred_pages(&self) {
        let filled = self
            .store
            .db
            .write(|tx| tx.exec("INSERT INTO filler VALUES (zeroblob(409600))", vals![]));
        filled.await.unwrap();
    }

    /// Maximum number of pages in the log since its creation.
    fn pages_of_log(&self) -> u64 {
        let mut log = self.sqlite_file().into_os_string();
        log.push("-wal");
        fs::metadata(log).unwrap().len() / LOGGED
    }

    /// Lets the log grow to `pages` while a reader holds a snapshot.
    async fn grow_log(&self, pages: u64) {
        let mut reader = open_sqlite_copy(&self.sqlite_file()).unwrap();
        reader.query_all("BEGIN", vals![]).unwrap();
        reader.query_all("SELECT id FROM organization", vals![]).unwrap();
        while self.pages_of_log() < pages {
            self.write_a_hundred_pages().await;
        }
        assert!(self.pages_of_database() < 1_000);
        reader.query_all("COMMIT", vals![]).unwrap();
    }

    fn pages_of_database(&self) -> u64 {
        fs::metadata(self.sqlite_file()).unwrap().len() / PAGE
    }
}

#[tokio::test]
async fn most_of_the_log_is_copied_before_it_is_full() {
    let fixture = busy().await;
    while fixture.pages_of_log() < 3_200 {
        fixture.write_a_hundred_pages().await;
    }
    assert!(fixture.pages_of_log() < 4_000);
    // No further command arrives.
    let look = async || Ok(fixture.pages_of_database());
    let copied = until("the copy of the log", look, |pages| *pages >= 2_500).await;
    copied.unwrap();
}

#[tokio::test]
async fn the_log_begins_anew_while_commands_keep_coming() {
    let fixture = busy().await;
    // On a busy machine the log grows while the thread waits for the disk.
    let writes = async {
        let mut written = 0;
        while fixture.pages_of_log() + 2_000 > written {
            fixture.write_a_hundred_pages().await;
            written += 100;
        }
    };
    let restarted = tokio::time::timeout(PATIENCE, writes).await;
    restarted.expect("the log begins anew");
    assert!(fixture.pages_of_database() > 2_000);
}

/// The writing thread would otherwise copy gigabytes, and every command would wait for it.
#[tokio::test]
async fn a_log_behind_a_reader_that_has_ended_is_copied_by_the_thread_and_cut_while_commands_keep_coming() {
    let fixture = busy().await;
    fixture.grow_log(20_000).await;
    let writes = async {
        while fixture.pages_of_log() > KEPT {
            fixture.write_a_hundred_pages().await;
        }
    };
    let cut = tokio::time::timeout(PATIENCE, writes).await;
    cut.expect("the log is cut");
    assert!(fixture.pages_of_database() > 20_000);
    assert!(fixture.store.db.faults().most_copied_by_writer() <= 4_000);
}

#[tokio::test]
async fn a_log_behind_a_reader_that_has_ended_is_emptied_while_no_command_comes() {
    let fixture = checkpointed_after(Duration::from_millis(10)).await;
    fixture.grow_log(12_000).await;
    let look = async || Ok(fixture.pages_of_log());
    let emptied = until("an empty log", look, |pages| *pages == 0).await;
    emptied.unwrap();
    assert!(fixture.pages_of_database() > 12_000);
    assert!(fixture.store.db.faults().most_copied_by_writer() <= 4_000);
}

/// The `sqlite3` shell writes to the database of an engine as well.
#[tokio::test]
async fn commits_of_another_process_stay_while_the_file_of_the_log_is_cut() {
    let fixture = checkpointed_after(Duration::from_millis(10)).await;
    fixture.grow_log(40_000).await;
    let open = || rusqlite::Connection::open(fixture.sqlite_file()).unwrap();
    let rows = |connection: &rusqlite::Connection| -> i64 {
        let count = "SELECT COUNT(*) FROM filler";
        connection.query_row(count, (), |row| row.get(0)).unwrap()
    };
    let other = open();
    // SQLite writes pages that do not fit into its cache to the log immediately.
    let settings = "PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0; PRAGMA busy_timeout = 30000; \
                    PRAGMA cache_size = 100";
    other.execute_batch(settings).unwrap();
    let before = rows(&other);
    let cut_to = async |pages: u64| {
        let look = async || Ok(fixture.pages_of_log());
        let cut = until("a shorter log", look, |log| *log <= pages).await;
        cut.unwrap();
    };
    cut_to(39_000).await;
    // More than the length that the file is cut to.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..150 {
        let insert = "INSERT INTO filler VALUES (zeroblob(409600))";
        other.execute(insert, ()).unwrap();
    }
    other.execute_batch("COMMIT").unwrap();
    cut_to(KEPT).await;
    drop(other);
    let stored = open();
    assert_eq!(rows(&stored), before + 150);
    let integrity = stored.query_row("PRAGMA integrity_check", (), |row| row.get::<_, String>(0));
    assert_eq!(integrity.unwrap(), "ok");
}
