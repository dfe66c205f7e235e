use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt, fs::PermissionsExt, fs::symlink},
};

use rustix::fs::{CWD, FileType, mknodat};

use super::*;

fn workdir() -> (tempfile::TempDir, Workdir) {
    let root = tempfile::tempdir().unwrap();
    let workdir = Workdir::create(root.path(), "run_1").unwrap();
    (root, workdir)
}

fn path(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}

#[test]
fn what_was_written_is_read_back_and_belongs_to_the_run() {
    let (root, workdir) = workdir();
    workdir.write(&path("a/b/notes.txt"), b"one").unwrap();
    workdir.write(&path("a/b/notes.txt"), b"two").unwrap();
    assert_eq!(workdir.read(&path("a/b/notes.txt"), 3).unwrap(), b"two");
    assert_eq!(workdir.size(&path("a/b/notes.txt")).unwrap(), 3);
    let uid = workdir
        .owner()
        .map_or(rustix::process::geteuid().as_raw(), |owner| owner.uid());
    for made in ["run_1", "run_1/a", "run_1/a/b", "run_1/a/b/notes.txt"] {
        assert_eq!(fs::metadata(root.path().join(made)).unwrap().uid(), uid, "{made}");
    }
    let (entries, cut) = workdir.list(None, 10, 10).unwrap();
    assert_eq!(
        entries.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(),
        ["a", "a/b", "a/b/notes.txt"]
    );
    assert!(!cut, "no temporary file is left");
}

#[test]
fn replacing_a_script_keeps_it_executable() {
    let (root, workdir) = workdir();
    workdir.write(&path("go.sh"), b"#!/bin/sh\n").unwrap();
    let on_disk = root.path().join("run_1/go.sh");
    fs::set_permissions(&on_disk, fs::Permissions::from_mode(0o750)).unwrap();
    workdir.write(&path("go.sh"), b"#!/bin/sh\ntrue\n").unwrap();
    assert_eq!(fs::metadata(&on_disk).unwrap().mode() & 0o777, 0o750);
}

#[test]
fn links_out_of_the_directory_are_never_followed() {
    let (root, workdir) = workdir();
    let secret = root.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let dir = root.path().join("run_1");
    symlink(&secret, dir.join("absolute")).unwrap();
    symlink("../secret", dir.join("parent")).unwrap();
    symlink("/proc/self/environ", dir.join("environ")).unwrap();
    symlink(root.path(), dir.join("outside")).unwrap();
    fs::write(dir.join("inside"), "x").unwrap();
    symlink("inside", dir.join("alias")).unwrap();
    for link in ["absolute", "parent", "environ", "outside/secret", "alias"] {
        assert!(
            matches!(workdir.read(&path(link), 1 << 20), Err(FileError::Escapes)),
            "{link}"
        );
        assert!(
            matches!(workdir.open(&path(link)), Err(FileError::Escapes)),
            "{link}"
        );
        assert!(
            matches!(workdir.write(&path(link), b"mine"), Err(FileError::Escapes)),
            "{link}"
        );
    }
    assert!(matches!(
        workdir.list(Some(&path("outside")), 5, 5),
        Err(FileError::Escapes | FileError::NotFound)
    ));
    assert!(matches!(
        workdir.write(&path("outside/new/file"), b"x"),
        Err(FileError::Escapes | FileError::NotAFile)
    ));
    assert_eq!(fs::read(&secret).unwrap(), b"secret");
    let (entries, _) = workdir.list(None, 10, 100).unwrap();
    let kinds: Vec<_> = entries.iter().map(|e| (e.path.as_str(), e.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("absolute", EntryKind::Symlink),
            ("alias", EntryKind::Symlink),
            ("environ", EntryKind::Symlink),
            ("inside", EntryKind::File),
            ("outside", EntryKind::Symlink),
            ("parent", EntryKind::Symlink),
        ]
    );
}

