"""Types of the API. Made by clients/generate from the OpenAPI documents of the engine."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, RootModel, Tag
from ._model import Model


class AcceptInvitation(Model):
    """Body of `POST /v1/invitations/accept`."""

    token: str
    """Token of the invitation."""


class AccountExport(Model):
    """Data that the service keeps about a person."""

    changes: list[ExportedChange]
    """Changes that the person made, newest first, at most 10,000."""
    grants: list[ExportedGrant]
    """Permissions that the person has given to applications."""
    identities: list[LinkedIdentity]
    """Identities of the person at identity providers."""
    organizations: list[Organization]
    """Organizations of the person."""
    sessions: list[Session]
    """Sessions of the person that have not ended, newest first, at most 100."""
    user: User
    """The person."""


class AnswerRequestedEvent(Model):
    """The model was asked for its final answer, and calls no more tools."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: AnswerRequestedEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["answer_requested"]
    """Type of the event."""


class AnswerRequestedEventData(Model):
    reason: Literal["budget", "time", "repetition"] | str
    """The limit that the run came near to."""
    step: int
    """The turn of the answer, from 1."""


class ApiKey(Model):
    """An API key without its secret, which is shown once and never stored."""

    created_at: datetime
    """Time of creation."""
    expires_at: datetime | None = None
    """Time at which the key expires; absent for a key that does not."""
    id: str
    """ID of the key."""
    last_used_at: datetime | None = None
    """Start of the hour in which the key was last used; absent for a key that never was."""
    name: str
    """Name of the key: its purpose, for people."""
    previous_until: datetime | None = None
    """Time at which the previous secret stops working; absent if the key was never rotated."""
    role: Literal["member", "admin", "owner"] | str
    """Role of the key."""


class Artifact(Model):
    """A file that a run left under `outputs/` in its working directory."""

    content_type: str
    """Media type, from the name."""
    path: str
    """Path below `outputs/`, `/`-separated."""
    sha256: str
    """SHA-256 of the content."""
    size: int
    """Size in bytes."""


class ArtifactEvent(Model):
    """A file under `outputs/` was kept."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: Artifact
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["artifact"]
    """Type of the event."""


class ArtifactSkippedEvent(Model):
    """A file under `outputs/` was not kept."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: ArtifactSkippedEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["artifact_skipped"]
    """Type of the event."""


class ArtifactSkippedEventData(Model):
    path: str
    """Path below `outputs/`."""
    reason: str
    """Reason why the file was not kept."""


class AuditEntry(Model):
    """Change of a resource: its kind, time, author and origin."""

    action: str
    """Kind of change, as `resource.verb`."""
    actor_id: str | None = None
    """ID of the author: of the key, the grant, the session or the schedule; absent for an operator."""
    actor_kind: Literal["key", "grant", "session", "run_token", "schedule", "operator"] | str | None = (
        None
    )
    """Kind of the author; absent for a change by the engine itself and for a request without a credential."""
    address: str | None = None
    """Client address of the request; absent for a change by the engine itself."""
    at: datetime
    """Time of the change."""
    id: str
    """ID of the entry."""
    key_id: str | None = None
    """ID of the key that made the change; absent where no key was used."""
    request_id: str | None = None
    """ID of the request, which its log lines have too; absent for a change by the engine itself."""
    target: str
    """Name or id of the changed resource."""
    user_id: str | None = None
    """ID of the person behind the grant or the session; absent for every other author."""


class AuditPage(Model):
    """Page of the audit log, newest first."""

    items: list[AuditEntry]
    """The entries."""
    next_cursor: str
    """Value for `cursor` to get the next page; empty on the last one."""


class Authorization(Model):
    """Address at which a person authorizes a connection."""

    authorization_url: str
    """Address that the person opens in a browser."""
    expires_at: datetime
    """Time at which the authorization expires."""


class AutoTopup(Model):
    """Automatic purchases of credits."""

    amount_cents: int | None
    """Amount of a purchase; `null` while disabled."""
    enabled: bool
    """Whether credits are bought automatically."""
    last_topup_status: str | None
    """
    Result of the last automatic purchase: `succeeded`, `processing`, `failed` or `requires_action`; `null` before the
    first one.
    """
    payment_method_saved: bool
    """Whether a card is saved for automatic purchases."""
    threshold_cents: int | None
    """Credits are bought when fewer than this are available; `null` while disabled."""


class Balance(Model):
    """Answer of `GET /v1/organizations/{id}/balance`."""

    available_micros: int
    """Credits available for new runs: the balance without what is reserved, at least 0."""
    balance_micros: int
    """Credits of the organization. Negative where credits that were spent were taken back."""
    reserved_micros: int
    """Credits reserved for runs that are not settled."""


class BeginConsoleSession(Model):
    """Body of `POST /v1/console/sessions`: a key or a code."""

    code: str | None = None
    """Code of `POST /v1/console/codes`."""
    key: str | None = None
    """API key of the engine."""


class BegunConsoleSession(Model):
    """Answer of `POST /v1/console/sessions`."""

    id: str
    """ID of the session."""


class Billing(Balance):
    """Answer of `GET /v1/organizations/{id}/billing`."""

    auto_topup: AutoTopup
    """Automatic purchases."""
    ledger: list[LedgerEntry]
    """The newest movements of credits, at most 100."""
    payment_method: PaymentMethod | None
    payment_method_sync: Literal["synced", "unavailable"] | str
    """State of `payment_method`: `unavailable` does not mean that there is no card."""
    purchase_limits: PurchaseLimits
    """Limits of purchases."""
    stripe_configured: bool
    """Whether the deployment takes payments."""


class Budget(Model):
    """A budget and its window now."""

    available_micros: int
    """Maximum budget of a new run, in micros; 0 where a lowered limit is exceeded."""
    created_at: datetime
    """Time at which the budget was first set."""
    held_micros: int
    """Amount held for the unsettled runs of this window, in micros: the whole budget of each."""
    limit_micros: int
    """Maximum cost of the runs of one window, in micros."""
    period: Literal["day", "month"] | str
    """Length of a window."""
    resets_at: datetime
    """Time at which the next window begins."""
    scope: str
    """Runs that the budget covers."""
    spent_micros: int
    """Cost of the settled runs of this window, in micros."""
    updated_at: datetime
    """Time at which the budget was last set."""


class BudgetReachedEvent(Model):
    """The budget is spent, or its rest does not pay for another call."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: Spent
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["budget_reached"]
    """Type of the event."""


class BudgetWarningEvent(Model):
    """80 % of the budget is spent."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: Spent
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["budget_warning"]
    """Type of the event."""


class Callback(Model):
    """Receiver of the completion callback."""

    secret: str
    """Key of the signature, 1 to 256 characters."""
    url: str
    """http or https, without user info, at most 2,048 characters."""


class CallbackTarget(Model):
    """Receiver of the callbacks of a schedule's runs; the secret is redacted."""

    url: str
    """URL of the receiver."""


class CancelledRuns(Model):
    """Answer of `POST /v1/runs/cancel`."""

    cancelled: int
    """Number of runs that are cancelled now. The others ended before, or it was a dry run."""
    matched: int
    """Number of open runs that matched the filters."""
    next_cursor: str
    """Value for `cursor` to continue; empty if every open run was looked at."""


class ChangePassword(Model):
    """Body of `PUT /v1/me/password`."""

    current_password: str | None = None
    """Password that the account has now. An account without one needs a sign-in of the last ten minutes instead."""
    new_password: str
    """New password: 12 to 72 bytes, hard to guess."""


class ChangeRole(Model):
    """Body of `PATCH /v1/organizations/{id}/members/{user_id}`."""

    role: Literal["member", "admin"] | str
    """New role of the member."""


class Check(Model):
    """Check of one component."""

    found: str
    """Finding, in a sentence."""
    hints: list[str]
    """Problems, each with its remedy."""
    name: str
    """Name of the checked component."""
    verdict: Literal["ok", "warning", "fault"] | str
    """Result of the check."""


class ClientInformation(Model):
    """Registered client (RFC 7591, section 3.2.1)."""

    client_id: str
    """ID that the client sends."""
    client_id_issued_at: int
    """Time of the registration, in seconds since 1970."""
    client_name: str | None = None
    """Name that the client calls itself by."""
    client_secret: str | None = None
    """Secret of a confidential client. It is returned once."""
    client_secret_expires_at: int | None = None
    """End of the secret; 0 as it does not expire."""
    grant_types: list[str]
    """Ways in which the client gets tokens."""
    redirect_uris: list[str]
    """Addresses that a browser may bring codes to."""
    response_types: list[str]
    """Responses of the authorization endpoint."""
    token_endpoint_auth_method: str
    """Proof of identity at the token endpoint."""


class ConfirmAuthorization(Model):
    """Body of `POST /v1/connections/{name}/oauth/confirm`."""

    code: str
    """Code that the page shows to the person who has consented. Case, spaces and hyphens do not matter."""


class ConfirmSecondFactor(Model):
    """Body of `POST /v1/auth/me/second-factor/confirm`."""

    code: str
    """Current code of the authenticator: six digits."""


class ConfirmedAuthorization(Model):
    """A confirmed authorization."""

    account: str | None = None
    """Account whose tokens the connection uses now, where the authorization server names it."""
    connection: str
    """Name of the connection."""
    issuer: str | None = None
    """Issuer of the authorization server, where it is known."""
    scope: str | None = None
    """Scopes that were granted, where the server names them."""
    status: Literal["ready", "needs_authorization", "error"] | str
    """Status of the connection: `ready`."""


