//! Parts that the crates of a node share: the clock, random bytes, and sealing under the master keys. No SQL, no HTTP.

mod clock;
mod network;
mod sealing;

pub use clock::{Clock, NoRandomness, random};
pub use network::network;
pub use sealing::{InvalidKey, MasterKey, SealContext, SealError, Sealer, from_hex, hex, key_of};
