//! Lists of operations: one list of an API makes its access table, its router and its description.

use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
};
use http::{Method, Uri};
use sortie_api::Mode;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::{access::Modes, kit::ApiError, metrics::note_route};

/// Makes the access table and the routes from a list of operations: the API and the state of its handlers, then the role
/// and the handler of each operation.
macro_rules! operations {
    ($api:ident, $state:ident: $($role:ident $module:ident::$handler:ident $(, self_hosted $elsewhere:literal)?;)+) => {
        /// Access to each operation.
        pub(crate) const ACCESS: &[$crate::access::Access] = &[$($crate::access::Access {
            operation: stringify!($handler),
            api: $crate::access::Api::$api,
            role: $crate::access::RequiredRole::$role,
            modes: $crate::table::operations!(@modes $($elsewhere)?),
        }),+];

        /// Routes with their descriptions, for a deployment of this mode.
        pub(crate) fn table(
            mode: sortie_api::Mode,
        ) -> utoipa_axum::router::OpenApiRouter<std::sync::Arc<$state>> {
            utoipa_axum::router::OpenApiRouter::default()
                $(.routes($crate::table::in_mode(
                    mode,
                    $crate::table::operations!(@modes $($elsewhere)?),
                    utoipa_axum::routes!($module::$handler),
                )))+
        }
    };
    (@modes) => { $crate::access::Modes::All };
    (@modes $elsewhere:literal) => { $crate::access::Modes::SelfHosted($elsewhere) };
}

pub(crate) use operations;

/// Replaces the handler of an operation that a deployment of this mode lacks with an answer 404.
pub(crate) fn in_mode<S: Clone + Send + Sync + 'static>(
    mode: Mode,
    modes: Modes,
    route: UtoipaMethodRouter<S>,
) -> UtoipaMethodRouter<S> {
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

/// Makes the router of a list: every route, and JSON answers for unknown routes and wrong methods.
pub(crate) fn finished<S: Clone + Send + Sync + 'static>(table: OpenApiRouter<S>, state: S) -> Router {
    let (router, _document) = table.split_for_parts();
    router
        .route_layer(middleware::from_fn(note_route))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(state)
}

async fn unknown_route(method: Method, uri: Uri) -> ApiError {
    // The answer has only the beginning of a path, which a client can make very long.
    let path: String = uri.path().chars().take(100).collect();
    ApiError::not_found(format!("no such route: {method} {path}"))
}

async fn wrong_method() -> ApiError {
    ApiError::method_not_allowed()
}
