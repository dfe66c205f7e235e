//! `web_search`: finds pages with a search engine of the operator's choice.
//!
//! The operator configures the engine's address and key. The results are untrusted: they are truncated, and limited to pages
//! that the run may visit.

mod backends;

use std::{fmt::Write as _, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_agent::{
    Tool, ToolContent,
    model::ToolDefinition,
    tool::{Context, Effect, Order, ToolError, arguments_of},
};
use sortie_api::{Credential, Micros};
use sortie_net::{EngineClient, Outbound, Policy, Timeouts, read_body};
use url::Url;

use self::backends::{Brave, SearchBackend, Searxng, Tavily};
use crate::{SetupError, Web, text, told};

/// Timeout of a search.
const TIME: Duration = Duration::from_secs(15);
/// Maximum size of a response, in bytes.
const ANSWER_BYTES: usize = 2 << 20;
/// Maximum length of a query, in characters.
const QUERY_CHARS: usize = 400;
/// Default and maximum number of results.
const COUNT: (usize, usize) = (8, 20);
/// Maximum length of a title and of a snippet, in characters.
const TITLE_CHARS: usize = 200;
const SNIPPET_CHARS: usize = 500;
/// Maximum length of the URL of a result, in bytes.
const URL_BYTES: usize = 2048;

/// The search engine of a node.
#[derive(Clone, Debug)]
pub struct SearchSettings {
    /// Search engine.
    pub backend: Backend,
    /// The key. Brave and Tavily require one.
    pub key: Option<Credential>,
    /// Address of the service. `None`: the provider's default, which `SearXNG` does not have.
    pub base_url: Option<Url>,
    /// Price of a search.
    pub price: Micros,
}

/// The supported search engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The Brave Search API.
    Brave,
    /// Tavily.
    Tavily,
    /// A `SearXNG` that the operator runs, with its JSON format enabled.
    Searxng,
}

/// A configured search engine.
pub(crate) struct Engine {
    backend: Box<dyn SearchBackend>,
    client: EngineClient,
    price: Micros,
}

/// A result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) title: String,
    pub(crate) url: String,
    pub(crate) snippet: String,
}

impl Engine {
    pub(crate) fn new(settings: SearchSettings, outbound: &Outbound) -> Result<Self, SetupError> {
        let SearchSettings {
            backend,
            key,
            base_url,
            price,
        } = settings;
        let no_key = SetupError::Settings("the search engine needs a key");
        let no_url = SetupError::Settings("a SearXNG search engine needs its address");
        let bad_url = || SetupError::Settings("the search engine's address must be an http or https URL");
        let own = |text: &str| text.parse::<Url>().map_err(|_| bad_url());
        if base_url
            .as_ref()
            .is_some_and(|url| !matches!(url.scheme(), "http" | "https"))
        {
            return Err(bad_url());
        }
        let backend: Box<dyn SearchBackend> = match backend {
            Backend::Brave => Box::new(Brave {
                base: base_url.map_or_else(|| own("https://api.search.brave.com/"), Ok)?,
                key: key.ok_or(no_key)?,
            }),
            Backend::Tavily => Box::new(Tavily {
                base: base_url.map_or_else(|| own("https://api.tavily.com/"), Ok)?,
                key: key.ok_or(no_key)?,
            }),
            Backend::Searxng => Box::new(Searxng {
                base: base_url.ok_or(no_url)?,
                key,
            }),
        };
        let timeouts = Timeouts {
            connect: TIME,
            read: TIME,
            total: Some(TIME),
        };
        let client = EngineClient::through(outbound, timeouts)?;
        Ok(Self {
            backend,
            client,
            price,
        })
    }

