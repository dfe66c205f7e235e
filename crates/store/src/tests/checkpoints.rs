//! Checkpoints of the write-ahead log of `SQLite` while commands keep coming.

use std::{fs, time::Duration};

use sortie_testkit::Database;

use super::{fixture::Fixture, settings};
use crate::{CONNECTIONS, OpenOptions, Store, db::vals};

/// Bytes of a page, and of a page in the log.
const PAGE: u64 = 4_096;
const LOGGED: u64 = PAGE + 24;

/// A store whose log is never checkpointed for want of commands.
async fn busy() -> Fixture {
    let database = settings::migrated(Database::Sqlite).await;
    let options = OpenOptions {
        checkpoint_after: Duration::from_hours(1),
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

    /// Number of pages that the log has had at most since it was made.
    fn pages_of_log(&self) -> u64 {
        let mut log = self.sqlite_file().into_os_string();
        log.push("-wal");
        fs::metadata(log).unwrap().len() / LOGGED
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
    // No command comes any more.
    let copied = async {
        while fixture.pages_of_database() < 2_500 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let copied = tokio::time::timeout(Duration::from_secs(30), copied).await;
    copied.expect("the log is copied");
}

#[tokio::test]
async fn the_log_begins_anew_while_commands_keep_coming() {
    let fixture = busy().await;
    for _ in 0..200 {
        fixture.write_a_hundred_pages().await;
    }
    // Of more than 20,000 pages. On a busy machine the log grows while the thread waits for the disk.
    assert!(fixture.pages_of_log() < 18_000, "{}", fixture.pages_of_log());
    assert!(fixture.pages_of_database() > 2_000);
}
