//! Layers of the configuration: defaults, file, environment, flags. They are merged as TOML values, the later wins key by
//! key, and the result is deserialized once.
//!
//! The lines of `default.toml` are the list of the keys: each has its default there or, in a comment, an example. The
//! type of that value decides how a variable is parsed. Every value remembers its layer, so that a message can name it.

use std::{collections::BTreeMap, fmt, path::Path, sync::LazyLock};

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path as KeyPath, Segment};
use sortie_api::plain;
use strsim::levenshtein;
use toml::{Table, Value};
use zeroize::Zeroizing;

use super::{DEFAULT_FILE, Error, environment::Environment, print, providers, traces};
use crate::texts;

/// Key of a single value.
pub(super) struct Key {
    /// Name with that of its section, such as `sandbox.minimum`.
    pub(super) name: String,
    /// Default, or an example.
    pub(super) example: Value,
}

/// Every key, in the order of the default file.
pub(super) static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let (mut keys, mut section, mut is_in_example) = (Vec::new(), String::new(), false);
    for line in DEFAULT_FILE.lines() {
        let text = line.strip_prefix("# ").unwrap_or(line);
        // A table in a comment shows keys under a name that the operator chooses. It ends with the comment.
        is_in_example = line.starts_with('#') && (is_in_example || text.starts_with('['));
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = format!("{name}.");
        } else if let (false, Ok(table)) = (is_in_example, text.parse::<Table>()) {
            keys.extend(table.into_iter().map(|(name, example)| Key {
                name: format!("{section}{name}"),
                example,
            }));
        }
    }
    keys
});

/// Variables with our prefix that are not configuration keys.
const OTHER_VARIABLES: &[&str] = &[
    "SORTIE_URL",
    "SORTIE_API_KEY",
    "SORTIE_OPERATOR_KEY",
    "SORTIE_CONFIG",
    "SORTIE_CONTEXT",
    "SORTIE_COMPLETE",
];

/// Source of a value that no layer above the defaults has.
pub(super) const DEFAULT: &str = "default";

/// Lists of tables.
const LISTS: [&str; 2] = ["sign_in.oidc", "license.plans"];

/// The merged values.
#[derive(Clone, Default)]
pub(super) struct Layers {
    table: Table,
    /// File, variable or flag that a value comes from, by key. Defaults have no entry; a table that was merged as a
    /// whole has one.
    sources: BTreeMap<String, String>,
}

/// Without secrets, as they are printed.
impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut layers = self.clone();
        layers.redact();
        f.write_str(&print::as_toml(&layers))
    }
}

/// The environment variable of a key.
pub(super) fn variable(key: &str) -> String {
    format!("SORTIE_{}", key.replace('.', "_").to_ascii_uppercase())
}

/// The environment variable with the path of a file that holds the value of another one, as services receive secrets.
fn file_variable(variable: &str) -> String {
    format!("{variable}_FILE")
}

/// Returns the text of a variable, or of the file that its file variable names, with the name of the one that was set. Our
/// own variables and those with a provider's key have a file variable.
fn read_variable(
    key: &str,
    name: String,
    environment: &Environment,
) -> Result<Option<(String, Zeroizing<String>)>, Error> {
    let file_name = file_variable(&name);
    let has_file = name.starts_with("SORTIE_") || key.ends_with(".api_key");
    let path = has_file.then(|| environment.get(&file_name)).flatten();
    match (environment.get(&name), path) {
        (Some(_), Some(_)) => Err(Error(format!("{key}: set {name} or {file_name}, not both"))),
        (Some(text), None) => Ok(Some((name, text.to_owned().into()))),
        (None, Some(path)) => match super::read_value(Path::new(path)) {
            Ok(text) => Ok(Some((file_name, text))),
            Err(error) => Err(Error(format!(
                "{key} ({file_name}): {path} cannot be read: {}",
                plain::io(&error)
            ))),
        },
        (None, None) => Ok(None),
    }
}

impl Layers {
    /// The embedded default file.
    pub(super) fn defaults() -> Result<Self, Error> {
        let mut layers = Self::default();
        layers.add_toml(DEFAULT_FILE, None)?;
        Ok(layers)
    }

