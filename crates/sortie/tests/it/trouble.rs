//! An operator in trouble: the path, the cause and the way out, without words of libraries.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::ensure;
use serde_json::json;
use sortie_testkit::{Database, Node, NodeOptions, node::binary_command};

use crate::{
    Checked,
    cli::alone,
    kit::{commands, exits, text},
};

/// The commands that meet a data folder first, with the exit codes for one that cannot be used.
const COMMANDS: [(&[&str], i32); 3] = [
    (&["serve", "--listen", "127.0.0.1:0"], 69),
    (&["run", "hello", "--no-shell"], 69),
    (&["doctor"], 1),
];

#[test]
fn a_damaged_database_is_told_with_its_path_and_the_way_out() -> Checked {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("sortie.db");
    exits(alone(folder.path(), &["run", "hello", "--no-shell"]), 0)?;
    // The log holds all of a small database. Where it was written back there is none.
    let _gone = fs::remove_file(folder.path().join("sortie.db-wal"));
    fs::write(
        &file,
        "no database, and longer than the header of one: ".repeat(100),
    )?;
    for (arguments, code) in COMMANDS {
        let output = exits(alone(folder.path(), arguments), code)?;
        let told = text(&output.stdout) + &text(&output.stderr);
        for part in ["sortie.db", "damaged", "put a backup in its place", "move it"] {
            ensure!(told.contains(part), "{arguments:?}: {part}: {told}");
        }
        ensure!(!told.contains("is not a database"), "{told}");
    }
    // The way out: with the file moved away there is an empty database.
    fs::rename(&file, folder.path().join("damaged.db"))?;
    exits(alone(folder.path(), &["run", "hello", "--no-shell"]), 0)?;
    Ok(())
}

/// `docs/SANDBOX.md`: on a host without user namespaces the refusal of a run with commands names the setting that confines
/// less.
#[tokio::test]
async fn a_host_without_user_namespaces_refuses_commands_with_the_way_out() -> Checked {
    let folder = tempfile::tempdir()?;
    let binary = folder.path().join("sortie");
    // A namespace of its own in which no further one can be made. Where there is none to begin with, the host is such a one.
    fs::write(
        &binary,
        format!(
            "#!/bin/sh\nunshare -Ur true || exec {0} \"$@\"\n\
             exec unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec {0} \"$@\"' sh \"$@\"\n",
            env!("CARGO_BIN_EXE_sortie")
        ),
    )?;
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755))?;
    let options = NodeOptions::default().env("SORTIE_SANDBOX_MINIMUM", "namespaces");
    let node = Node::start_with(&binary.to_string_lossy(), Database::Sqlite, options).await?;
    let client = node.client()?;
    let refused = client.post("/v1/runs", &commands(&["true"])).await?;
    let refused = refused.failure(400, "invalid_request")?;
    for part in [
        "user namespaces",
        "SORTIE_SANDBOX_MINIMUM=landlock",
        "docs/SANDBOX.md",
    ] {
        ensure!(refused.error.contains(part), "{part}: {refused:?}");
    }
    client
        .complete(&json!({"prompt": "without commands", "shell": false}))
        .await?;
    Ok(())
}

#[test]
fn a_file_in_the_place_of_the_data_folder_is_told_with_the_way_out() -> Checked {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("data"), "")?;
    for place in ["data", "data/below"] {
        for (arguments, code) in COMMANDS {
            let mut command = binary_command(Path::new(env!("CARGO_BIN_EXE_sortie")));
            command.args(arguments).current_dir(folder.path());
            command.env("SORTIE_DATA_DIR", place);
            let output = exits(command, if code == 69 { 70 } else { code })?;
            let told = text(&output.stdout) + &text(&output.stderr);
            for part in ["data", "a file in the place of a folder", "--data-dir"] {
                ensure!(told.contains(part), "{place}, {arguments:?}: {told}");
            }
            ensure!(!told.contains("os error"), "{told}");
        }
    }
    Ok(())
}

#[test]
fn wrong_values_are_told_without_words_of_libraries() -> Checked {
    const WORDS: [&str; 8] = [
        "os error",
        "invalid type",
        "invalid digit",
        "EOF",
        "u64",
        "i64",
        "struct ",
        "failed to ",
    ];
    let folder = tempfile::tempdir()?;
    let run = |more: &[&str], code: i32, rule: &str| -> Checked {
        let output = exits(alone(folder.path(), more), code)?;
        let told = text(&output.stderr);
        ensure!(told.contains(rule), "{more:?}: {told}");
        let word = WORDS.iter().find(|word| told.contains(**word));
        ensure!(word.is_none(), "{more:?}: {word:?} in {told}");
        Ok(())
    };
    let base = ["run", "x"];
    run(
        &[&base[..], &["--input", "{"]].concat(),
        64,
        "--input: not JSON: it ends too early",
    )?;
    run(
        &[&base[..], &["--input", "@/no/such"]].concat(),
        64,
        "--input /no/such: No such file",
    )?;
    run(
        &[&base[..], &["--file", "/no/such"]].concat(),
        64,
        "--file /no/such: No such file",
    )?;
    run(
        &[&base[..], &["--timeout", "soon"]].concat(),
        64,
        "must be a whole number",
    )?;
    run(
        &["runs", "list", "--limit", "x"],
        64,
        "must be a whole number from 1",
    )?;
    for (settings, rule) in [
        (
            "[providers.x]\napi = \"openai-chat\"\nbase_url = 5\n",
            "must be a string, not the number 5",
        ),
        (
            "[models.m]\nprovider = \"x\"\ncontext_window = \"a\"\n",
            "must be a whole number that is not negative",
        ),
        (
            "concurrency = 99999999999999999999\n",
            "must be of at most 64 bits",
        ),
        (
            "blob_url = \"s3://b//../x\"\n",
            "the prefix of the bucket must be names",
        ),
    ] {
        let file = folder.path().join("wrong.toml");
        fs::write(&file, settings)?;
        run(&["config", "check", &file.display().to_string()], 78, rule)?;
    }
    Ok(())
}
