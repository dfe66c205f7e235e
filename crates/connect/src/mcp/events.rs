//! Events of a streamed response, with size limits.

use std::{collections::VecDeque, sync::Arc};

use reqwest::Response;
use sortie_net::{DecodedBody, sse};

use super::{
    frames::{self, MESSAGE_BYTES},
    meter::Meter,
};
use crate::outlet::Outlet;

/// Maximum size of a stream for one request, in bytes.
pub(super) const STREAM_BYTES: u64 = 16 << 20;

/// A stream of events.
pub(super) struct Events {
    outlet: Arc<Outlet>,
    body: DecodedBody,
    parser: sse::Parser,
    ready: VecDeque<sse::Message>,
    /// An error is reported after the events that are ready.
    parsed: Result<(), sse::TooLarge>,
    read: u64,
    has_failed: bool,
}

/// Reason why the rest of a stream cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Message(#[from] frames::TooLarge),
    #[error(transparent)]
    Event(#[from] sse::TooLarge),
    #[error(transparent)]
    Net(#[from] sortie_net::Error),
}

impl Broken {
    /// Whether a size limit is the reason.
    pub(super) fn is_size(&self) -> bool {
        match self {
            Self::Message(_) | Self::Event(_) | Self::Net(sortie_net::Error::TooLarge { .. }) => true,
            Self::Net(_) => false,
        }
    }
}

impl Events {
    pub(super) fn new(outlet: Arc<Outlet>, response: Response) -> Self {
        Self {
            outlet,
            body: DecodedBody::new(response),
            parser: sse::Parser::new(MESSAGE_BYTES),
            ready: VecDeque::new(),
            parsed: Ok(()),
            read: 0,
            has_failed: false,
        }
    }

    /// Resets the size limit of the stream after another request.
    pub(super) fn renew(&mut self) {
        self.read = 0;
    }

    /// Returns the reconnection time that the stream requested last, in milliseconds.
    pub(super) fn retry_millis(&self) -> Option<u64> {
        self.parser.retry_millis()
    }

    /// Returns the next event, redacted; `None` at the end of the stream and after a failure. Cancel-safe. `meter` counts the
    /// bytes.
    pub(super) async fn next(&mut self, meter: &Meter) -> Option<Result<sse::Message, Broken>> {
        let mut next = self.next_as_sent(meter).await?;
        if let Ok(message) = &mut next {
            message.data = self.outlet.redactor().redact(&message.data).into_owned();
        }
        Some(next)
    }

    /// Returns the next event like [`next`](Self::next), but without redaction: only for values that are never displayed.
    pub(super) async fn next_as_sent(&mut self, meter: &Meter) -> Option<Result<sse::Message, Broken>> {
        if self.has_failed {
            return None;
        }
        let next = self.read_on(meter).await.transpose();
        self.has_failed = matches!(next, Some(Err(_)));
        next
    }

    async fn read_on(&mut self, meter: &Meter) -> Result<Option<sse::Message>, Broken> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                frames::check(&message.data)?;
                return Ok(Some(message));
            }
            self.parsed?;
            let chunk = self.body.chunk().await?;
            let Some(chunk) = chunk else {
                return Ok(None);
            };
            meter.add(chunk.len());
            self.read += chunk.len() as u64;
            if self.read > STREAM_BYTES {
                let limit = usize::try_from(STREAM_BYTES).unwrap_or(usize::MAX);
                return Err(sortie_net::Error::TooLarge { limit }.into());
            }
            self.parsed = self.parser.push(&chunk, &mut self.ready);
        }
    }
}
