// Sends requests, again where that is safe, and turns every failure into an error of this package.
import { APIError, ConnectionError, SortieError, TimeoutError, errorOf } from "./errors.ts";
import { RETRIES, TIMEOUT_MS, delayMs, isRetryable, sleep } from "./policy.ts";
import { queryOf } from "./request.ts";

export interface Settings {
  /** Address of the engine. Default: `SORTIE_URL`. */
  baseUrl?: string;
  /** API key or run token. Default: `SORTIE_API_KEY`. */
  apiKey?: string;
  /** Milliseconds of one call. Default: 30,000. */
  timeoutMs?: number;
  /** Attempts after the first one. Default: 4. */
  retries?: number;
  /** Sent with each request. */
  headers?: Record<string, string>;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
}

/** Options of one call. */
export interface CallOptions {
  /** Ends the call, or the iteration that it began. */
  signal?: AbortSignal;
  /** Milliseconds of this call. */
  timeoutMs?: number;
  headers?: Record<string, string>;
}

export interface RequestOptions extends CallOptions {
  query?: object;
  body?: object;
  form?: Record<string, string>;
  content?: Uint8Array | FormData;
  contentType?: string;
  /** Whether sending it twice has the effect of sending it once. Default: true. */
  repeatable?: boolean;
  /** Attempts after the first one, where they are not those of the settings. */
  retries?: number;
}