class Connection(Model):
    """A saved connection. Nothing of it is secret."""

    allowed_methods: list[str] | None = None
    """The only methods the agent may use. Absent: all."""
    allowed_tools: list[str] | None = None
    """The only tools the agent may use. Absent: all."""
    auth: ShownAuth
    """Authentication method, without credentials."""
    command: list[str] | None = None
    """Program that serves the connection, with its arguments."""
    created_at: datetime
    """Time of creation."""
    description: str | None = None
    """Purpose of the connection."""
    env: list[str] | None = None
    """The names of the program's environment variables."""
    error: str | None = None
    """Reason why the connection cannot be used."""
    headers: list[str]
    """The names of the headers that are added."""
    name: str
    """Name of the connection, unique in the organization."""
    status: Literal["ready", "needs_authorization", "error"] | str
    """State of the connection."""
    type: Literal["http", "mcp"] | str
    """Kind of server behind the connection."""
    updated_at: datetime
    """Time of the last change."""
    url: str | None = None
    """URL of the server, without its query."""
    used_by: list[str]
    """Names of the workflows that name the connection, in order: at most the first 20."""


class ConnectionAuth(Model):
    """Authentication method of a connection: `type`, and the fields of that type."""

    authorization_url: str | None = None
    """`oauth`: authorization endpoint. Default, for `mcp`: discovered from the server."""
    client_id: str | None = None
    """
    `oauth`: the client ID that is registered for this engine. Default: the engine registers itself where the
    server allows it.
    """
    client_secret: str | None = None
    """`oauth`: the client secret, if there is one."""
    issuer: str | None = None
    """
    `oauth`: issuer of the authorization server that `client_id` belongs to. The client and its secret go to no
    other. Default: the server that authorized the connection first; beside `authorization_url`, any of its origin.
    """
    name: str | None = None
    """`header`, `query`: the name of the header or parameter."""
    password: str | None = None
    """`basic`: the password, which may be empty."""
    scopes: list[str] | None = None
    """`oauth`: the scopes to ask for."""
    token: str | None = None
    """`bearer`: the token."""
    token_url: str | None = None
    """`oauth`: token endpoint; sent together with `authorization_url`."""
    type: Literal["none", "bearer", "basic", "header", "query", "oauth"] | str
    """Type of the authentication."""
    username: str | None = None
    """`basic`: the user name, without a colon."""
    value: str | None = None
    """`header`, `query`: the value of the header or parameter."""


class ConnectionCall(Model):
    """Data of `connection_call`."""

    bytes: int
    """Bytes of the answer's body that were read."""
    connection: str
    """The connection's name in the run."""
    duration_ms: int
    """Duration of the call, in milliseconds."""
    method: str
    """The HTTP method, or the method of the MCP request."""
    path: str
    """The path below the connection's URL without its query, or the name of the MCP tool."""
    status: int | None = None
    """The status of the answer; absent where there was none."""


class ConnectionCallEvent(Model):
    """A call through a connection has ended."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: ConnectionCall
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["connection_call"]
    """Type of the event."""


class ConnectionDefinition(Model):
    """Body of `PUT /v1/connections/{name}`: an HTTP API, or an MCP server by `url` or, self-hosted, by `command`."""

    allowed_methods: list[str] | None = None
    """`http`: the only methods the agent may use. Default: all."""
    allowed_tools: list[str] | None = None
    """`mcp`: the only tools the agent may use, by the server's names. Default: all."""
    auth: ConnectionAuth | None = None
    """Authentication method and credentials. Default: `{"type": "none"}`."""
    command: list[str] | None = None
    """`mcp` on a self-hosted engine: the program that serves on its standard input and output, and its arguments."""
    description: str | None = None
    """Purpose of the connection, for people and agents. At most 500 characters."""
    env: dict[str, str] | None = None
    """Environment of `command`, by name. The values are redacted in answers."""
    headers: dict[str, str] | None = None
    """Headers added to every request, by name; at most 32. The values are redacted in answers."""
    type: Literal["http", "mcp"] | str
    """Kind of server behind the connection."""
    url: str | None = None
    """
    Base URL of the API, or the endpoint of the MCP server: http or https, without user info and fragment. A query
    in it is kept secret and added to every request.
    """


class ConnectionTest(Model):
    """Result of a connection test."""

    detail: str
    """Finding, in a sentence."""
    duration_ms: int
    """Duration of the test, in milliseconds."""
    http_status: int | None = None
    """`http`: the status of the answer."""
    protocol_version: str | None = None
    """`mcp`: the revision of the protocol that the server speaks."""
    status: Literal["ready", "needs_authorization", "error"] | str
    """State of the connection after the test."""
    tools: list[str] | None = None
    """`mcp`: the tools that the server offers, by its own names."""


class ConsoleInfo(Model):
    """Answer of `GET /v1/console`."""

    mode: Literal["hosted", "self-hosted"] | str
    """The deployment mode."""
    sign_in_url: str | None = None
    """Path of the page where people sign in; absent if every sign-in needs a key."""
    version: str
    """Version of the engine."""


class ConsoleSession(Model):
    """Session of a browser. Its token is in the cookie only."""

    expires_at: datetime
    """End of the session. A session of an API key that is used ends later, at most seven days after the sign-in."""
    id: str
    """ID of the session."""


class ContextCompactedEvent(Model):
    """The conversation came near the model's window and was shortened."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: ContextCompactedEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["context_compacted"]
    """Type of the event."""


class ContextCompactedEventData(Model):
    after_tokens: int
    """Estimated tokens of the conversation afterwards."""
    before_tokens: int
    """Estimated tokens of the conversation before."""


class CreateCheckout(Model):
    """Body of `POST /v1/organizations/{id}/billing/checkout`."""

    amount_cents: int
    """Amount to pay, in cents."""
    save_payment_method: bool | None = False
    """Whether the card is saved for later purchases. Default: `false`."""


class CreateDeployment(Model):
    """Body of `POST /v1/organizations/{id}/deployments`."""

    machine_id: str | None = None
    """
    ID of the installation, as `sortie license` shows it there. Default: a new one, which the installation then needs
    as `license.machine_id`.
    """
    name: str
    """Name of the deployment, for people. 1 to 200 characters after trimming, without control and invisible characters."""


class CreateInvitation(Model):
    """Body of `POST /v1/organizations/{id}/invitations`."""

    email: str
    """Email address of the person to invite."""
    role: Literal["member", "admin"] | str
    """Role of the person once the invitation is accepted."""


class CreateKey(Model):
    """Body of `POST /v1/admin/keys`."""

    expires_at: datetime | None = None
    """Time at which the key expires; must be in the future. Absent: the key works until it is revoked."""
    name: str
    """Name of the key: its purpose, for people. 1 to 200 characters after trimming, without control and invisible characters."""
    role: Literal["member", "admin"] | str | None = None
    """`member` (the default) or `admin`."""


class CreateLicenseCheckout(Model):
    """Body of `POST /v1/organizations/{id}/license/checkout`."""

    plan: str
    """Name of the plan, as `GET /v1/organizations/{id}/license` lists it."""


class CreateRunToken(Model):
    """Body of `POST /v1/runs/{id}/tokens`."""

    may: list[Literal["read", "cancel"] | str] | None = None
    """Permissions of the token. Default: `["read"]`."""
    ttl_seconds: int
    """Time for which the token is valid, in seconds."""


class CreateSchedule(Model):
    """Body of `POST /v1/schedules`."""

    callback: Callback | None = None
    """Receiver of a signed request that is sent when a run is final."""
    catch_up_window_seconds: int | None = None
    """
    Maximum delay of an occurrence that still starts a run, in seconds. Missed occurrences within it become one run.
    Default 3600; 0 is never.
    """
    cron: str
    """
    Cron expression: minute, hour, day of month, month and day of week, or `@hourly`, `@daily`, `@weekly`,
    `@monthly`, `@yearly`.
    """
    enabled: bool | None = None
    """Whether the schedule is enabled. A disabled schedule does not fire. Default `true`."""
    input: Any | None = None
    """Task data of every run, kept as sent. At most 1 MiB."""
    jitter_seconds: int | None = None
    """Maximum jitter in seconds. Each schedule uses a fixed offset between 0 and this value. Default 0."""
    max_consecutive_failures: int | None = None
    """Number of consecutive runs without success after which the schedule is disabled. Default: never."""
    max_cost_micros: int | None = None
    """Budget of each run in micros, as in a run request."""
    name: str | None = None
    """Name of the schedule, for people: 1 to 200 characters."""
    overlap: Literal["allow", "skip", "queue_one", "cancel_other"] | str | None = None
    """Rule for occurrences that come while an earlier run is not final. Default `allow`."""
    paused_until: datetime | None = None
    """Occurrences before this time are skipped."""
    timezone: str | None = None
    """The IANA time zone of `cron`. Default `UTC`."""
    workflow: str
    """Name of the saved workflow that the runs start from."""


class CreateUser(Model):
    """Body of `POST /v1/operator/users`."""

    email: str
    """Email address of the person."""
    name: str
    """Name of the person: 1 to 200 characters after trimming, without control and invisible characters."""


class CreatedConsoleCode(Model):
    """Answer of `POST /v1/console/codes`."""

    code: str
    """Code that begins one session with the role of the key."""
    expires_at: datetime
    """Time at which the code stops working."""


class CreatedDeployment(Model):
    """Answer of `POST /v1/organizations/{id}/deployments`: the only time the license token is shown."""

    created_at: datetime
    """Time of the creation."""
    expires_at: datetime
    """End of the license."""
    id: str
    """ID of the deployment."""
    machine_id: str
    """ID of the installation, which alone accepts the license."""
    monthly_runs: int
    """Runs in a calendar month, in UTC."""
    name: str
    """Name of the deployment, for people."""
    token: str
    """License token, for `PUT /v1/admin/license` of the installation."""


class CreatedKey(Model):
    """Answer of `POST /v1/admin/keys` and of a rotation: the only time the secret is shown."""

    expires_at: datetime | None = None
    """Time at which the key expires; absent for a key that does not."""
    id: str
    """ID of the key."""
    key: str
    """The secret to send as `Authorization: Bearer`."""
    name: str
    """Name of the key: its purpose, for people."""
    previous_until: datetime | None = None
    """After a rotation: time until which the previous secret works."""
    role: Literal["member", "admin", "owner"] | str
    """Role of the key."""


class CreatedRunToken(Model):
    """Answer of `POST /v1/runs/{id}/tokens`: the only time the token is shown."""

    expires_at: datetime
    """Time at which it expires. It ends earlier if the API key that made it is revoked."""
    may: list[Literal["read", "cancel"] | str]
    """Permissions of the token."""
    run_id: str
    """ID of the run."""
    token: str
    """The token, a bearer credential."""


class CreatedUser(Model):
    """Answer of `POST /v1/operator/users`: the account, and the page at which its person sets a password."""

    reset_link: ResetLink
    """Link for the person."""
    user: OperatedUser
    """The account."""


class DeleteOrganization(Model):
    """Body of `DELETE /v1/organizations/{id}`."""

    name: str
    """Name of the organization, as the confirmation."""
    password: str | None = None
    """Password of the account. An account without one needs a sign-in of the last ten minutes instead."""


class DeleteUser(Model):
    """Body of `DELETE /v1/auth/me`."""

    password: str | None = None
    """Password of the account. An account without one needs a sign-in of the last ten minutes instead."""


class Delivery(Model):
    """Completion callback of a finished run."""

    attempts: int
    """Number of attempts so far."""
    error: str | None = None
    """Reason why the last attempt failed; absent after a success."""
    last_attempt_at: datetime | None = None
    """Time at which the last attempt began."""
    next_at: datetime | None = None
    """Time at which the next attempt is due; absent if there is none, and while an attempt is under way."""
    receiver: str
    """Host and port of the receiver."""
    run_id: str
    """ID of the run."""
    state: Literal["pending", "retrying", "delivered", "abandoned"] | str
    """State of the delivery."""
    status: int | None = None
    """The HTTP status of the last answer; absent where there was none."""


class DeliveryAttempt(Model):
    """Attempt to deliver a run's completion callback."""

    at: datetime
    """Time at which the attempt began."""
    attempt: int
    """Number of the attempt within the run, from 1."""
    duration_ms: int
    """Duration of the attempt, in milliseconds."""
    error: str | None = None
    """Reason of the failure; absent after a success."""
    next_at: datetime | None = None
    """
    Time of the next attempt, as scheduled at the end of this one. Absent after a success, and on the last attempt
    before the delivery was abandoned.
    """
    status: int | None = None
    """The HTTP status of the answer; absent where there was none."""


