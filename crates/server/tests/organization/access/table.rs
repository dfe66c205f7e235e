//! Calls of the operations for the test of access: each operation has one call.

/// Call of an operation.
pub(super) struct Call {
    /// Name of the operation.
    pub(super) operation: &'static str,
    pub(super) method: &'static str,
    /// Path with placeholders for the resources of the test.
    pub(super) path: &'static str,
    /// Body with placeholders; empty for none.
    pub(super) body: &'static str,
    /// Status for a caller who has the role, where it is not a success.
    pub(super) refused: Option<u16>,
}

/// Changes that members of a suspended organization can make: they leave, pay, or disable its automatic purchases.
pub(super) const WHILE_SUSPENDED: [&str; 5] = [
    "leave_organization",
    "create_checkout",
    "create_portal",
    "put_auto_topup",
    "create_license_checkout",
];

const fn call(
    operation: &'static str,
    (method, path): (&'static str, &'static str),
    body: &'static str,
) -> Call {
    Call {
        operation,
        method,
        path,
        body,
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
        ..call(operation, route, body)
    }
}

/// Calls of all operations, in an order in which each finds its resources.
pub(super) const CALLS: &[Call] = &[
    call("get_org_health", ("GET", "/healthz"), ""),
    call("get_org_readiness", ("GET", "/readyz"), ""),
    call("get_org_description", ("GET", "/openapi.json"), ""),
    call(
        "get_authorization_server",
        ("GET", "/.well-known/oauth-authorization-server"),
        "",
    ),
    call(
        "register_oauth_client",
        ("POST", "/oauth/register"),
        r#"{"redirect_uris":["https://app.example.com/cb"]}"#,
    ),
    refused("issue_oauth_tokens", ("POST", "/oauth/token"), "", 400),
    refused("revoke_oauth_token", ("POST", "/oauth/revoke"), "", 400),
    refused(
        "sign_up",
        ("POST", "/v1/auth/signup"),
        r#"{"email":"x","password":"x","name":"x"}"#,
        400,
    ),
    refused(
        "log_in",
        ("POST", "/v1/auth/login"),
        r#"{"email":"x","password":"x"}"#,
        400,
    ),
    call("log_out", ("POST", "/v1/auth/logout"), ""),
    refused(
        "verify_email",
        ("POST", "/v1/auth/verify-email"),
        r#"{"token":"x"}"#,
        400,
    ),
    // The rig sends no mail.
    refused(
        "resend_verification",
        ("POST", "/v1/auth/resend-verification"),
        "",
        409,
    ),
    refused(
        "forgot_password",
        ("POST", "/v1/auth/forgot-password"),
        r#"{"email":"x"}"#,
        400,
    ),
    refused(
        "reset_password",
        ("POST", "/v1/auth/reset-password"),
        r#"{"token":"x","new_password":"seventeen purple elephants"}"#,
        400,
    ),
    call("get_user", ("GET", "/v1/auth/me"), ""),
    call("update_user", ("PATCH", "/v1/auth/me"), r#"{"name":"renamed"}"#),
    refused(
        "delete_user",
        ("DELETE", "/v1/auth/me"),
        r#"{"password":"x"}"#,
        400,
    ),
    call("export_user", ("GET", "/v1/auth/me/export"), ""),
    refused(
        "change_password",
        ("PUT", "/v1/me/password"),
        r#"{"current_password":"x","new_password":"x"}"#,
        400,
    ),
    call("list_sessions", ("GET", "/v1/auth/sessions"), ""),
    call("list_identities", ("GET", "/v1/auth/identities"), ""),
    refused("unlink_identity", ("DELETE", "/v1/auth/identities/x"), "", 404),
    refused(
        "end_session",
        ("DELETE", "/v1/auth/sessions/sess_01kafs6w1cefkstv6qr1ptb0mp"),
        "",
        404,
    ),
    refused(
        "enrol_second_factor",
        ("POST", "/v1/auth/me/second-factor"),
        r#"{"password":"x"}"#,
        400,
    ),
    refused(
        "confirm_second_factor",
        ("POST", "/v1/auth/me/second-factor/confirm"),
        r#"{"code":"123456"}"#,
        409,
    ),
    refused(
        "remove_second_factor",
        ("DELETE", "/v1/auth/me/second-factor"),
        r#"{"password":"x","code":"x"}"#,
        400,
    ),
    call("list_grants", ("GET", "/v1/auth/grants"), ""),
    refused(
        "end_grant",
        ("DELETE", "/v1/auth/grants/grant_01kafs6w1cefkstv6qr1ptb0mp"),
        "",
        404,
    ),
    refused("put_avatar", ("PUT", "/v1/me/avatar"), "{}", 400),
    call("delete_avatar", ("DELETE", "/v1/me/avatar"), ""),
    refused("get_avatar", ("GET", "/v1/users/{user}/avatar"), "", 404),
    call("list_organizations", ("GET", "/v1/organizations"), ""),
    call(
        "create_organization",
        ("POST", "/v1/organizations"),
        r#"{"name":"mine"}"#,
    ),
    call(
        "rename_organization",
        ("PATCH", "/v1/organizations/{org}"),
        r#"{"name":"renamed"}"#,
    ),
    call("list_members", ("GET", "/v1/organizations/{org}/members"), ""),
    call(
        "list_invitations",
        ("GET", "/v1/organizations/{org}/invitations"),
        "",
    ),
    call(
        "create_invitation",
        ("POST", "/v1/organizations/{org}/invitations"),
        r#"{"email":"another@example.com","role":"member"}"#,
    ),
    call(
        "withdraw_invitation",
        ("DELETE", "/v1/organizations/{org}/invitations/{invitation}"),
        "",
    ),
    refused(
        "accept_invitation",
        ("POST", "/v1/invitations/accept"),
        r#"{"token":"guess"}"#,
        404,
    ),
    call(
        "list_organization_keys",
        ("GET", "/v1/organizations/{org}/keys"),
        "",
    ),
    call(
        "create_organization_key",
        ("POST", "/v1/organizations/{org}/keys"),
        r#"{"name":"new"}"#,
    ),
    call(
        "rotate_organization_key",
        ("POST", "/v1/organizations/{org}/keys/{key}/rotate"),
        "{}",
    ),
    call(
        "delete_organization_key",
        ("DELETE", "/v1/organizations/{org}/keys/{key}"),
        "",
    ),
    call(
        "get_organization_license",
        ("GET", "/v1/organizations/{org}/license"),
        "",
    ),
    // The rig has no account at the payment provider.
    refused(
        "create_license_checkout",
        ("POST", "/v1/organizations/{org}/license/checkout"),
        r#"{"plan":"team"}"#,
        409,
    ),
    call(
        "list_deployments",
        ("GET", "/v1/organizations/{org}/deployments"),
        "",
    ),
    refused(
        "create_deployment",
        ("POST", "/v1/organizations/{org}/deployments"),
        r#"{"name":"north"}"#,
        402,
    ),
    refused(
        "delete_deployment",
        (
            "DELETE",
            "/v1/organizations/{org}/deployments/depl_01kafs6w1cefkstv6qr1ptb0mp",
        ),
        "",
        404,
    ),
    call(
        "list_operated_organizations",
        ("GET", "/v1/operator/organizations"),
        "",
    ),
    call(
        "get_operated_organization",
        ("GET", "/v1/operator/organizations/{org}"),
        "",
    ),
    call(
        "suspend_organization",
        ("POST", "/v1/operator/organizations/{org}/suspend"),
        "{}",
    ),
    call(
        "resume_organization",
        ("POST", "/v1/operator/organizations/{org}/resume"),
        "",
    ),
    call("get_balance", ("GET", "/v1/organizations/{org}/balance"), ""),
    call("get_billing", ("GET", "/v1/organizations/{org}/billing"), ""),
    call(
        "list_ledger",
        ("GET", "/v1/organizations/{org}/billing/ledger"),
        "",
    ),
    refused(
        "create_checkout",
        ("POST", "/v1/organizations/{org}/billing/checkout"),
        r#"{"amount_cents":500}"#,
        409,
    ),
    refused(
        "create_portal",
        ("POST", "/v1/organizations/{org}/billing/portal"),
        "",
        409,
    ),
    refused(
        "put_auto_topup",
        ("PUT", "/v1/organizations/{org}/billing/auto-topup"),
        r#"{"enabled":false}"#,
        409,
    ),
    call(
        "list_payments",
        ("GET", "/v1/organizations/{org}/billing/payments"),
        "",
    ),
    refused(
        "get_receipt",
        (
            "GET",
            "/v1/organizations/{org}/billing/payments/pay_01kafs6w1cefkstv6qr1ptb0mp/receipt",
        ),
        "",
        404,
    ),
    refused(
        "refund_payment",
        (
            "POST",
            "/v1/operator/payments/pay_01kafs6w1cefkstv6qr1ptb0mp/refund",
        ),
        "{}",
        409,
    ),
    refused("receive_stripe_event", ("POST", "/v1/webhooks/stripe"), "{}", 409),
    call(
        "get_operated_credits",
        ("GET", "/v1/operator/organizations/{org}/credits"),
        "",
    ),
    call(
        "move_credits",
        ("POST", "/v1/operator/organizations/{org}/credits"),
        r#"{"amount_micros":1,"reason":"for a test","reference":"a"}"#,
    ),
    call("check_ledger", ("GET", "/v1/operator/ledger/check"), ""),
    call(
        "grant_license",
        ("PUT", "/v1/operator/organizations/{org}/license"),
        r#"{"monthly_runs":1,"deployments":0}"#,
    ),
    call("get_license_key", ("GET", "/v1/operator/license-key"), ""),
    call("list_operated_nodes", ("GET", "/v1/operator/nodes"), ""),
    call("get_operated_checks", ("GET", "/v1/operator/checks"), ""),
    call("get_operated_master_keys", ("GET", "/v1/operator/master-key"), ""),
    call(
        "reseal_everything",
        ("POST", "/v1/operator/master-key/reseal"),
        "",
    ),
    call("list_users", ("GET", "/v1/operator/users"), ""),
    call(
        "create_user",
        ("POST", "/v1/operator/users"),
        r#"{"email":"new@example.com","name":"new"}"#,
    ),
    call("disable_user", ("POST", "/v1/operator/users/{user}/disable"), ""),
    call("enable_user", ("POST", "/v1/operator/users/{user}/enable"), ""),
    call(
        "unlink_user",
        ("DELETE", "/v1/operator/users/{user}/identities"),
        "",
    ),
    call(
        "create_reset_link",
        ("POST", "/v1/operator/users/{user}/reset-link"),
        "",
    ),
    call(
        "change_member_role",
        ("PATCH", "/v1/organizations/{org}/members/{user}"),
        r#"{"role":"member"}"#,
    ),
    // The body confirms another name: the calls after this one need the organization.
    refused(
        "delete_organization",
        ("DELETE", "/v1/organizations/{org}"),
        r#"{"name":"another"}"#,
        400,
    ),
    call(
        "transfer_ownership",
        ("POST", "/v1/organizations/{org}/ownership"),
        r#"{"user_id":"{admin}"}"#,
    ),
    call(
        "remove_member",
        ("DELETE", "/v1/organizations/{org}/members/{user}"),
        "",
    ),
    call(
        "leave_organization",
        ("POST", "/v1/organizations/{org}/leave"),
        "",
    ),
];
