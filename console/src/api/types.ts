// Types of the API: those of the reviewed document, and what it does not describe.
import type * as Hosted from "./organization.ts";
import type * as Schema from "./schema";

export type * from "./organization.ts";
export type * from "./schema";

interface Operation<Body, Reply> {
  path: {};
  query: URLSearchParams | Record<string, string | number | boolean | undefined>;
  body: Body;
  reply: Reply;
}

type OfOrganization<Body, Reply, Path = {}> = Omit<Operation<Body, Reply>, "path"> & { path: { org: string } & Path };

/** Operations with types of this file instead of those of the document. */
interface OwnOperations {
  "GET /v1/organizations": Operation<undefined, Hosted.Organization[]>;
  "POST /v1/organizations": Operation<{ name: string }, Hosted.Organization>;
  "GET /v1/organizations/{org}/keys": OfOrganization<undefined, Schema.ApiKey[]>;
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
  "POST /v1/organizations/{org}/billing/checkout": OfOrganization<
    { amount_cents: number; save_payment_method: boolean },
    Hosted.ProviderPage
  >;
  "POST /v1/organizations/{org}/billing/portal": OfOrganization<undefined, Hosted.ProviderPage>;
  "PUT /v1/organizations/{org}/billing/auto-topup": OfOrganization<Hosted.PutAutoTopup, Hosted.AutoTopup>;
  "GET /v1/organizations/{org}/billing/ledger": OfOrganization<undefined, Hosted.LedgerPage>;
  "GET /v1/organizations/{org}/billing/payments": OfOrganization<undefined, Hosted.PaymentPage>;
  "GET /v1/organizations/{org}/billing/payments/{id}/receipt": OfOrganization<
    undefined,
    Hosted.ProviderPage,
    { id: string }
  >;
  /** The console always asks for pages. */
  "GET /v1/runs": Omit<Schema.Operations["GET /v1/runs"], "reply"> & { reply: Schema.RunPage };
}

export type Operations = Omit<Schema.Operations, keyof OwnOperations> & OwnOperations;