class DeliveryPage(Model):
    """Page of deliveries, of the newest run first."""

    items: list[Delivery]
    """The deliveries."""
    next_cursor: str
    """Value for `cursor` to get the next page; empty on the last one."""


class Deployment(Model):
    """Self-hosted installation that an organization has licensed."""

    created_at: datetime
    """Time of the creation."""
    created_by: str
    """Person who added the deployment."""
    ended_at: datetime | None = None
    """Time at which the deployment was deleted. Its license works until `expires_at`. Absent for one in use."""
    expires_at: datetime
    """End of the license."""
    id: str
    """ID of the deployment."""
    machine_id: str
    """ID of the installation, which alone accepts the license."""
    monthly_runs: int
    """Runs in a calendar month, in UTC."""
    name: str
    """Name of the deployment, for people."""


class EnrolSecondFactor(Model):
    """Body of `POST /v1/auth/me/second-factor`."""

    password: str | None = None
    """Password of the account. An account without one needs a sign-in of the last ten minutes instead."""


class Entitlement(Model):
    """Entitlement of an organization to licenses."""

    deployments: int
    """Maximum number of deployments."""
    deployments_used: int
    """Deployments in use."""
    monthly_runs: int
    """Runs in a calendar month, in UTC, for each deployment."""
    period_end: datetime
    """End of the licenses that are issued. From then on no deployment can be added."""
    plan: str | None = None
    """Name of the plan; absent for a grant of the operator."""
    source: Literal["operator", "stripe"] | str
    """Origin of the entitlement."""
    state: Literal["active", "past_due", "ended"] | str
    """State of the entitlement."""


class ErrorBody(Model):
    """The body of every failure."""

    code: Literal["invalid_request", "unauthorized", "second_factor_required", "payment_required", "forbidden", "not_found", "method_not_allowed", "conflict", "gone", "precondition_failed", "payload_too_large", "range_not_satisfiable", "rate_limited", "internal", "unavailable"] | str
    """The machine-readable name."""
    error: str
    """Message for people: the field, its mistake and the rule."""


class ExportedChange(Model):
    """Change that a person made in an organization."""

    entry: AuditEntry
    """Entry of the audit log of the organization."""
    organization_id: str
    """The organization."""


class ExportedGrant(Model):
    """Permission that a person has given to an application."""

    client_id: str
    """ID of the application."""
    client_name: str
    """Name that the application gave itself."""
    created_at: datetime
    """Time of the permission."""
    expires_at: datetime
    """End of the permission."""
    id: str
    """ID of the permission."""
    organization_id: str
    """Organization in which the application may act."""
    scope: Literal["member", "admin", "owner"] | str
    """Highest role of the application."""


class Features(Model):
    """Features of a deployment, as it is configured."""

    console: bool
    """Whether the web console is enabled, at `/console/`."""
    mail: bool
    """Whether the deployment sends mail, such as invitations."""
    payments: bool
    """Whether organizations can buy credits."""
    sign_up: Literal["open", "verify_first", "invited", "closed"] | str | None = None
    """Rule for new accounts of people. Absent on a self-hosted engine."""
    trace_url: str | None = None
    """
    Address of a trace in the operator's tracing tool: replace `{trace_id}` by the `trace_id` of a run. Absent if none is
    configured.
    """


class File(Model):
    """A saved file."""

    content_type: str
    """Media type: as sent, else from the name."""
    created_at: datetime
    """Time at which the file was saved."""
    id: str
    """ID of the file."""
    name: str
    """Name of the file, unique in the organization."""
    sha256: str
    """SHA-256 of the content, in lowercase hexadecimal."""
    size: int
    """Size in bytes."""
    used_by: list[str]
    """Names of the workflows that name the file, by ID or by name, in order: at most the first 20."""


class FileForm(Model):
    """File to upload, and optionally a name for it."""

    file: bytes
    """The content. Its `filename` is the name, where `name` is not sent."""
    name: str | None = None
    """
    The name: 1 to 255 bytes, no `/`, no control or invisible character, not `.` or `..`, not in the form of a
    file's id.
    """


class FilePage(Model):
    """Page of files, newest first."""

    items: list[File]
    """The files."""
    next_cursor: str
    """Value for `cursor` to get the next page; empty on the last one."""


class FileList(RootModel[list[File] | FilePage]):
    root: list[File] | FilePage
    """Files as a plain list, or a page of them."""


class Fire(Model):
    """Outcome of an occurrence of a schedule, or of many in a row that were missed at once."""

    instant: datetime
    """Scheduled time of the occurrence, without jitter; for a manual trigger, its time."""
    instants: int | None = None
    """Number of occurrences that this entry stands for; absent for one."""
    last_instant: datetime | None = None
    """Scheduled time of the last of them."""
    outcome: Literal["started", "waiting", "skipped"] | str
    """Outcome of the occurrence."""
    reason: str | None = None
    """
    Reason why the occurrence was skipped: `overlap`, `paused`, `missed`, `coalesced`, `failures`, `disabled`,
    `budget`, `credits`, `suspended`, or `invalid: ` and the rule that the request of its run broke.
    """
    recorded_at: datetime
    """Time at which the entry was recorded."""
    run_id: str | None = None
    """ID of the run that the occurrence started."""
    schedule_id: str | None = None
    """ID of the schedule; only in the history of all schedules."""
    trigger: Literal["timetable", "manual"] | str
    """Trigger of the occurrence."""


class FirePage(Model):
    """Page of the history of one schedule or of all, newest first."""

    items: list[Fire]
    """The occurrences."""
    next_cursor: str
    """Value for `cursor` to get the next page; empty on the last one."""


class ForgotPassword(Model):
    """Body of `POST /v1/auth/forgot-password`."""

    email: str
    """Email address of the person."""


class Grant(Model):
    """Application that acts for a person in an organization."""

    client_id: str
    """ID of the application."""
    client_name: str
    """Name that the application calls itself by."""
    created_at: datetime
    """Time at which the person allowed it."""
    expires_at: datetime
    """End of the access."""
    id: str
    """ID of the grant."""
    organization: GrantedOrganization
    """Organization in which the application acts."""
    scope: Literal["member", "admin", "owner"] | str
    """Highest role of the application: `member` or `admin`."""
    used_at: datetime
    """Time at which the application last got tokens."""


class GrantLicense(Model):
    """Body of `PUT /v1/operator/organizations/{id}/license`."""

    deployments: int
    """Maximum number of deployments: 0 to 1000."""
    expires_at: datetime | None = None
    """End of the licenses that are issued; must be in the future. Default: in 365 days."""
    monthly_runs: int
    """Runs in a calendar month, in UTC, for each deployment: 0 to 1000000000000."""


class GrantedOrganization(Model):
    """Organization of a grant."""

    id: str
    """ID of the organization."""
    name: str
    """Name of the organization."""


class Health(Model):
    """The state of the node."""

    status: str
    """`ok`."""


