//! Every route, once: the router and the description document are made from the same list.

use std::sync::Arc;

use axum::{Router, middleware};
use http::{Method, Uri};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{app::App, kit::ApiError, metrics::tell_route};

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

/// Liveness: answers while the process serves.
pub(crate) const HEALTHZ: &str = "/healthz";
/// Readiness: answers 200 while the node takes runs.
pub(crate) const READYZ: &str = "/readyz";

/// The routes with their descriptions.
pub(crate) fn table() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default()
        .routes(routes!(organization::get_me))
        .routes(routes!(runs::create_run, runs::list_runs))
        .routes(routes!(runs::get_run))
        .routes(routes!(runs::cancel_run))
        .routes(routes!(events::follow_run))
        .routes(routes!(runs::get_run_definition))
        .routes(routes!(workflows::list_workflows))
        .routes(routes!(
            workflows::get_workflow,
            workflows::put_workflow,
            workflows::delete_workflow
        ))
        .routes(routes!(deliveries::list_deliveries, deliveries::redeliver_run))
        .routes(routes!(artifacts::list_run_artifacts))
        .routes(routes!(artifacts::get_run_artifact))
        .routes(routes!(files::create_file, files::list_files))
        .routes(routes!(files::get_file, files::rename_file, files::delete_file))
        .routes(routes!(files::get_file_content))
        .routes(routes!(schedules::list_schedules, schedules::create_schedule))
        .routes(routes!(
            schedules::get_schedule,
            schedules::update_schedule,
            schedules::delete_schedule
        ))
        .routes(routes!(schedules::trigger_schedule))
        .routes(routes!(fires::list_fires))
        .routes(routes!(fires::preview_schedule))
        .routes(routes!(connections::list_connections))
        .routes(routes!(
            connections::get_connection,
            connections::put_connection,
            connections::delete_connection
        ))
        .routes(routes!(connections::test_connection))
        .routes(routes!(connections::authorize_connection))
        .routes(routes!(connections::confirm_authorization))
        .routes(routes!(connections::list_known_services))
        .routes(routes!(connections_oauth::finish_authorization))
        .routes(routes!(connections_oauth::finish_own_authorization))
        .routes(routes!(connections_oauth::get_client_metadata))
        .routes(routes!(connections_oauth::get_own_client_metadata))
        .routes(routes!(budgets::list_budgets))
        .routes(routes!(
            budgets::get_budget,
            budgets::put_budget,
            budgets::delete_budget
        ))
        .routes(routes!(models::list_models))
        .routes(routes!(keys::create_key, keys::list_keys))
        .routes(routes!(keys::delete_key))
        .routes(routes!(keys::rotate_key))
        .routes(routes!(audit::list_audit))
        .routes(routes!(usage::get_usage))
        .routes(routes!(license::get_license))
        .routes(routes!(nodes::list_nodes))
        .routes(routes!(checks::get_checks))
        .routes(routes!(master_key::get_master_keys))
        .routes(routes!(master_key::reseal))
        .routes(routes!(operations::get_health))
        .routes(routes!(operations::get_readiness))
        .routes(routes!(operations::get_metrics))
        .routes(routes!(operations::get_description))
}

/// The router: every route, and JSON answers for unknown routes and wrong methods.
pub(crate) fn router(app: Arc<App>) -> Router {
    let (router, _document) = table().split_for_parts();
    router
        .route_layer(middleware::from_fn(tell_route))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
}

async fn unknown_route(method: Method, uri: Uri) -> ApiError {
    // The path may be as long as a header may be.
    let path: String = uri.path().chars().take(100).collect();
    ApiError::not_found(format!("no such route: {method} {path}"))
}

async fn wrong_method() -> ApiError {
    ApiError::method_not_allowed()
}
