// Filters of the runs list: the address, the query of the API and the views share them.
import { IN_FLIGHT } from "./events.ts";

export interface RunFilters {
  /** Text in the title or the prompt. */
  q: string;
  /** Text in the error. */
  error: string;
  status: string[];
  workflow: string;
  tag: string;
  model: string;
  key: string;
  schedule: string;
  since: string;
  until: string;
  min_cost_micros: string;
}

const TEXTS = [
  "q",
  "error",
  "workflow",
  "tag",
  "model",
  "key",
  "schedule",
  "since",
  "until",
  "min_cost_micros",
] as const;

export type View = "all" | "flight" | "failed" | "costly";

export const VIEWS: Record<View, Partial<RunFilters>> = {
  all: {},
  flight: { status: IN_FLIGHT.filter((status) => status !== "reserving") },
  failed: { status: ["failed", "timed_out", "interrupted"] },
  costly: { min_cost_micros: "500000" },
};

export const fromQuery = (query: URLSearchParams): RunFilters => ({
  ...(Object.fromEntries(TEXTS.map((name) => [name, query.get(name) ?? ""])) as Record<(typeof TEXTS)[number], string>),
  status: query.get("status")?.split(",") ?? [],
});

export function toQuery(filters: Partial<RunFilters>): URLSearchParams {
  const query = new URLSearchParams();
  for (const name of TEXTS) if (filters[name]) query.set(name, filters[name]);
  if (filters.status?.length) query.set("status", filters.status.join(","));
  return query;
}

export const DAY_MS = 86_400_000;
const RELATIVE: Record<string, number> = { "1h": 3600e3, "24h": DAY_MS, "7d": 7 * DAY_MS, "30d": 30 * DAY_MS };
export const PERIODS = Object.keys(RELATIVE);

/** Milliseconds of a period such as `24h`. */
export const periodOf = (since: string): number | undefined => RELATIVE[since];

/** The query of the API. Periods such as `24h` become a time, counted from `now`. */
export function toApi(filters: RunFilters, now: number): URLSearchParams {
  const query = toQuery(filters);
  const period = periodOf(filters.since);
  // Whole minutes keep the query, and so the cursor, the same for a while.
  if (period) query.set("since", new Date(Math.floor((now - period) / 60_000) * 60_000).toISOString());
  return query;
}

export const isEmpty = (filters: RunFilters) => toQuery(filters).size === 0;

// While a run works it starts and stops matching these filters; the other filters do not change.
const CHANGING = ["status", "min_cost_micros", "error"];

/** The query of the feed, which also has to tell of runs that match no more. */
export const feedQuery = (query: URLSearchParams) =>
  new URLSearchParams([...query].filter(([name]) => !CHANGING.includes(name)));

/** Whether a run of the feed belongs to the list. */
export function isListed(run: { status: string; cost_micros?: number; error?: string }, filters: RunFilters): boolean {
  if (filters.status.length && !filters.status.includes(run.status)) return false;
  if ((run.cost_micros ?? 0) < Number(filters.min_cost_micros)) return false;
  return !filters.error || (run.error ?? "").toLowerCase().includes(filters.error.toLowerCase());
}

/** The view that has exactly these filters. */
export const viewOf = (filters: RunFilters): View | undefined =>
  (Object.keys(VIEWS) as View[]).find((view) => {
    const { status, min_cost_micros } = { status: [], min_cost_micros: "", ...VIEWS[view] };
    return (
      min_cost_micros === filters.min_cost_micros && [...status].sort().join() === [...filters.status].sort().join()
    );
  });

/** Filters of a view, with the other ones kept. */
export const withView = (filters: RunFilters, view: View): RunFilters => ({
  ...filters,
  status: [],
  min_cost_micros: "",
  ...VIEWS[view],
});

export const isRunId = (text: string) => /^run_[0-9a-z]{26}$/.test(text);
