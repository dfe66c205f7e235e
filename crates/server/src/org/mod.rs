//! Organization API of a hosted deployment: people, organizations and their resources. Callers are signed-in people and
//! the operator.

mod app;
mod auth;
mod auto_topup;
mod avatar;
mod billing;
mod console;
mod door;
mod engine_door;
mod identities;
mod installation;
mod invitations;
mod keys;
mod licenses;
mod members;
mod operator;
mod operator_credits;
mod organizations;
mod payments;
mod profile;
mod second_factor;
mod sessions;
mod status;
mod webhooks;
mod who;

use std::sync::Arc;

use axum::Router;
use sortie_api::Mode;

use crate::{
    oauth::{endpoints, grants},
    pages,
    table::{finished, operations},
};

pub(crate) use app::OrgApp;
pub(crate) use door::OrganizationDoor;
pub(crate) use engine_door::{EngineDoor, SignInDoor};
pub(crate) use webhooks::STRIPE_WEBHOOK;
pub(crate) use who::{Operator, Person, VerifiedPerson};

operations! {
    Organization, OrgApp:
    Public status::get_org_health;
    Public status::get_org_readiness;
    Public status::get_org_description;
    Public endpoints::get_authorization_server;
    Public endpoints::register_oauth_client;
    Public endpoints::issue_oauth_tokens;
    Public endpoints::revoke_oauth_token;
    Signature webhooks::receive_stripe_event;
    Public auth::sign_up;
    Public auth::log_in;
    SignedIn auth::log_out;
    Public auth::verify_email;
    SignedIn auth::resend_verification;
    Public auth::forgot_password;
    Public auth::reset_password;
    Public console::get_org_console;
    SignedIn console::get_org_console_session;
    SignedIn console::end_org_console_session;
    SignedIn profile::get_user;
    SignedIn profile::update_user;
    SignedIn profile::delete_user;
    SignedIn profile::export_user;
    SignedIn profile::change_password;
    SignedIn avatar::put_avatar;
    SignedIn avatar::delete_avatar;
    SignedIn avatar::get_avatar;
    SignedIn sessions::list_sessions;
    SignedIn sessions::end_session;
    SignedIn identities::list_identities;
    SignedIn identities::unlink_identity;
    SignedIn second_factor::enrol_second_factor;
    SignedIn second_factor::confirm_second_factor;
    SignedIn second_factor::remove_second_factor;
    SignedIn grants::list_grants;
    SignedIn grants::end_grant;
    SignedIn organizations::list_organizations;
    SignedIn organizations::create_organization;
    Admin organizations::rename_organization;
    Owner organizations::delete_organization;
    Admin members::list_members;
    Admin members::change_member_role;
    Admin members::remove_member;
    Member members::leave_organization, while_suspended true;
    Owner members::transfer_ownership;
    Admin invitations::list_invitations;
    Admin invitations::create_invitation;
    Admin invitations::withdraw_invitation;
    SignedIn invitations::accept_invitation;
    Admin keys::list_organization_keys;
    Admin keys::create_organization_key;
    Admin keys::rotate_organization_key;
    Admin keys::delete_organization_key;
    Admin billing::get_balance;
    Admin billing::get_billing;
    Admin billing::list_ledger;
    Admin payments::create_checkout, while_suspended true;
    Admin payments::create_portal, while_suspended true;
    Admin auto_topup::put_auto_topup, while_suspended true;
    Admin payments::list_payments;
    Admin payments::get_receipt;
    Admin licenses::get_organization_license;
    Admin licenses::create_license_checkout, while_suspended true;
    Admin licenses::list_deployments;
    Admin licenses::create_deployment;
    Admin licenses::delete_deployment;
    Operator operator::list_operated_organizations;
    Operator operator::get_operated_organization;
    Operator operator::suspend_organization;
    Operator operator::resume_organization;
    Operator operator_credits::get_operated_credits;
    Operator operator_credits::move_credits;
    Operator operator_credits::check_ledger;
    Operator payments::refund_payment;
    Operator operator::list_users;
    Operator operator::create_user;
    Operator operator::disable_user;
    Operator operator::enable_user;
    Operator operator::unlink_user;
    Operator operator::create_reset_link;
    Operator licenses::grant_license;
    Operator licenses::get_license_key;
    Operator installation::list_operated_nodes;
    Operator installation::get_operated_checks;
    Operator installation::get_operated_master_keys;
    Operator installation::reseal_everything;
}

/// Makes the router of the pages of a self-hosted engine, where people sign in.
pub(crate) fn pages_router(app: Arc<OrgApp>) -> Router {
    finished(pages::engine_router().into(), app, Some(pages::HOME.to_owned()))
}

/// Makes the router: every route, and JSON answers for unknown routes and wrong methods.
pub(crate) fn router(app: Arc<OrgApp>) -> Router {
    finished(
        table(Mode::Hosted).merge(pages::router().into()),
        app,
        Some(pages::HOME.to_owned()),
    )
}
