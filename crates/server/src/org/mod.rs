//! Organization API of a hosted deployment: people, organizations, and what they manage. Its operations act for a person who is
//! signed in, and for the operator.

mod app;
mod door;
mod status;
mod who;

use std::sync::Arc;

use axum::{Router, middleware};
use sortie_api::Mode;

use crate::{
    oauth::{cross_origin, endpoints, grants},
    pages,
    table::{finished, operations},
};

pub(crate) use app::OrgApp;
pub(crate) use door::OrganizationDoor;
pub(crate) use who::{Operator, OrgAdmin, OrgMember, OrgOwner, Person};

operations! {
    Organization, OrgApp:
    Public status::get_org_health;
    Public status::get_org_readiness;
    Public status::get_org_description;
    Public endpoints::get_authorization_server;
    Public endpoints::register_oauth_client;
    Public endpoints::issue_oauth_tokens;
    Public endpoints::revoke_oauth_token;
    SignedIn grants::list_grants;
    SignedIn grants::end_grant;
}

/// Makes the router: every route, and JSON answers for unknown routes and wrong methods.
pub(crate) fn router(app: Arc<OrgApp>) -> Router {
    finished(table(Mode::Hosted).merge(pages::router().into()), app).layer(middleware::from_fn(cross_origin))
}
