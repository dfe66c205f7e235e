// Sign-in, sessions, roles, refusals.
import assert from "node:assert/strict";

export default {
  async "signs in by key, keeps the session, signs out"({ open }) {
    const { page, go } = await open({ isSignedIn: false });
    await go("/runs");
    await page.getByLabel("API key").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("this key is not valid").waitFor();
    await page.getByLabel("API key").fill("sts_valid");
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
    const second = await open({ isSignedIn: false });
    await second.go("/runs#code=USED");
    await second.page.getByRole("alert").getByText("not valid").waitFor();
    await second.page.getByLabel("API key").waitFor();
  },

  async "says so when the session ends"({ open, server }) {
    const { page, go } = await open();
    await go("/runs");
    await page.getByText("invoice-triage").first().waitFor();
    server.data.isRevoked = true;
    await page.getByRole("link", { name: "Failed" }).click();
    await page.getByText("Your session has ended").waitFor();
  },

  async "keeps the session while the engine is away for a moment"({ open, server }) {
    const { page, go } = await open();
    await go("/budgets");
    await page.getByText("price-watch").waitFor();
    server.data.refusal = [503, "unavailable", "the engine is draining"];
    await page.reload();
    await page.getByText("the engine is draining").waitFor();
    server.data.refusal = undefined;
    await page.getByRole("link", { name: "Keys" }).waitFor();
    await page.getByRole("button", { name: "Try again", exact: true }).click();
    await page.getByText("price-watch").waitFor();
  },

  async "works on a plain address without HTTPS"({ open, server }) {
    server.origin = server.origin.replace("127.0.0.1", "console.test");
    const { page, go } = await open();
    await go("/runs/new");
    await page.getByLabel("Prompt", { exact: true }).fill("Say hello.");
    assert.equal(await page.evaluate(() => isSecureContext), false);
    await page.getByRole("button", { name: "Copy as curl" }).click();
    await page.getByText("Copied").waitFor();
    await page.getByRole("button", { name: "Start" }).click();
    await page.waitForURL(/runs\/run_/);
  },

  async "names the first organization of a hosted deployment, and works in it"({ open, serve }) {
    const server = await serve({ isHosted: true });
    const { page, go } = await open({ server });
    await go("/");
    await page.getByLabel("Name").fill("Example Inc.");
    await page.getByRole("button", { name: "Create organization" }).click();
    await page.waitForURL(/console\/o\/org_new\/runs$/);
    await page.getByText("support-router").first().waitFor();
    await page.getByRole("link", { name: "Budgets" }).click();
    await page.waitForURL(/console\/o\/org_new\/budgets$/);
    await page.getByText("price-watch").waitFor();
    assert.ok(server.requests.includes("GET /engine/org_new/v1/budgets"));
    assert.ok(!server.requests.includes("GET /v1/me"));
    await page.getByRole("link", { name: "Members" }).click();
    await page.getByRole("button", { name: "Invite" }).click();
    await page.getByRole("dialog").getByText("This deployment sends no mail").waitFor();
    await page.getByRole("dialog").getByText("the operator creates accounts").waitFor();
    await page.getByLabel("Email address").fill("finn@example.com");
    await page.getByRole("dialog").getByRole("button", { name: "Invite" }).click();
    await page.getByText("token=sti_example").waitFor();
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByText("finn@example.com").waitFor();
    await page.getByRole("link", { name: "Keys" }).click();
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Name").fill("first");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByRole("link", { name: "Credits" }).click();
    await page.getByText("$58.30").waitFor();
    await page.getByRole("button", { name: "Account and settings" }).click();
    await page.getByRole("menuitem", { name: "Switch organization" }).click();
    await page.getByRole("link", { name: "Example Inc." }).click();
    await page.waitForURL(/console\/o\/org_new\/runs$/);
    // The page that lists the organizations is no page of runs, not even at first.
    assert.deepEqual(
      server.requests.filter((request) => request.startsWith("GET /v1/runs")),
      [],
    );
  },

  async "shows a member no action of an admin"({ open, server }) {
    server.data.me.role = "member";
    const { page, go } = await open();
    await go("/connections");
    await page.getByText("erp.example.com").waitFor();
    assert.equal(await page.getByRole("button", { name: "New connection" }).count(), 0);
    assert.equal(await page.getByRole("button", { name: "Authorize" }).count(), 0);
    assert.equal(await page.getByRole("link", { name: "Keys" }).count(), 0);
    await go("/budgets");
    await page.getByText("price-watch").waitFor();
    assert.equal(await page.getByRole("button", { name: "New budget" }).count(), 0);
    await go("/keys");
    await page.getByText("Keys need the role admin.").waitFor();
    assert.ok(!server.requests.some((request) => request.includes("/admin/")));
  },

  async "says what a refusal means, counts down, and goes on"({ open, server }) {
    const { page, go } = await open();
    await go("/models");
    await page.getByText("claude-sonnet-5-5").first().waitFor();
    server.data.refusal = [429, "rate_limited", "too many requests"];
    await page.getByRole("link", { name: "Budgets" }).click();
    await page.getByText("too many requests").waitFor();
    await page.getByRole("button", { name: /Try again in \d s/ }).waitFor();
    server.data.refusal = undefined;
    await page.getByRole("button", { name: "Try again", exact: true }).click();
    await page.getByText("price-watch").waitFor();
  },

  async "says that the engine is away, and loads once it is back"({ open }) {
    const { page, go, context: browserContext } = await open();
    await go("/workflows");
    await page.getByText("hourly-digest").waitFor();
    await browserContext.setOffline(true);
    await page.getByRole("link", { name: "Budgets" }).click();
    await page.getByText("the engine cannot be reached").waitFor();
    await browserContext.setOffline(false);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("price-watch").waitFor();
  },

  async "counts by the engine's clock where that of the browser is wrong"({ open, serve }) {
    const server = await serve({ now: Date.now() + 3_600_000, isStill: true });
    const { page, go } = await open({ server });
    await go("/runs/@live");
    await page.locator(".chip.state-live").waitFor();
    await page
      .locator(".facts dd")
      .filter({ hasText: /^[4-7]\d\.\d s|^1 min/ })
      .first()
      .waitFor();
  },
};
