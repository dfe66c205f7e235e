//! Limits for the memory and time that a parser may take for an input.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::memory;

/// Number of attempts that must all be too slow before an input fails.
const READINGS: usize = 3;

/// A limit that grows linearly with the input.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Limit for an empty input.
    pub base: usize,
    /// Increase per byte.
    pub per_byte: usize,
}

/// Limits for the memory and time of a parser.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of allocated bytes at any time.
    pub memory: Line,
    /// Nanoseconds of CPU time, about twenty times the maximum of the corpus.
    pub time: Line,
}

impl Line {
    /// Returns the limit for an input of `bytes` bytes.
    pub fn at(self, bytes: usize) -> usize {
        self.base.saturating_add(self.per_byte.saturating_mul(bytes))
    }
}

impl Bounds {
    /// Returns the result of `parse`, which reads `bytes` bytes.
    ///
    /// The memory count is the same on every machine. Time is the CPU time of this thread, so that other work of the machine does
    /// not count. An input is too slow only if three attempts are.
    ///
    /// # Panics
    /// If the time is exceeded. Exceeding the memory limit aborts the process.
    pub fn hold<T>(&self, bytes: usize, parse: impl Fn() -> T) -> T {
        let memory = self.memory.at(bytes);
        let allowed = Duration::from_nanos(self.time.at(bytes) as u64);
        let mut least = Duration::MAX;
        for _ in 0..READINGS {
            let began = processor_time();
            let result = memory::within(memory, &parse);
            let spent = processor_time().saturating_sub(began);
            if spent <= allowed {
                return result;
            }
            least = least.min(spent);
        }
        panic!("time: {bytes} bytes of input took {least:?} at least, allowed are {allowed:?}");
    }
}

/// Returns the CPU time of this thread so far.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
