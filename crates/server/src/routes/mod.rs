//! List of the operations of the engine API. The router, the description document and the access table are generated from it.

use std::sync::Arc;

use axum::{Router, routing::post};
use sortie_accounts::MCP_PATH;

use crate::{
    app::App,
    mcp,
    table::{finished, operations},
};

mod artifacts;
mod audit;
mod budgets;
mod checks;
mod connections;
mod connections_oauth;
mod console;
mod deliveries;
mod event_encoder;
mod event_stream;
mod events;
mod files;
mod fires;
mod installation;
mod keys;
mod license;
mod listing;
mod master_key;
mod models;
mod nodes;
mod operations;
mod organization;
mod person_sessions;
mod resource_metadata;
mod run_feed;
mod run_filter;
mod run_tokens;
mod runs;
mod schedules;
mod ui_messages;
mod usage;
pub(crate) mod workflows;

pub(crate) use checks::WantedChecks;
pub(crate) use console::{SIGN_IN, console_info, signed_out, with_console};
pub(crate) use event_stream::{event_stream, names};
pub(crate) use keys::keys_of;
pub(crate) use master_key::{SealedFrom, example_of_keys, example_of_missing_key, example_of_reseal};
pub(crate) use operations::{Health, OK, Readiness};
pub(crate) use resource_metadata::ResourceMetadata;
pub(crate) use run_filter::{METADATA, parts};

/// Liveness: answers 200 while the process serves requests.
pub(crate) const HEALTHZ: &str = "/healthz";
/// Readiness: answers 200 while the node accepts runs.
pub(crate) const READYZ: &str = "/readyz";

operations! {
    Engine, App:
    Member organization::get_me;
    Member runs::create_run;
    Member runs::list_runs;
    RunReader runs::get_run;
    RunCanceller runs::cancel_run;
    Member runs::cancel_runs;
    RunReader events::follow_run;
    RunReader ui_messages::follow_ui_messages;
    Member run_tokens::create_run_token;
    Member runs::get_run_definition;
    Member workflows::list_workflows;
    Member workflows::get_workflow;
    Member workflows::put_workflow;
    Member workflows::delete_workflow;
    Member deliveries::list_all_deliveries;
    Member deliveries::list_deliveries;
    Member deliveries::redeliver_run;
    RunReader artifacts::list_run_artifacts;
    RunReader artifacts::get_run_artifact;
    Member files::create_file;
    Member files::list_files;
    Member files::get_file;
    Member files::rename_file;
    Member files::delete_file;
    Member files::get_file_content;
    Member schedules::list_schedules;
    Member schedules::create_schedule;
    Member schedules::get_schedule;
    Member schedules::update_schedule;
    Member schedules::delete_schedule;
    Member schedules::trigger_schedule;
    Member fires::list_all_fires;
    Member fires::list_fires;
    Member fires::preview_schedule;
    Member connections::list_connections;
    Member connections::get_connection;
    Admin connections::put_connection;
    Admin connections::delete_connection;
    Admin connections::test_connection;
    Admin connections::authorize_connection;
    Admin connections::confirm_authorization;
    Member connections::list_known_services;
    Public connections_oauth::finish_authorization;
    Public connections_oauth::finish_own_authorization;
    Public connections_oauth::get_own_client_metadata;
    Member budgets::list_budgets;
    Member budgets::get_budget;
    Admin budgets::put_budget;
    Admin budgets::delete_budget;
    Member usage::get_member_usage;
    Public models::list_models;
    Public console::get_console, self_hosted "the console is on the address of the organization API";
    Public console::begin_console_session, self_hosted "people sign in at the address of the organization API";
    Member console::get_console_session, self_hosted "people sign in at the address of the organization API";
    Member console::end_console_session, self_hosted "people sign in at the address of the organization API";
    Member console::create_console_code, self_hosted "people sign in at the address of the organization API";
    Admin keys::create_key, self_hosted "keys are managed in the organization API";
    Admin keys::list_keys, self_hosted "keys are managed in the organization API";
    Admin keys::delete_key, self_hosted "keys are managed in the organization API";
    Admin keys::rotate_key, self_hosted "keys are managed in the organization API";
    Admin person_sessions::list_person_sessions, self_hosted "people end their sessions in the organization API";
    Admin person_sessions::end_person_session, self_hosted "people end their sessions in the organization API";
    Admin audit::list_audit;
    Admin usage::get_usage;
    Admin license::get_license, self_hosted "licenses are managed in the organization API";
    Admin license::put_license, self_hosted "licenses are managed in the organization API";
    Admin license::delete_license, self_hosted "licenses are managed in the organization API";
    Admin nodes::list_nodes, self_hosted "nodes are the operator's";
    Admin checks::get_checks, self_hosted "nodes are the operator's";
    Admin master_key::get_master_keys, self_hosted "master keys are the operator's";
    Admin master_key::reseal, self_hosted "master keys are the operator's";
    Public operations::get_health;
    Public operations::get_readiness;
    Public operations::get_metrics;
    Public operations::get_description;
    Public resource_metadata::get_resource_metadata;
    Public resource_metadata::get_resource_metadata_of_path;
}

/// Makes the router: every route, and JSON answers for unknown routes and wrong methods. The MCP server describes itself to its
/// clients, so it is not in the document.
pub(crate) fn router(app: Arc<App>, start: Option<String>) -> Router {
    let table = table(app.engine.mode()).route(MCP_PATH, post(mcp::answer).get(mcp::listen));
    finished(table, app, start)
}
