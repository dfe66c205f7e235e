// Journeys 3, 6 and 22 as far as they stop the engine.
import assert from "node:assert/strict";

const idsOf = (page) =>
  page.locator(".event").evaluateAll((all) => all.map((row) => Number(row.firstElementChild.textContent)));

async function showsEveryEvent(page, engine, run) {
  const events = await engine.api(`GET /v1/runs/${run}/events`);
  assert.deepEqual(
    await idsOf(page),
    events.map((event) => event.id),
  );
  return events;
}

export default {
  async "3 has every event once and in order when the engine restarts"({ open, engine }) {
    const id = await engine.run({ prompt: "script:reads", files: [{ path: "notes.txt", content: "notes\n" }] });
    const { page, go } = await open();
    // All events are in sight, also those at the end.
    await page.setViewportSize({ width: 1440, height: 2400 });
    await go(`/runs/${id}?tab=events`);
    await page.locator(".event").nth(4).waitFor();
    await engine.stop("SIGKILL");
    await page.getByText("reconnecting").first().waitFor();
    await engine.start();
    await page.locator(".event").filter({ hasText: "succeeded" }).first().waitFor({ timeout: 60_000 });
    await showsEveryEvent(page, engine, id);
  },

  async "22 has every event of a run that worked while the engine drained"({ open, engine }) {
    const id = await engine.run({ prompt: "script:reads", files: [{ path: "notes.txt", content: "notes\n" }] });
    const { page, go } = await open();
    await page.setViewportSize({ width: 1440, height: 2400 });
    await go(`/runs/${id}?tab=events`);
    await page.locator(".event").nth(4).waitFor();
    // The node serves the stream for as long as the run takes.
    await engine.stop();
    await page.locator(".event").filter({ hasText: "succeeded" }).first().waitFor();
    await engine.start();
    const events = await showsEveryEvent(page, engine, id);
    assert.ok(!events.some(({ type }) => type === "resumed"), "the run was not given the time to end");
  },

  async "6 names the call that may have had its effect"({ open, engine, orders }) {
    await engine.api("PUT /v1/connections/orders", {
      type: "http",
      url: orders.url,
      auth: { type: "bearer", token: "secret" },
    });
    const id = await engine.run({ prompt: "script:uncertain", connections: { orders: { ref: "orders" } } });
    await orders.asked("/slow");
    await engine.stop("SIGKILL");
    await engine.start();
    assert.equal((await engine.ended(id)).status, "interrupted");
    const { page, go } = await open();
    await go(`/runs/${id}`);
    await page.getByText("It may have had its effect").waitFor();
    await page.getByRole("note").getByText("orders__request").first().waitFor();
    await page.getByRole("button", { name: "Show the event" }).click();
    await page.waitForURL(/event=\d+/);
  },

  async "22 says that the engine is away or drains, and works again once it is back"({ open, engine }) {
    const { page, go } = await open();
    // The other pages are loaded once the first one is there.
    const others = page.waitForResponse(/manage\.js/);
    await go("/runs");
    await page.locator(".chip.state-live").waitFor();
    const address = (await others).url();
    // A module is loaded once all that it imports is.
    await page.evaluate((module) => import(module).then(() => {}), address);
    await engine.stop();
    await page.locator(".chip.state-reconnecting").waitFor();
    await page.getByRole("link", { name: "Budgets" }).click();
    await page.getByText("the engine cannot be reached", { exact: true }).waitFor();
    await engine.start();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("No budgets yet").or(page.locator(".budgets")).first().waitFor();
    await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Runs" }).click();
    await page.locator(".chip.state-live").waitFor({ timeout: 20_000 });
  },
};
