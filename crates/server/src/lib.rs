//! HTTP server: the engine API and the organization API as axum routes, their shared kit, and the `OpenAPI` documents generated
//! from them.
//!
//! A request passes the gate (id, credential, rate limit), the router, one handler with role extractors, one call
//! into engine or store, and the gate again (headers). [`serve`] runs it, [`openapi`] describes it.

mod access;
mod app;
mod browsers;
mod connections;
mod console;
mod cross_origin;
mod description;
mod gate;
mod kit;
mod mcp;
mod metrics;
mod oauth;
mod org;
mod pages;
mod routes;
mod spans;
mod table;

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use ipnet::IpNet;
use sortie_accounts::{Accounts, MCP_PATH};
use sortie_api::{Features, Mode, limits};
use sortie_billing::Billing;
use sortie_engine::{Descriptors, Engine};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

pub use access::{Access, Api, Modes, RequiredRole};
pub use browsers::ConsoleFiles;
pub use kit::Deprecation;
pub use pages::Page;

use crate::{
    app::App,
    browsers::Browsers,
    connections::{Answers, Connections},
    description::Description,
    gate::{Door, Gate, rate_limits, share_limits},
    kit::{BodyBudget, Challenges, CredentialWatch, Cursors, LargeTexts, SessionCookie, TrustedProxies},
    metrics::{Exposition, HttpMetrics},
    org::{EngineDoor, OrgApp, OrganizationDoor, SignInDoor},
    routes::ResourceMetadata,
};

/// Settings of the server at its start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Requests per minute with one credential.
    pub requests_per_minute: u32,
    /// Requests per minute without a credential from one address.
    pub anonymous_requests_per_minute: u32,
    /// Networks of proxies with a trusted `X-Forwarded-For`; a lone address is a network of a single host.
    pub trusted_proxies: Vec<IpNet>,
    /// Origins of web pages that may read a run with a run token, such as `https://app.example.com`.
    pub allowed_origins: Vec<String>,
    /// The address clients use, for the `servers` of the `OpenAPI` document.
    pub base_url: Option<String>,
    /// Files of the console.
    pub console: ConsoleFiles,
    /// Address of a trace in another tool, with `{trace_id}`.
    pub trace_url: Option<String>,
    /// Deprecation of `/v1`; absent while it is the current version.
    pub deprecation: Option<Deprecation>,
    /// Time for which a request waits for the database, which shares the rate limits of several nodes. After it the node admits
    /// its own share.
    pub rate_limit_patience: Duration,
    /// Time in which a write to a client must make progress. Otherwise the connection and its answer are aborted.
    pub stall: Duration,
    /// Interval between heartbeats of an event stream without messages.
    pub heartbeat: Duration,
    /// Time after which a client of the MCP server that knows no tasks gets the status of a run. Most give up after 60 seconds.
    pub call_patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            requests_per_minute: limits::REQUESTS_PER_MINUTE,
            anonymous_requests_per_minute: limits::ANONYMOUS_REQUESTS_PER_MINUTE,
            trusted_proxies: Vec::new(),
            allowed_origins: Vec::new(),
            base_url: None,
            console: ConsoleFiles::default(),
            trace_url: None,
            deprecation: None,
            rate_limit_patience: Duration::from_secs(1),
            stall: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
            call_patience: Duration::from_secs(50),
        }
    }
}

/// Listeners of the server.
pub struct Listeners {
    /// For the API.
    pub api: TcpListener,
    /// Only for `/metrics`. The API listener does not serve it then.
    pub metrics: Option<TcpListener>,
    /// For the organization API of a hosted deployment.
    pub organization: Option<OrganizationListener>,
    /// Accounts of people who sign in at a self-hosted engine, on its API listener.
    pub people: Option<Accounts>,
}

/// Listener of the organization API, and its accounts.
pub struct OrganizationListener {
    /// The listener.
    pub listener: TcpListener,
    /// The accounts.
    pub accounts: Accounts,
    /// Payments; absent if nothing is sold.
    pub billing: Option<Billing>,
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listeners")
            .field("api", &self.api)
            .field("metrics", &self.metrics)
            .field("organization", &self.organization)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for OrganizationListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OrganizationListener")
            .field(&self.listener)
            .finish()
    }
}

impl From<TcpListener> for Listeners {
    fn from(api: TcpListener) -> Self {
        Self {
            api,
            metrics: None,
            organization: None,
            people: None,
        }
    }
}

