// The package in a browser: a page of another origin follows a run with a run token, through a restart of the engine.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, test } from "node:test";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { startEngine } from "../src/testing.ts";

/** Time for a step beside other work of the machine. */
const PATIENCE_MS = 90_000;
const built = join(import.meta.dirname, "../dist/esm");
const model = "runbook";
const files = [{ path: "notes.txt", content: "notes\n" }];
const prompt = '```tool read_file\n{"path": "notes.txt"}\n```\n\n```wait 200\n```\n\n'.repeat(15) + "```answer\ndone\n```";

/** The page of the examples. */
const page = readFileSync(join(import.meta.dirname, "../../../examples/clients/page.html"), "utf8");

/** A page with the hook of React, in the mode that runs each effect twice. */
const component = `
import { createElement as h, StrictMode, useMemo } from "react";
import { createRoot } from "react-dom/client";
import { Sortie } from "sortie-client";
import { useRun } from "sortie-client/react";
const { url, run: id, token } = Object.fromEntries(new URLSearchParams(location.search));
function Page() {
  const client = useMemo(() => new Sortie({ baseUrl: url, apiKey: token }), []);
  const { events, text, run, error } = useRun(client, id);
  return h("main", null,
    h("ol", null, events.map((event) => h("li", { key: event.id }, event.type))),
    h("pre", null, text),
    h("p", null, error?.name ?? run?.status));
}
createRoot(document.body).render(h(StrictMode, null, h(Page)));`;

/** A page with `useChat` of the AI SDK, in the same mode. */
const chat = `
import { createElement as h, StrictMode, useMemo } from "react";
import { createRoot } from "react-dom/client";
import { useChat } from "@ai-sdk/react";
import { SortieChatTransport } from "sortie-client/ai";
const { url } = Object.fromEntries(new URLSearchParams(location.search));
const startRun = async ({ messages }) => {
  const response = await fetch("/start", { method: "POST", body: JSON.stringify(messages.at(-1)) });
  localStorage.setItem("run", await response.clone().text());
  return response.json();
};
const findRun = async () => JSON.parse(localStorage.getItem("run") ?? "null") ?? undefined;
function Page() {
  const transport = useMemo(() => new SortieChatTransport({ baseUrl: url, startRun, findRun }), []);
  const { messages, sendMessage, status, error, stop } = useChat({ id: "chat", transport, resume: true });
  const parts = messages.filter(({ role }) => role === "assistant").flatMap(({ parts }) => parts);
  const written = parts.filter(({ type }) => type === "text");
  globalThis.mostTexts = Math.max(globalThis.mostTexts ?? 0, written.length);
  return h("main", null,
    h("button", { onClick: () => sendMessage({ text: "Go." }) }, "Send"),
    h("button", { onClick: stop }, "Stop"),
    h("ol", null, parts.filter(({ type }) => type === "dynamic-tool").map((part) => h("li", { key: part.toolCallId }, part.state))),
    written.map(({ text }, index) => h("pre", { key: index }, text)),
    h("p", null, error?.message ?? status),
    h("output", null, parts.find(({ type }) => type === "data-run")?.data.status));
}
createRoot(document.body).render(h(StrictMode, null, h(Page)));`;

async function bundled(contents: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: join(import.meta.dirname, "..") },
    bundle: true,
    format: "esm",
    write: false,
    platform: "browser",
  });
  const program = outputFiles[0]!.text.replaceAll("</script", "<\\/script");
  return `<!doctype html><title>Run</title><body><script type="module">${program}</script>`;
}
const [reactPage, chatPage] = await Promise.all([bundled(component), bundled(chat)]);