class InterruptedEvent(Model):
    """The worker was lost and the run cannot go on, or the node was stopped."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: InterruptedEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["interrupted"]
    """Type of the event."""


class InterruptedEventData(Model):
    id: str | None = None
    """With `uncertain_call`: the id of that call, as in its `tool_start`."""
    reason: str
    """`worker_lost`, `shutdown` or `uncertain_call`."""
    step: int
    """The turn it was in; 0 if it is not known."""
    tool: str | None = None
    """With `uncertain_call`: the tool whose call was under way and may have had its effect."""


class Invitation(Model):
    """Invitation that has not been accepted."""

    created_at: datetime
    """Time of the invitation."""
    email: str
    """Email address of the person who is invited."""
    expires_at: datetime
    """End of the invitation, seven days later."""
    id: str
    """ID of the invitation."""
    invited_by: str
    """ID of the person who invites."""
    role: Literal["member", "admin", "owner"] | str
    """Role of the person once the invitation is accepted."""


class CreatedInvitation(Invitation):
    """Answer of `POST /v1/organizations/{id}/invitations`: the only time the token is shown."""

    email_delivery: Literal["accepted", "unavailable", "failed"] | str
    """Outcome of the mail to the person. Share `url` privately unless it is `accepted`."""
    token: str
    """Token that accepts the invitation, for the person with this email address."""
    url: str
    """Page that accepts the invitation, to share with the person."""


class KeepArtifact(Model):
    """Request to keep an artifact of a run as a saved file."""

    name: str
    """
    The file's name: 1 to 255 bytes, no `/`, no control or invisible character, not `.` or `..`, not in the form of
    a file's id.
    """
    path: str
    """Path of the artifact, as in the run object."""
    run: str
    """The run."""


class KnownService(Model):
    """Well-known service that can be connected by name and credential alone."""

    auth: ShownAuth
    """Authentication method of the service."""
    name: str
    """Suggested name of the connection."""
    type: Literal["http", "mcp"] | str
    """Kind of server."""
    url: str
    """URL of the server."""


class LedgerCheck(Model):
    """Page of a check of the ledger."""

    differences: list[LedgerDifference]
    """Breaches of the rules. Each is a defect."""
    next_cursor: str
    """Value for `cursor` to check the next organizations; empty on the last page."""
    organizations: int
    """Number of organizations that were checked."""
    runs: int
    """Number of runs that were checked."""


class LedgerDifference(Model):
    """Breach of a rule of the ledger. Amounts are in micros."""

    expected_micros: int
    """Amount by the ledger, the runs and the payments; for `cost` the most that the run may cost."""
    found_micros: int
    """Amount that was found."""
    organization_id: str
    """The organization."""
    payment_id: str | None = None
    """Payment that breaks the rule; absent for another rule, and for entries of the ledger that name no payment."""
    rule: str
    """Rule that does not hold: `balance`, `reserved`, `charge`, `cost`, `purchase`, `taken_back` or `readable`."""
    run_id: str | None = None
    """Run that breaks the rule; absent for a rule of the whole organization or of payments."""


class LedgerEntry(Model):
    """Movement of credits. Entries are never changed."""

    amount_micros: int
    """Micros that were added to the balance; negative where they were taken."""
    created_at: datetime
    """Time of the movement."""
    description: str
    """Text for people."""
    kind: Literal["charge", "purchase", "refund", "refund_failed", "dispute", "dispute_won", "grant", "correction"] | str
    """Kind of the movement. New kinds may be added."""
    payment_id: str | None = None
    """Payment that the movement belongs to; absent where there is none."""
    run_id: str | None = None
    """Run that was charged; absent for other movements."""
    topup_id: str | None = None
    """Purchase that the movement belongs to; absent where there is none."""


class LedgerPage(Model):
    """Page of the ledger, newest first."""

    ledger: list[LedgerEntry]
    """The movements."""
    next_cursor: str
    """Value for `cursor` to get the next page; empty on the last one."""


class License(Model):
    """Answer of `GET` and `PUT /v1/admin/license`."""

    deployment_id: str | None = None
    """Deployment that the license is for; absent without a license."""
    expires_at: datetime | None = None
    """End of the license; absent without a license."""
    grace_until: datetime | None = None
    """Time from which on an expired license allows no runs, 14 days after `expires_at`; absent without a license."""
    licensed: bool
    """Whether the engine has a license. Without one it has no monthly allowance to use up."""
    machine_id: str
    """ID of the installation that a license is issued for, the same on every node of one database."""
    monthly_runs: int | None = None
    """Runs that the license allows in a calendar month, in UTC; absent without a license."""
    name: str | None = None
    """Name of the deployment; absent without a license."""
    organization: str | None = None
    """Organization that has the license, on the deployment that issued it; absent without a license."""
    resets_at: datetime
    """Time at which the next month begins and `runs_used` starts from zero."""
    runs_used: int
    """Runs that were created in this month, in UTC; with a license, those that were created under one."""


class LicenseKey(Model):
    """Answer of `GET /v1/operator/license-key`: the key that verifies the licenses of this deployment."""

    id: str
    """ID of the key, as the footer of a token names it."""
    public_key: str
    """Public key, for `license.public_keys` of self-hosted engines."""


class LicensePlan(Model):
    """Plan of licenses that can be bought as a subscription. Its price is on the page of the payment provider."""

    deployments: int
    """Maximum number of deployments."""
    monthly_runs: int
    """Runs in a calendar month, in UTC, for each deployment."""
    name: str
    """Name of the plan."""


class LinkedIdentity(Model):
    """Account of a person at an identity provider, with which the person signs in."""

    created_at: datetime
    """Time of the first sign-in with it."""
    id: str
    """ID of the identity: 32 hexadecimal characters of a hash of `issuer` and `subject`."""
    issuer: str
    """Issuer of the provider."""
    subject: str
    """Name of the account there (`sub`)."""


class LogIn(Model):
    """Body of `POST /v1/auth/login`."""

    code: str | None = None
    """Code of the authenticator, or a recovery code; needed where the account has a second factor."""
    email: str
    """Email address of the person."""
    password: str
    """Password of the person."""


class Login(Model):
    """Answer to a sign-in."""

    organizations: list[Organization]
    """Organizations of the person."""
    token: str
    """Token of the session: send it as `Authorization: Bearer`. Works for 30 days. Only this answer shows it."""
    user: User
    """The person."""


class MasterKeys(Model):
    """Answer of `GET /v1/admin/master-key` and `GET /v1/operator/master-key`: a page of sealed values, and the keys of each node."""

    keys: list[str]
    """IDs of the keys of the node that answers. The node seals with the first key and opens with all of them."""
    next_cursor: str
    """Continues the list; empty on the last page."""
    nodes: list[NodeKeys]
    """Keys of every node whose lease has not expired."""
    sealed: list[SealedValues]
    """Number of values of this page for each key. The sum over all pages is the total."""


class MessageDelta(Model):
    """Data of `message_delta`: text that the model is writing."""

    step: int
    """The turn, from 1."""
    text: str
    """The next piece of the text. The whole text follows as `message`; after a `retry` it restarts."""


class MessageEvent(Model):
    """Text of the assistant in one turn."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: MessageEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["message"]
    """Type of the event."""


class MessageEventData(Model):
    step: int
    """The turn, from 1."""
    text: str
    """The text."""


class MessageStart(Model):
    """Data of `message_start`: a model call begins."""

    model: str
    """ID of the model that is called."""
    step: int
    """The turn, from 1."""


class ModelCall(Model):
    """Data of `model_call`."""

    cache_read_tokens: int
    """Tokens read from the provider's cache."""
    cache_write_tokens: int
    """Tokens written to the provider's cache."""
    cost_micros: int
    """Cost of the call."""
    duration_ms: int
    """Duration of the call, in milliseconds."""
    input_tokens: int
    """Tokens read, without those from a cache."""
    model: str
    """The model's id."""
    output_tokens: int
    """Tokens written."""
    step: int
    """The turn, from 1."""
    stop_reason: str
    """
    Reason why the model stopped: `end_turn`, `tool_use`, `max_tokens`, `refusal`; `error` where the call failed, and
    `given_up` where the run did not wait for its end: the figures are then estimated.
    """


class ModelCallEvent(Model):
    """A model call has ended."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: ModelCall
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["model_call"]
    """Type of the event."""


class ModelCatalog(Model):
    """The models runs can use now."""

    default_model: str
    """The model of a run that names none."""
    models: list[ModelInfo]
    """Every usable model."""


class ModelInfo(Model):
    """Model of the catalog."""

    capabilities: list[str]
    """Capabilities of the model: `tools`, `structured_output`, `thinking`, `offline`."""
    context_window: int
    """Maximum tokens of a request and its answer together."""
    id: str
    """ID of the model, as a run's `model` takes it."""
    max_output_tokens: int
    """Maximum tokens of one answer."""
    name: str
    """Display name of the model."""
    prices: ModelPrices
    """Prices of the model."""
    provider: str
    """Name of the provider."""


class ModelPrices(Model):
    """Prices in micros per million tokens."""

    cache_read_micros_per_mtok: int
    """Price of tokens read from the provider's cache."""
    cache_write_micros_per_mtok: int
    """Price of tokens written to the provider's cache."""
    input_micros_per_mtok: int
    """Price of tokens read."""
    output_micros_per_mtok: int
    """Price of tokens written."""


class MoveCredits(Model):
    """Body of `POST /v1/operator/organizations/{id}/credits`."""

    amount_micros: int
    """Micros to add to the balance, up to a million dollars. Only a correction may be negative."""
    kind: Literal["grant", "correction"] | str | None = "grant"
    """Kind of the movement. Default: `grant`."""
    reason: str
    """Reason, which the organization sees in its ledger: 1 to 500 characters."""
    reference: str
    """Idempotency reference: a repetition moves no credits. 1 to 200 characters."""


class NextFire(Model):
    """Occurrence to come."""

    instant: datetime
    """Scheduled time of the occurrence, without jitter."""
    run_at: datetime
    """Time at which the run starts: later than `instant` by the schedule's jitter."""


class Node(Model):
    """Node: a process that works on runs, or did until it was lost."""

    address: str | None = None
    """Address at which other nodes reach this one; absent where they cannot."""
    id: str
    """ID of this start of the node: new at each start, and after the node was declared lost. Decimal digits."""
    lease_until: datetime
    """End of the node's lease. The node renews it every few seconds and keeps its runs until then."""
    name: str
    """Name of the node, the same at each start."""
    runs_at_work: int
    """Number of runs that the node holds, with those that are cancelled and not settled yet."""
    started_at: datetime
    """Time at which the node started."""
    state: Literal["ready", "draining", "lost"] | str
    """State of the node."""
    version: str | None = None
    """Version of the node's program; absent for versions older than this field."""


