//! Test helpers: a server on a free port, a recorder of events, and calls of tools by name.

use std::{net::SocketAddr, sync::Arc};

use axum::Router;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, value::to_raw_value};
use sortie_agent::{
    Redactor, Sink, Stopped,
    journal::Entry,
    tool::{Context, ToolError},
};
use sortie_api::{Credential, EventType, Micros, event::ConnectionCall};
use sortie_connect::{Auth, Connection, Connector, OpenError, Opened, Target};
use sortie_net::{Network, Reach};
use tokio::{net::TcpListener, task::JoinSet};
use url::Url;

/// Maximum size of an output for the model, in bytes.
pub(crate) const OUTPUT_BYTES: usize = 32 * 1024;

/// A running server; dropping it stops it.
pub(crate) struct Serving {
    address: SocketAddr,
    _task: JoinSet<()>,
}

impl Serving {
    pub(crate) async fn start(router: Router) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        Self::on(listener, router)
    }

    pub(crate) fn on(listener: TcpListener, router: Router) -> Self {
        let address = listener.local_addr().unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, _task: task }
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        format!("http://{}{path}", self.address).parse().unwrap()
    }
}

/// Stores all records.
#[derive(Default)]
pub(crate) struct Recorder {
    events: Mutex<Vec<EventType>>,
}

impl Recorder {
    pub(crate) fn calls(&self) -> Vec<ConnectionCall> {
        let events = self.events.lock();
        let calls = events.iter().map(|event| {
            let EventType::ConnectionCall(call) = event else {
                panic!("{} is recorded", event.kind());
            };
            call.clone()
        });
        calls.collect()
    }
}

impl Sink for Recorder {
    fn record(&self, event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
        self.events.lock().push(event);
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

/// A run with open connections.
pub(crate) struct Run {
    pub(crate) opened: Opened,
    pub(crate) recorder: Recorder,
    pub(crate) redactor: Arc<Redactor>,
}

impl Run {
    pub(crate) async fn open(connections: &[Connection]) -> Result<Self, OpenError> {
        let redactor = Arc::new(Redactor::default());
        let opened = connector().open(connections, &redactor).await?;
        Ok(Self {
            opened,
            recorder: Recorder::default(),
            redactor,
        })
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let tools = self.opened.tools.iter();
        tools.map(|tool| tool.definition().name.to_owned()).collect()
    }

    /// Calls a tool and returns the text for the model; `Err` for a tool error.
    pub(crate) async fn call(&self, tool: &str, arguments: &Value) -> Result<String, String> {
        let tool = self.tool(tool);
        let context = Context::new(&self.recorder, OUTPUT_BYTES);
        match tool.call(to_raw_value(arguments).unwrap(), context).await {
            Ok(output) => Ok(output.text().into_owned()),
            Err(ToolError::ToModel(told) | ToolError::NotSent(told)) => Err(told),
            Err(ToolError::Fatal(why)) => panic!("fatal: {why}"),
        }
    }

    pub(crate) fn tool(&self, name: &str) -> &dyn sortie_agent::Tool {
        let mut tools = self.opened.tools.iter();
        &**tools
            .find(|tool| tool.definition().name == name)
            .unwrap_or_else(|| panic!("no tool {name} among {:?}", self.names()))
    }
}

pub(crate) fn connector() -> Connector {
    Connector::new(&Network::new(Reach::Private, Vec::new()).into(), None).unwrap()
}

pub(crate) fn http(url: Url) -> Connection {
    Connection {
        name: "api".to_owned(),
        target: Target::Http {
            url,
            allowed_methods: None,
        },
        auth: Auth::None,
        headers: Vec::new(),
        description: None,
    }
}

pub(crate) fn mcp(url: Url) -> Connection {
    Connection {
        name: "tools".to_owned(),
        target: Target::Mcp {
            url,
            allowed_tools: None,
        },
        auth: Auth::None,
        headers: Vec::new(),
        description: None,
    }
}

pub(crate) fn secret(text: &str) -> Credential {
    Credential::new(text)
}
