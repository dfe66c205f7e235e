//! The HTTP+SSE transport of MCP revision 2024-11-05 with our guarded client.
//!
//! A GET opens a single stream of events. Its first event names the endpoint for messages, which must have the origin of the
//! connection's URL. Each message is a POST to it, and the responses arrive as events. The revision has no way to resume a
//! stream, so its end also ends the session, and the next call opens a new one.

use std::{collections::HashMap, sync::Arc, time::Duration};

use reqwest::{
    Method, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientNotification, RequestId, ServerJsonRpcMessage},
    service::RoleClient,
    transport::Transport,
};
use sortie_net::read_body;
use tokio::time::timeout;
use url::Url;

use super::{
    endpoint::endpoint,
    events::Events,
    frames, lenient,
    meter::Meter,
    wire::{
        ERROR_BYTES, WireError, answered, error_of, exchange, is_busy, is_event_stream, may_be_repeated,
        meter_of, retry_after,
    },
};
use crate::{
    Failure,
    outlet::{Outgoing, Outlet},
};

/// Maximum time to read the body after an accepted message, so that its connection can be reused.
const DRAIN: Duration = Duration::from_secs(1);

/// Outlets to a server: for the stream, which can be silent for as long as the run, and for the messages.
pub(crate) struct Outlets {
    pub(crate) stream: Arc<Outlet>,
    pub(crate) messages: Arc<Outlet>,
}

/// An open stream, and the endpoint in its first event.
pub(super) struct HttpSse {
    outlet: Arc<Outlet>,
    endpoint: Url,
    events: Option<Events>,
    /// Pending requests.
    calls: HashMap<RequestId, Arc<Meter>>,
    /// Traffic of the stream that belongs to no call.
    unasked: Meter,
}

impl HttpSse {
    /// Opens the stream and waits for its endpoint. `None` if the server has no such stream. The caller sets the timeout.
    pub(super) async fn open(outlets: &Outlets, url: &Url) -> Result<Option<Self>, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let request = Outgoing {
            method: Method::GET,
            url: url.clone(),
            headers,
            body: None,
        };
        let response = outlets.stream.send(&request).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            return Err(outlets.stream.refused_401());
        }
        if let Some(failure) = outlets.stream.refused_scope(&response) {
            return Err(failure);
        }
        if response.status() != StatusCode::OK || !is_event_stream(&response) {
            return Ok(None);
        }
        let mut events = Events::new(Arc::clone(&outlets.stream), response);
        let unasked = Meter::default();
        let named = loop {
            // The connection's URL can contain a credential, and the endpoint may repeat it.
            match events.next_as_sent(&unasked).await {
                Some(Ok(event)) if event.event == "endpoint" => break event.data,
                Some(Ok(_)) => {}
                Some(Err(broken)) => {
                    return Err(Failure::Error(format!(
                        "the server's event stream cannot be read: {broken}"
                    )));
                }
                None => {
                    return Err(Failure::Error(
                        "the server's event stream ended before it named an endpoint".to_owned(),
                    ));
                }
            }
        };
        let endpoint = endpoint(url, &named).map_err(|why| Failure::Error(why.to_owned()))?;
        Ok(Some(Self {
            outlet: Arc::clone(&outlets.messages),
            endpoint,
            events: Some(events),
            calls: HashMap::new(),
            unasked,
        }))
    }

    /// Ends the session and fails all pending requests with this reason.
    fn end(&mut self, why: &str) {
        self.events = None;
        for (_, meter) in self.calls.drain() {
            meter.break_off(why);
        }
    }

    /// Adds a response to the traffic of its call.
    fn count(&mut self, message: &ServerJsonRpcMessage, bytes: usize) {
        if let Some(meter) = answered(message).and_then(|id| self.calls.remove(id)) {
            meter.add(bytes);
        }
    }
}

/// Sends a message to the endpoint.
async fn post(
    outlet: Arc<Outlet>,
    endpoint: Url,
    message: ClientJsonRpcMessage,
    meter: Arc<Meter>,
) -> Result<(), WireError> {
    let body = serde_json::to_vec(&message)
        .map_err(|_| Failure::Error("the message cannot be written as JSON".to_owned()))?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let request = Outgoing {
        method: Method::POST,
        url: endpoint,
        headers,
        body: Some(body.into()),
    };
    let response = exchange(&outlet, &request).await?;
    meter.begin(response.status());
    let status = response.status();
    if !status.is_success() {
        let after = retry_after(&response);
        let (told, _) = error_of(&outlet, response, &meter).await;
        if is_busy(status) && may_be_repeated(&message) {
            return Err(WireError::Busy { told, after });
        }
        return Err(Failure::Error(told).into());
    }
    // The content does not matter, because the response arrives as an event.
    let _drained = timeout(DRAIN, read_body(response, ERROR_BYTES)).await;
    Ok(())
}

impl Transport<RoleClient> for HttpSse {
    type Error = WireError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), WireError>> + Send + 'static {
        let meter = meter_of(&message);
        match &message {
            ClientJsonRpcMessage::Request(request) => {
                self.calls.insert(request.id.clone(), Arc::clone(&meter));
                if let Some(events) = &mut self.events {
                    events.renew();
                }
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.calls.remove(id);
                }
            }
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => {}
        }
        post(Arc::clone(&self.outlet), self.endpoint.clone(), message, meter)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let event = match self.events.as_mut()?.next(&self.unasked).await {
                Some(Ok(event)) => event,
                Some(Err(broken)) => {
                    self.end(&broken.to_string());
                    return None;
                }
                None => {
                    self.end("the server ended its event stream");
                    return None;
                }
            };
            // Only the first `endpoint` counts.
            if event.event != "message" {
                continue;
            }
            if let Ok(message) = lenient::read(&event.data) {
                self.count(&message, event.data.len());
                return Some(message);
            }
            // An invalid message is skipped unless it responds to a request.
            if let Some(id) = lenient::spoiled_answer(&event.data, self.calls.keys()).cloned() {
                let message = frames::unreadable(&event.data, id);
                self.count(&message, event.data.len());
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), WireError> {
        self.end("the session was closed");
        Ok(())
    }
}
