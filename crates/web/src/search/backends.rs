//! Requests to the search engines, and the parsing of their responses.

use http::{Method, header::AUTHORIZATION};
use reqwest::RequestBuilder;
use serde::{Deserialize, de::DeserializeOwned};
use sortie_api::Credential;
use sortie_net::{EngineClient, Error};
use url::Url;

use super::Hit;

/// Kind of search engine.
pub(super) trait SearchBackend: Send + Sync {
    /// Creates the request for `count` pages.
    fn request(&self, client: &EngineClient, query: &str, count: usize) -> Result<RequestBuilder, Error>;

    /// Parses the pages in the response.
    fn hits(&self, answer: &[u8]) -> Result<Vec<Hit>, serde_json::Error>;
}

/// Appends `path` to the configured address.
fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

fn parse<T: DeserializeOwned>(answer: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(answer)
}

/// The Brave Search API.
pub(super) struct Brave {
    pub(super) base: Url,
    pub(super) key: Credential,
}

#[derive(Deserialize)]
struct BraveAnswer {
    /// Missing if nothing was found.
    web: Option<BraveWeb>,
}

#[derive(Deserialize)]
struct BraveWeb {
    results: Vec<BraveHit>,
}

#[derive(Deserialize)]
struct BraveHit {
    #[serde(default)]
    title: String,
    url: String,
    #[serde(default)]
    description: String,
}

impl SearchBackend for Brave {
    fn request(&self, client: &EngineClient, query: &str, count: usize) -> Result<RequestBuilder, Error> {
        let mut url = below(&self.base, "res/v1/web/search");
        url.query_pairs_mut()
            .append_pair("q", query)
            .append_pair("count", &count.to_string())
            .append_pair("text_decorations", "false");
        let request = client.request(Method::GET, &url)?;
        Ok(request
            .header("X-Subscription-Token", self.key.expose())
            .header("Accept", "application/json"))
    }

    fn hits(&self, answer: &[u8]) -> Result<Vec<Hit>, serde_json::Error> {
        let answer: BraveAnswer = parse(answer)?;
        let found = answer.web.map_or_else(Vec::new, |web| web.results);
        Ok(found
            .into_iter()
            .map(|hit| Hit {
                title: hit.title,
                url: hit.url,
                snippet: hit.description,
            })
            .collect())
    }
}

/// Results in the format of Tavily and `SearXNG`.
#[derive(Deserialize)]
struct Results {
    results: Vec<ResultHit>,
}

#[derive(Deserialize)]
struct ResultHit {
    title: Option<String>,
    url: String,
    content: Option<String>,
}

impl From<Results> for Vec<Hit> {
    fn from(answer: Results) -> Self {
        let hit = |hit: ResultHit| Hit {
            title: hit.title.unwrap_or_default(),
            url: hit.url,
            snippet: hit.content.unwrap_or_default(),
        };
        answer.results.into_iter().map(hit).collect()
    }
}

pub(super) struct Tavily {
    pub(super) base: Url,
    pub(super) key: Credential,
}

impl SearchBackend for Tavily {
    fn request(&self, client: &EngineClient, query: &str, count: usize) -> Result<RequestBuilder, Error> {
        let request = client.request(Method::POST, &below(&self.base, "search"))?;
        let body = serde_json::json!({ "query": query, "max_results": count });
        Ok(request.bearer_auth(self.key.expose()).json(&body))
    }

    fn hits(&self, answer: &[u8]) -> Result<Vec<Hit>, serde_json::Error> {
        parse::<Results>(answer).map(Into::into)
    }
}

/// A `SearXNG` that the operator runs.
pub(super) struct Searxng {
    pub(super) base: Url,
    pub(super) key: Option<Credential>,
}

impl SearchBackend for Searxng {
    fn request(&self, client: &EngineClient, query: &str, _count: usize) -> Result<RequestBuilder, Error> {
        let mut url = below(&self.base, "search");
        url.query_pairs_mut()
            .append_pair("q", query)
            .append_pair("format", "json");
        let request = client.request(Method::GET, &url)?;
        Ok(match &self.key {
            // For an instance that requires authentication.
            Some(key) => request.header(AUTHORIZATION, format!("Bearer {}", key.expose())),
            None => request,
        })
    }

    fn hits(&self, answer: &[u8]) -> Result<Vec<Hit>, serde_json::Error> {
        parse::<Results>(answer).map(Into::into)
    }
}
