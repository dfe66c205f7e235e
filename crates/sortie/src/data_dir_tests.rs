//! Tests of the data folder.

use std::os::unix::fs::PermissionsExt as _;

use super::{
    folder::{IGNORE_FILE, make_hidden},
    *,
};

fn folder() -> (tempfile::TempDir, DataDir) {
    let root = tempfile::tempdir().unwrap();
    let data = DataDir::new(&root.path().join("a/data"));
    data.create().unwrap();
    // The tests count the remaining files.
    fs::remove_file(data.path.join(IGNORE_FILE)).unwrap();
    (root, data)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn secret(number: u8) -> Secret {
    Secret::new(SELF_HOSTED_KEY, [number; 32])
}

#[test]
fn a_folder_is_hidden_from_git_whenever_it_has_no_rules_of_its_own() {
    let root = tempfile::tempdir().unwrap();
    let new = DataDir::new(&root.path().join("a/data"));
    assert!(new.create().unwrap());
    let ignored = new.path.join(IGNORE_FILE);
    assert_eq!(fs::read_to_string(&ignored).unwrap(), "*\n");
    assert!(!root.path().join("a").join(IGNORE_FILE).exists());
    fs::write(new.path.join(ENGINE_FILE), "").unwrap();
    // A copy without the hidden files, and one by a process that was killed.
    for lost in [None, Some("")] {
        fs::remove_file(&ignored).unwrap();
        if let Some(text) = lost {
            fs::write(&ignored, text).unwrap();
        }
        assert!(!new.create().unwrap(), "an engine has used it before");
        assert_eq!(fs::read_to_string(&ignored).unwrap(), "*\n");
    }
    fs::write(&ignored, "!*\n").unwrap();
    assert!(!new.create().unwrap());
    assert_eq!(fs::read_to_string(&ignored).unwrap(), "!*\n");
}

#[test]
fn an_empty_folder_becomes_private_and_hidden() {
    for found in [&[][..], &["lost+found", "sortie.toml"], &[IGNORE_FILE]] {
        let root = tempfile::tempdir().unwrap();
        let data = DataDir::new(&root.path().join("data"));
        fs::create_dir(&data.path).unwrap();
        fs::set_permissions(&data.path, fs::Permissions::from_mode(0o755)).unwrap();
        for name in found {
            fs::write(data.path.join(name), "").unwrap();
        }
        assert!(data.create().unwrap(), "{found:?}");
        assert_eq!(mode(&data.path), 0o700, "{found:?}");
        let rules = fs::read_to_string(data.path.join(IGNORE_FILE)).unwrap();
        assert_eq!(rules, "*\n", "{found:?}");
    }
}

#[test]
fn a_folder_with_files_of_somebody_else_is_refused_and_stays_as_it_is() {
    for (name, text) in [
        ("report.csv", "a,b\n"),
        (IGNORE_FILE, "*.csv\n"),
        (".git", ""),
        ("blobs", ""),
        (ENGINE_FILE, "{\"cylinders\": 8}\n"),
    ] {
        let root = tempfile::tempdir().unwrap();
        let data = DataDir::new(&root.path().join("data"));
        fs::create_dir(&data.path).unwrap();
        fs::set_permissions(&data.path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(data.path.join(name), text).unwrap();
        let refused = data.take().unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        for part in [name, "--data-dir"] {
            assert!(refused.to_string().contains(part), "{refused}");
        }
        assert_eq!(mode(&data.path), 0o755);
        assert_eq!(fs::read_dir(&data.path).unwrap().count(), 1, "{name}");
        assert_eq!(fs::read_to_string(data.path.join(name)).unwrap(), text);
    }
    // Any file of an engine marks the folder as one, regardless of other files: a node on PostgreSQL has no sortie.db.
    for own in [
        "sortie.db",
        "engine.json",
        "node_name",
        "master.key",
        "admin.key",
        "operator.key",
    ] {
        let root = tempfile::tempdir().unwrap();
        let data = DataDir::new(root.path());
        fs::write(root.path().join("notes"), "").unwrap();
        fs::write(root.path().join(own), "").unwrap();
        assert!(!data.create().unwrap(), "{own}");
    }
    // The possible remains of a running engine's file after a power cut.
    for text in [
        "{\"url\":\"http://127.0.0.1:8080\",\"pu",
        "{\"u",
        "\0\0\0\0\0\0\0\0\0",
    ] {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(ENGINE_FILE), text).unwrap();
        assert!(DataDir::new(root.path()).is_used().unwrap(), "{text:?}");
    }
}

#[test]
fn a_folder_that_another_process_has_made_meanwhile_stays_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let (path, unfinished) = (root.path().join("data"), root.path().join("data.1"));
    assert!(make_hidden(&path, &unfinished).unwrap());
    fs::write(path.join("engine.json"), "").unwrap();
    assert!(!make_hidden(&path, &unfinished).unwrap());
    assert!(path.join("engine.json").exists() && !unfinished.exists());
    // A file at that path is an error, and the attempt leaves no file.
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(make_hidden(&file, &unfinished).is_err());
    assert!(!unfinished.exists());
}

