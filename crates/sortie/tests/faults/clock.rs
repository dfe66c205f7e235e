//! Clocks that jump while nodes work: libfaketime stands between the real binary and the clock of the day. What runs
//! evenly (the monotonic clock) it leaves alone, as an operating system does.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use sortie_testkit::Database;
use tempfile::TempDir;

use crate::{Checked, audit::Excuse, begin, both_databases, end, world::Setup};

both_databases![clocks_jump];

/// Where the package `faketime` has its library.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

/// The clock of all nodes of a world, by the file that libfaketime reads at each look.
#[derive(Debug)]
struct Clock {
    folder: TempDir,
}

impl Clock {
    fn new() -> Result<Self> {
        let clock = Self {
            folder: tempfile::tempdir()?,
        };
        clock.set(0)?;
        Ok(clock)
    }

    /// From here on the day is this many seconds later than it is.
    fn set(&self, seconds: i64) -> Result<()> {
        // Replaced at once: nobody reads half of it.
        let new = self.folder.path().join("new");
        fs::write(&new, format!("{seconds:+}s\n"))?;
        fs::rename(new, self.folder.path().join("clock"))?;
        Ok(())
    }

    fn environment(&self, library: &str) -> Vec<(String, String)> {
        let file = self.folder.path().join("clock").display().to_string();
        [
            ("LD_PRELOAD", library),
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
    let Some(library) = LIBRARIES.into_iter().find(|path| Path::new(path).exists()) else {
        println!("NOT CHECKED: clock jumps: the package faketime is not installed");
        return Ok(());
    };
    let clock = Clock::new()?;
    let setup = Setup {
        environment: clock.environment(library),
        ..Setup::default()
    };
    let (mut world, mut load) = begin(database, "clocks_jump", setup).await?;
    for _ in 0..4 {
        let pause = world.moment(800..2_500);
        tokio::time::sleep(pause).await;
        load.follow();
        // Beyond a lease in both directions, and within what a receiver of callbacks puts up with. What became due while the
        // clock was ahead waits for that time: forward it is no more than the audit has patience for.
        let seconds = world.random.i64(-120..30);
        println!("the clock is {seconds:+} s off");
        clock.set(seconds).context("the clock")?;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    clock.set(0)?;
    let excuse = Excuse {
        lost_workers: true,
        moved_clock: true,
        ..Excuse::default()
    };
    end(world, load, excuse).await
}
