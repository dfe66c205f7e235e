// A method for each operation. Made by clients/generate from the OpenAPI documents of the engine.
import type * as Api from "./api.gen.ts";
import { Pages } from "./pages.ts";
import { part, parts } from "./request.ts";
import { Resource, type CallOptions } from "./transport.ts";

export class AdminKeys extends Resource {
  /** `GET /v1/admin/keys`: list API keys. */
  list(options: CallOptions = {}): Promise<Api.ApiKey[]> {
    return this.transport.json("GET", "/v1/admin/keys", { ...options });
  }

  /** `POST /v1/admin/keys`: create an API key. */
  create(body: Api.CreateKey, options: CallOptions = {}): Promise<Api.CreatedKey> {
    return this.transport.json("POST", "/v1/admin/keys", { repeatable: false, body, ...options });
  }

  /** `DELETE /v1/admin/keys/{id}`: revoke an API key. */
  delete(id: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/admin/keys/${part(id)}`, { ...options });
  }

  /** `POST /v1/admin/keys/{id}/rotate`: rotate an API key. */
  rotate(id: string, body: Api.RotateKey, options: CallOptions = {}): Promise<Api.CreatedKey> {
    return this.transport.json("POST", `/v1/admin/keys/${part(id)}/rotate`, { repeatable: false, body, ...options });
  }
}

export class AdminLicense extends Resource {
  /** `GET /v1/admin/license`: get the license. */
  get(options: CallOptions = {}): Promise<Api.License> {
    return this.transport.json("GET", "/v1/admin/license", { ...options });
  }

  /** `PUT /v1/admin/license`: install a license. */
  put(body: Api.PutLicense, options: CallOptions = {}): Promise<Api.License> {
    return this.transport.json("PUT", "/v1/admin/license", { body, ...options });
  }

  /** `DELETE /v1/admin/license`: delete the license. */
  delete(options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", "/v1/admin/license", { ...options });
  }
}

export class AdminSessions extends Resource {
  /** `GET /v1/admin/sessions`: list people's sessions. */
  list(options: CallOptions = {}): Promise<Api.PersonSession[]> {
    return this.transport.json("GET", "/v1/admin/sessions", { ...options });
  }

  /** `DELETE /v1/admin/sessions/{id}`: end a person's session. */
  delete(id: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/admin/sessions/${part(id)}`, { ...options });
  }
}

export class AccountSessions extends Resource {
  /** `GET /v1/auth/sessions`: list your sessions. */
  list(options: CallOptions = {}): Promise<Api.Session[]> {
    return this.transport.json("GET", "/v1/auth/sessions", { ...options });
  }

  /** `DELETE /v1/auth/sessions/{id}`: end a session. */
  delete(id: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/auth/sessions/${part(id)}`, { ...options });
  }
}

export class AccountIdentities extends Resource {
  /** `GET /v1/auth/identities`: list your identities. */
  list(options: CallOptions = {}): Promise<Api.LinkedIdentity[]> {
    return this.transport.json("GET", "/v1/auth/identities", { ...options });
  }

  /** `DELETE /v1/auth/identities/{id}`: unlink an identity. */
  delete(id: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/auth/identities/${part(id)}`, { ...options });
  }
}

export class AccountGrants extends Resource {
  /** `GET /v1/auth/grants`: list applications. */
  list(options: CallOptions = {}): Promise<Api.Grant[]> {
    return this.transport.json("GET", "/v1/auth/grants", { ...options });
  }

  /** `DELETE /v1/auth/grants/{grant_id}`: end the access of an application. */
  delete(grantId: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/auth/grants/${part(grantId)}`, { ...options });
  }
}

export class OrganizationsMembers extends Resource {
  /** `GET /v1/organizations/{id}/members`: list members. */
  list(id: string, options: CallOptions = {}): Promise<Api.OrganizationMember[]> {
    return this.transport.json("GET", `/v1/organizations/${part(id)}/members`, { ...options });
  }

  /** `PATCH /v1/organizations/{id}/members/{user_id}`: change a role. */
  changeRole(id: string, userId: string, body: Api.ChangeRole, options: CallOptions = {}): Promise<Api.OrganizationMember> {
    return this.transport.json("PATCH", `/v1/organizations/${part(id)}/members/${part(userId)}`, { body, ...options });
  }

  /** `DELETE /v1/organizations/{id}/members/{user_id}`: remove a member. */
  delete(id: string, userId: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/organizations/${part(id)}/members/${part(userId)}`, { ...options });
  }
}

export class OrganizationsInvitations extends Resource {
  /** `GET /v1/organizations/{id}/invitations`: list invitations. */
  list(id: string, options: CallOptions = {}): Promise<Api.Invitation[]> {
    return this.transport.json("GET", `/v1/organizations/${part(id)}/invitations`, { ...options });
  }

  /** `POST /v1/organizations/{id}/invitations`: invite a person. */
  create(id: string, body: Api.CreateInvitation, options: CallOptions = {}): Promise<Api.CreatedInvitation> {
    return this.transport.json("POST", `/v1/organizations/${part(id)}/invitations`, { repeatable: false, body, ...options });
  }

