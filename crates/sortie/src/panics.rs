//! Log line of a panic: its place and thread, never its message.
//!
//! The message of a panic may quote content of runs, which readers of the log must not see.

use std::{
    panic::{self, Location},
    thread,
};

use crate::terminal;

/// From now on, logs panics without their messages.
pub(crate) fn install() {
    panic::set_hook(Box::new(|panicked| {
        let thread = thread::current();
        terminal::note(&told(panicked.location(), thread.name()));
    }));
}

fn told(location: Option<&Location<'_>>, thread: Option<&str>) -> String {
    let thread = thread.unwrap_or("without a name");
    match location {
        Some(location) => format!("sortie: thread {thread} panicked at {location}"),
        None => format!("sortie: thread {thread} panicked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_by_its_place_and_thread() {
        let here = Location::caller();
        let text = told(Some(here), Some("worker"));
        assert!(text.starts_with("sortie: thread worker panicked at "), "{text}");
        assert!(text.contains(&format!("panics.rs:{}:", here.line())), "{text}");
        assert_eq!(told(None, None), "sortie: thread without a name panicked");
    }
}
