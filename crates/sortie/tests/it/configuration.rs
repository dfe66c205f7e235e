//! The command line's check of the configuration, and the data folder that a start creates.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
};

use sortie_testkit::node::binary_command;

use crate::{cli::alone, prelude::*};

#[test]
fn a_configuration_is_checked_and_an_unknown_key_is_an_error() -> Checked {
    let folder = tempfile::tempdir()?;
    let default = text(&exits(alone(folder.path(), &["config", "default"]), 0)?.stdout);
    let file = folder.path().join("sortie.toml");
    fs::write(&file, &default)?;
    exits(alone(folder.path(), &["config", "check"]), 0)?;
    fs::write(&file, "listen = \"127.0.0.1:9000\"\nconcurency = 3\n")?;
    let output = exits(alone(folder.path(), &["config", "check"]), 78)?;
    assert_contains!(output.stderr, "concurency");
    exits(alone(folder.path(), &["serve"]), 78)?;
    let mut command = alone(folder.path(), &["config", "check"]);
    fs::write(&file, "")?;
    command.env("SORTIE_LISTN", "127.0.0.1:1");
    ensure!(text(&exits(command, 78)?.stderr).contains("SORTIE_LISTN"));
    Ok(())
}

/// `docs/MODELS.md#which-models-there-are`: the check refuses exactly those models that a start refuses, in the same words.
#[test]
fn a_start_refuses_the_models_that_the_check_refuses() -> Checked {
    const PROVIDER: &str = "[providers.own]\napi = \"openai-chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n";
    const SIZES: &str = "context_window = 8000\nmax_output_tokens = 1000\n";
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("sortie.toml");
    for (settings, rules) in rows! {
        "default_model = \"nobody\"\n".to_owned(), ["default_model", "nobody"];
        format!("[models.m]\nprovider = \"own\"\nfree = true\n{SIZES}"), ["provider", "own"];
        format!("{PROVIDER}[models.m]\nprovider = \"own\"\nfree = true\n"), ["model", "context_window"];
        format!("{PROVIDER}[models.m]\nprovider = \"own\"\n{SIZES}"), ["input_micros_per_mtok", "free = true"];
        "blob_url = \"ftp://files\"\n".to_owned(), ["blob_url", "s3://"];
        "[log]\nfilter = \"a=b=c\"\n".to_owned(), ["log.filter (sortie.toml): must be a level", "sortie_engine=debug"];
        "[traces]\nendpoint = \"http://collector..example:4318\"\n".to_owned(), ["traces.endpoint", "address of a host"];
    } {
        fs::write(&file, &settings)?;
        for command in [
            &["config", "check"] as &[_],
            &["serve", "--listen", "127.0.0.1:0"],
        ] {
            let mut command = alone(folder.path(), command);
            command.env_remove("SORTIE_DEFAULT_MODEL");
            let output = exits(command, 78)?;
            let told = text(&output.stderr);
            ensure!(rules.iter().all(|rule| told.contains(rule)), "{settings}: {told}");
        }
    }
    let priced = "input_micros_per_mtok = 500\noutput_micros_per_mtok = 700\n";
    fs::write(
        &file,
        format!("{PROVIDER}[models.m]\nprovider = \"own\"\n{SIZES}{priced}"),
    )?;
    let shown = text(&exits(alone(folder.path(), &["config", "check"]), 0)?.stdout);
    for line in [
        "provider = \"own\"",
        "context_window = 8000",
        "input_micros_per_mtok = 500",
        "output_micros_per_mtok = 700",
        "cache_read_micros_per_mtok = 500",
    ] {
        ensure!(shown.contains(line), "{line}: {shown}");
    }
    let shown = exits(alone(folder.path(), &["config", "check", "--json"]), 0)?.stdout;
    let shown: serde_json::Value = serde_json::from_slice(&shown)?;
    assert_eq!(shown["models"]["m"]["output_micros_per_mtok"], 700);
    Ok(())
}

/// The data folder is created with everything in it hidden from Git, and the command reports its creation once.
#[test]
fn a_new_data_folder_is_told_and_ignored_by_git() -> Checked {
    let folder = tempfile::tempdir()?;
    let run = || {
        let command = fresh(folder.path(), "data", &["run", "--model", "runbook", "hello"]);
        exits(command, 0).map(|output| text(&output.stderr))
    };
    let first = run()?;
    ensure!(first.contains("made the data folder"), "{first}");
    assert_eq!(fs::read_to_string(folder.path().join("data/.gitignore"))?, "*\n");
    let second = run()?;
    ensure!(!second.contains("made the data folder"), "{second}");
    Ok(())
}

