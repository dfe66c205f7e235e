//! The `connection_call` event: one for every request made through a connection, also for one that brought no answer.

use sortie_agent::{
    Redactor,
    tool::{Context, ToolError},
};
use sortie_api::{EventType, event::ConnectionCall};
use tokio::time::Instant;

use crate::text;

/// Maximum length of a path in an event, in bytes.
const PATH_BYTES: usize = 1024;

/// A call under way.
pub(crate) struct Call {
    connection: String,
    method: String,
    path: String,
    began: Instant,
}

/// Result of the call.
#[derive(Clone, Copy, Default)]
pub(crate) struct CallEnd {
    /// The status of the answer, if one came.
    pub(crate) status: Option<u16>,
    /// Bytes of its body that were read.
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

    /// Records the call, its path redacted. Fails when the run is no longer this worker's.
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
            .map_err(|_stopped| ToolError::Fatal("the run was given up by this worker".to_owned()))
    }
}
