//! Rules for the paths that an operator adds to those that commands may read.

use std::{
    collections::VecDeque,
    ffi::OsStr,
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Component, Path, PathBuf},
};

use rustix::fs::{Access, access};

use super::secrets;
use crate::types::Error;

const ITS_OWN: &str = "the sandbox has its own there";
const CREDENTIALS: &str = "credentials of the host lie there";
/// Paths that are never shown, nor anything in them, nor a folder that contains them.
const NEVER: &[(&str, &str)] = &[
    ("/dev", ITS_OWN),
    ("/proc", ITS_OWN),
    ("/tmp", ITS_OWN),
    ("/var/tmp", ITS_OWN),
    ("/work", ITS_OWN),
    ("/sys", "it describes the host"),
    ("/run", "sockets and credentials of the host's services lie there"),
    (
        "/var/run",
        "sockets and credentials of the host's services lie there",
    ),
    ("/etc/shadow", CREDENTIALS),
    ("/etc/shadow-", CREDENTIALS),
    ("/etc/gshadow", CREDENTIALS),
    ("/etc/gshadow-", CREDENTIALS),
    ("/etc/security/opasswd", CREDENTIALS),
    ("/etc/sudoers", CREDENTIALS),
    ("/etc/sudoers.d", CREDENTIALS),
    ("/etc/ssh", CREDENTIALS),
    ("/etc/ssl/private", CREDENTIALS),
    ("/etc/pki/tls/private", CREDENTIALS),
    ("/etc/letsencrypt", CREDENTIALS),
    ("/etc/krb5.keytab", CREDENTIALS),
    ("/etc/wireguard", CREDENTIALS),
    ("/etc/NetworkManager", CREDENTIALS),
    ("/etc/cloud", CREDENTIALS),
    ("/etc/credstore", CREDENTIALS),
    ("/etc/credstore.encrypted", CREDENTIALS),
    ("/etc/docker", CREDENTIALS),
    ("/etc/containers", CREDENTIALS),
    ("/etc/kubernetes", CREDENTIALS),
    ("/etc/sortie", CREDENTIALS),
    ("/var/lib/cloud", CREDENTIALS),
    ("/var/lib/docker", CREDENTIALS),
    ("/var/lib/containerd", CREDENTIALS),
    ("/var/lib/kubelet", CREDENTIALS),
    ("/var/lib/systemd", CREDENTIALS),
    ("/var/lib/postgresql", CREDENTIALS),
    ("/var/lib/mysql", CREDENTIALS),
    ("/etc/group", ITS_OWN),
    ("/etc/hostname", ITS_OWN),
    ("/etc/hosts", ITS_OWN),
    ("/etc/nsswitch.conf", ITS_OWN),
    ("/etc/passwd", ITS_OWN),
    ("/etc/resolv.conf", ITS_OWN),
];
/// Home folders, which are not shown as a whole.
const OF_PEOPLE: &[&str] = &["/home", "/root"];
/// Names of folders and files with a person's keys.
const KEYS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".gcloud",
    ".netrc",
    ".git-credentials",
    NPMRC,
    ".pypirc",
];
/// Name of npm's settings. Packages come with such files as well.
const NPMRC: &str = ".npmrc";
/// Maximum number of files and folders that are checked for sockets and keys. The folder that exceeds it is still checked
/// completely.
const MOST_ENTRIES: usize = 20_000;

/// Checks that an additional path of the host may be shown to commands.
///
/// # Errors
/// The reason for a refusal, with a remedy.
pub fn check_readable(path: &Path, data_dir: &Path) -> Result<(), String> {
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.is_absolute() || !is_plain || path.to_str().is_none() {
        return Err("name it by its full path, as UTF-8 and without `..`".to_owned());
    }
    let target = fs::canonicalize(path)
        .map_err(|error| format!("{}; make it or leave it out", crate::hosts::words(&error)))?;
    for place in [path, &target] {
        if let Some(reason) = forbidden(place) {
            return Err(format!("{reason}; name a file or folder that holds no secrets"));
        }
    }
    let data_dir = fs::canonicalize(data_dir).or_else(|_not_made_yet| std::path::absolute(data_dir));
    if let Ok(data_dir) = data_dir
        && (target.starts_with(&data_dir) || data_dir.starts_with(&target))
    {
        return Err("the engine's data folder lies there; name another folder".to_owned());
    }
    match unfit_within(&target, MOST_ENTRIES) {
        Some(Unfit::Socket(socket)) => Err(format!(
            "commands could reach a service of the host by the socket {}; name a folder without sockets",
            socket.display()
        )),
        Some(Unfit::Keys(keys)) => Err(format!(
            "keys of a person lie there ({}); name a folder without them",
            keys.display()
        )),
        None => Ok(()),
    }
}

