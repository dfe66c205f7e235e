//! Finds the operating system and the programs that commands can use. A command lists them in a sandbox, because only a command
//! sees the same files as a command.

use std::{fmt::Write as _, time::Duration};

use sortie_sandbox::{AtTimeout, Command, ExitKind};

use crate::{Environment, Workspace, text};

/// Timeout of the listing.
const TIME: Duration = Duration::from_secs(10);
/// Maximum size of its output.
const OUTPUT_BYTES: usize = 16 * 1024;
/// Maximum length of a version, in bytes.
const VERSION_BYTES: usize = 24;
/// Prints a line for each fact: its kind, its name and the first line of the program's output, separated by tabs. A program that
/// does not run is missing. Java prints its version even without files that every Java program needs, so they are read as well.
/// Only if they are elsewhere is a Java program started, which takes a quarter of a second.
const SCRIPT: &str = r#"
( . /etc/os-release && printf 'system\t%s\n' "$PRETTY_NAME" ) 2>/dev/null
printf 'kernel\t%s\n' "$(uname -sm)"
java_finds_its_files() {
  home=$(readlink -f "$(command -v java)")
  home=${home%/bin/java}
  for file in conf/security/java.security lib/security/java.security; do
    head -c 1 "$home/$file" >/dev/null 2>&1 && return
  done
  java sun.security.tools.keytool.Main -help >/dev/null 2>&1
}
works() {
  case "$1" in
    go) go version ;;
    ffmpeg) ffmpeg -version ;;
    pdftotext) pdftotext -v || test $? = 99 ;;
    awk) awk 'BEGIN { exit 0 }' ;;
    java) { java --version || java -version; } && java_finds_its_files ;;
    *) "$1" --version ;;
  esac
}
for p in python3 node git rg jq curl awk sqlite3 gcc make cargo go java ruby perl php psql pdftotext pandoc ffmpeg; do
  if command -v "$p" >/dev/null 2>&1 && v=$(works "$p" 2>&1 </dev/null); then
    printf 'found\t%s\t%s\n' "$p" "$(printf '%s' "$v" | head -n 1)"
  else
    printf 'missing\t%s\n' "$p"
  fi
done
python3 - 2>/dev/null <<'PYTHON'
from importlib.util import find_spec
for name in ("numpy", "pandas", "matplotlib", "openpyxl", "requests", "PIL", "pypdf"):
    if find_spec(name):
        print("module", name, sep="\t")
PYTHON
true
"#;
/// Missing programs that are listed: those that models try first.
const NAMED_IF_MISSING: [&str; 6] = ["python3", "node", "git", "rg", "jq", "curl"];

/// Lists the programs in this workspace, and deletes it.
///
/// # Errors
/// A sentence for the log, if no command could be run.
pub async fn list_programs(mut workspace: Workspace) -> Result<Environment, String> {
    let command = Command {
        argv: vec!["sh".to_owned(), "-c".to_owned(), SCRIPT.to_owned()],
        timeout: TIME,
        at_timeout: AtTimeout::Kill,
        keep_bytes: OUTPUT_BYTES,
        store_bytes: 0,
        watch: None,
    };
    let finished = workspace.exec(None, command).await;
    let closed = workspace.close().await;
    let finished = finished.map_err(|error| error.to_string())?;
    closed?;
    if finished.exit != ExitKind::Code(0) {
        return Err(format!("the list ended early: {:?}", finished.exit));
    }
    Ok(read(&text::clean_bytes(finished.stdout.head)))
}

