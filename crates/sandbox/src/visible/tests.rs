use std::os::unix::{fs::symlink, net::UnixListener};

use super::*;

/// Searches a folder as if it belonged to a package. Returns the names that are shown, and the withheld ones.
fn shown_of(folder: &Path) -> (Vec<String>, Vec<String>) {
    let mut search = Search {
        packages: vec![folder.to_owned()],
        withheld: Vec::new(),
    };
    let below = |path: PathBuf| path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
    let mut shown = match search.extent(folder) {
        Extent::All => vec!["(all)".to_owned()],
        Extent::Parts(parts) => parts.into_iter().map(below).collect(),
    };
    shown.sort();
    (shown, search.withheld)
}

#[test]
fn what_may_hold_a_credential_is_left_out_and_the_rest_of_its_folder_is_shown() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().canonicalize().unwrap().join("package");
    fs::create_dir_all(folder.join("conf.d")).unwrap();
    fs::create_dir_all(folder.join("plain")).unwrap();
    fs::write(folder.join("plain/opcache.ini"), "zend_extension=opcache\n").unwrap();
    fs::write(folder.join("note"), "password = hunter2, as an example").unwrap();
    symlink("../plain/opcache.ini", folder.join("conf.d/10-opcache.ini")).unwrap();
    symlink("/etc/shadow", folder.join("conf.d/outside")).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(shown_of(&folder), (vec!["(all)".to_owned()], vec![]));

    fs::write(folder.join("conf.d/20-agent.ini"), "agent.license = \"0123\"\n").unwrap();
    fs::write(folder.join("plain/private.conf"), "").unwrap();
    fs::set_permissions(
        folder.join("plain/private.conf"),
        fs::Permissions::from_mode(0o640),
    )
    .unwrap();
    fs::write(folder.join("jmxremote.password"), "monitorRole hunter2\n").unwrap();
    let (shown, mut withheld) = shown_of(&folder);
    assert_eq!(shown, ["conf.d/10-opcache.ini", "note", "plain/opcache.ini"]);
    withheld.sort();
    assert_eq!(withheld.len(), 3, "{withheld:?}");
    assert!(
        withheld[0].ends_with("conf.d/20-agent.ini (a line of it sets a credential)"),
        "{withheld:?}"
    );
}

#[test]
fn no_pattern_names_a_place_that_is_never_shown() {
    for path in PACKAGES.iter().chain(WHOLE) {
        let path = Path::new(path);
        for secret in [
            "/etc/shadow",
            "/etc/sudoers",
            "/etc/ssh",
            "/etc/ssl/private",
            "/etc/maven/settings.xml",
            "/etc/R/Renviron.site",
            "/etc/chromium.d/apikeys",
            "/etc/npmrc",
            "/etc/pip.conf",
            "/etc/wgetrc",
            "/etc/cloud",
            "/etc/kubernetes",
            "/etc/docker",
        ] {
            assert!(!Path::new(secret).starts_with(path), "{}", path.display());
        }
    }
    assert_eq!(expand("/proc/sel*/stat"), [PathBuf::from("/proc/self/stat")]);
}

#[test]
fn paths_of_the_operator_that_cannot_be_shown_are_refused_with_the_reason() {
    let place = tempfile::tempdir_in("/var/lib")
        .unwrap_or_else(|_| tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap());
    let root = place.path().canonicalize().unwrap();
    let data = root.join("data");
    for folder in [
        "data/work",
        "tools/node",
        "served",
        ".ssh",
        "person/.aws",
        "of-npm/a",
    ] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    // Node.js has such a file.
    fs::write(root.join("tools/node/.npmrc"), "").unwrap();
    fs::write(root.join("of-npm/a/.npmrc"), "//a.b/:_authToken=npm_0123\n").unwrap();
    fs::write(root.join("tools/file"), "").unwrap();
    let _listener = UnixListener::bind(root.join("served/socket")).unwrap();
    symlink("/etc", root.join("link")).unwrap();
    let inside = |name: &str| root.join(name).to_str().unwrap().to_owned();
    for good in [inside("tools"), inside("tools/file")] {
        assert_eq!(check_readable(Path::new(&good), &data), Ok(()), "{good}");
    }
    for (bad, reason) in [
        ("relative/path".to_owned(), "by its full path"),
        (inside("tools/../tools"), "without `..`"),
        (
            inside("nowhere"),
            "No such file or directory; make it or leave it out",
        ),
        ("/".to_owned(), "lies in it"),
        (
            "/etc".to_owned(),
            "/etc/shadow lies in it, and credentials of the host lie there",
        ),
        ("/etc/shadow".to_owned(), "credentials of the host lie there"),
        ("/proc/self".to_owned(), "the sandbox has its own there"),
        ("/tmp".to_owned(), "the sandbox has its own there"),
        ("/run".to_owned(), "sockets"),
        ("/home".to_owned(), "the folders of the host's users lie there"),
        (inside("link"), "/etc/shadow lies in it"),
        (
            inside(".ssh"),
            "keys of a person lie there; name a file or folder",
        ),
        (inside("person"), "person/.aws); name a folder without them"),
        (inside("of-npm"), "of-npm/a/.npmrc); name a folder without them"),
        (inside("data"), "the engine's data folder lies there"),
        (inside("data/work"), "the engine's data folder lies there"),
        (
            root.to_str().unwrap().to_owned(),
            "the engine's data folder lies there",
        ),
        (inside("served"), "by the socket"),
    ] {
        let refused = check_readable(Path::new(&bad), &data).unwrap_err();
        assert!(refused.contains(reason), "{bad}: {refused}");
    }
}

#[test]
fn keys_are_found_in_a_folder_beside_and_below_others() {
    let place = tempfile::tempdir_in("/var/lib")
        .unwrap_or_else(|_| tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap());
    let root = place.path().canonicalize().unwrap();
    let data = root.join("data");
    for keys in [".netrc", ".git-credentials", ".pypirc", ".kube", ".docker"] {
        for folder in [format!("at{keys}"), format!("below{keys}/a/b")] {
            let (outer, folder) = (folder.split('/').next().unwrap(), root.join(&folder));
            fs::create_dir_all(&folder).unwrap();
            assert_eq!(check_readable(&root.join(outer), &data), Ok(()), "{outer}");
            fs::write(folder.join(keys), "").unwrap();
            let refused = check_readable(&root.join(outer), &data).unwrap_err();
            assert_eq!(
                refused,
                format!(
                    "keys of a person lie there ({}); name a folder without them",
                    folder.join(keys).display()
                )
            );
        }
    }
    // A link with such a name is refused as well, regardless of its target.
    fs::create_dir(root.join("links")).unwrap();
    symlink("nowhere", root.join("links/.ssh")).unwrap();
    let refused = check_readable(&root.join("links"), &data).unwrap_err();
    assert!(refused.contains("links/.ssh"), "{refused}");
}