  /** `DELETE /v1/organizations/{id}/invitations/{invitation_id}`: withdraw an invitation. */
  delete(id: string, invitationId: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/organizations/${part(id)}/invitations/${part(invitationId)}`, { ...options });
  }
}

export class OrganizationsKeys extends Resource {
  /** `GET /v1/organizations/{id}/keys`: list API keys. */
  list(id: string, options: CallOptions = {}): Promise<Api.ApiKey[]> {
    return this.transport.json("GET", `/v1/organizations/${part(id)}/keys`, { ...options });
  }

  /** `POST /v1/organizations/{id}/keys`: create an API key. */
  create(id: string, body: Api.CreateKey, options: CallOptions = {}): Promise<Api.CreatedKey> {
    return this.transport.json("POST", `/v1/organizations/${part(id)}/keys`, { repeatable: false, body, ...options });
  }

  /** `DELETE /v1/organizations/{id}/keys/{key_id}`: revoke an API key. */
  delete(id: string, keyId: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/organizations/${part(id)}/keys/${part(keyId)}`, { ...options });
  }

  /** `POST /v1/organizations/{id}/keys/{key_id}/rotate`: rotate an API key. */
  rotate(id: string, keyId: string, body: Api.RotateKey, options: CallOptions = {}): Promise<Api.CreatedKey> {
    return this.transport.json("POST", `/v1/organizations/${part(id)}/keys/${part(keyId)}/rotate`, { repeatable: false, body, ...options });
  }
}

export class OrganizationsBilling extends Resource {
  /** `GET /v1/organizations/{id}/billing`: get the billing information. */
  get(id: string, options: CallOptions = {}): Promise<Api.Billing> {
    return this.transport.json("GET", `/v1/organizations/${part(id)}/billing`, { ...options });
  }

  /** `GET /v1/organizations/{id}/balance`: get the balance. */
  balance(id: string, options: CallOptions = {}): Promise<Api.Balance> {
    return this.transport.json("GET", `/v1/organizations/${part(id)}/balance`, { ...options });
  }

  /** `GET /v1/organizations/{id}/billing/ledger`: list movements of credits. */
  ledger(id: string, query: Api.ListLedgerQuery = {}, options: CallOptions = {}): Pages<Api.LedgerEntry> {
    return new Pages(this.transport, `/v1/organizations/${part(id)}/billing/ledger`, "ledger", query, options);
  }

  /** `GET /v1/organizations/{id}/billing/payments`: list payments. */
  payments(id: string, query: Api.ListPaymentsQuery = {}, options: CallOptions = {}): Pages<Api.Payment> {
    return new Pages(this.transport, `/v1/organizations/${part(id)}/billing/payments`, "payments", query, options);
  }

  /** `GET /v1/organizations/{id}/billing/payments/{payment_id}/receipt`: get a receipt. */
  receipt(id: string, paymentId: string, options: CallOptions = {}): Promise<Api.ProviderPage> {
    return this.transport.json("GET", `/v1/organizations/${part(id)}/billing/payments/${part(paymentId)}/receipt`, { ...options });
  }

  /** `POST /v1/organizations/{id}/billing/checkout`: buy credits. */
  checkout(id: string, body: Api.CreateCheckout, options: CallOptions = {}): Promise<Api.ProviderPage> {
    return this.transport.json("POST", `/v1/organizations/${part(id)}/billing/checkout`, { repeatable: false, body, ...options });
  }

  /** `POST /v1/organizations/{id}/billing/portal`: open the customer portal. */
  portal(id: string, options: CallOptions = {}): Promise<Api.ProviderPage> {
    return this.transport.json("POST", `/v1/organizations/${part(id)}/billing/portal`, { repeatable: false, ...options });
  }

  /** `PUT /v1/organizations/{id}/billing/auto-topup`: set automatic purchases. */
  putAutoTopup(id: string, body: Api.PutAutoTopup, options: CallOptions = {}): Promise<Api.AutoTopup> {
    return this.transport.json("PUT", `/v1/organizations/${part(id)}/billing/auto-topup`, { body, ...options });
  }
}

export class OrganizationsLicense extends Resource {
  /** `GET /v1/organizations/{id}/license`: get the license entitlement. */
  get(id: string, options: CallOptions = {}): Promise<Api.OrganizationLicense> {
    return this.transport.json("GET", `/v1/organizations/${part(id)}/license`, { ...options });
  }

  /** `POST /v1/organizations/{id}/license/checkout`: buy licenses. */
  checkout(id: string, body: Api.CreateLicenseCheckout, options: CallOptions = {}): Promise<Api.ProviderPage> {
    return this.transport.json("POST", `/v1/organizations/${part(id)}/license/checkout`, { repeatable: false, body, ...options });
  }
}

export class OrganizationsDeployments extends Resource {
  /** `GET /v1/organizations/{id}/deployments`: list deployments. */
  list(id: string, options: CallOptions = {}): Promise<Api.Deployment[]> {
    return this.transport.json("GET", `/v1/organizations/${part(id)}/deployments`, { ...options });
  }