fn read(output: &str) -> Environment {
    let (mut system, mut kernel) = (String::new(), String::new());
    let (mut found, mut modules, mut missing) = (String::new(), Vec::new(), Vec::new());
    for line in output.lines() {
        let mut parts = line.split('\t');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("system"), Some(name), _) => name.clone_into(&mut system),
            (Some("kernel"), Some(name), _) => name.clone_into(&mut kernel),
            (Some("found"), Some(name), said) => {
                let comma = if found.is_empty() { "" } else { ", " };
                let version = said.and_then(version);
                let space = if version.is_some() { " " } else { "" };
                // Writing to a String cannot fail.
                let _ = write!(found, "{comma}{name}{space}{}", version.unwrap_or_default());
            }
            (Some("missing"), Some(name), _) if NAMED_IF_MISSING.contains(&name) => missing.push(name),
            (Some("module"), Some(name), _) => modules.push(name),
            _ => {}
        }
    }
    let mut programs = found;
    for (name, list) in [("Python modules", &modules), ("missing", &missing)] {
        if !list.is_empty() {
            let _ = write!(programs, "; {name}: {}", list.join(", "));
        }
    }
    let system: Vec<String> = [system, kernel]
        .into_iter()
        .filter(|name| !name.is_empty())
        .collect();
    Environment {
        date: String::new(),
        system: system.join(", "),
        programs,
    }
}

/// The first number with a decimal point.
fn version(said: &str) -> Option<&str> {
    let word = said
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')'))
        .map(|word| word.trim_start_matches(|c: char| !c.is_ascii_digit()))
        .find(|word| word.contains('.'))?;
    Some(text::head(word.trim_end_matches('.'), VERSION_BYTES))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::Permissions,
        os::unix::fs::{PermissionsExt as _, symlink},
        path::Path,
    };

    use super::*;

    #[test]
    fn facts_become_two_lines() {
        let output = "system\tDebian GNU/Linux 12 (bookworm)\nkernel\tLinux x86_64\nfound\tpython3\tPython 3.11.2\n\
                      found\tgit\tgit version 2.39.5\nfound\tawk\t\nmissing\trg\nmissing\tphp\n\
                      found\tgo\tgo version go1.22.1 linux/amd64\nmodule\tnumpy\nnonsense\n";
        let place = read(output);
        assert_eq!(place.system, "Debian GNU/Linux 12 (bookworm), Linux x86_64");
        assert_eq!(
            place.programs,
            "python3 3.11.2, git 2.39.5, awk, go 1.22.1; Python modules: numpy; missing: rg"
        );
    }

    /// Runs the script with these programs installed, each a shell script.
    fn listed(programs: &[(&str, &str)]) -> String {
        let place = tempfile::tempdir().unwrap();
        let bin = place.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for tool in ["cat", "head", "readlink", "uname"] {
            symlink(Path::new("/usr/bin").join(tool), bin.join(tool)).unwrap();
        }
        for (name, script) in programs {
            let file = place.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the script is tried outside of a sandbox"
        )]
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .env("PATH", &bin)
            .output()
            .unwrap();
        read(&String::from_utf8(output.stdout).unwrap()).programs
    }

    #[test]
    fn a_program_that_does_not_run_is_missing() {
        let missing = "missing: python3, node, git, rg, jq, curl";
        let java = (
            "bin/java",
            "[ $1 = --version ] && echo 'openjdk 17.0.15 2025-04-15'",
        );
        let settings = ("conf/security/java.security", "");
        assert_eq!(listed(&[java, settings]), format!("java 17.0.15; {missing}"));
        assert_eq!(listed(&[java]), format!("; {missing}"));
        // A script, with its files elsewhere.
        let elsewhere = ("bin/java", "echo 'openjdk 21.0.2 2024-01-16'");
        assert_eq!(listed(&[elsewhere]), format!("java 21.0.2; {missing}"));
        let programs = [
            ("bin/node", "exit 1"),
            ("bin/git", "echo 'git version 2.39.5'"),
            ("bin/pdftotext", "echo 'pdftotext version 4.03'; exit 99"),
            ("bin/cargo", "echo 'error: no default toolchain 1.0' >&2; exit 1"),
            ("bin/jq", "kill -9 $$"),
        ];
        assert_eq!(
            listed(&programs),
            "git 2.39.5, pdftotext 4.03; missing: python3, node, rg, jq, curl"
        );
    }

    #[test]
    fn nothing_said_is_nothing_told() {
        let place = read("");
        assert_eq!((place.system.as_str(), place.programs.as_str()), ("", ""));
        assert_eq!(version("no number"), None);
    }
}
