//! Row 67: hosts that deny requirements of a level. Engines there report this and run nothing.

use std::path::PathBuf;

use sortie_sandbox::{Error, Level, Options, detect};

use crate::harness::{PROBE, folder, is_root, nobody, on_host, tell};

/// Detects on a host; the test of this name runs again there and prints its result.
fn detect_on(host: &[&str], as_nobody: bool, minimum: &str) -> String {
    let mut host: Vec<String> = host.iter().map(|word| (*word).to_owned()).collect();
    if as_nobody && is_root() {
        host.push(format!("uid={}", nobody()));
    }
    let exe = std::env::current_exe().unwrap();
    let program = [
        exe.to_str().unwrap(),
        "--exact",
        "hosts::tell_what_this_host_gives",
        "--nocapture",
    ];
    let output = on_host(&host, &program, |process| {
        process.env(MINIMUM, minimum);
    });
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let found = text.lines().find_map(|line| line.strip_prefix("found: "));
    found
        .unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stdout)))
        .to_owned()
}

const MINIMUM: &str = "SORTIE_BATTERY_MINIMUM";

#[test]
#[expect(clippy::disallowed_methods, reason = "the battery talks to its own processes")]
fn tell_what_this_host_gives() {
    let minimum = match std::env::var(MINIMUM).as_deref() {
        Ok("landlock") => Level::Landlock,
        _ => Level::Namespaces,
    };
    let root = folder();
    let options = Options {
        minimum,
        launcher: PathBuf::from(PROBE),
        ..Options::new(root.path().join("runs"))
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    match runtime.block_on(detect(&options)) {
        Ok(backend) => {
            let capabilities = backend.capabilities();
            tell(&format!(
                "found: {} memory={} disk={} {}\n",
                capabilities.level.as_str(),
                capabilities.memory.as_str(),
                capabilities.disk.as_str(),
                capabilities.missing.join("; ")
            ));
        }
        Err(Error::Unavailable { reason, hint }) => tell(&format!("found: unavailable: {reason}. {hint}\n")),
        Err(other) => panic!("{other}"),
    }
    assert_eq!(
        std::fs::read_dir(root.path().join("runs")).unwrap().count(),
        0,
        "the probe leaves nothing"
    );
}

fn assert_refused(found: &str, reason: &str) {
    assert!(found.starts_with(&format!("unavailable: {reason}")), "{found}");
    assert!(
        found.contains("docs/SANDBOX.md") && found.contains("sandbox.minimum"),
        "a hint: {found}"
    );
}

#[test]
fn in_an_ordinary_container_namespaces_fail_closed_and_landlock_takes_over_if_allowed() {
    for as_nobody in [false, true] {
        let found = detect_on(&["deny-namespaces"], as_nobody, "namespaces");
        assert_refused(
            &found,
            "this host does not allow user namespaces (unshare: Operation not permitted)",
        );
        let found = detect_on(&["deny-namespaces"], as_nobody, "landlock");
        assert!(found.starts_with("landlock memory="), "{found}");
        assert!(
            found.contains("this host does not allow user namespaces"),
            "it says why: {found}"
        );
    }
}

#[test]
fn where_proc_is_covered_namespaces_fail_closed() {
    for as_nobody in [false, true] {
        let found = detect_on(&["cover-proc"], as_nobody, "namespaces");
        let reason = "this host covers parts of /proc, so that a fresh one may not be mounted (mount proc: ";
        assert_refused(&found, reason);
        assert!(detect_on(&["cover-proc"], as_nobody, "landlock").starts_with("landlock "));
    }
}

#[test]
fn where_user_namespaces_are_used_up_namespaces_fail_closed() {
    let found = detect_on(&["no-user-namespaces"], true, "namespaces");
    assert_refused(
        &found,
        "this host does not allow user namespaces (unshare: No space left on device)",
    );
}
