//! Confined commands in a working directory: the only crate with `unsafe`, and the only one that starts processes.

mod path;
mod types;
mod uids;
mod workdir;

pub use path::{InvalidPath, RelPath};
pub use types::{
    Backend, Capabilities, Command, Enforcement, Error, ExitKind, Finished, Level, Limits, Sandbox, Spec,
    StreamOutput, Usage,
};
pub use workdir::{Entry, EntryKind, FileError, Workdir};
