//! Operations of the API that the double supports.

use http::Method;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{failure::Failure, form::Parameters, state::State};

/// Operation of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// `GET /v1/account`
    ReadAccount,
    /// `POST /v1/customers`
    CreateCustomer,
    /// `GET /v1/customers/{id}`
    ReadCustomer,
    /// `GET /v1/customers/{id}/payment_methods`
    ListPaymentMethods,
    /// `POST /v1/payment_methods`
    CreatePaymentMethod,
    /// `GET /v1/payment_methods/{id}`
    ReadPaymentMethod,
    /// `POST /v1/payment_methods/{id}/attach`
    AttachPaymentMethod,
    /// `POST /v1/checkout/sessions`
    CreateSession,
    /// `GET /v1/checkout/sessions`
    ListSessions,
    /// `GET /v1/checkout/sessions/{id}`
    ReadSession,
    /// `POST /v1/checkout/sessions/{id}/expire`
    ExpireSession,
    /// `POST /v1/payment_intents`
    CreateIntent,
    /// `GET /v1/payment_intents`
    ListIntents,
    /// `GET /v1/payment_intents/{id}`
    ReadIntent,
    /// `POST /v1/payment_intents/{id}/cancel`
    CancelIntent,
    /// `GET /v1/charges/{id}`
    ReadCharge,
    /// `POST /v1/refunds`
    CreateRefund,
    /// `GET /v1/refunds`
    ListRefunds,
    /// `GET /v1/refunds/{id}`
    ReadRefund,
    /// `GET /v1/disputes`
    ListDisputes,
    /// `GET /v1/disputes/{id}`
    ReadDispute,
    /// `GET /v1/subscriptions/{id}`
    ReadSubscription,
    /// `DELETE /v1/subscriptions/{id}`
    CancelSubscription,
    /// `GET /v1/events`
    ListEvents,
    /// `GET /v1/events/{id}`
    ReadEvent,
    /// `POST /v1/billing_portal/sessions`
    CreatePortalSession,
}

impl Call {
    /// Returns the operation of a request, with the identifier in its path.
    pub(super) fn of(method: &Method, path: &str) -> Option<(Self, String)> {
        let segments: Vec<_> = path.strip_prefix("/v1/")?.split('/').collect();
        let is_post = match *method {
            Method::GET => false,
            Method::POST => true,
            Method::DELETE => {
                return match segments.as_slice() {
                    ["subscriptions", id] => Some((Self::CancelSubscription, (*id).to_owned())),
                    _ => None,
                };
            }
            _ => return None,
        };
        let (call, id) = match (is_post, segments.as_slice()) {
            (false, ["account"]) => (Self::ReadAccount, ""),
            (true, ["customers"]) => (Self::CreateCustomer, ""),
            (false, ["customers", id]) => (Self::ReadCustomer, *id),
            (false, ["customers", id, "payment_methods"]) => (Self::ListPaymentMethods, *id),
            (true, ["payment_methods"]) => (Self::CreatePaymentMethod, ""),
            (false, ["payment_methods", id]) => (Self::ReadPaymentMethod, *id),
            (true, ["payment_methods", id, "attach"]) => (Self::AttachPaymentMethod, *id),
            (true, ["checkout", "sessions"]) => (Self::CreateSession, ""),
            (false, ["checkout", "sessions"]) => (Self::ListSessions, ""),
            (false, ["checkout", "sessions", id]) => (Self::ReadSession, *id),
            (true, ["checkout", "sessions", id, "expire"]) => (Self::ExpireSession, *id),
            (true, ["payment_intents"]) => (Self::CreateIntent, ""),
            (false, ["payment_intents"]) => (Self::ListIntents, ""),
            (false, ["payment_intents", id]) => (Self::ReadIntent, *id),
            (true, ["payment_intents", id, "cancel"]) => (Self::CancelIntent, *id),
            (false, ["charges", id]) => (Self::ReadCharge, *id),
            (true, ["refunds"]) => (Self::CreateRefund, ""),
            (false, ["refunds"]) => (Self::ListRefunds, ""),
            (false, ["refunds", id]) => (Self::ReadRefund, *id),
            (false, ["disputes"]) => (Self::ListDisputes, ""),
            (false, ["disputes", id]) => (Self::ReadDispute, *id),
            (false, ["subscriptions", id]) => (Self::ReadSubscription, *id),
            (false, ["events"]) => (Self::ListEvents, ""),
            (false, ["events", id]) => (Self::ReadEvent, *id),
            (true, ["billing_portal", "sessions"]) => (Self::CreatePortalSession, ""),
            _ => return None,
        };
        Some((call, id.to_owned()))
    }
}

impl State {
    /// Performs an operation. Returns its object, and expands the objects that `expand` names.
    pub(super) fn perform(
        &mut self,
        (call, id): (Call, &str),
        form: Map<String, Value>,
    ) -> Result<Value, Failure> {
        self.expire_sessions();
        let mut parameters = Parameters::new(form);
        let expand = parameters.texts("expand")?;
        let mut object = self.dispatch((call, id), parameters)?;
        for path in expand {
            self.expand(&mut object, &path)?;
        }
        Ok(object)
    }

    fn dispatch(&mut self, (call, id): (Call, &str), parameters: Parameters) -> Result<Value, Failure> {
        match call {
            Call::CreateCustomer => self.create_customer(parameters),
            Call::ListPaymentMethods => self.list_payment_methods(id, parameters),
            Call::CreatePaymentMethod => self.create_payment_method(parameters),
            Call::AttachPaymentMethod => self.attach_payment_method(id, parameters),
            Call::CreateSession => self.create_session(parameters),
            Call::ListSessions => self.list_sessions(parameters),
            Call::ExpireSession => self.expire_session(id, parameters),
            Call::CreateIntent => self.create_intent(parameters),
            Call::ListIntents => self.list_intents(parameters),
            Call::CancelIntent => self.cancel_intent(id, parameters),
            Call::CreateRefund => self.create_refund(parameters),
            Call::ListRefunds => self.list_refunds(parameters),
            Call::ListDisputes => self.list_disputes(parameters),
            Call::ListEvents => self.list_events(parameters),
            Call::CreatePortalSession => self.create_portal_session(parameters),
            Call::CancelSubscription => self.cancel_subscription(id, parameters),
            Call::ReadAccount => parameters.finish().map(|()| self.read_account()),
            Call::ReadCustomer => parameters.finish().and_then(|()| self.customers.read(id)),
            Call::ReadPaymentMethod => parameters.finish().and_then(|()| self.payment_methods.read(id)),
            Call::ReadSession => parameters.finish().and_then(|()| self.sessions.read(id)),
            Call::ReadIntent => parameters.finish().and_then(|()| self.intents.read(id)),
            Call::ReadCharge => parameters.finish().and_then(|()| self.charges.read(id)),
            Call::ReadRefund => parameters.finish().and_then(|()| self.refunds.read(id)),
            Call::ReadDispute => parameters.finish().and_then(|()| self.disputes.read(id)),
            Call::ReadSubscription => parameters.finish().and_then(|()| self.subscriptions.read(id)),
            Call::ReadEvent => parameters.finish().and_then(|()| self.event(id)),
        }
    }
}
