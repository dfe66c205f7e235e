// A hook for React: a component shows a run while it happens.
import { useEffect, useRef, useState } from "react";
import type { Event, Run } from "./api.gen.ts";
import type { Sortie } from "./client.ts";

/** A run as it is known now. */
export interface RunView {
  /** All events so far, in order and each once. */
  events: readonly Event[];
  /** Text that the model is writing. It is empty once the whole text is there as an event `message`. */
  text: string;
  /** The finished run. */
  run: Run | undefined;
  /** Why the run cannot be followed any further, such as an expired token. */
  error: Error | undefined;
}

const NOTHING: RunView = { events: [], text: "", run: undefined, error: undefined };

/** Milliseconds between two renderings while events arrive. */
const RENDER_MS = 50;

/**
 * Follows a run from its first event until it is finished, through broken connections, and stops when the component is removed.
 * `client` has a run token as its key; keep it outside of the component or in `useMemo`. Without an `id` nothing is followed.
 */
export function useRun(client: Sortie, id: string | undefined): RunView {
  const [view, setView] = useState(NOTHING);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);

  useEffect(() => {
    setView(NOTHING);
    if (id === undefined) return;
    const controller = new AbortController();
    const events: Event[] = [];
    let text = "";

    // A stream that replays thousands of events is not rendered once for each.
    const render = () => {
      clearTimeout(timer.current);
      timer.current = undefined;
      setView((before) => ({ ...before, events: [...events], text }));
    };
    const follow = async () => {
      const stream = client.runs.stream(id, { deltas: true, signal: controller.signal });
      for await (const event of stream) {
        if (event.type === "message_delta") text += event.data.text;
        else if (event.type === "message" || event.type === "retry" || event.type === "message_start") text = "";
        if (event.id !== undefined) events.push(event);
        timer.current ??= setTimeout(render, RENDER_MS);
      }
      render();
      setView((before) => ({ ...before, run: stream.run }));
    };
    follow().catch((error: Error) => {
      if (controller.signal.aborted) return;
      render();
      setView((before) => ({ ...before, error }));
    });

    return () => {
      controller.abort();
      clearTimeout(timer.current);
      timer.current = undefined;
    };
  }, [client, id]);

  return view;
}
