// What goes over the wire: each option, retries and errors.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, beforeEach, mock, test } from "node:test";
import * as sortie from "../src/index.ts";
import { Sortie, type Run } from "../src/index.ts";
import { messagesOf } from "../src/sse.ts";
import { refusal, startRecorder, type Answer } from "./recorder.ts";

const run: Run = {
  id: "run_1",
  status: "queued",
  created_at: "2026-11-20T21:30:00.000Z",
  max_cost_micros: 1,
  timeout_seconds: 600,
  billing_pending: false,
  zero_data_retention: false,
  last_event_id: 1,
};
const answerOf = (fields: Partial<Run> = {}): Answer => ({ body: JSON.stringify({ ...run, ...fields }) });
const finished = { status: "succeeded", finished_at: run.created_at } as const;

const recorder = await startRecorder();
const { seen, answers } = recorder;
const client = new Sortie({ baseUrl: recorder.url, apiKey: "sk_1" });
const realSetTimeout = setTimeout;
let pauses: number[] = [];

beforeEach(() => {
  recorder.reset();
  pauses = [];
  // Pauses take no time here, and are noted.
  mock.method(globalThis, "setTimeout", (callback: (...values: unknown[]) => void, ms = 0, ...values: unknown[]) => {
    // The runtime has timers as well.
    if (callback.name === "wake") pauses.push(ms);
    return realSetTimeout(callback, callback.name === "wake" ? 0 : ms, ...values);
  });
});
afterEach(() => mock.reset());
after(() => recorder.close());

test("settings are sent", async () => {
  answers.push(answerOf());
  await new Sortie({ baseUrl: `${recorder.url}/`, apiKey: "sk_2", headers: { "X-Team": "a" } }).runs.get(
    "run_1",
    { output: false },
    { headers: { "X-Call": "b" } },
  );
  assert.equal(seen[0]!.target, "/v1/runs/run_1?output=false");
  const { authorization, accept, "x-team": team, "x-call": call } = seen[0]!.headers;
  assert.deepEqual([authorization, accept, team, call], ["Bearer sk_2", "application/json", "a", "b"]);
});

test("settings come from the environment", async () => {
  Object.assign(process.env, { SORTIE_URL: recorder.url, SORTIE_API_KEY: "sk_env" });
  answers.push(answerOf());
  await new Sortie().runs.get("run_1");
  assert.equal(seen[0]!.headers.authorization, "Bearer sk_env");
  delete process.env.SORTIE_URL;
  delete process.env.SORTIE_API_KEY;
  assert.throws(() => new Sortie(), /SORTIE_URL/);
  await assert.rejects(new Sortie({ baseUrl: recorder.url }).health(), sortie.APIError);
  assert.equal(seen[1]!.headers.authorization, undefined);
});

test("values have the form of the API", async () => {
  answers.push({ body: '{"items": [], "next_cursor": ""}' }, answerOf());
  const since = new Date("2026-11-20T21:30:00Z").toISOString();
  for await (const _ of client.runs.list({ status: ["failed", "timed_out"], since, tag: "a b&c", limit: 7 })) assert.fail();
  await client.runs.create({ prompt: "é\u2028", input: { at: new Date(0) }, shell: false });
  assert.equal(
    seen[0]!.target,
    "/v1/runs?limit=7&status=failed%2Ctimed_out&since=2026-11-20T21%3A30%3A00.000Z&tag=a%20b%26c",
  );
  assert.deepEqual(JSON.parse(Buffer.from(seen[1]!.body, "latin1").toString()), {
    prompt: "é\u2028",
    input: { at: "1970-01-01T00:00:00.000Z" },
    shell: false,
  });
});

test("a create is repeated with one idempotency key", async () => {
  answers.push({ drop: true }, refusal(503, "unavailable"), answerOf(), answerOf(), answerOf());
  await client.runs.create({ prompt: "x" });
  await client.runs.create({ prompt: "x" });
  await client.runs.create({ prompt: "x" }, { idempotencyKey: "mine" });
  const keys = seen.map(({ headers }) => headers["idempotency-key"]);
  assert.ok(keys[0] === keys[1] && keys[1] === keys[2] && keys[2] !== keys[3]);
  assert.equal(keys[4], "mine");
});

