//! A server that acts as every host of `example`, and the tools of a run that may visit it.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use axum::{
    Router,
    extract::Request,
    response::{IntoResponse, Response},
};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, value::to_raw_value};
use sortie_agent::{
    Sink, Stopped, Tool,
    journal::Entry,
    tool::{Context, Effect, ToolError},
};
use sortie_api::{EventType, Micros};
use sortie_net::{
    Network, Policy, Reach,
    network::{Resolver, Resolving},
};
use sortie_web::{RobotsTxt, Search, SearchSettings, Web, WebSettings};
use tokio::{net::TcpListener, task::JoinSet};

/// The page reader of the tests.
const READER: &str = env!("CARGO_BIN_EXE_page-reader");

/// Function that answers a request by its host, path, query and fields.
pub(crate) type Answerer = fn(&Request) -> Response;

/// Resolves `*.example` to one server, `private.example` to a metadata service, and no other names.
struct Names(SocketAddr);

impl Resolver for Names {
    fn resolve<'a>(&'a self, host: &'a str, _port: u16) -> Resolving<'a> {
        let answer = match host {
            "private.example" => Ok(vec!["169.254.169.254:80".parse().unwrap()]),
            _ if host.ends_with(".example") => Ok(vec![self.0]),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        Box::pin(async move { answer })
    }
}

/// Discards all records.
pub(crate) struct Unheard;

impl Sink for Unheard {
    fn record(&self, _event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn journal(&self, _entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn spent(&self, _cost: Micros, _at: tokio::time::Instant) {}
}

/// Requests in order of arrival, as lines. The first line has the method, the host and the path.
pub(crate) type Seen = Arc<Mutex<Vec<String>>>;

pub(crate) struct Rig {
    network: Arc<Network>,
    web: Arc<Web>,
    seen: Seen,
    _tasks: JoinSet<()>,
}

impl Rig {
    pub(crate) async fn new(answerer: Answerer) -> Self {
        Self::with(answerer, RobotsTxt::Ignored, |_| None).await
    }

    pub(crate) async fn with(
        answerer: Answerer,
        robots: RobotsTxt,
        search: impl FnOnce(SocketAddr) -> Option<SearchSettings>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        let seen = Seen::default();
        let app = {
            let seen = seen.clone();
            Router::new().fallback(move |request: Request| answer(request, answerer, seen.clone()))
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            seen,
            _tasks: tasks,
            ..Self::set_up(server, robots, search(server), READER.into())
        }
    }

    /// The tools with a server of the test as every host.
    pub(crate) fn at(server: SocketAddr) -> Self {
        Self::at_with_reader(server, READER.into())
    }

    /// The tools with another page reader.
    pub(crate) fn at_with_reader(server: SocketAddr, reader: PathBuf) -> Self {
        Self::set_up(server, RobotsTxt::Ignored, None, reader)
    }

    fn set_up(
        server: SocketAddr,
        robots: RobotsTxt,
        search: Option<SearchSettings>,
        reader: PathBuf,
    ) -> Self {
        let network = Network::new(Reach::Private, Vec::new()).with_resolver(Arc::new(Names(server)));
        let network = Arc::new(network);
        let settings = WebSettings {
            network: network.clone(),
            robots,
            search,
            reader: Some(reader),
        };
        Self {
            network,
            web: Web::new(settings).unwrap(),
            seen: Seen::default(),
            _tasks: JoinSet::new(),
        }
    }

    /// Returns the tools of a run with this allow-list.
    pub(crate) fn tools(&self, allow: Option<&[&str]>) -> Vec<Arc<dyn Tool>> {
        let allow: Option<Vec<_>> = allow.map(|list| list.iter().map(|text| (*text).to_owned()).collect());
        let policy = Policy::new(self.network.clone(), allow.as_deref()).unwrap();
        self.web.tools(Arc::new(policy), Search::On)
    }

    pub(crate) fn tool(&self, name: &str, allow: Option<&[&str]>) -> Arc<dyn Tool> {
        let found = self
            .tools(allow)
            .into_iter()
            .find(|tool| tool.definition().name == name);
        found.unwrap()
    }

    /// Returns the result of a call with a limit of 32 KiB.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<String, String> {
        call(&*self.tool(name, None), arguments, 32 * 1024).await
    }

    /// Returns the result of a call with this allow-list.
    pub(crate) async fn call_within(
        &self,
        allow: &[&str],
        name: &str,
        arguments: Value,
    ) -> Result<String, String> {
        call(&*self.tool(name, Some(allow)), arguments, 32 * 1024).await
    }

    pub(crate) fn effect(&self, name: &str, arguments: &Value) -> Effect {
        self.tool(name, None).effect(&to_raw_value(arguments).unwrap())
    }

    /// Returns the requests so far, one text per request.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }

    /// Returns the first lines of the requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        let first = |seen: String| seen.lines().next().unwrap_or_default().to_owned();
        self.seen().into_iter().map(first).collect()
    }
}

pub(crate) async fn call(tool: &dyn Tool, arguments: Value, output_bytes: usize) -> Result<String, String> {
    let arguments = to_raw_value(&arguments).unwrap();
    let called = tool.call(arguments, Context::new(&Unheard, output_bytes)).await;
    match called {
        Ok(content) => Ok(content.text().into_owned()),
        Err(ToolError::ToModel(told) | ToolError::NotSent(told)) => Err(told),
        Err(ToolError::Fatal(why)) => panic!("{why}"),
    }
}

async fn answer(request: Request, answerer: Answerer, seen: Seen) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 2 << 20).await.unwrap();
    let mut text = format!("{} {}{}\n", head.method, host(&head.headers), head.uri);
    for (name, value) in &head.headers {
        text.push_str(&[name.as_str(), ": ", value.to_str().unwrap(), "\n"].concat());
    }
    text.push_str(&String::from_utf8_lossy(&body));
    seen.lock().push(text);
    answerer(&Request::from_parts(head, axum::body::Body::empty()))
}

fn host(headers: &http::HeaderMap) -> &str {
    headers.get("host").map_or("", |host| host.to_str().unwrap())
}

/// A response with this content type.
pub(crate) fn typed(content_type: &'static str, body: impl IntoResponse) -> Response {
    ([("content-type", content_type)], body).into_response()
}

/// A redirect.
pub(crate) fn redirect(status: u16, location: impl Into<String>) -> Response {
    let status = http::StatusCode::from_u16(status).unwrap();
    (status, [("location", location.into())]).into_response()
}

/// Returns `host/path` of a request.
pub(crate) fn place(request: &Request) -> String {
    host(request.headers()).to_owned() + request.uri().path()
}
