// Keys and connections.
export default {
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
