//! The configuration as the command line checks it, and the data folder that a start makes.

use std::fs;

use anyhow::ensure;

use crate::{
    Checked,
    cli::alone,
    kit::{exits, text},
};

#[test]
fn a_configuration_is_checked_and_an_unknown_key_is_an_error() -> Checked {
    let folder = tempfile::tempdir()?;
    let default = text(&exits(alone(folder.path(), &["config", "default"]), 0)?.stdout);
    let file = folder.path().join("sortie.toml");
    fs::write(&file, &default)?;
    exits(alone(folder.path(), &["config", "check"]), 0)?;
    fs::write(&file, "listen = \"127.0.0.1:9000\"\nconcurency = 3\n")?;
    let output = exits(alone(folder.path(), &["config", "check"]), 78)?;
    ensure!(
        text(&output.stderr).contains("concurency"),
        "{}",
        text(&output.stderr)
    );
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
    for (settings, rules) in [
        (
            "default_model = \"nobody\"\n".to_owned(),
            ["default_model", "nobody"],
        ),
        (
            format!("[models.m]\nprovider = \"own\"\nfree = true\n{SIZES}"),
            ["provider", "own"],
        ),
        (
            format!("{PROVIDER}[models.m]\nprovider = \"own\"\nfree = true\n"),
            ["model", "context_window"],
        ),
        (
            format!("{PROVIDER}[models.m]\nprovider = \"own\"\n{SIZES}"),
            ["input_micros_per_mtok", "free = true"],
        ),
        ("blob_url = \"ftp://files\"\n".to_owned(), ["blob_url", "s3://"]),
    ] {
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

/// The data folder is made with everything in it hidden from Git, and the command says once that it made it.
#[test]
fn a_new_data_folder_is_told_and_ignored_by_git() -> Checked {
    let folder = tempfile::tempdir()?;
    let run = || {
        let mut command = alone(
            &folder.path().join("data"),
            &["run", "--model", "runbook", "hello"],
        );
        command.current_dir(folder.path());
        exits(command, 0).map(|output| text(&output.stderr))
    };
    let first = run()?;
    ensure!(first.contains("made the data folder"), "{first}");
    assert_eq!(fs::read_to_string(folder.path().join("data/.gitignore"))?, "*\n");
    let second = run()?;
    ensure!(!second.contains("made the data folder"), "{second}");
    Ok(())
}