for (const status of [408, 429, 500, 502, 503, 504, 520])
  test(`a read is repeated after ${status}`, async () => {
    answers.push(...Array.from({ length: 4 }, () => refusal(status, "unavailable")), answerOf());
    await client.runs.get("run_1");
    assert.equal(seen.length, 5);
    for (const [index, wanted] of [250, 500, 1000, 2000].entries())
      assert.ok(pauses[index]! >= 0.75 * wanted && pauses[index]! <= 1.25 * wanted, String(pauses));
  });

test("retries end", async () => {
  answers.push(...Array.from({ length: 9 }, () => ({ drop: true })));
  const twice = new Sortie({ baseUrl: recorder.url, retries: 2 });
  await assert.rejects(twice.runs.get("run_1"), sortie.ConnectionError);
  assert.equal(seen.length, 3);
});

test("Retry-After comes first", async () => {
  answers.push(refusal(429, "rate_limited", { "Retry-After": "17" }), answerOf());
  await client.runs.get("run_1");
  assert.deepEqual(pauses, [17_000]);
  answers.push(refusal(429, "rate_limited", { "Retry-After": "3600" }));
  await assert.rejects(client.runs.get("run_1"), { name: "RateLimitedError", retryAfter: 3600 });
  assert.equal(seen.length, 3);
});

test("what may have had an effect is not repeated", async () => {
  for (const answer of [{ drop: true }, refusal(500, "internal"), refusal(503, "unavailable")]) {
    recorder.reset();
    answers.push(answer);
    await assert.rejects(client.admin.keys.create({ name: "ci" }), sortie.SortieError);
    assert.equal(seen.length, 1);
  }
  recorder.reset();
  // The engine says so before it has done anything.
  answers.push(refusal(429, "rate_limited"), refusal(400, "invalid_request"));
  await assert.rejects(client.admin.keys.create({ name: "ci" }), sortie.InvalidRequestError);
  assert.equal(seen.length, 2);
  // Nothing was sent.
  const closed = await startRecorder();
  closed.close();
  const nowhere = new Sortie({ baseUrl: closed.url, retries: 2 });
  await assert.rejects(nowhere.admin.keys.create({ name: "ci" }), sortie.ConnectionError);
  assert.equal(pauses.length, 3);
});

test("a deletion with a lost answer is done", async () => {
  answers.push({ drop: true }, refusal(404, "not_found"), refusal(504, "unavailable"));
  answers.push(refusal(404, "not_found"), refusal(404, "not_found"));
  await client.files.delete("file_1");
  await client.files.delete("file_1");
  await assert.rejects(client.files.delete("file_1"), sortie.NotFoundError);
});

test("an upload is sent once", async () => {
  answers.push({ drop: true }, refusal(429, "rate_limited"));
  await assert.rejects(client.files.upload(new Blob(["content"], { type: "text/x-a" }), { name: "a.txt" }), sortie.ConnectionError);
  await assert.rejects(client.files.upload(new Uint8Array([65]), { name: "a.txt" }), sortie.RateLimitedError);
  await assert.rejects(client.files.upload(new Uint8Array([65])), /name/);
  assert.equal(seen.length, 2);
  for (const part of ["text/x-a", 'filename="a.txt"', "content"]) assert.ok(seen[0]!.body.includes(part), part);
});

for (const [code, type] of Object.entries(sortie.errorsByCode))
  test(`${code} has a class`, async () => {
    answers.push(refusal(418, code));
    await assert.rejects(client.me(), (error) => {
      assert.ok(error instanceof type && error instanceof sortie.APIError);
      assert.equal(error.name, type.name);
      assert.deepEqual([error.status, error.code, error.requestId], [418, code, "req_1"]);
      assert.equal(error.message, `the sentence of ${code}`);
      return true;
    });
  });

test("a code that is not known, and a proxy's page", async () => {
  answers.push(refusal(418, "newer"), { status: 418, body: "<html>" }, { body: "<html>" });
  await assert.rejects(client.me(), { code: "newer" });
  await assert.rejects(client.me(), { status: 418, message: "the engine answered 418" });
  await assert.rejects(client.me(), /not what the API describes/);
});

