//! Output of the process of a node.

use std::{
    io::{BufRead, BufReader, Read},
    process::Child,
    sync::Arc,
    thread,
};

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout};

use crate::PATIENCE;

/// Both output streams of a process, line by line.
#[derive(Debug)]
pub(super) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    /// Number of lines.
    count: watch::Receiver<usize>,
}

impl Log {
    pub(super) fn of(child: &mut Child) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (told, count) = watch::channel(0);
        let told = Arc::new(told);
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|stream| Box::new(stream) as _),
            child.stderr.take().map(|stream| Box::new(stream) as _),
        ];
        for stream in streams.into_iter().flatten() {
            let (lines, told) = (Arc::clone(&lines), Arc::clone(&told));
            thread::spawn(move || {
                for line in BufReader::new(stream)
                    .split(b'\n')
                    .map_while(std::result::Result::ok)
                {
                    let mut lines = lines.lock();
                    lines.push(String::from_utf8_lossy(&line).into_owned());
                    told.send_replace(lines.len());
                }
            });
        }
        Self { lines, count }
    }

    pub(super) fn text(&self) -> String {
        let lines = self.lines.lock();
        lines.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// The first result of `find` on a line. Fails if the process ends first.
    pub(super) async fn wait_for<T>(&self, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        let mut count = self.count.clone();
        loop {
            let open = count.has_changed().is_ok();
            count.mark_unchanged();
            let found = {
                let lines = self.lines.lock();
                lines.iter().find_map(|line| find(line))
            };
            if let Some(found) = found {
                return Ok(found);
            }
            ensure!(open, "the process ended:\n{}", self.text());
            let changed = timeout(PATIENCE, count.changed()).await;
            // The top of the loop notices closed channels, after a last check of the lines.
            let _closed = changed.with_context(|| format!("the process is silent:\n{}", self.text()))?;
        }
    }

    /// Returns when both streams are closed.
    pub(super) async fn ended(&self) {
        let mut count = self.count.clone();
        while count.changed().await.is_ok() {}
    }
}
