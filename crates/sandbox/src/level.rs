//! Level of confinement.

use serde::{Deserialize, Serialize};

/// Level of confinement, from none upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Level {
    /// No confinement: only where the operator insists.
    None,
    /// Landlock and seccomp, in the host's namespaces.
    Landlock,
    /// Own user, mount, pid, network, ipc and uts namespaces, besides Landlock and seccomp.
    Namespaces,
}

impl Level {
    /// The name in the configuration, in `worker_started` and in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Namespaces => "namespaces",
        }
    }
}
