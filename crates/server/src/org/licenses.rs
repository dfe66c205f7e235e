//! `/v1/organizations/{id}/license` and `/v1/organizations/{id}/deployments`: licenses for self-hosted engines. The operator
//! grants them below `/v1/operator`.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use sortie_api::{
    DeploymentId, ErrorCode, OrgId,
    billing::ProviderPage,
    deployment::{
        CreateDeployment, CreateLicenseCheckout, CreatedDeployment, Deployment, Entitlement, GrantLicense,
        LicenseKey, LicensePlan, OrganizationLicense,
    },
};
use sortie_billing::{Billing, Plan};
use sortie_store::licenses::{DeploymentRow, EntitlementRow};

use super::{Operator, OrgApp, Person, VerifiedPerson};
use crate::kit::{Admin, ApiResult, Inner, Json, JsonBody, Path, shown_once};

fn shown(row: EntitlementRow) -> Entitlement {
    Entitlement {
        plan: row.plan,
        source: row.source,
        monthly_runs: row.monthly_runs,
        deployments: row.deployments,
        deployments_used: row.deployments_used,
        state: row.state,
        period_end: row.period_end,
    }
}

fn shown_plan(plan: &Plan) -> LicensePlan {
    LicensePlan {
        name: plan.name.clone(),
        monthly_runs: plan.monthly_runs,
        deployments: plan.deployments,
    }
}

fn shown_deployment(row: DeploymentRow) -> Deployment {
    Deployment {
        id: row.id,
        name: row.name,
        machine_id: row.machine_id,
        monthly_runs: row.monthly_runs,
        created_by: row.created_by,
        created_at: row.created_at,
        expires_at: row.expires_at,
        ended_at: row.ended_at,
    }
}

/// Get the license entitlement
///
/// Returns what the organization is entitled to: runs a month for each self-hosted installation, and the number of
/// installations. `entitlement` is null without one. What the operator has granted comes before a subscription, while it lasts.
/// `plans` are those that can be bought.
#[utoipa::path(
    get, path = "/v1/organizations/{id}/license", tag = "licenses",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The entitlement.", body = OrganizationLicense, example = json!({
        "entitlement": {"source": "operator", "monthly_runs": 10_000, "deployments": 3, "deployments_used": 1,
            "state": "active", "period_end": "2027-11-20T21:30:00.000Z"},
        "plans": [{"name": "team", "monthly_runs": 10_000, "deployments": 3}]
    }))),
)]
pub(crate) async fn get_organization_license(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
) -> ApiResult<Json<OrganizationLicense>> {
    let now = app.accounts.options().clock.now();
    let entitlement = app.accounts.store().entitlement(who.org, now).await?;
    let plans = app.billing.as_ref().map(Billing::plans).unwrap_or_default();
    Ok(Json(OrganizationLicense {
        entitlement: entitlement.map(shown),
        plans: plans.iter().map(shown_plan).collect(),
    }))
}

/// Buy licenses
///
/// Makes a page of the payment provider on which the organization subscribes to a plan. It is entitled when the payment has
/// succeeded. The page can be paid for an hour, and the same request within half an hour may get the same page. The subscription
/// is changed and cancelled in the customer portal. Where mail is configured, the address of the signed-in person must be
/// verified.
#[utoipa::path(
    post, path = "/v1/organizations/{id}/license/checkout", tag = "licenses",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = CreateLicenseCheckout, description = "The plan.", example = json!({"plan": "team"})),
    responses(
        (status = 200, description = "The page.", body = ProviderPage,
            example = json!({"url": "https://checkout.stripe.com/c/pay/cs_live_a1b2c3"})),
        (status = 409, description = "The organization has a subscription or a grant of the operator that lasts, or no licenses are sold.",
            body = sortie_api::ErrorBody, example = json!({
                "error": "the organization has a subscription: change or pay it in the customer portal", "code": "conflict"
            })),
    ),
)]
pub(crate) async fn create_license_checkout(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    VerifiedPerson(person): VerifiedPerson,
    JsonBody(request, _room): JsonBody<CreateLicenseCheckout>,
) -> ApiResult<Json<ProviderPage>> {
    let billing = app.billing()?;
    if billing.plans().is_empty() {
        return Err(ErrorCode::Conflict
            .because("this deployment sells no licenses")
            .into());
    }
    let url = billing.create_license_checkout(who.org, &request.plan).await?;
    tracing::info!(organization = %who.org, user = %person.user, "made a page for a subscription to licenses");
    Ok(Json(ProviderPage { url }))
}

/// List deployments
///
/// Lists the licensed installations in the order of their creation, without their tokens. A deleted one is listed until its
/// license expires.
#[utoipa::path(
    get, path = "/v1/organizations/{id}/deployments", tag = "licenses",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The deployments.", body = [Deployment], example = json!([{
        "id": "depl_01kafs6w1cefkstv6qr1ptb0mp", "name": "factory north", "machine_id": "6d0f5b1a8f1c4f0e9b7a3c2d1e0f9a8b",
        "monthly_runs": 10_000, "created_by": "user_01kafs6w1cefkstv6qr1ptb0mp", "created_at": "2026-11-20T21:30:00.000Z",
        "expires_at": "2027-11-20T21:30:00.000Z"
    }]))),
)]
pub(crate) async fn list_deployments(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
) -> ApiResult<Json<Vec<Deployment>>> {
    let now = app.accounts.options().clock.now();
    let rows = app.accounts.store().list_deployments(who.org, now).await?;
    Ok(Json(rows.into_iter().map(shown_deployment).collect()))
}

