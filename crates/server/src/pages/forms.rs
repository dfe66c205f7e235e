//! Visits of browsers: the signed-in person, the submitted form, and responses that are not full pages.
//!
//! A form contains a text that is sealed for one purpose and one browser: for the session, or before a sign-in for the form
//! cookie. A form from another origin is refused before its text is opened.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use axum::{
    body::Body,
    extract::{FromRequest, FromRequestParts, Request},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{
    HeaderValue, StatusCode,
    header::{LOCATION, RETRY_AFTER, SET_COOKIE, USER_AGENT},
    request::Parts,
};
use maud::{Markup, html};
use sortie_accounts::{Accounts, Client};
use sortie_api::{ErrorCode, Refusal, parameters::Parameters, secret::Secret};
use sortie_base::network;
use sortie_store::{
    access::{Actor, By},
    people::{SessionKind, SignedIn},
};

use super::layout::{Content, page};
use crate::{
    kit::{Credential, Fault, actor, is_form, small_body},
    org::OrgApp,
};

/// Maximum size of a form, in bytes.
const FORM: usize = 16 * 1_024;
/// Time for which the return path of a sign-in is valid.
const RETURN: Duration = Duration::from_mins(10);
/// Lifetime of the form cookie, in seconds.
const FORM_COOKIE_SECONDS: u64 = 86_400;
/// Prefix of the value of the form cookie.
const FORM_COOKIE: &str = "stf_";
/// Page for a person without a return path.
pub(super) const HOME: &str = "/";
/// Purpose of sealed return paths.
const RETURN_TO: (&str, &str) = ("return", "");

/// Purpose of a form, and the time for which it may stay open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose {
    /// Name of the purpose. A token of one purpose does not open for another one.
    pub(super) name: &'static str,
    /// Time for which the form may stay open.
    pub(super) open: Duration,
}

impl Purpose {
    /// A form that may stay open for an hour.
    pub(super) const fn of(name: &'static str) -> Self {
        Self {
            name,
            open: Duration::from_hours(1),
        }
    }
}

/// Result of a page.
pub(super) type PageResult<T = Response> = Result<T, PageError>;

/// Page with an error, and its cause for the log.
#[derive(Debug)]
pub(super) struct PageError {
    status: StatusCode,
    title: &'static str,
    text: String,
    retry_after: Option<u64>,
    fault: Option<String>,
}

impl PageError {
    /// Creates an error with a text for the person.
    pub(super) fn new(status: StatusCode, title: &'static str, text: impl Into<String>) -> Self {
        Self {
            status,
            title,
            text: text.into(),
            retry_after: None,
            fault: None,
        }
    }

    /// Error for a form from another origin or browser, or one that was open for too long.
    pub(super) fn stale() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "This form is no longer valid",
            "The form was open for too long, or came from another page. Go back, reload the page and try again.",
        )
    }
}

impl<E: Into<Refusal>> From<E> for PageError {
    fn from(error: E) -> Self {
        let refusal = error.into();
        let (status, title) = match refusal.code {
            ErrorCode::InvalidRequest => (StatusCode::BAD_REQUEST, "This does not work"),
            ErrorCode::Unauthorized | ErrorCode::SecondFactorRequired | ErrorCode::Forbidden => {
                (StatusCode::FORBIDDEN, "This is not allowed")
            }
            ErrorCode::PaymentRequired => (StatusCode::PAYMENT_REQUIRED, "This is not possible"),
            ErrorCode::NotFound => (StatusCode::NOT_FOUND, "Not found"),
            ErrorCode::PayloadTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "This is too large"),
            ErrorCode::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "Too many attempts"),
            ErrorCode::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "Not available"),
            ErrorCode::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "Internal error"),
            ErrorCode::Conflict
            | ErrorCode::MethodNotAllowed
            | ErrorCode::Gone
            | ErrorCode::PreconditionFailed
            | ErrorCode::RangeNotSatisfiable => (StatusCode::CONFLICT, "This is not possible"),
        };
        let fault = status.is_server_error().then(|| refusal.to_string());
        Self {
            retry_after: refusal.retry_after.map(|wait| wait.as_secs()),
            fault,
            ..Self::new(status, title, sentence(&refusal.text))
        }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut response = message(self.status, self.title, &html! { p.sub { (self.text) } });
        if let Some(seconds) = self.retry_after {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(fault) = self.fault {
            response.extensions_mut().insert(Fault(fault.into()));
        }
        response
    }
}

