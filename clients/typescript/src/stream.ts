// The events of a run, over as many connections as it takes.
import type { Event, MessageDelta, MessageStart, Run, ToolOutput } from "./api.gen.ts";
import { APIError, ConnectionError, SortieError, TimeoutError } from "./errors.ts";
import { PATIENCE_MS, STREAM_SILENCE_MS, delayMs, isRetryable, sleep } from "./policy.ts";
import { part } from "./request.ts";
import { chunksOf, messagesOf, type Message } from "./sse.ts";
import { parse, type CallOptions, type Transport } from "./transport.ts";

/** A message that is not recorded. Its type may be one that this version does not know. */
export type LiveMessage =
  | { type: "message_start"; data: MessageStart; id?: undefined }
  | { type: "message_delta"; data: MessageDelta; id?: undefined }
  | { type: "tool_output"; data: ToolOutput; id?: undefined };

const LIVE = new Set(["message_start", "message_delta", "tool_output"]);

export interface StreamOptions extends CallOptions {
  /** Only events after this one. */
  after?: number;
  /** Adds live messages, which are not recorded: `message_start`, `message_delta` and `tool_output`. */
  deltas?: boolean;
}

/** A stream that continues after a message. */
export interface StreamSource {
  path: string;
  query: object;
  /** ID of the last message; undefined before the first. */
  position: () => string | undefined;
  /** Called for each connection that is made. */
  onOpen?: () => void;
}

/**
 * The messages of a stream, over as many connections as it takes. The reader returns after the last one: a connection that ends
 * before is made again. An engine that cannot be reached for five minutes ends the iteration with an error.
 */
export async function* messagesOfStream(
  transport: Transport,
  source: StreamSource,
  options: CallOptions,
): AsyncGenerator<Message, void, undefined> {
  let attempt = 0;
  let awaySince: number | undefined;
  for (;;) {
    let failure: Error = new ConnectionError("the stream ended before the run");
    let retryAfter: number | undefined;
    try {
      const onBytes = () => (awaySince = undefined);
      for await (const message of messagesOfConnection(transport, source, options, onBytes)) {
        attempt = 0;
        yield message;
      }
    } catch (error) {
      failure = transport.failure(error, options.signal);
      const isPassing = failure instanceof ConnectionError || failure instanceof TimeoutError;
      if (failure instanceof APIError && isRetryable(failure.status, true)) retryAfter = failure.retryAfter;
      else if (!isPassing) throw failure;
    }
    const now = performance.now();
    awaySince ??= now;
    attempt += 1;
    const pause = delayMs(attempt, retryAfter);
    if (pause === undefined || now - awaySince > PATIENCE_MS) throw failure;
    await sleep(pause, options.signal);
  }
}

/** The messages of one connection. Heartbeats count as bytes. */
async function* messagesOfConnection(
  transport: Transport,
  { path, query, position, onOpen }: StreamSource,
  options: CallOptions,
  onBytes: () => void,
): AsyncGenerator<Message, void, undefined> {
  const last = position();
  const headers = { ...options.headers, Accept: "text/event-stream", ...(last !== undefined && { "Last-Event-ID": last }) };
  const response = await transport.open("GET", path, { ...options, headers, query });
  if (!response.headers.get("content-type")?.startsWith("text/event-stream") || !response.body)
    throw new SortieError(`${transport.baseUrl}${path} is no event stream: is this address Sortie's?`);
  onOpen?.();
  const silent = () => new TimeoutError(`${transport.baseUrl} was silent for ${STREAM_SILENCE_MS / 1000} s`);
  yield* messagesOf(chunksOf(response.body, STREAM_SILENCE_MS, silent, onBytes));
}

/**
 * Iterates over the events of a run, in order and each once, and ends with the run. A newer engine may send types of events that
 * `Event` does not list: ignore those.
 *
 * A broken connection is made again, and continues after the last event. `run` is the finished run once the iteration has ended.
 * An engine that cannot be reached for five minutes ends the iteration with `ConnectionError`; iterating again continues after
 * `lastEventId`.
 */
export class RunStream<T extends Event | LiveMessage = Event> implements AsyncIterable<T> {
  run: Run | undefined;
  lastEventId: number;
  readonly #transport: Transport;
  readonly #path: string;
  readonly #options: StreamOptions;

  constructor(transport: Transport, id: string, options: StreamOptions) {
    this.#transport = transport;
    this.#path = `/v1/runs/${part(id)}/events`;
    this.#options = options;
    this.lastEventId = options.after ?? 0;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    const { deltas, after: _, ...options } = this.#options;
    const query = deltas ? { deltas } : {};
    const source = { path: this.#path, query, position: () => String(this.lastEventId) };
    for await (const message of messagesOfStream(this.#transport, source, options)) {
      if (message.event === "done") {
        this.run = parse(message.data) as Run;
        return;
      }
      const event = this.#read(message);
      if (event) yield event;
    }
  }

  /** The event of a message, unless it was there already or is of a kind that this version does not know. */
  #read({ event, data, id }: Message): T | undefined {
    const content = parse(data) as T;
    if (LIVE.has(event)) return { type: event, data: content } as unknown as T;
    if (id === undefined || Number(id) <= this.lastEventId) return undefined;
    this.lastEventId = Number(id);
    return content;
  }
}