async function serve(): Promise<[server: Server, origin: string]> {
  const server = createServer(async (request, response) => {
    const path = new URL(request.url ?? "/", "http://localhost").pathname;
    const html = { "/": page, "/react": reactPage, "/chat": chatPage }[path];
    if (path === "/start") {
      // The page's server has the API key.
      const run = await engine.client().runs.create({ prompt, model, files });
      const { token } = await engine.client().runs.createToken(run.id, { ttl_seconds: 300 });
      return void response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ run: run.id, token }));
    }
    if (html) return void response.writeHead(200, { "Content-Type": "text/html" }).end(html);
    const text = await readFile(join(built, path.replace("/sortie-client/", ""))).catch(() => undefined);
    response.writeHead(text ? 200 : 404, { "Content-Type": "text/javascript" }).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return [server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`];
}

const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
const [allowed, origin] = await serve();
const [foreign, foreignOrigin] = await serve();
const engine = await startEngine({ env: { SORTIE_ALLOWED_ORIGINS: origin } });
after(async () => {
  await browser.close();
  allowed.close();
  foreign.close();
  await engine[Symbol.asyncDispose]();
});

async function open(of: string, run: string, path = "/") {
  const { token } = await engine.client().runs.createToken(run, { ttl_seconds: 300 });
  const opened = await browser.newPage();
  opened.setDefaultTimeout(PATIENCE_MS);
  await opened.goto(`${of}${path}?${new URLSearchParams({ url: engine.url, run, token })}`);
  return opened;
}

for (const path of ["/", "/react"])
test(`a page of an allowed origin follows a run through a kill: ${path}`, async () => {
  const client = engine.client();
  const { id } = await client.runs.create({ prompt, model, files });
  const opened = await open(origin, id, path);
  await opened.locator("li").nth(7).waitFor();
  await engine.restart();
  await opened.locator("p", { hasText: "succeeded" }).waitFor();
  assert.deepEqual(
    await opened.locator("li").allTextContents(),
    (await client.runs.events(id)).map((event) => event.type),
  );
  await opened.close();
});

for (const isLoadedAgain of [false, true])
test(`a chat of the AI SDK follows a run through a kill${isLoadedAgain ? ", and continues when its page is loaded again" : ""}`, async () => {
  const opened = await browser.newPage();
  opened.setDefaultTimeout(PATIENCE_MS);
  await opened.goto(`${origin}/chat?${new URLSearchParams({ url: engine.url })}`);
  await opened.locator("p", { hasText: "ready" }).waitFor();
  await opened.getByText("Send").click();
  const ended = opened.locator("li", { hasText: "output-available" });
  await ended.nth(2).waitFor();
  assert.equal(await opened.locator("p").textContent(), "streaming");
  await engine.restart();
  await ended.nth(5).waitFor();
  // The page then has nothing but the run and its token.
  if (isLoadedAgain) await opened.reload();
  await opened.locator("output", { hasText: "succeeded" }).waitFor();
  await opened.locator("p", { hasText: "ready" }).waitFor();
  assert.deepEqual(await opened.locator("pre").allTextContents(), ["done"]);
  assert.equal(await opened.evaluate("mostTexts"), 1, "the text is there once at any time");
  assert.deepEqual(await opened.locator("li").allTextContents(), Array(15).fill("output-available"));
  await opened.close();
});

test("a chat that is stopped leaves its run", async () => {
  const opened = await browser.newPage();
  opened.setDefaultTimeout(PATIENCE_MS);
  await opened.goto(`${origin}/chat?${new URLSearchParams({ url: engine.url })}`);
  await opened.getByText("Send").click();
  await opened.locator("li").first().waitFor();
  await opened.getByText("Stop").click();
  await opened.locator("p", { hasText: "ready" }).waitFor();
  const { run } = await opened.evaluate(() => JSON.parse(localStorage.getItem("run") ?? "null") as { run: string });
  assert.equal((await engine.client().runs.wait(run)).status, "succeeded");
  await opened.close();
});

test("the hook says that a token does not permit it", async () => {
  const { id } = await engine.client().runs.create({ prompt: "```answer\nok\n```", model });
  const { token } = await engine.client().runs.createToken(id, { ttl_seconds: 60, may: ["cancel"] });
  const opened = await browser.newPage();
  await opened.goto(`${origin}/react?${new URLSearchParams({ url: engine.url, run: id, token })}`);
  await opened.locator("p", { hasText: "ForbiddenError" }).waitFor();
  await opened.close();
});

test("a page of another origin reads nothing", async () => {
  const { id } = await engine.client().runs.create({ prompt: "```answer\nok\n```", model });
  await engine.client().runs.wait(id);
  const opened = await open(foreignOrigin, id);
  const failed = await opened.waitForEvent("console", (message) => message.text().includes("CORS"));
  assert.match(failed.text(), /blocked by CORS policy/);
  assert.equal(await opened.locator("li").count(), 0);
  await opened.close();
});