/// Converts the text of an error into a sentence. `FIELD: RULE` becomes a sentence about the field.
pub(super) fn sentence(error: &str) -> String {
    let is_name = |text: &str| text.bytes().all(|at| at.is_ascii_lowercase() || at == b'_');
    let text = match error.split_once(": ") {
        Some((field, rule)) if is_name(field) => format!("{} {rule}", field.replace('_', " ")),
        Some(_) | None => error.to_owned(),
    };
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + rest.as_str()
}

/// Page with a message.
pub(super) fn message(status: StatusCode, title: &str, body: &Markup) -> Response {
    let content = Content {
        title: title.to_owned(),
        body: body.clone(),
        leads_to: None,
    };
    page(status, &content)
}

/// Redirect that a browser follows with GET.
pub(super) fn see_other(location: &str) -> PageResult {
    let location =
        HeaderValue::try_from(location).map_err(|_| Refusal::internal("an address is no header value"))?;
    let mut response = message(StatusCode::SEE_OTHER, "One moment", &html! {});
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// Request of a browser for a page.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    /// Person who is signed in.
    pub(super) person: Option<SignedIn>,
    /// Actor for the audit log.
    pub(super) actor: Actor,
    /// Network that attempts are counted for.
    pub(super) network: Option<IpAddr>,
    agent: Option<String>,
    /// Query of the request.
    pub(super) query: String,
    form_cookie: Option<String>,
}

/// Text of a form, and the cookie that the browser needs for it.
pub(super) struct FormToken {
    /// Value of the hidden field.
    pub(super) sealed: String,
    cookie: Option<HeaderValue>,
}

impl FormToken {
    /// Adds the cookie to the page with the form.
    pub(super) fn attach(self, mut response: Response) -> Response {
        if let Some(cookie) = self.cookie {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        response
    }
}

impl Visit {
    /// Returns the signed-in person, or a redirect to the sign-in that returns to `path`.
    pub(super) fn signed_in(&self, app: &OrgApp, path: &str) -> PageResult<Result<SignedIn, Response>> {
        if let Some(person) = self.person {
            return Ok(Ok(person));
        }
        see_other(&Self::link(&app.accounts, "/sign-in", path)?).map(Err)
    }

    /// Creates the token of a form with `text`.
    pub(super) fn form(&self, app: &OrgApp, purpose: Purpose, text: &str) -> PageResult<FormToken> {
        let (holder, cookie) = match (self.person, &self.form_cookie) {
            (Some(person), _) => (person.session.to_string(), None),
            (None, Some(known)) => (known.clone(), None),
            (None, None) => {
                let value = Secret::new(FORM_COOKIE, sortie_base::random()?);
                let cookie = app.form_cookie.set(value.expose(), FORM_COOKIE_SECONDS);
                (value.expose().to_owned(), cookie)
            }
        };
        let sealed = app
            .accounts
            .seal_text((purpose.name, &holder), text.as_bytes(), purpose.open)?;
        Ok(FormToken { sealed, cookie })
    }

    /// Opens the token of a form. The error is a page.
    pub(super) fn opened(&self, app: &OrgApp, purpose: Purpose, fields: &Fields) -> PageResult<String> {
        self.opened_text(app, purpose, fields.get("form").as_deref())
            .ok_or_else(PageError::stale)
    }

    /// Opens the token of a sign-in form. A person who has signed in from another tab in the meantime is redirected to the home
    /// page.
    pub(super) fn opened_to_sign_in(
        &self,
        app: &OrgApp,
        purpose: Purpose,
        fields: &Fields,
    ) -> PageResult<Result<String, Response>> {
        match (self.opened(app, purpose, fields), self.person) {
            (Err(_), Some(_)) => see_other(HOME).map(Err),
            (opened, _) => opened.map(Ok),
        }
    }

