"""A method for each operation. Made by clients/generate from the OpenAPI documents of the engine."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from .._lazy import LazyModule
from .._request import part, parts
from ._resource import AsyncPages, Resource

if TYPE_CHECKING:
    from typing import Unpack

    from .. import requests, types
    from ._transport import AsyncTransport
else:
    types = LazyModule("sortie_client.types")


class AdminKeys(Resource):
    async def list(self) -> builtins.list[types.ApiKey]:
        """`GET /v1/admin/keys`: list API keys."""
        return await self._call(builtins.list[types.ApiKey], "GET", "/v1/admin/keys")

    async def create(self, **body: Unpack[requests.CreateKey]) -> types.CreatedKey:
        """`POST /v1/admin/keys`: create an API key."""
        return await self._call(types.CreatedKey, "POST", "/v1/admin/keys", body=body, repeatable=False)

    async def delete(self, id: str, /) -> None:
        """`DELETE /v1/admin/keys/{id}`: revoke an API key."""
        await self._bytes("DELETE", f"/v1/admin/keys/{part(id)}")

    async def rotate(self, id: str, /, **body: Unpack[requests.RotateKey]) -> types.CreatedKey:
        """`POST /v1/admin/keys/{id}/rotate`: rotate an API key."""
        return await self._call(types.CreatedKey, "POST", f"/v1/admin/keys/{part(id)}/rotate", body=body, repeatable=False)


class AdminLicense(Resource):
    async def get(self) -> types.License:
        """`GET /v1/admin/license`: get the license."""
        return await self._call(types.License, "GET", "/v1/admin/license")

    async def put(self, **body: Unpack[requests.PutLicense]) -> types.License:
        """`PUT /v1/admin/license`: install a license."""
        return await self._call(types.License, "PUT", "/v1/admin/license", body=body)

    async def delete(self) -> None:
        """`DELETE /v1/admin/license`: delete the license."""
        await self._bytes("DELETE", "/v1/admin/license")


class AdminSessions(Resource):
    async def list(self) -> builtins.list[types.PersonSession]:
        """`GET /v1/admin/sessions`: list people's sessions."""
        return await self._call(builtins.list[types.PersonSession], "GET", "/v1/admin/sessions")

    async def delete(self, id: str, /) -> None:
        """`DELETE /v1/admin/sessions/{id}`: end a person's session."""
        await self._bytes("DELETE", f"/v1/admin/sessions/{part(id)}")


class AccountSessions(Resource):
    async def list(self) -> builtins.list[types.Session]:
        """`GET /v1/auth/sessions`: list your sessions."""
        return await self._call(builtins.list[types.Session], "GET", "/v1/auth/sessions")

    async def delete(self, id: str, /) -> None:
        """`DELETE /v1/auth/sessions/{id}`: end a session."""
        await self._bytes("DELETE", f"/v1/auth/sessions/{part(id)}")


class AccountIdentities(Resource):
    async def list(self) -> builtins.list[types.LinkedIdentity]:
        """`GET /v1/auth/identities`: list your identities."""
        return await self._call(builtins.list[types.LinkedIdentity], "GET", "/v1/auth/identities")

    async def delete(self, id: str, /) -> None:
        """`DELETE /v1/auth/identities/{id}`: unlink an identity."""
        await self._bytes("DELETE", f"/v1/auth/identities/{part(id)}")


class AccountGrants(Resource):
    async def list(self) -> builtins.list[types.Grant]:
        """`GET /v1/auth/grants`: list applications."""
        return await self._call(builtins.list[types.Grant], "GET", "/v1/auth/grants")

    async def delete(self, grant_id: str, /) -> None:
        """`DELETE /v1/auth/grants/{grant_id}`: end the access of an application."""
        await self._bytes("DELETE", f"/v1/auth/grants/{part(grant_id)}")


class OrganizationsMembers(Resource):
    async def list(self, id: str, /) -> builtins.list[types.OrganizationMember]:
        """`GET /v1/organizations/{id}/members`: list members."""
        return await self._call(builtins.list[types.OrganizationMember], "GET", f"/v1/organizations/{part(id)}/members")

    async def change_role(self, id: str, user_id: str, /, **body: Unpack[requests.ChangeRole]) -> types.OrganizationMember:
        """`PATCH /v1/organizations/{id}/members/{user_id}`: change a role."""
        return await self._call(types.OrganizationMember, "PATCH", f"/v1/organizations/{part(id)}/members/{part(user_id)}", body=body)

    async def delete(self, id: str, user_id: str, /) -> None:
        """`DELETE /v1/organizations/{id}/members/{user_id}`: remove a member."""
        await self._bytes("DELETE", f"/v1/organizations/{part(id)}/members/{part(user_id)}")


