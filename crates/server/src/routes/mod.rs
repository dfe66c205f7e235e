//! List of all operations. The router, the description document and the access table are made from it.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
};
use http::{Method, Uri};
use sortie_api::Mode;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouter},
    routes,
};

use crate::{
    access::{Access, Api, Modes, RequiredRole},
    app::App,
    kit::ApiError,
    metrics::tell_route,
};

mod artifacts;
mod audit;
mod budgets;
mod checks;
mod connections;
mod connections_oauth;
mod cursor;
mod deliveries;
mod event_encoder;
mod event_stream;
mod events;
mod files;
mod fires;
mod keys;
mod license;
mod listing;
mod master_key;
mod models;
mod nodes;
mod operations;
mod organization;
mod runs;
mod schedules;
mod usage;
pub(crate) mod workflows;

/// Liveness: answers 200 while the process serves requests.
pub(crate) const HEALTHZ: &str = "/healthz";
/// Readiness: answers 200 while the node accepts runs.
pub(crate) const READYZ: &str = "/readyz";

/// Makes the access table and the routes from a list of operations.
macro_rules! operations {
    ($api:ident: $($role:ident $module:ident::$handler:ident $(, self_hosted $elsewhere:literal)?;)+) => {
        /// Access to each operation.
        pub(crate) const ACCESS: &[Access] = &[$(Access {
            operation: stringify!($handler),
            api: Api::$api,
            role: RequiredRole::$role,
            modes: operations!(@modes $($elsewhere)?),
        }),+];

        /// Routes with their descriptions, for a deployment of this mode.
        pub(crate) fn table(mode: Mode) -> OpenApiRouter<Arc<App>> {
            OpenApiRouter::default()
                $(.routes(in_mode(mode, operations!(@modes $($elsewhere)?), routes!($module::$handler))))+
        }
    };
    (@modes) => { Modes::All };
    (@modes $elsewhere:literal) => { Modes::SelfHosted($elsewhere) };
}

operations! {
    Engine:
    Member organization::get_me;
    Member runs::create_run;
    Member runs::list_runs;
    Member runs::get_run;
    Member runs::cancel_run;
    Member events::follow_run;
    Member runs::get_run_definition;
    Member workflows::list_workflows;
    Member workflows::get_workflow;
    Member workflows::put_workflow;
    Member workflows::delete_workflow;
    Member deliveries::list_deliveries;
    Member deliveries::redeliver_run;
    Member artifacts::list_run_artifacts;
    Member artifacts::get_run_artifact;
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
    Public connections_oauth::get_client_metadata;
    Public connections_oauth::get_own_client_metadata;
    Member budgets::list_budgets;
    Member budgets::get_budget;
    Admin budgets::put_budget;
    Admin budgets::delete_budget;
    Public models::list_models;
    Admin keys::create_key, self_hosted "keys are managed in the organization API";
    Admin keys::list_keys, self_hosted "keys are managed in the organization API";
    Admin keys::delete_key, self_hosted "keys are managed in the organization API";
    Admin keys::rotate_key, self_hosted "keys are managed in the organization API";
    Admin audit::list_audit;
    Admin usage::get_usage;
    Admin license::get_license, self_hosted "licenses are managed in the organization API";
    Admin nodes::list_nodes, self_hosted "nodes are the operator's";
    Admin checks::get_checks, self_hosted "nodes are the operator's";
    Admin master_key::get_master_keys, self_hosted "master keys are the operator's";
    Admin master_key::reseal, self_hosted "master keys are the operator's";
    Public operations::get_health;
    Public operations::get_readiness;
    Public operations::get_metrics;
    Public operations::get_description;
}

/// Replaces the handler of an operation that a deployment of this mode lacks with an answer 404.
fn in_mode(mode: Mode, modes: Modes, route: UtoipaMethodRouter<Arc<App>>) -> UtoipaMethodRouter<Arc<App>> {
    match (mode, modes) {
        (Mode::SelfHosted, _) | (Mode::Hosted, Modes::All) => route,
        (Mode::Hosted, Modes::SelfHosted(elsewhere)) => {
            let (schemas, paths, handler) = route;
            let absent = middleware::from_fn(move |_request: Request, _next: Next| {
                std::future::ready(ApiError::not_found(elsewhere))
            });
            (schemas, paths, handler.route_layer(absent))
        }
    }
}

/// Makes the router: every route, and JSON answers for unknown routes and wrong methods.
pub(crate) fn router(app: Arc<App>) -> Router {
    let (router, _document) = table(app.engine.mode()).split_for_parts();
    router
        .route_layer(middleware::from_fn(tell_route))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
}

async fn unknown_route(method: Method, uri: Uri) -> ApiError {
    // The answer has only the beginning of a path, which a client can make very long.
    let path: String = uri.path().chars().take(100).collect();
    ApiError::not_found(format!("no such route: {method} {path}"))
}

async fn wrong_method() -> ApiError {
    ApiError::method_not_allowed()
}