/// Serves until `stop` is cancelled, then ends open streams and returns when every connection is closed.
pub async fn serve(
    listeners: impl Into<Listeners>,
    engine: Engine,
    options: Arc<Options>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let seed = || getrandom::u64().map_err(std::io::Error::other);
    let Listeners {
        api,
        metrics,
        organization,
        people,
    } = listeners.into();
    let document = Description::Engine(engine.mode()).document(options.base_url.as_deref());
    let http = HttpMetrics::default();
    let accounts = organization
        .as_ref()
        .map(|side| &side.accounts)
        .or(people.as_ref());
    let billing = organization.as_ref().and_then(|side| side.billing.as_ref());
    let measured = (engine.clone(), &http);
    let exposition = Arc::new(Exposition::new(measured, (accounts, billing), seed()?));
    let oauth = organization.as_ref().map(|side| side.accounts.options());
    let challenges = oauth.map_or_else(Challenges::none, challenges_of);
    let bodies = BodyBudget::default();
    let proxies = TrustedProxies::new(options.trusted_proxies.clone());
    let browsers = engine_browsers(&engine, &options, &proxies, people.is_some());
    let app = Arc::new(App {
        engine: engine.clone(),
        bodies: bodies.clone(),
        proxies,
        texts: LargeTexts::new(engine.clone(), bodies),
        connection_reads: Arc::new(Semaphore::new(app::CONNECTION_READS)),
        cursors: Cursors::of(&engine),
        mcp: mcp::Catalog::parse()?,
        document: serde_json::to_vec(&document)?.into(),
        resource_metadata: oauth.map(resource_metadata).transpose()?.unwrap_or_default(),
        http: http.clone(),
        exposition: metrics.is_none().then(|| Arc::clone(&exposition)),
        stop: stop.clone(),
        people: people.clone(),
        features: features(&options, organization.as_ref()),
        heartbeat: options.heartbeat,
        call_patience: options.call_patience,
        browsers: browsers.clone(),
        watch: CredentialWatch::new(engine.clone(), accounts.cloned(), stop.clone()),
    });
    let limits = Arc::new(rate_limits(&engine, &options));
    let shared = (&limits, &app.bodies, &app.proxies);
    let gate = |door: (Door, axum::Router)| {
        let gate = Gate::new(engine.clone(), door, shared, &options, http.clone(), seed()?);
        std::io::Result::Ok(Arc::new(gate))
    };
    // The start page of a hosted deployment is at the address of the organization API.
    let start = oauth.map(|options| format!("{}{}", options.org_url, pages::HOME));
    let start = start.or_else(|| browsers.as_ref().map(|_| pages::HOME.to_owned()));
    let router = routes::router(Arc::clone(&app), start);
    let organization = match organization {
        Some(side) => {
            let people = (side.accounts, side.billing);
            let url = &people.0.options().org_url;
            let browsers = Arc::new(Browsers::of_organizations(url, &options.console));
            let api = organization_api(&app, people, browsers, router.clone())?;
            Some((side.listener, gate(api)?))
        }
        None => None,
    };
    let door = EngineDoor {
        challenges,
        sign_in: people
            .zip(browsers.clone())
            .map(|(accounts, browsers)| sign_in_door(&app, accounts, browsers)),
        browsers,
    };
    let door = Door::Engine(Box::new(door));
    let open = connections_of(&options, &http);
    let served = connections::serve(api, gate((door, router))?, open.clone(), stop.clone());
    let organization_served = serve_if_any(organization, &open, &stop);
    let measured = serve_if_any(metrics.map(|listener| (listener, exposition)), &open, &stop);
    tokio::select! {
        ((), (), ()) = async { tokio::join!(served, organization_served, measured) } => {}
        () = share_limits(&limits, &engine) => {}
        () = app.watch.run() => {}
    }
    Ok(())
}

/// Returns the features that clients are shown. `organization` is the other listener of a hosted deployment.
fn features(options: &Options, organization: Option<&OrganizationListener>) -> Features {
    let accounts = organization.map(|side| side.accounts.options());
    Features {
        console: options.console != ConsoleFiles::Disabled,
        payments: organization.is_some_and(|side| side.billing.is_some()),
        mail: accounts.is_some_and(|accounts| accounts.mail.is_some()),
        sign_up: accounts.map(|accounts| accounts.sign_up),
        trace_url: options.trace_url.clone(),
    }
}

