// Journeys 10, 11, 13, 14, 15: workflows, schedules, connections, budgets, keys.
import assert from "node:assert/strict";
import { audit } from "../axe.mjs";
import { startProvider } from "./services.mjs";

const SCHEMA = {
  type: "object",
  required: ["city"],
  properties: { city: { type: "string", title: "City", maxLength: 12 }, days: { type: "integer", minimum: 1, title: "Days" } },
};

export default {
  async "10 saves a workflow, starts it by its form, refuses to delete it while a schedule uses it"({ open, engine }) {
    const { page, go, audit } = await open();
    await go("/workflows/new");
    await page.getByLabel("Name", { exact: true }).fill("forecast");
    await page.getByLabel("Prompt", { exact: true }).fill("```answer\nSunny.\n```");
    await page.getByLabel("Input schema").fill(JSON.stringify(SCHEMA));
    await page.getByLabel("Model", { exact: true }).selectOption("runbook");
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForURL(/workflows\/forecast$/);
    await page.getByText("r1").first().waitFor();
    await audit();
    await page.getByRole("link", { name: "Run", exact: true }).click();
    await page.getByLabel("City").fill("A city whose name is too long");
    await page.getByRole("button", { name: "Start" }).click();
    await page.locator(".error").first().waitFor();
    assert.equal(await page.getByLabel("City").getAttribute("aria-invalid"), "true");
    await audit();
    await page.getByLabel("City").fill("Bergen");
    await page.getByRole("button", { name: "Start" }).click();
    await page.waitForURL(/runs\/run_/);
    await page.locator(".answer").getByText("Sunny.").first().waitFor();

    await go("/schedules?new=forecast");
    await page.getByLabel("Timetable").fill("0 7 * * MON-FRI");
    await page.getByLabel("City").fill("Bergen");
    await page.getByRole("button", { name: "Create" }).click();
    // The form shows the timetable in words as well.
    await page.locator("tr").filter({ hasText: "forecast" }).getByText("Monday to Friday").waitFor();
    await go("/workflows/forecast");
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.locator(".toasts .bad").waitFor();
    assert.equal((await engine.api("GET /v1/workflows/forecast")).name, "forecast");
  },

  async "11 runs a schedule now, pauses and resumes it, shows its next and last occurrence"({ open, engine }) {
    await engine.api("PUT /v1/workflows/tick", { prompt: "```answer\ntick\n```", model: "runbook" });
    const { id } = await engine.api("POST /v1/schedules", { workflow: "tick", cron: "*/30 * * * *", timezone: "UTC" });
    const { page, go, audit } = await open();
    await go("/schedules");
    const row = page.locator("tr").filter({ hasText: "tick" });
    await row.getByText("Every 30 minutes").waitFor();
    await row.getByText(/^in \d+ min|^now/).waitFor();
    await row.getByRole("button", { name: "Run now" }).click();
    await page.getByText("Started …").first().waitFor();
    await row.locator("a").first().waitFor();
    await row.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Pause: 1 h" }).click();
    await row.getByText("Paused").waitFor();
    await audit();
    await row.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Resume" }).click();
    await row.getByText("On", { exact: true }).waitFor();
    await row.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "History" }).click();
    await page.getByRole("dialog").getByText("Started").first().waitFor();
    await engine.api(`DELETE /v1/schedules/${id}`);
  },

  async "13 saves, tests and names connections of each authentication"({ open, orders }) {
    const { page, go, audit } = await open();
    const make = async (name, auth, fields) => {
      await page.getByRole("button", { name: "New connection" }).click();
      await page.getByLabel("Name", { exact: true }).first().fill(name);
      await page.getByLabel("Address").fill(orders.url);
      await page.getByLabel("Authentication").selectOption(auth);
      for (const [label, text] of fields) await page.getByLabel(label, { exact: true }).last().fill(text);
      if (name === "shop-bearer") await audit();
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("dialog").waitFor({ state: "detached" });
      const card = page.getByRole("region", { name, exact: true });
      await card.getByRole("button", { name: "Test" }).click();
      return card;
    };
    await go("/connections");
    await (await make("shop-bearer", "bearer", [["Token", "secret"]])).getByText(/200/).waitFor();
    await (await make("shop-refused", "bearer", [["Token", "wrong"]])).getByText(/401/).first().waitFor();
    await (
      await make("shop-basic", "basic", [
        ["User name", "ada"],
        ["Password", "lovelace"],
      ])
    )
      .getByText(/401/)
      .first()
      .waitFor();
    await (
      await make("shop-header", "header", [
        ["Name", "X-Shop"],
        ["Value", "4711"],
      ])
    )
      .getByText(/401/)
      .first()
      .waitFor();
    await make("shop-open", "none", []);
    assert.equal(await page.getByText("lovelace").count(), 0);
  },

  async "14 shows a budget, and what it refused"({ open, engine }) {
    await engine.api("PUT /v1/workflows/small", { prompt: "script:writes" });
    const { page, go, audit } = await open();
    await go("/budgets");
    await page.getByRole("button", { name: "New budget" }).first().click();
    await page.getByLabel("Scope").selectOption("workflow");
    await page.getByLabel("Name or ID").fill("small");
    await page.getByLabel("Limit").fill("$0.01");
    await audit();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByText("small").first().waitFor();
    await go("/runs/new?workflow=small");
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByText(/budget/i).first().waitFor();
    await page.getByRole("alert").waitFor();
  },

  async "13 authorizes a connection with the code of the page that consent leads to"({ open }) {
    const provider = await startProvider();
    try {
      const { page, context, go, problems, audit: auditPage } = await open();
      await go("/connections");
      await page.getByRole("button", { name: "New connection" }).click();
      const dialog = page.getByRole("dialog");
      const fill = (label, text) => dialog.getByLabel(label, { exact: true }).first().fill(text);
      await fill("Name", "tracker");
      await fill("Address", `${provider.url}/api`);
      await fill("Allowed methods", "BREW");
      await page.getByRole("button", { name: "Save" }).click();
      // No field has this name.
      await dialog.getByRole("alert").getByText("allowed_methods[0]").waitFor();
      await fill("Allowed methods", "GET");
      await page.getByLabel("Authentication").selectOption("oauth");
      await page.getByRole("button", { name: "Save" }).click();
      await dialog.locator(".error").getByText("required for type http").waitFor();
      await auditPage();
      await fill("Authorization address", `${provider.url}/authorize`);
      await fill("Token address", `${provider.url}/token`);
      await fill("Client ID", "console");
      await page.getByRole("button", { name: "Save" }).click();
      const card = page.getByRole("region", { name: "tracker", exact: true });
      // The next step opens by itself.
      const opened = context.waitForEvent("page");
      await page.getByRole("link", { name: "Open the provider" }).click();
      const consent = await opened;
      await consent.getByRole("link", { name: "Allow" }).click();
      await consent.waitForURL(/oauth\/callback/);
      problems.push(...(await audit(consent)));
      const code = await consent.getByText(/^[A-Z]{4}-[A-Z]{4}$/).first().textContent();
      await consent.close();
      await page.getByLabel("Code").fill("BCDF-GHJK");
      await page.getByRole("button", { name: "Confirm" }).click();
      await dialog.locator(".error, [role=alert]").first().waitFor();
      await page.getByLabel("Code").fill(code);
      await page.getByRole("button", { name: "Confirm" }).click();
      await card.getByText("Ready").waitFor();
      await card.getByRole("button", { name: "Test" }).click();
      await card.getByText(/200/).waitFor();
    } finally {
      provider.close();
    }
  },

  async "15 makes, rotates and revokes keys, but not the last one of an admin"({ open, engine }) {
    const { page, go, audit } = await open();
    await go("/keys");
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Name").fill("deploy");
    await page.getByRole("button", { name: "Create" }).click();
    const secret = await page.locator("dialog pre, [role=dialog] pre").textContent();
    assert.match(secret, /^sts_/);
    await audit();
    const asked = await fetch(`${engine.origin}/v1/me`, { headers: { Authorization: `Bearer ${secret}` } });
    assert.equal(asked.status, 200);
    await page.getByRole("button", { name: "I have saved it" }).click();
    assert.equal(await page.getByText(secret).count(), 0);
    const actions = page.getByRole("button", { name: "More actions: deploy" });
    await actions.click();
    await page.getByRole("menuitem", { name: "Rotate" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByText("old secret works").waitFor();
    await actions.click();
    await page.getByRole("menuitem", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("textbox").fill("deploy");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await actions.waitFor({ state: "detached" });
    const all = await engine.api("GET /v1/admin/keys");
    const own = all.find(({ role, expires_at }) => role === "admin" && !expires_at);
    await page.getByRole("button", { name: `More actions: ${own.name}` }).click();
    await page.getByRole("menuitem", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("textbox").fill(own.name);
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("the last admin key").first().waitFor();
  },
};
