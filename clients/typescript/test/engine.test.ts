// The client with the real engine.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import * as sortie from "../src/index.ts";
import { Sortie, type Event, type Run } from "../src/index.ts";
import { verify } from "../src/callbacks.ts";
import { startEngine, type Engine } from "../src/testing.ts";

const answer = (text: string) => `\`\`\`answer\n${text}\n\`\`\``;
const model = "runbook";
const files = [{ path: "notes.txt", content: "notes\n" }];
// Steps that have no effect, so that a run continues after its engine was killed in any of them.
const steps = '```tool read_file\n{"path": "notes.txt"}\n```\n\n```wait 200\n```\n\n'.repeat(15) + answer("done");
const City = z.object({ name: z.string(), people: z.number().int() });

const engine = await startEngine({ env: { SORTIE_RATE_LIMIT_PER_MINUTE: "100000" } });
const client = engine.client();
const folder = mkdtempSync(join(tmpdir(), "sortie-client-"));
after(async () => {
  rmSync(folder, { recursive: true });
  await engine[Symbol.asyncDispose]();
});

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

test("a run is created, waited for and returned", async () => {
  const run = await client.runs.run({ prompt: answer("42"), model, input: { a: [1] }, tags: ["one"] });
  assert.deepEqual([run.status, run.output], ["succeeded", "42"]);
  assert.deepEqual((await client.runs.definition(run.id)).request.input, { a: [1] });
});

test("a run that fails says why", async () => {
  await assert.rejects(client.runs.run({ prompt: "```sh\nexit 3\n```", model }), (error) => {
    assert.ok(error instanceof sortie.RunNotSucceededError);
    assert.match(error.message, /exited with status 3/);
    assert.equal(error.run.status, "failed");
    return true;
  });
});

test("an answer has the type that was asked for", async () => {
  const city = await client.runs.run({ prompt: answer('{"name": "Bonn", "people": 3}'), model, output: City });
  assert.equal(city.people.toFixed(), "3");
  await assert.rejects(
    client.runs.run({ prompt: answer('{"name": "Bonn"}'), model, output: City }),
    sortie.RunNotSucceededError,
  );
});

test("a wait ends after its time", async () => {
  const { id } = await client.runs.create({ prompt: "```wait 60000\n```", model });
  await assert.rejects(client.runs.wait(id, { withinMs: 200 }), sortie.TimeoutError);
  assert.equal((await client.runs.cancel(id)).status, "cancelled");
});

test("the same key returns the same run", async () => {
  const first = await client.runs.create({ prompt: answer("1"), model }, { idempotencyKey: "once" });
  const second = await client.runs.create({ prompt: answer("2"), model }, { idempotencyKey: "once" });
  assert.equal(first.id, second.id);
});

test("the events of a run are typed", async () => {
  const { id } = await client.runs.create({ prompt: `\`\`\`sh\necho hello\n\`\`\`\n${answer("{{1}}")}`, model });
  const stream = client.runs.stream(id, { deltas: true });
  const events = await all(stream);
  assert.equal(stream.run?.output, "hello\n");
  const ids = events.filter((event) => event.id !== undefined).map((event) => event.id);
  assert.deepEqual(ids, ids.map((_, index) => index + 1));
  const printed = events.flatMap((event) => (event.type === "tool_output" ? [event.data.text] : []));
  assert.deepEqual(printed, ["hello\n"]);
  const started = events.filter((event) => event.type === "tool_start");
  assert.equal(started[0]?.data.tool, "shell");
  assert.deepEqual(await client.runs.events(id, { after: 1, types: ["tool_start"] }), started);
  assert.equal((await all(client.runs.stream(id, { after: 3 })))[0]?.id, 4);
});

test("pages are followed", async () => {
  for (let number = 0; number < 5; number += 1)
    await client.runs.create({ prompt: answer(String(number)), model, tags: ["paged"], metadata: { "a=b": `c & ${number % 2}` } });
  assert.equal((await all(client.runs.list({ tag: "paged", metadata: { "a=b": "c & 0" } }))).length, 3);
  const listed = client.runs.list({ tag: "paged", limit: 2 });
  assert.equal(new Set((await all(listed)).map(({ id }) => id)).size, 5);
  assert.deepEqual((await all(listed.pages())).map(({ items }) => items.length), [2, 2, 1]);
});