test("a silent server is a timeout, and a signal ends a call", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const silent = new Sortie({ baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, timeoutMs: 50, retries: 1 });
  await assert.rejects(silent.me(), sortie.TimeoutError);
  const mine = new Error("mine");
  await assert.rejects(silent.me({ signal: AbortSignal.abort(mine) }), mine);
  await assert.rejects(async () => {
    for await (const _ of silent.runs.stream("run_1", { signal: AbortSignal.abort(mine) })) assert.fail();
  }, mine);
  server.close();
});

test("what is no ID is refused before it is another path", async () => {
  for (const name of ["", ".", ".."])
    assert.throws(() => client.organizations.members.delete("org_1", name), /no ID/);
  for (const path of ["../../../admin/audit", "a/./b", "a//b", "/etc"])
    assert.throws(() => client.runs.download("run_1", path), /no ID/);
  assert.equal(seen.length, 0);
});

test("settings that cannot work are refused, and so is a body that has no JSON", async () => {
  assert.throws(() => new Sortie({ baseUrl: "sortie.example.com" }), /http/);
  assert.throws(() => new Sortie({ baseUrl: recorder.url, apiKey: "k\n" }), /apiKey/);
  await assert.rejects(client.runs.create({ prompt: "x", input: 1n }), TypeError);
  assert.equal(seen.length, 0);
});

test("a redirect is not followed", async () => {
  answers.push({ status: 301, headers: { Location: `${recorder.url}/v1/other` } });
  await assert.rejects(client.runs.create({ prompt: "x" }), { status: 301 });
  assert.equal(seen.length, 1);
});

test("an upload may take long, and its answer may not", async () => {
  answers.push({ hang: true });
  const quick = new Sortie({ baseUrl: recorder.url, timeoutMs: 50 });
  await assert.rejects(quick.files.upload(new Uint8Array([65]), { name: "a.txt" }), sortie.TimeoutError);
  answers.push({ body: "<html>" });
  await assert.rejects(quick.files.upload(new Uint8Array([65]), { name: "a.txt" }), /not what the API describes/);
});

test("a header of a call replaces that of the client", async () => {
  answers.push(answerOf());
  await client.runs.get("run_1", {}, { headers: { authorization: "Bearer other" } });
  assert.equal(seen[0]!.headers.authorization, "Bearer other");
});

test("a fetch of one's own", async () => {
  const own = new Sortie({ baseUrl: "http://nowhere", fetch: async (url) => Response.json({ ...run, id: String(url) }) });
  assert.equal((await own.runs.get("run_7")).id, "http://nowhere/v1/runs/run_7");
});

test("all pages are read", async () => {
  for (const [number, next_cursor] of [[1, "c1"], [2, "c2"], [3, ""]] as const)
    answers.push({ body: JSON.stringify({ items: [{ ...run, id: `run_${number}` }], next_cursor }) });
  const ids: string[] = [];
  for await (const { id } of client.runs.list({ tag: "a" })) ids.push(id);
  assert.deepEqual(ids, ["run_1", "run_2", "run_3"]);
  assert.deepEqual(
    seen.map(({ target }) => target),
    ["", "&cursor=c1", "&cursor=c2"].map((cursor) => `/v1/runs?limit=100&tag=a${cursor}`),
  );
});

test("cancelAll reads all pages", async () => {
  for (const next_cursor of ["c1", ""]) answers.push({ body: JSON.stringify({ matched: 3, cancelled: 2, next_cursor }) });
  assert.deepEqual(await client.runs.cancelAll({ tag: "a" }), { matched: 6, cancelled: 4, next_cursor: "" });
  assert.equal(seen[1]!.target, "/v1/runs/cancel?tag=a&cursor=c1");
});

test("a wait polls long and never without waiting", async () => {
  answers.push(answerOf(), { drop: true }, answerOf(finished), answerOf(finished), answerOf(finished));
  assert.equal((await client.runs.wait("run_1")).status, "succeeded");
  await client.runs.wait("run_1", { withinMs: 7500 });
  await client.runs.wait("run_1", { withinMs: 500 });
  await assert.rejects(client.runs.wait("run_1", { withinMs: 0 }), sortie.TimeoutError);
  assert.deepEqual(
    seen.map(({ target }) => target.split("?")[1]),
    ["wait=60", "wait=60", "wait=60", "wait=7", "wait=1"],
  );
});