class OrganizationsInvitations(Resource):
    async def list(self, id: str, /) -> builtins.list[types.Invitation]:
        """`GET /v1/organizations/{id}/invitations`: list invitations."""
        return await self._call(builtins.list[types.Invitation], "GET", f"/v1/organizations/{part(id)}/invitations")

    async def create(self, id: str, /, **body: Unpack[requests.CreateInvitation]) -> types.CreatedInvitation:
        """`POST /v1/organizations/{id}/invitations`: invite a person."""
        return await self._call(types.CreatedInvitation, "POST", f"/v1/organizations/{part(id)}/invitations", body=body, repeatable=False)

    async def delete(self, id: str, invitation_id: str, /) -> None:
        """`DELETE /v1/organizations/{id}/invitations/{invitation_id}`: withdraw an invitation."""
        await self._bytes("DELETE", f"/v1/organizations/{part(id)}/invitations/{part(invitation_id)}")


class OrganizationsKeys(Resource):
    async def list(self, id: str, /) -> builtins.list[types.ApiKey]:
        """`GET /v1/organizations/{id}/keys`: list API keys."""
        return await self._call(builtins.list[types.ApiKey], "GET", f"/v1/organizations/{part(id)}/keys")

    async def create(self, id: str, /, **body: Unpack[requests.CreateKey]) -> types.CreatedKey:
        """`POST /v1/organizations/{id}/keys`: create an API key."""
        return await self._call(types.CreatedKey, "POST", f"/v1/organizations/{part(id)}/keys", body=body, repeatable=False)

    async def delete(self, id: str, key_id: str, /) -> None:
        """`DELETE /v1/organizations/{id}/keys/{key_id}`: revoke an API key."""
        await self._bytes("DELETE", f"/v1/organizations/{part(id)}/keys/{part(key_id)}")

    async def rotate(self, id: str, key_id: str, /, **body: Unpack[requests.RotateKey]) -> types.CreatedKey:
        """`POST /v1/organizations/{id}/keys/{key_id}/rotate`: rotate an API key."""
        return await self._call(types.CreatedKey, "POST", f"/v1/organizations/{part(id)}/keys/{part(key_id)}/rotate", body=body, repeatable=False)


class OrganizationsBilling(Resource):
    async def get(self, id: str, /) -> types.Billing:
        """`GET /v1/organizations/{id}/billing`: get the billing information."""
        return await self._call(types.Billing, "GET", f"/v1/organizations/{part(id)}/billing")

    async def balance(self, id: str, /) -> types.Balance:
        """`GET /v1/organizations/{id}/balance`: get the balance."""
        return await self._call(types.Balance, "GET", f"/v1/organizations/{part(id)}/balance")

    def ledger(self, id: str, /, **query: Unpack[requests.ListLedgerQuery]) -> AsyncPages[types.LedgerEntry]:
        """`GET /v1/organizations/{id}/billing/ledger`: list movements of credits."""
        return AsyncPages(self, f"/v1/organizations/{part(id)}/billing/ledger", types.LedgerPage, "ledger", query)

    def payments(self, id: str, /, **query: Unpack[requests.ListPaymentsQuery]) -> AsyncPages[types.Payment]:
        """`GET /v1/organizations/{id}/billing/payments`: list payments."""
        return AsyncPages(self, f"/v1/organizations/{part(id)}/billing/payments", types.PaymentPage, "payments", query)

    async def receipt(self, id: str, payment_id: str, /) -> types.ProviderPage:
        """`GET /v1/organizations/{id}/billing/payments/{payment_id}/receipt`: get a receipt."""
        return await self._call(types.ProviderPage, "GET", f"/v1/organizations/{part(id)}/billing/payments/{part(payment_id)}/receipt")

    async def checkout(self, id: str, /, **body: Unpack[requests.CreateCheckout]) -> types.ProviderPage:
        """`POST /v1/organizations/{id}/billing/checkout`: buy credits."""
        return await self._call(types.ProviderPage, "POST", f"/v1/organizations/{part(id)}/billing/checkout", body=body, repeatable=False)

    async def portal(self, id: str, /) -> types.ProviderPage:
        """`POST /v1/organizations/{id}/billing/portal`: open the customer portal."""
        return await self._call(types.ProviderPage, "POST", f"/v1/organizations/{part(id)}/billing/portal", repeatable=False)

    async def put_auto_topup(self, id: str, /, **body: Unpack[requests.PutAutoTopup]) -> types.AutoTopup:
        """`PUT /v1/organizations/{id}/billing/auto-topup`: set automatic purchases."""
        return await self._call(types.AutoTopup, "PUT", f"/v1/organizations/{part(id)}/billing/auto-topup", body=body)


class OrganizationsLicense(Resource):
    async def get(self, id: str, /) -> types.OrganizationLicense:
        """`GET /v1/organizations/{id}/license`: get the license entitlement."""
        return await self._call(types.OrganizationLicense, "GET", f"/v1/organizations/{part(id)}/license")

    async def checkout(self, id: str, /, **body: Unpack[requests.CreateLicenseCheckout]) -> types.ProviderPage:
        """`POST /v1/organizations/{id}/license/checkout`: buy licenses."""
        return await self._call(types.ProviderPage, "POST", f"/v1/organizations/{part(id)}/license/checkout", body=body, repeatable=False)