class NodeChecks(Model):
    """Answer of `GET /v1/admin/checks` and `GET /v1/operator/checks`: the findings of the node that answers."""

    checks: list[Check]
    """Checks of the node."""
    node: str
    """The node's name."""
    version: str
    """Version of the node's program."""


class NodeKeys(Model):
    """The keys of a node."""

    keys: list[str]
    """IDs of the node's keys, the one that seals first."""
    name: str
    """The node's name."""


class OauthErrorBody(Model):
    """Error of an OAuth endpoint (RFC 6749, section 5.2)."""

    error: str
    """Machine-readable name of the error."""
    error_description: str
    """Parameter and the rule that it breaks."""


class OperatedOrganization(Model):
    """Organization of the deployment."""

    created_at: datetime
    """Time of the creation."""
    deleted_at: datetime | None = None
    """Time at which the owner deleted the organization; absent where not."""
    id: str
    """ID of the organization."""
    members: int
    """Number of members, with the owner."""
    name: str
    """Name of the organization."""
    owner: OperatedOwner | None = None
    """Owner of the organization; absent where no person owns it."""
    stored_bytes: int
    """Bytes of files and artifacts that the organization has stored."""
    suspended_at: datetime | None = None
    """Time of the suspension; absent while the organization is not suspended."""
    suspension_reason: str | None = None
    """Reason of the suspension; absent where none was given."""


class OperatedOrganizationPage(Model):
    """Page of organizations, in the order of their ids."""

    items: list[OperatedOrganization]
    """The organizations."""
    next_cursor: str
    """Value for `cursor` to get the next page; empty on the last one."""


class OperatedOwner(Model):
    """Owner of an organization."""

    email: str
    """Email address of the person."""
    id: str
    """ID of the person."""


class OperatedUser(Model):
    """Person with an account."""

    created_at: datetime
    """Time at which the account was made."""
    disabled_at: datetime | None = None
    """Time since which the person cannot sign in; absent for everybody else."""
    email: str
    """Email address of the person."""
    email_verified: bool
    """Whether the person has proved that the address is theirs."""
    id: str
    """ID of the person."""
    name: str
    """Name of the person."""


class OperatedUserPage(Model):
    """Page of people, in the order of their ids."""

    items: list[OperatedUser]
    """The people."""
    next_cursor: str
    """Value for `cursor` to get the next page; empty on the last one."""


class Organization(Model):
    """Organization of the person who asks."""

    id: str
    """ID of the organization."""
    name: str
    """Name of the organization."""
    role: Literal["member", "admin", "owner"] | str
    """Role of the person in the organization."""
    suspended: bool | None = None
    """Whether the operator has suspended the organization; absent where not."""


class OrganizationInfo(Model):
    """Answer of `GET /v1/me`."""

    compute_micros_per_second: int
    """Compute price per second of a run, in micros."""
    default_max_cost_micros: int
    """Budget of a run that names none, in micros."""
    features: Features
    """Features of the deployment, as it is configured."""
    key_id: str | None = None
    """ID of the API key."""
    key_name: str | None = None
    """Name of the API key."""
    mode: Literal["hosted", "self-hosted"] | str
    """The deployment mode."""
    organization_id: str
    """The organization of the credential."""
    organization_name: str
    """Name of the organization."""
    role: Literal["member", "admin", "owner"] | str
    """The credential's role."""
    version: str
    """Version of the engine."""


class OrganizationLicense(Model):
    """Answer of `GET /v1/organizations/{id}/license`."""

    entitlement: Entitlement | None
    plans: list[LicensePlan] | None = None
    """Plans that can be bought with `POST /v1/organizations/{id}/license/checkout`. Absent where none can."""


class OrganizationMember(Model):
    """Member of an organization."""

    avatar_url: str | None = None
    """Address of the person's picture; absent where there is none."""
    email: str
    """Email address of the person."""
    id: str
    """ID of the person."""
    name: str
    """Name of the person."""
    role: Literal["member", "admin", "owner"] | str
    """Role of the person in the organization."""


class OrganizationName(Model):
    """Body of `POST /v1/organizations` and `PATCH /v1/organizations/{id}`."""

    name: str
    """Name of the organization: 1 to 200 characters after trimming, without control and invisible characters."""


class OutputRejectedEvent(Model):
    """An answer did not match `output_schema`."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: OutputRejectedEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["output_rejected"]
    """Type of the event."""


class OutputRejectedEventData(Model):
    attempt: int
    """Number of the answer, from 1."""
    errors: list[str]
    """Mismatches, as in the error message."""


class OutputTruncatedEvent(Model):
    """The final answer was longer than the limit."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: OutputTruncatedEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["output_truncated"]
    """Type of the event."""


class OutputTruncatedEventData(Model):
    limit_bytes: int
    """The limit, in bytes."""
    output_bytes: int
    """The whole answer, in bytes."""


class Payment(Model):
    """Payment of a purchase of credits."""

    amount_cents: int
    """Amount that was paid, in cents."""
    created_at: datetime
    """Time of the payment."""
    disputed_cents: int
    """Cents in disputes of the cardholder that are open or lost."""
    id: str
    """ID of the payment."""
    receipt_endpoint: str
    """Path of the operation that returns the receipt."""
    refund_status: Literal["none", "partial", "full"] | str
    """Part of the payment that was refunded."""
    refunded_cents: int
    """Cents that were refunded."""
    topup_id: str
    """Purchase that was paid."""


class PaymentMethod(Model):
    """Saved card."""

    brand: str
    """Brand of the card."""
    exp_month: int
    """Month of its end."""
    exp_year: int
    """Year of its end."""
    last4: str
    """Last four digits of its number."""
    source: str
    """Page on which the card was saved: `checkout` or `portal`."""


class PaymentPage(Model):
    """Page of payments, newest first."""

    next_cursor: str
    """Value for `cursor` to get the next page; empty on the last one."""
    payments: list[Payment]
    """The payments."""


class PersonSession(Model):
    """Session of a person at a self-hosted engine, as an admin sees it."""

    address: str | None = None
    """Address that the person signed in from; absent where it is not known."""
    agent: str | None = None
    """Name that the client gave itself (`User-Agent`); absent where it gave none."""
    created_at: datetime
    """Time of the sign-in."""
    email: str
    """Email address of the person."""
    expires_at: datetime
    """End of the session."""
    id: str
    """ID of the session."""
    seen_at: datetime
    """Time of a late use; the last one may be an hour later."""
    user_id: str
    """The person."""


class ProviderPage(Model):
    """Page of the payment provider."""

    url: str
    """Address of the page."""


class PurchaseLimits(Model):
    """Limits of purchases, in cents."""

    max_amount_cents: int
    """Greatest amount of a purchase."""
    min_amount_cents: int
    """Least amount of a purchase."""
    min_threshold_cents: int
    """Least threshold of automatic purchases."""


class PutAutoTopup(Model):
    """Body of `PUT /v1/organizations/{id}/billing/auto-topup`."""

    amount_cents: int | None = None
    """Amount of a purchase in cents."""
    consent: bool | None = None
    """Whether the signed-in person agrees that the saved card is charged without being asked again. Must be `true`."""
    enabled: bool
    """Whether credits are bought automatically. The other fields are needed where they are."""
    threshold_cents: int | None = None
    """Credits are bought when fewer than this are available, in cents."""


class PutBudget(Model):
    """Body of `PUT /v1/budgets/{scope}`."""

    limit_micros: int
    """Maximum cost of the runs of one window, in micros: 0 to 1000000000000000. With 0 every run is refused."""
    period: Literal["day", "month"] | str
    """Length of a window."""


class PutLicense(Model):
    """Body of `PUT /v1/admin/license`."""

    token: str
    """License token. An organization creates one with a deployment of its own."""


class Readiness(Model):
    """The state of a node that takes runs."""

    degraded: list[str]
    """
    Optional parts that are unavailable. With `storage`, files are refused with 503, and runs that have files or leave
    outputs wait. New names may be added.
    """
    status: str
    """`ok`."""


class RecoveryCodes(Model):
    """Codes that each stand in for the authenticator once."""

    recovery_codes: list[str]
    """The codes. Only this answer shows them."""


class Redelivery(Model):
    """Delivery that is to be repeated."""

    attempt: int
    """The number that the next attempt will have in the list of attempts."""


class RefundPayment(Model):
    """Body of `POST /v1/operator/payments/{id}/refund`."""

    amount_cents: int | None = None
    """Cents to refund. Default: all that is left of the payment."""
    reference: str | None = None
    """Name of the refund: the same one twice is one refund of the payment. Required with `amount_cents`."""


class RemoveSecondFactor(Model):
    """Body of `DELETE /v1/auth/me/second-factor`."""

    code: str
    """Current code of the authenticator, or a recovery code."""
    password: str | None = None
    """Password of the account. An account without one needs a sign-in of the last ten minutes instead."""


class RenameFile(Model):
    """Request for a new name of a file."""

    name: str
    """
    The name: 1 to 255 bytes, no `/`, no control or invisible character, not `.` or `..`, not in the form of a
    file's id.
    """


class Reseal(Model):
    """
    Answer of `POST /v1/admin/master-key/reseal` and `POST /v1/operator/master-key/reseal`: the result for a page of sealed
    values.
    """

    changed_meanwhile: int
    """Values that changed at the same time: they may be sealed with another key."""
    looked_at: int
    """Values that were processed."""
    next_cursor: str
    """Value for `cursor` to get the next page; empty on the last one."""
    resealed: int
    """Values that were sealed again, with the first key of this node."""
    unreadable: int
    """Values that none of the node's keys opens. They are unchanged; the node's log names them."""