/// Serves a listener with what answers its requests, if there is one.
async fn serve_if_any<A: Answers>(
    listener: Option<(TcpListener, Arc<A>)>,
    open: &Connections,
    stop: &CancellationToken,
) {
    if let Some((listener, answers)) = listener {
        connections::serve(listener, answers, open.clone(), stop.clone()).await;
    }
}

/// Makes the rules for browsers at the listener of a self-hosted engine. `None` if it has neither the console nor a sign-in of
/// people, and on a hosted deployment.
fn engine_browsers(
    engine: &Engine,
    options: &Options,
    proxies: &TrustedProxies,
    has_people: bool,
) -> Option<Arc<Browsers>> {
    let has_pages = options.console != ConsoleFiles::Disabled || has_people;
    (engine.mode() == Mode::SelfHosted && has_pages).then(|| {
        let base_url = options.base_url.as_deref();
        Arc::new(Browsers::of_engine(engine, base_url, proxies, &options.console))
    })
}

/// Creates the registry of the connections of all listeners.
fn connections_of(options: &Options, http: &HttpMetrics) -> Connections {
    let descriptors = Descriptors::of_process();
    http.connections.set_reserved(descriptors.reserved);
    Connections::new(
        usize::try_from(descriptors.connections).unwrap_or(usize::MAX),
        options.trusted_proxies.clone(),
        options.stall,
        http.connections.clone(),
    )
}

/// Makes the challenges of the engine API of a hosted deployment.
fn challenges_of(options: &sortie_accounts::Options) -> Challenges {
    let urls = ["", MCP_PATH].map(|below| options.resource_metadata_url(below));
    Challenges::of_resources(urls)
}

/// Makes the metadata of the engine API and of the MCP server for OAuth clients.
fn resource_metadata(options: &sortie_accounts::Options) -> serde_json::Result<Vec<ResourceMetadata>> {
    let of = |below| {
        let path = format!("{}{below}", options.engine_path());
        Ok(ResourceMetadata {
            document: serde_json::to_vec(&options.resource_metadata(below))?.into(),
            path: path.trim_start_matches('/').to_owned(),
        })
    };
    ["", MCP_PATH].into_iter().map(of).collect()
}

/// Makes the state of the pages, and of the organization API with its `document`.
fn org_app(
    app: &App,
    (accounts, billing): (Accounts, Option<Billing>),
    browsers: Arc<Browsers>,
    document: Bytes,
) -> OrgApp {
    OrgApp {
        engine: app.engine.clone(),
        bodies: app.bodies.clone(),
        proxies: app.proxies.clone(),
        browsers,
        form_cookie: SessionCookie::of_forms(),
        cursors: app.cursors.clone(),
        document,
        accounts,
        billing,
    }
}

/// Makes the sign-in of people at a self-hosted engine.
fn sign_in_door(app: &App, accounts: Accounts, browsers: Arc<Browsers>) -> SignInDoor {
    // The pages have no separate document.
    let org_app = org_app(app, (accounts.clone(), None), browsers, Bytes::new());
    SignInDoor {
        accounts,
        pages: org::pages_router(Arc::new(org_app)),
    }
}

/// Makes the door and the router of the organization API. `engine_router` serves the engine API to signed-in browsers.
fn organization_api(
    app: &App,
    (accounts, billing): (Accounts, Option<Billing>),
    browsers: Arc<Browsers>,
    engine_router: axum::Router,
) -> serde_json::Result<(Door, axum::Router)> {
    let document = Description::Organization.document(Some(&accounts.options().org_url));
    let org_app = org_app(
        app,
        (accounts.clone(), billing),
        Arc::clone(&browsers),
        serde_json::to_vec(&document)?.into(),
    );
    let router = org::router(Arc::new(org_app));
    let door = OrganizationDoor {
        accounts,
        engine: app.engine.clone(),
        browsers,
        engine_router,
    };
    Ok((Door::Organization(Box::new(door)), router))
}

/// Access to each operation of an API.
pub fn access(api: Api) -> &'static [Access] {
    match api {
        Api::Engine => routes::ACCESS,
        Api::Organization => org::ACCESS,
    }
}

/// Pages of the organization API.
pub fn pages() -> &'static [Page] {
    pages::PAGES
}

/// Pages of a self-hosted engine with identity providers.
pub fn engine_pages() -> &'static [Page] {
    pages::ENGINE_PAGES
}

/// The `OpenAPI` 3.1 document of an API, as JSON.
pub fn openapi(api: Api) -> serde_json::Value {
    Description::of(api).document(None)
}
