// The page of a run.
import assert from "node:assert/strict";

export default {
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

  async "links to the trace of a run in the operator's tool"({ open, server }) {
    const run = server.data.runs.find(({ id }) => id === server.ids.failed);
    const trace = () => page.getByRole("link", { name: "Open trace" });
    server.data.me.features.trace_url = "https://traces.example.com/{trace_id}?from={trace_id}";
    const { page, go } = await open();
    await go("/runs/@failed");
    await page.getByRole("note").getByText("output.items[3].price: required").waitFor();
    assert.equal(await trace().count(), 0);
    run.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
    await page.reload();
    await trace().waitFor();
    assert.equal(await trace().getAttribute("href"), `https://traces.example.com/${run.trace_id}?from=${run.trace_id}`);
  },

  async "cancels a run after a question"({ open }) {
    const { page, go } = await open();
    await go("/runs/@live");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("is not undone").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await page.getByText("Cancelled").first().waitFor();
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

  async "selects a time on the map, and shows the whole run again"({ open }) {
    const { page, go } = await open();
    await go("/runs/@done?tab=trace");
    const map = page.locator(".map svg");
    await map.waitFor();
    await page.getByText("python3 match.py").first().waitFor();
    const box = await map.boundingBox();
    await page.mouse.move(box.x + box.width * 0.36, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.4, box.y + 40, { steps: 4 });
    await page.mouse.up();
    await page.getByText("1 of 15 steps").waitFor();
    assert.match(page.url(), /range=\d+-\d+/);
    await page.getByRole("button", { name: "Whole run" }).click();
    await page.getByText("ls -la invoices").waitFor();
    await page.mouse.click(box.x + box.width * 0.4, box.y + 40);
    await page.waitForURL(/event=15/);
    await page.getByRole("button", { name: "Zoom to step" }).click();
    await page.waitForURL(/range=/);
  },

  async "previews a file of a run, and offers it as a download"({ open }) {
    const { page, go } = await open();
    await go("/runs/@done?tab=files");
    await page.getByRole("button", { name: "matches.json", exact: true }).click();
    await page.getByRole("dialog").getByText('"matched"').waitFor();
    await page.keyboard.press("Escape");
    const download = page.waitForEvent("download");
    await page.getByRole("link", { name: "Download matches.json" }).click();
    assert.equal((await download).suggestedFilename(), "matches.json");
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
    await page.waitForLoadState("networkidle");
    assert.equal(reads(), 0);
    await page.getByRole("button", { name: "Read and delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Read and delete" }).click();
    await page.getByText("The code is 4711.").waitFor();
    assert.equal(reads(), 1);
  },

  async "shows hostile content as text"({ open }) {
    const { page, go, foreign } = await open();
    await go("/runs/@hostile");
    await page.locator("main .markdown td").first().waitFor();
    const links = await page.locator("main .markdown a").evaluateAll((all) => all.map(({ href, rel }) => [href, rel]));
    assert.ok(
      links.every(([href, rel]) => /^https:/.test(href) && rel.includes("noopener")),
      JSON.stringify(links),
    );
    for (const tab of ["answer", "trace", "transcript", "events", "files"]) {
      await go(`/runs/@hostile?tab=${tab}`);
      await page.locator(".panel").getByText(/alert\(1\)/).first().waitFor();
      await page.waitForLoadState("networkidle");
      assert.equal(await page.locator("main :is(img, script, iframe, style)").count(), 0, tab);
    }
    assert.deepEqual(foreign, []);
  },

  async "gives its stream back while the page is hidden"({ open, server }) {
    const { page, go } = await open();
    await go("/runs/@live");
    await page.locator(".chip.state-live").waitFor();
    const setVisibility = (state) =>
      page.evaluate((value) => {
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
};
