// Data of a page: loaded, failed, or still loading. Old data stays while new data loads.
import { useSignal, type Signal } from "@preact/signals";
import { useCallback, useEffect } from "preact/hooks";
import { ApiError } from "./client.ts";

export interface Resource<Data> {
  data: Signal<Data | undefined>;
  error: Signal<ApiError | undefined>;
  reload(): void;
}

/** Loads when the page opens and whenever `key` changes. `everyMs` loads again while the page is visible. */
export function useResource<Data>(
  key: string,
  load: (signal: AbortSignal) => Promise<Data>,
  everyMs?: number,
): Resource<Data> {
  const data = useSignal<Data | undefined>(undefined);
  const error = useSignal<ApiError | undefined>(undefined);
  const turn = useSignal(0);
  const reload = useCallback(() => void (turn.value += 1), []);

  useEffect(() => {
    const controller = new AbortController();
    load(controller.signal)
      .then((loaded) => {
        if (controller.signal.aborted) return;
        data.value = loaded;
        error.value = undefined;
      })
      .catch((failure: unknown) => {
        if (!controller.signal.aborted)
          error.value = failure instanceof ApiError ? failure : new ApiError(0, "internal", String(failure));
      });
    return () => controller.abort();
  }, [key, turn.value]);

  useEffect(() => {
    if (!everyMs) return;
    const timer = setInterval(() => document.visibilityState === "visible" && reload(), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);

  return { data, error, reload };
}