class ResetLink(Model):
    """Page at which a person sets a password without the old one."""

    expires_at: datetime
    """Time at which the token expires."""
    url: str
    """Address of the page, with a token that works once. It is shown this once."""


class ResetPassword(Model):
    """Body of `POST /v1/auth/reset-password`."""

    new_password: str
    """New password: 12 to 72 bytes, hard to guess."""
    token: str
    """Token of the mail."""


class ResultEvent(Model):
    """The final answer."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: ResultEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["result"]
    """Type of the event."""


class ResultEventData(Model):
    output: str
    """The answer, cut at 1 MiB."""


class ResumedEvent(Model):
    """The run continues from its last completed step after its worker was lost."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: ResumedEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["resumed"]
    """Type of the event."""


class ResumedEventData(Model):
    attempt: int
    """Number of this attempt at the run, from 2."""
    step: int
    """The last turn that was completed; 0 where it begins again."""


class RetryEvent(Model):
    """Something is tried again."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: RetryEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["retry"]
    """Type of the event."""


class RetryEventData(Model):
    attempt: int
    """The attempt that comes next, from 2."""
    delay_ms: int
    """Wait before the next attempt, in milliseconds."""
    reason: str
    """Reason why the last attempt failed."""
    what: str
    """Operation that is tried again."""


class RotateKey(Model):
    """Body of `POST /v1/admin/keys/{id}/rotate`."""

    grace_seconds: int | None = 3600
    """Time for which the previous secret still works, in seconds: 0 to 604800. Default: 3600."""


class Run(Model):
    """A run as a client sees it."""

    artifacts: list[Artifact] | None = None
    """Files that the run left under `outputs/`, by path; absent where there are none."""
    billing_pending: bool
    """Whether the cost is still to be settled."""
    cost_micros: int | None = None
    """Cost so far, in micros; omitted when zero. Provisional until `billing_pending` is false on a finished run."""
    created_at: datetime
    """Time of creation."""
    error: str | None = None
    """Reason why the run did not succeed."""
    finished_at: datetime | None = None
    """Time at which the run reached a final status."""
    id: str
    """ID of the run."""
    key_id: str | None = None
    """ID of the API key that started the run. Absent if a person, an application or a schedule did."""
    last_event_id: int
    """ID of the last recorded event."""
    max_cost_micros: int
    """Budget of the run, in micros."""
    metadata: dict[str, str] | None = None
    """Metadata of the run: the pairs sent and those of its workflow."""
    model: str | None = None
    """ID of the model that the run uses."""
    output: str | None = None
    """The agent's final answer, at most 1 MiB. Absent until there is one."""
    output_available: bool | None = None
    """Zero-data-retention runs: whether the output is still held for retrieval."""
    output_expires_at: datetime | None = None
    """Zero-data-retention runs: time at which an unread output is deleted."""
    output_read_at: datetime | None = None
    """
    Zero-data-retention runs: time at which the output was read, or delivered to the callback. Absent if the output was
    deleted unread.
    """
    replay_of: str | None = None
    """ID of the run that this one repeats, as sent. That run may be deleted by now."""
    schedule_id: str | None = None
    """ID of the schedule that started the run."""
    started_at: datetime | None = None
    """Time at which the run left the queue."""
    status: Literal["reserving", "queued", "starting", "running", "succeeded", "failed", "cancelled", "timed_out", "interrupted"] | str
    """Current status of the run."""
    surcharge_micros: int | None = None
    """Part of `cost_micros` that the surcharge added; omitted when zero."""
    surcharge_percent: int | None = None
    """Zero-data-retention runs on the hosted service: surcharge in percent."""
    tags: list[str] | None = None
    """Tags of the run, as sent."""
    timeout_seconds: int
    """Time limit from `started_at`, in seconds."""
    title: str | None = None
    """First line of the description, or else of the prompt, at most 120 characters. Absent with zero data retention."""
    trace_id: str | None = None
    """
    Trace that the run belongs to, as W3C Trace Context has it: 32 hexadecimal digits. Absent if the request that started the
    run had no `traceparent` and the engine exports no traces.
    """
    usage: RunUsage | None = None
    """Tokens and calls that the run used so far; absent until it starts."""
    workflow: str | None = None
    """Name of the saved workflow that the run was started from."""
    zero_data_retention: bool
    """Whether the run stores nothing of its content."""


class RunConnection(Model):
    """A connection of a run: a saved one by `ref`, or an inline definition by `type` and `url`."""

    allowed_methods: list[str] | None = None
    """The only HTTP methods the agent may use; beside `ref`, of those the saved connection allows."""
    allowed_tools: list[str] | None = None
    """The only MCP tools the agent may use; beside `ref`, of those the saved connection allows."""
    auth: ConnectionAuth | None = None
    """Authentication of an inline definition, every type but `oauth`. The engine uses it and does not keep it."""
    headers: dict[str, str] | None = None
    """
    Headers added to every request of an inline definition, by name; at most 32. The engine uses the values and does
    not keep them.
    """
    ref: str | None = None
    """Name of a saved connection."""
    type: Literal["http", "mcp"] | str | None = None
    """Kind of an inline definition."""
    url: str | None = None
    """
    Base URL of an inline HTTP API, or the endpoint of an MCP server. User info and query are credentials: the
    engine uses them and does not keep them.
    """


class RunDefinition(Model):
    """Definition that a run used."""

    request: RunRequest
    """The resolved request: defaults filled in, workflow name and callback removed."""
    requires_credentials: list[str]
    """Inline connections whose credentials were not kept."""


class RunFile(Model):
    """A file for the working directory: a saved one by `file`, or its text by `content`; exactly one of the two."""

    content: str | None = None
    """Inline text, UTF-8; all inline contents of a run together at most 8 MiB."""
    file: str | None = None
    """ID or name of a saved file."""
    path: str
    """Path in the working directory: relative, `/`-separated, no `..`, at most 1,024 bytes, unique in the run."""


class RunPage(Model):
    """Page of runs, newest first."""

    items: list[Run]
    """The runs."""
    next_cursor: str
    """Value for `cursor` to get the next page; empty on the last one."""


class RunList(RootModel[list[Run] | RunPage]):
    root: list[Run] | RunPage
    """Runs as a plain list, or a page of them."""


class RunRequest(Model):
    """Body of `POST /v1/runs`."""

    callback: Callback | None = None
    """Receiver of a signed request that is sent when the run is final."""
    connections: dict[str, RunConnection] | None = None
    """APIs and MCP servers the agent may call, keyed by the name it sees. At most 16."""
    description: str | None = None
    """Purpose of the run, for people and agents. At most 500 characters. No effect on the run."""
    effort: Literal["minimal", "low", "medium", "high", "xhigh", "max"] | str | None = (
        None
    )
    """Effort of the model's thinking, mapped to the nearest level that the model has. Default: the model's setting."""
    fallback_model: str | None = None
    """Fallback model, called once if `model` refuses to answer. Must differ from it."""
    files: list[RunFile] | None = None
    """Files staged in the working directory before the agent begins. At most 32."""
    input: Any | None = None
    """Task data passed to the agent as JSON, kept as sent. At most 1 MiB."""
    input_schema: dict[str, Any] | None = None
    """
    A JSON Schema that `input` must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions without
    look-around and back-references, of a limited size.
    """
    instructions: str | None = None
    """
    Instructions that say who the agent is and how it works. The model reads them after the engine's system prompt and
    before the task. Replaces the saved instructions of the workflow; an empty text uses none. At most 64 KiB.
    """
    max_cost_micros: int | None = None
    """Budget in micros. Default: `default_max_cost_micros` of `GET /v1/me`."""
    max_steps: int | None = None
    """Maximum number of model calls; retries do not count. The run fails when it needs more. Default 200."""
    metadata: dict[str, str] | None = None
    """
    Pairs of texts that the run carries and can be found by: at most 16. A key has 1 to 64 characters and no control
    characters, a value at most 512 characters. Pairs sent are added to those of the workflow and replace those with the
    same key.
    """
    model: str | None = None
    """Model ID. Default: `default_model` of `GET /v1/models`."""
    output_schema: dict[str, Any] | None = None
    """
    A JSON Schema that the run's output must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions
    without look-around and back-references, of a limited size.
    """
    prompt: str | None = None
    """The task. Required unless `workflow` is set, whose saved prompt it then replaces. At most 128 KiB."""
    replay_of: str | None = None
    """ID of the run that this one repeats. It is only kept and shown: send the definition of that run as well."""
    shell: bool | None = None
    """Lets the agent run shell commands and write files in its working directory. Default `true`."""
    tags: list[str] | None = None
    """Short texts to find the run by: at most 16, each 1 to 64 characters, none twice."""
    timeout_seconds: int | None = None
    """Time limit from `started_at`, in seconds. Default 300."""
    web: bool | WebRestriction | None = None
    """Lets the agent fetch pages, call public APIs and search. Default off."""
    workflow: str | None = None
    """Name of a saved workflow. Other definition fields sent replace the saved ones whole; only `metadata` is merged."""
    zero_data_retention: bool | None = None
    """Stores nothing of the run's content. Default `false`."""


class RunUsage(Model):
    """Tokens and calls that a run used."""

    cache_read_tokens: int
    """Tokens read from the provider's cache."""
    cache_write_tokens: int
    """Tokens written to the provider's cache."""
    input_tokens: int
    """Tokens read, without those from a cache."""
    model_calls: int
    """Calls of a model that have ended."""
    output_tokens: int
    """Tokens written."""
    tool_calls: int
    """Calls of tools that have ended."""