#[test]
fn a_folder_that_cannot_be_used_is_named_with_the_way_out() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data");
    fs::write(&path, "").unwrap();
    let data = DataDir::new(&path);
    for failure in [data.create().unwrap_err(), data.running_engine().unwrap_err()] {
        let text = failure.to_string();
        assert!(
            text.contains("a file exists where a folder is needed") && text.contains("--data-dir"),
            "{text}"
        );
    }
    let error = io::Error::from(io::ErrorKind::PermissionDenied);
    let denied = failed("cannot read", &path, &error);
    let text = denied.to_string();
    assert_eq!(denied.exit, Exit::Denied);
    assert!(
        text.contains("permission denied") && text.contains("SORTIE_API_KEY"),
        "{text}"
    );
}

#[test]
fn the_folder_and_the_key_are_readable_by_nobody_else() {
    let (_root, data) = folder();
    let prepared = data.prepare_key(NodeKey::Admin, secret(1)).unwrap();
    assert_eq!(mode(&prepared.path), 0o600);
    prepared.keep().unwrap();
    assert_eq!(mode(&data.path), 0o700);
    assert_eq!(mode(&data.key_file(NodeKey::Admin)), 0o600);
    assert_eq!(data.admin_key().unwrap().as_deref(), Some(secret(1).expose()));
    assert_eq!(
        fs::read_to_string(data.key_file(NodeKey::Admin)).unwrap(),
        format!("{}\n", secret(1).expose())
    );
}

#[test]
fn each_kind_of_key_has_a_file_and_a_prefix_of_its_own() {
    let (_root, data) = folder();
    let operator = Secret::new(OPERATOR_KEY, [1; 32]);
    let prepared = data.prepare_key(NodeKey::Operator, operator.clone()).unwrap();
    assert!(data.left_key(NodeKey::Admin).is_none());
    assert_eq!(data.left_key(NodeKey::Operator).unwrap().secret(), &operator);
    prepared.keep().unwrap();
    assert_eq!(mode(&data.path.join("operator.key")), 0o600);
    assert_eq!(
        data.key(NodeKey::Operator).unwrap().as_deref(),
        Some(operator.expose())
    );
    assert_eq!(data.admin_key().unwrap(), None);
}

#[test]
fn a_prepared_key_that_is_not_needed_leaves_nothing() {
    let (_root, data) = folder();
    data.prepare_key(NodeKey::Admin, secret(1)).unwrap().discard();
    assert_eq!(fs::read_dir(&data.path).unwrap().count(), 0);
    assert_eq!(data.admin_key().unwrap(), None);
}

#[test]
fn a_prepared_key_is_found_again_only_when_it_is_whole() {
    let (_root, data) = folder();
    assert!(data.left_key(NodeKey::Admin).is_none());
    let prepared = data.prepare_key(NodeKey::Admin, secret(1)).unwrap();
    assert_eq!(data.left_key(NodeKey::Admin).unwrap().secret(), &secret(1));
    fs::write(&prepared.path, &secret(1).expose()[..20]).unwrap();
    assert!(data.left_key(NodeKey::Admin).is_none());
}

#[test]
fn the_key_of_an_earlier_store_is_kept_beside_the_new_one() {
    let (_root, data) = folder();
    let text = |number| format!("{}\n", secret(number).expose());
    for number in 1..=3 {
        data.prepare_key(NodeKey::Admin, secret(number))
            .unwrap()
            .keep()
            .unwrap();
    }
    assert_eq!(data.admin_key().unwrap().as_deref(), Some(secret(3).expose()));
    for number in [1, 2] {
        let kept = data.path.join(format!("admin.key.{number}"));
        assert_eq!(fs::read_to_string(kept).unwrap(), text(number));
    }
}

#[test]
fn a_rotated_key_takes_the_place_of_the_one_before_and_nothing_else_is_left() {
    let (_root, data) = folder();
    data.prepare_key(NodeKey::Admin, secret(1))
        .unwrap()
        .keep()
        .unwrap();
    data.check_admin_key_can_be_replaced(secret(1)).unwrap();
    assert_eq!(data.admin_key().unwrap().as_deref(), Some(secret(1).expose()));
    data.replace_admin_key(secret(2)).unwrap();
    assert_eq!(data.admin_key().unwrap().as_deref(), Some(secret(2).expose()));
    assert_eq!(mode(&data.key_file(NodeKey::Admin)), 0o600);
    assert_eq!(fs::read_dir(&data.path).unwrap().count(), 1);
}

