// What the reader chose on the run page: tab, step, filter. All of it is in the address.
import { query, setQuery } from "../../router.ts";
import type { SpanKind } from "../../model/fold.ts";
import type { TraceFilter } from "../../model/spans.ts";

export const TABS = ["answer", "trace", "transcript", "events", "files", "tools", "definition", "deliveries"] as const;
export type Tab = (typeof TABS)[number];

export const tabOfQuery = (): Tab | undefined => TABS.find((tab) => tab === query.value.get("tab"));

export const selectedEvent = (): number | undefined => Number(query.value.get("event")) || undefined;

export const select = (id: number | undefined) => setQuery({ event: id === undefined ? undefined : String(id) });

/** The filter, with its range as offsets from the start of the run. */
export function filterOfQuery(start: number): TraceFilter {
  const range = /^(\d+)-(\d+)$/.exec(query.value.get("range") ?? "");
  const tool = query.value.get("tool");
  return {
    kinds: query.value.getAll("kind") as SpanKind[],
    text: query.value.get("find") ?? "",
    failedOnly: query.value.has("failures"),
    ...(tool !== null && { tool }),
    ...(range && { range: [start + Number(range[1]), start + Number(range[2])] as [number, number] }),
  };
}

export const setRange = (range: [number, number] | undefined, start: number) =>
  setQuery({ range: range && range.map((time) => Math.max(0, Math.round(time - start))).join("-") });

export const clearFilter = () =>
  setQuery({ kind: undefined, find: undefined, failures: undefined, tool: undefined, range: undefined });
