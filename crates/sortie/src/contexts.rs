//! Saved engines, each under a name with its address and its API key: `contexts.toml` in the user's settings folder.
//!
//! Only the user can read the file. Git ignores its folder, which may be part of a repository of settings.

use std::{collections::BTreeMap, fs, io, path::PathBuf};

use serde::Deserialize;
use sortie_api::{Credential, plain};
use toml::{Table, Value};

use crate::{
    config::Environment,
    data_dir::is_missing,
    failure::{Exit, Failure, Result},
    texts,
    user_folders::{self, no_home, save_private},
};

const FILE: &str = "contexts.toml";

/// Maximum length of a name.
const NAME_CHARS: usize = 100;

/// Content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    /// Name of the context that commands use if they name none.
    pub(crate) current: Option<String>,
    /// The saved engines, by name.
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, SavedEngine>,
}

/// Address of an engine with the key that it accepts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedEngine {
    pub(crate) url: String,
    pub(crate) key: Credential,
}

/// Returns the path of the file. `None` if the user has no home folder.
pub(crate) fn file(environment: &Environment) -> Option<PathBuf> {
    user_folders::settings(environment).map(|folder| folder.join(FILE))
}

impl Contexts {
    /// Reads the file; no contexts if there is none.
    pub(crate) fn read(environment: &Environment) -> Result<Self> {
        let Some(path) = file(environment) else {
            return Ok(Self::default());
        };
        let wrong = |rule: &str| {
            Failure::new(
                Exit::Configuration,
                format!(
                    "{}: {rule}; mend the file, or remove it and sign in again with `sortie login`",
                    path.display()
                ),
            )
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if is_missing(&error) => return Ok(Self::default()),
            Err(error) => return Err(wrong(&format!("cannot be read: {}", plain::io(&error)))),
        };
        let table = texts::toml(&text).map_err(|rule| wrong(&rule))?;
        // The message of the library could repeat a value, which may be a key.
        let contexts = Self::deserialize(Value::Table(table))
            .map_err(|_| wrong("must have `current` and tables `[contexts.NAME]` with `url` and `key`"))?;
        Ok(contexts)
    }

    /// Replaces the file.
    pub(crate) fn save(&self, environment: &Environment) -> Result<PathBuf> {
        let path = file(environment).ok_or_else(no_home)?;
        let text = toml::to_string(&self.to_table()).map_err(|error| Failure::internal(error.to_string()))?;
        save_private(&path, &text)?;
        Ok(path)
    }

    fn to_table(&self) -> Table {
        let text = |text: &str| Value::String(text.to_owned());
        let saved = |engine: &SavedEngine| {
            Value::Table(Table::from_iter([
                ("url".to_owned(), text(&engine.url)),
                ("key".to_owned(), text(engine.key.expose())),
            ]))
        };
        let contexts = self
            .contexts
            .iter()
            .map(|(name, engine)| (name.clone(), saved(engine)));
        let mut table = Table::new();
        if let Some(current) = &self.current {
            table.insert("current".to_owned(), text(current));
        }
        table.insert("contexts".to_owned(), Value::Table(contexts.collect()));
        table
    }

    /// Returns the context with this name. `from` is the flag, variable or file that names it.
    pub(crate) fn get(&self, name: &str, from: &str) -> Result<&SavedEngine> {
        self.contexts.get(name).ok_or_else(|| {
            let names = self.contexts.keys().map(String::as_str);
            let remedy = match texts::nearest(name, names) {
                Some(near) => format!("did you mean {near}?"),
                None if self.contexts.is_empty() => "save one with `sortie login URL`".to_owned(),
                None => "`sortie contexts list` shows the saved ones".to_owned(),
            };
            Failure::usage(format!("{from}: no context {name:?}; {remedy}"))
        })
    }
}

/// Checks the name of a context, which is a key of a TOML file and an argument of commands.
pub(crate) fn context_name(text: &str) -> std::result::Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':');
    let starts_well = text
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    if starts_well && text.bytes().all(fits) && text.len() <= NAME_CHARS {
        return Ok(text.to_owned());
    }
    Err(format!(
        "a name is 1 to {NAME_CHARS} letters, digits, `.`, `_`, `-` or `:`, and starts with a letter or digit"
    ))
}

/// Reads the file for a completion, which reports no errors.
pub(crate) fn names(environment: &Environment) -> io::Result<Vec<(String, String)>> {
    let contexts = Contexts::read(environment).map_err(|failure| io::Error::other(failure.to_string()))?;
    let named = contexts.contexts.into_iter();
    Ok(named.map(|(name, engine)| (name, engine.url)).collect())
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, path::Path};

    use proptest::prelude::*;

    use super::*;

    fn environment(folder: &Path) -> Environment {
        let folder = folder.display().to_string();
        [("XDG_CONFIG_HOME".to_owned(), folder)].into_iter().collect()
    }

    fn saved(url: &str, key: &str) -> SavedEngine {
        SavedEngine {
            url: url.to_owned(),
            key: Credential::new(key),
        }
    }

    #[test]
    fn a_saved_context_is_read_again_from_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let environment = environment(folder.path());
        assert!(Contexts::read(&environment).unwrap().contexts.is_empty());
        let mut contexts = Contexts {
            current: Some("localhost:8080".to_owned()),
            ..Contexts::default()
        };
        let engine = saved("http://localhost:8080", "sts_\"x\\");
        contexts.contexts.insert("localhost:8080".to_owned(), engine);
        let path = contexts.save(&environment).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(
            fs::read_to_string(path.with_file_name(".gitignore")).unwrap(),
            "*\n"
        );
        let read = Contexts::read(&environment).unwrap();
        assert_eq!(read.current.as_deref(), Some("localhost:8080"));
        assert_eq!(read.contexts["localhost:8080"].key.expose(), "sts_\"x\\");
    }

    #[test]
    fn a_broken_file_is_named_without_the_keys_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let environment = environment(folder.path());
        fs::create_dir(folder.path().join("sortie")).unwrap();
        for broken in ["contexts = \"hush\"", "[contexts.a]\nkey = 12345", "key = hush"] {
            fs::write(file(&environment).unwrap(), broken).unwrap();
            let failure = Contexts::read(&environment).unwrap_err();
            assert_eq!(failure.exit, Exit::Configuration);
            let text = failure.to_string();
            assert!(text.contains("contexts.toml: "), "{text}");
            assert!(!text.contains("hush") && !text.contains("12345"), "{text}");
        }
    }

    #[test]
    fn an_unknown_name_comes_with_the_nearest_one() {
        let contexts = Contexts {
            current: None,
            contexts: BTreeMap::from([("staging".to_owned(), saved("https://a.example", "x"))]),
        };
        let refusal = |name: &str| contexts.get(name, "--context").unwrap_err().to_string();
        assert_eq!(
            refusal("stagin"),
            "--context: no context \"stagin\"; did you mean staging?"
        );
        assert!(refusal("other").contains("`sortie contexts list`"));
    }

    proptest! {
        #[test]
        fn an_accepted_name_survives_the_file(name in "[a-zA-Z0-9._:-]{0,12}") {
            prop_assume!(context_name(&name).is_ok());
            let contexts = Contexts {
                current: Some(name.clone()),
                contexts: BTreeMap::from([(name.clone(), saved("https://a.example", "x"))]),
            };
            let table = texts::toml(&toml::to_string(&contexts.to_table()).unwrap()).unwrap();
            let read = Contexts::deserialize(Value::Table(table)).unwrap();
            prop_assert!(read.contexts.contains_key(&name));
        }
    }
}
