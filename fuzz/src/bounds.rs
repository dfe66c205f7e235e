//! The most memory and time that a parser may take for an input.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::memory;

/// Readings of one input that must all be too slow before it counts.
const READINGS: usize = 3;

/// A bound that grows with the input.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// For an input of no bytes.
    pub base: usize,
    /// For each byte more.
    pub per_byte: usize,
}

/// Most memory and time that a parser may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes that may be live at the same time.
    pub memory: Line,
    /// Nanoseconds of processor time, about twenty times what the slowest inputs of the corpus take.
    pub time: Line,
}

impl Line {
    /// The bound for an input of `bytes` bytes.
    pub fn at(self, bytes: usize) -> usize {
        self.base.saturating_add(self.per_byte.saturating_mul(bytes))
    }
}

impl Bounds {
    /// The result of `parse`, which reads `bytes` bytes.
    ///
    /// Memory is counted and means the same on every machine. Time is that of this thread on a processor, so that other
    /// work of the machine does not count, and an input is too slow only when three readings of it are.
    ///
    /// # Panics
    /// When the time is exceeded. More memory than allowed ends the process.
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

/// Processor time of this thread so far.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
