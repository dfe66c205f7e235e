// Every operation of both OpenAPI documents has a method, which sends what the document says.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, beforeEach, test } from "node:test";
import { APIError, Sortie } from "../src/index.ts";
import { startRecorder } from "./recorder.ts";

interface Described {
  operationId: string;
  parameters?: { name: string; in: string }[];
  requestBody?: { content: Record<string, unknown> };
}

const binary = process.env.SORTIE_BINARY ?? "sortie";
const operations = new Map<string, [method: string, path: string, Described]>();
for (const api of ["engine", "organization"]) {
  const { paths } = JSON.parse(execFileSync(binary, ["openapi", "--api", api], { encoding: "utf8", maxBuffer: 2 ** 26 })) as {
    paths: Record<string, Record<string, Described>>;
  };
  for (const [path, item] of Object.entries(paths))
    for (const method of ["get", "post", "put", "patch", "delete"])
      if (item[method]) operations.set(item[method].operationId, [method.toUpperCase(), path, item[method]]);
}

/** Method of each operation, such as `admin.keys.create`, of the table that both clients share. */
const methods = new Map<string, string>();
const camel = (text: string) => text.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
let section = "";
for (const line of readFileSync(new URL("../../operations.toml", import.meta.url), "utf8").split("\n")) {
  section = /^\[(.+)\]/.exec(line)?.[1] ?? section;
  const entry = /^(\w+) = (.+)/.exec(line);
  if (!entry || section === "not_for_clients") continue;
  const [, name = "", value = ""] = entry;
  const values = [...value.matchAll(/"([^"]+)"/g)].map(([, one = ""]) => one);
  if (section === "by_hand") methods.set(name, camel(values[0] ?? ""));
  else for (const id of values) methods.set(id, camel(section === "client" ? name : `${section}.${name}`));
}

const recorder = await startRecorder();
beforeEach(() => recorder.reset());
after(() => recorder.close());

test("each operation has a method", () => {
  const missing = [...operations.keys()].filter((id) => !methods.has(id)).sort();
  const others = ["finish_authorization", "finish_own_authorization", "follow_ui_messages", "receive_stripe_event"];
  assert.deepEqual(missing, others);
  assert.ok(operations.size > 150);
});

for (const [id, name] of methods) {
  test(`${name} sends ${id}`, async () => {
    const [method, path, described] = operations.get(id) ?? assert.fail(`${id} is in no document`);
    const client = new Sortie({ baseUrl: recorder.url, apiKey: "sk_test", retries: 0 });
    const owner = name.split(".").slice(0, -1).reduce((object, part) => object[part], client as any);
    let given: unknown[] = [...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => `p/${parameter}`);
    const query = Object.fromEntries(
      (described.parameters ?? []).filter((one) => one.in === "query" && !["lastEventId", "wait"].includes(one.name)).map((one) => [one.name, 1]),
    );
    const types = Object.keys(described.requestBody?.content ?? {});
    if (id === "create_file") given = [new Uint8Array([1]), { name: "a.txt" }];
    else if (id === "put_avatar") given.push(new Uint8Array([1]), "image/png");
    else if (types.length) given.push({ field: "value" });
    else if (id !== "follow_run" && Object.keys(query).length) given.push(query);
    await assert.rejects(async () => {
      const result = owner[name.split(".").at(-1)!](...given);
      // Lists and streams ask when they are iterated.
      if (Symbol.asyncIterator in result) for await (const _ of result) break;
      else await result;
    }, APIError);
    assert.equal(recorder.seen.length, 1);
    const [seen] = recorder.seen;
    const wanted = path
      .replace(/\{(path|scope)\}/g, "p/$1")
      .replace(/\{(\w+)\}/g, "p%2F$1");
    const [sent, sentQuery = ""] = seen!.target.split("?");
    assert.deepEqual([seen!.method, sent], [method, wanted]);
    assert.equal(seen!.headers.authorization, "Bearer sk_test");
    if (types.length) {
      assert.ok(types.includes(seen!.headers["content-type"]!.split(";")[0]!), seen!.headers["content-type"]);
      assert.ok(seen!.body);
    } else {
      assert.equal(seen!.body, "");
      if (id !== "follow_run")
        for (const parameter of Object.keys(query)) assert.ok(new URLSearchParams(sentQuery).has(parameter), parameter);
    }
  });
}
