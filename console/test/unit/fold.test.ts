import assert from "node:assert/strict";
import { test } from "node:test";
import { addEvent, addLive, emptyFold, foldEvents } from "../../src/model/fold.ts";
import { timeScale, ticksOf } from "../../src/model/scale.ts";
import {
  lanesOf,
  longest,
  nextFailure,
  NO_FILTER,
  rowsOf,
  spanOf,
  summaryOf,
  toolFigures,
  toolOf,
} from "../../src/model/spans.ts";
import { failed, interrupted, invoicesDone, recorded, timedOut } from "../events.mjs";

const START = Date.UTC(2026, 10, 22, 9, 41, 12);
const invoices = () => foldEvents(recorded(START, invoicesDone));

test("turns, tools and connection calls become spans", () => {
  const fold = invoices();
  assert.deepEqual(
    fold.spans.map(({ kind }) => kind).join(" "),
    "queue turn tool connection turn tool tool retry turn connection connection connection turn artifact artifact",
  );
  const [queue, turn, shell, erp] = fold.spans;
  assert.equal(queue!.end! - queue!.start, 44);
  assert.equal(turn!.end! - turn!.start, 3800);
  assert.equal(turn!.text, "I read the task and list the invoices.");
  assert.equal(summaryOf(shell!), "ls -la invoices/ && head -3 invoices/*.csv");
  assert.equal(shell!.step, 1);
  assert.equal(toolOf(erp!), "erp");
  assert.equal(erp!.calls![0]!.data.status, 200);
  assert.equal(fold.costMicros, 204_000);
  assert.equal(fold.modelCalls, 4);
  assert.equal(fold.toolCalls, 7);
  assert.equal(fold.status, "succeeded");
  assert.ok(fold.output!.startsWith("Two of the three"));
});

test("events that a stream repeats are ignored", () => {
  const events = recorded(START, invoicesDone);
  const fold = emptyFold();
  for (const event of [...events, ...events.slice(3), ...events]) addEvent(fold, event);
  assert.equal(fold.events.length, events.length);
  assert.equal(fold.costMicros, 204_000);
});

test("folding piece by piece gives the same as at once", () => {
  const fold = emptyFold();
  for (const event of recorded(START, invoicesDone)) addEvent(fold, event);
  assert.deepEqual(fold, invoices());
});

test("live text belongs to a turn until its call is recorded", () => {
  const fold = emptyFold();
  addEvent(fold, recorded(START, [[0, "status", { status: "running" }]])[0]!);
  addLive(fold, { type: "message_start", data: { model: "m", step: 1 } }, START + 10);
  addLive(fold, { type: "message_delta", data: { text: "Two ", step: 1 } }, START + 20);
  addLive(fold, { type: "message_delta", data: { text: "of", step: 1 } }, START + 30);
  assert.equal(fold.live!.text, "Two of");
  const retry = { what: "model_call", attempt: 2, delay_ms: 5, reason: "529" };
  addEvent(fold, { id: 2, type: "retry", data: retry, created_at: new Date(START + 40).toISOString() });
  assert.equal(fold.live!.text, "");
  addEvent(fold, { ...recorded(START, invoicesDone)[4]!, id: 3 });
  assert.equal(fold.live, undefined);
});

test("output of a command is shown until the command ends", () => {
  const fold = emptyFold();
  const events = recorded(START, invoicesDone);
  for (const event of events.slice(0, 7)) addEvent(fold, event);
  addLive(fold, { type: "tool_output", data: { id: "t1", text: "2026" } }, START);
  assert.equal(fold.outputs.get("t1"), "2026");
  addEvent(fold, events[7]!);
  assert.equal(fold.outputs.size, 0);
});

test("a run that ends closes its open calls", () => {
  const fold = foldEvents(recorded(START, interrupted));
  const call = fold.spans.find(({ kind }) => kind === "tool")!;
  assert.equal(call.end, START + 9002);
  assert.equal(fold.spans.at(-1)!.isFailed, true);
  assert.equal(fold.error, "the worker was lost during crm__create_ticket, which may have had its effect");
});

test("rows follow filters, collapsed turns and a range", () => {
  const fold = invoices();
  const now = fold.last;
  assert.equal(rowsOf(fold, new Set(), NO_FILTER, now).length, 15);
  assert.equal(rowsOf(fold, new Set([3]), NO_FILTER, now).length, 12);
  assert.deepEqual(
    rowsOf(fold, new Set([3]), { ...NO_FILTER, failedOnly: true }, now).map(({ kind }) => kind),
    ["retry", "connection"],
  );
  assert.equal(rowsOf(fold, new Set(), { ...NO_FILTER, tool: "erp" }, now).length, 4);
  assert.equal(rowsOf(fold, new Set(), { ...NO_FILTER, text: "TOLERANCE" }, now).length, 2);
  const range: [number, number] = [START + 15_000, START + 20_000];
  assert.deepEqual(rowsOf(fold, new Set(), { ...NO_FILTER, range }, now).map(summaryOf), [
    "python3 match.py --tolerance 0.01",
  ]);
});

test("figures of tools, lanes and the longest spans", () => {
  const fold = invoices();
  const [shell, erp] = toolFigures(fold, fold.last);
  assert.deepEqual([shell!.tool, shell!.calls, shell!.failures, shell!.longestMs], ["shell", 2, 0, 6214]);
  assert.deepEqual([erp!.tool, erp!.calls, erp!.failures, erp!.medianMs], ["erp", 4, 1, 401]);
  assert.deepEqual(
    lanesOf(fold).map(({ name, spans }) => [name, spans.length]),
    [
      ["", 5],
      ["", 3],
      ["erp", 4],
    ],
  );
  assert.deepEqual(longest(foldEvents(recorded(START, timedOut)), 1, 0).map(summaryOf), [
    "wget --recursive https://handbook.example.com",
  ]);
});

test("events lead to their span, failures to the next one", () => {
  const fold = invoices();
  assert.equal(spanOf(fold, 8)!.id, 7);
  assert.equal(spanOf(fold, 10)!.kind, "connection");
  assert.equal(nextFailure(fold.spans, undefined, 1)!.kind, "retry");
  assert.equal(nextFailure(fold.spans, fold.events.at(-1)!.id, -1)!.kind, "connection");
});

test("a failed run keeps its reason", () => {
  const fold = foldEvents(recorded(START, failed));
  assert.equal(fold.error, "output does not match output_schema: output.items[3].price: required");
  assert.equal(fold.spans.filter(({ kind }) => kind === "note").length, 3);
});

test("idle time is drawn as a break", () => {
  const span = (start: number, end: number) => ({ ...invoices().spans[1]!, start, end });
  const scale = timeScale([span(0, 1000), span(9000, 10_000)], 0, 10_000);
  assert.equal(scale.breaks.length, 1);
  assert.equal(scale.breaks[0]!.ms, 8000);
  assert.ok(scale.at(1000) > 0.4 && scale.at(9000) < 0.6);
  assert.ok(Math.abs(scale.timeAt(scale.at(9500)) - 9500) < 1);
  assert.deepEqual(timeScale([span(0, 10_000)], 0, 10_000).breaks, []);
  assert.deepEqual(ticksOf(52_000), [0, 10_000, 20_000, 30_000, 40_000, 50_000]);
});
