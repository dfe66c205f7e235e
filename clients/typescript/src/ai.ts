// A transport for `useChat` of the AI SDK: each answer of the chat is a run.
import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";
import { part } from "./request.ts";
import { messagesOfStream } from "./stream.ts";
import { parse, Transport } from "./transport.ts";

/** A run that the page may follow. */
export interface ChatRun {
  /** ID of the run. It becomes the ID of the message. */
  run: string;
  /** Run token. */
  token: string;
}

type SendOptions<M extends UIMessage> = Parameters<ChatTransport<M>["sendMessages"]>[0];
type ReconnectOptions<M extends UIMessage> = Parameters<ChatTransport<M>["reconnectToStream"]>[0];

export interface ChatTransportSettings<M extends UIMessage = UIMessage> {
  /** Address of the engine. */
  baseUrl: string;
  /** Starts the run that answers the last message: calls your server, which has the API key. */
  startRun: (options: SendOptions<M>) => Promise<ChatRun>;
  /** Finds the run of a chat after the page was loaded again. Without one, there is nothing to continue. */
  findRun?: (options: ReconnectOptions<M>) => Promise<ChatRun | undefined>;
  /** Shows text while the model writes it. Default: true. */
  live?: boolean;
  /**
   * Cancels the run when the chat is stopped. The token must permit `cancel`. `useChat` also stops a chat when its component is
   * removed. Default: false, and the run continues.
   */
  cancelOnStop?: boolean;
  /** Called if a run cannot be cancelled. Without it, that is an unhandled rejection. */
  onCancelError?: (error: Error) => void;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
}

/** Follows runs through broken connections and restarts of the engine. Keep it outside of the component or in `useMemo`. */
export class SortieChatTransport<M extends UIMessage = UIMessage> implements ChatTransport<M> {
  /** A chat that continues gets the whole message of its run again. */
  readonly resumeStreamIsReplay = true;
  readonly #settings: ChatTransportSettings<M>;
  readonly #runs = new Map<string, ChatRun>();

  constructor(settings: ChatTransportSettings<M>) {
    this.#settings = settings;
  }

  async sendMessages(options: SendOptions<M>): Promise<ReadableStream<UIMessageChunk>> {
    const run = await this.#settings.startRun(options);
    this.#runs.set(options.chatId, run);
    return this.#follow(run, options.abortSignal);
  }

  async reconnectToStream(options: ReconnectOptions<M>): Promise<ReadableStream<UIMessageChunk> | null> {
    const run = this.#runs.get(options.chatId) ?? (await this.#settings.findRun?.(options));
    if (!run) return null;
    this.#runs.set(options.chatId, run);
    return this.#follow(run, options.abortSignal);
  }

  #follow({ run, token }: ChatRun, stop: AbortSignal | undefined): ReadableStream<UIMessageChunk> {
    const { baseUrl, live = true, fetch } = this.#settings;
    const transport = new Transport({ baseUrl, apiKey: token, ...(fetch && { fetch }) });
    if (this.#settings.cancelOnStop) this.#cancelAfter(transport, run, stop);
    const closed = new AbortController();
    const signal = stop ? AbortSignal.any([stop, closed.signal]) : closed.signal;
    const chunks = chunksOfRun(transport, run, live, signal);
    return new ReadableStream({
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => closed.abort(),
    });
  }

  #cancelAfter(transport: Transport, run: string, stop: AbortSignal | undefined): void {
    const cancel = () => {
      const cancelled = transport.json("POST", `/v1/runs/${part(run)}/cancel`, {});
      const { onCancelError } = this.#settings;
      if (onCancelError) cancelled.catch(onCancelError);
    };
    if (stop?.aborted) cancel();
    else stop?.addEventListener("abort", cancel, { once: true });
  }
}

