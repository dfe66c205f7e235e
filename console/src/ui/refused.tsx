// What the engine refuses in a form: each message at its field, the others in a box.
import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import { ApiError } from "../api/client.ts";
import { messagesByField } from "../model/schema.ts";
import { ErrorBox } from "./basics.tsx";

/** Messages by field. It knows which of them a field has asked for, and shows. */
class Messages extends Map<string, string> {
  readonly #shown = new Set<string>();

  override get(field: string) {
    this.#shown.add(field);
    return super.get(field);
  }

  rest(): string {
    const rest = [...this].filter(([field]) => !this.#shown.has(field));
    return rest.map(([field, reason]) => `${field}: ${reason}`).join("; ");
  }
}

export const useMessages = (error: ApiError | undefined) =>
  useMemo(() => new Messages(error?.status === 400 ? messagesByField(error.message) : []), [error]);

/** The error of a form, without what its fields show. */
export function Refused({ error, messages }: { error: ApiError | undefined; messages: Messages }) {
  const [rest, setRest] = useState("");
  // The fields have asked by then.
  useLayoutEffect(() => setRest(messages.rest()), [messages]);
  if (!error) return null;
  if (messages.size === 0) return <ErrorBox error={error} />;
  return rest ? <ErrorBox error={new ApiError(error.status, error.code, rest, error.requestId)} /> : null;
}
