//! Errors for operators: each names the path, the cause and the remedy, without messages of libraries.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::Command,
};

use sortie_testkit::node::binary_command;

use crate::{cli::alone, prelude::*};

/// The commands that use a data folder first, with the exit codes if the folder is unusable.
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
    // The log holds all of a small database. After a checkpoint there is no log.
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
    // The remedy: after moving the file away, the next command creates an empty database.
    fs::rename(&file, folder.path().join("damaged.db"))?;
    exits(alone(folder.path(), &["run", "hello", "--no-shell"]), 0)?;
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
            for part in ["data", "a file exists where a folder is needed", "--data-dir"] {
                ensure!(told.contains(part), "{place}, {arguments:?}: {told}");
            }
            ensure!(!told.contains("os error"), "{told}");
        }
        for arguments in [
            &["backup", "archive.tar"][..],
            &["keys", "create", "x", "--offline"],
        ] {
            let mut command = binary_command(Path::new(env!("CARGO_BIN_EXE_sortie")));
            command.args(arguments).current_dir(folder.path());
            command.env("SORTIE_DATA_DIR", place);
            let told = text(&exits(command, 70)?.stderr);
            for part in ["data", "a file exists where a folder is needed", "--data-dir"] {
                ensure!(told.contains(part), "{place}, {arguments:?}: {told}");
            }
        }
    }
    Ok(())
}

/// `blob_url` is not set, and the configuration is valid.
#[test]
fn a_file_in_the_place_of_the_storage_is_not_the_fault_of_the_configuration() -> Checked {
    let folder = tempfile::tempdir()?;
    let blobs = folder.path().join("blobs");
    fs::write(&blobs, "")?;
    fs::write(folder.path().join("node_name"), "a-node")?;
    exits(alone(folder.path(), &["config", "check"]), 0)?;
    for (arguments, code) in COMMANDS {
        let output = exits(alone(folder.path(), arguments), code)?;
        let told = text(&output.stdout) + &text(&output.stderr);
        let path = blobs.display().to_string();
        for part in [&path, "a file exists where a folder is needed", "blob_url"] {
            ensure!(told.contains(part), "{arguments:?}: {part}: {told}");
        }
        ensure!(!told.contains("blob_url: "), "{told}");
    }
    Ok(())
}

/// The command as a user who is subject to file modes, which root is not.
fn bound(command: &Command) -> Result<Command> {
    let mut bound = if fs::metadata("/proc/self")?.uid() == 0 {
        let mut bound = binary_command(Path::new("setpriv"));
        bound
            .args(["--inh-caps=-all", "--bounding-set=-all", "--"])
            .arg(command.get_program());
        bound
    } else {
        binary_command(command.get_program().as_ref())
    };
    bound.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        bound.current_dir(folder);
    }
    Ok(bound)
}

/// A path without any permission, until it is dropped.
struct Closed<'a>(&'a Path, u32);

impl<'a> Closed<'a> {
    fn close(path: &'a Path) -> Result<Self> {
        let mode = fs::metadata(path)?.permissions().mode();
        fs::set_permissions(path, fs::Permissions::from_mode(0o000))?;
        Ok(Self(path, mode))
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        // If this user is root, the folder can be removed anyway.
        let _opened = fs::set_permissions(self.0, fs::Permissions::from_mode(self.1));
    }
}

#[test]
fn what_may_not_be_read_is_not_told_as_missing() -> Checked {
    let root = tempfile::tempdir()?;
    let data = root.path().join("data");
    fs::create_dir(&data)?;
    exits(alone(&data, &["run", "hello", "--no-shell"]), 0)?;
    let denied = |arguments: &[&str], url: Option<&str>| -> Checked {
        let mut command = alone(&data, arguments);
        command.current_dir(root.path());
        if let Some(url) = url {
            command.env("SORTIE_URL", url);
        }
        let told = text(&exits(bound(&command)?, 77)?.stderr);
        let is_missing = ["does not exist", "there is no"]
            .iter()
            .any(|word| told.contains(word));
        ensure!(
            told.contains("permission denied") && told.contains("SORTIE_API_KEY") && !is_missing,
            "{arguments:?}: {told}"
        );
        Ok(())
    };
    let archive = root.path().join("archive.tar").display().to_string();
    let commands = [
        &["backup", &archive][..],
        &["keys", "create", "x", "--offline"],
        &["runs", "list"],
        &["run", "hello", "--no-shell"],
    ];
    {
        let _closed = Closed::close(&data)?;
        for arguments in commands {
            denied(arguments, None)?;
        }
        denied(&["runs", "list"], Some("http://127.0.0.1:9"))?;
        let mut doctor = alone(&data, &["doctor"]);
        doctor.current_dir(root.path());
        let told = text(&exits(bound(&doctor)?, 1)?.stdout);
        assert_contains!(told, "permission denied", "--data-dir");
    }
    {
        let database = data.join("sortie.db");
        let _closed = Closed::close(&database)?;
        denied(commands[0], None)?;
    }
    {
        let key = data.join("admin.key");
        let _closed = Closed::close(&key)?;
        for arguments in &commands[2..] {
            denied(arguments, None)?;
            denied(arguments, Some("http://127.0.0.1:9"))?;
        }
        denied(&["backup", &archive, "--include-keys"], None)?;
    }
    ensure!(!Path::new(&archive).exists());
    exits(bound(&alone(&data, commands[0]))?, 0)?;
    Ok(())
}

