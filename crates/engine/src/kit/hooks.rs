//! Parts of a node that a simulation replaces. Outside of tests nothing is replaced.

#[cfg(test)]
pub(crate) use crate::simulation::{fill, is_running, tools};
#[cfg(not(test))]
pub(crate) use production::{fill, is_running, tools};

#[cfg(not(test))]
mod production {
    use std::sync::Arc;

    use sortie_agent::Tool;
    use sortie_store::runs::Fence;

    /// Whether this thread runs a simulation. Simulated runs have no commands and no files.
    pub(crate) const fn is_running() -> bool {
        false
    }

    /// Fills `bytes` from the seed of the simulation. False if there is none.
    pub(crate) const fn fill(_bytes: &mut [u8]) -> bool {
        false
    }

    /// Returns the tools of a simulated attempt.
    pub(crate) const fn tools(_fence: Fence) -> [Arc<dyn Tool>; 0] {
        []
    }
}
