//! Rules for the paths that an operator adds to what commands may read.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Component, Path, PathBuf},
};

use rustix::fs::{Access, access};

use crate::types::Error;

const ITS_OWN: &str = "the sandbox has its own there";
const CREDENTIALS: &str = "credentials of the host lie there";
/// Paths that are never shown, nor anything in them, nor a folder that holds them.
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
/// Folders of people, which are not shown whole.
const OF_PEOPLE: &[&str] = &["/home", "/root"];
/// Names of folders with keys of a person.
const KEYS: &[&str] = &[".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".gcloud"];
/// Files and folders that are looked at for a socket.
const MOST_ENTRIES: usize = 20_000;

/// Checks that commands may be shown a path of the host, beside what they see anyway.
///
/// # Errors
/// The reason why not, with a remedy.
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
    match socket_in(&target) {
        Some(socket) => Err(format!(
            "commands could reach a service of the host by the socket {}; name a folder without sockets",
            socket.display()
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
    let of_keys = |part: Component<'_>| part.as_os_str().to_str().is_some_and(|name| KEYS.contains(&name));
    path.components()
        .any(of_keys)
        .then(|| "keys of a person lie there".to_owned())
}

/// The first socket at or below a path. Of a large folder only a part is looked at.
fn socket_in(path: &Path) -> Option<PathBuf> {
    let mut looked = 0;
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        looked += 1;
        if looked > MOST_ENTRIES {
            return None;
        }
        let Ok(kind) = fs::symlink_metadata(&path).map(|metadata| metadata.file_type()) else {
            continue;
        };
        if kind.is_socket() {
            return Some(path);
        }
        if kind.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path()));
        }
    }
    None
}

/// Checks that the users of runs have the right to read the operator's paths.
pub(crate) fn all_readable(paths: &[PathBuf]) -> Result<(), Error> {
    // The runs of a root engine have users of their own.
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