class OrganizationsDeployments(Resource):
    async def list(self, id: str, /) -> builtins.list[types.Deployment]:
        """`GET /v1/organizations/{id}/deployments`: list deployments."""
        return await self._call(builtins.list[types.Deployment], "GET", f"/v1/organizations/{part(id)}/deployments")

    async def create(self, id: str, /, **body: Unpack[requests.CreateDeployment]) -> types.CreatedDeployment:
        """`POST /v1/organizations/{id}/deployments`: create a deployment."""
        return await self._call(types.CreatedDeployment, "POST", f"/v1/organizations/{part(id)}/deployments", body=body, repeatable=False)

    async def delete(self, id: str, deployment_id: str, /) -> None:
        """`DELETE /v1/organizations/{id}/deployments/{deployment_id}`: delete a deployment."""
        await self._bytes("DELETE", f"/v1/organizations/{part(id)}/deployments/{part(deployment_id)}")


class OperatorOrganizations(Resource):
    def list(self, **query: Unpack[requests.ListOperatedOrganizationsQuery]) -> AsyncPages[types.OperatedOrganization]:
        """`GET /v1/operator/organizations`: list all organizations."""
        return AsyncPages(self, "/v1/operator/organizations", types.OperatedOrganizationPage, "items", query)

    async def get(self, id: str, /) -> types.OperatedOrganization:
        """`GET /v1/operator/organizations/{id}`: get an organization."""
        return await self._call(types.OperatedOrganization, "GET", f"/v1/operator/organizations/{part(id)}")

    async def credits(self, id: str, /) -> types.Balance:
        """`GET /v1/operator/organizations/{id}/credits`: get the credits of an organization."""
        return await self._call(types.Balance, "GET", f"/v1/operator/organizations/{part(id)}/credits")

    async def move_credits(self, id: str, /, **body: Unpack[requests.MoveCredits]) -> types.Balance:
        """`POST /v1/operator/organizations/{id}/credits`: move credits."""
        return await self._call(types.Balance, "POST", f"/v1/operator/organizations/{part(id)}/credits", body=body, repeatable=False)

    async def grant_license(self, id: str, /, **body: Unpack[requests.GrantLicense]) -> types.Entitlement:
        """`PUT /v1/operator/organizations/{id}/license`: grant licenses."""
        return await self._call(types.Entitlement, "PUT", f"/v1/operator/organizations/{part(id)}/license", body=body)

    async def resume(self, id: str, /) -> types.OperatedOrganization:
        """`POST /v1/operator/organizations/{id}/resume`: resume an organization."""
        return await self._call(types.OperatedOrganization, "POST", f"/v1/operator/organizations/{part(id)}/resume")

    async def suspend(self, id: str, /, **body: Unpack[requests.SuspendOrganization]) -> types.OperatedOrganization:
        """`POST /v1/operator/organizations/{id}/suspend`: suspend an organization."""
        return await self._call(types.OperatedOrganization, "POST", f"/v1/operator/organizations/{part(id)}/suspend", body=body)


class OperatorUsers(Resource):
    def list(self, **query: Unpack[requests.ListUsersQuery]) -> AsyncPages[types.OperatedUser]:
        """`GET /v1/operator/users`: list people."""
        return AsyncPages(self, "/v1/operator/users", types.OperatedUserPage, "items", query)

    async def create(self, **body: Unpack[requests.CreateUser]) -> types.CreatedUser:
        """`POST /v1/operator/users`: create an account."""
        return await self._call(types.CreatedUser, "POST", "/v1/operator/users", body=body, repeatable=False)

    async def disable(self, user_id: str, /) -> types.OperatedUser:
        """`POST /v1/operator/users/{user_id}/disable`: disable an account."""
        return await self._call(types.OperatedUser, "POST", f"/v1/operator/users/{part(user_id)}/disable")

    async def enable(self, user_id: str, /) -> types.OperatedUser:
        """`POST /v1/operator/users/{user_id}/enable`: enable an account."""
        return await self._call(types.OperatedUser, "POST", f"/v1/operator/users/{part(user_id)}/enable")

    async def delete_identities(self, user_id: str, /) -> types.OperatedUser:
        """`DELETE /v1/operator/users/{user_id}/identities`: unlink the identities of a person."""
        return await self._call(types.OperatedUser, "DELETE", f"/v1/operator/users/{part(user_id)}/identities")

    async def create_reset_link(self, user_id: str, /) -> types.ResetLink:
        """`POST /v1/operator/users/{user_id}/reset-link`: make a link to set a password."""
        return await self._call(types.ResetLink, "POST", f"/v1/operator/users/{part(user_id)}/reset-link", repeatable=False)