/** The chunks of a run, each once, over as many connections as it takes. */
async function* chunksOfRun(
  transport: Transport,
  run: string,
  live: boolean,
  signal: AbortSignal,
): AsyncGenerator<UIMessageChunk, void, undefined> {
  let position: string | undefined;
  const text = new LiveText();
  let isNew = false;
  const source = {
    path: `/v1/runs/${part(run)}/ui-messages`,
    query: live ? { deltas: true } : {},
    position: () => position,
    onOpen: () => (isNew = true),
  };
  for await (const { data, id } of messagesOfStream(transport, source, { signal })) {
    if (isNew) yield* text.forget();
    isNew = false;
    if (data === "[DONE]") return;
    yield* text.next(parse(data) as UIMessageChunk);
    position = id ?? position;
  }
}

/** Chunks that add a part to the message. `data-status` is not one: the part of the first event is replaced. */
const ADDING = new Set(["text-start", "reasoning-start", "tool-input-available", "data-artifact", "data-run"]);

/**
 * Adds the text that a model is writing to a message, in a step of its own. `reset-step` removes it when recorded parts come, which
 * use that step. Only text whose beginning came on this connection is shown.
 */
class LiveText {
  /** Turn whose text comes; 0 for none. */
  #step = 0;
  #text = "";
  #isShown = false;
  /** Whether the text has left an empty step behind, which the recorded step uses. */
  #hasEmptyStep = false;
  /** Whether the last `start-step` has no `finish-step`. */
  #hasOpenStep = false;
  /** Whether the recorded `finish-step` of the turn before the text is still to come. */
  #isFinishedEarly = false;
  /** The last turn whose text is recorded. */
  #recorded = 0;

  *next(chunk: UIMessageChunk): Generator<UIMessageChunk, void, undefined> {
    switch (chunk.type) {
      case "data-message-start":
        yield* this.#begin((chunk.data as { step: number }).step);
        break;
      case "data-message-delta":
        yield* this.#write(chunk.data as { step: number; text: string });
        break;
      // The text begins again, or does not continue.
      case "data-retry":
      case "data-resumed":
        yield* this.forget();
        break;
      case "finish":
      case "error":
      case "abort":
        yield* this.forget();
        if (this.#hasOpenStep) yield { type: "finish-step" };
        this.#hasOpenStep = false;
        break;
      case "start-step":
        yield* this.#hide();
        if (this.#hasEmptyStep) {
          this.#hasEmptyStep = false;
          return;
        }
        this.#hasOpenStep = true;
        break;
      case "finish-step":
        if (this.#isFinishedEarly) {
          this.#isFinishedEarly = false;
          return;
        }
        this.#hasOpenStep = false;
        break;
      default:
        if (ADDING.has(chunk.type)) {
          yield* this.#hide();
          this.#hasEmptyStep = false;
        }
        if (chunk.type === "text-start") this.#recorded = Number(chunk.id.replace("text-", ""));
    }
    yield chunk;
  }

  /** Removes the text, which will not be continued. */
  *forget(): Generator<UIMessageChunk, void, undefined> {
    yield* this.#hide();
    this.#step = 0;
  }

  *#begin(step: number): Generator<UIMessageChunk, void, undefined> {
    yield* this.#hide();
    this.#step = step > this.#recorded ? step : 0;
    this.#text = "";
  }

  *#write({ step, text }: { step: number; text: string }): Generator<UIMessageChunk, void, undefined> {
    if (step !== this.#step || step <= this.#recorded) return;
    this.#text += text;
    const id = `live-${step}`;
    if (this.#isShown) {
      yield { type: "text-delta", id, delta: text };
      return;
    }
    if (!this.#hasEmptyStep) {
      if (this.#hasOpenStep) {
        yield { type: "finish-step" };
        this.#isFinishedEarly = true;
      }
      yield { type: "start-step" };
      this.#hasOpenStep = true;
    }
    this.#hasEmptyStep = false;
    this.#isShown = true;
    yield { type: "text-start", id };
    yield { type: "text-delta", id, delta: this.#text };
  }

  /** The recorded part comes where the text is. */
  *#hide(): Generator<UIMessageChunk, void, undefined> {
    if (!this.#isShown) return;
    this.#isShown = false;
    this.#hasEmptyStep = true;
    yield { type: "reset-step" };
  }
}
