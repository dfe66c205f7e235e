//! Failures of calls that a test has planned.

use std::collections::HashMap;

use super::calls::Call;

/// Failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and the answer is 500. It is not kept under the key.
    ErrorBefore,
    /// Nothing is done, and the answer is 500. That answer is kept under the key.
    ErrorKept,
    /// The call is done, and the answer is 500. That answer is kept under the key.
    ErrorAfter,
    /// Nothing is done, and the answer is 429.
    TooMany,
    /// Nothing is done, and the connection is closed without an answer.
    LostBefore,
    /// The call is done, and the connection is closed without an answer.
    LostAfter,
    /// Nothing is done before [`release`](super::StripeDouble::release). Then the call is done and answered.
    HeldBefore,
    /// The call is done, and answered after [`release`](super::StripeDouble::release).
    HeldAfter,
}

/// Failures that are still to come.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Failures by call, each with the number of calls before it.
    planned: HashMap<Call, Vec<(usize, Fault)>>,
    /// Failure of every call.
    always: Option<Fault>,
}

impl Faults {
    pub(super) fn plan(&mut self, call: Call, nth: usize, fault: Fault) {
        self.planned
            .entry(call)
            .or_default()
            .push((nth.saturating_sub(1), fault));
    }

    pub(super) fn always(&mut self, fault: Option<Fault>) {
        self.always = fault;
    }

    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Counts a call. Returns its planned failure, if any.
    pub(super) fn take(&mut self, call: Call) -> Option<Fault> {
        let planned = self.planned.entry(call).or_default();
        let due = planned.iter().position(|(before, _)| *before == 0);
        let fault = due.map(|at| planned.remove(at).1);
        for (before, _) in planned.iter_mut() {
            *before = before.saturating_sub(1);
        }
        fault.or(self.always)
    }
}
