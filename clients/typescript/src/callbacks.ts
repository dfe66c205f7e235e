// Callbacks: the signed requests that the engine sends when a run is finished.
import type { Run } from "./api.gen.ts";
import { InvalidSignatureError } from "./errors.ts";

/** Seconds for which a signature is valid. */
export const TOLERANCE = 300;

type HeaderSource = Headers | Record<string, string | string[] | undefined>;

const headerOf = (headers: HeaderSource, name: string): string => {
  if (headers instanceof Headers) return headers.get(name) ?? "";
  const found = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  return typeof found === "string" ? found : "";
};

/**
 * Returns the run of a callback, or fails with `InvalidSignatureError`.
 *
 * `body` is the body as it came: a framework that parses it and writes it again changes the bytes. A callback can arrive more
 * than once: compare `run.id` with those that were handled before.
 */
export async function verify(
  body: string | Uint8Array,
  headers: HeaderSource,
  secret: string,
  { toleranceSeconds = TOLERANCE } = {},
): Promise<Run> {
  const content = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const timestamp = headerOf(headers, "x-service-timestamp");
  if (!/^[0-9]+$/.test(timestamp))
    throw new InvalidSignatureError("X-Service-Timestamp is missing or is no time in Unix seconds");
  const prefix = new TextEncoder().encode(`${timestamp}.`);
  const signed = new Uint8Array(prefix.length + content.length);
  signed.set(prefix);
  signed.set(content, prefix.length);
  const digits = /^sha256=([0-9a-f]{64})$/.exec(headerOf(headers, "x-service-signature"))?.[1];
  const signature = Uint8Array.from(digits?.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(secret), algorithm, false, ["verify"]);
  // `verify` compares in constant time.
  if (!(await crypto.subtle.verify("HMAC", key, signature, signed)))
    throw new InvalidSignatureError("X-Service-Signature is missing or is not of this body and secret");
  const age = Math.abs(Date.now() / 1000 - Number(timestamp));
  if (age > toleranceSeconds)
    throw new InvalidSignatureError(`the callback was signed ${age.toFixed(0)} s ago, or the clocks differ by that much`);
  return JSON.parse(new TextDecoder().decode(content)) as Run;
}