  /** `POST /v1/organizations/{id}/deployments`: create a deployment. */
  create(id: string, body: Api.CreateDeployment, options: CallOptions = {}): Promise<Api.CreatedDeployment> {
    return this.transport.json("POST", `/v1/organizations/${part(id)}/deployments`, { repeatable: false, body, ...options });
  }

  /** `DELETE /v1/organizations/{id}/deployments/{deployment_id}`: delete a deployment. */
  delete(id: string, deploymentId: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/organizations/${part(id)}/deployments/${part(deploymentId)}`, { ...options });
  }
}

export class OperatorOrganizations extends Resource {
  /** `GET /v1/operator/organizations`: list all organizations. */
  list(query: Api.ListOperatedOrganizationsQuery = {}, options: CallOptions = {}): Pages<Api.OperatedOrganization> {
    return new Pages(this.transport, "/v1/operator/organizations", "items", query, options);
  }

  /** `GET /v1/operator/organizations/{id}`: get an organization. */
  get(id: string, options: CallOptions = {}): Promise<Api.OperatedOrganization> {
    return this.transport.json("GET", `/v1/operator/organizations/${part(id)}`, { ...options });
  }

  /** `GET /v1/operator/organizations/{id}/credits`: get the credits of an organization. */
  credits(id: string, options: CallOptions = {}): Promise<Api.Balance> {
    return this.transport.json("GET", `/v1/operator/organizations/${part(id)}/credits`, { ...options });
  }

  /** `POST /v1/operator/organizations/{id}/credits`: move credits. */
  moveCredits(id: string, body: Api.MoveCredits, options: CallOptions = {}): Promise<Api.Balance> {
    return this.transport.json("POST", `/v1/operator/organizations/${part(id)}/credits`, { repeatable: false, body, ...options });
  }

  /** `PUT /v1/operator/organizations/{id}/license`: grant licenses. */
  grantLicense(id: string, body: Api.GrantLicense, options: CallOptions = {}): Promise<Api.Entitlement> {
    return this.transport.json("PUT", `/v1/operator/organizations/${part(id)}/license`, { body, ...options });
  }

  /** `POST /v1/operator/organizations/{id}/resume`: resume an organization. */
  resume(id: string, options: CallOptions = {}): Promise<Api.OperatedOrganization> {
    return this.transport.json("POST", `/v1/operator/organizations/${part(id)}/resume`, { ...options });
  }

  /** `POST /v1/operator/organizations/{id}/suspend`: suspend an organization. */
  suspend(id: string, body: Api.SuspendOrganization, options: CallOptions = {}): Promise<Api.OperatedOrganization> {
    return this.transport.json("POST", `/v1/operator/organizations/${part(id)}/suspend`, { body, ...options });
  }
}

export class OperatorUsers extends Resource {
  /** `GET /v1/operator/users`: list people. */
  list(query: Api.ListUsersQuery = {}, options: CallOptions = {}): Pages<Api.OperatedUser> {
    return new Pages(this.transport, "/v1/operator/users", "items", query, options);
  }

  /** `POST /v1/operator/users`: create an account. */
  create(body: Api.CreateUser, options: CallOptions = {}): Promise<Api.CreatedUser> {
    return this.transport.json("POST", "/v1/operator/users", { repeatable: false, body, ...options });
  }

  /** `POST /v1/operator/users/{user_id}/disable`: disable an account. */
  disable(userId: string, options: CallOptions = {}): Promise<Api.OperatedUser> {
    return this.transport.json("POST", `/v1/operator/users/${part(userId)}/disable`, { ...options });
  }

  /** `POST /v1/operator/users/{user_id}/enable`: enable an account. */
  enable(userId: string, options: CallOptions = {}): Promise<Api.OperatedUser> {
    return this.transport.json("POST", `/v1/operator/users/${part(userId)}/enable`, { ...options });
  }

  /** `DELETE /v1/operator/users/{user_id}/identities`: unlink the identities of a person. */
  deleteIdentities(userId: string, options: CallOptions = {}): Promise<Api.OperatedUser> {
    return this.transport.json("DELETE", `/v1/operator/users/${part(userId)}/identities`, { ...options });
  }

  /** `POST /v1/operator/users/{user_id}/reset-link`: make a link to set a password. */
  createResetLink(userId: string, options: CallOptions = {}): Promise<Api.ResetLink> {
    return this.transport.json("POST", `/v1/operator/users/${part(userId)}/reset-link`, { repeatable: false, ...options });
  }
}

export class Runs extends Resource {
  /** `GET /v1/runs`: list runs. */
  list(query: Api.ListRunsQuery = {}, options: CallOptions = {}): Pages<Api.Run> {
    return new Pages(this.transport, "/v1/runs", "items", query, options);
  }

  /** `GET /v1/runs/{id}`: get a run. */
  get(id: string, query: Api.GetRunQuery = {}, options: CallOptions = {}): Promise<Api.Run> {
    return this.transport.json("GET", `/v1/runs/${part(id)}`, { query, ...options });
  }

  /** `POST /v1/runs/{id}/cancel`: cancel a run. */
  cancel(id: string, options: CallOptions = {}): Promise<Api.Run> {
    return this.transport.json("POST", `/v1/runs/${part(id)}/cancel`, { ...options });
  }

  /** `POST /v1/runs/{id}/tokens`: create a run token. */
  createToken(id: string, body: Api.CreateRunToken, options: CallOptions = {}): Promise<Api.CreatedRunToken> {
    return this.transport.json("POST", `/v1/runs/${part(id)}/tokens`, { repeatable: false, body, ...options });
  }

  /** `GET /v1/runs/{id}/definition`: get the definition a run used. */
  definition(id: string, options: CallOptions = {}): Promise<Api.RunDefinition> {
    return this.transport.json("GET", `/v1/runs/${part(id)}/definition`, { ...options });
  }

  /** `GET /v1/runs/{id}/artifacts`: list the artifacts of a run. */
  artifacts(id: string, options: CallOptions = {}): Promise<Api.Artifact[]> {
    return this.transport.json("GET", `/v1/runs/${part(id)}/artifacts`, { ...options });
  }

  /** `GET /v1/runs/{id}/deliveries`: list the deliveries of a run's callback. */
  deliveries(id: string, options: CallOptions = {}): Promise<Api.DeliveryAttempt[]> {
    return this.transport.json("GET", `/v1/runs/${part(id)}/deliveries`, { ...options });
  }

  /** `POST /v1/runs/{id}/deliveries`: send a run's callback again. */
  redeliver(id: string, options: CallOptions = {}): Promise<Api.Redelivery> {
    return this.transport.json("POST", `/v1/runs/${part(id)}/deliveries`, { repeatable: false, ...options });
  }
}

export class Workflows extends Resource {
  /** `GET /v1/workflows`: list saved workflows. */
  list(query: Api.ListWorkflowsQuery = {}, options: CallOptions = {}): Promise<Api.WorkflowSummary[]> {
    return this.transport.json("GET", "/v1/workflows", { query, ...options });
  }

  /** `GET /v1/workflows/{name}`: get a saved workflow. */
  get(name: string, options: CallOptions = {}): Promise<Api.Workflow> {
    return this.transport.json("GET", `/v1/workflows/${part(name)}`, { ...options });
  }

  /** `PUT /v1/workflows/{name}`: save a workflow. */
  put(name: string, body: Api.WorkflowDefinition, options: CallOptions = {}): Promise<Api.Workflow> {
    return this.transport.json("PUT", `/v1/workflows/${part(name)}`, { body, ...options });
  }

  /** `DELETE /v1/workflows/{name}`: delete a workflow. */
  delete(name: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/workflows/${part(name)}`, { ...options });
  }
}

