//! Pages of the organization API, rendered by the server: sign in, decide about an application, sign out. They work without
//! script.
//!
//! Every answer has the headers of [`layout`], errors included. A form is accepted from a page of this origin only, and only
//! with a token that was made for this browser ([`forms`]). A way back through a sign-in is sealed, so that no link can send a
//! person elsewhere.

mod assets;
mod checkout;
mod connection;
mod consent;
mod destination;
mod errors;
mod forms;
mod home;
mod invitation;
mod layout;
mod oidc;
mod organization;
mod passwords;
mod sign_in;
mod verification;

use std::sync::Arc;

use axum::{Router, routing};

pub(crate) use assets::router as asset_routes;
pub(crate) use connection::{confirmation, failure as authorization_failure};
pub(crate) use errors::{internal_error, is_html, not_found, rate_limited, wants_page};
pub(crate) use forms::HOME;

use crate::org::OrgApp;

/// Page, as the test of all pages calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Method of the request.
    pub method: &'static str,
    /// Path of the page.
    pub path: &'static str,
}

/// Makes the list of pages and the router from one list.
macro_rules! pages {
    ($(#[$doc:meta])+ $list:ident, $router:ident: $($method:ident $path:literal $module:ident::$handler:ident;)+) => {
        $(#[$doc])+
        pub(crate) const $list: &[Page] = &[$(Page {
            method: stringify!($method),
            path: $path,
        }),+];

        /// Routes of the pages.
        pub(crate) fn $router() -> Router<Arc<OrgApp>> {
            Router::new()
                $(.route($path, routing::$method($module::$handler)))+
        }
    };
}

/// Returns true for the paths of pages, which no operation of the engine has.
pub(crate) fn is_page(path: &str) -> bool {
    matches!(path, "/" | "/sign-in" | "/sign-out")
        || path.starts_with("/sign-in/")
        || path.starts_with("/pages/")
}

pages! {
    /// Pages of a self-hosted engine with identity providers.
    ENGINE_PAGES, engine_router:
    get "/" home::show;
    get "/sign-in" sign_in::show;
    get "/sign-in/oidc/{name}" oidc::start;
    get "/sign-in/oidc/{name}/callback" oidc::callback;
    post "/sign-in/code" oidc::code;
    post "/sign-out" home::sign_out;
}

pages! {
    /// Pages of the organization API.
    PAGES, router:
    get "/" home::show;
    get "/sign-in" sign_in::show;
    post "/sign-in" sign_in::sign_in;
    get "/sign-in/oidc/{name}" oidc::start;
    get "/sign-in/oidc/{name}/callback" oidc::callback;
    post "/sign-in/code" oidc::code;
    get "/sign-up" sign_in::show_sign_up;
    post "/sign-up" sign_in::sign_up;
    get "/verify-email" verification::show;
    post "/verify-email" verification::verify;
    post "/verify-email/send" verification::resend;
    get "/forgot-password" passwords::show_forgot;
    post "/forgot-password" passwords::forgot;
    get "/reset-password" passwords::show_reset;
    post "/reset-password" passwords::reset;
    get "/invitations/accept" invitation::show;
    post "/invitations/accept" invitation::accept;
    post "/organizations/new" organization::create;
    post "/sign-out" home::sign_out;
    get "/billing/paid" checkout::paid;
    get "/billing/cancelled" checkout::cancelled;
    get "/billing/subscribed" checkout::subscribed;
    get "/oauth/authorize" consent::show;
    post "/oauth/authorize" consent::decide;
}
