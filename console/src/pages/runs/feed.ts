// The list of runs: pages, and the feed that keeps it up to date.
import { batch, useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ApiError, call, type Api } from "../../api/client.ts";
import { follow, type FollowState } from "../../api/follow.ts";
import { IN_FLIGHT } from "../../model/events.ts";
import { feedQuery, isListed, toApi, type RunFilters } from "../../model/filters.ts";
import { inFlight } from "../frame.tsx";

const PAGE = 50;
/** A request that a broken network swallowed must not keep the list from being read again. */
const LONGEST_LOAD_MS = 20_000;

export interface RunsList {
  runs: Signal<Api.Run[] | undefined>;
  next: Signal<string>;
  error: Signal<ApiError | undefined>;
  state: Signal<FollowState>;
  reload(): void;
  older(): void;
}

/** Puts runs that changed in their place, new ones first, and takes out those that match no more. */
function merge(before: Api.Run[], changed: Api.Run[], filters: RunFilters): Api.Run[] {
  const byId = new Map(changed.map((run) => [run.id, run]));
  const known = new Set(before.map(({ id }) => id));
  const newest = before[0]?.created_at ?? "";
  const added = [...byId.values()].filter(({ id, created_at }) => !known.has(id) && created_at >= newest);
  const all = [
    ...added.sort((a, b) => (a.created_at < b.created_at ? 1 : -1)),
    ...before.map((run) => byId.get(run.id) ?? run),
  ];
  return all.filter((run) => !byId.has(run.id) || isListed(run, filters));
}

export function useRuns(filters: RunFilters): RunsList {
  const runs = useSignal<Api.Run[] | undefined>(undefined);
  const next = useSignal("");
  const error = useSignal<ApiError | undefined>(undefined);
  const state = useSignal<FollowState>("connecting");
  const turn = useSignal(0);
  // A cursor is only good for the filters that it was made for: the query stays the same until they change.
  const asked = useRef(new URLSearchParams());
  const key = toApi(filters, 0).toString();

  const load = async (more: Record<string, string>, signal?: AbortSignal) => {
    const query = new URLSearchParams([...asked.current, ...Object.entries({ limit: String(PAGE), ...more })]);
    return call("GET /v1/runs", { query, ...(signal && { signal }) });
  };

  useEffect(() => {
    const controller = new AbortController();
    asked.current = toApi(filters, Date.now());
    const show = (page: Api.RunPage) =>
      batch(() => {
        runs.value = page.items;
        next.value = page.next_cursor;
        error.value = undefined;
      });
    // Changes since a list was asked for that has not been answered yet. The answer may be older than these.
    let changes: Api.Run[] | undefined;
    // Whether a reset came in the meantime: the list is read again then, and only after the answer, or a busy feed would
    // keep each answer from being shown.
    let isStale = false;
    const refresh = async () => {
      isStale = changes !== undefined;
      if (isStale) return;
      do {
        isStale = false;
        const since: Api.Run[] = (changes = []);
        try {
          const page = await load({}, AbortSignal.any([controller.signal, AbortSignal.timeout(LONGEST_LOAD_MS)]));
          show({ ...page, items: merge(page.items, since, filters) });
        } catch (failure) {
          if (failure instanceof ApiError) error.value = failure;
        }
      } while (isStale && !controller.signal.aborted);
      changes = undefined;
    };
    const stop = follow({
      path: `/v1/runs?${feedQuery(asked.current)}`,
      onState: (now) => {
        // The list is also read if the engine cannot be followed.
        const isAway = now === "reconnecting" || now === "refused";
        if (isAway && (!runs.value || error.value)) void refresh();
        state.value = now;
      },
      onMessages: (messages) => {
        // The feed begins with a reset, unless it continues where it was. What is read after it has all that came before.
        if (messages.some(({ event }) => event === "reset")) void refresh();
        const changed = messages.filter(({ event }) => event === "run").map(({ data }) => JSON.parse(data) as Api.Run);
        changes?.push(...changed);
        if (changed.length && runs.value) runs.value = merge(runs.value, changed, filters);
        return false;
      },
    });
    return () => {
      controller.abort();
      stop();
    };
  }, [key, turn.value]);

  useEffect(() => {
    inFlight.value = runs.value?.filter(({ status }) => IN_FLIGHT.includes(status)).length;
    return () => void (inFlight.value = undefined);
  }, [runs.value]);

  const older = () => {
    load({ cursor: next.value })
      .then((page) => {
        batch(() => {
          runs.value = [...(runs.value ?? []), ...page.items];
          next.value = page.next_cursor;
        });
      })
      .catch((failure: ApiError) => void (error.value = failure));
  };

  return { runs, next, error, state, reload: () => void (turn.value += 1), older };
}
