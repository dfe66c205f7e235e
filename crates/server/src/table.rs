//! Lists of operations: the access table, the router and the description of an API are generated from one list.

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::Request,
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, Method, Uri};
use sortie_api::{ErrorCode, Mode};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::{
    access::{Access, Modes},
    kit::{ApiError, method_not_allowed},
    metrics::note_route,
    pages,
};

/// Generates the access table and the routes from a list of operations: the API and the state of its handlers, then the role and
/// the handler of each operation. `self_hosted` has the message of a hosted engine, which lacks the operation. `while_suspended
/// true` marks a change that members of a suspended organization can make.
macro_rules! operations {
    ($api:ident, $state:ident: $(
        $role:ident $module:ident::$handler:ident
        $(, self_hosted $elsewhere:literal)? $(, while_suspended $allowed:literal)?;
    )+) => {
        /// Access to each operation.
        pub(crate) const ACCESS: &[$crate::access::Access] = &[$(
            $crate::table::operations!(@access $api $role $handler ($($elsewhere)?) ($($allowed)?))
        ),+];

        /// Routes with their descriptions, for a deployment of this mode.
        pub(crate) fn table(
            mode: sortie_api::Mode,
        ) -> utoipa_axum::router::OpenApiRouter<std::sync::Arc<$state>> {
            utoipa_axum::router::OpenApiRouter::default()
                $(.routes($crate::table::route(
                    mode,
                    $crate::table::operations!(@access $api $role $handler ($($elsewhere)?) ($($allowed)?)),
                    utoipa_axum::routes!($module::$handler),
                )))+
        }
    };
    (@access $api:ident $role:ident $handler:ident ($($elsewhere:literal)?) ($($allowed:literal)?)) => {
        $crate::access::Access {
            operation: stringify!($handler),
            api: $crate::access::Api::$api,
            role: $crate::access::RequiredRole::$role,
            modes: $crate::table::operations!(@modes $($elsewhere)?),
            while_suspended: $crate::table::operations!(@while_suspended $($allowed)?),
        }
    };
    (@modes) => { $crate::access::Modes::All };
    (@modes $elsewhere:literal) => { $crate::access::Modes::SelfHosted($elsewhere) };
    (@while_suspended) => { false };
    (@while_suspended $allowed:literal) => { $allowed };
}

pub(crate) use operations;

/// Marks requests of operations that members of a suspended organization can use.
#[derive(Clone, Copy)]
pub(crate) struct WhileSuspended;

/// Creates the route of an operation for a deployment of this mode. An operation that the mode lacks answers 404.
pub(crate) fn route<S: Clone + Send + Sync + 'static>(
    mode: Mode,
    access: Access,
    (schemas, paths, handler): UtoipaMethodRouter<S>,
) -> UtoipaMethodRouter<S> {
    let handler = match (mode, access.modes) {
        (Mode::Hosted, Modes::SelfHosted(elsewhere)) => {
            handler.route_layer(middleware::from_fn(move |_request: Request, _next: Next| {
                std::future::ready(ApiError::from(ErrorCode::NotFound.because(elsewhere)))
            }))
        }
        (Mode::SelfHosted, _) | (Mode::Hosted, Modes::All) if access.while_suspended => {
            handler.route_layer(Extension(WhileSuspended))
        }
        (Mode::SelfHosted, _) | (Mode::Hosted, Modes::All) => handler,
    };
    (schemas, paths, handler)
}

/// Creates the router of a list: every route, the files of the pages, and answers for unknown routes and wrong methods. `start`
/// is the address of the start page, to which the page for an unknown route leads. Without it browsers get JSON as well.
pub(crate) fn finished<S: Clone + Send + Sync + 'static>(
    table: OpenApiRouter<S>,
    state: S,
    start: Option<String>,
) -> Router {
    let start: Option<Arc<str>> = start.map(Arc::from);
    let (router, _document) = table.split_for_parts();
    router
        .merge(pages::asset_routes())
        .route_layer(middleware::from_fn(note_route))
        .fallback(move |method: Method, uri: Uri, headers: HeaderMap| {
            std::future::ready(unknown_route(&method, &uri, &headers, start.as_deref()))
        })
        .method_not_allowed_fallback(wrong_method)
        .with_state(state)
}

/// Answers a request to an unknown route: a browser gets a page, every other client JSON.
fn unknown_route(method: &Method, uri: &Uri, headers: &HeaderMap, start: Option<&str>) -> Response {
    if let Some(start) = start.filter(|_| pages::wants_page(headers)) {
        return pages::not_found(start);
    }
    // The answer contains only the beginning of a path, because a client can make it very long.
    let path: String = uri.path().chars().take(100).collect();
    let refusal = ErrorCode::NotFound.because(format!("no such route: {method} {path}"));
    ApiError::from(refusal).into_response()
}

async fn wrong_method() -> ApiError {
    method_not_allowed().into()
}
