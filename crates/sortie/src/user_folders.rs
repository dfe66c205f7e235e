//! Folders of the user, by the XDG rules: one for settings, one for state.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use sortie_api::plain;

use crate::{
    config::Environment,
    data_dir::{IGNORE_FILE, hide_from_git, replace_private},
    failure::{Failure, Result},
};

/// Returns the folder of the user's settings: the configuration of `sortie init`, keys and contexts. `None` if the user
/// has no home folder.
pub(crate) fn settings(environment: &Environment) -> Option<PathBuf> {
    folder(environment, "XDG_CONFIG_HOME", ".config")
}

/// Returns the data folder of commands outside a project. `None` if the user has no home folder.
pub(crate) fn state(environment: &Environment) -> Option<PathBuf> {
    folder(environment, "XDG_STATE_HOME", ".local/state")
}

fn folder(environment: &Environment, variable: &str, below_home: &str) -> Option<PathBuf> {
    // The XDG rules tell programs to ignore relative paths.
    let absolute = |name: &str| {
        environment
            .get(name)
            .map(Path::new)
            .filter(|path| path.is_absolute())
    };
    let parent = match absolute(variable) {
        Some(folder) => folder.to_owned(),
        None => absolute("HOME")?.join(below_home),
    };
    Some(parent.join("sortie"))
}

/// Replaces a file that only this user can read, in one step. Makes its folder. Git ignores the folder, which may hold keys
/// and may be part of a repository of settings.
pub(crate) fn save_private(path: &Path, text: &str) -> Result<()> {
    make_private(path.parent().unwrap_or(Path::new(".")))
        .and_then(|()| replace_private(path, text))
        .map_err(|error| Failure::internal(format!("cannot write {}: {}", path.display(), plain::io(&error))))
}

fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if folder.join(IGNORE_FILE).try_exists()? {
        return Ok(());
    }
    hide_from_git(folder)
}

/// The failure of a command that saves something for a user without a home folder.
pub(crate) fn no_home() -> Failure {
    Failure::usage("there is no folder for settings: set HOME or XDG_CONFIG_HOME to an absolute path")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        variables.iter().map(owned).collect()
    }

    #[test]
    fn a_variable_wins_over_the_home_folder_and_a_relative_path_is_ignored() {
        let home = ("HOME", "/home/ada");
        for (variables, found) in [
            (&[home][..], Some("/home/ada/.local/state/sortie")),
            (&[home, ("XDG_STATE_HOME", "/state")], Some("/state/sortie")),
            (
                &[home, ("XDG_STATE_HOME", "state")],
                Some("/home/ada/.local/state/sortie"),
            ),
            (&[("HOME", "ada")], None),
            (&[], None),
        ] {
            assert_eq!(state(&environment(variables)), found.map(PathBuf::from));
        }
        let settings = settings(&environment(&[home]));
        assert_eq!(settings, Some(PathBuf::from("/home/ada/.config/sortie")));
    }
}
