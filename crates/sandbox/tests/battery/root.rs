//! The root file system, which all runs begin with as copies of one template.

use std::{collections::HashSet, fs};

use sortie_sandbox::{ExitKind, Limits};

use crate::harness::{Bed, Section, out};

/// Mounts of a run outside of the system folders, `/etc` and `/var`, at most: the root, the working directory, `/tmp`, six devices,
/// two file systems in `/dev`, two of `/proc`, and those that cover parts of it.
const MOST_MOUNTS: usize = 60;
/// Smaller files of `/etc` are copies in the template, in bytes.
const COPIED_BYTES: u64 = 256 << 10;

/// Names, modes and content of the root's own files, without the run's own part.
const LISTING: &str = "cd / && find . -xdev | sort && stat -c '%A %s %Y' . etc home etc/passwd etc/hosts && \
    cat etc/passwd etc/group etc/hosts etc/resolv.conf";

pub(crate) fn a_run_does_not_change_the_root_of_another(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        if !bed.has_namespaces() {
            // The runs see the host's root.
            return;
        }
        let mut one = bed.open("run_1", Limits::default()).await;
        let mut beside = bed.open("run_2", Limits::default()).await;
        let before = one.sh(LISTING).await;
        assert_eq!(before.exit, ExitKind::Code(0), "{before:?}");
        assert!(out(&before).contains("./etc/passwd"), "{before:?}");
        let script = "{ find / -xdev -type d | while read -r folder; do true >\"$folder/new\"; done; \
             find / -xdev -type f | while read -r file; do [ -f \"$file\" ] && echo x >>\"$file\" && echo \"$file\"; done; \
             chmod 777 / /etc /etc/passwd /home; ln -s x /etc/link; mkdir /home/folder; mv /etc/hosts /etc/moved; \
             rm -f /etc/passwd /etc/resolv.conf; rmdir /home /run; } 2>/dev/null; \
             find / -xdev -name new";
        let changed = one.sh(script).await;
        assert_eq!(out(&changed), "", "{changed:?}");
        let mut after = bed.open("run_3", Limits::default()).await;
        for run in [&mut one, &mut beside, &mut after] {
            assert_eq!(out(&run.sh(LISTING).await), out(&before));
        }
        for run in [one, beside, after] {
            run.end().await;
        }
    })
}

pub(crate) fn a_run_has_few_mounts_and_no_other_of_the_host(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        if !bed.has_namespaces() {
            // The runs share the mounts of the host.
            return;
        }
        let mut run = bed.open("run_1", Limits::default()).await;
        let finished = run.sh("cat /proc/self/mountinfo").await;
        let text = out(&finished);
        let points: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(4)).collect();
        let is_below = |point: &str, folders: &[&str]| {
            folders
                .iter()
                .any(|folder| point == *folder || point.starts_with(&format!("{folder}/")))
        };
        let system = [
            "/usr",
            "/bin",
            "/sbin",
            "/lib",
            "/lib32",
            "/lib64",
            "/libx32",
            "/nix/store",
            "/gnu/store",
        ];
        let (of_packages, own): (Vec<&str>, Vec<&str>) = points
            .into_iter()
            .filter(|point| !is_below(point, &system))
            .partition(|point| is_below(point, &["/etc", "/var"]));
        let expected = ["/work", "/tmp", "/dev", "/proc"];
        let strange: HashSet<&str> = own
            .iter()
            .copied()
            .filter(|point| *point != "/" && !is_below(point, &expected))
            .collect();
        assert!(strange.is_empty(), "{strange:?}");
        assert!(own.contains(&"/work") && own.len() <= MOST_MOUNTS, "{own:?}");
        for point in of_packages {
            let metadata = fs::metadata(point).unwrap();
            assert!(metadata.is_dir() || metadata.len() > COPIED_BYTES, "{point}");
        }
        run.end().await;
    })
}
