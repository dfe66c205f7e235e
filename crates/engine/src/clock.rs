//! Time and randomness, injected, so that tests can move the one and fix the other.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use sortie_api::Timestamp;

use crate::Error;

/// Where the node reads the time.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The machine's clock.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `at` until [`set`](Self::set) moves it.
    pub fn manual(at: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(AtomicI64::new(at.as_micros()))))
    }

    /// Moves a manual clock; the machine's clock cannot be moved.
    pub fn set(&self, at: Timestamp) {
        if let Source::Manual(micros) = &self.0 {
            micros.store(at.as_micros(), Ordering::SeqCst);
        }
    }

    /// The time now.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the machine's clock is read"
    )]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
            }
            Source::Manual(micros) => Timestamp::from_micros(micros.load(Ordering::SeqCst)),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::System => "Clock(system)",
            Source::Manual(_) => "Clock(manual)",
        })
    }
}

/// `N` bytes that nobody can guess, from the kernel.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Internal(format!("the kernel gives no random bytes: {error}")))?;
    Ok(bytes)
}
