//! The process environment, read once.

use std::{collections::BTreeMap, ffi::OsString};

use sortie_api::Credential;
use sortie_engine::AwsVariables;
use zeroize::Zeroizing;

/// The environment variables that Sortie reads. Only this type reads them, so that tests can pass others everywhere
/// else. The copies here are overwritten when they are dropped. The variables themselves stay in the environment of the
/// process: they cannot be removed safely once there are threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, Zeroizing<String>>,
}

impl Environment {
    /// The variables of this process. Variables that are not UTF-8 are ignored.
    pub(crate) fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| {
                let text = |os: OsString| os.into_string().ok();
                Some((text(name)?, text(value)?))
            })
            .collect()
    }

    /// A variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables
            .get(name)
            .map(|value| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Returns the variables with the credentials and the address of S3-compatible stores.
    pub(super) fn aws(&self) -> AwsVariables {
        self.names_with("AWS_")
            .filter_map(|name| Some((name.to_owned(), Credential::new(self.get(name)?))))
            .collect()
    }

    /// The names of all variables with this prefix.
    pub(super) fn names_with(&self, prefix: &str) -> impl Iterator<Item = &str> {
        self.variables
            .keys()
            .map(String::as_str)
            .filter(move |name| name.starts_with(prefix))
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self {
            variables: variables
                .into_iter()
                .map(|(name, value)| (name, Zeroizing::new(value)))
                .collect(),
        }
    }
}
