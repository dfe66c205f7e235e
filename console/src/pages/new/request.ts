// The request that the form and the JSON text share.
import { useState } from "preact/hooks";
import type { Api } from "../../api/client.ts";
import { parseJson } from "../../ui/form.tsx";

export type Change = { [Field in keyof Api.RunRequest]?: Api.RunRequest[Field] | undefined };

/** A change of fields, or one that is made from the request as it is by then. */
export type SetFields = (change: Change | ((request: Api.RunRequest) => Change)) => void;

interface DraftState {
  request: Api.RunRequest;
  /** The request as text, as it was typed if it was. */
  text: string;
  isText: boolean;
  /** Sent with the request, so that one that is repeated starts no second run. */
  idempotencyKey: string;
}

export interface Draft extends DraftState {
  set: SetFields;
  setText(text: string): void;
  replace(request: Api.RunRequest): void;
}

/** A random name. `crypto.randomUUID` is missing on pages without HTTPS. */
const randomName = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const draftOf = (request: Api.RunRequest, text = JSON.stringify(request, null, 2)): DraftState => ({
  request,
  text,
  isText: true,
  idempotencyKey: randomName(),
});

function withChange(request: Api.RunRequest, change: Change): Api.RunRequest {
  const fields = Object.entries({ ...request, ...change }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(fields) as Api.RunRequest;
}

/** The request that a text is, or undefined while it is being typed. */
function requestOf(text: string): Api.RunRequest | undefined {
  const { value } = parseJson(text);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Api.RunRequest) : undefined;
}

export function useDraft(): Draft {
  const [state, setState] = useState(() => draftOf({}));
  return {
    ...state,
    replace: (request) => setState(draftOf(request)),
    set: (change) =>
      setState(({ request }) => draftOf(withChange(request, typeof change === "function" ? change(request) : change))),
    setText: (text) => {
      const request = requestOf(text);
      setState((before) => (request ? draftOf(request, text) : { ...before, text, isText: false }));
    },
  };
}

// The field of `auth` that holds the secret, by its type.
const SECRETS: Record<string, "token" | "password" | "value"> = {
  bearer: "token",
  basic: "password",
  header: "value",
  query: "value",
};

/** The request with credentials put back into its inline connections. */
export function withCredentials(request: Api.RunRequest, credentials: Record<string, string>): Api.RunRequest {
  const connections = { ...request.connections };
  for (const [name, secret] of Object.entries(credentials)) {
    const auth = connections[name]?.auth ?? { type: "bearer" as const };
    connections[name] = { ...connections[name], auth: { ...auth, [SECRETS[auth.type] ?? "token"]: secret } };
  }
  return Object.keys(connections).length ? { ...request, connections } : request;
}
