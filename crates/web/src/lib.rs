//! Web access for agents: tools that fetch, search and call public APIs, and the egress of a run's commands.
//!
//! Every request obeys the run's [`Policy`] and has limits of time and size. Results are marked as data from outside.

pub mod egress;
mod fetch;
mod follow;
mod html;
mod json;
mod media;
mod reader;
mod request;
mod robots;
mod search;
mod text;

use std::{path::PathBuf, sync::Arc, time::Duration};

use sortie_agent::{Tool, tool::ToolError};
use sortie_net::{Client, Network, Policy, Timeouts};

use self::{fetch::WebFetch, reader::Readers, request::HttpRequest, robots::Robots, search::WebSearch};
pub use self::{
    reader::reader_main,
    search::{Backend, SearchSettings},
};

/// Timeout of resolution and connection.
const CONNECTING: Duration = Duration::from_secs(8);
/// Maximum silence of a server.
const SILENCE: Duration = Duration::from_secs(15);

/// Settings of the operator for the web.
#[derive(Clone, Debug)]
pub struct WebSettings {
    /// Address rules and the resolver. The reach is public, except in tests.
    pub network: Arc<Network>,
    /// Treatment of robots.txt.
    pub robots: RobotsTxt,
    /// The search engine. `None` disables the search.
    pub search: Option<SearchSettings>,
    /// Binary of the page reader, which calls [`reader_main`] first. `None`: the current binary.
    pub reader: Option<PathBuf>,
}

/// Treatment of robots.txt by `web_fetch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RobotsTxt {
    /// Each site's robots.txt is checked first.
    #[default]
    Honoured,
    /// Sites are not checked.
    Ignored,
}

/// Permission of a run to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Allowed if a search engine is configured.
    On,
    /// Denied.
    Off,
}

/// Reason why web access cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The settings are inconsistent.
    #[error("{0}")]
    Settings(&'static str),
    /// A client could not be built.
    #[error("{0}")]
    Client(#[from] sortie_net::Error),
}

/// Web access of a node, shared by all runs.
pub struct Web {
    client: Client,
    robots: Option<Robots>,
    search: Option<search::Engine>,
    readers: Arc<Readers>,
}

impl Web {
    /// Creates web access with the settings of the operator.
    pub fn new(settings: WebSettings) -> Result<Arc<Self>, SetupError> {
        let timeouts = Timeouts {
            connect: CONNECTING,
            read: SILENCE,
            // Each call has a separate timeout.
            total: None,
        };
        let outbound = settings.network.outbound().clone();
        let engine = |search| search::Engine::new(search, &outbound);
        Ok(Arc::new(Self {
            client: Client::on(settings.network, timeouts)?,
            robots: match settings.robots {
                RobotsTxt::Honoured => Some(Robots::default()),
                RobotsTxt::Ignored => None,
            },
            search: settings.search.map(engine).transpose()?,
            readers: Arc::new(Readers::new(settings.reader)),
        }))
    }

    /// Whether a search engine is configured.
    pub fn has_search(&self) -> bool {
        self.search.is_some()
    }

    /// Returns the tools of a run with this policy.
    pub fn tools(self: &Arc<Self>, policy: Arc<Policy>, search: Search) -> Vec<Arc<dyn Tool>> {
        let readers = Arc::new(self.readers.of_a_run());
        let mut tools: Vec<Arc<dyn Tool>> = vec![
            Arc::new(WebFetch::new(self.clone(), policy.clone(), readers.clone())),
            Arc::new(HttpRequest::new(self.clone(), policy.clone(), readers)),
        ];
        if search == Search::On && self.has_search() {
            tools.push(Arc::new(WebSearch::new(self.clone(), policy)));
        }
        tools
    }
}

/// Returns an error that the model can see.
fn told(why: impl std::fmt::Display) -> ToolError {
    ToolError::ToModel(why.to_string())
}
