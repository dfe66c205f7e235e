// Folds the events of a run into spans: the live page, the replay, the comparison and the tests use the same fold.
import { isFinal, type EventOf, type LiveMessage, type RunEvent } from "./events.ts";

export type SpanKind = "queue" | "turn" | "tool" | "connection" | "retry" | "artifact" | "note";

/** A stretch of a run: from one event, or a pair of them. A point has equal ends; an open span has no end. */
export interface Span {
  /** ID of its event, as in links. */
  id: number;
  kind: SpanKind;
  event: RunEvent;
  /** Turn of the model that it belongs to. */
  step: number;
  start: number;
  end?: number;
  isFailed: boolean;
  costMicros: number;
  /** Cost of the run when the span was last changed. */
  costSoFar: number;
  /** Of a tool: its end, and the calls through a connection that it made. */
  toolEnd?: EventOf<"tool_end">;
  calls?: EventOf<"connection_call">[];
  /** Of a turn: text and thinking of the model. */
  text?: string;
  thinking?: string;
}

/** What a model is writing, before its turn is recorded. */
export interface LiveTurn {
  step: number;
  model: string;
  start: number;
  text: string;
}

export interface Point {
  at: number;
  value: number;
}

export interface Fold {
  events: RunEvent[];
  spans: Span[];
  status: string;
  error?: string;
  output?: string;
  /** Time of the first event and of the last one. */
  start?: number;
  last: number;
  costMicros: number;
  inputTokens: number;
  cachedTokens: number;
  outputTokens: number;
  modelCalls: number;
  toolCalls: number;
  cost: Point[];
  context: Point[];
  compactions: number[];
  live?: LiveTurn;
  /** Output of commands that still run, by the ID of their call. */
  outputs: Map<string, string>;
  turns: Map<number, Span>;
  openTools: Map<string, Span>;
  /** Texts that came before the call of their turn was recorded. */
  early: Map<number, Pick<Span, "text" | "thinking">>;
}

export const emptyFold = (): Fold => ({
  events: [],
  spans: [],
  status: "queued",
  last: 0,
  costMicros: 0,
  inputTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  modelCalls: 0,
  toolCalls: 0,
  cost: [],
  context: [],
  compactions: [],
  outputs: new Map(),
  turns: new Map(),
  openTools: new Map(),
  early: new Map(),
});

export function foldEvents(events: RunEvent[]): Fold {
  const fold = emptyFold();
  for (const event of events) addEvent(fold, event);
  return fold;
}

/** Adds an event. Events that the fold has already are ignored: a stream may repeat them after it reconnects. */
export function addEvent(fold: Fold, event: RunEvent) {
  if (event.id <= (fold.events.at(-1)?.id ?? 0)) return;
  fold.events.push(event);
  const at = Date.parse(event.created_at);
  fold.start ??= at;
  fold.last = Math.max(fold.last, at);
  switch (event.type) {
    case "status":
      return addStatus(fold, event, at);
    case "worker_started": {
      const queue = fold.spans[0];
      if (queue?.kind === "queue") queue.event = { ...event, id: queue.id };
      return;
    }
    case "model_call":
      return addTurn(fold, event, at);
    case "message":
    case "thinking_summary":
      return addText(fold, event);
    case "tool_start":
      fold.openTools.set(event.data.id, push(fold, "tool", event, at, undefined));
      return;
    case "tool_end":
      return endTool(fold, event, at);
    case "connection_call":
      return addCall(fold, event, at);
    case "retry":
      if (event.data.what === "model_call" && fold.live) fold.live.text = "";
      push(fold, "retry", event, at, at + event.data.delay_ms);
      return;
    case "context_compacted":
      fold.compactions.push(at);
      fold.context.push({ at, value: event.data.after_tokens });
      push(fold, "note", event, at, at);
      return;
    case "result":
      fold.output = event.data.output;
      return;
    case "artifact":
      push(fold, "artifact", event, at, at);
      return;
    default:
      push(fold, "note", event, at, at);
  }
}

