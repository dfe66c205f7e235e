//! Retries for a process that has run out of file descriptors: other work closes its own, so a later attempt can succeed.

use std::{error::Error, fs::File, io, time::Duration};

use tokio::time::Instant;

/// Pause between two attempts.
pub const PAUSE: Duration = Duration::from_millis(250);

/// Maximum time to wait for a descriptor.
pub const TIME: Duration = Duration::from_mins(1);

/// Error numbers for a full table of descriptors, of the process and of the machine: `EMFILE` and `ENFILE` of Linux.
const NO_DESCRIPTOR: [i32; 2] = [24, 23];

/// Whether an error, or one that it wraps, means that no file descriptor is available.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let is_named = error
        .raw_os_error()
        .is_some_and(|number| NO_DESCRIPTOR.contains(&number));
    // `source` of such an error skips the wrapped error and returns its source, so we check the wrapped one here.
    is_named
        || error
            .get_ref()
            .is_some_and(|within| is_caused_by_full_table(within))
}

/// Whether a text quotes such a system error in the wording of the standard library, with or without its number. For reasons that
/// another process or an error message for users has passed on.
pub fn names_full_table(text: &str) -> bool {
    NO_DESCRIPTOR.iter().any(|number| {
        let quoted = io::Error::from_raw_os_error(*number).to_string();
        let words = quoted.split(" (os error").next().unwrap_or_default();
        text.ends_with(words) || text.contains(&format!("(os error {number})"))
    })
}

/// Whether such an error caused `error`, or no descriptor is available now. Some failures do not name their cause, for example a
/// failed host lookup.
pub fn lacks_descriptor(error: &(dyn Error + 'static)) -> bool {
    is_caused_by_full_table(error)
        || File::open("/dev/null").is_err_and(|error| is_out_of_descriptors(&error))
}

/// Whether an error, or one of its sources, is such a system error or quotes one.
fn is_caused_by_full_table(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let is_named = match error.downcast_ref::<io::Error>() {
            Some(error) => is_out_of_descriptors(error),
            // A library may have kept only the message.
            None => names_full_table(&error.to_string()),
        };
        if is_named {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Remaining attempts for an operation that needs a file descriptor.
#[derive(Debug)]
pub struct Patience {
    until: Instant,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            until: Instant::now() + TIME,
        }
    }
}

impl Patience {
    /// Waits before the next attempt. Returns false if the time is used up.
    pub async fn wait(&self) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error that does not mention its cause.
    #[derive(Debug, thiserror::Error)]
    #[error("it failed")]
    struct Wrapping(#[source] io::Error);

    #[test]
    fn what_the_kernel_says_of_a_full_table_is_understood() {
        for (number, is_out) in [(24, true), (23, true), (2, false)] {
            let error = || io::Error::from_raw_os_error(number);
            assert_eq!(is_out_of_descriptors(&error()), is_out, "{}", error());
            // Wrapped once and twice, as libraries for TLS and HTTP do.
            let wrapped = io::Error::other(error());
            assert_eq!(is_out_of_descriptors(&wrapped), is_out, "{wrapped}");
            let wrapped = io::Error::new(io::ErrorKind::NotConnected, Wrapping(io::Error::other(error())));
            assert_eq!(is_out_of_descriptors(&wrapped), is_out, "{wrapped}");
            assert_eq!(lacks_descriptor(&Wrapping(error())), is_out);
            // Only the message, with and without the number.
            let quoted = format!("no address: {}", error());
            let (words, _) = quoted.split_once(" (os error").unwrap();
            for text in [quoted.as_str(), words] {
                assert_eq!(names_full_table(text), is_out, "{text}");
                assert_eq!(
                    lacks_descriptor(&io::Error::other(text.to_owned())),
                    is_out,
                    "{text}"
                );
            }
        }
        assert!(!names_full_table(
            "Too many open files is what the book is called"
        ));
    }

    #[test]
    fn a_full_table_is_found_behind_any_error() {
        let error = io::Error::other("temporary failure in name resolution");
        assert!(!lacks_descriptor(&error));
        let mut held = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            held.push(file);
        }
        assert!(lacks_descriptor(&error));
    }

    #[tokio::test(start_paused = true)]
    async fn a_descriptor_is_waited_for_for_a_minute() {
        let (patience, begun) = (Patience::default(), Instant::now());
        while patience.wait().await {}
        assert_eq!(begun.elapsed(), TIME);
    }
}
