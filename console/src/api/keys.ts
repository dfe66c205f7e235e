// API keys: those of a self-hosted engine, or those of the organization on a hosted deployment.
import { call, organization, type Api } from "./client.ts";

const org = organization ?? "";

export const listKeys = (init: { signal?: AbortSignal } = {}) =>
  organization
    ? call("GET /v1/organizations/{org}/keys", { path: { org }, ...init })
    : call("GET /v1/admin/keys", init);

export const createKey = (body: Api.CreateKey) =>
  organization
    ? call("POST /v1/organizations/{org}/keys", { path: { org }, body })
    : call("POST /v1/admin/keys", { body });

export const rotateKey = (id: string, body: Api.RotateKey) =>
  organization
    ? call("POST /v1/organizations/{org}/keys/{id}/rotate", { path: { org, id }, body })
    : call("POST /v1/admin/keys/{id}/rotate", { path: { id }, body });

export const revokeKey = (id: string) =>
  organization
    ? call("DELETE /v1/organizations/{org}/keys/{id}", { path: { org, id } })
    : call("DELETE /v1/admin/keys/{id}", { path: { id } });
