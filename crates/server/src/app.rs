//! What handlers share: the engine, the description document and the signal to stop.

use bytes::Bytes;
use sortie_engine::Engine;
use tokio_util::sync::CancellationToken;

/// The state of the router; handlers get it as `State<Arc<App>>`.
pub(crate) struct App {
    /// The node.
    pub(crate) engine: Engine,
    /// `/openapi.json`, serialized once.
    pub(crate) document: Bytes,
    /// Cancelled when open streams must end.
    pub(crate) stop: CancellationToken,
}