class Runs(Resource):
    def list(self, **query: Unpack[requests.ListRunsQuery]) -> AsyncPages[types.Run]:
        """`GET /v1/runs`: list runs."""
        return AsyncPages(self, "/v1/runs", types.RunPage, "items", query)

    async def get(self, id: str, /, **query: Unpack[requests.GetRunQuery]) -> types.Run:
        """`GET /v1/runs/{id}`: get a run."""
        return await self._call(types.Run, "GET", f"/v1/runs/{part(id)}", query=query)

    async def cancel(self, id: str, /) -> types.Run:
        """`POST /v1/runs/{id}/cancel`: cancel a run."""
        return await self._call(types.Run, "POST", f"/v1/runs/{part(id)}/cancel")

    async def create_token(self, id: str, /, **body: Unpack[requests.CreateRunToken]) -> types.CreatedRunToken:
        """`POST /v1/runs/{id}/tokens`: create a run token."""
        return await self._call(types.CreatedRunToken, "POST", f"/v1/runs/{part(id)}/tokens", body=body, repeatable=False)

    async def definition(self, id: str, /) -> types.RunDefinition:
        """`GET /v1/runs/{id}/definition`: get the definition a run used."""
        return await self._call(types.RunDefinition, "GET", f"/v1/runs/{part(id)}/definition")

    async def artifacts(self, id: str, /) -> builtins.list[types.Artifact]:
        """`GET /v1/runs/{id}/artifacts`: list the artifacts of a run."""
        return await self._call(builtins.list[types.Artifact], "GET", f"/v1/runs/{part(id)}/artifacts")

    async def deliveries(self, id: str, /) -> builtins.list[types.DeliveryAttempt]:
        """`GET /v1/runs/{id}/deliveries`: list the deliveries of a run's callback."""
        return await self._call(builtins.list[types.DeliveryAttempt], "GET", f"/v1/runs/{part(id)}/deliveries")

    async def redeliver(self, id: str, /) -> types.Redelivery:
        """`POST /v1/runs/{id}/deliveries`: send a run's callback again."""
        return await self._call(types.Redelivery, "POST", f"/v1/runs/{part(id)}/deliveries", repeatable=False)


class Workflows(Resource):
    async def list(self, **query: Unpack[requests.ListWorkflowsQuery]) -> builtins.list[types.WorkflowSummary]:
        """`GET /v1/workflows`: list saved workflows."""
        return await self._call(builtins.list[types.WorkflowSummary], "GET", "/v1/workflows", query=query)

    async def get(self, name: str, /) -> types.Workflow:
        """`GET /v1/workflows/{name}`: get a saved workflow."""
        return await self._call(types.Workflow, "GET", f"/v1/workflows/{part(name)}")

    async def put(self, name: str, /, **body: Unpack[requests.WorkflowDefinition]) -> types.Workflow:
        """`PUT /v1/workflows/{name}`: save a workflow."""
        return await self._call(types.Workflow, "PUT", f"/v1/workflows/{part(name)}", body=body)

    async def delete(self, name: str, /) -> None:
        """`DELETE /v1/workflows/{name}`: delete a workflow."""
        await self._bytes("DELETE", f"/v1/workflows/{part(name)}")


class Schedules(Resource):
    def list(self, **query: Unpack[requests.ListSchedulesQuery]) -> AsyncPages[types.Schedule]:
        """`GET /v1/schedules`: list schedules."""
        return AsyncPages(self, "/v1/schedules", types.SchedulePage, "items", query)

    async def create(self, **body: Unpack[requests.CreateSchedule]) -> types.Schedule:
        """`POST /v1/schedules`: create a schedule."""
        return await self._call(types.Schedule, "POST", "/v1/schedules", body=body, repeatable=False)

    async def get(self, id: str, /) -> types.Schedule:
        """`GET /v1/schedules/{id}`: get a schedule."""
        return await self._call(types.Schedule, "GET", f"/v1/schedules/{part(id)}")

    async def update(self, id: str, /, **body: Unpack[requests.UpdateSchedule]) -> types.Schedule:
        """`PATCH /v1/schedules/{id}`: change a schedule."""
        return await self._call(types.Schedule, "PATCH", f"/v1/schedules/{part(id)}", body=body)

    async def delete(self, id: str, /) -> None:
        """`DELETE /v1/schedules/{id}`: delete a schedule."""
        await self._bytes("DELETE", f"/v1/schedules/{part(id)}")

    async def trigger(self, id: str, /) -> types.Run:
        """`POST /v1/schedules/{id}/trigger`: start a schedule's run now."""
        return await self._call(types.Run, "POST", f"/v1/schedules/{part(id)}/trigger", repeatable=False)

    def fires(self, id: str, /, **query: Unpack[requests.ListFiresQuery]) -> AsyncPages[types.Fire]:
        """`GET /v1/schedules/{id}/fires`: list a schedule's history."""
        return AsyncPages(self, f"/v1/schedules/{part(id)}/fires", types.FirePage, "items", query)

    def all_fires(self, **query: Unpack[requests.ListAllFiresQuery]) -> AsyncPages[types.Fire]:
        """`GET /v1/fires`: list the history of all schedules."""
        return AsyncPages(self, "/v1/fires", types.FirePage, "items", query)

    async def next(self, id: str, /, **query: Unpack[requests.PreviewScheduleQuery]) -> builtins.list[types.NextFire]:
        """`GET /v1/schedules/{id}/next`: preview a schedule."""
        return await self._call(builtins.list[types.NextFire], "GET", f"/v1/schedules/{part(id)}/next", query=query)