const environment = (name: string): string | undefined =>
  (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env?.[name] || undefined;

export class Transport {
  readonly baseUrl: string;
  readonly retries: number;
  readonly timeoutMs: number;
  readonly #headers: Record<string, string>;
  readonly #fetch: (url: string, init: RequestInit) => Promise<Response>;

  constructor(settings: Settings) {
    const baseUrl = settings.baseUrl ?? environment("SORTIE_URL");
    if (!baseUrl) throw new SortieError("no address of the engine: pass baseUrl, or set SORTIE_URL");
    const apiKey = settings.apiKey ?? environment("SORTIE_API_KEY");
    if (!/^https?:\/\//.test(baseUrl)) throw new SortieError(`baseUrl: "${baseUrl}" does not begin with http:// or https://`);
    if (apiKey && !/^[\x21-\x7e]+$/.test(apiKey)) throw new SortieError("apiKey: it has characters that no key has");
    this.baseUrl = baseUrl.replace(/\/+$/, "");
    this.retries = settings.retries ?? RETRIES;
    this.timeoutMs = settings.timeoutMs ?? TIMEOUT_MS;
    this.#headers = { ...settings.headers, ...(apiKey && { Authorization: `Bearer ${apiKey}` }) };
    // Browsers call `fetch` with the window as `this`, and with nothing else.
    const own = settings.fetch;
    this.#fetch = (url, init) => (own ? own(url, init) : fetch(url, init));
  }

  async json<T>(method: string, path: string, options: RequestOptions): Promise<T> {
    const text = await this.text(method, path, options);
    return (text ? parse(text) : undefined) as T;
  }

  text(method: string, path: string, options: RequestOptions): Promise<string> {
    return this.#call(method, path, options, (response) => response.text());
  }

  async none(method: string, path: string, options: RequestOptions): Promise<void> {
    await this.text(method, path, options);
  }

  bytes(method: string, path: string, options: RequestOptions): Promise<Uint8Array> {
    return this.#call(method, path, options, async (response) => new Uint8Array(await response.arrayBuffer()));
  }

  /** One attempt whose answer is read piece by piece: who reads it knows from where to go on. */
  async open(method: string, path: string, options: RequestOptions): Promise<Response> {
    const opening = new AbortController();
    const timer = abortLater(opening, options.timeoutMs ?? this.timeoutMs);
    // The caller's signal ends the body as well.
    const signal = options.signal ? AbortSignal.any([opening.signal, options.signal]) : opening.signal;
    try {
      return await this.#attempt(path, this.#request(method, options), signal, options.query);
    } catch (error) {
      throw this.failure(error, options.signal);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sends a form, once. It may take long: the time limit is for the answer after it, unless the caller names one for all. */
  async upload<T>(path: string, content: FormData, options: CallOptions): Promise<T> {
    const answering = new AbortController();
    const signals = [answering.signal, ...(options.signal ? [options.signal] : [])];
    if (options.timeoutMs !== undefined) signals.push(AbortSignal.timeout(options.timeoutMs));
    let timer: ReturnType<typeof setTimeout> | undefined;
    try {
      const request = this.#request("POST", { ...options, content });
      const response = await this.#attempt(path, request, AbortSignal.any(signals));
      timer = abortLater(answering, this.timeoutMs);
      return parse(await response.text()) as T;
    } catch (error) {
      throw this.failure(error, options.signal);
    } finally {
      clearTimeout(timer);
    }
  }

  /** The error of this package for a failure of `fetch`. What the caller's own signal says is theirs. */
  failure(error: unknown, signal?: AbortSignal): Error {
    if (error instanceof SortieError || signal?.aborted) return error as Error;
    if (error instanceof DOMException && error.name === "TimeoutError")
      return new TimeoutError(`${this.baseUrl} did not answer in time`, { cause: error });
    return new ConnectionError(`cannot reach ${this.baseUrl}: ${reasonOf(error)}`, { cause: error });
  }

  async #call<T>(
    method: string,
    path: string,
    options: RequestOptions,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    const request = this.#request(method, options);
    const { repeatable = true, retries = this.retries } = options;
    let mayHaveArrived = false;
    for (let attempt = 1; ; attempt += 1) {
      const timeout = AbortSignal.timeout(options.timeoutMs ?? this.timeoutMs);
      const signal = options.signal ? AbortSignal.any([timeout, options.signal]) : timeout;
      let failure: Error;
      let retryAfter: number | undefined;
      try {
        return await read(await this.#attempt(path, request, signal, options.query));
      } catch (error) {
        failure = this.failure(error, options.signal);
        if (failure instanceof APIError) {
          // An earlier attempt whose answer was lost has deleted it.
          if (method === "DELETE" && mayHaveArrived && failure.status === 404) return read(new Response());
          if (!isRetryable(failure.status, repeatable)) throw failure;
          mayHaveArrived ||= failure.status >= 500;
          retryAfter = failure.retryAfter;
        } else {
          const neverLeft = hasNotConnected(error);
          mayHaveArrived ||= !neverLeft;
          if (!(failure instanceof SortieError) || !(repeatable || neverLeft)) throw failure;
        }
      }
      const pause = delayMs(attempt, retryAfter);
      if (pause === undefined || attempt > retries) throw failure;
      await sleep(pause, options.signal);
    }
  }

  /** What each attempt sends. A body that has no JSON fails here, and is not sent again and again. */
  #request(method: string, { body, form, content, contentType, headers: own = {} }: RequestOptions): RequestInit {
    const headers = new Headers({ Accept: "application/json", ...this.#headers });
    if (body !== undefined) headers.set("Content-Type", "application/json");
    else if (contentType) headers.set("Content-Type", contentType);
    for (const [name, value] of Object.entries(own)) headers.set(name, value);
    const sent = body !== undefined ? JSON.stringify(body) : form !== undefined ? new URLSearchParams(form) : content;
    // A redirected POST would become a GET.
    return { method, headers, redirect: "manual", ...(sent !== undefined && { body: sent as BodyInit }) };
  }

  async #attempt(path: string, request: RequestInit, signal: AbortSignal, query: object = {}): Promise<Response> {
    const response = await this.#fetch(this.baseUrl + path + queryOf(query), { ...request, signal });
    if (!response.ok) throw await errorOf(response);
    return response;
  }
}

/** Ends a request that takes longer. */
const abortLater = (controller: AbortController, ms: number) =>
  setTimeout(() => controller.abort(new DOMException("no answer", "TimeoutError")), ms);

/** The value of an answer's JSON. */
export function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SortieError("the answer is not what the API describes: no JSON", { cause: error });
  }
}

const causeOf = (error: unknown) => (error as { cause?: { code?: string; message?: string } } | undefined)?.cause;

const reasonOf = (error: unknown) => causeOf(error)?.message || (error instanceof Error ? error.message : String(error));

/** Whether a request failed before it left, as far as the runtime says so. */
const hasNotConnected = (error: unknown) =>
  ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"].includes(causeOf(error)?.code ?? "");

/** What the methods of every resource are made of. */
export class Resource {
  protected readonly transport: Transport;

  constructor(transport: Transport) {
    this.transport = transport;
  }
}
