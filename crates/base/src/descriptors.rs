//! Patience with a process that has no file descriptor left: others give theirs back, and what needs one is tried again.

use std::{error::Error, fs::File, io, time::Duration};

use tokio::time::Instant;

/// Pause between two tries.
pub const PAUSE: Duration = Duration::from_millis(250);

/// Time for which a descriptor is waited for.
pub const TIME: Duration = Duration::from_mins(1);

/// Error numbers of a process, and of a machine, that has no descriptor left: `EMFILE` and `ENFILE` of Linux.
const NO_DESCRIPTOR: [i32; 2] = [24, 23];

/// Returns true where an error, or one that it wraps, says that there is no file descriptor.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let is_named = error
        .raw_os_error()
        .is_some_and(|number| NO_DESCRIPTOR.contains(&number));
    // The source of such an error is that of what it wraps, and not what it wraps.
    is_named
        || error
            .get_ref()
            .is_some_and(|within| is_caused_by_full_table(within))
}

/// Returns true where a text quotes an error of the system that says so, in the words of the standard library, with or
/// without its number. For reasons that have passed through another process, or through words for users.
pub fn names_full_table(text: &str) -> bool {
    NO_DESCRIPTOR.iter().any(|number| {
        let quoted = io::Error::from_raw_os_error(*number).to_string();
        let words = quoted.split(" (os error").next().unwrap_or_default();
        text.ends_with(words) || text.contains(&format!("(os error {number})"))
    })
}

/// Returns true where an error was caused by one that says so, or where there is no descriptor now. Some failures do not name
/// theirs, as that of a look-up of a host.
pub fn lacks_descriptor(error: &(dyn Error + 'static)) -> bool {
    is_caused_by_full_table(error)
        || File::open("/dev/null").is_err_and(|error| is_out_of_descriptors(&error))
}

/// Returns true where an error, or one of its sources, is an error of the system that says so, or quotes one.
fn is_caused_by_full_table(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let is_named = match error.downcast_ref::<io::Error>() {
            Some(error) => is_out_of_descriptors(error),
            // A library may have kept the words alone.
            None => names_full_table(&error.to_string()),
        };
        if is_named {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Tries left for something that needs a file descriptor.
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
    /// Waits before another try. Returns false where the time is over.
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

    /// Says nothing of its cause.
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
            // Words alone, with the number and without it.
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
