//! Copies of a `SQLite` database during writes.

use std::{fs, os::unix::fs::PermissionsExt};

use sortie_testkit::{postgres::TestDatabase, until};

use super::prelude::*;
use crate::{
    OpenOptions,
    installation::{DatabaseCopy, Referrer},
};

const GRACE: Duration = Duration::from_hours(1);

sqlite! {
    async fn a_copy_is_what_was_there_at_one_moment(fixture: &Fixture, org: OrgId, node: NodeId) {
        fixture.running(org, node).await;
        fixture.queued(org).await;
        let run = fixture.new_unretained(org, node);
        fixture.store.create_run(run).await.unwrap();
        let file = fixture.file(org, "a", 1).await;
        fixture.file(org, "again", 1).await;
        // A blob that is reserved and not referred to. Its content may not exist.
        fixture.store.reserve_blob(fixture.new_blob(org, 2)).await.unwrap();

        let from = fixture.sqlite_file();
        let to = from.with_extension("copy");
        let mut copy = DatabaseCopy::make(&from, &to).unwrap();
        fixture.queued(org).await;
        copy.check().unwrap();
        let summary = copy.summary().unwrap();
        assert_eq!((summary.runs, summary.at_work, summary.waiting), (3, 1, 1));
        assert_eq!((summary.unretained, summary.contents, summary.content_bytes), (1, 1, 7));
        let blobs = copy.referred_blobs(None, 10).unwrap();
        assert_eq!(blobs.len(), 1);
        assert_eq!((blobs[0].id, blobs[0].sha256, blobs[0].size), (file.blob, file.sha256, 7));
        assert!(copy.referred_blobs(Some(file.blob), 10).unwrap().is_empty());
        let named = |name: &str| Referrer::File(name.to_owned());
        assert_eq!(copy.referrers(file.blob, 10).unwrap(), [named("a"), named("again")]);
        assert_eq!(copy.referrers(file.blob, 1).unwrap(), [named("a")]);
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
        // An existing file is not overwritten.
        let again = DatabaseCopy::make(&from, &to).err().unwrap();
        assert!(again.to_string().contains("exists"), "{again}");
    }

    async fn what_was_deleted_is_not_in_a_copy(fixture: &Fixture, org: OrgId) {
        let connection = fixture.connection(org, "a").await;
        fixture.store.delete_connection(org, "a", fixture.audit(org)).await.unwrap();
        let from = fixture.sqlite_file();
        let to = from.with_extension("copy");
        drop(DatabaseCopy::make(&from, &to).unwrap());
        let bytes = fs::read(&to).unwrap();
        let secret = connection.credentials.as_slice();
        assert!(!bytes.windows(secret.len()).any(|part| part == secret));
    }
}

/// The log is checkpointed soon after the last write. A long reader must not hold up the writer then: a heartbeat has a
/// limit of two seconds.
#[tokio::test]
async fn a_long_reader_holds_no_writer_up() {
    let database = TestDatabase::sqlite().unwrap();
    let options = OpenOptions {
        checkpoint_after: Duration::from_millis(10),
        ..OpenOptions::default()
    };
    let store = Store::open_with(database.url(), options).await.unwrap();
    let fixture = Fixture::with(store, database, None);
    let org = fixture.org().await;
    let mut reader = crate::db::open_sqlite_copy(&fixture.sqlite_file()).unwrap();
    reader.query_all("BEGIN", crate::db::vals![]).unwrap();
    reader
        .query_all("SELECT id FROM organization", crate::db::vals![])
        .unwrap();
    let checkpoints = || fixture.store.db.faults().checkpoints();
    for _ in 0..3 {
        let (before, begun) = (checkpoints(), std::time::Instant::now());
        fixture.queued(org).await;
        // A command that waits for a reader has a limit of five seconds.
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        let look = async || Ok(checkpoints());
        until("a checkpoint", look, |now| *now != before).await.unwrap();
    }
}

sqlite! {
    /// The content that a copy refers to still exists when the copy is read. It is deleted an hour after the last
    /// reference was removed, and the copy is older than that removal.
    async fn content_of_a_copy_stays_for_an_hour_whatever_is_deleted_meanwhile(fixture: &Fixture, org: OrgId) {
        // Created long ago: the sweep has checked the content, and no further check is due.
        let file = fixture.file(org, "a", 1).await;
        assert!(fixture.sweep_blobs(file.check_at + GRACE).await.is_empty());

        let from = fixture.sqlite_file();
        let mut copy = DatabaseCopy::make(&from, &from.with_extension("copy")).unwrap();
        let copied_at = fixture.now() + 10 * GRACE;
        let audit = fixture.audit(org);
        fixture.store.delete_file(org, file.id, copied_at + GRACE, audit).await.unwrap();
        let just_before = copied_at + GRACE.saturating_sub(Duration::from_micros(1));
        assert!(fixture.sweep_blobs(just_before).await.is_empty());
        assert_eq!(copy.referred_blobs(None, 10).unwrap().len(), 1);
        assert_eq!(fixture.sweep_blobs(copied_at + GRACE).await.len(), 1);
    }

    async fn a_damaged_database_and_one_of_a_newer_program_are_told(fixture: &Fixture, org: OrgId) {
        for _ in 0..40 {
            fixture.queued(org).await;
        }
        let from = fixture.sqlite_file();
        let to = from.with_extension("copy");
        drop(DatabaseCopy::make(&from, &to).unwrap());
        let mut bytes = fs::read(&to).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 4_096].fill(0xff);
        fs::write(&to, bytes).unwrap();
        let told = DatabaseCopy::open(&to).and_then(|mut copy| copy.check());
        assert!(matches!(told, Err(Error::Corrupt(_) | Error::Database(_))), "{told:?}");

        fixture
            .store
            .db
            .write(|tx| {
                tx.exec(
                    "INSERT INTO migration (version, name, checksum) VALUES (9999, 'later', 'x')",
                    crate::db::vals![],
                )
            })
            .await.unwrap();
        let newer = from.with_extension("newer");
        let told = DatabaseCopy::make(&from, &newer).unwrap().check().unwrap_err();
        assert!(told.to_string().contains("newer than this program"), "{told}");
    }
}
