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
    const { signal } = this.#options;
    let attempt = 0;
    let awaySince: number | undefined;
    for (;;) {
      let failure: Error = new ConnectionError("the stream ended before the run");
      let retryAfter: number | undefined;
      try {
        const onBytes = () => (awaySince = undefined);
        for await (const message of this.#messages(onBytes)) {
          if (message.event === "done") {
            this.run = parse(message.data) as Run;
            return;
          }
          const event = this.#read(message);
          if (!event) continue;
          attempt = 0;
          yield event;
        }
      } catch (error) {
        failure = this.#transport.failure(error, signal);
        const isPassing = failure instanceof ConnectionError || failure instanceof TimeoutError;
        if (failure instanceof APIError && isRetryable(failure.status, true)) retryAfter = failure.retryAfter;
        else if (!isPassing) throw failure;
      }
      const now = performance.now();
      awaySince ??= now;
      attempt += 1;
      const pause = delayMs(attempt, retryAfter);
      if (pause === undefined || now - awaySince > PATIENCE_MS) throw failure;
      await sleep(pause, signal);
    }
  }

  /** The messages of one connection. Heartbeats count as bytes. */
  async *#messages(onBytes: () => void): AsyncGenerator<Message, void, undefined> {
    const { deltas, after: _, ...options } = this.#options;
    const response = await this.#transport.open("GET", this.#path, {
      ...options,
      headers: { ...options.headers, Accept: "text/event-stream", "Last-Event-ID": String(this.lastEventId) },
      query: deltas ? { deltas } : {},
    });
    if (!response.headers.get("content-type")?.startsWith("text/event-stream") || !response.body)
      throw new SortieError(`${this.#transport.baseUrl}${this.#path} is no event stream: is this address Sortie's?`);
    const silent = () => new TimeoutError(`${this.#transport.baseUrl} was silent for ${STREAM_SILENCE_MS / 1000} s`);
    yield* messagesOf(chunksOf(response.body, STREAM_SILENCE_MS, silent, onBytes));
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