#[test]
fn a_folder_has_one_owner_at_a_time_and_others_learn_where_it_answers() {
    let (_root, data) = folder();
    let engine = RunningEngine {
        url: "http://127.0.0.1:8080".to_owned(),
        org_url: Some("http://127.0.0.1:8081".to_owned()),
        purpose: Purpose::Serve,
        pid: 42,
    };
    assert_eq!(data.running_engine().unwrap(), None);
    let owner = data.own().unwrap();
    assert_eq!(data.occupancy().unwrap(), Occupancy::Starting);
    owner.announce(&engine).unwrap();
    assert_eq!(data.running_engine().unwrap(), Some(engine.clone()));
    assert!(data.take().unwrap().is_none());
    for (purpose, way_out) in [
        (Purpose::Serve, "http://127.0.0.1:8080 (process 42): use that one"),
        (Purpose::OneRun, "(process 42) works in the data folder"),
        (Purpose::OneCommand, "when it has ended"),
    ] {
        owner
            .announce(&RunningEngine {
                purpose,
                ..engine.clone()
            })
            .unwrap();
        let refusal = data.own().unwrap_err().to_string();
        assert!(
            refusal.contains(way_out) && refusal.contains("--data-dir") && !refusal.contains("stop it"),
            "{refusal}"
        );
    }
    drop(owner);
    assert_eq!(
        data.running_engine().unwrap(),
        None,
        "what a killed engine left behind is not running"
    );
    let _owner = data.own().unwrap();
    assert_eq!(
        data.occupancy().unwrap(),
        Occupancy::Starting,
        "the next owner is not taken for the one before"
    );
}

#[test]
fn an_engine_ends_when_nobody_shares_it_and_then_nobody_does() {
    let (_root, data) = folder();
    let (first, second) = (data.share().unwrap().unwrap(), data.share().unwrap().unwrap());
    assert!(data.end_sharing().unwrap().is_none());
    drop(first);
    assert!(data.end_sharing().unwrap().is_none());
    drop(second);
    let ended = data.end_sharing().unwrap().unwrap();
    assert!(data.share().unwrap().is_none());
    drop(ended);
    assert!(data.share().unwrap().is_some());
}

#[test]
fn a_master_key_is_made_once_for_its_owner_alone_and_never_replaced() {
    let (_root, data) = folder();
    assert_eq!(data.master_keys().unwrap(), None);
    let key = data.make_master_key().unwrap();
    let path = data.path.join("master.key");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(data.master_keys().unwrap(), Some(vec![key.clone()]));
    assert_eq!(fs::read_dir(&data.path).unwrap().count(), 1);
    let (_other_root, other) = folder();
    assert_ne!(other.make_master_key().unwrap(), key);
    fs::write(&path, "half a k").unwrap();
    let refusal = data.master_keys().unwrap_err().to_string();
    assert!(
        refusal.contains("master.key") && !refusal.contains("half"),
        "{refusal}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "half a k");
}

#[test]
fn a_file_of_several_master_keys_is_read_in_its_order() {
    let (_root, data) = folder();
    let keys = vec![MasterKey::new([1; 32]), MasterKey::new([2; 32])];
    let text = format!("{}\n", *MasterKey::to_list(&keys));
    fs::write(data.path.join("master.key"), text).unwrap();
    assert_eq!(data.master_keys().unwrap(), Some(keys));
}

#[test]
fn a_node_keeps_its_name() {
    let (_root, data) = folder();
    let name = data.node_name().unwrap();
    assert_eq!(data.node_name().unwrap(), name);
    assert!(name.starts_with("node-") && name.len() == 21, "{name}");
    let (_other_root, other) = folder();
    assert_ne!(other.node_name().unwrap(), name);
}

#[test]
fn a_full_disk_is_named_with_the_file() {
    let full = failed(
        "cannot write",
        Path::new("data/admin.key"),
        &io::ErrorKind::StorageFull.into(),
    );
    assert_eq!(
        full.to_string(),
        "cannot write data/admin.key: no space left on its disk; make room, or name another folder by --data-dir"
    );
}

#[test]
fn a_read_only_disk_is_named_with_the_way_out() {
    let failure = failed(
        "cannot open",
        Path::new("data/engine.json"),
        &io::ErrorKind::ReadOnlyFilesystem.into(),
    );
    assert_eq!(
        failure.to_string(),
        "cannot open data/engine.json: its disk is read-only; mount it for writing, or name another folder by --data-dir"
    );
}

#[test]
fn a_folder_that_is_not_made_yet_is_checked_where_it_is_made() {
    let root = tempfile::tempdir().unwrap();
    DataDir::new(&root.path().join("a/b")).check_writable().unwrap();
    DataDir::new(Path::new("no-such-folder"))
        .check_writable()
        .unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let failure = DataDir::new(&path).check_writable().unwrap_err().to_string();
        assert!(
            failure.contains(&file.display().to_string()) && failure.contains("--data-dir"),
            "{failure}"
        );
    }
}
