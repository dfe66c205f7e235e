//! Files of the host, of other runs and of the kernel.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    path::Path,
};

use super::{Host, expect, must_be_refused, must_fail};
use crate::raw::{call, ignore, pointer, text};

pub(super) fn try_all(host: &Host<'_>) {
    for path in ["/etc/shadow", "/etc/gshadow", "/root/.profile"] {
        must_fail(1, &format!("read {path}"), content(path));
    }
    must_fail(
        2,
        "list another run's directory",
        fs::read_dir(host.fact("other")),
    );
    must_fail(
        2,
        "read another run's file",
        content(&format!("{}/file", host.fact("other"))),
    );
    must_fail(3, "read the engine's secret", content(host.fact("secret")));
    for path in [
        "/usr/.probe",
        "/.probe",
        "/bin/.probe",
        "/etc/.probe",
        "/home/.probe",
    ] {
        must_fail(4, &format!("create {path}"), File::create(path));
    }
    must_fail(
        4,
        "append to /etc/passwd",
        OpenOptions::new().append(true).open("/etc/passwd"),
    );
    must_fail(4, "remove /etc/passwd", fs::remove_file("/etc/passwd"));
    must_fail(5, "create /dev/probe", File::create("/dev/probe"));
    proc_and_dev();
    links(host);
    devices();
    sizes();
}

fn proc_and_dev() {
    for path in [
        "sysrq-trigger",
        "sys/kernel/core_pattern",
        "sys/vm/drop_caches",
        "sys/kernel/hostname",
        "irq/0",
    ] {
        let path = format!("/proc/{path}");
        // If the path is covered by a null device, the write is discarded: check that the null device received it.
        let opened = OpenOptions::new().write(true).open(&path);
        let held = opened.as_ref().map_or(true, is_null_device);
        expect(6, &format!("write {path}"), held, &told(&opened));
    }
    for name in [
        "kcore",
        "keys",
        "kallsyms",
        "config.gz",
        "kmsg",
        "cmdline",
        "modules",
        "timer_list",
    ] {
        let path = format!("/proc/{name}");
        let read = first_bytes(&path);
        let held = read.as_ref().map_or(true, Vec::is_empty);
        expect(7, &format!("read {path}"), held, &told(&read));
    }
    for name in [
        "mem",
        "vda",
        "sda",
        "nvme0n1",
        "kmsg",
        "kvm",
        "fuse",
        "vsock",
        "net/tun",
        "loop0",
        "sgx_enclave",
    ] {
        must_fail(
            8,
            &format!("open /dev/{name}"),
            File::open(format!("/dev/{name}")),
        );
    }
    must_fail(9, "list /sys", fs::read_dir("/sys").and_then(not_empty));
    must_fail(
        9,
        "list the cgroups",
        fs::read_dir("/sys/fs/cgroup").and_then(not_empty),
    );
}

fn links(host: &Host<'_>) {
    must_fail(
        41,
        "hard link a host file into the directory",
        fs::hard_link("/etc/passwd", "linked"),
    );
    must_fail(
        41,
        "hard link the engine's secret",
        fs::hard_link(host.fact("secret"), "linked"),
    );
    let made = fs::write("mine", "x").and_then(|()| fs::hard_link("mine", host.fact("outside-file")));
    must_fail(41, "hard link out of the directory", made);
}

fn devices() {
    // The disk of this machine, and the kernel's memory.
    for (name, kind, major, minor) in [
        ("block", libc::S_IFBLK, 254, 0),
        ("block sda", libc::S_IFBLK, 8, 0),
        ("mem", libc::S_IFCHR, 1, 1),
    ] {
        let path = text("./node");
        let device = usize::try_from(libc::makedev(major, minor)).unwrap_or(0);
        let mode = usize::try_from(kind | 0o666).unwrap_or(0);
        let at = usize::MAX - 99; // AT_FDCWD
        let result = call(libc::SYS_mknodat, [at, pointer(&path), mode, device, 0, 0]);
        must_be_refused(33, &format!("make a device: {name}"), result);
    }
}

fn sizes() {
    ignore(libc::SIGXFSZ);
    let grown = File::create("huge").and_then(|file| file.set_len(1 << 50));
    must_fail(42, "a sparse file of a pebibyte", grown);
}

fn content(path: &str) -> io::Result<Vec<u8>> {
    fs::read(path)
}

fn first_bytes(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn not_empty(mut entries: fs::ReadDir) -> io::Result<()> {
    entries
        .next()
        .ok_or_else(|| io::Error::other("it is empty"))?
        .map(drop)
}

fn is_null_device(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let null = fs::metadata(Path::new("/dev/null")).map(|metadata| metadata.rdev());
    matches!((file.metadata(), null), (Ok(file), Ok(null)) if file.rdev() == null)
}

fn told<T>(result: &io::Result<T>) -> String {
    result
        .as_ref()
        .map_or_else(ToString::to_string, |_| "opened".to_owned())
}
