//! Reasons against the resumption of a run.

use sortie_agent::journal::OpenCall;

/// Reason not to resume a run after its worker was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A call was under way that may have had an effect outside of the run.
    UncertainCall(OpenCall),
    /// Something that the run needs is gone: a sentence for people, and the last completed turn.
    Gone(&'static str, u32),
    /// Two workers in a row were lost in this step.
    LostTwice(u32),
}
