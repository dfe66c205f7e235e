// The transport for the AI SDK: with its released packages, on scripted streams and with the real engine.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { DefaultChatTransport, readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import { SortieChatTransport, type ChatTransportSettings } from "../src/ai.ts";
import { startEngine } from "../src/testing.ts";

const model = "runbook";
const files = [{ path: "notes.txt", content: "notes\n" }];
const steps = '```tool read_file\n{"path": "notes.txt"}\n```\n\n```wait 200\n```\n\n'.repeat(15) + "```answer\ndone\n```";
const RUN = "run_01kafs6w1cefkstv6qr1ptb0mp";

const engine = await startEngine({ env: { SORTIE_RATE_LIMIT_PER_MINUTE: "100000" } });
const client = engine.client();
after(() => engine[Symbol.asyncDispose]());

const sending = (abortSignal?: AbortSignal) => ({
  trigger: "submit-message" as const,
  chatId: "chat",
  messageId: undefined,
  messages: [],
  abortSignal,
});

/** A transport for a run of the engine. */
async function transportOf(run: string, settings: Partial<ChatTransportSettings> = {}) {
  const { token } = await client.runs.createToken(run, { ttl_seconds: 300, may: ["read", "cancel"] });
  return new SortieChatTransport({ baseUrl: engine.url, startRun: async () => ({ run, token }), ...settings });
}

