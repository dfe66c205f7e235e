//! Requests of the user or the system to stop a command.

use futures_util::future::BoxFuture;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Wish that a command stops.
pub(crate) type Interruption = BoxFuture<'static, ()>;

/// Resolves when the user (Ctrl-C), the system (SIGTERM) or the end of the terminal (SIGHUP) asks this process to stop,
/// from now on.
pub(crate) fn interruption() -> Interruption {
    // If a signal cannot be caught, it keeps its default effect and ends the process.
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let hangup = hangup();
    Box::pin(async move {
        match (interrupt, terminate) {
            (Ok(mut interrupt), Ok(mut terminate)) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    () = hung_up(hangup) => {}
                }
            }
            _ => std::future::pending().await,
        }
    })
}

async fn hung_up(hangup: Option<Signal>) {
    match hangup {
        Some(mut hangup) => {
            hangup.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Listens for SIGHUP, unless this process was started to outlive its terminal.
fn hangup() -> Option<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if ignores_hangup(&status) {
        return None;
    }
    signal(SignalKind::hangup()).ok()
}

/// Whether a process ignores SIGHUP, as `nohup` has it, by its `/proc/PID/status`. Signal 1 is the lowest bit.
fn ignores_hangup(status: &str) -> bool {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_seen_in_the_signals_that_are_ignored() {
        let status = |mask: &str| format!("Name:\tsortie\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        assert!(ignores_hangup(&status("0000000000001001")));
        assert!(!ignores_hangup(&status("0000000000001000")));
        assert!(!ignores_hangup(""));
    }
}
