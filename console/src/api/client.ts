// Calls of the API. The session is in a cookie that scripts cannot read.
import type { Operations } from "./types.ts";

export type * as Api from "./types.ts";

/** Addresses of the console and of the API: those of one organization on a hosted deployment. */
export const organization = /^\/console\/o\/([^/]+)/.exec(location.pathname)?.[1];
export const pageBase = organization ? `/console/o/${organization}` : "/console";
export const apiBase = organization ? `/engine/${organization}` : "";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId?: string,
    readonly retryAfter?: number,
  ) {
    super(message);
  }
}

const listeners = new Set<() => void>();
/** Calls back when the engine says that the session has ended. */
export const onSignedOut = (listener: () => void) => void listeners.add(listener);

type Query = URLSearchParams | Record<string, string | number | boolean | undefined>;

export interface CallInput<Name extends keyof Operations> {
  path?: Operations[Name]["path"];
  query?: URLSearchParams | Operations[Name]["query"];
  body?: Operations[Name]["body"];
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

function queryText(query: Query): string {
  const entries =
    query instanceof URLSearchParams ? [...query] : Object.entries(query).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(entries.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}

/** Method and address of an operation: "GET /v1/runs/{id}" with its parts filled in. */
export function addressOf(
  name: string,
  path: Record<string, string | number> = {},
  query: Query = {},
): [string, string] {
  const [method, template] = name.split(" ") as [string, string];
  const filled = template.replace(/\{(\w+)\}/g, (_, part) =>
    String(path[part]).split("/").map(encodeURIComponent).join("/"),
  );
  return [method, filled + queryText(query)];
}

/** The error of a response that is no success. */
export async function errorOf(response: Response): Promise<ApiError> {
  const requestId = response.headers.get("X-Request-Id") ?? undefined;
  const retryAfter = Number(response.headers.get("Retry-After")) || undefined;
  const body = (await response.json().catch(() => undefined)) as { error?: string; code?: string } | undefined;
  const error = new ApiError(
    response.status,
    body?.code ?? "unavailable",
    body?.error ?? `the engine answered ${response.status}`,
    requestId,
    retryAfter,
  );
  if (response.status === 401) for (const listener of listeners) listener();
  return error;
}

// Operations that belong to a person and not to an organization.
const PERSONAL = /^\/v1\/(console|organizations)\b/;

/** Sends a request. A network failure becomes an `ApiError` too. */
export async function send(method: string, path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (method !== "GET") headers.set("X-Sortie-Console", "1");
  const response = await fetch((PERSONAL.test(path) ? "" : apiBase) + path, {
    ...init,
    method,
    headers,
    credentials: "same-origin",
  }).catch((error: unknown) => {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "offline", "the engine cannot be reached");
  });
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function call<Name extends keyof Operations>(
  name: Name,
  input: CallInput<Name> = {},
): Promise<Operations[Name]["reply"]> {
  const [method, path] = addressOf(name, input.path, input.query as Query | undefined);
  const headers: Record<string, string> = { Accept: "application/json", ...input.headers };
  const init: RequestInit = { headers };
  if (input.signal) init.signal = input.signal;
  if (input.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(input.body);
  } else if (method !== "GET") {
    headers["Content-Type"] = "application/json";
  }
  const response = await send(method, path, init);
  return (response.status === 204 ? undefined : await response.json()) as Operations[Name]["reply"];
}
