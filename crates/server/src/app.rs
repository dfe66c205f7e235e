//! State that handlers share: the engine, the description document and the signal to stop.

use std::{sync::Arc, time::Duration};

use axum::extract::{FromRef, FromRequestParts, RawPathParams};
use bytes::Bytes;
use http::request::Parts;
use sortie_accounts::Accounts;
use sortie_api::Features;
use sortie_engine::Engine;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    browsers::Browsers,
    kit::{
        ApiError, ApiResult, AtLeast, BodyBudget, CredentialWatch, Cursors, LargeTexts, OfRun, TrustedProxies,
    },
    mcp::Catalog,
    metrics::{Exposition, HttpMetrics},
    routes::ResourceMetadata,
};

/// Number of saved connections that are read concurrently. Each may have several hundred KiB.
pub(crate) const CONNECTION_READS: usize = 4;

/// The state of the router; handlers get it as `State<Arc<App>>`.
pub(crate) struct App {
    /// The node.
    pub(crate) engine: Engine,
    /// Memory for the bodies of requests and answers.
    pub(crate) bodies: BodyBudget,
    /// Proxies that are trusted to report the address of a client.
    pub(crate) proxies: TrustedProxies,
    /// Large texts in answers.
    pub(crate) texts: LargeTexts,
    /// Permits to read saved connections: [`CONNECTION_READS`].
    pub(crate) connection_reads: Arc<Semaphore>,
    /// Cursors of lists.
    pub(crate) cursors: Cursors,
    /// Tools of the MCP server.
    pub(crate) mcp: Catalog,
    /// `/openapi.json`, serialized once.
    pub(crate) document: Bytes,
    /// Metadata of the engine API and of the MCP server for OAuth clients; empty without an authorization server.
    pub(crate) resource_metadata: Vec<ResourceMetadata>,
    /// Metrics of the server.
    pub(crate) http: HttpMetrics,
    /// `/metrics`; absent if it has a separate listener.
    pub(crate) exposition: Option<Arc<Exposition>>,
    /// Interval between heartbeats of an event stream without messages.
    pub(crate) heartbeat: Duration,
    /// Time after which a client of the MCP server that knows no tasks gets the status of a run.
    pub(crate) call_patience: Duration,
    /// Cancelled when open streams must end.
    pub(crate) stop: CancellationToken,
    /// Accounts of the people who sign in at this self-hosted engine; absent without identity providers.
    pub(crate) people: Option<Accounts>,
    /// Features that clients are shown.
    pub(crate) features: Features,
    /// Rules for browsers; absent without a console and a sign-in, and on hosted deployments.
    pub(crate) browsers: Option<Arc<Browsers>>,
    /// Ends open streams with the credentials that opened them.
    pub(crate) watch: CredentialWatch,
}

impl FromRef<Arc<App>> for BodyBudget {
    fn from_ref(app: &Arc<App>) -> Self {
        app.bodies.clone()
    }
}

impl<const PERMISSION: u8> FromRequestParts<Arc<App>> for OfRun<PERMISSION> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        // A path that is no text names no run. The handler's own extractor refuses it.
        let parameters = RawPathParams::from_request_parts(parts, app).await.ok();
        let run = parameters
            .iter()
            .flat_map(RawPathParams::iter)
            .find(|(name, _)| *name == "id");
        Self::of_credential(parts, run.map_or("", |(_, run)| run))
    }
}

impl<const ROLE: u8> FromRequestParts<Arc<App>> for AtLeast<ROLE> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &Arc<App>) -> ApiResult<Self> {
        Self::of_credential(parts)
    }
}