class Schedule(Model):
    """A schedule."""

    callback: CallbackTarget | None = None
    """Receiver of a signed request that is sent when a run is final."""
    catch_up_window_seconds: int
    """Maximum delay of an occurrence that still starts a run, in seconds."""
    created_at: datetime
    """Time of creation."""
    cron: str
    """Cron expression, as sent."""
    enabled: bool
    """Whether the schedule is enabled."""
    id: str
    """ID of the schedule."""
    input: Any | None = None
    """Task data of every run, kept as sent. At most 1 MiB."""
    jitter_seconds: int
    """Maximum jitter in seconds."""
    last_error: str | None = None
    """Reason why the last occurrence started no run, else why the last run did not succeed."""
    last_run_at: datetime | None = None
    """Time at which the schedule last started a run."""
    last_run_id: str | None = None
    """ID of the run that the schedule started last."""
    max_consecutive_failures: int | None = None
    """Number of consecutive runs without success after which the schedule is disabled."""
    max_cost_micros: int | None = None
    """Budget of each run."""
    name: str | None = None
    """Name of the schedule."""
    next_run_at: datetime | None = None
    """Time at which the next occurrence is processed; absent while the schedule is disabled."""
    overlap: Literal["allow", "skip", "queue_one", "cancel_other"] | str
    """Rule for occurrences that come while an earlier run is not final."""
    paused_until: datetime | None = None
    """Occurrences before this time are skipped."""
    timezone: str
    """The IANA time zone of `cron`."""
    updated_at: datetime
    """Time of the last change by a client."""
    workflow: str
    """Name of the saved workflow that the runs start from."""


class SchedulePage(Model):
    """Page of schedules, newest first."""

    items: list[Schedule]
    """The schedules."""
    next_cursor: str
    """Value for `cursor` to get the next page; empty on the last one."""


class SealedValues(Model):
    """Number of values that are sealed with a key."""

    key: str
    """ID of the key; `unknown` for values that are not sealed at all."""
    place: str
    """Column that holds the values, as `table.column`."""
    values: int
    """Number of values."""


class SecondFactorKey(Model):
    """Key of an authenticator, which waits for its confirmation."""

    secret: str
    """The key in base32, to type it into an authenticator. Only this answer shows it."""
    uri: str
    """The key as an `otpauth` URI, for a QR code."""


class Session(Model):
    """A sign-in of a person that has not ended."""

    address: str | None = None
    """Address that the person signed in from."""
    agent: str | None = None
    """Name that the client gave itself (`User-Agent`)."""
    created_at: datetime
    """Time of the sign-in."""
    current: bool
    """Whether the request came with the token of this session."""
    expires_at: datetime
    """End of the session."""
    id: str
    """ID of the session."""
    kind: Literal["api", "web"] | str
    """Client of the session."""
    seen_at: datetime
    """Time of a late use; the last use may be an hour later."""


class ShownAuth(Model):
    """The kind of a connection's authentication."""

    type: Literal["none", "bearer", "basic", "header", "query", "oauth"] | str
    """Type of the authentication."""


class SignUp(Model):
    """Body of `POST /v1/auth/signup`."""

    email: str
    """Email address of the person. At most 254 bytes."""
    invitation: str | None = None
    """Token of an invitation of the address. A deployment may require one."""
    name: str
    """Name that others see. 1 to 100 characters after trimming, without control and invisible characters."""
    password: str
    """Password of the person: 12 to 72 bytes, hard to guess."""


class Spent(Model):
    """Data of `budget_warning` and `budget_reached`."""

    limit_micros: int
    """The run's budget."""
    spent_micros: int
    """Spent so far."""


class StatusEvent(Model):
    """The run moved to another status."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: StatusEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["status"]
    """Type of the event."""


class StatusEventData(Model):
    error: str | None = None
    """On a final status that is not a success: why."""
    status: Literal["reserving", "queued", "starting", "running", "succeeded", "failed", "cancelled", "timed_out", "interrupted"] | str
    """The new status."""


class SuspendOrganization(Model):
    """Body of `POST /v1/operator/organizations/{id}/suspend`."""

    cancel: bool | None = False
    """Whether runs at work are cancelled too. Default: false, they end normally."""
    reason: str | None = None
    """Reason, for operators: at most 500 characters."""


class ThinkingSummaryEvent(Model):
    """A readable summary of what the model thought in one turn, where its provider gives one."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: ThinkingSummaryEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["thinking_summary"]
    """Type of the event."""


class ThinkingSummaryEventData(Model):
    step: int
    """The turn, from 1."""
    text: str
    """The text."""


class TokenAnswer(Model):
    """Tokens (RFC 6749, section 5.1)."""

    access_token: str
    """Access token, for the `Authorization` header of the engine API."""
    expires_in: int
    """Lifetime of the access token, in seconds."""
    refresh_token: str
    """Refresh token, which works once."""
    scope: Literal["member", "admin", "owner"] | str
    """Scope of the tokens."""
    token_type: str
    """Type of the token: `Bearer`."""


class ToolEnd(Model):
    """Data of `tool_end`."""

    cost_micros: int | None = None
    """Price of the call; left out where it is zero."""
    duration_ms: int
    """Duration of the call, in milliseconds."""
    id: str
    """The call's id."""
    is_error: bool
    """Whether the model was told of a failure."""
    output: str
    """Output that the model was given, cut at [`TOOL_OUTPUT_BYTES`]."""
    output_bytes: int
    """The whole output, in bytes."""
    tool: str
    """The tool's name."""


class ToolEndEvent(Model):
    """A tool has ended."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: ToolEnd
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["tool_end"]
    """Type of the event."""


class ToolOutput(Model):
    """Data of `tool_output`: output that a command is printing."""

    id: str
    """ID of the tool call, as in `tool_start`."""
    text: str
    """The next piece of the output. A slow client misses some; `tool_end` has the recorded output."""


class ToolStartEvent(Model):
    """A tool begins."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: ToolStartEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["tool_start"]
    """Type of the event."""


class ToolStartEventData(Model):
    arguments: dict[str, Any]
    """The arguments, a JSON object."""
    id: str
    """The call's id, the same in `tool_end`."""
    tool: str
    """The tool's name."""


class TransferOwnership(Model):
    """Body of `POST /v1/organizations/{id}/ownership`."""

    user_id: str
    """Member who becomes the owner."""


class UpdateSchedule(Model):
    """Body of `PATCH /v1/schedules/{id}`: what is absent stays, `null` puts an optional field back to its default."""

    callback: Callback | None = None
    catch_up_window_seconds: int | None = None
    """Maximum delay of an occurrence that still starts a run, in seconds; `null` is 3600."""
    cron: str | None = None
    """Cron expression, as in a new schedule."""
    enabled: bool | None = None
    """Whether the schedule is enabled; `null` is `true`. An enabled schedule goes on with its next occurrence."""
    input: Any | None = None
    """Task data of every run, kept as sent. At most 1 MiB."""
    jitter_seconds: int | None = None
    """Maximum jitter in seconds; `null` is 0."""
    max_consecutive_failures: int | None = None
    """Number of consecutive runs without success after which the schedule is disabled; `null` is never."""
    max_cost_micros: int | None = None
    """Budget of each run in micros; `null` leaves it to the workflow and the engine."""
    name: str | None = None
    """Name of the schedule; `null` removes it."""
    overlap: Literal["allow", "skip", "queue_one", "cancel_other"] | str | None = None
    paused_until: datetime | None = None
    timezone: str | None = None
    """The IANA time zone of `cron`; `null` is `UTC`."""
    workflow: str | None = None
    """Name of the saved workflow that the runs start from."""


class UpdateUser(Model):
    """Body of `PATCH /v1/auth/me`."""

    name: str
    """Name that others see. 1 to 100 characters after trimming, without control and invisible characters."""


class Usage(Model):
    """Answer of `GET /v1/usage` and `GET /v1/admin/usage`."""

    by: list[Literal["day", "workflow", "model", "key"] | str]
    """Dimensions by which the rows are grouped."""
    from_: date = Field(..., alias="from")
    """The first day."""
    rows: list[UsageRow]
    """Rows, sorted by dimension; empty if no run matches."""
    to: date
    """The last day."""
    totals: UsageFigures
    """The sums of all rows."""


class UsageFigures(Model):
    """Sums over runs. Runs that are not settled yet count with what they have cost so far."""

    cost_micros: int
    """Cost of the runs."""
    runs: int
    """Runs that were created."""
    succeeded: int
    """Runs that succeeded."""
    usage: RunUsage
    """Tokens and calls that the runs used."""


class UsageRow(Model):
    """Usage of one group of runs. A dimension is absent if it was not requested or the runs have none."""

    cost_micros: int
    """Cost of the runs."""
    day: date | None = None
    """Day on which the runs were created."""
    key_id: str | None = None
    """ID of the key that the runs were started with; it may be deleted by now."""
    model: str | None = None
    """Model of the runs."""
    runs: int
    """Runs that were created."""
    succeeded: int
    """Runs that succeeded."""
    usage: RunUsage
    """Tokens and calls that the runs used."""
    workflow: str | None = None
    """Name of the saved workflow that the runs were started from."""


class User(Model):
    """A person who can sign in."""

    avatar_url: str | None = None
    """Address of the person's picture, which changes with the picture; absent where there is none."""
    created_at: datetime
    """Time of the sign-up."""
    email: str
    """Email address as the person typed it."""
    email_verified: bool
    """Whether the person has proved that the address is theirs."""
    id: str
    """ID of the person."""
    name: str
    """Name that others see."""
    second_factor: bool
    """Whether a sign-in needs a code of an authenticator."""


class VerifyEmail(Model):
    """Body of `POST /v1/auth/verify-email`."""

    token: str
    """Token of the mail."""


class WebRestriction(Model):
    """Restriction of the agent's web access."""

    allow: list[str] | None = None
    """Domains with their subdomains. Absent: every public address."""
    search: bool | None = None
    """Whether the agent may search. Default `true`."""


