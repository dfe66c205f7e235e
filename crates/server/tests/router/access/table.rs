//! Calls of the operations for the test of access: each operation has one call.

/// Answer to an admin of another organization.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    /// The resource does not exist.
    NotFound,
    /// The answer has only resources of that organization.
    ItsOwn,
}

/// Call of an operation.
pub(super) struct Call {
    /// Name of the operation.
    pub(super) operation: &'static str,
    pub(super) method: &'static str,
    /// Path with placeholders for the resources of the test.
    pub(super) path: &'static str,
    /// JSON body; empty for none.
    pub(super) body: &'static str,
    /// Answer to an admin of another organization.
    pub(super) foreign: Foreign,
    /// Status for a caller who has the role, where it is not a success.
    pub(super) refused: Option<u16>,
}

const fn call(
    operation: &'static str,
    (method, path): (&'static str, &'static str),
    body: &'static str,
    foreign: Foreign,
) -> Call {
    Call {
        operation,
        method,
        path,
        body,
        foreign,
        refused: None,
    }
}

/// Call that is refused for a reason other than the caller.
const fn refused(
    operation: &'static str,
    route: (&'static str, &'static str),
    body: &'static str,
    status: u16,
) -> Call {
    Call {
        refused: Some(status),
        ..call(operation, route, body, Foreign::ItsOwn)
    }
}

