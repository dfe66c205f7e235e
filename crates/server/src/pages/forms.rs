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
    response::Response,
};
use bytes::Bytes;
use http::{
    HeaderValue, StatusCode,
    header::{LOCATION, SET_COOKIE, USER_AGENT},
    request::Parts,
};
use maud::{Markup, html};
use sortie_accounts::{Accounts, Client};
use sortie_api::{Refusal, parameters::Parameters, secret::Secret};
use sortie_base::network;
use sortie_store::{
    access::{Actor, By},
    people::{SessionKind, SignedIn},
};

use super::{
    errors::{PageError, PageResult},
    layout::{Content, page},
};
use crate::{
    browsers::transport_of,
    kit::{Credential, Transport, actor, is_form, small_body},
    org::OrgApp,
};

/// Maximum size of a form, in bytes.
const FORM: usize = 16 * 1_024;
/// Time for which the return path of a sign-in is valid: as long as its form may stay open.
const RETURN: Duration = Duration::from_hours(1);
/// Lifetime of the form cookie, in seconds.
const FORM_COOKIE_SECONDS: u64 = 86_400;
/// Prefix of the value of the form cookie.
const FORM_COOKIE: &str = "stf_";
/// Page for a person without a return path.
pub(crate) const HOME: &str = "/";
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

/// Page with a message.
pub(super) fn message(status: StatusCode, title: &str, body: &Markup) -> Response {
    let content = Content {
        title: title.to_owned(),
        body: body.clone(),
        leads_to: None,
    };
    page(status, &content)
}

/// Returns a parameter of a query unless it is repeated.
pub(super) fn parameter(query: &str, name: &str) -> Option<String> {
    let value = Parameters::of(query.as_bytes()).one(name);
    value.ok().flatten().map(Cow::into_owned)
}

/// Link that looks like a button and is the main action of a page.
pub(super) fn main_link(address: &str, label: &str) -> Markup {
    html! { a.btn.primary href=(address) { (label) } }
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
    network: Option<IpAddr>,
    agent: Option<String>,
    /// Query of the request.
    pub(super) query: String,
    form_cookie: Option<String>,
    /// Transport of the request.
    pub(super) transport: Transport,
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
                let cookie = app
                    .form_cookie
                    .set(value.expose(), FORM_COOKIE_SECONDS, self.transport);
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
        parameter(&self.query, name)
    }

    /// Network of the browser, as attempts are counted for it.
    pub(super) fn network(&self) -> String {
        self.network
            .map_or_else(String::new, |network| network.to_string())
    }

    /// Opens the sealed return path of the query: a path with a query, on this origin. Without one a person continues at the
    /// start page.
    pub(super) fn way_back(&self, app: &OrgApp) -> String {
        self.parameter("return")
            .and_then(|sealed| app.accounts.open_text(RETURN_TO, &sealed))
            .and_then(|path| String::from_utf8(path).ok())
            .unwrap_or_else(|| HOME.to_owned())
    }
}

impl FromRequestParts<Arc<OrgApp>> for Visit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<OrgApp>) -> PageResult<Self> {
        let person = match parts.extensions.get::<Credential>() {
            Some(Credential::Person(person)) => Some(*person),
            Some(Credential::Unchecked(failure)) => return Err(failure.clone().into()),
            Some(
                Credential::Principal(_)
                | Credential::RunToken(..)
                | Credential::Operator
                | Credential::Missing
                | Credential::Invalid,
            )
            | None => None,
        };
        let by = person.map(|person| By::Session(person.session));
        let actor = actor(parts, by, person.map(|person| person.user));
        let agent = parts.headers.get(USER_AGENT);
        // This server did not set a cookie with any other form of value.
        let transport = transport_of(&parts.extensions);
        let form_cookie = app.form_cookie.token(&parts.headers, transport);
        let form_cookie = form_cookie.filter(|value| Secret::parse(FORM_COOKIE, value).is_ok());
        Ok(Self {
            person,
            network: actor.address.map(network),
            agent: agent.and_then(|agent| agent.to_str().ok()).map(str::to_owned),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            form_cookie: form_cookie.map(str::to_owned),
            transport,
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
        let is_own = app
            .browsers
            .is_own(&parts.headers, transport_of(&parts.extensions));
        if !is_own || !is_form(&parts.headers) {
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