    /// Merges a configuration file over the layers so far.
    pub(super) fn add_file(&mut self, path: &Path, text: &str) -> Result<(), Error> {
        self.add_toml(text, Some(&path.display().to_string()))
    }

    fn add_toml(&mut self, text: &str, source: Option<&str>) -> Result<(), Error> {
        let place = source.unwrap_or(DEFAULT);
        let table = texts::toml(text).map_err(|rule| Error(format!("{place}: {rule}")))?;
        self.merge(table, source);
        Ok(())
    }

    /// Merges the environment over the layers so far. Variables of other programs come first, so `SORTIE_` variables
    /// override them.
    pub(super) fn add_environment(&mut self, environment: &Environment) -> Result<(), Error> {
        for name in environment.names_with("SORTIE_") {
            if let Some(meant) = misspelt(name) {
                return Err(Error(format!("{name}: no such setting; did you mean {meant}?")));
            }
        }
        let standard = traces::STANDARD_VARIABLES.iter();
        let standard = standard.map(|(name, key)| ((*name).to_owned(), (*key).to_owned()));
        let own = KEYS.iter().map(|key| (variable(&key.name), key.name.clone()));
        for (name, key) in providers::variables().chain(standard).chain(own) {
            let Some((name, text)) = read_variable(&key, name, environment)? else {
                continue;
            };
            self.set(&key, typed(&key, &text), Some(&name));
        }
        Ok(())
    }

    fn merge(&mut self, table: Table, source: Option<&str>) {
        merge(&mut self.table, table, "", &mut |key| {
            self.sources.extend(source.map(|source| (key, source.to_owned())));
        });
    }

    /// Sets one value over earlier layers. If a table around the key has another kind of value, that value is kept, and
    /// [`Self::read`] refuses it.
    pub(super) fn set(&mut self, key: &str, value: Value, source: Option<&str>) {
        let mut outer = key.match_indices('.').filter_map(|(end, _)| key.get(..end));
        if outer.any(|outer| self.get(outer).is_some_and(|value| !value.is_table())) {
            return;
        }
        let mut names = key.rsplit('.').map(str::to_owned);
        let innermost = Table::from_iter(names.next().map(|name| (name, value)));
        let table = names.fold(innermost, |table, name| {
            Table::from_iter([(name, Value::Table(table))])
        });
        self.merge(table, source);
    }

    /// Replaces the default of a key, unless a file, a variable or a flag has set it.
    pub(super) fn set_default(&mut self, key: &str, value: Value) {
        if !self.is_given(key) {
            self.set(key, value, None);
        }
    }

