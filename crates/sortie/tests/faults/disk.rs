//! Disks that are full: the one with the database, and the one with the content of files. Each is a small file system
//! in memory that the test mounts. If the host does not allow that, the test prints a clear notice.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::bail;
use tempfile::TempDir;

use crate::prelude::*;

both_databases![the_disk_with_the_content_of_files_is_full];

/// Room for the database of a few hundred runs and more.
const DISK_MIB: u32 = 48;

/// A small file system, unmounted when it is dropped.
#[derive(Debug)]
struct Disk {
    at: PathBuf,
    _folder: TempDir,
}

impl Disk {
    /// `None` if the host does not allow it, which is printed.
    fn mount() -> Result<Option<Self>> {
        let folder = tempfile::Builder::new().prefix("sortie-disk-").tempdir()?;
        let at = folder.path().join("disk");
        fs::create_dir(&at)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "a test prepares the host that the node is on"
        )]
        let mounted = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={DISK_MIB}m,mode=0755"),
                "sortie-test",
            ])
            .arg(&at)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Ok(Some(Self { at, _folder: folder })),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                println!("NOT CHECKED: full disks: this host lets the tests mount nothing: {why}");
                Ok(None)
            }
            Err(error) => {
                println!("NOT CHECKED: full disks: mount is not installed: {error}");
                Ok(None)
            }
        }
    }

    /// Takes all that is left.
    fn fill(&self) -> Result<()> {
        let mut ballast = fs::File::options()
            .create(true)
            .append(true)
            .open(self.ballast())?;
        let block = vec![1; 1 << 16];
        loop {
            match std::io::Write::write_all(&mut ballast, &block) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(error).context("the ballast"),
            }
        }
    }

    fn ballast(&self) -> PathBuf {
        self.at.join("ballast")
    }

    fn empty(&self) -> Result<()> {
        Ok(fs::remove_file(self.ballast())?)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let at: &Path = &self.at;
        #[expect(clippy::disallowed_methods, reason = "a test puts the host back in order")]
        let unmounted = Command::new("umount").arg("-l").arg(at).status();
        // A mount that remains is visible in the host's table of mounts.
        drop(unmounted);
    }
}

#[tokio::test]
async fn the_disk_with_sqlite_is_full() -> Checked {
    let Some(disk) = Disk::mount()? else { return Ok(()) };
    let setup = Setup {
        data_parent: Some(disk.at.clone()),
        ..Setup::default()
    };
    let (mut world, mut load) = begin(Database::Sqlite, "the_disk_with_sqlite", setup).await?;
    for _ in 0..2 {
        let pause = world.moment(500..2_000);
        tokio::time::sleep(pause).await;
        load.follow();
        disk.fill()?;
        let full = world.moment(2_000..5_000);
        tokio::time::sleep(full).await;
        refused_by_the_database(&world.nodes[0], &disk).await?;
        not_ready(&world, &disk).await?;
        disk.empty()?;
        world.nodes[0].client()?.get("/readyz").expect(200).await?;
    }
    let excuse = Excuse {
        failures: FULL,
        skipped_artifacts: true,
        ..Excuse::default()
    };
    let audited = end(world, load, excuse).await;
    drop(disk);
    audited
}

/// The database has hit the full disk: it has no room for a workflow, and its content is stored only there.
async fn refused_by_the_database(node: &Node, disk: &Disk) -> Checked {
    let client = node.client()?;
    let workflow = json!({"prompt": "large ".repeat(10_000)}).to_string();
    for version in 0..1_000 {
        // Directories that were removed since have made room.
        disk.fill()?;
        let path = format!("/v1/workflows/full{version}");
        let answer = client.send(Method::PUT, &path, workflow.clone().into()).await?;
        if answer.status >= 500 {
            return Ok(());
        }
        ensure!(answer.status < 300, "{}: {}", answer.status, answer.text());
    }
    bail!("the database on a full disk took 1,000 workflows")
}

