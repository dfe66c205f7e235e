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
    /// Status for a caller with the role, unless it is a success.
    pub(super) refused: Option<u16>,
}

/// Changes that members of a suspended organization can make: leave, pay, or disable automatic purchases.
pub(super) const WHILE_SUSPENDED: [&str; 5] = [
    "leave_organization",
    "create_checkout",
    "create_portal",
    "put_auto_topup",
    "create_license_checkout",
];

/// Parses calls: `operation: METHOD path body => status`. The body may be omitted. The status may be omitted for a call that
/// succeeds for a caller with the role.
macro_rules! calls {
    (@status $status:literal) => { Some($status) };
    (@status) => { None };
    ($($operation:ident: $method:ident $path:literal $($body:literal)? $(=> $status:literal)?;)*) => {
        &[$(Call {
            operation: stringify!($operation),
            method: stringify!($method),
            path: $path,
            body: concat!($($body)?),
            refused: calls!(@status $($status)?),
        }),*]
    };
}

/// Calls of all operations, in an order in which each finds its resources.
pub(super) const CALLS: &[Call] = calls! {
    get_org_health: GET "/healthz";
    get_org_readiness: GET "/readyz";
    get_org_description: GET "/openapi.json";
    get_authorization_server: GET "/.well-known/oauth-authorization-server";
    register_oauth_client: POST "/oauth/register" r#"{"redirect_uris":["https://app.example.com/cb"]}"#;
    issue_oauth_tokens: POST "/oauth/token" => 400;
    revoke_oauth_token: POST "/oauth/revoke" => 400;
    sign_up: POST "/v1/auth/signup" r#"{"email":"x","password":"x","name":"x"}"# => 400;
    log_in: POST "/v1/auth/login" r#"{"email":"x","password":"x"}"# => 400;
    log_out: POST "/v1/auth/logout";
    verify_email: POST "/v1/auth/verify-email" r#"{"token":"x"}"# => 400;
    // The rig sends no mail.
    resend_verification: POST "/v1/auth/resend-verification" => 409;
    forgot_password: POST "/v1/auth/forgot-password" r#"{"email":"x"}"# => 400;
    reset_password: POST "/v1/auth/reset-password" r#"{"token":"x","new_password":"seventeen purple elephants"}"# => 400;
    get_org_console: GET "/v1/console";
    get_org_console_session: GET "/v1/console/sessions/current";
    end_org_console_session: DELETE "/v1/console/sessions/current";
    get_user: GET "/v1/auth/me";
    update_user: PATCH "/v1/auth/me" r#"{"name":"renamed"}"#;
    delete_user: DELETE "/v1/auth/me" r#"{"password":"x"}"# => 400;
    export_user: GET "/v1/auth/me/export";
    change_password: PUT "/v1/me/password" r#"{"current_password":"x","new_password":"x"}"# => 400;
    list_sessions: GET "/v1/auth/sessions";
    list_identities: GET "/v1/auth/identities";
    unlink_identity: DELETE "/v1/auth/identities/x" => 404;
    end_session: DELETE "/v1/auth/sessions/sess_01kafs6w1cefkstv6qr1ptb0mp" => 404;
    enrol_second_factor: POST "/v1/auth/me/second-factor" r#"{"password":"x"}"# => 400;
    confirm_second_factor: POST "/v1/auth/me/second-factor/confirm" r#"{"code":"123456"}"# => 409;
    remove_second_factor: DELETE "/v1/auth/me/second-factor" r#"{"password":"x","code":"x"}"# => 400;
    list_grants: GET "/v1/auth/grants";
    end_grant: DELETE "/v1/auth/grants/grant_01kafs6w1cefkstv6qr1ptb0mp" => 404;
    put_avatar: PUT "/v1/me/avatar" "{}" => 400;
    delete_avatar: DELETE "/v1/me/avatar";
    get_avatar: GET "/v1/users/{user}/avatar" => 404;
    list_organizations: GET "/v1/organizations";
    create_organization: POST "/v1/organizations" r#"{"name":"mine"}"#;
    rename_organization: PATCH "/v1/organizations/{org}" r#"{"name":"renamed"}"#;
    list_members: GET "/v1/organizations/{org}/members";
    list_invitations: GET "/v1/organizations/{org}/invitations";
    create_invitation: POST "/v1/organizations/{org}/invitations" r#"{"email":"another@example.com","role":"member"}"#;
    withdraw_invitation: DELETE "/v1/organizations/{org}/invitations/{invitation}";
    accept_invitation: POST "/v1/invitations/accept" r#"{"token":"guess"}"# => 404;
    list_organization_keys: GET "/v1/organizations/{org}/keys";
    create_organization_key: POST "/v1/organizations/{org}/keys" r#"{"name":"new"}"#;
    rotate_organization_key: POST "/v1/organizations/{org}/keys/{key}/rotate" "{}";
    delete_organization_key: DELETE "/v1/organizations/{org}/keys/{key}";
    get_organization_license: GET "/v1/organizations/{org}/license";
    // The rig has no Stripe account.
    create_license_checkout: POST "/v1/organizations/{org}/license/checkout" r#"{"plan":"team"}"# => 409;
    list_deployments: GET "/v1/organizations/{org}/deployments";
    create_deployment: POST "/v1/organizations/{org}/deployments" r#"{"name":"north"}"# => 402;
    delete_deployment: DELETE "/v1/organizations/{org}/deployments/depl_01kafs6w1cefkstv6qr1ptb0mp" => 404;
    list_operated_organizations: GET "/v1/operator/organizations";
    get_operated_organization: GET "/v1/operator/organizations/{org}";
    suspend_organization: POST "/v1/operator/organizations/{org}/suspend" "{}";
    resume_organization: POST "/v1/operator/organizations/{org}/resume";
    get_balance: GET "/v1/organizations/{org}/balance";
    get_billing: GET "/v1/organizations/{org}/billing";
    list_ledger: GET "/v1/organizations/{org}/billing/ledger";
    create_checkout: POST "/v1/organizations/{org}/billing/checkout" r#"{"amount_cents":500}"# => 409;
    create_portal: POST "/v1/organizations/{org}/billing/portal" => 409;
    put_auto_topup: PUT "/v1/organizations/{org}/billing/auto-topup" r#"{"enabled":false}"# => 409;
    list_payments: GET "/v1/organizations/{org}/billing/payments";
    get_receipt: GET "/v1/organizations/{org}/billing/payments/pay_01kafs6w1cefkstv6qr1ptb0mp/receipt" => 404;
    refund_payment: POST "/v1/operator/payments/pay_01kafs6w1cefkstv6qr1ptb0mp/refund" "{}" => 409;
    receive_stripe_event: POST "/v1/webhooks/stripe" "{}" => 409;
    get_operated_credits: GET "/v1/operator/organizations/{org}/credits";
    move_credits: POST "/v1/operator/organizations/{org}/credits" r#"{"amount_micros":1,"reason":"for a test","reference":"a"}"#;
    check_ledger: GET "/v1/operator/ledger/check";
    grant_license: PUT "/v1/operator/organizations/{org}/license" r#"{"monthly_runs":1,"deployments":0}"#;
    get_license_key: GET "/v1/operator/license-key";
    list_operated_nodes: GET "/v1/operator/nodes";
    get_operated_checks: GET "/v1/operator/checks";
    get_operated_master_keys: GET "/v1/operator/master-key";
    reseal_everything: POST "/v1/operator/master-key/reseal";
    list_users: GET "/v1/operator/users";
    create_user: POST "/v1/operator/users" r#"{"email":"new@example.com","name":"new"}"#;
    disable_user: POST "/v1/operator/users/{user}/disable";
    enable_user: POST "/v1/operator/users/{user}/enable";
    unlink_user: DELETE "/v1/operator/users/{user}/identities";
    create_reset_link: POST "/v1/operator/users/{user}/reset-link";
    change_member_role: PATCH "/v1/organizations/{org}/members/{user}" r#"{"role":"member"}"#;
    // The body confirms another name, because later calls need the organization.
    delete_organization: DELETE "/v1/organizations/{org}" r#"{"name":"another"}"# => 400;
    transfer_ownership: POST "/v1/organizations/{org}/ownership" r#"{"user_id":"{admin}"}"#;
    remove_member: DELETE "/v1/organizations/{org}/members/{user}";
    leave_organization: POST "/v1/organizations/{org}/leave";
};