    /// The value of a key in effect.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let mut names = key.split('.');
        let outermost = self.table.get(names.next()?)?;
        names.try_fold(outermost, |value, name| value.get(name))
    }

    /// The text of a key in effect.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// Shows a derived value in a table of the operator.
    pub(super) fn complete(&mut self, (section, name): (&str, &str), key: &str, value: Value) {
        let entry = self
            .table
            .get_mut(section)
            .and_then(|section| section.get_mut(name));
        if let Some(table) = entry.and_then(Value::as_table_mut) {
            table.insert(key.to_owned(), value);
        }
    }

    /// File, variable or flag that set a key. A key that was not set itself has the source of the innermost table
    /// around it.
    pub(super) fn source(&self, key: &str) -> Option<&str> {
        let own = self.sources.get(key).map(String::as_str);
        own.or_else(|| self.source(key.rsplit_once('.')?.0))
    }

    /// Whether a layer above the defaults has a value for a key, other than an empty list.
    pub(super) fn is_given(&self, key: &str) -> bool {
        let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        self.get(key).is_some_and(|value| !is_empty(value)) && self.source(key).is_some()
    }

    /// The error that says that a key's value breaks a rule.
    pub(super) fn wrong(&self, key: &str, rule: &str) -> Error {
        match self.source(key).or_else(|| self.get(key).map(|_| DEFAULT)) {
            Some(source) => Error(format!("{key} ({source}): {rule}")),
            None => Error(format!("{key}: {rule}")),
        }
    }

    /// Deserializes the values.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let is_empty = |key: &&Key| self.text(&key.name) == Some("");
        if let Some(key) = KEYS.iter().find(is_empty) {
            return Err(self.wrong(&key.name, "must be a text that is not empty"));
        }
        serde_path_to_error::deserialize(Value::Table(self.table.clone()))
            .map_err(|error| self.refusal(error.path(), error.inner().message()))
    }

    /// Translates the error of a deserializer. The message never repeats a value, which may be secret, except a name
    /// that is not in a list of choices.
    fn refusal(&self, path: &KeyPath, message: &str) -> Error {
        let segments: Vec<_> = path.iter().collect();
        let is_entry = |segment: &&Segment| matches!(segment, Segment::Seq { .. });
        let outer = segments.iter().position(is_entry).unwrap_or(segments.len());
        let (outer, inner) = segments.split_at(outer);
        let (key, field) = (names(outer), names(inner));
        let source = self.source(&key).unwrap_or(DEFAULT);
        let is_unknown = message.starts_with("unknown field ");
        Error(match inner.first() {
            Some(Segment::Seq { index }) => {
                let place = format!("{key} ({source}): entry {}", index + 1);
                if is_unknown {
                    format!("{place}: {}", unknown_key(&field, message, &[]))
                } else if field.is_empty() {
                    format!("{place} {}", rule(message))
                } else {
                    format!("{place}: {field} {}", rule(message))
                }
            }
            _ if is_unknown => format!("{source}: {}", unknown_key(&key, message, &KEYS)),
            _ if LISTS.contains(&key.as_str()) => {
                return self.wrong(&key, &format!("must be tables, each under `[[{key}]]`"));
            }
            _ => {
                let rule = rule(message);
                // The library's message repeats a number.
                let rule = if print::is_secret(&key) {
                    rule.split(", not the ").next().unwrap_or_default()
                } else {
                    &rule
                };
                return self.wrong(&key, rule);
            }
        })
    }

    /// Every value, for [`print`].
    pub(super) const fn table(&self) -> &Table {
        &self.table
    }

    /// Overwrites secrets, once they have been read: they are not printed.
    pub(super) fn redact(&mut self) {
        print::redact(&mut self.table);
    }
}

/// Merges the values of `from` over those of `into`, and calls `note` with the key of each.
fn merge(into: &mut Table, from: Table, section: &str, note: &mut dyn FnMut(String)) {
    for (name, value) in from {
        let key = format!("{section}{name}");
        match (into.get_mut(&name), value) {
            (Some(Value::Table(into)), Value::Table(from)) => merge(into, from, &format!("{key}."), note),
            (replaced, value) => {
                if let Some(replaced) = replaced {
                    print::overwrite(replaced);
                }
                // Only TOML from a file can contain dates.
                let value = match &value {
                    Value::Datetime(date) => Value::String(date.to_string()),
                    Value::String(_)
                    | Value::Integer(_)
                    | Value::Float(_)
                    | Value::Boolean(_)
                    | Value::Array(_)
                    | Value::Table(_) => value,
                };
                into.insert(name, value);
                note(key);
            }
        }
    }
}

/// The setting with nearly the same name as an unknown variable. Other names are ignored: Kubernetes sets
/// `SORTIE_SERVICE_HOST` for a service called `sortie`, and scripts use their own variables.
fn misspelt(name: &str) -> Option<String> {
    let ours = KEYS.iter().map(|key| variable(&key.name));
    ours.flat_map(|name| [file_variable(&name), name])
        .chain(OTHER_VARIABLES.iter().map(|name| (*name).to_owned()))
        .map(|known| (levenshtein(name, &known), known))
        .min()
        .filter(|(distance, _)| (1..=2).contains(distance))
        .map(|(_, known)| known)
}

/// The value of a key that was not given in TOML. The items of a list are separated by commas or line ends.
fn typed(key: &str, text: &str) -> Value {
    let text_value = || Value::String(text.to_owned());
    match KEYS
        .iter()
        .find(|known| known.name == key)
        .map(|known| &known.example)
    {
        // An unparsable text stays a text, which the key's rule then refuses.
        Some(Value::Integer(_)) => text.parse().map_or_else(|_| text_value(), Value::Integer),
        Some(Value::Boolean(_)) => text.parse().map_or_else(|_| text_value(), Value::Boolean),
        Some(Value::Array(_)) => Value::Array(
            text.split([',', '\n'])
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| Value::String(item.to_owned()))
                .collect(),
        ),
        _ => text_value(),
    }
}