class Files(Resource):
    def list(self, **query: Unpack[requests.ListFilesQuery]) -> AsyncPages[types.File]:
        """`GET /v1/files`: list files."""
        return AsyncPages(self, "/v1/files", types.FilePage, "items", query)

    async def get(self, file: str, /) -> types.File:
        """`GET /v1/files/{file}`: get a file."""
        return await self._call(types.File, "GET", f"/v1/files/{part(file)}")

    async def rename(self, file: str, /, **body: Unpack[requests.RenameFile]) -> types.File:
        """`PATCH /v1/files/{file}`: rename a file."""
        return await self._call(types.File, "PATCH", f"/v1/files/{part(file)}", body=body)

    async def delete(self, file: str, /) -> None:
        """`DELETE /v1/files/{file}`: delete a file."""
        await self._bytes("DELETE", f"/v1/files/{part(file)}")


class Connections(Resource):
    async def list(self) -> builtins.list[types.Connection]:
        """`GET /v1/connections`: list saved connections."""
        return await self._call(builtins.list[types.Connection], "GET", "/v1/connections")

    async def catalog(self) -> builtins.list[types.KnownService]:
        """`GET /v1/connections/catalog`: list well-known services."""
        return await self._call(builtins.list[types.KnownService], "GET", "/v1/connections/catalog")

    async def get(self, name: str, /) -> types.Connection:
        """`GET /v1/connections/{name}`: get a saved connection."""
        return await self._call(types.Connection, "GET", f"/v1/connections/{part(name)}")

    async def put(self, name: str, /, **body: Unpack[requests.ConnectionDefinition]) -> types.Connection:
        """`PUT /v1/connections/{name}`: save a connection."""
        return await self._call(types.Connection, "PUT", f"/v1/connections/{part(name)}", body=body)

    async def delete(self, name: str, /) -> None:
        """`DELETE /v1/connections/{name}`: delete a connection."""
        await self._bytes("DELETE", f"/v1/connections/{part(name)}")

    async def test(self, name: str, /) -> types.ConnectionTest:
        """`POST /v1/connections/{name}/test`: test a connection."""
        return await self._call(types.ConnectionTest, "POST", f"/v1/connections/{part(name)}/test")

    async def authorize(self, name: str, /) -> types.Authorization:
        """`POST /v1/connections/{name}/oauth`: authorize a connection."""
        return await self._call(types.Authorization, "POST", f"/v1/connections/{part(name)}/oauth", repeatable=False)

    async def confirm(self, name: str, /, **body: Unpack[requests.ConfirmAuthorization]) -> types.ConfirmedAuthorization:
        """`POST /v1/connections/{name}/oauth/confirm`: confirm an authorization."""
        return await self._call(types.ConfirmedAuthorization, "POST", f"/v1/connections/{part(name)}/oauth/confirm", body=body, repeatable=False)


class Budgets(Resource):
    async def list(self) -> builtins.list[types.Budget]:
        """`GET /v1/budgets`: list budgets."""
        return await self._call(builtins.list[types.Budget], "GET", "/v1/budgets")

    async def get(self, scope: str, /) -> types.Budget:
        """`GET /v1/budgets/{scope}`: get a budget."""
        return await self._call(types.Budget, "GET", f"/v1/budgets/{parts(scope)}")

    async def put(self, scope: str, /, **body: Unpack[requests.PutBudget]) -> types.Budget:
        """`PUT /v1/budgets/{scope}`: set a budget."""
        return await self._call(types.Budget, "PUT", f"/v1/budgets/{parts(scope)}", body=body)

    async def delete(self, scope: str, /) -> None:
        """`DELETE /v1/budgets/{scope}`: delete a budget."""
        await self._bytes("DELETE", f"/v1/budgets/{parts(scope)}")


class Deliveries(Resource):
    def list(self, **query: Unpack[requests.ListAllDeliveriesQuery]) -> AsyncPages[types.Delivery]:
        """`GET /v1/deliveries`: list completion callbacks."""
        return AsyncPages(self, "/v1/deliveries", types.DeliveryPage, "items", query)


class Models(Resource):
    async def list(self) -> types.ModelCatalog:
        """`GET /v1/models`: list the models runs can use."""
        return await self._call(types.ModelCatalog, "GET", "/v1/models")


