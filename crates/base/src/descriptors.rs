//! Patience with a process that has no file descriptor left: others give theirs back, and what needs one is tried again.

use std::{error::Error, fs::File, io, time::Duration};

use tokio::time::Instant;

/// Pause between two tries.
pub const PAUSE: Duration = Duration::from_millis(250);

/// Time for which a descriptor is waited for.
pub const TIME: Duration = Duration::from_mins(1);

/// Error numbers of a process, and of a machine, that has no descriptor left: `EMFILE` and `ENFILE` of Linux.
const NO_DESCRIPTOR: [i32; 2] = [24, 23];

/// Returns true where an error says that there is no file descriptor.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    error
        .raw_os_error()
        .is_some_and(|number| NO_DESCRIPTOR.contains(&number))
}

/// Returns true where a text quotes an error of the system that says so, in the words of the standard library.
pub fn names_full_table(text: &str) -> bool {
    NO_DESCRIPTOR
        .iter()
        .any(|number| text.contains(&format!("(os error {number})")))
}

/// Returns true where an error was caused by one that says so, or where there is no descriptor now. Some failures do not name
/// theirs, as that of a look-up of a host.
pub fn lacks_descriptor(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if names_full_table(&error.to_string()) {
            return true;
        }
        cause = error.source();
    }
    File::open("/dev/null").is_err_and(|error| is_out_of_descriptors(&error))
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

    #[test]
    fn what_the_kernel_says_of_a_full_table_is_understood() {
        for (number, is_out) in [(24, true), (23, true), (2, false)] {
            let error = io::Error::from_raw_os_error(number);
            assert_eq!(is_out_of_descriptors(&error), is_out, "{error}");
            assert_eq!(lacks_descriptor(&error), is_out, "{error}");
            let quoted = io::Error::other(format!("no address: {error}"));
            assert_eq!(lacks_descriptor(&quoted), is_out, "{quoted}");
        }
        assert!(!is_out_of_descriptors(&io::Error::other("Too many open files")));
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