/// Keys on a path, without the places in lists.
fn names(segments: &[&Segment]) -> String {
    let names = segments.iter().filter_map(|segment| match segment {
        Segment::Map { key } => Some(key.as_str()),
        Segment::Seq { .. } | Segment::Enum { .. } | Segment::Unknown => None,
    });
    names.collect::<Vec<_>>().join(".")
}

/// The rule of serde's message, in our wording.
fn rule(message: &str) -> String {
    if message.ends_with("socket address syntax") || message.ends_with("expected socket address") {
        return "must be an IP address and a port, such as 127.0.0.1:8080".to_owned();
    }
    // An enumeration with a value that is not a text, or a table.
    if message.ends_with("expected string only") || message.starts_with("wanted exactly 1 element") {
        return "must be a string".to_owned();
    }
    match message.strip_prefix("missing field ") {
        Some(field) => format!("must have the key {field}"),
        None => plain::rule(message)
            .replace("an object", "a table")
            .replace("path string", "a string"),
    }
}

/// Reports an unknown key, and suggests the most similar one of `keys`, or of those that serde's message lists.
fn unknown_key(path: &str, message: &str, keys: &[Key]) -> String {
    let name = path.rsplit('.').next().unwrap_or(path);
    let section = path.strip_suffix(name).unwrap_or_default();
    let siblings = message.split('`').skip(3).step_by(2);
    let nearest = siblings
        .map(|sibling| format!("{section}{sibling}"))
        .chain(keys.iter().map(|key| key.name.clone()))
        .map(|known| (levenshtein(path, &known), known))
        .min()
        .filter(|(distance, _)| *distance <= 3 && distance * 2 <= name.chars().count());
    match (nearest, message.split_once(", ")) {
        (Some((_, known)), _) => format!("unknown key `{path}`; did you mean `{known}`?"),
        (None, Some((_, expected))) if !section.is_empty() || keys.is_empty() => {
            format!("unknown key `{path}`; {expected}")
        }
        (None, _) => format!("unknown key `{path}`; `sortie config default` lists all keys"),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;

    use super::{super::settings::Settings, *};

    /// The keys of a section, as serde lists them for an unknown one.
    fn fields(section: &str) -> Vec<String> {
        let mut layers = Layers::defaults().unwrap();
        layers.set_default("database_url", Value::String("sqlite:x".to_owned()));
        layers.set(&format!("{section}no-such"), Value::Integer(1), None);
        let error = Settings::deserialize(Value::Table(layers.table)).unwrap_err();
        let message = error.message().to_owned();
        assert!(
            message.starts_with("unknown field `no-such`"),
            "{section}: {message}"
        );
        let names = message.split('`').skip(3).step_by(2);
        names.map(|name| format!("{section}{name}")).collect()
    }

    #[test]
    fn the_default_file_documents_every_key_and_no_other() {
        let mut sections = vec![String::new()];
        let mut undocumented = Vec::new();
        let mut known = Vec::new();
        while let Some(section) = sections.pop() {
            for field in fields(&section) {
                if KEYS.iter().any(|key| key.name == field) {
                    known.push(field);
                } else if KEYS.iter().any(|key| key.name.starts_with(&format!("{field}."))) {
                    sections.push(format!("{field}."));
                } else {
                    undocumented.push(field);
                }
            }
        }
        undocumented.sort();
        let tables = ["license.plans", "models", "providers", "sign_in"];
        assert_eq!(undocumented, tables, "tables under names of the operator's alone");
        for table in ["[[license.plans]]", "[models.", "[providers.", "[[sign_in.oidc]]"] {
            assert!(DEFAULT_FILE.contains(&format!("\n# {table}")), "{table}");
        }
        let mut documented: Vec<_> = KEYS.iter().map(|key| key.name.clone()).collect();
        documented.sort();
        known.sort();
        assert_eq!(documented, known);
    }

    #[test]
    fn every_key_has_its_own_variable() {
        let mut names: Vec<_> = KEYS
            .iter()
            .map(|key| variable(&key.name))
            .flat_map(|name| [file_variable(&name), name])
            .collect();
        names.extend(OTHER_VARIABLES.iter().map(ToString::to_string));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
