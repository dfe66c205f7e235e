//! Parts that the crates of a node share: the clock, random bytes, sealing under the master keys, and licenses. No SQL, no
//! HTTP.

mod clock;
mod license;
mod network;
mod sealing;

pub use clock::{Clock, NoRandomness, random};
pub use license::{
    InvalidLicense, InvalidLicenseKey, LicenseClaims, LicensePublicKey, LicenseSigner, read_license,
};
pub use network::network;
pub use sealing::{
    InvalidKey, MasterKey, SealContext, SealError, Sealer, derived_key, from_hex, hex, key_of,
};
