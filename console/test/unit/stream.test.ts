import assert from "node:assert/strict";
import { test } from "node:test";
import { messageReader, type ServerMessage } from "../../src/api/stream.ts";

const STREAM =
  ': connected\nretry: 2000\nid: 1\nevent: status\ndata: {"status":"queued"}\n\n: heartbeat\nid: 2\r\nevent: message\r\ndata: zwölf €\r\ndata:  second 🎈\r\n\r\ndata\n\nevent: done\ndata: {}\n\n';
const MESSAGES: ServerMessage[] = [
  { id: "1", event: "status", data: '{"status":"queued"}' },
  { id: "2", event: "message", data: "zwölf €\n second 🎈" },
  { event: "message", data: "" },
  { event: "done", data: "{}" },
];

test("chunks may be cut at every byte", () => {
  const bytes = new TextEncoder().encode(STREAM);
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    const read = messageReader();
    assert.deepEqual([...read(bytes.subarray(0, cut)), ...read(bytes.subarray(cut))], MESSAGES, `cut at ${cut}`);
  }
});

test("single bytes give the same messages", () => {
  const read = messageReader();
  const messages = [...new TextEncoder().encode(STREAM)].flatMap((byte) => read(Uint8Array.of(byte)));
  assert.deepEqual(messages, MESSAGES);
});

test("a message that is not complete is not given", () => {
  assert.deepEqual(messageReader()(new TextEncoder().encode("data: half\n")), []);
});