class Admin(Resource):
    def __init__(self, transport: AsyncTransport) -> None:
        super().__init__(transport)
        self.keys = AdminKeys(transport)
        self.license = AdminLicense(transport)
        self.sessions = AdminSessions(transport)

    def audit(self, **query: Unpack[requests.ListAuditQuery]) -> AsyncPages[types.AuditEntry]:
        """`GET /v1/admin/audit`: list the audit log."""
        return AsyncPages(self, "/v1/admin/audit", types.AuditPage, "items", query)

    async def checks(self, **query: Unpack[requests.GetChecksQuery]) -> types.NodeChecks:
        """`GET /v1/admin/checks`: check the node."""
        return await self._call(types.NodeChecks, "GET", "/v1/admin/checks", query=query)

    async def nodes(self) -> builtins.list[types.Node]:
        """`GET /v1/admin/nodes`: list nodes."""
        return await self._call(builtins.list[types.Node], "GET", "/v1/admin/nodes")

    async def usage(self, **query: Unpack[requests.GetUsageQuery]) -> types.Usage:
        """`GET /v1/admin/usage`: get usage."""
        return await self._call(types.Usage, "GET", "/v1/admin/usage", query=query)

    async def master_keys(self, **query: Unpack[requests.GetMasterKeysQuery]) -> types.MasterKeys:
        """`GET /v1/admin/master-key`: get the master keys."""
        return await self._call(types.MasterKeys, "GET", "/v1/admin/master-key", query=query)

    async def reseal(self, **query: Unpack[requests.ResealQuery]) -> types.Reseal:
        """`POST /v1/admin/master-key/reseal`: seal everything again."""
        return await self._call(types.Reseal, "POST", "/v1/admin/master-key/reseal", query=query, repeatable=False)


class Console(Resource):
    async def info(self) -> types.ConsoleInfo:
        """`GET /v1/console`: describe the console."""
        return await self._call(types.ConsoleInfo, "GET", "/v1/console")

    async def create_code(self) -> types.CreatedConsoleCode:
        """`POST /v1/console/codes`: create a code for the console."""
        return await self._call(types.CreatedConsoleCode, "POST", "/v1/console/codes", repeatable=False)

    async def begin_session(self, **body: Unpack[requests.BeginConsoleSession]) -> types.BegunConsoleSession:
        """`POST /v1/console/sessions`: sign in at the console."""
        return await self._call(types.BegunConsoleSession, "POST", "/v1/console/sessions", body=body, repeatable=False)

    async def session(self) -> types.ConsoleSession:
        """`GET /v1/console/sessions/current`: get the current session."""
        return await self._call(types.ConsoleSession, "GET", "/v1/console/sessions/current")

    async def end_session(self) -> None:
        """`DELETE /v1/console/sessions/current`: sign out."""
        await self._bytes("DELETE", "/v1/console/sessions/current")


class Oauth(Resource):
    async def resource_metadata(self) -> dict[str, Any]:
        """`GET /.well-known/oauth-protected-resource`: get the protected resource metadata."""
        return await self._call(dict[str, Any], "GET", "/.well-known/oauth-protected-resource")

    async def resource_metadata_of(self, path: str, /) -> dict[str, Any]:
        """`GET /.well-known/oauth-protected-resource/{path}`: get the protected resource metadata of a path."""
        return await self._call(dict[str, Any], "GET", f"/.well-known/oauth-protected-resource/{parts(path)}")

    async def client_metadata(self, tag: str, /) -> dict[str, Any]:
        """`GET /v1/oauth/client-metadata/{tag}`: get the client metadata of a connection."""
        return await self._call(dict[str, Any], "GET", f"/v1/oauth/client-metadata/{part(tag)}")

    async def server_metadata(self) -> dict[str, Any]:
        """`GET /.well-known/oauth-authorization-server`: get the authorization server metadata."""
        return await self._call(dict[str, Any], "GET", "/.well-known/oauth-authorization-server")

    async def register_client(self, **body: Any) -> types.ClientInformation:
        """`POST /oauth/register`: register an OAuth client."""
        return await self._call(types.ClientInformation, "POST", "/oauth/register", body=body, repeatable=False)

    async def issue_tokens(self, **form: Any) -> types.TokenAnswer:
        """`POST /oauth/token`: get OAuth tokens."""
        return await self._call(types.TokenAnswer, "POST", "/oauth/token", form=form, repeatable=False)

    async def revoke_token(self, **form: Any) -> None:
        """`POST /oauth/revoke`: revoke an OAuth token."""
        await self._bytes("POST", "/oauth/revoke", form=form, repeatable=False)