test("files and artifacts", async () => {
  const content = Buffer.alloc(2 ** 20, Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)));
  writeFileSync(join(folder, "data.bin"), content);
  const saved = await client.files.upload(join(folder, "data.bin"));
  const sha256 = createHash("sha256").update(content).digest("hex");
  assert.deepEqual([saved.name, saved.size, saved.sha256], ["data.bin", content.length, sha256]);
  assert.deepEqual(Buffer.from(await client.files.download(saved.id)), content);
  await client.files.download(saved.id, { to: join(folder, "copy.bin") });
  assert.deepEqual(readFileSync(join(folder, "copy.bin")), content);
  let streamed = 0;
  await client.files.download(saved.id, { to: new WritableStream({ write: (chunk) => void (streamed += chunk.length) }) });
  assert.equal(streamed, content.length);
  const run = await client.runs.run({
    prompt: "```sh\nmkdir -p 'outputs/a b'; wc -c <data.bin >'outputs/a b/ü.txt'\n```",
    model,
    files: [{ file: saved.id, path: "data.bin" }],
  });
  const [artifact] = await client.runs.artifacts(run.id);
  assert.equal(Buffer.from(await client.runs.download(run.id, artifact!.path)).toString(), "1048576\n");
  const kept = await client.files.keep({ run: run.id, path: artifact!.path, name: "kept.txt" });
  await client.files.delete(kept.id);
  await assert.rejects(client.files.download(kept.id, { to: join(folder, "none.txt") }), sortie.NotFoundError);
  assert.deepEqual(readdirSync(folder).sort(), ["copy.bin", "data.bin"]);
});

test("errors have the sentence of the engine", async () => {
  await assert.rejects(client.runs.create({ prompt: "x", model, max_cost_micros: 0 }), (error) => {
    assert.ok(error instanceof sortie.InvalidRequestError && error.requestId);
    assert.match(error.message, /max_cost_micros/);
    return true;
  });
  await assert.rejects(all(client.runs.stream("run_01kafs6w1cefkstv6qr1ptb0mp")), sortie.NotFoundError);
  await assert.rejects(new Sortie({ baseUrl: engine.url, apiKey: "sk_wrong" }).me(), sortie.UnauthorizedError);
});

test("callbacks are verified", async () => {
  const got: [string, IncomingHttpHeaders][] = [];
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
  const receiver = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    got.push([body, request.headers]);
    response.writeHead(204).end();
    arrive();
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const run = await client.runs.run({ prompt: answer("é"), model, callback: { url, secret: "schlüssel" } });
  await arrived;
  receiver.close();
  receiver.closeAllConnections();
  const [body, headers] = got[0]!;
  assert.equal((await verify(body, headers, "schlüssel")).output, "é");
  assert.equal((await verify(Buffer.from(body), new Headers(headers as Record<string, string>), "schlüssel")).id, run.id);
  const signature = String(headers["x-service-signature"]);
  const timestamp = String(headers["x-service-timestamp"]);
  const forgeries: [string, Record<string, string>, string][] = [
    [`${body} `, {}, "schlüssel"],
    [body, {}, "other"],
    [body, { "x-service-signature": signature.slice(0, -1) + (signature.endsWith("0") ? "1" : "0") }, "schlüssel"],
    [body, { "x-service-signature": signature.slice(7) }, "schlüssel"],
    [body, { "x-service-signature": "" }, "schlüssel"],
    [body, { "x-service-timestamp": String(Number(timestamp) + 1) }, "schlüssel"],
    [body, { "x-service-timestamp": "1e9" }, "schlüssel"],
    [body, { "x-service-timestamp": "" }, "schlüssel"],
  ];
  for (const [forged, changes, secret] of forgeries)
    await assert.rejects(verify(forged, { ...headers, ...changes }, secret), sortie.InvalidSignatureError);
  await assert.rejects(verify(body, headers, "schlüssel", { toleranceSeconds: -1 }), /was signed/);
});

/** Kills the engine after 8 events and after 20, and starts it again. */
async function killTwice(running: Engine, seen: number[]) {
  for (const count of [8, 20]) {
    while (seen.length < count) await sleep(10);
    await running.restart();
  }
}

test("a stream has each event once through two kills", async () => {
  const running = await startEngine();
  const own = running.client();
  const { id } = await own.runs.create({ prompt: steps, model, files });
  const seen: number[] = [];
  const killing = killTwice(running, seen);
  const stream = own.runs.stream(id);
  for await (const event of stream) seen.push(event.id);
  await killing;
  const recorded: Event[] = await own.runs.events(id);
  assert.deepEqual(seen, recorded.map((event) => event.id));
  assert.deepEqual(seen, seen.map((_, index) => index + 1));
  assert.equal(recorded.filter(({ type }) => type === "resumed").length, 2);
  assert.equal(stream.run?.output, "done");
  await running[Symbol.asyncDispose]();
});

test("a create and a wait continue through a kill", async () => {
  const running = await startEngine();
  const own = running.client();
  await running.kill();
  // The engine comes back while the client tries.
  const starting = sleep(500).then(() => running.start());
  const { id } = await own.runs.create({ prompt: steps, model, files });
  await starting;
  const killing = sleep(500).then(() => running.restart());
  const run: Run = await own.runs.wait(id);
  assert.equal(run.output, "done");
  await killing;
  await running[Symbol.asyncDispose]();
});

test("an engine that does not start says why", async () => {
  await assert.rejects(startEngine({ binary: "/does/not/exist" }), /cannot start/);
  await assert.rejects(startEngine({ env: { SORTIE_LISTEN: "nonsense" } }), /the engine ended/);
});
