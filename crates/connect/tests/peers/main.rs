//! Connections against servers that nobody here wrote. `scripts/peers` installs them.

mod oauth;
mod rig;
mod tools;
