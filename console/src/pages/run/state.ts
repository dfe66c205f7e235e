// The state of the run page: the run, its events, and how the stream does.
import { signal, type Signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { call, type Api, type ApiError } from "../../api/client.ts";
import { follow, type FollowState } from "../../api/follow.ts";
import type { ServerMessage } from "../../api/stream.ts";
import { isFinal, type LiveMessage, type RunEvent } from "../../model/events.ts";
import { addEvent, addLive, emptyFold, type Fold } from "../../model/fold.ts";
import { announce } from "../../ui/toast.tsx";
import { t } from "../../text/en.ts";

export interface RunState {
  id: string;
  run: Signal<Api.Run | undefined>;
  error: Signal<ApiError | undefined>;
  fold: Fold;
  /** Changes with every batch of events; read it to be rendered again. */
  version: Signal<number>;
  follow: Signal<FollowState>;
  /** Milliseconds between the last event and its arrival, where that is plausible. */
  behind: Signal<number | undefined>;
  /** The time by the engine's clock. */
  now(): number;
  /** Milliseconds by which the engine's clock is ahead of the browser's. */
  clockOffset: number;
}

const LIVE = ["message_start", "message_delta", "tool_output"];
const PLAUSIBLE_MS = 10_000;

/**
 * Reads a run without its answer. The first read of a final run with zero data retention that has the answer deletes it, so
 * nothing but `readAndDelete` may ask for the answer. Other runs bring theirs with their events.
 */
export const readRun = (id: string, signal?: AbortSignal) =>
  call("GET /v1/runs/{id}", { path: { id }, query: { output: false }, ...(signal && { signal }) });

/** Reads the answer of a run with zero data retention, which deletes it. */
export const readAndDelete = (id: string) => call("GET /v1/runs/{id}", { path: { id } });

function create(id: string): RunState {
  const fold = emptyFold();
  const state: RunState = {
    id,
    run: signal(undefined),
    error: signal(undefined),
    fold,
    version: signal(0),
    follow: signal("connecting"),
    behind: signal(undefined),
    clockOffset: 0,
    now: () => (isFinal(fold.status) ? fold.last : Math.max(fold.last, Date.now() + state.clockOffset)),
  };
  return state;
}

function take(state: RunState, messages: ServerMessage[]): boolean {
  const { fold } = state;
  let isDone = false;
  const before = fold.events.length;
  for (const { event, data } of messages) {
    if (event === "done") {
      state.run.value = JSON.parse(data) as Api.Run;
      isDone = true;
    } else if (LIVE.includes(event)) {
      addLive(fold, { type: event, data: JSON.parse(data) } as LiveMessage, state.now());
    } else {
      addEvent(fold, JSON.parse(data) as RunEvent);
    }
  }
  const last = fold.events.at(-1);
  if (last && fold.events.length > before) {
    const delay = Date.now() + state.clockOffset - Date.parse(last.created_at);
    state.behind.value = delay >= 0 && delay < PLAUSIBLE_MS ? delay : undefined;
    if (last.type === "status" && isFinal(fold.status)) announce(t.status[fold.status] ?? fold.status);
  }
  return isDone;
}

export function useRun(id: string): RunState {
  const state = useMemo(() => create(id), [id]);
  useEffect(() => {
    const controller = new AbortController();
    let frame = 0;
    const show = () => {
      frame = 0;
      state.version.value += 1;
    };
    readRun(id, controller.signal)
      .then((run) => void (state.run.value ??= run))
      .catch((error: ApiError) => !controller.signal.aborted && (state.error.value = error));
    const stop = follow({
      path: `/v1/runs/${encodeURIComponent(id)}/events?deltas=true`,
      onState: (now, error) => {
        state.follow.value = now;
        // Events of a run with zero data retention are gone after five minutes; its page says so.
        if (error && error.status !== 410) state.error.value = error;
      },
      onOpen: (offset) => {
        state.clockOffset = offset;
        // What was written while the connection was away comes with the recorded message.
        if (state.fold.live?.text) state.fold.live.text = "… ";
      },
      onMessages: (messages) => {
        const isDone = take(state, messages);
        frame ||= requestAnimationFrame(show);
        return isDone;
      },
    });
    return () => {
      controller.abort();
      stop();
      cancelAnimationFrame(frame);
    };
  }, [id]);
  return state;
}
