//! Clocks that jump while nodes work: libfaketime stands between the real binary and the clock of the day. What runs
//! evenly (the monotonic clock) it leaves alone, as an operating system does.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result};
use sortie_testkit::Database;
use tempfile::TempDir;

use crate::{
    Checked,
    audit::Excuse,
    begin, both_databases, end,
    world::{MOST_NODES, Setup},
};

both_databases![clocks_jump];

/// Paths of the library of the package `faketime`.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

/// The clocks of the nodes of a world, each a file that libfaketime reads at every look.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    folder: Arc<TempDir>,
    library: &'static str,
}

impl Clocks {
    /// None where the library is not installed.
    fn new() -> Result<Option<Self>> {
        let Some(library) = LIBRARIES.into_iter().find(|path| Path::new(path).exists()) else {
            return Ok(None);
        };
        let folder = Arc::new(tempfile::tempdir()?);
        Ok(Some(Self { folder, library }))
    }

    fn file(&self, nth: usize) -> PathBuf {
        self.folder.path().join(format!("clock{nth}"))
    }

    /// From here on the day of this node is so many seconds later than it is.
    fn set(&self, nth: usize, seconds: i64) -> Result<()> {
        // Replaced at once: nobody reads half of it.
        let new = self.folder.path().join("new");
        fs::write(&new, format!("{seconds:+}s\n"))?;
        fs::rename(new, self.file(nth)).context("the clock")
    }

    /// Returns the variables that a node is started with; the clock has to be [set](Self::set) before.
    pub(crate) fn environment(&self, nth: usize) -> Vec<(String, String)> {
        let file = self.file(nth).display().to_string();
        [
            ("LD_PRELOAD", self.library),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_DISABLE_SHM", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }
}

async fn clocks_jump(database: Database) -> Checked {
    let Some(clocks) = Clocks::new()? else {
        println!("NOT CHECKED: clock jumps: the package faketime is not installed");
        return Ok(());
    };
    let all = 0..MOST_NODES;
    for nth in all.clone() {
        clocks.set(nth, 0)?;
    }
    let setup = Setup {
        clocks: Some(clocks.clone()),
        ..Setup::default()
    };
    let (mut world, mut load) = begin(database, "clocks_jump", setup).await?;
    for _ in 0..4 {
        load.follow();
        // Beyond a lease in both directions, and within what a receiver of callbacks puts up with. What became due
        // while the clock was ahead waits for that time: forward it is no more than the audit has patience for.
        let seconds = world.random.i64(-120..30);
        let alone = world.random.bool().then(|| world.some_node());
        println!(
            "{}: {seconds:+} s off",
            alone.map_or("all".to_owned(), |nth| format!("node {nth}"))
        );
        for nth in all.clone().filter(|nth| alone.is_none_or(|alone| alone == *nth)) {
            clocks.set(nth, seconds)?;
        }
        // Some of these are long enough for a heartbeat, and together they are longer than a lease.
        let pause = world.moment(1_500..5_000);
        tokio::time::sleep(pause).await;
    }
    for nth in all {
        clocks.set(nth, 0)?;
    }
    let excuse = Excuse {
        moved_clock: true,
        ..Excuse::default()
    };
    end(world, load, excuse).await
}
