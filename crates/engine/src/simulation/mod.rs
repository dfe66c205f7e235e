//! A deterministic simulation of a cluster: whole nodes on one thread, a database in memory, and a seed that decides about the
//! network, the clocks, the crashes and the clients.
//!
//! Every node is an [`Engine`](crate::Engine) as it runs in production, over a simulated server of the store, which runs the real
//! commands. Time advances only when every task waits, so a schedule of minutes takes milliseconds, and the same seed gives the
//! same schedule. The invariants are checked while a schedule runs and at its end: see [`witness`].
//!
//! `make simulate` runs many schedules, and prints the seed of one that fails.

mod clients;
mod effect;
mod plan;
mod schedule;
mod tests;
mod witness;
mod world;

use std::{cell::RefCell, sync::Arc};

use fastrand::Rng;
use sortie_agent::Tool;
use sortie_store::runs::Fence;

use self::witness::Witness;

/// State of the schedule on this thread.
struct Scene {
    /// Source of all values that are random in production.
    rng: Rng,
    witness: Witness,
}

thread_local! {
    static SCENE: RefCell<Option<Scene>> = const { RefCell::new(None) };
}

/// Begins a schedule on this thread.
fn begin(seed: u64, witness: &Witness) {
    let scene = Scene {
        rng: Rng::with_seed(seed),
        witness: witness.clone(),
    };
    SCENE.set(Some(scene));
}

/// Ends the schedule of this thread.
fn end() {
    SCENE.set(None);
}

/// Whether this thread runs a schedule.
pub(crate) fn is_running() -> bool {
    SCENE.with_borrow(Option::is_some)
}

/// Fills `bytes` from the seed of the schedule. Returns false outside of a schedule.
pub(crate) fn fill(bytes: &mut [u8]) -> bool {
    SCENE.with_borrow_mut(|scene| {
        let Some(scene) = scene else {
            return false;
        };
        scene.rng.fill(bytes);
        true
    })
}

/// Returns the tools of a new attempt.
pub(crate) fn tools(fence: Fence) -> Vec<Arc<dyn Tool>> {
    SCENE.with_borrow(|scene| match scene {
        Some(scene) => {
            scene.witness.attempt(fence);
            vec![effect::outside(fence, &scene.witness)]
        }
        None => Vec::new(),
    })
}

/// Time since the schedule of this thread began.
fn elapsed() -> std::time::Duration {
    SCENE.with_borrow(|scene| {
        scene
            .as_ref()
            .map(|scene| scene.witness.elapsed())
            .unwrap_or_default()
    })
}
