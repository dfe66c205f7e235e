//! The `connection_call` event. Every request through a connection has one, even without a response.

use sortie_agent::{
    Redactor,
    tool::{Context, ToolError},
};
use sortie_api::{EventType, event::ConnectionCall};
use tokio::time::Instant;

use crate::text;

/// Maximum length of a path in an event, in bytes.
const PATH_BYTES: usize = 1024;

/// A call in progress.
pub(crate) struct Call {
    connection: String,
    method: String,
    path: String,
    began: Instant,
}

/// Result of the call.
#[derive(Clone, Copy, Default)]
pub(crate) struct CallEnd {
    /// Status of the response, if there was one.
    pub(crate) status: Option<u16>,
    /// Number of bytes read from its body.
    pub(crate) bytes: u64,
}

impl Call {
    pub(crate) fn begin(connection: &str, method: &str, path: &str) -> Self {
        Self {
            connection: connection.to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            began: Instant::now(),
        }
    }

    /// Records the call with a redacted path. Fails if this worker has lost the run.
    pub(crate) async fn record(
        self,
        end: CallEnd,
        redactor: &Redactor,
        context: Context<'_>,
    ) -> Result<(), ToolError> {
        let event = ConnectionCall {
            connection: self.connection,
            method: self.method,
            path: text::head(&redactor.redact(&self.path), PATH_BYTES).to_owned(),
            status: end.status,
            bytes: end.bytes,
            duration_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        context
            .sink
            .record(EventType::ConnectionCall(event))
            .await
            .map_err(|_stopped| ToolError::Fatal("this worker abandoned the run".to_owned()))
    }
}
