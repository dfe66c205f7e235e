//! Calls of the operations for the test of access: each operation has one call.

/// Answer to an admin of another organization.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    /// The resource does not exist.
    NotFound,
    /// The answer contains only resources of that organization.
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
    /// Status for a caller with the role, unless it is a success.
    pub(super) refused: Option<u16>,
}

/// Parses calls: `operation: METHOD path body => status`. The body may be omitted. The status may be omitted for a call that
/// succeeds for a caller with the role. `NotFound` is the answer to an admin of another organization, who otherwise gets
/// resources of that organization.
macro_rules! calls {
    (@foreign NotFound) => { Foreign::NotFound };
    (@foreign) => { Foreign::ItsOwn };
    (@status $status:literal) => { Some($status) };
    (@status) => { None };
    ($($operation:ident: $method:ident $path:literal $($body:literal)? $($foreign:ident)? $(=> $status:literal)?;)*) => {
        &[$(Call {
            operation: stringify!($operation),
            method: stringify!($method),
            path: $path,
            body: concat!($($body)?),
            foreign: calls!(@foreign $($foreign)?),
            refused: calls!(@status $($status)?),
        }),*]
    };
}

/// Calls of all operations, in an order in which each finds its resources.
pub(super) const CALLS: &[Call] = calls! {
    list_models: GET "/v1/models";
    get_health: GET "/healthz";
    get_readiness: GET "/readyz";
    get_metrics: GET "/metrics";
    get_description: GET "/openapi.json";
    get_resource_metadata: GET "/.well-known/oauth-protected-resource" => 404;
    get_resource_metadata_of_path: GET "/.well-known/oauth-protected-resource/engine" => 404;
    finish_authorization: GET "/v1/oauth/callback" => 400;
    finish_own_authorization: GET "/v1/oauth/callback/0" => 400;
    get_own_client_metadata: GET "/v1/oauth/client-metadata/0" => 404;
    get_me: GET "/v1/me";
    get_console: GET "/v1/console";
    // It needs the headers of a page of the console.
    begin_console_session: POST "/v1/console/sessions" r#"{"key":"x"}"# => 403;
    // The callers have API keys and no session.
    get_console_session: GET "/v1/console/sessions/current" => 404;
    end_console_session: DELETE "/v1/console/sessions/current" => 404;
    create_console_code: POST "/v1/console/codes";
    create_run: POST "/v1/runs" r#"{"prompt":"x","shell":false}"#;
    list_runs: GET "/v1/runs";
    get_run: GET "/v1/runs/{run}" NotFound;
    cancel_run: POST "/v1/runs/{run}/cancel" NotFound;
    follow_run: GET "/v1/runs/{run}/events" NotFound;
    follow_ui_messages: GET "/v1/runs/{left}/ui-messages" NotFound;
    create_run_token: POST "/v1/runs/{run}/tokens" r#"{"ttl_seconds":60}"# NotFound;
    get_run_definition: GET "/v1/runs/{run}/definition" NotFound;
    list_workflows: GET "/v1/workflows";
    // The body is a form; see `Resources::call`.
    create_file: POST "/v1/files";
    list_files: GET "/v1/files";
    get_workflow: GET "/v1/workflows/ours" NotFound;
    get_file: GET "/v1/files/ours.txt" NotFound;
    list_all_deliveries: GET "/v1/deliveries";
    cancel_runs: POST "/v1/runs/cancel?tag=none&dry_run=true";
    list_deliveries: GET "/v1/runs/{run}/deliveries" NotFound;
    get_file_content: GET "/v1/files/ours.txt/content" NotFound;
    put_workflow: PUT "/v1/workflows/theirs" r#"{"prompt":"x"}"#;
    delete_workflow: DELETE "/v1/workflows/ours" NotFound;
    redeliver_run: POST "/v1/runs/{run}/deliveries" NotFound;
    list_schedules: GET "/v1/schedules";
    create_schedule: POST "/v1/schedules" r#"{"workflow":"timed","cron":"@daily"}"#;
    get_schedule: GET "/v1/schedules/{schedule}" NotFound;
    rename_file: PATCH "/v1/files/ours.txt" r#"{"name":"ours.txt"}"# NotFound;
    update_schedule: PATCH "/v1/schedules/{schedule}" r#"{"name":"x"}"# NotFound;
    delete_file: DELETE "/v1/files/ours.txt" NotFound;
    trigger_schedule: POST "/v1/schedules/{schedule}/trigger" NotFound;
    list_all_fires: GET "/v1/fires";
    list_fires: GET "/v1/schedules/{schedule}/fires" NotFound;
    list_run_artifacts: GET "/v1/runs/{left}/artifacts" NotFound;
    preview_schedule: GET "/v1/schedules/{schedule}/next" NotFound;
    delete_schedule: DELETE "/v1/schedules/{schedule}" NotFound;
    get_run_artifact: GET "/v1/runs/{left}/artifacts/a/b.txt" NotFound;
    list_connections: GET "/v1/connections";
    get_connection: GET "/v1/connections/ours" NotFound;
    put_connection: PUT "/v1/connections/theirs" r#"{"type":"http","url":"https://example.com"}"#;
    test_connection: POST "/v1/connections/ours/test" NotFound;
    authorize_connection: POST "/v1/connections/ours/oauth" NotFound;
    // The code is on a page for people.
    confirm_authorization: POST "/v1/connections/ours/oauth/confirm" r#"{"code":"BCDF-GHJK"}"# NotFound => 409;
    delete_connection: DELETE "/v1/connections/ours" NotFound;
    list_known_services: GET "/v1/connections/catalog";
    list_budgets: GET "/v1/budgets";
    get_budget: GET "/v1/budgets/workflow:ours" NotFound;
    put_budget: PUT "/v1/budgets/workflow:theirs" r#"{"limit_micros":1,"period":"day"}"#;
    delete_budget: DELETE "/v1/budgets/workflow:ours" NotFound;
    create_key: POST "/v1/admin/keys" r#"{"name":"x"}"#;
    list_keys: GET "/v1/admin/keys";
    rotate_key: POST "/v1/admin/keys/{key}/rotate" "{}" NotFound;
    list_audit: GET "/v1/admin/audit";
    list_person_sessions: GET "/v1/admin/sessions";
    end_person_session: DELETE "/v1/admin/sessions/sess_01kafs6w1cefkstv6qr1ptb0mp" => 404;
    get_usage: GET "/v1/admin/usage?by=key";
    get_member_usage: GET "/v1/usage";
    get_license: GET "/v1/admin/license";
    // The test database has two organizations, so these belong to the operator.
    put_license: PUT "/v1/admin/license" r#"{"token":"guess"}"# => 403;
    delete_license: DELETE "/v1/admin/license" => 403;
    list_nodes: GET "/v1/admin/nodes" => 403;
    get_checks: GET "/v1/admin/checks" => 403;
    get_master_keys: GET "/v1/admin/master-key" => 403;
    reseal: POST "/v1/admin/master-key/reseal" => 403;
    delete_key: DELETE "/v1/admin/keys/{key}" NotFound;
};
