//! Random bytes of a node. In a simulation they come from its seed.

use crate::kit::hooks;
use sortie_api::Refusal;

/// Returns `N` unpredictable bytes from the kernel.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    if hooks::fill(&mut bytes) {
        return Ok(bytes);
    }
    sortie_base::random().map_err(Refusal::internal)
}