test("a wait asks once for each poll, keeps to Retry-After, and ends in time", async () => {
  answers.push(refusal(429, "rate_limited", { "Retry-After": "17" }), answerOf(finished));
  await client.runs.wait("run_1");
  assert.deepEqual(pauses, [17_000]);
  answers.push(refusal(429, "rate_limited", { "Retry-After": "3600" }));
  await assert.rejects(client.runs.wait("run_1"), sortie.RateLimitedError);
  assert.equal(seen.length, 3);
  // A time limit for the call is one beyond the time of the poll.
  const brief = new Sortie({ baseUrl: recorder.url, timeoutMs: 50 });
  answers.push({ hang: true });
  const began = performance.now();
  await assert.rejects(brief.runs.wait("run_1", { withinMs: 900 }), sortie.TimeoutError);
  assert.ok(performance.now() - began > 900);
});

const tag = { ETag: '"84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"', "Content-Type": "text/plain" };
const content = "0123456789";
const textOf = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

test("a download continues after a broken connection", async () => {
  answers.push(
    { headers: tag, body: content.slice(0, 4), cut: true },
    refusal(503, "unavailable"),
    { status: 206, headers: tag, body: content.slice(4, 7), cut: true },
    { status: 206, headers: tag, body: content.slice(7) },
  );
  assert.equal(textOf(await client.files.download("file_1")), content);
  assert.deepEqual(seen.map(({ headers }) => headers.range), [undefined, "bytes=4-", "bytes=4-", "bytes=7-"]);
  assert.deepEqual(seen.slice(1).map(({ headers }) => headers["if-match"]), [tag.ETag, tag.ETag, tag.ETag]);
  // A proxy may answer the whole content, and a weak tag.
  const weak = { ...tag, ETag: `W/${tag.ETag}` };
  answers.push({ headers: tag, body: content.slice(0, 4), cut: true }, { headers: weak, body: content });
  assert.equal(textOf(await client.files.download("file_1")), content);
  // The connection broke after the last byte.
  answers.push({ headers: tag, body: content, cut: true }, refusal(416, "range_not_satisfiable"));
  assert.equal(textOf(await client.files.download("file_1")), content);
  answers.push({ headers: tag, body: content.slice(0, 4), cut: true }, refusal(412, "precondition_failed"));
  await assert.rejects(client.files.download("file_1"), sortie.PreconditionFailedError);
});

test("other content is refused and leaves no file", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sortie-client-"));
  for (const headers of [{ ...tag, ETag: '"00"' }, { "Content-Type": "text/plain" }]) {
    answers.push({ headers, body: content }, { headers, body: content });
    await assert.rejects(client.files.download("file_1", { to: join(folder, "a.txt") }), /SHA-256/);
    await assert.rejects(client.files.download("file_1"), /SHA-256/);
  }
  assert.deepEqual(readdirSync(folder), []);
  rmSync(folder, { recursive: true });
});

const sse = { "Content-Type": "text/event-stream" };
const eventOf = (id: number, type = "message") =>
  `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify({ id, type, data: {}, created_at: run.created_at })}\n\n`;
const done = `event: done\ndata: ${JSON.stringify(run)}\n\n`;

async function idsOf(stream: AsyncIterable<{ id?: number | undefined }>) {
  const ids = [];
  for await (const { id } of stream) ids.push(id);
  return ids;
}

test("a silent connection is dead", async () => {
  mock.method(globalThis, "setTimeout", (callback: () => void, ms = 0, ...values: unknown[]) =>
    realSetTimeout(callback, { giveUp: 50, wake: 0 }[callback.name] ?? ms, ...values),
  );
  answers.push({ headers: sse, body: eventOf(1), hang: true }, { headers: sse, body: eventOf(2) + done });
  assert.deepEqual(await idsOf(client.runs.stream("run_1")), [1, 2]);
});

