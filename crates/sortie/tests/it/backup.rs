//! `sortie backup` of a running node, and `sortie restore` of its archive.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

use sortie_testkit::node::binary_command;
use tempfile::TempDir;

use crate::{connections::put, prelude::*};

/// The command line on a data folder where no node runs.
fn on(data: &Path, arguments: &[&str]) -> Command {
    let mut command = binary_command(Path::new(env!("CARGO_BIN_EXE_sortie")));
    command.args(arguments).arg("--data-dir").arg(data);
    command
}

fn as_text(path: &Path) -> Result<&str> {
    path.to_str().context("a path of this test is UTF-8")
}

/// Returns the names in a folder.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names: Vec<String> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    names.sort();
    Ok(names)
}

/// The file of a content of a node.
fn content_of(node: &Node, sum: &str) -> Result<PathBuf> {
    let inside = |org: PathBuf| fs::read_dir(org.join(sum.get(..2)?)).ok()?.next()?.ok();
    fs::read_dir(node.data_dir().join("blobs"))?
        .find_map(|org| inside(org.ok()?.path()))
        .map(|content| content.path())
        .context("the content")
}

/// Replaces the data of a node with that of an archive, and starts it.
async fn restored(node: &mut Node, archive: &Path) -> Result<String> {
    node.kill()?;
    let data = node.data_dir().to_owned();
    #[expect(
        clippy::disallowed_methods,
        reason = "the folder of a test whose runs are over"
    )]
    fs::remove_dir_all(&data)?;
    let said = exits(on(&data, &["restore", as_text(archive)?]), 0)?;
    node.restart().await?;
    Ok(text(&said.stdout))
}

/// Makes runs, and makes and deletes files, until the stop flag is set.
async fn load(client: &Client, stop: &AtomicBool) -> Result<u32> {
    let mut made = 0;
    while !stop.load(Ordering::SeqCst) {
        client.create(&plain("load")).await?;
        let file = client.upload("passing.bin", format!("passing {made}")).await?;
        let path = format!("/v1/files/{}", file.id);
        client.delete(&path).expect(204).await?;
        made += 1;
    }
    Ok(made)
}

#[tokio::test]
async fn a_backup_under_load_has_everything_that_was_acknowledged_before_it() -> Checked {
    let mut node = node(Database::Sqlite).await?;
    let (client, key) = (node.client()?, node.key().to_owned());
    let big: Vec<u8> = (0..2_000_000_u32)
        .map(|at| u8::try_from(at * 7 % 251).unwrap_or(0))
        .collect();
    let file = client.upload("big.bin", &big).await?;
    client.upload("empty.txt", "").await?;
    let (_, kept) = client
        .complete(&commands(&[
            "mkdir outputs && printf 'the report' > outputs/report.md",
        ]))
        .await?;
    let held = at_work(&client).await?.id.to_string();
    let mut acknowledged = Vec::new();
    for number in 0..50 {
        acknowledged.push(client.create_id(&plain(&format!("before {number}"))).await?);
    }

    let folder = TempDir::new()?;
    let archive = folder.path().join("backup.tar");
    let command = node.sortie(&["backup", as_text(&archive)?]);
    let stop = AtomicBool::new(false);
    let backup = async {
        let done = tokio::task::spawn_blocking(move || exits(command, 0)).await?;
        stop.store(true, Ordering::SeqCst);
        done
    };
    let (made, said) = tokio::join!(load(&client, &stop), backup);
    ensure!(made? > 0, "there was no load");
    let said = text(&said?.stderr);
    ensure!(said.contains("THE MASTER KEY IS NOT IN THE BACKUP"), "{said}");
    assert_eq!(names(folder.path())?, ["backup.tar"]);
    assert_eq!(fs::metadata(&archive)?.permissions().mode() & 0o777, 0o600);

    let said = restored(&mut node, &archive).await?;
    assert_contains!(said, "at work", "BEFORE the first start");
    let client = Client::new(node.address()?, Some(key));
    for id in &acknowledged {
        let (events, run) = client.finished(id).await?;
        assert_eq!(run.status, RunStatus::Succeeded);
        let numbers: Vec<i64> = events.iter().map(|event| event.id).collect();
        assert_eq!(numbers, (1..).take(events.len()).collect::<Vec<i64>>());
    }
    let path = format!("/v1/files/{}/content", file.id);
    ensure!(
        client.get(&path).expect(200).await?.body == big,
        "the file is another"
    );
    let path = format!("/v1/runs/{}/artifacts/report.md", kept.id);
    assert_eq!(client.get(&path).expect(200).await?.body, "the report");
    // The run that was in progress resumes on the node that took it over.
    let mut stream = client.follow(&held, None).await?;
    stream.until(|event| event.kind == "resumed").await?;
    client.cancel(&held).await?;
    Ok(())
}

