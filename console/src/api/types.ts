// Types of the API: those of the reviewed document, and what the console uses beyond it. A field that the document has as
// well keeps its type there.
import type * as Hosted from "./organization.ts";
import type * as Schema from "./schema";

export type * from "./organization.ts";
export type * from "./schema";

export type Run = Schema.Run & {
  title?: string;
  model?: string;
  key_id?: string;
  timeout_seconds?: number;
  replay_of?: string;
};
export interface RunPage {
  items: Run[];
  next_cursor: string;
}
export type RunRequest = Schema.RunRequest & { replay_of?: string };
export interface RunDefinition {
  request: RunRequest;
  requires_credentials: string[];
}
export type OrganizationInfo = Schema.OrganizationInfo & {
  key_name?: string;
  organization_name?: string;
  version?: string;
};
export type ApiKey = Schema.ApiKey & { last_used_at?: string };
export type WorkflowSummary = Schema.WorkflowSummary & {
  model?: string;
  revision?: number;
  updated_at?: string;
  runs_30d?: number;
  cost_30d_micros?: number;
  connections?: string[];
};

/** Numbers of a cancel of all runs that match filters. With `dry_run` nothing is cancelled. */
export interface CancelledRuns {
  matched: number;
  cancelled: number;
  next_cursor: string;
}

export type DeliveryState = "pending" | "retrying" | "delivered" | "abandoned";

export interface Delivery {
  run_id: string;
  receiver: string;
  state: DeliveryState;
  attempts: number;
  last_attempt_at?: string;
  next_at?: string;
  status?: number;
  error?: string;
}

/** What a page may know before anybody signs in. */
export interface ConsoleInfo {
  version: string;
  mode: "hosted" | "self-hosted";
  sign_in_url?: string;
}

interface Operation<Body, Reply> {
  path: {};
  query: URLSearchParams | Record<string, string | number | boolean | undefined>;
  body: Body;
  reply: Reply;
}

type OfOrganization<Body, Reply, Path = {}> = Omit<Operation<Body, Reply>, "path"> & { path: { org: string } & Path };

/** Operations with types of this file instead of those of the document. */
interface OwnOperations {
  "GET /v1/console": Operation<undefined, ConsoleInfo>;
  "POST /v1/console/sessions": Operation<{ key: string } | { code: string }, unknown>;
  "DELETE /v1/console/sessions/current": Operation<undefined, void>;
  "GET /v1/organizations": Operation<undefined, Hosted.Organization[]>;
  "POST /v1/organizations": Operation<{ name: string }, Hosted.Organization>;
  "GET /v1/organizations/{org}/keys": OfOrganization<undefined, ApiKey[]>;
  "POST /v1/organizations/{org}/keys": OfOrganization<Schema.CreateKey, Schema.CreatedKey>;
  "DELETE /v1/organizations/{org}/keys/{id}": OfOrganization<undefined, void, { id: string }>;
  "POST /v1/organizations/{org}/keys/{id}/rotate": OfOrganization<Schema.RotateKey, Schema.CreatedKey, { id: string }>;
  "GET /v1/organizations/{org}/members": OfOrganization<undefined, Hosted.OrganizationMember[]>;
  "PATCH /v1/organizations/{org}/members/{id}": OfOrganization<{ role: Hosted.MemberRole }, unknown, { id: string }>;
  "DELETE /v1/organizations/{org}/members/{id}": OfOrganization<undefined, void, { id: string }>;
  "GET /v1/organizations/{org}/invitations": OfOrganization<undefined, Hosted.Invitation[]>;
  "POST /v1/organizations/{org}/invitations": OfOrganization<
    { email: string; role: Hosted.MemberRole },
    Hosted.CreatedInvitation
  >;
  "DELETE /v1/organizations/{org}/invitations/{id}": OfOrganization<undefined, void, { id: string }>;
  "GET /v1/organizations/{org}/billing": OfOrganization<undefined, Hosted.Billing>;
  "POST /v1/organizations/{org}/billing/checkout": OfOrganization<{ amount_cents: number }, { url: string }>;
  "POST /v1/runs": Operation<RunRequest, Run>;
  "POST /v1/runs/cancel": Operation<undefined, CancelledRuns>;
  "GET /v1/deliveries": Operation<undefined, { items: Delivery[]; next_cursor: string }>;
  "GET /v1/usage": Operation<undefined, Schema.Usage>;
  "GET /v1/me": Operation<undefined, OrganizationInfo>;
  "GET /v1/runs": Operation<undefined, RunPage>;
  "GET /v1/workflows": Operation<undefined, WorkflowSummary[]>;
  "GET /v1/admin/keys": Operation<undefined, ApiKey[]>;
  "GET /v1/runs/{id}": Omit<Schema.Operations["GET /v1/runs/{id}"], "reply"> & { reply: Run };
  "GET /v1/runs/{id}/definition": Omit<Schema.Operations["GET /v1/runs/{id}/definition"], "reply"> & {
    reply: RunDefinition;
  };
}

export type Operations = Omit<Schema.Operations, keyof OwnOperations> & OwnOperations;