export class Schedules extends Resource {
  /** `GET /v1/schedules`: list schedules. */
  list(query: Api.ListSchedulesQuery = {}, options: CallOptions = {}): Pages<Api.Schedule> {
    return new Pages(this.transport, "/v1/schedules", "items", query, options);
  }

  /** `POST /v1/schedules`: create a schedule. */
  create(body: Api.CreateSchedule, options: CallOptions = {}): Promise<Api.Schedule> {
    return this.transport.json("POST", "/v1/schedules", { repeatable: false, body, ...options });
  }

  /** `GET /v1/schedules/{id}`: get a schedule. */
  get(id: string, options: CallOptions = {}): Promise<Api.Schedule> {
    return this.transport.json("GET", `/v1/schedules/${part(id)}`, { ...options });
  }

  /** `PATCH /v1/schedules/{id}`: change a schedule. */
  update(id: string, body: Api.UpdateSchedule, options: CallOptions = {}): Promise<Api.Schedule> {
    return this.transport.json("PATCH", `/v1/schedules/${part(id)}`, { body, ...options });
  }

  /** `DELETE /v1/schedules/{id}`: delete a schedule. */
  delete(id: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/schedules/${part(id)}`, { ...options });
  }

  /** `POST /v1/schedules/{id}/trigger`: start a schedule's run now. */
  trigger(id: string, options: CallOptions = {}): Promise<Api.Run> {
    return this.transport.json("POST", `/v1/schedules/${part(id)}/trigger`, { repeatable: false, ...options });
  }

  /** `GET /v1/schedules/{id}/fires`: list a schedule's history. */
  fires(id: string, query: Api.ListFiresQuery = {}, options: CallOptions = {}): Pages<Api.Fire> {
    return new Pages(this.transport, `/v1/schedules/${part(id)}/fires`, "items", query, options);
  }

  /** `GET /v1/fires`: list the history of all schedules. */
  allFires(query: Api.ListAllFiresQuery = {}, options: CallOptions = {}): Pages<Api.Fire> {
    return new Pages(this.transport, "/v1/fires", "items", query, options);
  }

  /** `GET /v1/schedules/{id}/next`: preview a schedule. */
  next(id: string, query: Api.PreviewScheduleQuery = {}, options: CallOptions = {}): Promise<Api.NextFire[]> {
    return this.transport.json("GET", `/v1/schedules/${part(id)}/next`, { query, ...options });
  }
}

export class Files extends Resource {
  /** `GET /v1/files`: list files. */
  list(query: Api.ListFilesQuery = {}, options: CallOptions = {}): Pages<Api.File> {
    return new Pages(this.transport, "/v1/files", "items", query, options);
  }

  /** `GET /v1/files/{file}`: get a file. */
  get(file: string, options: CallOptions = {}): Promise<Api.File> {
    return this.transport.json("GET", `/v1/files/${part(file)}`, { ...options });
  }

  /** `PATCH /v1/files/{file}`: rename a file. */
  rename(file: string, body: Api.RenameFile, options: CallOptions = {}): Promise<Api.File> {
    return this.transport.json("PATCH", `/v1/files/${part(file)}`, { body, ...options });
  }

  /** `DELETE /v1/files/{file}`: delete a file. */
  delete(file: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/files/${part(file)}`, { ...options });
  }
}

