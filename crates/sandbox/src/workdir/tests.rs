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
fn a_file_of_another_user_is_not_opened_as_the_runs_own() {
    let (root, workdir) = workdir();
    workdir.write(&path("own"), b"own").unwrap();
    assert_eq!(workdir.open_own(&path("own")).unwrap().1, 3);
    let uid = workdir.owner().map(|owner| owner.uid());
    // Only root can change the owner of files, and only for root are there files that a run may not read.
    if let Some(uid) = uid {
        let foreign = root.path().join("run_1/foreign");
        fs::write(&foreign, "secret").unwrap();
        assert!(matches!(
            workdir.open_own(&path("foreign")),
            Err(FileError::Escapes)
        ));
        std::os::unix::fs::chown(&foreign, Some(uid), None).unwrap();
        assert_eq!(workdir.open_own(&path("foreign")).unwrap().1, 6);
    }
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

/// Returns the owner of each of these, below `root`.
fn owners<const N: usize>(root: &Path, paths: [&str; N]) -> [u32; N] {
    paths.map(|path| fs::symlink_metadata(root.join(path)).unwrap().uid())
}

#[test]
fn a_directory_opened_again_is_private_and_whole_and_belongs_to_the_run() {
    let (root, workdir) = workdir();
    let before = workdir.owner().map(|owner| owner.uid());
    workdir.write(&path("a/b/notes.txt"), b"kept").unwrap();
    workdir.scratch().unwrap();
    let dir = root.path().join("run_1");
    symlink("/etc/passwd", dir.join("a/link")).unwrap();
    if let Some(uid) = before {
        std::os::unix::fs::lchown(dir.join("a/link"), Some(uid), Some(uid)).unwrap();
    }
    deep_tree(&dir, 1_500);
    fs::set_permissions(dir.join("a/b/notes.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o000)).unwrap();
    let held = drop_and_take_its_user(workdir);

    let again = Workdir::reopen(root.path(), "run_1").unwrap().unwrap();
    let uid = again
        .owner()
        .map_or(rustix::process::geteuid().as_raw(), |owner| owner.uid());
    assert_ne!(before, Some(uid), "the old user may be another run's by now");
    let all = [
        "run_1",
        "run_1/a",
        "run_1/a/b",
        "run_1/a/b/notes.txt",
        "run_1/a/link",
    ];
    assert_eq!(owners(root.path(), all), [uid; 5]);
    assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(
        fs::metadata(dir.join("a/b/notes.txt")).unwrap().mode() & 0o777,
        0o640
    );
    assert_eq!(
        fs::metadata("/etc/passwd").unwrap().uid(),
        0,
        "no link is followed"
    );
    assert_eq!(again.read(&path("a/b/notes.txt"), 10).unwrap(), b"kept");
    assert_eq!(again.usage().unwrap().1, 1_501 + 4);
    again.write(&path("a/more.txt"), b"new").unwrap();
    assert!(
        !root.path().join("run_1.tmp").exists(),
        "what was temporary is gone"
    );
    again.scratch().unwrap();
    drop(held);
    again.delete().unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

/// Drops a directory as a dying engine does, and gives its user to another run, if it has one.
fn drop_and_take_its_user(workdir: Workdir) -> Vec<Arc<RunUid>> {
    let wanted = workdir.owner().map(|owner| owner.uid());
    drop(workdir);
    let mut held = Vec::new();
    while let Some(uid) = RunUid::acquire().unwrap() {
        let found = Some(uid.uid()) == wanted;
        held.push(uid);
        if found {
            break;
        }
    }
    held
}

#[test]
fn what_is_no_directory_of_a_run_is_not_opened_again() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    assert!(Workdir::reopen(root.path(), "run_1").unwrap().is_none());
    assert!(
        Workdir::reopen(&root.path().join("never"), "run_1")
            .unwrap()
            .is_none()
    );
    symlink(outside.path(), root.path().join("link")).unwrap();
    fs::write(root.path().join("file"), "x").unwrap();
    for name in ["link", "file"] {
        assert!(Workdir::reopen(root.path(), name).is_err(), "{name}");
    }
    for name in ["", ".", "..", "a/b"] {
        let error = Workdir::reopen(root.path(), name).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
    }
}

/// Whether the tests may change the owner of files. If not, prints the check that is skipped.
fn is_root(what: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("NOT CHECKED: {what}: only root gives files to others");
    }
    is_root
}

#[test]
fn a_directory_of_somebody_else_is_not_opened_again() {
    if !is_root("a run's directory that belongs to somebody else") {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let theirs = root.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    std::os::unix::fs::chown(&theirs, Some(1_000), Some(1_000)).unwrap();
    let error = Workdir::reopen(root.path(), "theirs").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(owners(root.path(), ["theirs"]), [1_000]);
}

#[test]
fn a_file_of_somebody_else_that_was_linked_into_the_directory_stays_theirs() {
    let (root, workdir) = workdir();
    let dir = root.path().join("run_1");
    let before = workdir.owner().map(|owner| owner.uid());
    fs::write(root.path().join("secret"), "secret").unwrap();
    fs::hard_link(root.path().join("secret"), dir.join("linked")).unwrap();
    fs::write(dir.join("unfinished"), "the engine died before it gave this away").unwrap();
    workdir.write(&path("own"), b"x").unwrap();
    fs::hard_link(dir.join("own"), dir.join("own again")).unwrap();
    let held = drop_and_take_its_user(workdir);
    let again = Workdir::reopen(root.path(), "run_1").unwrap().unwrap();
    let us = rustix::process::geteuid().as_raw();
    let uid = again.owner().map_or(us, |owner| owner.uid());
    assert_ne!(before, Some(uid));
    let all = [
        "secret",
        "run_1/linked",
        "run_1/unfinished",
        "run_1/own",
        "run_1/own again",
    ];
    assert_eq!(owners(root.path(), all), [us, us, uid, uid, uid]);
    drop(held);
}

#[test]
fn a_tree_that_was_given_away_in_part_is_given_away_whole_the_next_time() {
    if !is_root("a run's directory that was given away in part") {
        return;
    }
    let (root, workdir) = workdir();
    workdir.write(&path("a/one"), b"1").unwrap();
    workdir.write(&path("b/two"), b"2").unwrap();
    let dir = root.path().join("run_1");
    for part in ["a", "a/one"] {
        std::os::unix::fs::chown(dir.join(part), Some(200_077), Some(200_077)).unwrap();
    }
    drop(workdir);
    let again = Workdir::reopen(root.path(), "run_1").unwrap().unwrap();
    let uid = again.owner().unwrap().uid();
    let all = ["run_1", "run_1/a", "run_1/a/one", "run_1/b", "run_1/b/two"];
    assert_eq!(owners(root.path(), all), [uid; 5]);
}

#[test]
fn a_file_that_grows_is_made_where_nothing_is_and_belongs_to_the_run() {
    let (root, workdir) = workdir();
    let mut file = workdir.make_file(&path(".a/b/log")).unwrap();
    file.write_all(b"one\n").unwrap();
    assert_eq!(workdir.read(&path(".a/b/log"), 100).unwrap(), b"one\n");
    let on_disk = fs::metadata(root.path().join("run_1/.a/b/log")).unwrap();
    let uid = workdir
        .owner()
        .map_or(rustix::process::geteuid().as_raw(), |owner| owner.uid());
    assert_eq!((on_disk.uid(), on_disk.mode() & 0o777), (uid, 0o644));
    assert!(
        workdir.make_file(&path(".a/b/log")).is_err(),
        "it is there already"
    );
    symlink("/tmp", root.path().join("run_1/out")).unwrap();
    assert!(matches!(
        workdir.make_file(&path("out/log")),
        Err(FileError::Escapes | FileError::NotAFile)
    ));
    symlink("/tmp/nothing-here", root.path().join("run_1/name")).unwrap();
    assert!(workdir.make_file(&path("name")).is_err());
}

#[test]
fn a_listing_leaves_out_what_it_is_told_to_and_does_not_enter_it() {
    let (_root, workdir) = workdir();
    for name in ["a/x", "a/y", "skip/deep/z", "b"] {
        workdir.write(&path(name), b"").unwrap();
    }
    let mut asked = Vec::new();
    let (kept, cut) = workdir
        .list_kept(None, (10, 100), |entry| {
            asked.push(entry.path.clone());
            entry.path != "skip" && entry.path != "a/x"
        })
        .unwrap();
    let names: Vec<&str> = kept.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!((names, cut), (vec!["a", "a/y", "b"], false));
    assert_eq!(asked, ["a", "a/x", "a/y", "b", "skip"]);
}

#[test]
fn commands_know_the_directory_by_the_path_of_their_level() {
    let (root, workdir) = workdir();
    let inside = workdir.command_paths(Level::Namespaces);
    assert_eq!((inside.work, inside.temporary), ("/work".into(), "/tmp".into()));
    let outside = workdir.command_paths(Level::None);
    assert_eq!(outside.work, root.path().join("run_1"));
    assert_eq!(outside.temporary, root.path().join("run_1.tmp"));
}

#[test]
fn a_folder_is_read_once_for_all_full_folders_in_it() {
    // In memory: a busy disk takes milliseconds for each folder.
    let root = tempfile::tempdir_in("/dev/shm").unwrap();
    let workdir = Workdir::create(root.path(), "run_1").unwrap();
    // More than the names that are held at once.
    for number in 0..4_200 {
        fs::create_dir_all(root.path().join(format!("run_1/d{number}/inner"))).unwrap();
    }
    assert_eq!(delete::empty_out(workdir.fd()).unwrap().len(), 4_096);
    let before = delete::FOLDERS_READ.get();
    workdir.delete().unwrap();
    let read = delete::FOLDERS_READ.get() - before;
    // Each folder is read once, and their parent once per 4,096 of them and for the final check.
    assert!((4_200..=4_204).contains(&read), "{read} folders read");
    assert!(!root.path().join("run_1").exists());
}

#[test]
fn a_list_without_descriptors_fails_and_leaves_nothing_out() {
    let (_root, workdir) = workdir();
    for file in ["a/b/1", "a/2", "c/3"] {
        workdir.write(&path(file), b"x").unwrap();
    }
    let (whole, _) = workdir.list(None, 9, 100).unwrap();
    let (mut held, mut failed) = (Vec::new(), 0);
    while let Ok(file) = fs::File::open("/dev/null") {
        held.push(file);
    }
    for _ in 0..8 {
        match workdir.list(None, 9, 100) {
            Ok((listed, _)) => assert_eq!(listed, whole),
            Err(_) => failed += 1,
        }
        held.pop();
    }
    assert!((2..8).contains(&failed), "{failed}");
}