/// Phrases of libraries, which no message may contain.
const WORDS: [&str; 9] = [
    "os error",
    "expected",
    "invalid type",
    "invalid digit",
    "EOF",
    "u64",
    "i64",
    "struct ",
    "failed to ",
];

/// Runs a command in a folder. It must exit with this code and print this rule without phrases of libraries.
fn tells(folder: &Path, command: &[&str], code: i32, rule: &str) -> Checked {
    let output = exits(alone(folder, command), code)?;
    let told = text(&output.stderr);
    ensure!(told.contains(rule), "{command:?}: {told}");
    let word = WORDS.iter().find(|word| told.contains(**word));
    ensure!(word.is_none(), "{command:?}: {word:?} in {told}");
    Ok(())
}

#[test]
fn wrong_values_are_told_without_words_of_libraries() -> Checked {
    let folder = tempfile::tempdir()?;
    let run = |command: &[&str], code: i32, rule: &str| tells(folder.path(), command, code, rule);
    run(
        &["restore", "/no/such.tar"],
        64,
        "cannot open /no/such.tar: No such file",
    )?;
    run(
        &["backup", "made.tar"],
        69,
        "does not exist: name the data folder",
    )?;
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
    exits(alone(folder.path(), &["run", "hello", "--no-shell"]), 0)?;
    run(
        &["backup", "/no/such/made.tar"],
        70,
        "cannot make /no/such/made.tar.partial: No such file",
    )
}

#[test]
fn files_that_cannot_be_read_are_told_without_words_of_libraries() -> Checked {
    let folder = tempfile::tempdir()?;
    let run = |command: &[&str], code: i32, rule: &str| tells(folder.path(), command, code, rule);
    for (settings, rule) in rows! {
        "[providers.x]\napi = \"openai-chat\"\nbase_url = 5\n", "must be a string, not the number 5";
        "[models.m]\nprovider = \"x\"\ncontext_window = \"a\"\n", "must be a whole number that is not negative";
        "concurrency = 99999999999999999999\n", "must be of at most 64 bits";
        "blob_url = \"s3://b//../x\"\n", "the prefix of the bucket must be names";
        "data_dir = \"data\"\nmode = hosted\n", "line 2, column 8: a text must be in quotes";
        "[sandbox\n", "line 1, column 9: a bracket must be closed";
    } {
        let file = folder.path().join("wrong.toml");
        fs::write(&file, settings)?;
        run(&["config", "check", &file.display().to_string()], 78, rule)?;
    }
    for (name, definition, rule) in rows! {
        "wrong.toml", "prompt = x\n", "wrong.toml: not TOML: line 1, column 10: a text must be in quotes";
        "wrong.yaml", "prompt: x\nprompt: y\n", "each field may be there once";
    } {
        fs::write(folder.path().join(name), definition)?;
        run(&["workflows", "put", name], 64, rule)?;
    }
    Ok(())
}

/// A shell, `flock` or a service manager may leave descriptors open for its children.
#[test]
fn descriptors_that_the_engine_is_started_with_do_no_harm_and_reach_no_command() -> Checked {
    let folder = tempfile::tempdir()?;
    for held in [
        "3</etc/passwd",
        "4</etc/passwd",
        "3</etc/passwd 4</etc/passwd 9</etc/passwd",
    ] {
        let mut command = binary_command(Path::new("/bin/sh"));
        command.args(["-c", &format!("exec {held}; exec \"$@\""), "sh"]);
        command.args([
            env!("CARGO_BIN_EXE_sortie"),
            "run",
            "```sh\nls /proc/self/fd\n```\n",
        ]);
        command.arg("--data-dir").arg(folder.path());
        let output = exits(command, 0)?;
        // The last is the folder that is listed.
        ensure!(
            text(&output.stdout) == "0\n1\n2\n3\n",
            "{held}: {}",
            text(&output.stdout)
        );
    }
    Ok(())
}
