// What the run page derives from spans: visible rows, lanes of the map, figures of tools, where the time went.
import type { Fold, Span, SpanKind } from "./fold.ts";
import { lengthOf } from "./fold.ts";

export interface TraceFilter {
  kinds: SpanKind[];
  text: string;
  failedOnly: boolean;
  /** Only calls of this tool or connection. */
  tool?: string;
  range?: [number, number];
}

export const NO_FILTER: TraceFilter = { kinds: [], text: "", failedOnly: false };

/** Name of the tool or connection of a span. */
export function toolOf({ event, calls }: Span): string | undefined {
  if (calls?.[0]) return calls[0].data.connection;
  if (event.type === "tool_start" || event.type === "tool_end") return event.data.tool;
  return event.type === "connection_call" ? event.data.connection : undefined;
}

/** The argument that says most about a call, on one line. */
export function summaryOf({ event }: Span): string {
  if (event.type !== "tool_start") return "";
  const { arguments: all } = event.data;
  const main = ["command", "path", "url", "query", "pattern"]
    .map((name) => all[name])
    .find((value) => typeof value === "string");
  return ((main as string | undefined) ?? (Object.keys(all).length ? JSON.stringify(all) : ""))
    .replace(/\s+/g, " ")
    .slice(0, 300);
}

export const isFiltered = ({ kinds, text, failedOnly, tool, range }: TraceFilter) =>
  kinds.length > 0 || text !== "" || failedOnly || tool !== undefined || range !== undefined;

function matches(span: Span, filter: TraceFilter, now: number): boolean {
  const { kinds, text, failedOnly, tool, range } = filter;
  if (kinds.length && !kinds.includes(span.kind)) return false;
  if (failedOnly && !span.isFailed && span.kind !== "retry") return false;
  if (tool !== undefined && toolOf(span) !== tool) return false;
  if (range && (span.start > range[1] || (span.end ?? now) < range[0])) return false;
  return (
    !text ||
    JSON.stringify([span.event.data, span.text, span.toolEnd?.data.output]).toLowerCase().includes(text.toLowerCase())
  );
}

/** Rows of the trace. Calls follow their turn; those of a collapsed turn are left out. */
export function rowsOf({ spans }: Fold, collapsed: ReadonlySet<number>, filter: TraceFilter, now: number): Span[] {
  const isPlain = !isFiltered(filter);
  return spans.filter((span) => {
    if (isPlain) return isTop(span) || !collapsed.has(span.step);
    return matches(span, filter, now);
  });
}

/** Whether a row is at the top level and not below a turn. */
export const isTop = ({ kind, step, event }: Span) =>
  kind === "turn" || kind === "queue" || event.type === "status" || step === 0;

export interface Lane {
  name: string;
  kind: "turn" | "tool" | "connection";
  spans: Span[];
}

/** Lanes of the map: model, tools, and the connections that were called most. */
export function lanesOf({ spans }: Fold, connections = 2): Lane[] {
  const model: Lane = { name: "", kind: "turn", spans: [] };
  const tools: Lane = { name: "", kind: "tool", spans: [] };
  const byName = new Map<string, Lane>();
  for (const span of spans) {
    if (span.kind === "turn" || span.kind === "retry") model.spans.push(span);
    else if (span.kind === "tool") tools.spans.push(span);
    else if (span.kind === "connection") {
      const name = toolOf(span)!;
      const lane: Lane = byName.get(name) ?? { name, kind: "connection", spans: [] };
      lane.spans.push(span);
      byName.set(name, lane);
    }
  }
  const [...all] = [...byName.values()].sort((a, b) => b.spans.length - a.spans.length);
  const rest = all.splice(connections).flatMap((lane) => lane.spans);
  if (rest.length) all.at(-1)!.spans.push(...rest);
  return [model, ...(tools.spans.length ? [tools] : []), ...all];
}

export interface ToolFigures {
  tool: string;
  kind: "tool" | "connection";
  calls: number;
  failures: number;
  medianMs: number;
  longestMs: number;
  totalMs: number;
  bytes: number;
  costMicros: number;
}

export function toolFigures({ spans }: Fold, now: number): ToolFigures[] {
  const byTool = new Map<string, { figures: ToolFigures; lengths: number[] }>();
  for (const span of spans) {
    const tool = toolOf(span);
    if (tool === undefined || (span.kind !== "tool" && span.kind !== "connection")) continue;
    const fresh = {
      tool,
      kind: span.kind,
      calls: 0,
      failures: 0,
      medianMs: 0,
      longestMs: 0,
      totalMs: 0,
      bytes: 0,
      costMicros: 0,
    };
    const entry = byTool.get(tool) ?? { figures: fresh, lengths: [] };
    const { figures } = entry;
    const length = lengthOf(span, now);
    entry.lengths.push(length);
    figures.calls += 1;
    figures.failures += span.isFailed ? 1 : 0;
    figures.longestMs = Math.max(figures.longestMs, length);
    figures.totalMs += length;
    figures.bytes += span.toolEnd?.data.output_bytes ?? 0;
    figures.costMicros += span.costMicros;
    byTool.set(tool, entry);
  }
  return [...byTool.values()]
    .map(({ figures, lengths }) => ({ ...figures, medianMs: lengths.sort((a, b) => a - b)[lengths.length >> 1]! }))
    .sort((a, b) => b.totalMs - a.totalMs);
}

/** The spans that took longest, without those that hardly count. */
export const longest = ({ spans, start = 0, last }: Fold, count: number, now: number): Span[] =>
  spans
    .filter((span) => span.kind !== "note" && span.kind !== "artifact" && lengthOf(span, now) > (last - start) / 100)
    .sort((a, b) => lengthOf(b, now) - lengthOf(a, now))
    .slice(0, count);

/** The span that an event belongs to. */
export const spanOf = ({ spans }: Fold, id: number): Span | undefined =>
  spans.find((span) => span.id === id || span.toolEnd?.id === id || span.calls?.some((call) => call.id === id)) ??
  spans.findLast((span) => span.id <= id);

/** Number of events that were recorded after a time. */
export function eventsSince({ events }: Fold, time: number): number {
  const index = events.findLastIndex(({ created_at }) => Date.parse(created_at) <= time);
  return events.length - 1 - index;
}

/** The next failed span after, or before, one. */
export function nextFailure(rows: Span[], from: number | undefined, step: 1 | -1): Span | undefined {
  const failed = rows.filter(({ isFailed, kind }) => isFailed || kind === "retry");
  if (from === undefined) return step === 1 ? failed[0] : failed.at(-1);
  return step === 1 ? failed.find(({ id }) => id > from) : failed.findLast(({ id }) => id < from);
}
