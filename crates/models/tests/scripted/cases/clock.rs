//! A paused clock that advances while the run and its provider wait.

use std::{sync::mpsc, time::Duration};

/// Interval, in real time, to check for progress. The clock advances by the same time.
const LOOK: Duration = Duration::from_millis(1);
/// Number of intervals without progress after which the steps grow.
const PATIENCE: u32 = 50;
/// Maximum step.
const LONGEST: Duration = Duration::from_secs(5);

/// Advances the clock forever: by the delays that the run has started, and in growing steps while `progress` does not change,
/// because the provider pauses or the run waits silently.
///
/// Tokio would advance it automatically, but also while bytes are in flight between the run and its provider, which would cause
/// time-outs instead of answers. A running blocking task disables that.
pub(super) async fn moves_on(begun: impl Fn() -> Duration, progress: impl Fn() -> usize) {
    let (mut waited, mut seen, mut idle) = (Duration::ZERO, progress(), 0);
    loop {
        let looked = tokio::task::spawn_blocking(|| {
            let (_sender, nothing) = mpsc::channel::<()>();
            // Always a time-out, because the sender is still alive.
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