/// If a project has files in a folder `data`, the engine puts no keys and no database there, and Git adds neither
/// (`docs/DEPLOYMENT.md#settings-and-secrets`).
#[test]
fn the_data_folder_of_a_project_is_refused_and_stays_as_it_is() -> Checked {
    let project = tempfile::tempdir()?;
    let data = project.path().join("data");
    fs::create_dir(&data)?;
    fs::write(data.join("orders.csv"), "id\n1\n")?;
    for (arguments, code) in [
        (
            &["run", "--model", "runbook", "hello", "--data-dir", "data"][..],
            64,
        ),
        (&["serve", "--listen", "127.0.0.1:0"], 64),
        (&["doctor", "--data-dir", "data"], 1),
    ] {
        let mut command = binary_command(Path::new(env!("CARGO_BIN_EXE_sortie")));
        command
            .args(arguments)
            .current_dir(project.path())
            .stdin(Stdio::null());
        let output = exits(command, code)?;
        let told = text(&output.stdout) + &text(&output.stderr);
        for part in ["the data folder data has files", "orders.csv", "--data-dir"] {
            ensure!(told.contains(part), "{arguments:?}: {part}: {told}");
        }
        let found: Vec<_> = fs::read_dir(&data)?.collect::<Result<_, _>>()?;
        assert_eq!(found.len(), 1, "{arguments:?}: {found:?}");
    }
    Ok(())
}

/// No restart fixes a wrong command line or a missing master key, which exit with 64 and 78.
#[test]
fn the_unit_of_systemd_does_not_repeat_what_a_restart_cannot_mend() -> Checked {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd/sortie.service");
    let text = fs::read_to_string(unit)?;
    let codes = text
        .lines()
        .find_map(|line| line.strip_prefix("RestartPreventExitStatus="));
    assert_eq!(codes, Some("64 78"));
    Ok(())
}

#[test]
fn the_help_of_serve_names_both_modes() -> Checked {
    let mut command = binary_command(Path::new(env!("CARGO_BIN_EXE_sortie")));
    command.args(["serve", "--help"]);
    let help = text(&exits(command, 0)?.stdout);
    ensure!(help.contains("self-hosted or hosted"), "{help}");
    Ok(())
}

/// A first start that fails has still created the folder, and says so.
#[test]
fn a_data_folder_is_told_where_the_first_start_fails() -> Checked {
    let root = tempfile::tempdir()?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let listen = taken.local_addr()?.to_string();
    for (name, arguments) in [
        ("served", &["serve", "--listen", &listen][..]),
        ("used", &["run", "hello"]),
    ] {
        let mut command = fresh(root.path(), name, arguments);
        if name == "used" {
            command.env(
                "SORTIE_DATABASE_URL",
                "postgres://127.0.0.1:1/nobody?connect_timeout=1",
            );
        }
        let told = text(&exits(command, 69)?.stderr);
        ensure!(told.contains("made the data folder"), "{told}");
        assert_eq!(
            fs::read_to_string(root.path().join(name).join(".gitignore"))?,
            "*\n"
        );
    }
    Ok(())
}

/// A full disk while the folder is created: the folder either has the file that hides its keys, or does not exist.
#[test]
fn a_data_folder_is_never_left_without_what_hides_it_from_git() -> Checked {
    let root = tempfile::tempdir()?;
    let start = fresh(root.path(), "data", &["run", "hello", "--no-shell"]);
    // No file can be written to.
    let limited = "trap '' XFSZ; ulimit -f 0 && exec \"$0\" \"$@\"";
    let mut full = binary_command("sh".as_ref());
    full.args(["-c", limited])
        .arg(start.get_program())
        .args(start.get_args())
        .current_dir(root.path());
    let told = text(&exits(full, 70)?.stderr);
    ensure!(told.contains("cannot make the data folder"), "{told}");
    assert_eq!(fs::read_dir(root.path())?.count(), 0, "nothing is left");
    exits(start, 0)?;
    assert_eq!(fs::read_to_string(root.path().join("data/.gitignore"))?, "*\n");
    Ok(())
}

/// The command line with a data folder of this name, which does not exist yet.
fn fresh(root: &Path, name: &str, arguments: &[&str]) -> Command {
    let mut command = alone(&root.join(name), arguments);
    command.current_dir(root);
    command
}