export class Connections extends Resource {
  /** `GET /v1/connections`: list saved connections. */
  list(options: CallOptions = {}): Promise<Api.Connection[]> {
    return this.transport.json("GET", "/v1/connections", { ...options });
  }

  /** `GET /v1/connections/catalog`: list well-known services. */
  catalog(options: CallOptions = {}): Promise<Api.KnownService[]> {
    return this.transport.json("GET", "/v1/connections/catalog", { ...options });
  }

  /** `GET /v1/connections/{name}`: get a saved connection. */
  get(name: string, options: CallOptions = {}): Promise<Api.Connection> {
    return this.transport.json("GET", `/v1/connections/${part(name)}`, { ...options });
  }

  /** `PUT /v1/connections/{name}`: save a connection. */
  put(name: string, body: Api.ConnectionDefinition, options: CallOptions = {}): Promise<Api.Connection> {
    return this.transport.json("PUT", `/v1/connections/${part(name)}`, { body, ...options });
  }

  /** `DELETE /v1/connections/{name}`: delete a connection. */
  delete(name: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/connections/${part(name)}`, { ...options });
  }

  /** `POST /v1/connections/{name}/test`: test a connection. */
  test(name: string, options: CallOptions = {}): Promise<Api.ConnectionTest> {
    return this.transport.json("POST", `/v1/connections/${part(name)}/test`, { ...options });
  }

  /** `POST /v1/connections/{name}/oauth`: authorize a connection. */
  authorize(name: string, options: CallOptions = {}): Promise<Api.Authorization> {
    return this.transport.json("POST", `/v1/connections/${part(name)}/oauth`, { repeatable: false, ...options });
  }

  /** `POST /v1/connections/{name}/oauth/confirm`: confirm an authorization. */
  confirm(name: string, body: Api.ConfirmAuthorization, options: CallOptions = {}): Promise<Api.ConfirmedAuthorization> {
    return this.transport.json("POST", `/v1/connections/${part(name)}/oauth/confirm`, { repeatable: false, body, ...options });
  }
}

export class Budgets extends Resource {
  /** `GET /v1/budgets`: list budgets. */
  list(options: CallOptions = {}): Promise<Api.Budget[]> {
    return this.transport.json("GET", "/v1/budgets", { ...options });
  }

  /** `GET /v1/budgets/{scope}`: get a budget. */
  get(scope: string, options: CallOptions = {}): Promise<Api.Budget> {
    return this.transport.json("GET", `/v1/budgets/${parts(scope)}`, { ...options });
  }

  /** `PUT /v1/budgets/{scope}`: set a budget. */
  put(scope: string, body: Api.PutBudget, options: CallOptions = {}): Promise<Api.Budget> {
    return this.transport.json("PUT", `/v1/budgets/${parts(scope)}`, { body, ...options });
  }

  /** `DELETE /v1/budgets/{scope}`: delete a budget. */
  delete(scope: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/budgets/${parts(scope)}`, { ...options });
  }
}

export class Deliveries extends Resource {
  /** `GET /v1/deliveries`: list completion callbacks. */
  list(query: Api.ListAllDeliveriesQuery = {}, options: CallOptions = {}): Pages<Api.Delivery> {
    return new Pages(this.transport, "/v1/deliveries", "items", query, options);
  }
}

export class Models extends Resource {
  /** `GET /v1/models`: list the models runs can use. */
  list(options: CallOptions = {}): Promise<Api.ModelCatalog> {
    return this.transport.json("GET", "/v1/models", { ...options });
  }
}

export class Admin extends Resource {
  readonly keys = new AdminKeys(this.transport);
  readonly license = new AdminLicense(this.transport);
  readonly sessions = new AdminSessions(this.transport);

  /** `GET /v1/admin/audit`: list the audit log. */
  audit(query: Api.ListAuditQuery = {}, options: CallOptions = {}): Pages<Api.AuditEntry> {
    return new Pages(this.transport, "/v1/admin/audit", "items", query, options);
  }

