// Journeys 1, 17, 20, 22: sign-in, roles, refusals of foreign pages, and limits.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { startEngine } from "./engine.mjs";
import { cookieOf } from "./world.mjs";

export default {
  async "1 signs in by key, keeps the session, signs out"({ open, engine }) {
    const { page, go, audit } = await open({ isSignedIn: false });
    await page.goto(engine.origin);
    await page.waitForURL(/\/console\//);
    await page.getByLabel("API key").fill("sts_00000000000000000000000000000000");
    await audit();
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").or(page.locator(".error")).first().waitFor();
    await page.getByLabel("API key").fill(engine.key);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Runs", exact: true }).waitFor({ state: "attached" });
    await page.reload();
    await page.getByRole("link", { name: "New run" }).first().waitFor();
    assert.equal(await page.evaluate(() => document.cookie), "");
    await page.getByRole("button", { name: "Account and settings" }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.getByLabel("API key").waitFor();
    await go("/runs");
    await page.getByLabel("API key").waitFor();
  },

  async "1 opens signed in by `sortie console`, with a code that works once"({ open, engine }) {
    const address = /http\S+#code=\S+/.exec(engine.cli("console", "--print"))[0];
    const { page } = await open({ isSignedIn: false });
    await page.goto(address);
    await page.getByRole("link", { name: "New run" }).first().waitFor();
    assert.ok(!page.url().includes("code="));
    const second = await open({ isSignedIn: false });
    await second.page.goto(address);
    await second.page.getByRole("alert").waitFor();
    await second.page.getByLabel("API key").waitFor();
    // Another code in the same tab.
    await second.page.goto(/http\S+#code=\S+/.exec(engine.cli("console", "--print"))[0]);
    await second.page.getByRole("link", { name: "New run" }).first().waitFor();
  },

  async "1 ends the session when its key is revoked"({ open, engine, cookieOf }) {
    const made = await engine.api("POST /v1/admin/keys", { name: "short-lived", role: "member" });
    const { page, go } = await open({ cookie: () => cookieOf(made.key) });
    await go("/runs");
    await page.locator(".chip.state-live").waitFor();
    await engine.api(`DELETE /v1/admin/keys/${made.id}`);
    await page.getByText("Your session has ended").waitFor();
  },

  async "17 shows a member no action of an admin"({ open, engine, cookieOf }) {
    const { key } = await engine.api("POST /v1/admin/keys", { name: "member", role: "member" });
    const { page, go } = await open({ cookie: () => cookieOf(key) });
    for (const [path, button] of [
      ["/connections", "New connection"],
      ["/budgets", "New budget"],
    ]) {
      await go(path);
      await page.locator("h1").waitFor({ state: "attached" });
      await page.locator(".page .card").first().waitFor();
      assert.equal(await page.getByRole("button", { name: button }).count(), 0);
    }
    await go("/usage");
    await page.locator(".page .card").first().waitFor();
    await go("/keys");
    await page.getByText("Keys need the role admin.").waitFor();
  },

  async "20 refuses requests of other ports and origins, and is framed by none"({ open, engine }) {
    const { page, go, context } = await open();
    await go("/runs");
    await page.getByRole("link", { name: "New run" }).first().waitFor();
    const cookie = (await context.cookies(engine.origin)).map(({ name, value }) => `${name}=${value}`).join("; ");
    const send = (headers, method = "POST") =>
      fetch(`${engine.origin}/v1/runs`, {
        method,
        headers: { Cookie: cookie, "Content-Type": "application/json", ...headers },
        ...(method === "POST" && { body: '{"prompt": "foreign", "model": "runbook"}' }),
      });
    const own = { "Sec-Fetch-Site": "same-origin", "X-Sortie-Console": "1" };
    assert.equal((await send(own)).status, 202);
    for (const headers of [
      { "X-Sortie-Console": "1" },
      { ...own, "Sec-Fetch-Site": "same-site" },
      { ...own, "Sec-Fetch-Site": "cross-site" },
      { "X-Sortie-Console": "1", Origin: "http://127.0.0.1:1" },
      { "Sec-Fetch-Site": "same-origin" },
      { ...own, "Content-Type": "text/plain" },
    ])
      assert.ok([400, 403, 415].includes((await send(headers)).status), JSON.stringify(headers));
    assert.equal((await send({ "Sec-Fetch-Site": "cross-site" }, "GET")).status, 403);

    // A page of another port: its form is refused, and the console does not show in its frame.
    const foreign = createServer((_, response) => {
      response.writeHead(200, { "Content-Type": "text/html" });
      response.end(`<iframe src="${engine.origin}/console/"></iframe>`);
    });
    await new Promise((resolve) => foreign.listen(0, "127.0.0.1", resolve));
    const other = await context.newPage();
    await other.goto(`http://127.0.0.1:${foreign.address().port}/`);
    const status = await other.evaluate(
      (url) =>
        fetch(url, { method: "POST", mode: "no-cors", credentials: "include", body: '{"prompt":"foreign"}' }).then(
          () => "sent",
          () => "blocked",
        ),
      `${engine.origin}/v1/runs`,
    );
    assert.ok(["sent", "blocked"].includes(status));
    const frame = other.frames()[1];
    assert.equal(await frame.locator("input").count(), 0);
    const { items } = await engine.api("GET /v1/runs?limit=100&q=foreign");
    assert.equal(items.length, 1);
    foreign.close();
  },

  async "22 works offline as far as it can, and goes on when the network is back"({ open }) {
    const { page, go, context } = await open();
    await go("/workflows");
    await page.locator(".page .card").first().waitFor();
    await context.setOffline(true);
    await page.getByRole("link", { name: "Budgets" }).click();
    await page.getByText("the engine cannot be reached").waitFor();
    await context.setOffline(false);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("No budgets yet").or(page.locator(".budgets")).first().waitFor();
  },

  async "22 shows the seconds that a limit asks to wait"({ open }) {
    const limit = 40;
    const engine = await startEngine({ env: { SORTIE_RATE_LIMIT_PER_MINUTE: String(limit) } });
    try {
      const { page, go } = await open({ server: engine, cookie: () => cookieOf(engine.origin, engine.key) });
      await go("/workflows");
      await page.locator(".page .card").first().waitFor();
      const wait = page.getByRole("button", { name: /Try again in \d+ s/ });
      // The count begins anew with each minute of the clock, which may be between the requests and the page.
      for (let turn = 0; turn < 3 && !(await wait.isVisible()); turn += 1) {
        await page.evaluate(
          (count) => Promise.all(Array.from({ length: count }, () => fetch("/v1/me").then(({ status }) => status))),
          limit,
        );
        await page.getByRole("link", { name: turn % 2 ? "Workflows" : "Budgets" }).click();
        await wait.or(page.locator(".page .card, .page .empty")).first().waitFor();
      }
      await wait.waitFor();
      // The key of the session has a limit of its own.
      await engine.api("GET /v1/me");
    } finally {
      await engine.close();
    }
  },

  async "22 answers a cursor of other filters with a sentence"({ open, engine }) {
    await engine.answers(60);
    const { next_cursor } = await engine.api("GET /v1/runs?limit=1");
    const { page, go } = await open();
    await page.route(/\/v1\/runs\?.*cursor=/, (route) => {
      const url = new URL(route.request().url());
      url.searchParams.set("cursor", next_cursor);
      url.searchParams.set("tag", "other");
      return route.continue({ url: url.href });
    });
    await go("/runs");
    await page.getByRole("button", { name: "Older" }).click();
    await page.getByRole("alert").getByText("cursor").waitFor();
    await page.unroute(/\/v1\/runs\?.*cursor=/);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("alert").waitFor({ state: "detached" });
    await page.locator("tbody tr").nth(49).waitFor();
  },
};
