//! The engine that the command line, the environment or a saved context names.

use sortie_api::Credential;

use crate::{
    client::{ClientKey, KeySource},
    config::Environment,
    connect::is_this_machine,
    contexts::{self, Contexts},
    data_dir::{DataDir, NodeKey},
    failure::Result,
};

/// Flag that names the address of an engine.
pub(crate) const URL_FLAG: &str = "--url";

/// Environment variable with the address.
const URL: &str = "SORTIE_URL";

/// Environment variable with the API key.
pub(crate) const API_KEY: &str = "SORTIE_API_KEY";

/// Environment variable with the name of a context.
const CONTEXT: &str = "SORTIE_CONTEXT";

/// Flag that names a context.
const CONTEXT_FLAG: &str = "--context";

/// An engine that is named by its address.
#[derive(Clone, Debug)]
pub(crate) struct NamedEngine {
    pub(crate) url: String,
    /// Flag, variable or context that names the address.
    pub(crate) from: String,
    /// The key that is saved with the address.
    pub(crate) key: Option<ClientKey>,
}

impl NamedEngine {
    /// Finds the engine that is named (docs/ENGINES.md#which-engine-a-command-talks-to); `None` for the engine of the data
    /// folder.
    pub(crate) fn find(
        url: Option<&str>,
        context: Option<&str>,
        environment: &Environment,
    ) -> Result<Option<Self>> {
        if let Some(url) = url {
            return Ok(Some(Self::at(url, URL_FLAG)));
        }
        if let Some(url) = environment.get(URL).filter(|_| context.is_none()) {
            return Ok(Some(Self::at(url, URL)));
        }
        let named = context
            .map(|name| (name, CONTEXT_FLAG.to_owned()))
            .or_else(|| Some((environment.get(CONTEXT)?, CONTEXT.to_owned())));
        let saved = Contexts::read(environment)?;
        let (name, from) = match (named, &saved.current) {
            (Some(named), _) => named,
            (None, Some(current)) => {
                let file = contexts::file(environment).unwrap_or_default();
                (current.as_str(), format!("current ({})", file.display()))
            }
            (None, None) => return Ok(None),
        };
        let engine = saved.get(name, &from)?;
        Ok(Some(Self::saved(name, &engine.url, &engine.key)))
    }

    fn at(url: &str, from: &str) -> Self {
        Self {
            url: url.to_owned(),
            from: from.to_owned(),
            key: None,
        }
    }

    fn saved(name: &str, url: &str, key: &Credential) -> Self {
        Self {
            key: Some(ClientKey::new(key.expose(), KeySource::Context(name.to_owned()))),
            ..Self::at(url, &format!("the context {name}"))
        }
    }

    /// The engine that runs in the data folder.
    pub(crate) fn of_data_folder(url: &str) -> Self {
        Self::at(url, "the data folder")
    }

    /// Returns the key for the engine: the saved one, else that of the environment, else that of the data folder, which
    /// is sent to this machine only.
    pub(crate) fn key(&self, environment: &Environment, data_dir: &DataDir) -> Result<Option<ClientKey>> {
        match self.key.clone().or_else(|| given_key(environment)) {
            Some(key) => Ok(Some(key)),
            None if is_this_machine(&self.url) => data_dir.api_key(NodeKey::Admin),
            None => Ok(None),
        }
    }
}

/// Returns the key of the environment.
pub(crate) fn given_key(environment: &Environment) -> Option<ClientKey> {
    let key = environment.get(API_KEY)?;
    Some(ClientKey::new(key, KeySource::Variable(API_KEY)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::contexts::SavedEngine;

    /// Variables of a user with two saved contexts.
    fn environment(folder: &std::path::Path, others: &[(&str, &str)]) -> Environment {
        let folder = folder.display().to_string();
        let settings = [("XDG_CONFIG_HOME", folder.as_str())];
        let environment: Environment = others
            .iter()
            .chain(&settings)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let saved = |name: &str| {
            let engine = SavedEngine {
                url: format!("https://{name}.example"),
                key: Credential::new(format!("sts_{name}")),
            };
            (name.to_owned(), engine)
        };
        let contexts = Contexts {
            current: Some("one".to_owned()),
            contexts: BTreeMap::from(["one", "two"].map(saved)),
        };
        contexts.save(&environment).unwrap();
        environment
    }

    #[test]
    fn each_source_wins_over_those_after_it() {
        let url = ("SORTIE_URL", "https://variable.example");
        let context = ("SORTIE_CONTEXT", "two");
        let folder = tempfile::tempdir().unwrap();
        for (flag, named, variables, url, from) in [
            (
                Some("https://flag.example"),
                Some("two"),
                &[url, context][..],
                "https://flag.example",
                "--url",
            ),
            (
                None,
                Some("two"),
                &[url, context],
                "https://two.example",
                "the context two",
            ),
            (
                None,
                None,
                &[url, context],
                "https://variable.example",
                "SORTIE_URL",
            ),
            (
                None,
                Some("one"),
                &[context],
                "https://one.example",
                "the context one",
            ),
            (None, None, &[context], "https://two.example", "the context two"),
            (None, None, &[], "https://one.example", "the context one"),
        ] {
            let environment = environment(folder.path(), variables);
            let found = NamedEngine::find(flag, named, &environment).unwrap().unwrap();
            assert_eq!((found.url.as_str(), found.from.as_str()), (url, from));
        }
    }

    #[test]
    fn the_key_of_a_context_goes_with_its_address_alone() {
        let folder = tempfile::tempdir().unwrap();
        let environment = environment(folder.path(), &[("SORTIE_API_KEY", "sts_other")]);
        let data_dir = DataDir::new(folder.path());
        let key = |url: Option<&str>| {
            let found = NamedEngine::find(url, None, &environment).unwrap().unwrap();
            found.key(&environment, &data_dir).unwrap().unwrap().source
        };
        assert_eq!(key(None), KeySource::Context("one".to_owned()));
        assert_eq!(
            key(Some("https://a.example")),
            KeySource::Variable("SORTIE_API_KEY")
        );
    }

    #[test]
    fn a_context_that_is_gone_is_refused_with_its_source() {
        let folder = tempfile::tempdir().unwrap();
        let environment = environment(folder.path(), &[("SORTIE_CONTEXT", "tow")]);
        let refusal = |name| {
            NamedEngine::find(None, name, &environment)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refusal(None),
            "SORTIE_CONTEXT: no context \"tow\"; did you mean two?"
        );
        assert!(refusal(Some("x")).starts_with("--context: no context"));
    }
}
