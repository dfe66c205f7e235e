// When a request is sent again, and after how long.

/** Attempts after the first one. */
export const RETRIES = 4;
/** Milliseconds of one call. */
export const TIMEOUT_MS = 30_000;
/** Milliseconds without a byte after which the connection of a stream is dead: heartbeats come every 15 seconds. */
export const STREAM_SILENCE_MS = 40_000;
/** Milliseconds for which streams and waits try to reach an engine that is away. */
export const PATIENCE_MS = 300_000;
/** Milliseconds that a wait with a time limit allows for the answer to its last poll. */
export const GRACE_MS = 5_000;
/** Seconds of one long poll, as the API allows. */
export const LONGEST_WAIT = 60;

const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 8_000;
const LONGEST_RETRY_AFTER = 120;

/** Whether a request with this answer may be sent again. The engine answers 429 before it has changed anything. */
export const isRetryable = (status: number, repeatable: boolean) =>
  status === 429 || (repeatable && (status === 408 || status >= 500));

/**
 * Milliseconds before attempt `attempt`, from 1. `retryAfter` is in seconds. Undefined if the engine wants a longer pause than a
 * caller would sit through.
 */
export function delayMs(attempt: number, retryAfter?: number): number | undefined {
  if (retryAfter !== undefined) return retryAfter <= LONGEST_RETRY_AFTER ? retryAfter * 1000 : undefined;
  return Math.min(FIRST_DELAY_MS * 2 ** (attempt - 1), LONGEST_DELAY_MS) * (0.75 + Math.random() / 2);
}

/** Waits, and fails with the signal's reason when it aborts. */
export function sleep(ms: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const wake = () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
