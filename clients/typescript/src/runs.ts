// Runs: what takes more than one call.
import type * as Api from "./api.gen.ts";
import {
  APIError,
  ConnectionError,
  InvalidOutputError,
  RunNotSucceededError,
  SortieError,
  TimeoutError,
} from "./errors.ts";
import { download, downloadTo, type DownloadOptions } from "./download.ts";
import { GRACE_MS, LONGEST_WAIT, PATIENCE_MS, delayMs, isRetryable, sleep } from "./policy.ts";
import { part, parts } from "./request.ts";
import * as resources from "./resources.gen.ts";
import { RunStream, type LiveMessage, type StreamOptions } from "./stream.ts";
import { parse, type CallOptions } from "./transport.ts";

export interface CreateOptions extends CallOptions {
  /** The same key returns the same run. Without one, each call creates a run. */
  idempotencyKey?: string;
}

export interface WaitOptions extends CallOptions {
  /** Milliseconds after which the wait fails with `TimeoutError`. The run does not end with it. */
  withinMs?: number;
}

/** A schema of zod, Valibot, ArkType or any other library that implements Standard Schema and its JSON Schema. */
export interface OutputSchema<T> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Validation<T> | Promise<Validation<T>>;
    readonly jsonSchema?: { readonly input: (options: { target: "draft-2020-12" }) => Record<string, unknown> };
  };
}

type Validation<T> =
  | { readonly value: T; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<{ readonly message: string }> };

export type RunOptions = CreateOptions & WaitOptions;

export class Runs extends resources.Runs {
  /** `POST /v1/runs`: creates a run, once, however often the request has to be sent. */
  create(request: Api.RunRequest, { idempotencyKey, ...options }: CreateOptions = {}): Promise<Api.Run> {
    const headers = { ...options.headers, "Idempotency-Key": idempotencyKey ?? `sortie-client-${crypto.randomUUID()}` };
    return this.transport.json("POST", "/v1/runs", { ...options, headers, body: request });
  }

  /** Returns the run once it is finished. An engine that is away is asked again for five minutes. */
  async wait(id: string, { withinMs, ...options }: WaitOptions = {}): Promise<Api.Run> {
    const ends = withinMs === undefined ? Infinity : performance.now() + withinMs;
    let attempt = 0;
    let awaySince: number | undefined;
    for (;;) {
      const left = ends - performance.now();
      if (left <= 0) throw new TimeoutError(`run ${id} did not end within ${withinMs} ms`);
      const wait = Math.max(1, Math.min(LONGEST_WAIT, Math.floor(left / 1000)));
      try {
        // An engine that does not answer must not make the caller wait for much longer than it wants to.
        const longest = wait * 1000 + (options.timeoutMs ?? this.transport.timeoutMs);
        const timeoutMs = Math.ceil(Math.min(longest, left + GRACE_MS));
        const poll = { ...options, query: { wait }, timeoutMs, retries: 0 };
        const run = await this.transport.json<Api.Run>("GET", `/v1/runs/${part(id)}`, poll);
        [attempt, awaySince] = [0, undefined];
        if (run.finished_at !== undefined) return run;
      } catch (error) {
        const isPassing =
          error instanceof ConnectionError ||
          error instanceof TimeoutError ||
          (error instanceof APIError && isRetryable(error.status, true));
        const now = performance.now();
        awaySince ??= now;
        attempt += 1;
        const pause = delayMs(attempt, error instanceof APIError ? error.retryAfter : undefined);
        if (!isPassing || pause === undefined || now - awaySince > PATIENCE_MS) throw error;
        await sleep(Math.max(0, Math.min(pause, ends - now)), options.signal);
      }
    }
  }

  /**
   * Creates a run, waits until it is finished and returns it. With `output`, the answer has to match its JSON Schema, and is
   * returned as that schema parses it; else `InvalidOutputError`. Fails with `RunNotSucceededError` if the run ends in another way than `succeeded`.
   */
  run(request: Api.RunRequest, options?: RunOptions): Promise<Api.Run>;
  run<T>(request: Api.RunRequest & { output: OutputSchema<T> }, options?: RunOptions): Promise<T>;
  async run<T>(
    { output, ...request }: Api.RunRequest & { output?: OutputSchema<T> },
    { withinMs, ...options }: RunOptions = {},
  ): Promise<Api.Run | T> {
    if (output) request.output_schema ??= jsonSchemaOf(output);
    const { id } = await this.create(request, options);
    const { idempotencyKey: _, ...waiting } = options;
    const run = await this.wait(id, { ...waiting, ...(withinMs !== undefined && { withinMs }) });
    if (run.status !== "succeeded") throw new RunNotSucceededError(run);
    if (!output) return run;
    const result = await output["~standard"].validate(parse(run.output ?? ""));
    if (result.issues) throw new InvalidOutputError(run, result.issues.map(({ message }) => message).join("; "));
    return result.value;
  }

  /** Iterates over the events of a run as they happen. */
  stream(id: string, options: StreamOptions & { deltas: true }): RunStream<Api.Event | LiveMessage>;
  stream(id: string, options?: StreamOptions & { deltas?: false }): RunStream;
  stream(id: string, options: StreamOptions): RunStream<Api.Event | LiveMessage>;
  stream(id: string, options: StreamOptions = {}): RunStream<Api.Event | LiveMessage> {
    return new RunStream(this.transport, id, options);
  }

  /** `GET /v1/runs/{id}/events`: at most 1,000 recorded events, as a list. */
  events(id: string, query: Api.FollowRunQuery = {}, options: CallOptions = {}): Promise<Api.Event[]> {
    return this.transport.json("GET", `/v1/runs/${part(id)}/events`, { query, ...options });
  }

  /** `POST /v1/runs/cancel`: cancels every run that matches the filters. `dry_run` counts them. */
  async cancelAll(query: Api.CancelRunsQuery = {}, options: CallOptions = {}): Promise<Api.CancelledRuns> {
    let total: Api.CancelledRuns | undefined;
    do {
      const filters = total ? { ...query, cursor: total.next_cursor } : query;
      const page = await this.transport.json<Api.CancelledRuns>("POST", "/v1/runs/cancel", {
        query: filters,
        ...options,
      });
      total = {
        ...page,
        matched: page.matched + (total?.matched ?? 0),
        cancelled: page.cancelled + (total?.cancelled ?? 0),
      };
    } while (total.next_cursor);
    return total;
  }

  /** `GET /v1/runs/{id}/artifacts/{path}`: the content of an artifact, checked against its SHA-256, or writes it. */
  download(id: string, path: string, options: DownloadOptions): Promise<void>;
  download(id: string, path: string, options?: CallOptions & { to?: undefined }): Promise<Uint8Array>;
  download(
    id: string,
    path: string,
    options: CallOptions & { to?: DownloadOptions["to"] | undefined } = {},
  ): Promise<Uint8Array | void> {
    const { to, ...others } = options;
    const url = `/v1/runs/${part(id)}/artifacts/${parts(path)}`;
    return to === undefined ? download(this.transport, url, others) : downloadTo(this.transport, url, { to, ...others });
  }
}

function jsonSchemaOf<T>(output: OutputSchema<T>): Record<string, unknown> {
  const { jsonSchema, vendor } = output["~standard"];
  if (!jsonSchema)
    throw new SortieError(`output: this schema of ${vendor} makes no JSON Schema; pass it as output_schema as well`);
  return jsonSchema.input({ target: "draft-2020-12" });
}