  /** `GET /v1/admin/checks`: check the node. */
  checks(query: Api.GetChecksQuery = {}, options: CallOptions = {}): Promise<Api.NodeChecks> {
    return this.transport.json("GET", "/v1/admin/checks", { query, ...options });
  }

  /** `GET /v1/admin/nodes`: list nodes. */
  nodes(options: CallOptions = {}): Promise<Api.Node[]> {
    return this.transport.json("GET", "/v1/admin/nodes", { ...options });
  }

  /** `GET /v1/admin/usage`: get usage. */
  usage(query: Api.GetUsageQuery = {}, options: CallOptions = {}): Promise<Api.Usage> {
    return this.transport.json("GET", "/v1/admin/usage", { query, ...options });
  }

  /** `GET /v1/admin/master-key`: get the master keys. */
  masterKeys(query: Api.GetMasterKeysQuery = {}, options: CallOptions = {}): Promise<Api.MasterKeys> {
    return this.transport.json("GET", "/v1/admin/master-key", { query, ...options });
  }

  /** `POST /v1/admin/master-key/reseal`: seal everything again. */
  reseal(query: Api.ResealQuery = {}, options: CallOptions = {}): Promise<Api.Reseal> {
    return this.transport.json("POST", "/v1/admin/master-key/reseal", { repeatable: false, query, ...options });
  }
}

export class Console extends Resource {
  /** `GET /v1/console`: describe the console. */
  info(options: CallOptions = {}): Promise<Api.ConsoleInfo> {
    return this.transport.json("GET", "/v1/console", { ...options });
  }

  /** `POST /v1/console/codes`: create a code for the console. */
  createCode(options: CallOptions = {}): Promise<Api.CreatedConsoleCode> {
    return this.transport.json("POST", "/v1/console/codes", { repeatable: false, ...options });
  }

  /** `POST /v1/console/sessions`: sign in at the console. */
  beginSession(body: Api.BeginConsoleSession, options: CallOptions = {}): Promise<Api.BegunConsoleSession> {
    return this.transport.json("POST", "/v1/console/sessions", { repeatable: false, body, ...options });
  }

  /** `GET /v1/console/sessions/current`: get the current session. */
  session(options: CallOptions = {}): Promise<Api.ConsoleSession> {
    return this.transport.json("GET", "/v1/console/sessions/current", { ...options });
  }

  /** `DELETE /v1/console/sessions/current`: sign out. */
  endSession(options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", "/v1/console/sessions/current", { ...options });
  }
}

export class Oauth extends Resource {
  /** `GET /.well-known/oauth-protected-resource`: get the protected resource metadata. */
  resourceMetadata(options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.transport.json("GET", "/.well-known/oauth-protected-resource", { ...options });
  }

  /** `GET /.well-known/oauth-protected-resource/{path}`: get the protected resource metadata of a path. */
  resourceMetadataOf(path: string, options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.transport.json("GET", `/.well-known/oauth-protected-resource/${parts(path)}`, { ...options });
  }

  /** `GET /v1/oauth/client-metadata/{tag}`: get the client metadata of a connection. */
  clientMetadata(tag: string, options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.transport.json("GET", `/v1/oauth/client-metadata/${part(tag)}`, { ...options });
  }

  /** `GET /.well-known/oauth-authorization-server`: get the authorization server metadata. */
  serverMetadata(options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.transport.json("GET", "/.well-known/oauth-authorization-server", { ...options });
  }

  /** `POST /oauth/register`: register an OAuth client. */
  registerClient(body: Record<string, unknown>, options: CallOptions = {}): Promise<Api.ClientInformation> {
    return this.transport.json("POST", "/oauth/register", { repeatable: false, body, ...options });
  }

  /** `POST /oauth/token`: get OAuth tokens. */
  issueTokens(form: Record<string, string>, options: CallOptions = {}): Promise<Api.TokenAnswer> {
    return this.transport.json("POST", "/oauth/token", { repeatable: false, form, ...options });
  }

  /** `POST /oauth/revoke`: revoke an OAuth token. */
  revokeToken(form: Record<string, string>, options: CallOptions = {}): Promise<void> {
    return this.transport.none("POST", "/oauth/revoke", { repeatable: false, form, ...options });
  }
}

export class Account extends Resource {
  readonly sessions = new AccountSessions(this.transport);
  readonly identities = new AccountIdentities(this.transport);
  readonly grants = new AccountGrants(this.transport);

  /** `GET /v1/auth/me`: get your account. */
  get(options: CallOptions = {}): Promise<Api.User> {
    return this.transport.json("GET", "/v1/auth/me", { ...options });
  }

  /** `PATCH /v1/auth/me`: change your name. */
  update(body: Api.UpdateUser, options: CallOptions = {}): Promise<Api.User> {
    return this.transport.json("PATCH", "/v1/auth/me", { body, ...options });
  }

  /** `DELETE /v1/auth/me`: delete your account. */
  delete(body: Api.DeleteUser, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", "/v1/auth/me", { body, ...options });
  }