fn forbidden(path: &Path) -> Option<String> {
    let hit = NEVER
        .iter()
        .find(|(never, _)| path.starts_with(never) || Path::new(never).starts_with(path));
    if let Some((never, reason)) = hit {
        return Some(if path.starts_with(never) {
            (*reason).to_owned()
        } else {
            format!("{never} lies in it, and {reason}")
        });
    }
    if OF_PEOPLE.iter().any(|folder| Path::new(folder).starts_with(path)) {
        return Some("the folders of the host's users lie there".to_owned());
    }
    path.components()
        .any(|part| is_of_keys(part.as_os_str()))
        .then(|| "keys of a person lie there".to_owned())
}

fn is_of_keys(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| KEYS.contains(&name))
}

/// A file or folder that commands are not to reach.
enum Unfit {
    Socket(PathBuf),
    Keys(PathBuf),
}

/// The first socket at or below a path, or the first keys of a person below it. The path's own entries are all checked. No folder
/// is started after `most` entries.
fn unfit_within(path: &Path, most: usize) -> Option<Unfit> {
    let kind = fs::symlink_metadata(path).ok()?.file_type();
    if kind.is_socket() {
        return Some(Unfit::Socket(path.to_owned()));
    }
    let mut looked = 0;
    // Breadth first, so that the limit leaves out the deepest entries.
    let mut left = VecDeque::from([path.to_owned()]);
    while looked <= most
        && let Some(folder) = left.pop_front()
    {
        // A file has no entries.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            looked += 1;
            let path = entry.path();
            let name = entry.file_name();
            if is_of_keys(&name) && (name != NPMRC || secrets::is_npmrc_with_credential(&path)) {
                return Some(Unfit::Keys(path));
            }
            match entry.file_type() {
                Ok(kind) if kind.is_socket() => return Some(Unfit::Socket(path)),
                Ok(kind) if kind.is_dir() => left.push_back(path),
                Ok(_) | Err(_) => {}
            }
        }
    }
    None
}

/// Checks that the users of runs have the right to read the operator's paths.
pub(crate) fn all_readable(paths: &[PathBuf]) -> Result<(), Error> {
    // The runs of a root engine have separate users.
    let others = rustix::process::geteuid().is_root();
    let denied = paths.iter().find(|path| match fs::metadata(path) {
        Ok(metadata) if others => {
            let needed = if metadata.is_dir() { 0o005 } else { 0o004 };
            metadata.permissions().mode() & needed != needed
        }
        Ok(metadata) if metadata.is_dir() => access(*path, Access::READ_OK | Access::EXEC_OK).is_err(),
        Ok(_) => access(*path, Access::READ_OK).is_err(),
        Err(_) => true,
    });
    match denied {
        None => Ok(()),
        Some(path) => Err(Error::Unavailable {
            reason: format!(
                "commands cannot read {}, which is to be shown to them",
                path.display()
            ),
            hint:
                "Let all users of the host read it (chmod -R o+rX), or take it out of sandbox.readable_paths"
                    .to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_directly_in_a_folder_is_looked_at_whatever_its_size() {
        let place = tempfile::tempdir().unwrap();
        let inside = |name: &str| place.path().join(name);
        for folder in ["beside/.ssh", "deep/a", "deep/b/c/.ssh"] {
            fs::create_dir_all(inside(folder)).unwrap();
        }
        for number in 0..30 {
            fs::write(inside(&format!("beside/{number}")), "").unwrap();
            fs::write(inside(&format!("deep/a/{number}")), "").unwrap();
        }
        let found = |name: &str, most: usize| {
            unfit_within(&inside(name), most).map(|unfit| match unfit {
                Unfit::Keys(path) | Unfit::Socket(path) => path,
            })
        };
        assert_eq!(found("beside", 10), Some(inside("beside/.ssh")));
        assert_eq!(found("deep", 10), None);
        assert_eq!(found("deep", 100), Some(inside("deep/b/c/.ssh")));
    }
}
