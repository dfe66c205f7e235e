// Runs by day, from the sums that the engine keeps.
import type { UsageRow } from "../api/schema";
import { DAY_MS, periodOf, type RunFilters } from "./filters.ts";

export interface Column {
  /** The day in UTC, such as 2026-11-22. */
  day: string;
  runs: number;
  succeeded: number;
}

type Sums = Pick<UsageRow, "day" | "workflow" | "model" | "key_id" | "runs" | "succeeded">;

/** One column for each day, also for those without a run. Of the filters, those apply that the sums are made by. */
export function columnsOf(
  rows: Sums[],
  from: string,
  days: number,
  { workflow, model, key }: Pick<RunFilters, "workflow" | "model" | "key">,
): Column[] {
  const start = Date.parse(from);
  const columns = Array.from({ length: days }, (_, index) => ({
    day: new Date(start + index * DAY_MS).toISOString().slice(0, 10),
    runs: 0,
    succeeded: 0,
  }));
  for (const row of rows) {
    const column = columns[Math.round((Date.parse(row.day ?? "") - start) / DAY_MS)];
    const isMeant =
      (!workflow || row.workflow === workflow) && (!model || row.model === model) && (!key || row.key_id === key);
    if (!column || !isMeant) continue;
    column.runs += row.runs;
    column.succeeded += row.succeeded;
  }
  return columns;
}

/** The first and the last column of the time that the list shows. Undefined for a list of all times. */
export function selectedDays(
  { since, until }: Pick<RunFilters, "since" | "until">,
  columns: Column[],
  now: number,
): [number, number] | undefined {
  if (!since && !until) return undefined;
  const start = Date.parse(columns[0]!.day);
  const period = periodOf(since);
  const begin = period ? now - period : since ? Date.parse(since) : start;
  const end = until ? Date.parse(until) - 1 : now;
  const at = (time: number) => Math.max(0, Math.min(columns.length - 1, Math.floor((time - start) / DAY_MS)));
  return Number.isNaN(begin) || Number.isNaN(end) ? undefined : [at(begin), at(end)];
}