    /// Opens a text that was sealed for a purpose and this browser. Returns `None` if it is missing or cannot be opened.
    pub(super) fn opened_text(&self, app: &OrgApp, purpose: Purpose, sealed: Option<&str>) -> Option<String> {
        let session = self.person.map(|person| person.session.to_string());
        let holder = session.or_else(|| self.form_cookie.clone());
        holder
            .zip(sealed)
            .and_then(|(holder, sealed)| app.accounts.open_text((purpose.name, &holder), sealed))
            .and_then(|text| String::from_utf8(text).ok())
    }

    /// Address of a page that returns the person to `back`.
    pub(super) fn link(accounts: &Accounts, page: &str, back: &str) -> PageResult<String> {
        if back == HOME {
            return Ok(page.to_owned());
        }
        let sealed = accounts.seal_text(RETURN_TO, back.as_bytes(), RETURN)?;
        Ok(format!("{page}?return={sealed}"))
    }

    /// Browser that signs in.
    pub(super) fn client(&self) -> Client {
        Client {
            kind: SessionKind::Web,
            address: self.actor.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            agent: self.agent.clone(),
        }
    }

    /// Returns a query parameter unless it is repeated.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let value = Parameters::of(self.query.as_bytes()).one(name);
        value.ok().flatten().map(Cow::into_owned)
    }

    /// Opens the sealed return path of the query: a path with a query, on this origin.
    pub(super) fn way_back(&self, app: &OrgApp) -> Option<String> {
        let sealed = self.parameter("return")?;
        let path = app.accounts.open_text(RETURN_TO, &sealed)?;
        String::from_utf8(path).ok()
    }
}

impl FromRequestParts<Arc<OrgApp>> for Visit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<OrgApp>) -> PageResult<Self> {
        let person = match parts.extensions.get::<Credential>() {
            Some(Credential::Person(person)) => Some(*person),
            Some(Credential::Unchecked(failure)) => return Err(failure.clone().into()),
            Some(
                Credential::Principal(_) | Credential::Operator | Credential::Missing | Credential::Invalid,
            )
            | None => None,
        };
        let by = person.map(|person| By::Session(person.session));
        let actor = actor(parts, by, person.map(|person| person.user));
        let agent = parts.headers.get(USER_AGENT);
        // This server did not set a cookie with any other form of value.
        let form_cookie = app.form_cookie.token(&parts.headers);
        let form_cookie = form_cookie.filter(|value| Secret::parse(FORM_COOKIE, value).is_ok());
        Ok(Self {
            person,
            network: actor.address.map(network),
            agent: agent.and_then(|agent| agent.to_str().ok()).map(str::to_owned),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            form_cookie: form_cookie.map(str::to_owned),
            actor,
        })
    }
}

/// Fields of a form.
pub(super) struct Fields(Bytes);

impl Fields {
    /// Returns a field that is there once.
    pub(super) fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        Parameters::of(&self.0).one(name).ok().flatten()
    }
}

/// Form that a page of this origin sends.
pub(super) struct Posted(pub(super) Visit, pub(super) Fields);

impl FromRequest<Arc<OrgApp>> for Posted {
    type Rejection = PageError;

    async fn from_request(request: Request<Body>, app: &Arc<OrgApp>) -> PageResult<Self> {
        let (mut parts, body) = request.into_parts();
        if !app.cookie.is_own(&parts.headers) || !is_form(&parts.headers) {
            return Err(PageError::stale());
        }
        let visit = Visit::from_request_parts(&mut parts, app).await?;
        let body = small_body(body, FORM).await.map_err(|_| {
            PageError::new(
                StatusCode::BAD_REQUEST,
                "This does not work",
                "The form could not be read.",
            )
        })?;
        Ok(Self(visit, Fields(body)))
    }
}