/// After its database has hit the full disk, the node is not ready, and its log names the cause.
async fn not_ready(world: &World, disk: &Disk) -> Checked {
    let node = &world.nodes[0];
    let client = node.client()?;
    for _ in 0..1_000 {
        // Directories that were removed since have made room.
        disk.fill()?;
        if client.get("/readyz").await?.status == 503 {
            let log = node.log();
            let names_it = log.contains("no space left on the disk with") && log.contains("sortie.db");
            ensure!(names_it, "the log does not name the cause");
            return Ok(());
        }
    }
    bail!("a node with a full disk says that it is ready")
}

#[tokio::test]
async fn a_start_on_a_full_disk_names_the_disk() -> Checked {
    let Some(disk) = Disk::mount()? else { return Ok(()) };
    let options = NodeOptions {
        data_parent: Some(disk.at.clone()),
        ..NodeOptions::default()
    };
    let mut node = Node::start_with(env!("CARGO_BIN_EXE_sortie"), Database::Sqlite, options).await?;
    disk.fill()?;
    refused_by_the_database(&node, &disk).await?;
    disk.fill()?;
    told_by_doctor(&node)?;
    disk.empty()?;
    node.client()?.get("/readyz").expect(200).await?;
    node.terminate()?;
    node.ended().await?;
    disk.fill()?;
    let started = node.restart().await;
    ensure!(started.is_err(), "a node has started on a full disk");
    node.ended().await?;
    let told = node.log();
    ensure!(told.contains("no space left on"), "{told}");
    disk.empty()?;
    node.restart().await?;
    Ok(())
}

/// `docs/OPERATIONS.md#looking`: operators see the cause, which clients do not.
fn told_by_doctor(node: &Node) -> Checked {
    let output = node.sortie(&["doctor", "--json"]).output()?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let checks = report["checks"].as_array().context("a list")?;
    for name in ["ready", "readiness", "database"] {
        let check = checks.iter().rfind(|check| check["name"] == name);
        let found = check
            .and_then(|check| check["found"].as_str())
            .unwrap_or_default();
        ensure!(
            found.contains("no space left on the disk with"),
            "{name}: {report}"
        );
    }
    Ok(())
}

/// A command that writes to the full disk fails, and so does its run; a directory cannot be made.
const FULL: &[&str] = &[
    "No space left",
    "no space",
    "exited with",
    "working directory",
    "os error 28",
    "disk",
];

async fn the_disk_with_the_content_of_files_is_full(database: Database) -> Checked {
    let Some(disk) = Disk::mount()? else { return Ok(()) };
    let blobs = disk.at.join("blobs");
    let setup = Setup {
        blob_url: Some(format!("file:{}", blobs.display())),
        ..Setup::default()
    };
    let (mut world, mut load) = begin(database, "the_disk_with_files", setup).await?;
    let client = world.nodes[0].client()?;
    for round in 0..2 {
        let pause = world.moment(500..1_500);
        tokio::time::sleep(pause).await;
        load.follow();
        disk.fill()?;
        let refused = client
            .send_form(&[("form-data; name=\"file\"; filename=\"large\"", &vec![7; 1 << 20])])
            .await?;
        ensure!(
            refused.status >= 500,
            "a file was taken on a full disk: {}",
            refused.status
        );
        let full = world.moment(1_000..3_000);
        tokio::time::sleep(full).await;
        disk.empty()?;
        client
            .upload(&format!("afterwards{round}"), vec![7; 1 << 20])
            .await?;
    }
    let left: Vec<_> = fs::read_dir(blobs.join("staging"))?.collect();
    ensure!(left.len() <= 16, "staged and left: {left:?}");
    let excuse = Excuse {
        skipped_artifacts: true,
        ..Excuse::default()
    };
    let audited = end(world, load, excuse).await;
    if audited.is_ok() {
        let left: Vec<_> = fs::read_dir(blobs.join("staging"))?.collect();
        ensure!(left.is_empty(), "staged and left: {left:?}");
    }
    drop(disk);
    audited
}