class Account(Resource):
    def __init__(self, transport: AsyncTransport) -> None:
        super().__init__(transport)
        self.sessions = AccountSessions(transport)
        self.identities = AccountIdentities(transport)
        self.grants = AccountGrants(transport)

    async def get(self) -> types.User:
        """`GET /v1/auth/me`: get your account."""
        return await self._call(types.User, "GET", "/v1/auth/me")

    async def update(self, **body: Unpack[requests.UpdateUser]) -> types.User:
        """`PATCH /v1/auth/me`: change your name."""
        return await self._call(types.User, "PATCH", "/v1/auth/me", body=body)

    async def delete(self, **body: Unpack[requests.DeleteUser]) -> None:
        """`DELETE /v1/auth/me`: delete your account."""
        await self._bytes("DELETE", "/v1/auth/me", body=body)

    async def export(self) -> types.AccountExport:
        """`GET /v1/auth/me/export`: export your data."""
        return await self._call(types.AccountExport, "GET", "/v1/auth/me/export")

    async def sign_up(self, **body: Unpack[requests.SignUp]) -> types.Login | None:
        """`POST /v1/auth/signup`: sign up."""
        return await self._call_or_none(types.Login, "POST", "/v1/auth/signup", body=body, repeatable=False)

    async def log_in(self, **body: Unpack[requests.LogIn]) -> types.Login:
        """`POST /v1/auth/login`: sign in."""
        return await self._call(types.Login, "POST", "/v1/auth/login", body=body, repeatable=False)

    async def log_out(self) -> None:
        """`POST /v1/auth/logout`: sign out."""
        await self._bytes("POST", "/v1/auth/logout", repeatable=False)

    async def verify_email(self, **body: Unpack[requests.VerifyEmail]) -> None:
        """`POST /v1/auth/verify-email`: verify an address."""
        await self._bytes("POST", "/v1/auth/verify-email", body=body, repeatable=False)

    async def resend_verification(self) -> None:
        """`POST /v1/auth/resend-verification`: ask for another verification mail."""
        await self._bytes("POST", "/v1/auth/resend-verification", repeatable=False)

    async def forgot_password(self, **body: Unpack[requests.ForgotPassword]) -> None:
        """`POST /v1/auth/forgot-password`: ask for a new password."""
        await self._bytes("POST", "/v1/auth/forgot-password", body=body, repeatable=False)

    async def reset_password(self, **body: Unpack[requests.ResetPassword]) -> None:
        """`POST /v1/auth/reset-password`: set a new password."""
        await self._bytes("POST", "/v1/auth/reset-password", body=body, repeatable=False)

    async def change_password(self, **body: Unpack[requests.ChangePassword]) -> None:
        """`PUT /v1/me/password`: change your password."""
        await self._bytes("PUT", "/v1/me/password", body=body)

    async def enrol_second_factor(self, **body: Unpack[requests.EnrolSecondFactor]) -> types.SecondFactorKey:
        """`POST /v1/auth/me/second-factor`: enrol a second factor."""
        return await self._call(types.SecondFactorKey, "POST", "/v1/auth/me/second-factor", body=body, repeatable=False)

    async def confirm_second_factor(self, **body: Unpack[requests.ConfirmSecondFactor]) -> types.RecoveryCodes:
        """`POST /v1/auth/me/second-factor/confirm`: confirm a second factor."""
        return await self._call(types.RecoveryCodes, "POST", "/v1/auth/me/second-factor/confirm", body=body, repeatable=False)

    async def remove_second_factor(self, **body: Unpack[requests.RemoveSecondFactor]) -> None:
        """`DELETE /v1/auth/me/second-factor`: remove the second factor."""
        await self._bytes("DELETE", "/v1/auth/me/second-factor", body=body)

    async def put_avatar(self, content: bytes, *, content_type: str) -> types.User:
        """`PUT /v1/me/avatar`: upload your picture."""
        return await self._call(types.User, "PUT", "/v1/me/avatar", content=content, content_type=content_type)

    async def delete_avatar(self) -> None:
        """`DELETE /v1/me/avatar`: delete your picture."""
        await self._bytes("DELETE", "/v1/me/avatar")

    async def avatar_of(self, user_id: str, /) -> bytes:
        """`GET /v1/users/{user_id}/avatar`: get the picture of a person."""
        return (await self._bytes("GET", f"/v1/users/{part(user_id)}/avatar"))


