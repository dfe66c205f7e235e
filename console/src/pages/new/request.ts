// The request that the form and the JSON text share.
import { useState } from "preact/hooks";
import type { Api } from "../../api/client.ts";

export type Change = { [Field in keyof Api.RunRequest]?: Api.RunRequest[Field] | undefined };

export interface Draft {
  request: Api.RunRequest;
  /** The request as text, as it was typed if it was. */
  text: string;
  isText: boolean;
  /** Sent with the request, so that one that is repeated starts no second run. */
  idempotencyKey: string;
  set(change: Change): void;
  setText(text: string): void;
  replace(request: Api.RunRequest): void;
}

const pretty = (request: Api.RunRequest) => JSON.stringify(request, null, 2);

export function useDraft(): Draft {
  const [state, setState] = useState(() => ({
    request: {} as Api.RunRequest,
    text: "{}",
    isText: true,
    idempotencyKey: crypto.randomUUID() as string,
  }));
  const replace = (request: Api.RunRequest) =>
    setState({ request, text: pretty(request), isText: true, idempotencyKey: crypto.randomUUID() });
  return {
    ...state,
    replace,
    set: (change) =>
      replace(
        Object.fromEntries(
          Object.entries({ ...state.request, ...change }).filter(([, value]) => value !== undefined),
        ) as Api.RunRequest,
      ),
    setText: (text) => {
      try {
        const request: unknown = JSON.parse(text);
        if (typeof request === "object" && request !== null && !Array.isArray(request)) {
          return setState({
            request: request as Api.RunRequest,
            text,
            isText: true,
            idempotencyKey: crypto.randomUUID(),
          });
        }
      } catch {
        // Half of a text is no JSON; the form keeps what it has until it is.
      }
      setState({ ...state, text, isText: false });
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