class WorkerStartedEvent(Model):
    """A worker has the run and its agent begins."""

    created_at: datetime
    """RFC 3339, UTC, millisecond precision."""
    data: WorkerStartedEventData
    id: int
    """Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number."""
    type: Literal["worker_started"]
    """Type of the event."""


class WorkerStartedEventData(Model):
    mode: Literal["hosted", "self-hosted"] | str
    """The deployment mode."""
    runtime: str
    """The isolation level in use: `namespaces`, `landlock`, `none`."""
    shell: bool
    """Whether the agent may run shell commands."""


class Workflow(Model):
    """A saved workflow: its definition as it was saved, with its name, its revision and its times."""

    connections: dict[str, RunConnection] | None = None
    """APIs and MCP servers the agent may call, keyed by the name it sees. At most 16."""
    created_at: datetime
    """Time of creation."""
    description: str | None = None
    """Purpose of the run, for people and agents. At most 500 characters. No effect on the run."""
    effort: Literal["minimal", "low", "medium", "high", "xhigh", "max"] | str | None = (
        None
    )
    """Effort of the model's thinking, mapped to the nearest level that the model has. Default: the model's setting."""
    fallback_model: str | None = None
    """Fallback model, called once if `model` refuses to answer. Must differ from it."""
    files: list[RunFile] | None = None
    """Files staged in the working directory before the agent begins. At most 32."""
    input: Any | None = None
    """Task data passed to the agent as JSON, kept as sent. At most 1 MiB."""
    input_schema: dict[str, Any] | None = None
    """
    A JSON Schema that `input` must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions without
    look-around and back-references, of a limited size.
    """
    instructions: str | None = None
    """
    Instructions that say who the agent is and how it works. The model reads them after the engine's system prompt and
    before the task. Replaces the saved instructions of the workflow; an empty text uses none. At most 64 KiB.
    """
    max_cost_micros: int | None = None
    """Budget in micros. Default: `default_max_cost_micros` of `GET /v1/me`."""
    max_steps: int | None = None
    """Maximum number of model calls; retries do not count. The run fails when it needs more. Default 200."""
    metadata: dict[str, str] | None = None
    """
    Pairs of texts that the run carries and can be found by: at most 16. A key has 1 to 64 characters and no control
    characters, a value at most 512 characters. Pairs sent are added to those of the workflow and replace those with the
    same key.
    """
    model: str | None = None
    """Model ID. Default: `default_model` of `GET /v1/models`."""
    name: str
    """Name of the workflow, unique in the organization."""
    output_schema: dict[str, Any] | None = None
    """
    A JSON Schema that the run's output must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions
    without look-around and back-references, of a limited size.
    """
    prompt: str
    """The task. At most 128 KiB."""
    revision: int
    """Revision of the definition: 1 at first, and one more with each change."""
    shell: bool | None = None
    """Lets the agent run shell commands and write files in its working directory. Default `true`."""
    tags: list[str] | None = None
    """Short texts to find the run by: at most 16, each 1 to 64 characters, none twice."""
    timeout_seconds: int | None = None
    """Time limit from `started_at`, in seconds. Default 300."""
    updated_at: datetime
    """Time of the last change of the definition."""
    web: bool | WebRestriction | None = None
    """Lets the agent fetch pages, call public APIs and search. Default off."""


class WorkflowDefinition(Model):
    """Body of `PUT /v1/workflows/{name}`: the fields of a run request that hold for every run of the workflow."""

    connections: dict[str, RunConnection] | None = None
    """APIs and MCP servers the agent may call, keyed by the name it sees. At most 16."""
    description: str | None = None
    """Purpose of the run, for people and agents. At most 500 characters. No effect on the run."""
    effort: Literal["minimal", "low", "medium", "high", "xhigh", "max"] | str | None = (
        None
    )
    """Effort of the model's thinking, mapped to the nearest level that the model has. Default: the model's setting."""
    fallback_model: str | None = None
    """Fallback model, called once if `model` refuses to answer. Must differ from it."""
    files: list[RunFile] | None = None
    """Files staged in the working directory before the agent begins. At most 32."""
    input: Any | None = None
    """Task data passed to the agent as JSON, kept as sent. At most 1 MiB."""
    input_schema: dict[str, Any] | None = None
    """
    A JSON Schema that `input` must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions without
    look-around and back-references, of a limited size.
    """
    instructions: str | None = None
    """
    Instructions that say who the agent is and how it works. The model reads them after the engine's system prompt and
    before the task. Replaces the saved instructions of the workflow; an empty text uses none. At most 64 KiB.
    """
    max_cost_micros: int | None = None
    """Budget in micros. Default: `default_max_cost_micros` of `GET /v1/me`."""
    max_steps: int | None = None
    """Maximum number of model calls; retries do not count. The run fails when it needs more. Default 200."""
    metadata: dict[str, str] | None = None
    """
    Pairs of texts that the run carries and can be found by: at most 16. A key has 1 to 64 characters and no control
    characters, a value at most 512 characters. Pairs sent are added to those of the workflow and replace those with the
    same key.
    """
    model: str | None = None
    """Model ID. Default: `default_model` of `GET /v1/models`."""
    output_schema: dict[str, Any] | None = None
    """
    A JSON Schema that the run's output must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions
    without look-around and back-references, of a limited size.
    """
    prompt: str
    """The task. At most 128 KiB."""
    shell: bool | None = None
    """Lets the agent run shell commands and write files in its working directory. Default `true`."""
    tags: list[str] | None = None
    """Short texts to find the run by: at most 16, each 1 to 64 characters, none twice."""
    timeout_seconds: int | None = None
    """Time limit from `started_at`, in seconds. Default 300."""
    web: bool | WebRestriction | None = None
    """Lets the agent fetch pages, call public APIs and search. Default off."""


class WorkflowSummary(Model):
    """A workflow in a list."""

    connections: list[str] | None = None
    """With `detail=true`: names of the saved connections that the definition uses."""
    cost_30d_micros: int | None = None
    """With `detail=true`: cost of these runs so far, in micros."""
    description: str | None = None
    """With `detail=true`: purpose of the workflow, where one is set."""
    files: list[str] | None = None
    """With `detail=true`: IDs or names of the saved files that the definition uses, as saved."""
    input_schema: dict[str, Any] | None = None
    """With `detail=true`: the JSON Schema of its `input`, where one is set."""
    model: str | None = None
    """With `detail=true`: ID of the model that is set."""
    name: str
    """Name of the workflow."""
    output_schema: dict[str, Any] | None = None
    """With `detail=true`: the JSON Schema of its runs' output, where one is set."""
    revision: int | None = None
    """With `detail=true`: revision of the definition."""
    runs_30d: int | None = None
    """With `detail=true`: number of runs that were created in the last 30 days, today included, in UTC."""
    updated_at: datetime | None = None
    """With `detail=true`: time of the last change of the definition."""


class UnknownEvent(Model):
    """Event of a type that this version of the client does not know."""

    created_at: datetime
    data: dict[str, Any]
    id: int
    type: str


_EVENT_TYPES = frozenset(["answer_requested", "artifact", "artifact_skipped", "budget_reached", "budget_warning", "connection_call", "context_compacted", "interrupted", "message", "model_call", "output_rejected", "output_truncated", "result", "resumed", "retry", "status", "thinking_summary", "tool_end", "tool_start", "worker_started"])


def _variant(event: Any) -> str:
    kind = event["type"] if isinstance(event, dict) else event.type
    return kind if kind in _EVENT_TYPES else "unknown"


if TYPE_CHECKING:
    # `event.type` selects the class. An event that this version does not know is an `UnknownEvent`.
    Event = AnswerRequestedEvent | ArtifactEvent | ArtifactSkippedEvent | BudgetReachedEvent | BudgetWarningEvent | ConnectionCallEvent | ContextCompactedEvent | InterruptedEvent | MessageEvent | ModelCallEvent | OutputRejectedEvent | OutputTruncatedEvent | ResultEvent | ResumedEvent | RetryEvent | StatusEvent | ThinkingSummaryEvent | ToolEndEvent | ToolStartEvent | WorkerStartedEvent
else:
    Event = Annotated[
        Annotated[UnknownEvent, Tag("unknown")]
        | Annotated[AnswerRequestedEvent, Tag("answer_requested")]
        | Annotated[ArtifactEvent, Tag("artifact")]
        | Annotated[ArtifactSkippedEvent, Tag("artifact_skipped")]
        | Annotated[BudgetReachedEvent, Tag("budget_reached")]
        | Annotated[BudgetWarningEvent, Tag("budget_warning")]
        | Annotated[ConnectionCallEvent, Tag("connection_call")]
        | Annotated[ContextCompactedEvent, Tag("context_compacted")]
        | Annotated[InterruptedEvent, Tag("interrupted")]
        | Annotated[MessageEvent, Tag("message")]
        | Annotated[ModelCallEvent, Tag("model_call")]
        | Annotated[OutputRejectedEvent, Tag("output_rejected")]
        | Annotated[OutputTruncatedEvent, Tag("output_truncated")]
        | Annotated[ResultEvent, Tag("result")]
        | Annotated[ResumedEvent, Tag("resumed")]
        | Annotated[RetryEvent, Tag("retry")]
        | Annotated[StatusEvent, Tag("status")]
        | Annotated[ThinkingSummaryEvent, Tag("thinking_summary")]
        | Annotated[ToolEndEvent, Tag("tool_end")]
        | Annotated[ToolStartEvent, Tag("tool_start")]
        | Annotated[WorkerStartedEvent, Tag("worker_started")]
        ,
        Discriminator(_variant),
    ]


class LiveMessageStart(Model):
    type: Literal["message_start"]
    data: MessageStart


class LiveMessageDelta(Model):
    type: Literal["message_delta"]
    data: MessageDelta


class LiveToolOutput(Model):
    type: Literal["tool_output"]
    data: ToolOutput


LiveMessage = Annotated[LiveMessageStart | LiveMessageDelta | LiveToolOutput, Field(discriminator="type")]