/// Create a deployment
///
/// Licenses a self-hosted installation. Only this answer shows the token, which the installation takes at
/// `PUT /v1/admin/license`. Without `machine_id` a new one is made, which the installation then needs as
/// `license.machine_id`. Where mail is configured, the address of the signed-in person must be verified.
#[utoipa::path(
    post, path = "/v1/organizations/{id}/deployments", tag = "licenses",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = CreateDeployment, description = "Name and machine ID of the installation.",
        example = json!({"name": "factory north", "machine_id": "6d0f5b1a8f1c4f0e9b7a3c2d1e0f9a8b"})),
    responses(
        (status = 201, description = "The deployment with its token.", body = CreatedDeployment, example = json!({
            "id": "depl_01kafs6w1cefkstv6qr1ptb0mp", "name": "factory north",
            "machine_id": "6d0f5b1a8f1c4f0e9b7a3c2d1e0f9a8b", "token": "v4.public.…", "monthly_runs": 10_000,
            "created_at": "2026-11-20T21:30:00.000Z", "expires_at": "2027-11-20T21:30:00.000Z"
        })),
        (status = 402, description = "The organization has no active entitlement, or has used its deployments.",
            body = sortie_api::ErrorBody, example = json!(
                {"error": "license: the organization has no active entitlement", "code": "payment_required"}
            )),
        (status = 409, description = "The installation has a deployment already, or no licenses are issued.", body = sortie_api::ErrorBody,
            example = json!({"error": "the installation has a deployment already", "code": "conflict"})),
    ),
)]
pub(crate) async fn create_deployment(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    VerifiedPerson(person): VerifiedPerson,
    JsonBody(request, _room): JsonBody<CreateDeployment>,
) -> ApiResult<Response> {
    let created = app
        .accounts
        .create_deployment((&who, person.user), &request)
        .await?;
    tracing::info!(deployment = %created.id, user = %person.user, "licensed a deployment");
    Ok(shown_once(StatusCode::CREATED, &created))
}

/// Delete a deployment
///
/// Deletes the deployment, so that another installation can be licensed. The engine does not learn of it: the license works
/// there until it expires.
#[utoipa::path(
    delete, path = "/v1/organizations/{id}/deployments/{deployment_id}", tag = "licenses",
    params(
        ("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp"),
        ("deployment_id" = DeploymentId, Path, description = "The deployment.", example = "depl_01kafs6w1cefkstv6qr1ptb0mp"),
    ),
    responses((status = 204, description = "The deployment is deleted.")),
)]
pub(crate) async fn delete_deployment(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    person: Person,
    Inner(id): Inner<DeploymentId>,
) -> ApiResult<StatusCode> {
    app.accounts.end_deployment(&who, id).await?;
    tracing::info!(deployment = %id, user = %person.user, "deleted a deployment");
    Ok(StatusCode::NO_CONTENT)
}

/// Grant licenses
///
/// Entitles an organization to licenses for self-hosted engines, in place of an earlier grant. While the grant lasts, a
/// subscription does not count. Existing deployments and their licenses stay as they are.
#[utoipa::path(
    put, path = "/v1/operator/organizations/{id}/license", tag = "operator",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = GrantLicense, description = "Runs a month, deployments and the end of the licenses.",
        example = json!({"monthly_runs": 10_000, "deployments": 3})),
    responses((status = 200, description = "The entitlement.", body = Entitlement, example = json!({
        "source": "operator", "monthly_runs": 10_000, "deployments": 3, "deployments_used": 0, "state": "active",
        "period_end": "2027-11-20T21:30:00.000Z"
    }))),
)]
pub(crate) async fn grant_license(
    State(app): State<Arc<OrgApp>>,
    who: Operator,
    Path(org): Path<OrgId>,
    JsonBody(request, _room): JsonBody<GrantLicense>,
) -> ApiResult<Json<Entitlement>> {
    let granted = app.accounts.grant_license(&who.actor, org, &request).await?;
    tracing::info!(organization = %org, "granted licenses");
    Ok(Json(shown(granted)))
}

/// Get the license key
///
/// Returns the public key that verifies the licenses of this deployment. Self-hosted engines take it as
/// `license.public_keys`.
#[utoipa::path(
    get, path = "/v1/operator/license-key", tag = "operator",
    responses((status = 200, description = "The key.", body = LicenseKey, example = json!({
        "id": "5b1a8f1c4f0e9b7a", "public_key": "k4.public.Hrnbu7wEfAP9cGBOAHHwmH4Wsot1ciXBHwBBXQ4gsaI"
    }))),
)]
pub(crate) async fn get_license_key(
    State(app): State<Arc<OrgApp>>,
    _who: Operator,
) -> ApiResult<Json<LicenseKey>> {
    let key = app.accounts.license_key()?;
    Ok(Json(LicenseKey {
        id: key.id(),
        public_key: key.to_string(),
    }))
}
