//! A paused clock that moves on while the run and its provider wait.

use std::{sync::mpsc, time::Duration};

/// Length of a look at whether anything happens, in real time, and step of the clock meanwhile.
const LOOK: Duration = Duration::from_millis(1);
/// Looks without progress after which the clock moves faster.
const PATIENCE: u32 = 50;
/// The longest step.
const LONGEST: Duration = Duration::from_secs(5);

/// Moves the clock on for ever: by the waits that the run has begun, and in steps that grow while `progress` stays the
/// same, because the provider pauses or the run waits in silence.
///
/// Tokio would move it by itself, but also while bytes are on their way between the run and its provider, so that a
/// time-out came instead of an answer. It does not as long as a blocking task runs.
pub(super) async fn moves_on(begun: impl Fn() -> Duration, progress: impl Fn() -> usize) {
    let (mut waited, mut seen, mut idle) = (Duration::ZERO, progress(), 0);
    loop {
        let looked = tokio::task::spawn_blocking(|| {
            let (_sender, nothing) = mpsc::channel::<()>();
            // An error in any case: after the time, as the sender lives.
            nothing.recv_timeout(LOOK).is_err()
        });
        looked.await.unwrap();
        let (now, all) = (progress(), begun());
        idle = if now == seen { idle + 1 } else { 0 };
        let growing = LOOK * 2_u32.saturating_pow(u32::saturating_sub(idle, PATIENCE).min(16));
        tokio::time::advance(all.saturating_sub(waited).max(growing.min(LONGEST))).await;
        (waited, seen) = (all, now);
    }
}
