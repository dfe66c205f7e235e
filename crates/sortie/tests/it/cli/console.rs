//! `sortie console` and `sortie open`, and the address that `sortie serve` prints.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use super::alone;
use crate::prelude::*;

both_databases![a_printed_address_signs_in_once];

const SCREENS: [&str; 3] = ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"];

/// A command that finds no screen for a browser.
fn without_screen(node: &Node, arguments: &[&str]) -> Command {
    let mut command = node.sortie(arguments);
    for name in SCREENS {
        command.env_remove(name);
    }
    command
}

/// Signs in with the code of a printed address.
async fn sign_in(node: &Node, address: &str) -> Result<Answer> {
    let code = address.split_once("#code=").context("no code")?.1;
    let page = Client::new(node.address()?, None)
        .with_header("sec-fetch-site", "same-origin")
        .with_header("x-sortie-console", "1");
    page.post("/v1/console/sessions", &json!({"code": code})).await
}

async fn a_printed_address_signs_in_once(database: Database) -> Checked {
    let node = node(database).await?;
    let console = format!("http://{}/console/", node.address()?);
    node.until_logged(&format!("the console is at {console}")).await?;
    let printed = said(&node, &["console", "--print"])?;
    ensure!(printed.starts_with(&format!("{console}#code=stl_")), "{printed}");
    let answer = sign_in(&node, printed.trim_end()).await?.expect(201)?;
    let cookie = answer.header("set-cookie")?.split(';').next().unwrap_or_default();
    let browser = Client::new(node.address()?, None).with_header("cookie", cookie);
    assert_eq!(browser.get("/v1/me").json(200).await?["role"], "admin");
    sign_in(&node, printed.trim_end())
        .await?
        .refused("unauthorized")?;

    let run = node.client()?.create_id(&plain("x")).await?;
    let opened = exits(without_screen(&node, &["open", &run]), 0)?;
    let opened = text(&opened.stdout);
    ensure!(
        opened.starts_with(&format!("{console}runs/{run}#code=stl_")),
        "{opened}"
    );
    sign_in(&node, opened.trim_end()).await?.expect(201)?;
    ensure!(
        !node.log().contains("stl_"),
        "a code is in the log: {}",
        node.log()
    );
    Ok(())
}

#[tokio::test]
async fn with_a_screen_the_address_is_given_to_the_browser() -> Checked {
    let node = node(Database::Sqlite).await?;
    let folder = tempfile::tempdir()?;
    let (launcher, opened) = (folder.path().join("xdg-open"), folder.path().join("opened"));
    let script = format!(
        "#!/bin/sh\nprintf %s \"$1\" >{0}.new && mv {0}.new {0}\n",
        opened.display()
    );
    fs::write(&launcher, script)?;
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755))?;
    let mut command = node.sortie(&["console"]);
    let path = std::env::join_paths([folder.path(), "/usr/bin".as_ref(), "/bin".as_ref()])?;
    command.env("PATH", path).env("DISPLAY", ":0");
    let output = exits(command, 0)?;
    ensure!(output.stdout.is_empty(), "{}", text(&output.stdout));
    let look = async || Ok(fs::read_to_string(&opened).unwrap_or_default());
    let address = until("the address", look, |address| !address.is_empty()).await?;
    sign_in(&node, &address).await?.expect(201)?;
    Ok(())
}

#[tokio::test]
async fn the_console_needs_an_engine_that_stays_and_has_one() -> Checked {
    let folder = tempfile::tempdir()?;
    let output = exits(alone(folder.path(), &["console"]), 64)?;
    let told = text(&output.stderr);
    ensure!(told.contains("sortie serve") && told.contains("--url"), "{told}");
    let options = NodeOptions::default().env("SORTIE_CONSOLE", "false");
    let (node, _) = started_with(Database::Sqlite, options).await?;
    let output = exits(node.sortie(&["console", "--print"]), 64)?;
    ensure!(
        text(&output.stderr).contains("console = false"),
        "{}",
        text(&output.stderr)
    );
    ensure!(!node.log().contains("the console is at"), "{}", node.log());
    Ok(())
}