async function all<T>(stream: ReadableStream<T>): Promise<T[]> {
  const chunks: T[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

/** Every state of the message that the AI SDK makes of a stream. A part that is used and not open is an error. */
async function states(stream: ReadableStream<UIMessageChunk>): Promise<UIMessage[]> {
  const seen: UIMessage[] = [];
  const reading = readUIMessageStream({ stream, terminateOnError: true });
  for await (const message of reading) seen.push(structuredClone(message));
  return seen;
}

const texts = ({ parts }: UIMessage) => parts.flatMap((part) => (part.type === "text" ? [part.text] : []));

test("the stream is one of the AI SDK's protocol", async () => {
  const { id } = await client.runs.create({ prompt: "```sh\necho hello\n```\n```answer\ndone\n```", model });
  // This transport checks each chunk against the schema of the AI SDK.
  const theirs = new DefaultChatTransport({
    prepareReconnectToStreamRequest: () => ({
      api: `${engine.url}/v1/runs/${id}/ui-messages?deltas=true`,
      headers: { Authorization: `Bearer ${engine.apiKey}` },
    }),
  });
  const stream = await theirs.reconnectToStream({ chatId: "chat" });
  const message = (await states(stream!)).at(-1)!;
  assert.equal(message.id, id);
  assert.deepEqual(texts(message), ["done"]);
  const [tool, ...others] = message.parts.filter((part) => part.type === "dynamic-tool");
  assert.deepEqual(others, []);
  assert.deepEqual([tool?.toolName, tool?.state, tool?.input], ["shell", "output-available", { command: "echo hello" }]);
  assert.match(String(tool?.output), /^hello$/m);
});

test("a run is followed through two kills, each chunk once", async () => {
  const { id } = await client.runs.create({ prompt: steps, model, files });
  const transport = await transportOf(id);
  const stream = await transport.sendMessages(sending());
  const chunks: UIMessageChunk[] = [];
  let kills = 0;
  for await (const chunk of stream) {
    chunks.push(chunk);
    const ended = chunks.filter(({ type }) => type === "tool-output-available").length;
    if (kills < 2 && ended === 3 + kills * 4) {
      kills += 1;
      await engine.restart();
    }
  }
  assert.equal(kills, 2);
  const again = await all(await (await transportOf(id, { live: false })).sendMessages(sending()));
  const resumed = again.filter(({ type }) => type === "data-resumed");
  assert.equal(resumed.length, 2);
  // A step begins earlier with text that comes live.
  const added = ["data-message-start", "data-message-delta", "data-tool-output", "reset-step", "start-step", "finish-step"];
  const isRecorded = (chunk: UIMessageChunk) =>
    !added.includes(chunk.type) && !("id" in chunk && String(chunk.id).startsWith("live-"));
  assert.deepEqual(chunks.filter(isRecorded), again.filter(isRecorded));
  checkSteps(chunks);
  const replayed = await transport.reconnectToStream({ chatId: "chat" });
  const message = (await states(replayed!)).at(-1)!;
  assert.deepEqual(texts(message), ["done"]);
  const tools = message.parts.filter((part) => part.type === "dynamic-tool");
  assert.deepEqual(tools.map(({ state }) => state), Array(15).fill("output-available"));
  assert.ok(message.parts.some((part) => part.type === "data-run"));
});

test("a failed run is an error, and a cancelled one ends", async () => {
  const failed = await client.runs.create({ prompt: "```sh\nexit 3\n```", model });
  const stream = await (await transportOf(failed.id)).sendMessages(sending());
  await assert.rejects(states(stream), /exited with status 3/);
  const { id } = await client.runs.create({ prompt: "```wait 60000\n```", model });
  const ending = all(await (await transportOf(id)).sendMessages(sending()));
  await client.runs.cancel(id);
  assert.deepEqual((await ending).slice(-2).map(({ type }) => type), ["abort", "finish"]);
});

test("a stop ends the reading, and the run if that is asked for", async () => {
  for (const cancelOnStop of [false, true]) {
    const { id } = await client.runs.create({ prompt: "```wait 60000\n```", model });
    const controller = new AbortController();
    const stream = await (await transportOf(id, { cancelOnStop })).sendMessages(sending(controller.signal));
    const reader = stream.getReader();
    assert.equal((await reader.read()).value?.type, "start");
    controller.abort();
    await assert.rejects(async () => {
      while (!(await reader.read()).done);
    }, /abort/i);
    if (cancelOnStop) assert.equal((await client.runs.wait(id)).status, "cancelled");
    else {
      assert.notEqual((await client.runs.get(id)).status, "cancelled");
      await client.runs.cancel(id);
    }
  }
});

test("a run that cannot be cancelled is reported", async () => {
  const { id } = await client.runs.create({ prompt: "```wait 60000\n```", model });
  const { token } = await client.runs.createToken(id, { ttl_seconds: 60 });
  const controller = new AbortController();
  const { promise, resolve } = Promise.withResolvers<Error>();
  const transport = new SortieChatTransport({
    baseUrl: engine.url,
    startRun: async () => ({ run: id, token }),
    cancelOnStop: true,
    onCancelError: resolve,
  });
  await transport.sendMessages(sending(controller.signal));
  controller.abort();
  assert.equal((await promise).name, "ForbiddenError");
  await client.runs.cancel(id);
});

test("a chat continues with the run that is found, or not at all", async () => {
  const { id } = await client.runs.create({ prompt: "```answer\nhere\n```", model });
  const { token } = await client.runs.createToken(id, { ttl_seconds: 60 });
  const asked: string[] = [];
  const transport = new SortieChatTransport({
    baseUrl: engine.url,
    startRun: () => assert.fail("no run is started"),
    findRun: async ({ chatId }) => {
      asked.push(chatId);
      return chatId === "chat" ? { run: id, token } : undefined;
    },
  });
  assert.equal(await transport.reconnectToStream({ chatId: "other" }), null);
  for (let time = 0; time < 2; time += 1) {
    const stream = await transport.reconnectToStream({ chatId: "chat" });
    assert.deepEqual(texts((await states(stream!)).at(-1)!), ["here"]);
  }
  assert.deepEqual(asked, ["other", "chat"]);
});

// --- scripted streams: what a model writes, and when it is recorded, depends on no engine ---

type Scripted = [id: string | undefined, chunk: UIMessageChunk];

const live = (type: string, data: object): Scripted => [undefined, { type: `data-${type}`, data, transient: true } as UIMessageChunk];
const starts = (step: number) => live("message-start", { model, step });
const writes = (step: number, text: string) => live("message-delta", { text, step });

/** The recorded chunks of an event. */
const recorded = (event: number, chunks: UIMessageChunk[]): Scripted[] =>
  chunks.map((chunk, index) => [`${event}.${index + 1}`, chunk]);
const says = (event: number, step: number, text: string, thinking?: string): Scripted[] => [
  ...(thinking
    ? recorded(event - 1, [
        { type: "start-step" },
        { type: "reasoning-start", id: `reasoning-${step}` },
        { type: "reasoning-delta", id: `reasoning-${step}`, delta: thinking },
        { type: "reasoning-end", id: `reasoning-${step}` },
      ])
    : []),
  ...recorded(event, [
    ...(thinking ? [] : [{ type: "start-step" } as const]),
    { type: "text-start", id: `text-${step}` },
    { type: "text-delta", id: `text-${step}`, delta: text },
    { type: "text-end", id: `text-${step}` },
  ]),
];
const calls = (event: number, id: string): Scripted[] =>
  recorded(event, [
    { type: "tool-input-available", toolCallId: id, toolName: "t", input: {}, dynamic: true, providerExecuted: true },
    { type: "tool-output-available", toolCallId: id, output: "o", dynamic: true, providerExecuted: true },
  ]);
const first = recorded(1, [
  { type: "start", messageId: RUN },
  { type: "data-status", id: "status", data: { status: "queued" } },
]);
const called = (event: number, ...before: UIMessageChunk[]) =>
  recorded(event, [...before, { type: "data-model-call", data: {}, transient: true } as UIMessageChunk]);
const finished: UIMessageChunk = { type: "finish-step" };
const last = recorded(99, [
  { type: "finish-step" },
  { type: "data-run", id: "run", data: {} },
  { type: "finish", finishReason: "stop" },
]);

/** Each step begins after the one before has finished, and all are finished. */
function checkSteps(chunks: UIMessageChunk[]) {
  const steps = chunks.map(({ type }) => type).filter((type) => type === "start-step" || type === "finish-step");
  assert.deepEqual(steps, steps.map((_, index) => (index % 2 ? "finish-step" : "start-step")));
  assert.equal(steps.length % 2, 0);
}

/** The states of the message of these connections, of which all but the last are broken off. */
async function follow(connections: Scripted[][]): Promise<{ seen: UIMessage[]; positions: (string | null)[] }> {
  const positions: (string | null)[] = [];
  const transport = new SortieChatTransport({
    baseUrl: "http://scripted",
    startRun: async () => ({ run: RUN, token: "srt_x" }),
    fetch: async (_, init) => {
      const messages = connections[positions.length]!;
      positions.push(new Headers(init?.headers).get("last-event-id"));
      const text = messages.map(([id, chunk]) => `${id ? `id: ${id}\n` : ""}data: ${JSON.stringify(chunk)}\n\n`).join("");
      const end = positions.length === connections.length ? "data: [DONE]\n\n" : "";
      return new Response(text + end, { headers: { "Content-Type": "text/event-stream" } });
    },
  });
  const [read, kept] = (await transport.sendMessages(sending())).tee();
  const [seen, chunks] = await Promise.all([states(read), all(kept)]);
  checkSteps(chunks);
  return { seen, positions };
}

/** The final parts, and every text that was visible on the way. */
async function shown(...connections: Scripted[][]) {
  const { seen, positions } = await follow(connections);
  const kept = connections.flat().filter(([id]) => id !== undefined);
  const plain = await follow([kept]);
  assert.deepEqual(seen.at(-1)?.parts, plain.seen.at(-1)?.parts, "the message is that of the recorded chunks");
  const visible = seen.map((message) => texts(message).join("|"));
  return { visible: visible.filter((text, index) => text !== visible[index - 1]), positions };
}

test("text is shown while the model writes it, and the recorded text replaces it", async () => {
  const { visible } = await shown([
    ...first, starts(1), writes(1, "I "), writes(1, "look."), ...called(2), ...says(4, 1, "I look.", "hm"), ...calls(5, "a"),
    starts(2), writes(2, "Do"), writes(2, "ne"), ...called(6, finished), ...says(7, 2, "Done."), ...last,
  ]);
  for (const text of ["I ", "I look.", "I look.|Do", "I look.|Done", "I look.|Done."]) assert.ok(visible.includes(text), text);
  assert.ok(visible.every((text) => !text.includes("I look.|I look.") && !text.includes("Done|Done.")));
});

test("text that begins again is not shown twice", async () => {
  const retried = recorded(2, [{ type: "data-retry", data: {}, transient: true } as UIMessageChunk]);
  const { visible } = await shown([
    ...first, starts(1), writes(1, "wrong"), ...retried, starts(1), writes(1, "right"), ...called(3), ...says(4, 1, "right"), ...last,
  ]);
  assert.ok(visible.includes("wrong") && visible.includes("right"));
  assert.ok(visible.every((text) => !text.includes("wrongright") && !text.includes("wrong|right")));
});

test("parts of the turn before that come late do not lose the text", async () => {
  const { seen } = await follow([[
    ...first, ...called(2), ...says(3, 1, "one"), ...calls(4, "a"), starts(2), writes(2, "tw"), ...calls(5, "b"), writes(2, "o"),
    ...called(6, finished), ...says(7, 2, "two"), ...last,
  ]]);
  const visible = seen.map((message) => texts(message).join("|"));
  assert.ok(visible.includes("one|tw") && visible.includes("one|two"));
  const { parts } = seen.at(-1)!;
  assert.deepEqual(texts(seen.at(-1)!), ["one", "two"]);
  assert.equal(parts.filter(({ type }) => type === "dynamic-tool").length, 2);
});

test("a connection that breaks takes back the text that is not recorded, and none is shown without its beginning", async () => {
  const { visible, positions } = await shown(
    [...first, starts(1), writes(1, "The ")],
    [writes(1, "42."), ...called(2), ...says(3, 1, "The answer is 42.").slice(0, 2)],
    [...says(3, 1, "The answer is 42.").slice(2), starts(1), writes(1, "late"), ...last],
  );
  assert.deepEqual(positions, [null, "1.2", "3.2"]);
  assert.ok(visible.includes("The "));
  assert.ok(visible.every((text) => !text.includes("The 42.") && !text.includes("late")));
});

test("a run that ends while its model writes keeps none of the text", async () => {
  const { seen } = await follow([[
    ...first, starts(1), writes(1, "half"),
    ...recorded(2, [{ type: "data-run", id: "run", data: {} }, { type: "abort" }, { type: "finish", finishReason: "other" }]),
  ]]);
  assert.ok(seen.some((message) => texts(message).includes("half")));
  // The step of the text stays, and is empty.
  assert.deepEqual(seen.at(-1)!.parts.map(({ type }) => type), ["data-status", "step-start", "data-run"]);
});

test("a page that does not stop waits for the engine", async () => {
  const { id } = await client.runs.create({ prompt: "```wait 300\n```\n```answer\nback\n```", model });
  const transport = await transportOf(id);
  await engine.kill();
  const starting = sleep(500).then(() => engine.start());
  const message = (await states(await transport.sendMessages(sending()))).at(-1)!;
  await starting;
  assert.deepEqual(texts(message), ["back"]);
});