  /** `GET /v1/auth/me/export`: export your data. */
  export(options: CallOptions = {}): Promise<Api.AccountExport> {
    return this.transport.json("GET", "/v1/auth/me/export", { ...options });
  }

  /** `POST /v1/auth/signup`: sign up. */
  signUp(body: Api.SignUp, options: CallOptions = {}): Promise<Api.Login | undefined> {
    return this.transport.json("POST", "/v1/auth/signup", { repeatable: false, body, ...options });
  }

  /** `POST /v1/auth/login`: sign in. */
  logIn(body: Api.LogIn, options: CallOptions = {}): Promise<Api.Login> {
    return this.transport.json("POST", "/v1/auth/login", { repeatable: false, body, ...options });
  }

  /** `POST /v1/auth/logout`: sign out. */
  logOut(options: CallOptions = {}): Promise<void> {
    return this.transport.none("POST", "/v1/auth/logout", { repeatable: false, ...options });
  }

  /** `POST /v1/auth/verify-email`: verify an address. */
  verifyEmail(body: Api.VerifyEmail, options: CallOptions = {}): Promise<void> {
    return this.transport.none("POST", "/v1/auth/verify-email", { repeatable: false, body, ...options });
  }

  /** `POST /v1/auth/resend-verification`: ask for another verification mail. */
  resendVerification(options: CallOptions = {}): Promise<void> {
    return this.transport.none("POST", "/v1/auth/resend-verification", { repeatable: false, ...options });
  }

  /** `POST /v1/auth/forgot-password`: ask for a new password. */
  forgotPassword(body: Api.ForgotPassword, options: CallOptions = {}): Promise<void> {
    return this.transport.none("POST", "/v1/auth/forgot-password", { repeatable: false, body, ...options });
  }

  /** `POST /v1/auth/reset-password`: set a new password. */
  resetPassword(body: Api.ResetPassword, options: CallOptions = {}): Promise<void> {
    return this.transport.none("POST", "/v1/auth/reset-password", { repeatable: false, body, ...options });
  }

  /** `PUT /v1/me/password`: change your password. */
  changePassword(body: Api.ChangePassword, options: CallOptions = {}): Promise<void> {
    return this.transport.none("PUT", "/v1/me/password", { body, ...options });
  }

  /** `POST /v1/auth/me/second-factor`: enrol a second factor. */
  enrolSecondFactor(body: Api.EnrolSecondFactor, options: CallOptions = {}): Promise<Api.SecondFactorKey> {
    return this.transport.json("POST", "/v1/auth/me/second-factor", { repeatable: false, body, ...options });
  }

  /** `POST /v1/auth/me/second-factor/confirm`: confirm a second factor. */
  confirmSecondFactor(body: Api.ConfirmSecondFactor, options: CallOptions = {}): Promise<Api.RecoveryCodes> {
    return this.transport.json("POST", "/v1/auth/me/second-factor/confirm", { repeatable: false, body, ...options });
  }

  /** `DELETE /v1/auth/me/second-factor`: remove the second factor. */
  removeSecondFactor(body: Api.RemoveSecondFactor, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", "/v1/auth/me/second-factor", { body, ...options });
  }

  /** `PUT /v1/me/avatar`: upload your picture. */
  putAvatar(content: Uint8Array, contentType: string, options: CallOptions = {}): Promise<Api.User> {
    return this.transport.json("PUT", "/v1/me/avatar", { content, contentType, ...options });
  }

  /** `DELETE /v1/me/avatar`: delete your picture. */
  deleteAvatar(options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", "/v1/me/avatar", { ...options });
  }

  /** `GET /v1/users/{user_id}/avatar`: get the picture of a person. */
  avatarOf(userId: string, options: CallOptions = {}): Promise<Uint8Array> {
    return this.transport.bytes("GET", `/v1/users/${part(userId)}/avatar`, { ...options });
  }
}

export class Organizations extends Resource {
  readonly members = new OrganizationsMembers(this.transport);
  readonly invitations = new OrganizationsInvitations(this.transport);
  readonly keys = new OrganizationsKeys(this.transport);
  readonly billing = new OrganizationsBilling(this.transport);
  readonly license = new OrganizationsLicense(this.transport);
  readonly deployments = new OrganizationsDeployments(this.transport);

  /** `GET /v1/organizations`: list organizations. */
  list(options: CallOptions = {}): Promise<Api.Organization[]> {
    return this.transport.json("GET", "/v1/organizations", { ...options });
  }

  /** `POST /v1/organizations`: create an organization. */
  create(body: Api.OrganizationName, options: CallOptions = {}): Promise<Api.Organization> {
    return this.transport.json("POST", "/v1/organizations", { repeatable: false, body, ...options });
  }

  /** `PATCH /v1/organizations/{id}`: rename an organization. */
  rename(id: string, body: Api.OrganizationName, options: CallOptions = {}): Promise<Api.Organization> {
    return this.transport.json("PATCH", `/v1/organizations/${part(id)}`, { body, ...options });
  }