/// Calls of all operations, in an order in which each finds its resources.
pub(super) const CALLS: &[Call] = &[
    call("list_models", ("GET", "/v1/models"), "", Foreign::ItsOwn),
    call("get_health", ("GET", "/healthz"), "", Foreign::ItsOwn),
    call("get_readiness", ("GET", "/readyz"), "", Foreign::ItsOwn),
    call("get_metrics", ("GET", "/metrics"), "", Foreign::ItsOwn),
    call("get_description", ("GET", "/openapi.json"), "", Foreign::ItsOwn),
    refused(
        "get_resource_metadata",
        ("GET", "/.well-known/oauth-protected-resource"),
        "",
        404,
    ),
    refused(
        "get_resource_metadata_of_path",
        ("GET", "/.well-known/oauth-protected-resource/engine"),
        "",
        404,
    ),
    refused("finish_authorization", ("GET", "/v1/oauth/callback"), "", 400),
    refused(
        "finish_own_authorization",
        ("GET", "/v1/oauth/callback/0"),
        "",
        400,
    ),
    refused(
        "get_own_client_metadata",
        ("GET", "/v1/oauth/client-metadata/0"),
        "",
        404,
    ),
    call("get_me", ("GET", "/v1/me"), "", Foreign::ItsOwn),
    call(
        "create_run",
        ("POST", "/v1/runs"),
        r#"{"prompt":"x","shell":false}"#,
        Foreign::ItsOwn,
    ),
    call("list_runs", ("GET", "/v1/runs"), "", Foreign::ItsOwn),
    call("get_run", ("GET", "/v1/runs/{run}"), "", Foreign::NotFound),
    call(
        "cancel_run",
        ("POST", "/v1/runs/{run}/cancel"),
        "",
        Foreign::NotFound,
    ),
    call(
        "follow_run",
        ("GET", "/v1/runs/{run}/events"),
        "",
        Foreign::NotFound,
    ),
    call(
        "get_run_definition",
        ("GET", "/v1/runs/{run}/definition"),
        "",
        Foreign::NotFound,
    ),
    call("list_workflows", ("GET", "/v1/workflows"), "", Foreign::ItsOwn),
    // The body is a form; see `Resources::call`.
    call("create_file", ("POST", "/v1/files"), "", Foreign::ItsOwn),
    call("list_files", ("GET", "/v1/files"), "", Foreign::ItsOwn),
    call(
        "get_workflow",
        ("GET", "/v1/workflows/ours"),
        "",
        Foreign::NotFound,
    ),
    call("get_file", ("GET", "/v1/files/ours.txt"), "", Foreign::NotFound),
    call(
        "list_deliveries",
        ("GET", "/v1/runs/{run}/deliveries"),
        "",
        Foreign::NotFound,
    ),
    call(
        "get_file_content",
        ("GET", "/v1/files/ours.txt/content"),
        "",
        Foreign::NotFound,
    ),
    call(
        "put_workflow",
        ("PUT", "/v1/workflows/theirs"),
        r#"{"prompt":"x"}"#,
        Foreign::ItsOwn,
    ),
    call(
        "delete_workflow",
        ("DELETE", "/v1/workflows/ours"),
        "",
        Foreign::NotFound,
    ),
    call(
        "redeliver_run",
        ("POST", "/v1/runs/{run}/deliveries"),
        "",
        Foreign::NotFound,
    ),
    call("list_schedules", ("GET", "/v1/schedules"), "", Foreign::ItsOwn),
    call(
        "create_schedule",
        ("POST", "/v1/schedules"),
        r#"{"workflow":"timed","cron":"@daily"}"#,
        Foreign::ItsOwn,
    ),
    call(
        "get_schedule",
        ("GET", "/v1/schedules/{schedule}"),
        "",
        Foreign::NotFound,
    ),
    call(
        "rename_file",
        ("PATCH", "/v1/files/ours.txt"),
        r#"{"name":"ours.txt"}"#,
        Foreign::NotFound,
    ),
    call(
        "update_schedule",
        ("PATCH", "/v1/schedules/{schedule}"),
        r#"{"name":"x"}"#,
        Foreign::NotFound,
    ),
    call(
        "delete_file",
        ("DELETE", "/v1/files/ours.txt"),
        "",
        Foreign::NotFound,
    ),
    call(
        "trigger_schedule",
        ("POST", "/v1/schedules/{schedule}/trigger"),
        "",
        Foreign::NotFound,
    ),
    call(
        "list_fires",
        ("GET", "/v1/schedules/{schedule}/fires"),
        "",
        Foreign::NotFound,
    ),
    call(
        "list_run_artifacts",
        ("GET", "/v1/runs/{left}/artifacts"),
        "",
        Foreign::NotFound,
    ),
    call(
        "preview_schedule",
        ("GET", "/v1/schedules/{schedule}/next"),
        "",
        Foreign::NotFound,
    ),
    call(
        "delete_schedule",
        ("DELETE", "/v1/schedules/{schedule}"),
        "",
        Foreign::NotFound,
    ),
    call(
        "get_run_artifact",
        ("GET", "/v1/runs/{left}/artifacts/a/b.txt"),
        "",
        Foreign::NotFound,
    ),
    call(
        "list_connections",
        ("GET", "/v1/connections"),
        "",
        Foreign::ItsOwn,
    ),
    call(
        "get_connection",
        ("GET", "/v1/connections/ours"),
        "",
        Foreign::NotFound,
    ),
    call(
        "put_connection",
        ("PUT", "/v1/connections/theirs"),
        r#"{"type":"http","url":"https://example.com"}"#,
        Foreign::ItsOwn,
    ),
    call(
        "test_connection",
        ("POST", "/v1/connections/ours/test"),
        "",
        Foreign::NotFound,
    ),
    call(
        "authorize_connection",
        ("POST", "/v1/connections/ours/oauth"),
        "",
        Foreign::NotFound,
    ),
    // The code is on a page that only a person sees.
    Call {
        foreign: Foreign::NotFound,
        ..refused(
            "confirm_authorization",
            ("POST", "/v1/connections/ours/oauth/confirm"),
            r#"{"code":"BCDF-GHJK"}"#,
            409,
        )
    },
    call(
        "delete_connection",
        ("DELETE", "/v1/connections/ours"),
        "",
        Foreign::NotFound,
    ),
    call(
        "list_known_services",
        ("GET", "/v1/connections/catalog"),
        "",
        Foreign::ItsOwn,
    ),
    call("list_budgets", ("GET", "/v1/budgets"), "", Foreign::ItsOwn),
    call(
        "get_budget",
        ("GET", "/v1/budgets/workflow:ours"),
        "",
        Foreign::NotFound,
    ),
    call(
        "put_budget",
        ("PUT", "/v1/budgets/workflow:theirs"),
        r#"{"limit_micros":1,"period":"day"}"#,
        Foreign::ItsOwn,
    ),
    call(
        "delete_budget",
        ("DELETE", "/v1/budgets/workflow:ours"),
        "",
        Foreign::NotFound,
    ),
    call(
        "create_key",
        ("POST", "/v1/admin/keys"),
        r#"{"name":"x"}"#,
        Foreign::ItsOwn,
    ),
    call("list_keys", ("GET", "/v1/admin/keys"), "", Foreign::ItsOwn),
    call(
        "rotate_key",
        ("POST", "/v1/admin/keys/{key}/rotate"),
        "{}",
        Foreign::NotFound,
    ),
    call("list_audit", ("GET", "/v1/admin/audit"), "", Foreign::ItsOwn),
    call(
        "list_person_sessions",
        ("GET", "/v1/admin/sessions"),
        "",
        Foreign::ItsOwn,
    ),
    refused(
        "end_person_session",
        ("DELETE", "/v1/admin/sessions/sess_01kafs6w1cefkstv6qr1ptb0mp"),
        "",
        404,
    ),
    call(
        "get_usage",
        ("GET", "/v1/admin/usage?by=key"),
        "",
        Foreign::ItsOwn,
    ),
    call("get_license", ("GET", "/v1/admin/license"), "", Foreign::ItsOwn),
    // The database of the test has two organizations: these are the operator's.
    refused(
        "put_license",
        ("PUT", "/v1/admin/license"),
        r#"{"token":"guess"}"#,
        403,
    ),
    refused("delete_license", ("DELETE", "/v1/admin/license"), "", 403),
    refused("list_nodes", ("GET", "/v1/admin/nodes"), "", 403),
    refused("get_checks", ("GET", "/v1/admin/checks"), "", 403),
    refused("get_master_keys", ("GET", "/v1/admin/master-key"), "", 403),
    refused("reseal", ("POST", "/v1/admin/master-key/reseal"), "", 403),
    call(
        "delete_key",
        ("DELETE", "/v1/admin/keys/{key}"),
        "",
        Foreign::NotFound,
    ),
];