/** Lets each pause take 100 seconds on the clock. */
const hasten = () => mock.method(performance, "now", () => pauses.length * 100_000);

for (const answer of [{ drop: true }, { headers: sse, body: "" }, refusal(503, "unavailable")])
  test(`a stream without a byte ends after five minutes: ${JSON.stringify(answer)}`, async () => {
    hasten();
    answers.push(...Array.from({ length: 99 }, () => answer));
    await assert.rejects(idsOf(client.runs.stream("run_1")), sortie.SortieError);
    assert.equal(seen.length, 5);
  });

test("bytes renew the patience", async () => {
  hasten();
  answers.push(...Array.from({ length: 20 }, () => ({ headers: sse, body: ": heartbeat\n" })), { headers: sse, body: done });
  assert.deepEqual(await idsOf(client.runs.stream("run_1")), []);
});

test("a stream continues after an error, and closes its connection when it is left", async () => {
  answers.push({ headers: sse, body: eventOf(1) }, refusal(403, "forbidden"), { headers: sse, body: eventOf(2) + done });
  const stream = client.runs.stream("run_1");
  await assert.rejects(idsOf(stream), sortie.ForbiddenError);
  assert.deepEqual(await idsOf(stream), [2]);
  const before = recorder.closed.count;
  answers.push({ headers: sse, body: eventOf(1), hang: true });
  for await (const { id } of client.runs.stream("run_1")) {
    assert.equal(id, 1);
    break;
  }
  while (recorder.closed.count === before) await new Promise((resolve) => setImmediate(resolve));
});

test("a signal ends a stream that waits", async () => {
  const controller = new AbortController();
  answers.push({ headers: sse, body: eventOf(1), hang: true });
  const mine = new Error("mine");
  await assert.rejects(async () => {
    for await (const _ of client.runs.stream("run_1", { signal: controller.signal })) controller.abort(mine);
  }, mine);
});

test("a stream ignores what it has and what it does not know, and continues after the last event", async () => {
  const event = (id: number, type = "message") =>
    `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify({ id, type, data: {}, created_at: run.created_at })}\n\n`;
  const headers = { "Content-Type": "text/event-stream" };
  answers.push(
    { headers, body: `: connected\nretry: 2000\n${event(1)}${event(2)}id: 3\nevent: mess` },
    { status: 503 },
    { headers, body: `${event(2)}${event(3, "newer")}event: later\ndata: {"x": 1}\n\n` },
    { headers, body: `event: message_delta\ndata: {"text":"a","step":1}\n\nevent: done\ndata: ${JSON.stringify(run)}\n\n` },
  );
  const stream = client.runs.stream("run_1", { deltas: true });
  const got: unknown[] = [];
  for await (const { id, type } of stream) got.push([id, type]);
  assert.deepEqual(got, [[1, "message"], [2, "message"], [3, "newer"], [undefined, "message_delta"]]);
  assert.equal(stream.run?.id, "run_1");
  assert.deepEqual(seen.map(({ headers }) => headers["last-event-id"]), ["0", "2", "2", "3"]);
  assert.ok(seen.every(({ target, headers }) => target.endsWith("?deltas=true") && headers.accept === "text/event-stream"));
});

test("what is no event stream is said", async () => {
  answers.push({ headers: { "Content-Type": "text/html" } });
  await assert.rejects(async () => {
    for await (const _ of client.runs.stream("run_1")) assert.fail();
  }, /no event stream/);
});

test("messages are split at any byte, with any line ends", async () => {
  const text = "\ufeff: note\r\nid: 1\r\nevent: a\r\ndata: é\r\ndata:  two\r\n\r\ndata\n\nid: 2\rdata: x\r\rdata: cut";
  const bytes = new TextEncoder().encode(text.replace("\ufeff", ""));
  const wanted = [
    { event: "a", data: "é\n two", id: "1" },
    { event: "message", data: "", id: undefined },
    { event: "message", data: "x", id: "2" },
  ];
  for (let size = 1; size <= bytes.length; size += 1) {
    const chunks = async function* () {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
    };
    const got = [];
    for await (const message of messagesOf(chunks())) got.push(message);
    assert.deepEqual(got, wanted, `chunks of ${size}`);
  }
});
