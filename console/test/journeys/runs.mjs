// The list of runs, the palette, new runs.
import assert from "node:assert/strict";

export default {
  async "filters runs, and the address restores the filters"({ open }) {
    const { page, go } = await open();
    await go("/runs");
    await page.getByText("support-router").first().waitFor();
    await page.getByRole("link", { name: "Failed", exact: true }).click();
    await page.getByText("support-router").first().waitFor({ state: "detached" });
    assert.equal(new URL(page.url()).searchParams.get("status").split(",").length, 3);
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

  async "keeps the list up to date: rows change, come and go"({ open, server }) {
    const { page, go } = await open();
    await go("/runs?status=queued,starting,running");
    await page.locator(".chip.state-live").waitFor();
    await page.locator("tbody tr").nth(3).waitFor();
    server.change(server.ids.live, { cost_micros: 231_000 });
    await page.getByText("$0.231").waitFor();
    server.change(server.ids.live, { status: "succeeded", finished_at: new Date().toISOString() });
    await page.getByText("$0.231").waitFor({ state: "detached" });
    const id = "run_01m811fq27ec1bm7gm628nzz99";
    server.change(id, { created_at: new Date().toISOString(), status: "queued", title: "Just started" });
    await page.getByText("Just started").waitFor();
    assert.equal(await page.locator("tbody tr .name").first().textContent(), "Just startedAd hoc");
  },

  async "keeps a change that comes while the list is read anew"({ open, server }) {
    const { page, go } = await open();
    await go("/runs");
    await page.locator(".chip.state-live").waitFor();
    await page.locator("tbody tr").nth(3).waitFor();
    await page.route(/\/v1\/runs\?/, async (route) => {
      if (route.request().headers().accept === "text/event-stream") return route.continue();
      const response = await route.fetch();
      server.change(server.ids.live, { cost_micros: 231_000 });
      await page.getByText("$0.231").waitFor();
      return route.fulfill({ response });
    });
    const answered = page.waitForResponse(
      (response) => /\/v1\/runs\?/.test(response.url()) && !/event-stream/.test(response.headers()["content-type"]),
    );
    server.reset();
    await (await answered).finished();
    await page.evaluate(() => new Promise((done) => setTimeout(() => requestAnimationFrame(done))));
    assert.equal(await page.getByText("$0.231").count(), 1);
  },

  async "shows each answer though the feed begins anew while it is read"({ open, server }) {
    const { page, go } = await open();
    await go("/runs");
    await page.locator(".chip.state-live").waitFor();
    await page.locator("tbody tr").nth(3).waitFor();
    let release;
    const held = new Promise((resolve) => (release = resolve));
    let reads = 0;
    await page.route(/\/v1\/runs\?/, async (route) => {
      if (route.request().headers().accept === "text/event-stream") return route.continue();
      const response = await route.fetch();
      const read = (reads += 1);
      if (read === 1) {
        server.reset();
        server.change(server.ids.live, { cost_micros: 231_000 });
        await page.getByText("$0.231").waitFor();
      } else await held;
      const json = await response.json();
      json.items[1].title = `Read ${read}`;
      return route.fulfill({ response, json });
    });
    server.reset();
    await page.getByText("Read 1").waitFor();
    release();
    await page.getByText("Read 2").waitFor();
  },

  async "filters by the days that are dragged over in the chart"({ open }) {
    const { page, go } = await open();
    await go("/runs?workflow=price-watch");
    const days = page.locator(".days");
    await page.locator(".day i").first().waitFor();
    const box = await days.boundingBox();
    const x = (day) => box.x + (box.width / 30) * (day + 0.5);
    await page.mouse.move(x(20), box.y + 20);
    await page.mouse.down();
    await page.mouse.move(x(22), box.y + 20, { steps: 4 });
    await page.mouse.up();
    await page.waitForURL(/since=/);
    const { searchParams } = new URL(page.url());
    const length = Date.parse(searchParams.get("until")) - Date.parse(searchParams.get("since"));
    assert.equal(length, 3 * 86_400_000);
    assert.equal(searchParams.get("workflow"), "price-watch");
    assert.equal(await page.locator(".day.on").count(), 3);
    await page.getByText("No run matches").waitFor();
    await page.getByRole("button", { name: "Created" }).click();
    await page.getByRole("menuitemcheckbox", { name: "any" }).click();
    await page.getByText("output does not match").first().waitFor();
    assert.equal(await page.locator(".day.on").count(), 30);
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
    await page.getByText("Cancel 4 runs?").waitFor();
    await page.getByRole("button", { name: "Cancel all that match" }).click();
    await page.getByText("4 runs done").waitFor();
    assert.equal(server.requests.filter((request) => request.startsWith("POST /v1/runs/cancel")).length, 2);
  },

  async "starts a run from a prompt with a file"({ open, server }) {
    const { page, go } = await open();
    await go("/runs/new");
    await page.getByLabel("Prompt", { exact: true }).fill("Count the lines.");
    await page
      .locator("input[type=file]")
      .setInputFiles({ name: "lines.txt", mimeType: "text/plain", buffer: Buffer.from("a\nb\n") });
    await page.getByText("sent with the run").waitFor();
    await page.getByLabel("Budget").fill("$0.50");
    const json = JSON.parse(await page.getByLabel("Request").inputValue());
    assert.deepEqual(json, {
      prompt: "Count the lines.",
      files: [{ path: "lines.txt", content: "a\nb\n" }],
      max_cost_micros: 500_000,
    });
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

  async "finds pages and runs in the palette"({ open, server }) {
    const { page, go } = await open();
    await go("/runs");
    await page.getByText("support-router").first().waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Page, workflow or run ID" }).fill(server.ids.done);
    await page.keyboard.press("Enter");
    await page.getByText("one needs a person").waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Page, workflow or run ID" }).fill("sched");
    await page.keyboard.press("Enter");
    await page.getByText("Every 30 minutes").waitFor();
  },

  async "opens the pages of a run by keyboard alone"({ open }) {
    const { page, go } = await open();
    await go("/runs");
    await page.getByText("support-router").first().waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.waitForURL(/runs\/run_/);
    await page.keyboard.press("n");
    await page.waitForURL(/runs\/new/);
    await page.getByLabel("Prompt", { exact: true }).focus();
    await page.keyboard.type("n?jk");
    assert.equal(await page.getByLabel("Prompt", { exact: true }).inputValue(), "n?jk");
  },
};