#[test]
fn pipes_sockets_folders_and_large_files_are_refused_without_blocking() {
    let (root, workdir) = workdir();
    let dir = root.path().join("run_1");
    mknodat(CWD, dir.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
    fs::create_dir(dir.join("folder")).unwrap();
    let sparse = fs::File::create(dir.join("sparse")).unwrap();
    sparse.set_len(200 << 20).unwrap();
    for odd in ["fifo", "socket", "folder"] {
        assert!(
            matches!(workdir.read(&path(odd), 10), Err(FileError::NotAFile)),
            "{odd}"
        );
        assert!(
            matches!(workdir.size(&path(odd)), Err(FileError::NotAFile)),
            "{odd}"
        );
        assert!(
            matches!(workdir.write(&path(odd), b""), Err(FileError::NotAFile)),
            "{odd}"
        );
    }
    assert!(matches!(
        workdir.read(&path("sparse"), 1 << 20),
        Err(FileError::TooLarge { limit: 1_048_576 })
    ));
    assert_eq!(workdir.size(&path("sparse")).unwrap(), 200 << 20);
    assert!(workdir.usage().unwrap().0 < 1 << 20, "a hole takes no space");
    assert!(matches!(
        workdir.read(&path("nothing"), 1),
        Err(FileError::NotFound)
    ));
    assert!(matches!(
        workdir.read(&path("sparse/below"), 1),
        Err(FileError::NotFound)
    ));
    assert!(matches!(
        workdir.write(&path("sparse/below"), b""),
        Err(FileError::NotAFile)
    ));
}

#[test]
fn a_listing_is_sorted_and_bounded_in_entries_and_depth() {
    let (_root, workdir) = workdir();
    for name in ["b/2", "b/1", "a", "c/d/e/f", "b.txt"] {
        workdir.write(&path(name), b"x").unwrap();
    }
    let names = |listed: Vec<Entry>| listed.into_iter().map(|e| e.path).collect::<Vec<_>>();
    let (all, cut) = workdir.list(None, 10, 100).unwrap();
    assert_eq!(
        names(all),
        ["a", "b", "b/1", "b/2", "b.txt", "c", "c/d", "c/d/e", "c/d/e/f"]
    );
    assert!(!cut);
    let (some, cut) = workdir.list(None, 10, 3).unwrap();
    assert_eq!(names(some), ["a", "b", "b/1"]);
    assert!(cut);
    let (exact, cut) = workdir.list(None, 10, 9).unwrap();
    assert_eq!(exact.len(), 9);
    assert!(!cut);
    let (shallow, cut) = workdir.list(None, 1, 100).unwrap();
    assert_eq!(names(shallow), ["a", "b", "b.txt", "c"]);
    assert!(cut, "what lies below the depth is not told");
    let (below, cut) = workdir.list(Some(&path("c/d")), 10, 100).unwrap();
    assert_eq!(names(below), ["c/d/e", "c/d/e/f"]);
    assert!(!cut);
    assert!(matches!(
        workdir.list(Some(&path("zz")), 1, 1),
        Err(FileError::NotFound)
    ));
}

/// Makes `depth` folders in each other, which no path can name.
fn deep_tree(start: &Path, depth: usize) {
    let mut here = open_path(start, DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..depth {
        mkdirat(&here, "a-long-name-for-a-folder", Mode::RWXU).unwrap();
        here = open::beneath(here.as_fd(), "a-long-name-for-a-folder", DIRECTORY, Mode::empty()).unwrap();
    }
    drop(rustix::fs::openat(&here, "leaf", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap());
}

#[test]
fn deletion_takes_deep_trees_folders_without_rights_and_any_name() {
    let (root, workdir) = workdir();
    let dir = root.path().join("run_1");
    deep_tree(&dir, 1_500);
    for closed in ["closed", "closed/inner"] {
        fs::create_dir(dir.join(closed)).unwrap();
    }
    fs::write(dir.join("closed/inner/file"), "x").unwrap();
    for name in [&b"line\nbreak"[..], b"\xff\xfe invalid", b"-rf", b"*", b" "] {
        fs::write(dir.join(OsStr::from_bytes(name)), "x").unwrap();
    }
    symlink("/", dir.join("slash")).unwrap();
    fs::set_permissions(dir.join("closed/inner"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(dir.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let (bytes, entries) = workdir.usage().unwrap();
    assert_eq!(entries, 1_500 + 1 + 3 + 5 + 1);
    assert!(bytes > 0);
    let (listed, cut) = workdir.list(None, usize::MAX, usize::MAX).unwrap();
    assert_eq!(
        u64::try_from(listed.len()).unwrap(),
        entries,
        "usage opened what was closed"
    );
    assert!(!cut);
    fs::set_permissions(dir.join("closed/inner"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(dir.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    workdir.delete().unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn a_sweep_takes_the_directories_of_dead_runs_only() {
    let (root, workdir) = workdir();
    let dead = Workdir::create(root.path(), "run_2").unwrap();
    dead.write(&path("left/over"), b"x").unwrap();
    dead.scratch().unwrap();
    workdir.scratch().unwrap();
    workdir.write(&path("keep"), b"x").unwrap();
    assert_eq!(Workdir::sweep(root.path(), |name| name == "run_1").unwrap(), 2);
    assert_eq!(workdir.read(&path("keep"), 1).unwrap(), b"x");
    workdir.delete().unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    assert_eq!(Workdir::sweep(&root.path().join("never"), |_| false).unwrap(), 0);
}

#[test]
fn a_directory_that_exists_is_not_taken_for_a_new_run() {
    let (root, _workdir) = workdir();
    assert_eq!(
        Workdir::create(root.path(), "run_1").unwrap_err().kind(),
        io::ErrorKind::AlreadyExists
    );
    for name in ["", ".", "..", "a/b"] {
        assert_eq!(
            Workdir::create(root.path(), name).unwrap_err().kind(),
            io::ErrorKind::InvalidInput,
            "{name}"
        );
    }
}

#[test]
fn a_directory_that_was_left_is_taken_over_with_everything_in_it() {
    let (root, left) = workdir();
    left.write(&path("a/b/notes.txt"), b"one").unwrap();
    let secret = root.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    for link in ["link", "foreign"] {
        symlink(&secret, root.path().join("run_1").join(link)).unwrap();
    }
    left.scratch().unwrap();
    let mine = fs::metadata(&secret).unwrap().uid();
    if let Some(owner) = left.owner() {
        std::os::unix::fs::lchown(root.path().join("run_1/link"), Some(owner.uid()), None).unwrap();
    }
    drop(left);

    let workdir = Workdir::reopen(root.path(), "run_1").unwrap().unwrap();
    assert_eq!(workdir.read(&path("a/b/notes.txt"), 3).unwrap(), b"one");
    let uid = workdir.owner().map_or(mine, |owner| owner.uid());
    for kept in [
        "run_1",
        "run_1/a",
        "run_1/a/b",
        "run_1/a/b/notes.txt",
        "run_1/link",
    ] {
        let kept_by = fs::symlink_metadata(root.path().join(kept)).unwrap().uid();
        assert_eq!(kept_by, uid, "{kept}");
    }
    assert_eq!(
        fs::metadata(&secret).unwrap().uid(),
        mine,
        "a link is not followed"
    );
    assert!(!root.path().join("run_1.tmp").exists());
    workdir.write(&path("a/b/notes.txt"), b"two").unwrap();
    workdir.delete().unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn a_directory_that_is_not_there_is_none_and_a_link_is_refused() {
    let root = tempfile::tempdir().unwrap();
    assert!(Workdir::reopen(root.path(), "run_1").unwrap().is_none());
    assert!(
        Workdir::reopen(&root.path().join("none"), "run_1")
            .unwrap()
            .is_none()
    );
    symlink("/etc", root.path().join("run_1")).unwrap();
    assert!(Workdir::reopen(root.path(), "run_1").is_err());
    assert!(Workdir::reopen(root.path(), "../x").is_err());
}
