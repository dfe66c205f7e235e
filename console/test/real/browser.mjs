// Journeys 19, 21, 23: hostile content, eight tabs, a phone.
import assert from "node:assert/strict";
import { cancelled, fromPrompt, lists } from "./runs.mjs";

const PHONE = { width: 390 };

export default {
  async "19 shows hostile texts, outputs, file names and errors as text"({ open, engine }) {
    const id = await engine.run({ prompt: 'script:hostile <img src=x onerror="alert(1)">', tags: ["<b>tag</b>"] });
    await engine.ended(id);
    const broken = await engine.run({ prompt: "script:breaks" });
    await engine.ended(broken);
    const { page, go, foreign, audit } = await open();
    for (const tab of ["answer", "trace", "transcript", "events", "files", "tools", "definition"]) {
      await go(`/runs/${id}?tab=${tab}`);
      await page.locator(".panel").waitFor();
      await page.getByText(/alert\(1\)|shell/).first().waitFor();
      assert.equal(await page.locator("main :is(img, script, iframe, style)").count(), 0, tab);
      await audit();
    }
    await go(`/runs/${id}?tab=answer`);
    await page.locator("main .markdown").first().waitFor();
    const links = await page.locator("main .markdown a").evaluateAll((all) => all.map(({ href, rel }) => [href, rel]));
    assert.ok(links.length > 0);
    for (const [href, rel] of links) assert.ok(/^https:/.test(href) && rel.includes("noopener"), href);
    await go(`/runs/${broken}`);
    await page.getByText("onerror=alert(1)").first().waitFor();
    await go("/runs?status=failed");
    await page.getByText("onerror=alert(1)").first().waitFor();
    assert.equal(await page.locator("main :is(img, script, iframe)").count(), 0);
    assert.deepEqual(foreign, []);
  },

  async "21 keeps eight tabs alive: one stream a tab, none in hidden tabs"({ open, engine }) {
    const id = await engine.run({ prompt: "```wait 250000\n```", model: "runbook" });
    const { page: first, context, audit } = await open();
    const pages = [first];
    const setVisibility = (page, state) =>
      page.evaluate((value) => {
        Object.defineProperty(document, "visibilityState", { value, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, state);
    // A browser hides a tab when another one is opened. This one shows all of them, so the pages are made to believe it.
    const hideAll = () =>
      Promise.all(
        pages.map(async (page) => {
          await setVisibility(page, "hidden");
          await page.locator(".chip.state-paused").waitFor();
        }),
      );
    while (pages.length < 8) {
      const page = pages.length === 1 && first.url() === "about:blank" ? first : await context.newPage();
      if (page !== first) pages.push(page);
      await page.goto(`${engine.origin}/console/runs/${id}`);
      await page.locator(".chip.state-live").waitFor();
      if (pages.length % 4 === 0) await hideAll();
    }
    await setVisibility(first, "visible");
    await first.locator(".chip.state-live").waitFor();
    // Plain requests of the other tabs are answered too.
    await pages.at(-1).goto(`${engine.origin}/console/workflows`);
    await pages.at(-1).locator(".page .card").first().waitFor();
    await engine.api(`POST /v1/runs/${id}/cancel`);
    await first.getByText("Cancelled").first().waitFor();
    await audit();
  },

  "23 starts a run on a phone": (world) => fromPrompt(world, PHONE),
  "23 cancels a run on a phone": (world) => cancelled(world, PHONE),
  "23 filters runs on a phone": (world) => lists(world, PHONE),
};
