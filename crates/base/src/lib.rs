//! Shared parts of a node: the clock, random bytes, sealing with the master keys, licenses, spawning of tasks, and retries when
//! file descriptors run out. No SQL, no HTTP.

mod clock;
pub mod descriptors;
mod license;
mod network;
mod sealing;
mod tasks;

pub use clock::{CREDENTIAL_LOOKUP, Clock, ClockFault, NoRandomness, random};
pub use license::{
    InvalidLicense, InvalidLicenseKey, LicenseClaims, LicensePublicKey, LicenseSigner, read_license,
};
pub use network::network;
pub use sealing::{
    InvalidKey, MasterKey, SealContext, SealError, Sealer, derived_key, from_hex, hex, key_of,
};
pub use tasks::{lasting_thread, spawn_lasting, spawn_short};
