// Downloads that continue after a broken connection, and are checked against their SHA-256.
import { APIError, ConnectionError, SortieError, TimeoutError } from "./errors.ts";
import { createDigest, createPartialFile } from "./node.ts";
import { delayMs, isRetryable, sleep } from "./policy.ts";
import { chunksOf } from "./sse.ts";
import type { CallOptions, Transport } from "./transport.ts";

/** A path, where the file appears once it is complete, or a stream, which stays open. Needs Node, Deno or Bun. */
export type Target = string | URL | WritableStream<Uint8Array>;

export interface DownloadOptions extends CallOptions {
  to: Target;
}

/** Returns the content. */
export async function download(transport: Transport, path: string, options: CallOptions): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  const tag = await copy(transport, path, options, (chunk) => void chunks.push(chunk));
  const content = new Uint8Array(await new Blob(chunks as BlobPart[]).arrayBuffer());
  check(path, tag, hex(new Uint8Array(await crypto.subtle.digest("SHA-256", content))));
  return content;
}

/** Writes the content to a path or a stream. */
export async function downloadTo(transport: Transport, path: string, { to, ...options }: DownloadOptions): Promise<void> {
  const digest = await createDigest();
  const copyTo = async (write: (chunk: Uint8Array) => Promise<void>) => {
    const tag = await copy(transport, path, options, (chunk) => {
      digest.update(chunk);
      return write(chunk);
    });
    check(path, tag, digest.hex());
  };
  if (to instanceof WritableStream) {
    const writer = to.getWriter();
    return copyTo((chunk) => writer.write(chunk)).finally(() => writer.releaseLock());
  }
  const file = await createPartialFile(to);
  try {
    await copyTo((chunk) => file.write(chunk));
  } catch (error) {
    await file.discard();
    throw error;
  }
  await file.complete();
}

/** Copies the content and returns its tag. */
async function copy(
  transport: Transport,
  path: string,
  options: CallOptions,
  write: (chunk: Uint8Array) => void | Promise<void>,
): Promise<string> {
  let [written, attempt, tag] = [0, 0, ""];
  let isWriting = false;
  for (;;) {
    let failure: Error;
    let retryAfter: number | undefined;
    try {
      // If-Match: the rest has to be that of the same content.
      const rest = written ? { Range: `bytes=${written}-`, "If-Match": tag } : {};
      const headers = { ...options.headers, Accept: "*/*", ...rest };
      const response = await transport.open("GET", path, { ...options, headers });
      tag = response.headers.get("etag") ?? "";
      if (!response.body) return tag;
      // A proxy may answer the whole content.
      let skipped = response.status === 206 ? 0 : written;
      const timeoutMs = options.timeoutMs ?? transport.timeoutMs;
      const silent = () => new TimeoutError(`${transport.baseUrl} was silent for ${timeoutMs / 1000} s`);
      for await (const bytes of chunksOf(response.body, timeoutMs, silent)) {
        const chunk = bytes.subarray(Math.min(skipped, bytes.length));
        skipped -= bytes.length - chunk.length;
        isWriting = true;
        await write(chunk);
        isWriting = false;
        written += chunk.length;
        attempt = 0;
      }
      return tag;
    } catch (error) {
      if (isWriting) throw error;
      failure = transport.failure(error, options.signal);
      if (failure instanceof APIError) {
        // The connection broke after the last byte.
        if (failure.status === 416 && written) return tag;
        if (!isRetryable(failure.status, true)) throw failure;
        retryAfter = failure.retryAfter;
      } else if (!(failure instanceof ConnectionError || failure instanceof TimeoutError)) throw failure;
    }
    attempt += 1;
    const pause = delayMs(attempt, retryAfter);
    if (pause === undefined || attempt > transport.retries) throw failure;
    await sleep(pause, options.signal);
  }
}

const hex = (bytes: Uint8Array) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

function check(path: string, tag: string, digest: string) {
  if (tag.replace(/^W\//, "").replaceAll('"', "") !== digest)
    throw new SortieError(`${path} arrived with other content than the engine has: its SHA-256 differs`);
}
