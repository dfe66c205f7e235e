"""Arguments of the methods. Made by clients/generate from the OpenAPI documents of the engine."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal, NotRequired, TypedDict


class AcceptInvitation(TypedDict):
    """Body of `POST /v1/invitations/accept`."""

    token: str


class BeginConsoleSession(TypedDict):
    """Body of `POST /v1/console/sessions`: a key or a code."""

    code: NotRequired[str]
    key: NotRequired[str]


class Callback(TypedDict):
    """Receiver of the completion callback."""

    secret: str
    url: str


class CancelRunsQuery(TypedDict):
    limit: NotRequired[int]
    cursor: NotRequired[str]
    dry_run: NotRequired[bool]
    status: NotRequired[list[Literal["reserving", "queued", "starting", "running", "succeeded", "failed", "cancelled", "timed_out", "interrupted"] | str]]
    schedule: NotRequired[str]
    tag: NotRequired[str]
    metadata: NotRequired[dict[str, str]]
    workflow: NotRequired[str]
    model: NotRequired[str]
    key: NotRequired[str]
    since: NotRequired[datetime]
    until: NotRequired[datetime]
    error: NotRequired[str]
    min_cost_micros: NotRequired[int]
    q: NotRequired[str]
    ids: NotRequired[list[str]]


class ChangePassword(TypedDict):
    """Body of `PUT /v1/me/password`."""

    current_password: NotRequired[str]
    new_password: str


class ChangeRole(TypedDict):
    """Body of `PATCH /v1/organizations/{id}/members/{user_id}`."""

    role: Literal["member", "admin"] | str


class CheckLedgerQuery(TypedDict):
    limit: NotRequired[int]
    cursor: NotRequired[str]


class ConfirmAuthorization(TypedDict):
    """Body of `POST /v1/connections/{name}/oauth/confirm`."""

    code: str


class ConfirmSecondFactor(TypedDict):
    """Body of `POST /v1/auth/me/second-factor/confirm`."""

    code: str


class ConnectionAuth(TypedDict):
    """Authentication method of a connection: `type`, and the fields of that type."""

    authorization_url: NotRequired[str]
    client_id: NotRequired[str]
    client_secret: NotRequired[str]
    issuer: NotRequired[str]
    name: NotRequired[str]
    password: NotRequired[str]
    scopes: NotRequired[list[str]]
    token: NotRequired[str]
    token_url: NotRequired[str]
    type: Literal["none", "bearer", "basic", "header", "query", "oauth"] | str
    username: NotRequired[str]
    value: NotRequired[str]


class ConnectionDefinition(TypedDict):
    """Body of `PUT /v1/connections/{name}`: an HTTP API, or an MCP server by `url` or, self-hosted, by `command`."""

    allowed_methods: NotRequired[list[str]]
    allowed_tools: NotRequired[list[str]]
    auth: NotRequired[ConnectionAuth]
    command: NotRequired[list[str]]
    description: NotRequired[str]
    env: NotRequired[dict[str, str]]
    headers: NotRequired[dict[str, str]]
    type: Literal["http", "mcp"] | str
    url: NotRequired[str]


class CreateCheckout(TypedDict):
    """Body of `POST /v1/organizations/{id}/billing/checkout`."""

    amount_cents: int
    save_payment_method: NotRequired[bool]


class CreateDeployment(TypedDict):
    """Body of `POST /v1/organizations/{id}/deployments`."""

    machine_id: NotRequired[str]
    name: str


class CreateInvitation(TypedDict):
    """Body of `POST /v1/organizations/{id}/invitations`."""

    email: str
    role: Literal["member", "admin"] | str


class CreateKey(TypedDict):
    """Body of `POST /v1/admin/keys`."""

    expires_at: NotRequired[datetime]
    name: str
    role: NotRequired[Literal["member", "admin"] | str]


class CreateLicenseCheckout(TypedDict):
    """Body of `POST /v1/organizations/{id}/license/checkout`."""

    plan: str


class CreateRunToken(TypedDict):
    """Body of `POST /v1/runs/{id}/tokens`."""

    may: NotRequired[list[Literal["read", "cancel"] | str]]
    ttl_seconds: int


class CreateSchedule(TypedDict):
    """Body of `POST /v1/schedules`."""

    callback: NotRequired[Callback]
    catch_up_window_seconds: NotRequired[int]
    cron: str
    enabled: NotRequired[bool]
    input: NotRequired[Any]
    jitter_seconds: NotRequired[int]
    max_consecutive_failures: NotRequired[int]
    max_cost_micros: NotRequired[int]
    name: NotRequired[str]
    overlap: NotRequired[Literal["allow", "skip", "queue_one", "cancel_other"] | str]
    paused_until: NotRequired[datetime]
    timezone: NotRequired[str]
    workflow: str


class CreateUser(TypedDict):
    """Body of `POST /v1/operator/users`."""

    email: str
    name: str


class DeleteOrganization(TypedDict):
    """Body of `DELETE /v1/organizations/{id}`."""

    name: str
    password: NotRequired[str]


class DeleteUser(TypedDict):
    """Body of `DELETE /v1/auth/me`."""

    password: NotRequired[str]


class EnrolSecondFactor(TypedDict):
    """Body of `POST /v1/auth/me/second-factor`."""

    password: NotRequired[str]


class FollowRunQuery(TypedDict):
    deltas: NotRequired[bool]
    after: NotRequired[int]
    before: NotRequired[int]
    limit: NotRequired[int]
    types: NotRequired[list[str]]


class ForgotPassword(TypedDict):
    """Body of `POST /v1/auth/forgot-password`."""

    email: str


class GetChecksQuery(TypedDict):
    providers: NotRequired[bool]


class GetMasterKeysQuery(TypedDict):
    cursor: NotRequired[str]


GetMemberUsageQuery = TypedDict(
    "GetMemberUsageQuery",
    {
        "from": NotRequired[date],
        "to": NotRequired[date],
        "by": NotRequired[str],
    },
)


class GetOperatedChecksQuery(TypedDict):
    providers: NotRequired[bool]


class GetOperatedMasterKeysQuery(TypedDict):
    cursor: NotRequired[str]


class GetRunQuery(TypedDict):
    output: NotRequired[bool]


GetUsageQuery = TypedDict(
    "GetUsageQuery",
    {
        "from": NotRequired[date],
        "to": NotRequired[date],
        "by": NotRequired[str],
    },
)


class GrantLicense(TypedDict):
    """Body of `PUT /v1/operator/organizations/{id}/license`."""

    deployments: int
    expires_at: NotRequired[datetime]
    monthly_runs: int


class KeepArtifact(TypedDict):
    """Request to keep an artifact of a run as a saved file."""

    name: str
    path: str
    run: str


class ListAllDeliveriesQuery(TypedDict):
    limit: NotRequired[int]
    cursor: NotRequired[str]
    state: NotRequired[list[Literal["pending", "retrying", "delivered", "abandoned"] | str]]
    receiver: NotRequired[str]


class ListAllFiresQuery(TypedDict):
    since: NotRequired[datetime]
    until: NotRequired[datetime]
    limit: NotRequired[int]
    cursor: NotRequired[str]


class ListAuditQuery(TypedDict):
    limit: NotRequired[int]
    cursor: NotRequired[str]
    action: NotRequired[str]
    target: NotRequired[str]
    key: NotRequired[str]
    since: NotRequired[datetime]
    until: NotRequired[datetime]


class ListFilesQuery(TypedDict):
    limit: NotRequired[int]
    cursor: NotRequired[str]


class ListFiresQuery(TypedDict):
    limit: NotRequired[int]
    cursor: NotRequired[str]


class ListLedgerQuery(TypedDict):
    limit: NotRequired[int]
    cursor: NotRequired[str]


class ListOperatedOrganizationsQuery(TypedDict):
    limit: NotRequired[int]
    cursor: NotRequired[str]


class ListPaymentsQuery(TypedDict):
    limit: NotRequired[int]
    cursor: NotRequired[str]


class ListRunsQuery(TypedDict):
    limit: NotRequired[int]
    cursor: NotRequired[str]
    status: NotRequired[list[Literal["reserving", "queued", "starting", "running", "succeeded", "failed", "cancelled", "timed_out", "interrupted"] | str]]
    schedule: NotRequired[str]
    tag: NotRequired[str]
    metadata: NotRequired[dict[str, str]]
    workflow: NotRequired[str]
    model: NotRequired[str]
    key: NotRequired[str]
    since: NotRequired[datetime]
    until: NotRequired[datetime]
    error: NotRequired[str]
    min_cost_micros: NotRequired[int]
    q: NotRequired[str]
    ids: NotRequired[list[str]]


class ListSchedulesQuery(TypedDict):
    limit: NotRequired[int]
    cursor: NotRequired[str]


class ListUsersQuery(TypedDict):
    email: NotRequired[str]
    limit: NotRequired[int]
    cursor: NotRequired[str]


class ListWorkflowsQuery(TypedDict):
    detail: NotRequired[bool]


class LogIn(TypedDict):
    """Body of `POST /v1/auth/login`."""

    code: NotRequired[str]
    email: str
    password: str


class MoveCredits(TypedDict):
    """Body of `POST /v1/operator/organizations/{id}/credits`."""

    amount_micros: int
    kind: NotRequired[Literal["grant", "correction"] | str]
    reason: str
    reference: str


class OrganizationName(TypedDict):
    """Body of `POST /v1/organizations` and `PATCH /v1/organizations/{id}`."""

    name: str


class PreviewScheduleQuery(TypedDict):
    count: NotRequired[int]


class PutAutoTopup(TypedDict):
    """Body of `PUT /v1/organizations/{id}/billing/auto-topup`."""

    amount_cents: NotRequired[int]
    consent: NotRequired[bool]
    enabled: bool
    threshold_cents: NotRequired[int]


class PutBudget(TypedDict):
    """Body of `PUT /v1/budgets/{scope}`."""

    limit_micros: int
    period: Literal["day", "month"] | str


class PutLicense(TypedDict):
    """Body of `PUT /v1/admin/license`."""

    token: str


class RefundPayment(TypedDict):
    """Body of `POST /v1/operator/payments/{id}/refund`."""

    amount_cents: NotRequired[int]
    reference: NotRequired[str]


class RemoveSecondFactor(TypedDict):
    """Body of `DELETE /v1/auth/me/second-factor`."""

    code: str
    password: NotRequired[str]


class RenameFile(TypedDict):
    """Request for a new name of a file."""

    name: str


class ResealEverythingQuery(TypedDict):
    cursor: NotRequired[str]


class ResealQuery(TypedDict):
    cursor: NotRequired[str]


class ResetPassword(TypedDict):
    """Body of `POST /v1/auth/reset-password`."""

    new_password: str
    token: str


class RotateKey(TypedDict):
    """Body of `POST /v1/admin/keys/{id}/rotate`."""

    grace_seconds: NotRequired[int]


class RunConnection(TypedDict):
    """A connection of a run: a saved one by `ref`, or an inline definition by `type` and `url`."""

    allowed_methods: NotRequired[list[str]]
    allowed_tools: NotRequired[list[str]]
    auth: NotRequired[ConnectionAuth]
    headers: NotRequired[dict[str, str]]
    ref: NotRequired[str]
    type: NotRequired[Literal["http", "mcp"] | str]
    url: NotRequired[str]


class RunFile(TypedDict):
    """A file for the working directory: a saved one by `file`, or its text by `content`; exactly one of the two."""

    content: NotRequired[str]
    file: NotRequired[str]
    path: str


class RunRequest(TypedDict):
    """Body of `POST /v1/runs`."""

    callback: NotRequired[Callback]
    connections: NotRequired[dict[str, RunConnection]]
    description: NotRequired[str]
    effort: NotRequired[Literal["minimal", "low", "medium", "high", "xhigh", "max"] | str]
    fallback_model: NotRequired[str]
    files: NotRequired[list[RunFile]]
    input: NotRequired[Any]
    input_schema: NotRequired[dict[str, Any]]
    instructions: NotRequired[str]
    max_cost_micros: NotRequired[int]
    max_steps: NotRequired[int]
    metadata: NotRequired[dict[str, str]]
    model: NotRequired[str]
    output_schema: NotRequired[dict[str, Any]]
    prompt: NotRequired[str]
    replay_of: NotRequired[str]
    shell: NotRequired[bool]
    tags: NotRequired[list[str]]
    timeout_seconds: NotRequired[int]
    web: NotRequired[bool | WebRestriction]
    workflow: NotRequired[str]
    zero_data_retention: NotRequired[bool]


class SignUp(TypedDict):
    """Body of `POST /v1/auth/signup`."""

    email: str
    invitation: NotRequired[str]
    name: str
    password: str


class SuspendOrganization(TypedDict):
    """Body of `POST /v1/operator/organizations/{id}/suspend`."""

    cancel: NotRequired[bool]
    reason: NotRequired[str]


class TransferOwnership(TypedDict):
    """Body of `POST /v1/organizations/{id}/ownership`."""

    user_id: str


class UpdateSchedule(TypedDict):
    """Body of `PATCH /v1/schedules/{id}`: what is absent stays, `null` puts an optional field back to its default."""

    callback: NotRequired[Callback | None]
    catch_up_window_seconds: NotRequired[int | None]
    cron: NotRequired[str]
    enabled: NotRequired[bool | None]
    input: NotRequired[Any]
    jitter_seconds: NotRequired[int | None]
    max_consecutive_failures: NotRequired[int | None]
    max_cost_micros: NotRequired[int | None]
    name: NotRequired[str | None]
    overlap: NotRequired[Literal["allow", "skip", "queue_one", "cancel_other"] | str | None]
    paused_until: NotRequired[datetime | None]
    timezone: NotRequired[str | None]
    workflow: NotRequired[str]


class UpdateUser(TypedDict):
    """Body of `PATCH /v1/auth/me`."""

    name: str


class VerifyEmail(TypedDict):
    """Body of `POST /v1/auth/verify-email`."""

    token: str


class WebRestriction(TypedDict):
    """Restriction of the agent's web access."""

    allow: NotRequired[list[str]]
    search: NotRequired[bool]


class WorkflowDefinition(TypedDict):
    """Body of `PUT /v1/workflows/{name}`: the fields of a run request that hold for every run of the workflow."""

    connections: NotRequired[dict[str, RunConnection]]
    description: NotRequired[str]
    effort: NotRequired[Literal["minimal", "low", "medium", "high", "xhigh", "max"] | str]
    fallback_model: NotRequired[str]
    files: NotRequired[list[RunFile]]
    input: NotRequired[Any]
    input_schema: NotRequired[dict[str, Any]]
    instructions: NotRequired[str]
    max_cost_micros: NotRequired[int]
    max_steps: NotRequired[int]
    metadata: NotRequired[dict[str, str]]
    model: NotRequired[str]
    output_schema: NotRequired[dict[str, Any]]
    prompt: str
    shell: NotRequired[bool]
    tags: NotRequired[list[str]]
    timeout_seconds: NotRequired[int]
    web: NotRequired[bool | WebRestriction]