/** Adds a message of a live stream that is not recorded. */
export function addLive(fold: Fold, message: LiveMessage, now: number) {
  // The model began after what was recorded last, also for a page that was opened later.
  const start = fold.last || now;
  switch (message.type) {
    case "message_start":
      fold.live = { ...message.data, start, text: "" };
      return;
    case "message_delta":
      if (fold.live?.step !== message.data.step) fold.live = { model: "", step: message.data.step, start, text: "" };
      fold.live.text += message.data.text;
      return;
    case "tool_output":
      fold.outputs.set(message.data.id, (fold.outputs.get(message.data.id) ?? "") + message.data.text);
  }
}

function push(fold: Fold, kind: SpanKind, event: RunEvent, start: number, end: number | undefined): Span {
  const step = fold.turns.size;
  const span: Span = {
    id: event.id,
    kind,
    event,
    step,
    start,
    isFailed: false,
    costMicros: 0,
    costSoFar: fold.costMicros,
  };
  if (end !== undefined) span.end = end;
  fold.spans.push(span);
  return span;
}

function addStatus(fold: Fold, event: EventOf<"status">, at: number) {
  const { status, error } = event.data;
  fold.status = status;
  if (error) fold.error = error;
  const queue = fold.spans[0];
  if (!queue) push(fold, "queue", event, at, undefined);
  else if (queue.kind === "queue" && (status === "running" || isFinal(status))) queue.end ??= at;
  if (!isFinal(status)) return;
  delete fold.live;
  for (const span of fold.openTools.values()) span.end = at;
  fold.openTools.clear();
  if (status !== "succeeded") push(fold, "note", event, at, at).isFailed = status !== "cancelled";
}

function addTurn(fold: Fold, event: EventOf<"model_call">, at: number) {
  const { data } = event;
  const tokens = data.input_tokens + data.cache_read_tokens + data.cache_write_tokens;
  charge(fold, at, data.cost_micros);
  fold.modelCalls += 1;
  fold.inputTokens += tokens;
  fold.cachedTokens += data.cache_read_tokens;
  fold.outputTokens += data.output_tokens;
  fold.context.push({ at, value: tokens + data.output_tokens });
  if (fold.live && fold.live.step <= data.step) delete fold.live;
  const turn = push(fold, "turn", event, at - data.duration_ms, at);
  Object.assign(turn, { step: data.step, costMicros: data.cost_micros, ...fold.early.get(data.step) });
  turn.isFailed = ["error", "refusal"].includes(data.stop_reason);
  fold.early.delete(data.step);
  fold.turns.set(data.step, turn);
}

function addText(fold: Fold, event: EventOf<"message"> | EventOf<"thinking_summary">) {
  const { step, text } = event.data;
  const field = event.type === "message" ? "text" : "thinking";
  if (fold.live && fold.live.step <= step && event.type === "message") delete fold.live;
  const turn = fold.turns.get(step);
  if (turn) turn[field] = turn[field] ? `${turn[field]}\n\n${text}` : text;
  else fold.early.set(step, { ...fold.early.get(step), [field]: text });
}

function endTool(fold: Fold, event: EventOf<"tool_end">, at: number) {
  const { data } = event;
  fold.toolCalls += 1;
  charge(fold, at, data.cost_micros ?? 0);
  const span = fold.openTools.get(data.id) ?? push(fold, "tool", event, at - data.duration_ms, at);
  fold.openTools.delete(data.id);
  fold.outputs.delete(data.id);
  Object.assign(span, { end: at, toolEnd: event, isFailed: data.is_error, costMicros: data.cost_micros ?? 0 });
  span.costSoFar = fold.costMicros;
}

/** A call belongs to the oldest open tool of its connection; without one it gets a separate row. */
function addCall(fold: Fold, event: EventOf<"connection_call">, at: number) {
  const { connection, duration_ms, status } = event.data;
  const isOf = (span: Span) => span.event.type === "tool_start" && span.event.data.tool.startsWith(`${connection}__`);
  const open = [...fold.openTools.values()].filter(isOf);
  const span = open.find(({ calls }) => !calls) ?? open[0] ?? push(fold, "connection", event, at - duration_ms, at);
  span.kind = "connection";
  (span.calls ??= []).push(event);
  if (span.event === event) span.isFailed = !status || status >= 400;
}

function charge(fold: Fold, at: number, micros: number) {
  fold.costMicros += micros;
  fold.cost.push({ at, value: fold.costMicros });
}

/** Length of a span in milliseconds; an open one lasts until `now`. */
export const lengthOf = (span: Span, now: number) => Math.max(0, (span.end ?? now) - span.start);
