// Keys, connections, credits.
import assert from "node:assert/strict";

export default {
  async "makes a key, and shows its secret once"({ open }) {
    const { page, go } = await open();
    await go("/keys");
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Name").fill("deploy");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText("sts_4f9d0c2ab7e84c6f9a1e").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByText("sts_4f9d0c2ab7e84c6f9a1e").waitFor({ state: "detached" });
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

  async "names the workflows that use a connection, also before it is deleted"({ open, server }) {
    const { page, go } = await open();
    await go("/connections");
    const card = page.getByRole("region", { name: "erp" });
    await card.getByText("used by invoice-triage").waitFor();
    assert.equal(await page.getByText("used by").count(), 1);
    await card.getByRole("button", { name: "More actions: erp" }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await page.getByRole("dialog").getByText("Used by invoice-triage: their runs are refused").waitFor();
    assert.ok(!server.requests.some((request) => request.includes("/v1/workflows")));
  },

  async "turns automatic purchases off and on again, and shows payments"({ open, serve }) {
    const server = await serve({ isHosted: true });
    const { page } = await open({ server });
    await page.goto(`${server.origin}/console/o/org_new/credits`);
    await page.getByText("Buys $50 when less than $10 is available.").waitFor();
    await page.getByRole("button", { name: "Turn off" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Turn off" }).click();
    await page.getByRole("button", { name: "Turn on" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Amount").fill("$75");
    assert.ok(await dialog.getByRole("button", { name: "Turn on" }).isDisabled());
    await dialog.getByText("Charge $75 to the saved card").click();
    await dialog.getByRole("button", { name: "Turn on" }).click();
    await page.getByText("Buys $75 when less than $10 is available.").waitFor();
    assert.deepEqual(server.data.billing.auto_topup.consent, true);
    await page.getByRole("button", { name: "Payments and receipts" }).click();
    await page.getByRole("dialog").getByText("$5 refunded").waitFor();
  },
};