#[tokio::test]
async fn keys_are_in_a_backup_only_where_they_were_asked_for() -> Checked {
    let node = node(Database::Sqlite).await?;
    let folder = TempDir::new()?;
    for (flags, has) in [(&[][..], false), (&["--include-keys"][..], true)] {
        let output = exits(node.sortie(&[&["backup", "-"], flags].concat()), 0)?;
        let target = folder.path().join(format!("data-{has}"));
        let mut restore = on(&target, &["restore", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        restore
            .stdin
            .take()
            .context("a pipe")?
            .write_all(&output.stdout)?;
        let restored = restore.wait_with_output()?;
        ensure!(restored.status.success(), "{restored:?}");
        // `git add .` in the folder above does not stage any key.
        assert_eq!(fs::read_to_string(target.join(".gitignore"))?, "*\n");
        let told = text(&restored.stdout);
        ensure!(told.contains("Git ignores the data folder"), "{told}");
        for key in ["master.key", "admin.key"] {
            let path = target.join(key);
            assert_eq!(path.exists(), has, "{key}");
            if has {
                assert_eq!(fs::read(&path)?, fs::read(node.data_dir().join(key))?);
                assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
            }
        }
        let warned = text(&output.stderr).contains("THE MASTER KEY IS NOT IN THE BACKUP");
        assert_eq!(warned, !has);
    }
    // Nothing is left of the copies.
    ensure!(!node.data_dir().join("backup.partial").exists());
    assert_eq!(names(folder.path())?, ["data-false", "data-true"]);
    Ok(())
}

/// The keys of the configuration are in no file of the data folder, and a key file in the folder may be unused.
#[tokio::test]
async fn the_master_keys_in_use_are_in_a_backup_and_open_what_is_restored() -> Checked {
    let (first, second, unused) = ("1".repeat(64), "2".repeat(64), "3".repeat(64));
    let keys = format!("{first}, {second}");
    let service = Service::start().await?;
    let options = NodeOptions::default().env("SORTIE_MASTER_KEY", &keys);
    let mut node = node_with(Database::Sqlite, options).await?;
    let definition = json!({"type": "http", "url": format!("{}/echo", service.url()),
        "auth": {"type": "bearer", "token": "hush-hush"}});
    put(&node.client()?, "crm", &definition).expect(201).await?;
    let data = node.data_dir().to_owned();
    fs::write(data.join("operator.key"), "stp_operator\n")?;
    fs::write(data.join("master.key"), &unused)?;

    let folder = TempDir::new()?;
    let archive = folder.path().join("backup.tar");
    let arguments = ["backup", as_text(&archive)?, "--include-keys"];
    // A command that does not know the key in use makes no backup, because it could not be restored.
    let said = text(&exits(node.sortie(&arguments), 64)?.stderr);
    ensure!(
        said.contains("the master key in use is not known") && !archive.exists(),
        "{said}"
    );
    let key_file = folder.path().join("key");
    fs::write(&key_file, &keys)?;
    let mut command = node.sortie(&arguments);
    command.env("SORTIE_MASTER_KEY_FILE", &key_file);
    exits(command, 0)?;

    node.options_mut()
        .environment
        .retain(|(name, _)| name != "SORTIE_MASTER_KEY");
    restored(&mut node, &archive).await?;
    assert_eq!(
        fs::read_to_string(data.join("master.key"))?,
        format!("{first},{second}\n")
    );
    assert_eq!(fs::read_to_string(data.join("operator.key"))?, "stp_operator\n");
    for key in ["master.key", "admin.key", "operator.key"] {
        assert_eq!(
            fs::metadata(data.join(key))?.permissions().mode() & 0o777,
            0o600,
            "{key}"
        );
    }
    let tested = node
        .client()?
        .post_empty("/v1/connections/crm/test")
        .await?
        .json()?;
    assert_eq!(tested["status"], "ready");
    Ok(())
}

#[tokio::test]
async fn what_is_not_whole_is_not_restored_and_leaves_nothing() -> Checked {
    let node = node(Database::Sqlite).await?;
    node.client()?.upload("a.bin", vec![5; 400_000]).await?;
    let folder = TempDir::new()?;
    let archive = folder.path().join("backup.tar");
    exits(node.sortie(&["backup", as_text(&archive)?]), 0)?;
    let whole = fs::read(&archive)?;

    // A second backup does not overwrite the first.
    let refused = exits(node.sortie(&["backup", as_text(&archive)?]), 64)?;
    ensure!(text(&refused.stderr).contains("exists already"));
    // An existing data folder is not replaced.
    let refused = exits(node.sortie(&["restore", as_text(&archive)?]), 64)?;
    ensure!(text(&refused.stderr).contains("is not empty"));

    let mut changed = whole.clone();
    let content = changed
        .windows(400)
        .position(|part| part == [5; 400])
        .context("the content")?;
    changed[content + 7] ^= 1;
    let target = folder.path().join("data");
    for (bytes, reason) in [
        (&whole[..whole.len() / 2], "not a whole archive"),
        (&whole[..0], "ends too early"),
        (&changed[..], "was changed"),
    ] {
        let bad = folder.path().join("bad.tar");
        fs::write(&bad, bytes)?;
        let refused = exits(on(&target, &["restore", as_text(&bad)?]), 64)?;
        let said = text(&refused.stderr);
        ensure!(said.contains("nothing was restored"), "{reason}: {said}");
        assert_eq!(names(folder.path())?, ["backup.tar", "bad.tar"], "{reason}");
    }

    // The start of the archive is enough to refuse the content storage, and the target folder is checked before that.
    let begun = folder.path().join("begun.tar");
    fs::write(&begun, &whole[..4_096])?;
    let mut elsewhere = on(&target, &["restore", as_text(&begun)?]);
    elsewhere.env("SORTIE_BLOB_URL", "s3://bucket/prefix");
    let said = text(&exits(elsewhere, 64)?.stderr);
    ensure!(said.contains("leave blob_url out"), "{said}");
    fs::remove_file(&begun)?;
    let (link, led_to) = (folder.path().join("link"), folder.path().join("led-to"));
    fs::create_dir(&led_to)?;
    std::os::unix::fs::symlink(&led_to, &link)?;
    for (place, reason) in [
        (link, "is a symbolic link"),
        (folder.path().join("link/"), "is a symbolic link"),
        (PathBuf::from("/proc"), "is a mount point"),
        (folder.path().join("bad.tar"), "is not a folder"),
    ] {
        let said = text(&exits(on(&place, &["restore", as_text(&archive)?]), 64)?.stderr);
        ensure!(said.contains(reason), "{}: {said}", place.display());
    }
    assert_eq!(names(folder.path())?, ["backup.tar", "bad.tar", "led-to", "link"]);

    // A restore that is killed in the middle leaves no target folder, and the next one removes its remains.
    let mut restore = on(&target, &["restore", "-"]).stdin(Stdio::piped()).spawn()?;
    let mut pipe = restore.stdin.take().context("a pipe")?;
    pipe.write_all(&whole[..whole.len() / 2])?;
    let partial = folder.path().join("data.restoring");
    while !partial.join("sortie.db").exists() {
        ensure!(restore.try_wait()?.is_none(), "it ended by itself");
        tokio::task::yield_now().await;
    }
    restore.kill()?;
    restore.wait()?;
    ensure!(!target.exists() && partial.exists());
    // The name of a folder may end with a slash, and the folder may exist if it is empty.
    let with_slash = folder.path().join("data/");
    exits(on(&with_slash, &["restore", as_text(&archive)?]), 0)?;
    ensure!(!partial.exists());
    assert_eq!(names(&target)?, [".gitignore", "blobs", "sortie.db"]);
    exits(on(&led_to.join(""), &["restore", as_text(&archive)?]), 0)?;
    assert_eq!(names(&led_to)?, [".gitignore", "blobs", "sortie.db"]);

    // A foreign file at the temporary path is kept.
    let photos = folder.path().join("photos.tar.partial");
    fs::create_dir(&photos)?;
    fs::write(photos.join("1.jpg"), "x")?;
    let refused = exits(
        node.sortie(&["backup", as_text(&folder.path().join("photos.tar"))?]),
        64,
    )?;
    ensure!(text(&refused.stderr).contains("is in the way"), "{refused:?}");
    assert_eq!(names(&photos)?, ["1.jpg"]);
    Ok(())
}

#[tokio::test]
async fn a_database_that_lacks_a_content_or_is_damaged_is_refused() -> Checked {
    let (node, client) = started(Database::Sqlite).await?;
    let file = client.upload("a.bin", "content").await?;
    client.upload("b.bin", "content").await?;
    let left = commands(&["mkdir outputs && printf 'the report' > outputs/report.md"]);
    let (_, run) = client.complete(&left).await?;
    let folder = TempDir::new()?;
    let sum = file.sha256.to_string();
    let content = content_of(&node, &sum)?;
    fs::write(&content, "CONTENT")?;
    let archive = folder.path().join("backup.tar");
    let said = text(&exits(node.sortie(&["backup", as_text(&archive)?]), 70)?.stderr);
    ensure!(said.contains("is damaged"), "{said}");
    fs::remove_file(&content)?;
    let said = text(&exits(node.sortie(&["backup", as_text(&archive)?]), 70)?.stderr);
    ensure!(said.contains("cannot be read"), "{said}");
    assert!(names(folder.path())?.is_empty());

    // The error lists all lost contents with their referrers, and saving the same content again repairs one.
    let report = run.artifacts.first().context("an artifact")?.sha256.to_string();
    let artifact = content_of(&node, &report)?;
    fs::write(&artifact, "another  ")?;
    let said = text(&exits(node.sortie(&["backup", as_text(&archive)?]), 70)?.stderr);
    assert_contains!(
        said,
        "2 contents of files and artifacts are lost",
        "the saved file `a.bin`, the saved file `b.bin`",
        &format!("an artifact of {}", run.id)
    );
    client.upload("again.bin", "content").await?;
    let said = text(&exits(node.sortie(&["backup", as_text(&archive)?]), 70)?.stderr);
    ensure!(said.contains("1 contents") && !said.contains("a.bin"), "{said}");
    client.upload("report.md", "the report").await?;
    exits(node.sortie(&["backup", as_text(&archive)?]), 0)?;
    Ok(())
}

#[test]
fn a_database_on_a_server_has_its_own_tools() -> Checked {
    let folder = TempDir::new()?;
    for arguments in [["backup", "-"], ["restore", "-"]] {
        let mut command = on(&folder.path().join("data"), &arguments);
        command.env("SORTIE_DATABASE_URL", "postgres://sortie@localhost/sortie");
        let refused = exits(command, 64)?;
        let said = text(&refused.stderr);
        assert_contains!(said, "pg_dump", "OPERATIONS.md");
        assert!(refused.stdout.is_empty());
    }
    Ok(())
}
