//! Identity of the command, and the resources it was given.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use super::{Host, expect, must_be_refused, must_fail};
use crate::raw::call;

pub(super) fn try_all(host: &Host<'_>) {
    // SAFETY: touches no memory.
    let uid = unsafe { libc::getuid() };
    expect(37, "not root", uid != 0, &format!("user {uid}"));
    must_fail(
        37,
        "become root",
        call(libc::SYS_setuid, [0; 6]).map_err(std::io::Error::from_raw_os_error),
    );
    let gains = prctl(libc::PR_GET_NO_NEW_PRIVS);
    expect(
        37,
        "no program gains rights",
        gains == Ok(1),
        &format!("{gains:?}"),
    );
    setuid_program();
    capabilities(host);
    environment(host);
    descriptors();
    let core = resource(libc::RLIMIT_CORE);
    expect(
        72,
        "no crash dump, also where they are piped",
        core == Some((1, 1)),
        &format!("{core:?}"),
    );
    must_be_refused(
        11,
        "limit the first process",
        call(libc::SYS_prlimit64, [1, 7, 0, 0, 0, 0]),
    );
}

/// A setuid program of ours gains no other user.
fn setuid_program() {
    let copied = fs::copy("/bin/sh", "setuid").and_then(|_| {
        fs::set_permissions("setuid", fs::Permissions::from_mode(0o6755))?;
        #[expect(clippy::disallowed_methods, reason = "this is the program that is confined")]
        Command::new("./setuid")
            .args(["-c", "id -u; id -ru"])
            .stderr(Stdio::null())
            .output()
    });
    match copied {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let mut ids = text.lines();
            expect(
                37,
                "a setuid program of its own",
                ids.next() == ids.next(),
                text.trim(),
            );
        }
        Err(error) => expect(37, "a setuid program of its own", true, &error.to_string()),
    }
}

fn capabilities(host: &Host<'_>) {
    let mut header = [0x2008_0522_u32, 0];
    let mut data = [u32::MAX; 6];
    let read = call(
        libc::SYS_capget,
        [header.as_mut_ptr().addr(), data.as_mut_ptr().addr(), 0, 0, 0, 0],
    );
    expect(
        38,
        "no capability",
        read.is_ok() && data == [0; 6],
        &format!("{data:x?}"),
    );
    if host.has_namespaces() {
        let left = (0..64).filter(|number| bounded(*number)).count();
        expect(
            38,
            "no capability within bounds",
            left == 0,
            &format!("{left} are left"),
        );
    }
}

fn bounded(capability: usize) -> bool {
    let read = usize::try_from(libc::PR_CAPBSET_READ).unwrap_or(0);
    call(libc::SYS_prctl, [read, capability, 0, 0, 0, 0]) == Ok(1)
}

fn prctl(option: i32) -> Result<usize, i32> {
    call(
        libc::SYS_prctl,
        [usize::try_from(option).unwrap_or(0), 0, 0, 0, 0, 0],
    )
}

fn environment(host: &Host<'_>) {
    let mut names: Vec<_> = std::env::vars_os()
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    let mut given = vec![
        "DEBIAN_FRONTEND",
        "GIT_AUTHOR_EMAIL",
        "GIT_AUTHOR_NAME",
        "GIT_COMMITTER_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_PAGER",
        "GIT_TERMINAL_PROMPT",
        "HOME",
        "LANG",
        "NO_COLOR",
        "PAGER",
        "PATH",
        "PIP_DISABLE_PIP_VERSION_CHECK",
        "PIP_PROGRESS_BAR",
        "TERM",
        "TMPDIR",
        "TQDM_DISABLE",
        "NODE_OPTIONS",
        "GOMEMLIMIT",
    ];
    if !host.fact("proxy").is_empty() {
        given.extend(["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"]);
        given.extend(["all_proxy", "http_proxy", "https_proxy", "no_proxy"]);
    }
    given.sort_unstable();
    expect(39, "only the given environment", names == given, &names.join(" "));
}

fn descriptors() {
    let get_flags = usize::try_from(libc::F_GETFD).unwrap_or(0);
    let open: Vec<usize> = (3..1_024)
        .filter(|fd| call(libc::SYS_fcntl, [*fd, get_flags, 0, 0, 0, 0]).is_ok())
        .collect();
    expect(
        39,
        "no inherited descriptor",
        open.is_empty(),
        &format!("{open:?}"),
    );
}

fn resource(which: libc::__rlimit_resource_t) -> Option<(u64, u64)> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writes.
    (unsafe { libc::getrlimit(which, &raw mut limit) } == 0).then_some((limit.rlim_cur, limit.rlim_max))
}