  /** `DELETE /v1/organizations/{id}`: delete an organization. */
  delete(id: string, body: Api.DeleteOrganization, options: CallOptions = {}): Promise<void> {
    return this.transport.none("DELETE", `/v1/organizations/${part(id)}`, { body, ...options });
  }

  /** `POST /v1/organizations/{id}/leave`: leave an organization. */
  leave(id: string, options: CallOptions = {}): Promise<void> {
    return this.transport.none("POST", `/v1/organizations/${part(id)}/leave`, { repeatable: false, ...options });
  }

  /** `POST /v1/organizations/{id}/ownership`: hand over the ownership. */
  transferOwnership(id: string, body: Api.TransferOwnership, options: CallOptions = {}): Promise<void> {
    return this.transport.none("POST", `/v1/organizations/${part(id)}/ownership`, { repeatable: false, body, ...options });
  }

  /** `POST /v1/invitations/accept`: accept an invitation. */
  acceptInvitation(body: Api.AcceptInvitation, options: CallOptions = {}): Promise<Api.Organization> {
    return this.transport.json("POST", "/v1/invitations/accept", { repeatable: false, body, ...options });
  }
}

export class Operator extends Resource {
  readonly organizations = new OperatorOrganizations(this.transport);
  readonly users = new OperatorUsers(this.transport);

  /** `GET /v1/operator/checks`: check the node. */
  checks(query: Api.GetOperatedChecksQuery = {}, options: CallOptions = {}): Promise<Api.NodeChecks> {
    return this.transport.json("GET", "/v1/operator/checks", { query, ...options });
  }

  /** `GET /v1/operator/nodes`: list nodes. */
  nodes(options: CallOptions = {}): Promise<Api.Node[]> {
    return this.transport.json("GET", "/v1/operator/nodes", { ...options });
  }

  /** `GET /v1/operator/ledger/check`: check the ledger. */
  checkLedger(query: Api.CheckLedgerQuery = {}, options: CallOptions = {}): Promise<Api.LedgerCheck> {
    return this.transport.json("GET", "/v1/operator/ledger/check", { query, ...options });
  }

  /** `GET /v1/operator/license-key`: get the license key. */
  licenseKey(options: CallOptions = {}): Promise<Api.LicenseKey> {
    return this.transport.json("GET", "/v1/operator/license-key", { ...options });
  }

  /** `GET /v1/operator/master-key`: get the master keys. */
  masterKeys(query: Api.GetOperatedMasterKeysQuery = {}, options: CallOptions = {}): Promise<Api.MasterKeys> {
    return this.transport.json("GET", "/v1/operator/master-key", { query, ...options });
  }

  /** `POST /v1/operator/master-key/reseal`: seal everything again. */
  reseal(query: Api.ResealEverythingQuery = {}, options: CallOptions = {}): Promise<Api.Reseal> {
    return this.transport.json("POST", "/v1/operator/master-key/reseal", { repeatable: false, query, ...options });
  }

  /** `POST /v1/operator/payments/{id}/refund`: refund a payment. */
  refundPayment(id: string, body: Api.RefundPayment, options: CallOptions = {}): Promise<Api.Payment> {
    return this.transport.json("POST", `/v1/operator/payments/${part(id)}/refund`, { repeatable: false, body, ...options });
  }
}

export class Client extends Resource {
  readonly workflows = new Workflows(this.transport);
  readonly schedules = new Schedules(this.transport);
  readonly connections = new Connections(this.transport);
  readonly budgets = new Budgets(this.transport);
  readonly deliveries = new Deliveries(this.transport);
  readonly models = new Models(this.transport);
  readonly admin = new Admin(this.transport);
  readonly console = new Console(this.transport);
  readonly oauth = new Oauth(this.transport);
  readonly account = new Account(this.transport);
  readonly organizations = new Organizations(this.transport);
  readonly operator = new Operator(this.transport);

  /** `GET /v1/me`: get the organization of the key. */
  me(options: CallOptions = {}): Promise<Api.OrganizationInfo> {
    return this.transport.json("GET", "/v1/me", { ...options });
  }

  /** `GET /v1/usage`: get usage as a member. */
  usage(query: Api.GetMemberUsageQuery = {}, options: CallOptions = {}): Promise<Api.Usage> {
    return this.transport.json("GET", "/v1/usage", { query, ...options });
  }

  /** `GET /healthz`: liveness. */
  health(options: CallOptions = {}): Promise<Api.Health> {
    return this.transport.json("GET", "/healthz", { ...options });
  }

  /** `GET /readyz`: readiness. */
  readiness(options: CallOptions = {}): Promise<Api.Readiness> {
    return this.transport.json("GET", "/readyz", { ...options });
  }

  /** `GET /metrics`: metrics. */
  metrics(options: CallOptions = {}): Promise<string> {
    return this.transport.text("GET", "/metrics", { ...options });
  }

  /** `GET /openapi.json`: get this description. */
  openapi(options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.transport.json("GET", "/openapi.json", { ...options });
  }
}
