// Drives Chromium through the console: node test/journeys.mjs [NAME]
import assert from "node:assert/strict";
import { startServer } from "./server.mjs";
import { launch, openPage } from "./browser.mjs";

const journeys = {
  async "signs in by key, keeps the session, signs out"({ open }) {
    const { page, go } = await open({ isSignedIn: false });
    await go("/runs");
    await page.getByLabel("API key").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("this key is not valid").waitFor();
    await page.getByLabel("API key").fill("stk_valid");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Runs" }).waitFor({ state: "attached" });
    await page.reload();
    await page.getByText("Compare 48 prices").or(page.getByText("output does not match")).first().waitFor();
    await page.getByRole("button", { name: "Account and settings" }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.getByLabel("API key").waitFor();
  },

  async "signs in by the code of the address and takes it out of the address"({ open }) {
    const { page, go } = await open({ isSignedIn: false });
    await go("/runs#code=ABCD");
    await page.getByText("invoice-triage").first().waitFor();
    assert.ok(!page.url().includes("ABCD"));
  },

  async "says so when the session ends"({ open, server }) {
    const { page, go } = await open();
    await go("/runs");
    await page.getByText("invoice-triage").first().waitFor();
    server.data.isRevoked = true;
    await page.getByRole("link", { name: "Failed" }).click();
    await page.getByText("Your session has ended").waitFor();
  },

  async "filters runs, and the address restores the filters"({ open }) {
    const { page, go } = await open();
    await go("/runs");
    await page.getByText("support-router").first().waitFor();
    await page.getByRole("link", { name: "Failed", exact: true }).click();
    await page.getByText("support-router").first().waitFor({ state: "detached" });
    assert.equal(new URL(page.url()).searchParams.getAll("status").length, 3);
    await page.getByRole("button", { name: "Tag" }).click();
    await page.getByRole("menuitemcheckbox", { name: "docs" }).click();
    await page.locator("tbody tr").nth(1).waitFor({ state: "detached" });
    await page.reload();
    await page.getByText("crawl-docs").waitFor();
    assert.equal(await page.locator("tbody tr").count(), 1);
    await page.getByRole("searchbox").fill("nothing like it");
    await page.getByText("No run matches").waitFor();
    await page.getByRole("button", { name: "Clear filters" }).click();
    await page.getByText("support-router").first().waitFor();
  },

  async "selects runs by keyboard and compares two"({ open }) {
    const { page, go } = await open();
    await go("/runs");
    await page.getByText("support-router").first().waitFor();
    for (const key of ["j", "j", "j", "j", "x", "j", "x"]) await page.keyboard.press(key);
    await page.getByText("2 selected").waitFor();
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByText("Both runs used the same definition.").waitFor();
  },

  async "cancels all runs that match, after a count"({ open, server }) {
    const { page, go } = await open();
    await go("/runs");
    await page.getByRole("button", { name: "All that match…" }).click();
    await page.getByRole("menuitem", { name: "Cancel all that match" }).click();
    await page.getByText("Cancel 3 runs?").waitFor();
    await page.getByRole("button", { name: "Cancel all that match" }).click();
    await page.getByText("3 runs done").waitFor();
    assert.equal(server.requests.filter((request) => request === "POST /v1/runs/cancel").length, 2);
  },

  async "starts a run from a prompt with a file"({ open, server }) {
    const { page, go } = await open();
    await go("/runs/new");
    await page.getByLabel("Prompt", { exact: true }).fill("Count the lines.");
    await page.locator("input[type=file]").setInputFiles({ name: "lines.txt", mimeType: "text/plain", buffer: Buffer.from("a\nb\n") });
    await page.getByText("sent with the run").waitFor();
    await page.getByLabel("Budget").fill("$0.50");
    const json = JSON.parse(await page.getByLabel("Request").inputValue());
    assert.deepEqual(json, { prompt: "Count the lines.", files: [{ path: "lines.txt", content: "a\nb\n" }], max_cost_micros: 500_000 });
    await page.getByLabel("Request").fill('{"prompt": "From the text."}');
    assert.equal(await page.getByLabel("Prompt", { exact: true }).inputValue(), "From the text.");
    await page.keyboard.press("Control+Enter");
    await page.waitForURL(/runs\/run_/);
    await page.getByText("Queued").first().waitFor();
    assert.ok(server.requests.includes("POST /v1/runs"));
  },

  async "shows the engine's message at the field of a schema form"({ open }) {
    const { page, go } = await open();
    await go("/runs/new?workflow=invoice-triage");
    await page.getByLabel("Week").fill("2026-W47");
    await page.getByLabel("Tolerance").fill("-0.01");
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByText("less than 0").waitFor();
    assert.equal(await page.getByLabel("Tolerance").getAttribute("aria-invalid"), "true");
  },

  async "follows a run, survives a cut connection, has every event once"({ open, server }) {
    const { page, go } = await open();
    await go("/runs/@live");
    await page.getByText("live", { exact: false }).first().waitFor();
    await page.locator(".say.live").filter({ hasText: "differences" }).waitFor();
    const before = server.requests.filter((request) => request.includes("/events")).length;
    server.cut();
    await page.getByText("reconnecting").waitFor();
    await page.locator(".chip.state-live").waitFor();
    assert.equal(server.requests.filter((request) => request.includes("/events")).length, before + 1);
    const ids = await page.locator(".row .id").allTextContents();
    assert.deepEqual(ids, [...new Set(ids)]);
    await page.locator(".say.live").filter({ hasText: "differences" }).waitFor();
  },

  async "cancels a run after a question"({ open }) {
    const { page, go } = await open();
    await go("/runs/@live");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("is not undone").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await page.getByText("Cancelled").first().waitFor();
  },

  async "replays a run with an edit"({ open }) {
    const { page, go } = await open();
    await go("/runs/@done");
    await page.getByText("one needs a person").waitFor();
    await page.keyboard.press("r");
    await page.getByText("Original run").waitFor();
    const request = JSON.parse(await page.getByLabel("Request").inputValue());
    assert.match(request.replay_of, /^run_/);
    await page.getByLabel("Budget").fill("$0.75");
    const sent = page.waitForRequest((one) => one.method() === "POST" && one.url().endsWith("/v1/runs"));
    await page.getByRole("button", { name: "Start" }).click();
    const body = (await sent).postDataJSON();
    assert.equal(body.max_cost_micros, 750_000);
    assert.ok((await sent).headers()["idempotency-key"]);
  },

  async "says first why a run ended"({ open }) {
    const { page, go } = await open();
    await go("/runs/@failed");
    await page.getByRole("note").getByText("output.items[3].price: required").waitFor();
    await page.getByRole("button", { name: "Show the event" }).click();
    await page.getByRole("complementary", { name: "Details" }).getByText("Answer rejected").waitFor();
    await go("/runs/@interrupted");
    await page.getByText("It may have had its effect").waitFor();
    await go("/runs/@timedOut");
    await page.getByText("Most of the time went to").waitFor();
    await page.getByRole("note").getByText("wget --recursive").waitFor();
  },

  async "moves through the trace by keyboard"({ open }) {
    const { page, go } = await open();
    await go("/runs/@done?tab=trace");
    await page.getByText("python3 match.py").first().waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.waitForURL(/event=7/);
    await page.keyboard.press("ArrowLeft");
    await page.getByText("ls -la invoices").waitFor({ state: "detached" });
    await page.keyboard.press("]");
    await page.getByRole("complementary").getByText("The provider did not answer").waitFor();
    await page.keyboard.press("f");
    await page.getByLabel("Text of a step").fill("orders/48402");
    await page.getByText("1 of 15 steps").waitFor();
  },

  async "opens ten thousand events at a link"({ open }) {
    const { page, go } = await open();
    await go("/runs/@many?event=9000");
    await page.locator('.row[aria-selected="true"]').waitFor();
    const near = Number(await page.locator('.row[aria-selected="true"] .id').textContent());
    assert.ok(Math.abs(near - 9000) <= 2, String(near));
    const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
    assert.ok(nodes < 1500, `${nodes} nodes`);
  },

  async "reads an answer with zero data retention only when asked, and once"({ open, server }) {
    const { page, go } = await open();
    await go("/runs/@retention");
    await page.getByText("Zero data retention").waitFor();
    const reads = () => server.requests.filter((request) => request === `GET /v1/runs/${server.ids.retention}`).length;
    await page.waitForTimeout(300);
    assert.equal(reads(), 0);
    await page.getByRole("button", { name: "Read and delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Read and delete" }).click();
    await page.getByText("The code is 4711.").waitFor();
    assert.equal(reads(), 1);
  },

  async "shows hostile content as text"({ open }) {
    const { page, go, foreign } = await open();
    await go("/runs/@hostile");
    await page.getByText("alert(1)").first().waitFor();
    await page.waitForTimeout(300);
    assert.equal(await page.locator("main :is(img, script, iframe, style)").count(), 0);
    const links = await page.locator("main .markdown a").evaluateAll((all) => all.map(({ href, rel }) => [href, rel]));
    assert.ok(links.every(([href, rel]) => /^https:/.test(href) && rel.includes("noopener")), JSON.stringify(links));
    for (const tab of ["trace", "transcript", "events", "files"]) await go(`/runs/@hostile?tab=${tab}`).then(() => page.waitForTimeout(150));
    assert.deepEqual(foreign, []);
  },

  async "finds pages and runs in the palette"({ open, server }) {
    const { page, go } = await open();
    await go("/runs");
    await page.getByText("support-router").first().waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill(server.ids.done);
    await page.keyboard.press("Enter");
    await page.getByText("one needs a person").waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill("sched");
    await page.keyboard.press("Enter");
    await page.getByText("Every 30 minutes").waitFor();
  },

  async "gives its stream back while the page is hidden"({ open, server }) {
    const { page, go } = await open();
    await go("/runs/@live");
    await page.locator(".chip.state-live").waitFor();
    const setVisibility = (state) => page.evaluate((value) => {
      Object.defineProperty(document, "visibilityState", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, state);
    await setVisibility("hidden");
    await page.locator(".chip.state-paused").waitFor({ timeout: 8000 });
    const before = server.requests.length;
    await setVisibility("visible");
    await page.locator(".chip.state-live").waitFor();
    assert.equal(server.requests.length, before + 1);
  },

  async "makes a key, and shows its secret once"({ open }) {
    const { page, go } = await open();
    await go("/keys");
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Name").fill("deploy");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText("stk_4f9d0c2ab7e84c6f9a1e").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByText("stk_4f9d0c2ab7e84c6f9a1e").waitFor({ state: "detached" });
  },

  async "authorizes a connection with the code of the provider's page"({ open }) {
    const { page, go } = await open();
    await go("/connections");
    await page.getByRole("button", { name: "Authorize" }).click();
    await page.getByRole("link", { name: "Open the provider" }).waitFor();
    await page.getByLabel("Code").fill("BCDF-GHJK");
    await page.getByRole("button", { name: "Confirm" }).click();
    await page.getByText("Authorized as dana@example.com").waitFor();
  },
};

const wanted = process.argv[2];
const browser = await launch();
let failures = 0;
for (const [name, journey] of Object.entries(journeys)) {
  if (wanted && !name.includes(wanted)) continue;
  const server = await startServer();
  const opened = [];
  const open = async (options) => {
    const one = await openPage(browser, server, options);
    one.page.setDefaultTimeout(5000);
    opened.push(one);
    return one;
  };
  const started = Date.now();
  try {
    await journey({ open, server });
    assert.deepEqual(opened.flatMap(({ problems }) => problems), []);
    console.log(`ok      ${name} (${Date.now() - started} ms)`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED  ${name}\n${error.stack}`);
  }
  for (const { context } of opened) await context.close();
  server.close();
}
await browser.close();
console.log(failures ? `${failures} failed` : "all journeys passed");
process.exitCode = failures ? 1 : 0;
