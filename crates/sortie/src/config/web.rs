//! The section `web`: robots.txt, and the search service of `web_search`.

use serde::Deserialize;
use sortie_api::{Credential, Micros, limits::MAX_COST_MICROS};
use sortie_web::{Backend, RobotsTxt, SearchSettings};

use super::{
    Error,
    layers::Layers,
    values::{BaseUrl, robots, some_backend, whole},
};

/// Keys of `[web]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebSection {
    #[serde(deserialize_with = "robots")]
    pub(crate) robots: RobotsTxt,
    search: SearchSection,
}

/// Keys of `[web.search]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchSection {
    #[serde(default, deserialize_with = "some_backend")]
    backend: Option<Backend>,
    api_key: Option<Credential>,
    base_url: Option<BaseUrl>,
    #[serde(deserialize_with = "whole::<_, _, 0, MAX_COST_MICROS>")]
    price_micros: Micros,
}

impl WebSection {
    /// Returns the search service of `web_search`, if there is one.
    pub(super) fn search(&self, layers: &Layers) -> Result<Option<SearchSettings>, Error> {
        let section = self.search.clone();
        let Some(backend) = section.backend else {
            return Ok(None);
        };
        match backend {
            Backend::Searxng if section.base_url.is_none() => {
                return Err(layers.wrong("web.search.base_url", "must be set for `searxng`"));
            }
            Backend::Brave | Backend::Tavily if section.api_key.is_none() => {
                return Err(layers.wrong("web.search.api_key", "must be set for this search service"));
            }
            Backend::Searxng | Backend::Brave | Backend::Tavily => {}
        }
        Ok(Some(SearchSettings {
            backend,
            key: section.api_key,
            base_url: section.base_url.map(|base| base.url),
            price: section.price_micros,
        }))
    }
}
