//! Organization API of a hosted deployment: people, organizations, and what they manage. Its operations act for a person who is
//! signed in, and for the operator.

mod app;
mod door;
mod status;
mod who;

use std::sync::Arc;

use axum::Router;
use sortie_api::Mode;

use crate::table::{finished, operations};

pub(crate) use app::OrgApp;
pub(crate) use door::OrganizationDoor;
pub(crate) use who::{Operator, OrgAdmin, OrgMember, OrgOwner, Person};

operations! {
    Organization, OrgApp:
    Public status::get_org_health;
    Public status::get_org_readiness;
    Public status::get_org_description;
}

/// Makes the router: every route, and JSON answers for unknown routes and wrong methods.
pub(crate) fn router(app: Arc<OrgApp>) -> Router {
    finished(table(Mode::Hosted), app)
}
