// The programs of docs/TYPESCRIPT.md and of examples/clients run with the real engine and with the package as it is published,
// installed into an empty folder.
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { freePort, startEngine } from "../src/testing.ts";

const root = join(import.meta.dirname, "../../..");
const examples = join(root, "examples/clients");
const page = readFileSync(join(root, "docs/TYPESCRIPT.md"), "utf8");
const programs = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, program = ""]) => program);

const folder = mkdtempSync(join(tmpdir(), "sortie-client-"));
const npm = (...given: string[]) =>
  execFileSync("npm", [...given, "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"], { cwd: folder, encoding: "utf8" });
const packed = npm("pack", join(import.meta.dirname, ".."), "--json");
const [{ filename }] = JSON.parse(packed) as [{ filename: string }];
const { zod } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8")).devDependencies;
writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
npm("install", "--prefer-offline", `./${filename}`, `zod@${zod}`);
const engine = await startEngine();
const env = { ...process.env, SORTIE_URL: engine.url, SORTIE_API_KEY: engine.apiKey };
after(async () => {
  await engine[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

let count = 0;
async function run(program: string): Promise<string> {
  const own = join(folder, `program-${(count += 1)}`);
  mkdirSync(own);
  writeFileSync(join(own, "program.ts"), program);
  const { stdout } = await promisify(execFile)("node", ["program.ts"], { cwd: own, env });
  return stdout;
}

test("the page has programs", () => assert.ok(programs.length >= 7));

for (const program of programs)
  test(`a program of the page runs: ${program.split("\n").at(-2)}`, async () => {
    const output = await run(program);
    const wanted = { people: "Bonn 335000\nfailed", hello: "hello", "sorted.csv": "south,4\nnorth,3" };
    for (const [word, text] of Object.entries(wanted)) if (program.includes(word)) assert.ok(output.includes(text), output);
  });

test("the example runs", async () => {
  const output = await run(readFileSync(join(examples, "report.ts"), "utf8"));
  assert.ok(output.includes("tool_start") && output.endsWith("south,4\nnorth,3\n"), output);
});

test("the package answers to require", async () => {
  const program = 'const { Sortie } = require("sortie-client"); new Sortie().me().then(({ mode }) => console.log(mode))';
  writeFileSync(join(folder, "program.cjs"), program);
  const { stdout } = await promisify(execFile)("node", ["program.cjs"], { cwd: folder, env });
  assert.equal(stdout, "self-hosted\n");
});

test("the receiver accepts callbacks and no forgery", async () => {
  const port = await freePort();
  copyFileSync(join(examples, "receiver.ts"), join(folder, "receiver.ts"));
  const receiver = spawn("node", ["receiver.ts"], {
    cwd: folder,
    env: { ...env, CALLBACK_SECRET: "s", PORT: String(port) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  // The engine would repeat a refused callback after ten seconds.
  const isUp = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(port, "127.0.0.1", () => resolve(true)).on("error", () => resolve(false));
      socket.on("connect", () => socket.destroy());
    });
  while (receiver.exitCode === null && !(await isUp()));
  const client = engine.client();
  const url = `http://127.0.0.1:${port}/`;
  await client.runs.run({ prompt: "forged", model: "runbook", callback: { url, secret: "other" } });
  const { id } = await client.runs.create({ prompt: "genuine", model: "runbook", callback: { url, secret: "s" } });
  for await (const line of createInterface(receiver.stdout)) {
    assert.equal(line, `${id} succeeded genuine`);
    break;
  }
  receiver.kill();
});
