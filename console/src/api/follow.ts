// Follows an event stream: reconnects where it breaks off, and closes it while the page is hidden.
import { ApiError, apiBase, errorOf } from "./client.ts";
import { messageReader, type ServerMessage } from "./stream.ts";

export type FollowState = "connecting" | "live" | "reconnecting" | "paused" | "ended" | "refused";

interface Follower {
  path: string;
  /** Messages of one read of the socket. Returns true if the stream has ended for good. */
  onMessages(messages: ServerMessage[]): boolean;
  onState(state: FollowState, error?: ApiError): void;
  /** The engine has answered; its clock is `offset` milliseconds ahead of the browser's. */
  onOpen?(offset: number): void;
}

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
// A hidden page gives its connection to others: browsers have six of them for a server.
const HIDDEN_MS = 5000;

// The header has whole seconds, and the answer takes its time: clocks this close count as equal.
const EQUAL_MS = 2500;

function clockOffset(response: Response): number {
  const offset = Date.parse(response.headers.get("Date") ?? "") - Date.now();
  return Math.abs(offset) > EQUAL_MS ? offset : 0;
}

/** Returns a function that ends it. */
export function follow({ path, onMessages, onState, onOpen }: Follower): () => void {
  let lastId: string | undefined;
  let delay = FIRST_DELAY_MS;
  let isOver = false;
  let connection: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let hiddenTimer: ReturnType<typeof setTimeout> | undefined;

  const stop = (state: FollowState, error?: ApiError) => {
    if (isOver) return;
    isOver = true;
    connection?.abort();
    clearTimeout(timer);
    clearTimeout(hiddenTimer);
    removeEventListener("online", connect);
    document.removeEventListener("visibilitychange", onVisibility);
    onState(state, error);
  };

  const read = async (signal: AbortSignal) => {
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (lastId !== undefined) headers["Last-Event-ID"] = lastId;
    const response = await fetch(apiBase + path, { headers, signal, credentials: "same-origin" });
    if (!response.ok) throw await errorOf(response);
    onState("live");
    onOpen?.(clockOffset(response));
    const reader = response.body!.getReader();
    const messagesOf = messageReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      delay = FIRST_DELAY_MS;
      const messages = messagesOf(value);
      lastId = messages.findLast(({ id }) => id !== undefined)?.id ?? lastId;
      if (messages.length && onMessages(messages)) return stop("ended");
    }
  };

  function connect() {
    clearTimeout(timer);
    connection?.abort();
    const controller = new AbortController();
    connection = controller;
    read(controller.signal)
      .catch((error: unknown) => error)
      .then((error) => {
        if (isOver || controller.signal.aborted) return;
        const isRefused = error instanceof ApiError && error.status < 500 && error.status !== 429;
        if (isRefused) return stop("refused", error);
        const wait = error instanceof ApiError && error.retryAfter ? error.retryAfter * 1000 : delay;
        delay = Math.min(delay * 2, LONGEST_DELAY_MS);
        onState("reconnecting");
        timer = setTimeout(connect, wait);
      });
  }

  function onVisibility() {
    clearTimeout(hiddenTimer);
    if (document.visibilityState === "visible") {
      if (connection?.signal.aborted) connect();
      return;
    }
    hiddenTimer = setTimeout(() => {
      clearTimeout(timer);
      connection?.abort();
      onState("paused");
    }, HIDDEN_MS);
  }

  addEventListener("online", connect);
  document.addEventListener("visibilitychange", onVisibility);
  onState("connecting");
  connect();
  return () => stop("ended");
}