    /// Sends a query. Error messages contain only the status of the engine, because its response may contain the key. Once the
    /// request is sent, the engine may bill it, whatever the response.
    async fn search(&self, query: &str, count: usize) -> Result<Vec<Hit>, ToolError> {
        let request = self
            .backend
            .request(&self.client, query, count)
            .map_err(not_sent)?;
        let failed = |error: reqwest::Error| {
            let was_sent = !error.is_connect();
            let why = format!(
                "the search engine cannot be reached: {}",
                sortie_net::Error::from(error)
            );
            if was_sent { told(why) } else { not_sent(why) }
        };
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        if !status.is_success() {
            return Err(told(format!("the search engine answered {}", status.as_u16())));
        }
        let body = read_body(response, ANSWER_BYTES).await.map_err(told)?;
        let hits = self.backend.hits(&body);
        hits.map_err(|_| told("the search engine's answer is not what it is known to send"))
    }
}

pub(crate) struct WebSearch {
    web: Arc<Web>,
    policy: Arc<Policy>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    query: String,
    count: Option<usize>,
}

impl WebSearch {
    pub(crate) fn new(web: Arc<Web>, policy: Arc<Policy>) -> Self {
        Self { web, policy }
    }
}

impl Tool for WebSearch {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "web_search",
            description: "Searches the web and returns titles, URLs and snippets of pages. Read a page with web_fetch.",
            parameters: concat!(
                r#"{"type":"object","#,
                r#""properties":{"query":{"type":"string","description":"Words to search for."},"#,
                r#""count":{"type":"integer","minimum":1,"maximum":20,"description":"Number of results. Default: 8."}},"#,
                r#""required":["query"],"additionalProperties":false}"#
            ),
        }
    }

    fn order(&self) -> Order {
        Order::SideBySide
    }

    fn effect(&self, _arguments: &RawValue) -> Effect {
        Effect::Nothing
    }

    fn price(&self) -> Micros {
        self.web
            .search
            .as_ref()
            .map_or(Micros::ZERO, |engine| engine.price)
    }

    fn call<'a>(
        &'a self,
        raw: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move {
            let Arguments { query, count } = arguments_of(&self.definition(), &raw)?;
            if query.trim().is_empty() || query.chars().count() > QUERY_CHARS {
                return Err(not_sent(format!(
                    "query: must be 1 to {QUERY_CHARS} characters long"
                )));
            }
            let count = count.unwrap_or(COUNT.0);
            if !(1..=COUNT.1).contains(&count) {
                return Err(not_sent(format!("count: must be from 1 to {}", COUNT.1)));
            }
            let Some(engine) = &self.web.search else {
                return Err(ToolError::Fatal("no search engine is configured".to_owned()));
            };
            let hits = engine.search(&query, count).await?;
            let shown = list(&hits, &self.policy, count, context.output_bytes);
            Ok(ToolContent::Text(text::clean(shown)))
        })
    }
}

fn not_sent(why: impl std::fmt::Display) -> ToolError {
    ToolError::NotSent(why.to_string())
}

/// Formats the results that the run may visit, in at most `limit` bytes.
fn list(hits: &[Hit], policy: &Policy, count: usize, limit: usize) -> String {
    let may_go = |hit: &&Hit| {
        let url = hit.url.parse::<Url>().ok().filter(|_| hit.url.len() <= URL_BYTES);
        url.is_some_and(|url| policy.check_url(&url).is_ok())
    };
    let allowed: Vec<&Hit> = hits.iter().filter(may_go).take(count).collect();
    let mut list = format!("[{} results. {}]\n", allowed.len(), text::OUTSIDE);
    let outside = hits.len().min(count).saturating_sub(allowed.len());
    if outside > 0 {
        // Writing to a String cannot fail.
        let _ = writeln!(list, "[{outside} more are left out: the run may not go there]");
    }
    for (at, hit) in allowed.iter().enumerate() {
        let title = text::one_line(&hit.title, TITLE_CHARS);
        let snippet = text::one_line(&without_tags(&hit.snippet), SNIPPET_CHARS);
        let entry = format!("\n{}. {title}\n   {}\n   {snippet}\n", at + 1, hit.url);
        if list.len() + entry.len() > limit {
            break;
        }
        list.push_str(&entry);
    }
    list
}

/// Removes the tags with which some engines highlight words.
fn without_tags(text: &str) -> String {
    let mut out = text.to_owned();
    for tag in ["<strong>", "</strong>", "<b>", "</b>", "<em>", "</em>"] {
        out = out.replace(tag, "");
    }
    out
}