class Organizations(Resource):
    def __init__(self, transport: AsyncTransport) -> None:
        super().__init__(transport)
        self.members = OrganizationsMembers(transport)
        self.invitations = OrganizationsInvitations(transport)
        self.keys = OrganizationsKeys(transport)
        self.billing = OrganizationsBilling(transport)
        self.license = OrganizationsLicense(transport)
        self.deployments = OrganizationsDeployments(transport)

    async def list(self) -> builtins.list[types.Organization]:
        """`GET /v1/organizations`: list organizations."""
        return await self._call(builtins.list[types.Organization], "GET", "/v1/organizations")

    async def create(self, **body: Unpack[requests.OrganizationName]) -> types.Organization:
        """`POST /v1/organizations`: create an organization."""
        return await self._call(types.Organization, "POST", "/v1/organizations", body=body, repeatable=False)

    async def rename(self, id: str, /, **body: Unpack[requests.OrganizationName]) -> types.Organization:
        """`PATCH /v1/organizations/{id}`: rename an organization."""
        return await self._call(types.Organization, "PATCH", f"/v1/organizations/{part(id)}", body=body)

    async def delete(self, id: str, /, **body: Unpack[requests.DeleteOrganization]) -> None:
        """`DELETE /v1/organizations/{id}`: delete an organization."""
        await self._bytes("DELETE", f"/v1/organizations/{part(id)}", body=body)

    async def leave(self, id: str, /) -> None:
        """`POST /v1/organizations/{id}/leave`: leave an organization."""
        await self._bytes("POST", f"/v1/organizations/{part(id)}/leave", repeatable=False)

    async def transfer_ownership(self, id: str, /, **body: Unpack[requests.TransferOwnership]) -> None:
        """`POST /v1/organizations/{id}/ownership`: hand over the ownership."""
        await self._bytes("POST", f"/v1/organizations/{part(id)}/ownership", body=body, repeatable=False)

    async def accept_invitation(self, **body: Unpack[requests.AcceptInvitation]) -> types.Organization:
        """`POST /v1/invitations/accept`: accept an invitation."""
        return await self._call(types.Organization, "POST", "/v1/invitations/accept", body=body, repeatable=False)


class Operator(Resource):
    def __init__(self, transport: AsyncTransport) -> None:
        super().__init__(transport)
        self.organizations = OperatorOrganizations(transport)
        self.users = OperatorUsers(transport)

    async def checks(self, **query: Unpack[requests.GetOperatedChecksQuery]) -> types.NodeChecks:
        """`GET /v1/operator/checks`: check the node."""
        return await self._call(types.NodeChecks, "GET", "/v1/operator/checks", query=query)

    async def nodes(self) -> builtins.list[types.Node]:
        """`GET /v1/operator/nodes`: list nodes."""
        return await self._call(builtins.list[types.Node], "GET", "/v1/operator/nodes")

    async def check_ledger(self, **query: Unpack[requests.CheckLedgerQuery]) -> types.LedgerCheck:
        """`GET /v1/operator/ledger/check`: check the ledger."""
        return await self._call(types.LedgerCheck, "GET", "/v1/operator/ledger/check", query=query)

    async def license_key(self) -> types.LicenseKey:
        """`GET /v1/operator/license-key`: get the license key."""
        return await self._call(types.LicenseKey, "GET", "/v1/operator/license-key")

    async def master_keys(self, **query: Unpack[requests.GetOperatedMasterKeysQuery]) -> types.MasterKeys:
        """`GET /v1/operator/master-key`: get the master keys."""
        return await self._call(types.MasterKeys, "GET", "/v1/operator/master-key", query=query)

    async def reseal(self, **query: Unpack[requests.ResealEverythingQuery]) -> types.Reseal:
        """`POST /v1/operator/master-key/reseal`: seal everything again."""
        return await self._call(types.Reseal, "POST", "/v1/operator/master-key/reseal", query=query, repeatable=False)

    async def refund_payment(self, id: str, /, **body: Unpack[requests.RefundPayment]) -> types.Payment:
        """`POST /v1/operator/payments/{id}/refund`: refund a payment."""
        return await self._call(types.Payment, "POST", f"/v1/operator/payments/{part(id)}/refund", body=body, repeatable=False)


class Client(Resource):
    def __init__(self, transport: AsyncTransport) -> None:
        super().__init__(transport)
        self.workflows = Workflows(transport)
        self.schedules = Schedules(transport)
        self.connections = Connections(transport)
        self.budgets = Budgets(transport)
        self.deliveries = Deliveries(transport)
        self.models = Models(transport)
        self.admin = Admin(transport)
        self.console = Console(transport)
        self.oauth = Oauth(transport)
        self.account = Account(transport)
        self.organizations = Organizations(transport)
        self.operator = Operator(transport)

    async def me(self) -> types.OrganizationInfo:
        """`GET /v1/me`: get the organization of the key."""
        return await self._call(types.OrganizationInfo, "GET", "/v1/me")

    async def usage(self, **query: Unpack[requests.GetMemberUsageQuery]) -> types.Usage:
        """`GET /v1/usage`: get usage as a member."""
        return await self._call(types.Usage, "GET", "/v1/usage", query=query)

    async def health(self) -> types.Health:
        """`GET /healthz`: liveness."""
        return await self._call(types.Health, "GET", "/healthz")

    async def readiness(self) -> types.Readiness:
        """`GET /readyz`: readiness."""
        return await self._call(types.Readiness, "GET", "/readyz")

    async def metrics(self) -> str:
        """`GET /metrics`: metrics."""
        return (await self._bytes("GET", "/metrics")).decode()

    async def openapi(self) -> dict[str, Any]:
        """`GET /openapi.json`: get this description."""
        return await self._call(dict[str, Any], "GET", "/openapi.json")
