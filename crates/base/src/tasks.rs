//! Tasks and threads of a node. A lasting one runs until the node stops. If it panics, the process exits: without its heartbeat
//! or its dispatcher, a node would stay ready and do no work. Another node, or the next start of this one, resumes the runs, as
//! after any crash.

use std::{
    future::{Future, poll_fn},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    process,
    thread::{self, JoinHandle},
};

use tokio_util::task::TaskTracker;

/// Exit code of a process after a lasting task panicked. Service managers restart such a process.
const PANICKED: i32 = 70;

/// Spawns a task that lasts as long as the node. A panic of the task ends the process, and the log then names the task.
pub fn spawn_lasting(
    tracker: &TaskTracker,
    name: &'static str,
    task: impl Future<Output = ()> + Send + 'static,
) {
    // Boxed, so that the code of the scheduler is compiled once and not per task.
    spawn_boxed(tracker, name, Box::pin(task));
}

#[expect(clippy::disallowed_methods, reason = "one of the two places that spawn tasks")]
fn spawn_boxed(
    tracker: &TaskTracker,
    name: &'static str,
    mut task: Pin<Box<dyn Future<Output = ()> + Send>>,
) {
    tracing::debug!(task = name, "starting a task of the node");
    tracker.spawn(async move {
        or_end(name, || plant_panic(name));
        poll_fn(|context| or_end(name, || task.as_mut().poll(context))).await;
    });
}

/// Spawns a task that ends with one piece of work, such as a run. The caller handles its panic.
#[expect(clippy::disallowed_methods, reason = "one of the two places that spawn tasks")]
pub fn spawn_short<T: Send + 'static>(
    tracker: &TaskTracker,
    task: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tracker.spawn(task)
}

/// Starts a thread that lasts as long as the node. A panic of the thread ends the process, and the log then names the
/// thread.
///
/// # Errors
/// The system has no room for another thread.
pub fn lasting_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    tracing::debug!(task = name, "starting a thread of the node");
    let own_name = name.to_owned();
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        or_end(&own_name, || {
            plant_panic(&own_name);
            work();
        });
    })
}

/// Returns the result of `work`. If `work` panics, the process ends.
fn or_end<T>(name: &str, work: impl FnOnce() -> T) -> T {
    // Unwind safety does not matter: the process exits, so the state is never used again.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done,
        Err(_panic) => {
            // The message of a panic may quote the data that was processed, so we log only its location.
            tracing::error!(
                task = name,
                "a task of the node panicked: the process ends, because a node without this task does only a part of \
                 its work"
            );
            process::exit(PANICKED);
        }
    }
}

/// Panics if a test has planted a panic in this task. Release builds do not have this.
#[cfg(debug_assertions)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test kills one task of a real node, which it reaches through the environment alone"
)]
fn plant_panic(name: &str) {
    let planted = std::env::var_os("SORTIE_TEST_PANIC_IN");
    assert!(planted.is_none_or(|planted| planted != name), "planted by a test");
}

#[cfg(not(debug_assertions))]
const fn plant_panic(_name: &str) {}
